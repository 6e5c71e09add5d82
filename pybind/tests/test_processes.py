"""Rings between real processes: spawned, killed and forked ones, which attach by name."""

from __future__ import annotations

import multiprocessing as mp
import os
import pickle
import platform
import select
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import backcast as bc
import numpy as np
import pytest
from conftest import Child
from other_threads import others_run
from waits import join, read_line

COLUMNS: dict[str, Any] = {"obs": ("f8", (64,)), "worker": "i4"}

WRITER = """
import sys, numpy as np, backcast as bc
lanes, rows = map(int, sys.argv[2:4])
buf = bc.ReplayBuffer.attach(sys.argv[1])
with buf, buf.writer(lanes=lanes, autoreset_mode="next_step") as w:
    print(*w.lanes, flush=True)
    ends = np.zeros(lanes, bool)
    step = 0
    while step < rows or rows < 0:
        value = np.repeat((w.lanes * 1e6 + step)[:, None], 64, axis=1)
        w.append(obs=value, worker=np.full(lanes, 7), terminated=ends, truncated=ends)
        step += 1
        if step == 3:
            print("writing", flush=True)
    sys.stdin.read()
"""


def spawned_writer(name: str, place: str, steps: int, worker: int) -> None:
    """Attach by name in a spawned process and write."""
    with (
        bc.ReplayBuffer.attach(name, dir=place) as buf,
        buf.writer(lanes=2, autoreset_mode="next_step") as writer,
    ):
        for step in range(steps):
            writer.append(
                obs=np.full((2, 64), worker * 1000 + step),
                worker=[worker, worker],
                terminated=[step % 10 == 9] * 2,
                truncated=[False, False],
            )


def spawned_reader(buf: bc.ReplayBuffer, answers: Any) -> None:  # noqa: ANN401 - a queue
    """Read the parent's rows through a pickled handle."""
    batch = buf.sampler(seed=11, history=3).sample(64)
    answers.put((len(buf), batch.index, batch["obs"]))


def test_spawned_writers_are_read_by_name(place: Path) -> None:
    context = mp.get_context("spawn")
    with bc.ReplayBuffer.create("p", COLUMNS, capacity=4000, lanes=4, dir=place) as buf:
        workers = [
            context.Process(target=spawned_writer, args=("p", str(place), 205, worker))
            for worker in [1, 2]
        ]
        for worker in workers:
            worker.start()
        # Every tenth append ends an episode, and the one after it stores the FINAL row.
        assert buf.wait(100, timeout=60) >= 100
        for worker in workers:
            worker.join(60)
            assert worker.exitcode == 0
        assert buf.stats()["rows_published"] == 4 * 205
        batch = buf.sample(2000)
        assert set(batch["worker"].tolist()) == {1, 2}
        assert (batch["obs"] == batch["obs"][:, :1]).all()
        assert (batch["next_obs"][:, 0] == batch["obs"][:, 0] + 1).all()
        lanes = {(int(i) >> 48, w) for i, w in zip(batch.index, batch["worker"], strict=True)}
        assert len(lanes) == 4, "two lanes each"


def test_a_pickled_buffer_attaches_by_name_and_draws_the_same(place: Path) -> None:
    context = mp.get_context("spawn")
    with bc.ReplayBuffer.create("p", COLUMNS, capacity=1000, lanes=2, dir=place) as buf:
        spawned_writer("p", str(place), 100, 1)
        again = pickle.loads(pickle.dumps(buf))
        assert again.path == buf.path
        again.close()
        assert pickle.loads(pickle.dumps(buf.schema)) == buf.schema
        answers = context.Queue()
        reader = context.Process(target=spawned_reader, args=(buf, answers))
        reader.start()
        size, index, obs = answers.get(timeout=60)
        reader.join(60)
        assert size == len(buf)
        mine = buf.sampler(seed=11, history=3).sample(64)
        np.testing.assert_array_equal(mine.index, index)
        np.testing.assert_array_equal(mine["obs"], obs)


def test_a_killed_writers_lanes_are_adopted(
    place: Path, start: Callable[..., Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BACKCAST_DIR", str(place))
    with bc.ReplayBuffer.create("k", COLUMNS, capacity=2000, lanes=2) as buf:
        for death in range(3):
            child = start(WRITER, "k", "2", "-1")
            lanes = sorted(map(int, read_line(child).split()))
            assert lanes == [0, 1]
            assert read_line(child) == "writing\n"
            with pytest.raises(bc.errors.WriterError, match=str(child.pid)):
                buf.writer()
            child.send_signal(signal.SIGKILL)
            child.wait(60)
            heads = [buf.lane_span(lane)[1] for lane in lanes]
            with buf.writer(lanes=2, autoreset_mode="next_step") as successor:
                ends = [False, False]
                successor.append(
                    obs=np.zeros((2, 64)), worker=[0, 0], terminated=ends, truncated=ends
                )
            for lane, head in zip(lanes, heads, strict=True):
                first = buf.rows(lane, head, 1)
                assert first["flags"][0] & 8, "the successor's row does not continue the dead's"
                assert first["t"][0] == 0
            rows = buf.sample(500)
            assert (rows["obs"] == rows["obs"][:, :1]).all(), "no torn row"
            assert (rows["next_obs"] == rows["next_obs"][:, :1]).all()
            assert buf.stats()["lane_stats"][0]["generation"] == 2 * (death + 1)


PARENT = """
import ctypes, os, signal, sys
import backcast as bc
writer = bc.ReplayBuffer.attach("p").writer(lanes=2, autoreset_mode="disabled")
number = int(sys.argv[1])
child = ctypes.CDLL(None).syscall(number, signal.SIGCHLD, 0, 0, 0, 0) if number else os.fork()
if child == 0:
    os.write(1, b"forked\\n")
    os.read(0, 1)
    os._exit(0)
os.write(1, b"%d\\n" % child)
os.read(0, 1)
"""
# Number of the system call `clone`, which forks without the C library's fork handlers.
CLONE = {"x86_64": 56, "aarch64": 220}.get(platform.machine())


@pytest.mark.skipif(sys.platform != "linux", reason="Linux says who holds a lock")
@pytest.mark.parametrize("call", [0, CLONE] if CLONE else [0], ids=str)
def test_a_forked_child_keeps_no_lane_or_is_named(
    place: Path, start: Callable[..., Child], call: int
) -> None:
    with bc.ReplayBuffer.create("p", COLUMNS, capacity=400, lanes=2, dir=place) as buf:
        parent = start(PARENT, str(call))
        # The child releases its lanes once it runs, so both lines are read first.
        child = int(min(read_line(parent) for _ in range(2)))
        try:
            with pytest.raises(bc.errors.WriterError, match=rf"\b2\b.*\b{parent.pid}\b"):
                buf.writer()
            parent.kill()
            parent.wait(60)
            if call:
                forked = rf"\b{child}\b.*\b{parent.pid}\b"
                with pytest.raises(bc.errors.WriterError, match=forked):
                    buf.writer()
                lanes = buf.stats()["lane_stats"]
                assert [(lane["held"], lane["pid"]) for lane in lanes] == [(True, child)] * 2
            else:
                buf.writer(lanes=2, autoreset_mode="next_step").close()
        finally:
            # The last holder removes the ring, so the killed child must end before `buf` is closed.
            ends = os.pidfd_open(child)
            os.kill(child, signal.SIGKILL)
            select.select([ends], [], [])
            os.close(ends)


def test_the_last_process_to_leave_takes_the_ring_along(
    place: Path, start: Callable[..., Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BACKCAST_DIR", str(place))
    buf = bc.ReplayBuffer.create("g", COLUMNS, capacity=100)
    child = start(WRITER, "g", "1", "5")
    read_line(child)
    assert read_line(child) == "writing\n"
    buf.close()
    assert [entry["held"] for entry in bc.list_objects()] == [True]
    out, err = child.communicate(timeout=60)
    assert (child.returncode, out, err) == (0, "", "")
    assert bc.list_objects() == []


def test_rings_of_a_dead_process_are_garbage(
    place: Path, start: Callable[..., Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BACKCAST_DIR", str(place))
    child = start(
        "import backcast as bc, sys\n"
        "bufs = [bc.ReplayBuffer.create(n, {'x': 'f4'}, capacity=10, persistent=n == 'keep')"
        " for n in ['lost', 'keep']]\n"
        "print('made', flush=True); sys.stdin.read()"
    )
    assert read_line(child) == "made\n"
    assert bc.collect_garbage() == []
    child.kill()
    child.wait(60)
    assert [entry["name"] for entry in bc.collect_garbage()] == ["lost"]
    assert bc.remove_object("keep")["persistent"] is True


def test_a_wait_ends_when_the_buffer_is_closed(place: Path) -> None:
    buf = bc.ReplayBuffer.create("t", {"x": "f4"}, capacity=100, dir=place)
    waits = threading.Event()

    def close() -> None:
        waits.wait(60)
        buf.close()

    thread = threading.Thread(target=close)
    thread.start()
    waits.set()
    # The result is the same whether the close comes before or during the wait.
    with pytest.raises(bc.ClosedError):
        buf.wait(50, timeout=60)
    join(thread)
    assert bc.list_objects(place) == []


def test_a_wait_lets_other_threads_work(place: Path) -> None:
    with bc.ReplayBuffer.create("t", {"x": "f4"}, capacity=1000, dir=place) as buf:

        def write() -> None:
            with buf.writer() as writer:
                for _ in range(101):
                    writer.append(x=0, terminated=False, truncated=False)

        thread = threading.Thread(target=write)
        thread.start()
        assert buf.wait(100, timeout=60) >= 100
        join(thread)
        assert buf.wait(50, timeout=0) == 100


def test_threads_may_share_every_handle(place: Path) -> None:
    stop = threading.Event()
    errors: list[Exception] = []
    with (
        bc.ReplayBuffer.create("t", COLUMNS, capacity=500, lanes=2, dir=place) as buf,
        buf.writer(lanes=2, autoreset_mode="next_step") as writer,
        buf.sampler(seed=1, history=2) as sampler,
    ):
        ends = [False, False]

        def write() -> None:
            step = 0
            while not stop.is_set():
                values = np.full((2, 64), step)
                writer.append(obs=values, worker=ends, terminated=ends, truncated=ends)
                step += 1

        def read() -> None:
            try:
                buf.wait(10)
                for _ in range(200):
                    for batch in [buf.sample(16), sampler.sample(16)]:
                        assert (batch["obs"] == batch["obs"][..., :1]).all()
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=work) for work in [write, write, read, read]]
        for thread in threads:
            thread.start()
        join(*threads[2:])
        stop.set()
        join(*threads)
    assert errors == []


def test_other_threads_run_while_a_sample_copies(place: Path) -> None:
    with bc.ReplayBuffer.create("t", {"obs": ("u1", (84, 84))}, capacity=1000, dir=place) as buf:
        with buf.writer() as writer:
            for step in range(1000):
                writer.append(obs=np.full((84, 84), step % 251), terminated=False, truncated=False)
        assert others_run(lambda: buf.sample(1024)), "while samples are copied"


def test_holders_are_those_of_the_kernels_locks(start: Callable[..., Child], place: Path) -> None:
    buf = bc.ReplayBuffer.create("r", {"obs": "f4"}, capacity=100, dir=place)
    code = "buf = bc.ReplayBuffer.attach('r'); print(1, flush=True); input()"
    child = start(f"import backcast as bc; {code}")
    read_line(child)
    [listed] = bc.list_objects(dir=place)
    assert listed["holders"] == sorted([os.getpid(), child.pid])
    child.kill()
    child.wait(60)
    assert bc.list_objects(dir=place)[0]["holders"] == [os.getpid()]
    buf.close()
