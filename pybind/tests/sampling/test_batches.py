"""Batches that a background thread draws ahead of the caller."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import backcast as bc
import numpy as np
import pytest
from conftest import Child
from counted_ring import COLUMNS, assert_equal, filled, write
from waits import WATCHDOG_S, exit_code_of, join, read_line


def threads() -> int:
    """Count the threads of this process that draw ahead."""
    count = 0
    for task in os.listdir("/proc/self/task"):
        # Another thread may end between the listing and the open.
        with suppress(FileNotFoundError), open(f"/proc/self/task/{task}/comm") as name:
            count += name.read().startswith("backcast-batche")
    return count


def settles_at(count: int) -> bool:
    """Wait until ``count`` threads draw ahead, at most a minute, and return whether they do.

    A thread that was joined may stay in the kernel's list for a moment.
    """
    deadline = time.monotonic() + WATCHDOG_S
    while threads() != count and time.monotonic() < deadline:
        os.sched_yield()
    return threads() == count


# Since Python 3.12 `os.fork` warns if other threads run. These tests fork beside threads.
FORKS_BESIDE_THREADS = pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
SETTINGS: dict[str, Any] = {"history": 4, "future": 1, "n_step": 3, "gamma": 0.9}


@pytest.mark.parametrize("reuse", [False, True], ids=["fresh", "reuse"])
@pytest.mark.parametrize("prefetch", [0, 1, 2, 9])
def test_every_depth_gives_the_batches_that_sampling_gives(prefetch: int, reuse: bool) -> None:
    buf = filled()
    plain, sampler = buf.sampler(seed=3, **SETTINGS), buf.sampler(seed=3, **SETTINGS)
    drawn = 0
    for batch in sampler.batches(32, prefetch=prefetch, limit=12, reuse=reuse):
        assert type(batch) is bc.Batch
        assert_equal(batch, plain.sample(32))
        drawn += 1
    assert drawn == 12
    assert_equal(sampler.sample(32), plain.sample(32))
    assert settles_at(0)


def test_fresh_batches_are_the_callers_own_and_reused_ones_come_round() -> None:
    sampler = filled().sampler(seed=3, **SETTINGS)
    kept = list(sampler.batches(32, prefetch=2, limit=10))
    again = filled().sampler(seed=3, **SETTINGS)
    for batch in kept:
        assert_equal(batch, again.sample(32))
        batch["action"][:] = 0
    reused = [id(batch) for batch in sampler.batches(32, prefetch=2, limit=10, reuse=True)]
    assert len(set(reused)) == 3
    assert reused[:3] * 4 == [*reused, *reused[1:3]]


def test_a_reused_batch_stays_until_the_next_is_asked_for() -> None:
    plain, sampler = (filled().sampler(seed=3, history=2) for _ in range(2))
    with sampler.batches(32, prefetch=3, reuse=True) as batches:
        for _ in range(20):
            batch, expected = next(batches), plain.sample(32)
            del batch["action"]
            view = batch["obs"]["x"][5]
            np.testing.assert_array_equal(view, expected["obs"]["x"][5])
            np.testing.assert_array_equal(batch.index, expected.index)


def test_memory_of_an_iterator_is_not_filled_by_others() -> None:
    buf = filled()
    sampler = buf.sampler(seed=3)
    batches = sampler.batches(8, reuse=True)
    batch = next(batches)
    with pytest.raises(bc.errors.SampleError, match=r'out\["obs/x"\]'):
        buf.sampler(seed=4).sample(8, out=batch)
    batches.close()
    buf.sampler(seed=4).sample(8, out=batch)
    assert_equal(batch, buf.sampler(seed=4).sample(8))


def test_the_sampler_belongs_to_its_iterator_until_that_is_closed() -> None:
    buf = filled()
    plain, sampler = buf.sampler(seed=3), buf.sampler(seed=3)
    batches = sampler.batches(8)
    assert_equal(next(batches), plain.sample(8))
    for call in (lambda: sampler.sample(8), lambda: sampler.batches(8)):
        with pytest.raises(bc.errors.SampleError):
            call()
    assert sampler.sampled >= 8
    assert sampler.lapped == 0
    assert "drawing ahead" in repr(sampler)
    batches.close()
    batches.close()
    assert_equal(sampler.sample(8), plain.sample(8))
    with pytest.raises(bc.ClosedError):
        next(batches)


@pytest.mark.parametrize("reuse", [False, True], ids=["fresh", "reuse"])
@pytest.mark.parametrize("how", ["close", "with", "del", "break", "sampler"])
def test_the_thread_ends_however_the_iterator_is_left(how: str, reuse: bool) -> None:
    sampler = filled().sampler(seed=3)
    batches = sampler.batches(8, prefetch=4, reuse=reuse)
    assert settles_at(0), "it starts with the first batch"
    if how == "with":
        with batches:
            next(batches)
    elif how == "break":
        for _ in batches:
            break
    else:
        next(batches)
    if how != "with":
        assert settles_at(1)
    if how == "close":
        batches.close()
    if how == "sampler":
        sampler.close()
        with pytest.raises(bc.ClosedError):
            next(batches)
    if how in ("del", "break"):
        del batches
        gc.collect()
    assert settles_at(0)


def test_an_empty_ring_is_refused_at_next_and_drawn_from_once_it_is_filled() -> None:
    buf = bc.ReplayBuffer.create(None, COLUMNS, capacity=100)
    plain, sampler = buf.sampler(seed=3), buf.sampler(seed=3)
    for prefetch in (0, 2):
        for reuse in (False, True):
            with sampler.batches(8, prefetch=prefetch, reuse=reuse) as batches:
                for _ in range(3):
                    with pytest.raises(bc.errors.SampleError, match=r"\b0\b"):
                        next(batches)
    batches = sampler.batches(8, prefetch=2)
    with pytest.raises(bc.errors.SampleError, match=r"\b0\b"):
        next(batches)
    write(buf, 50)
    for _ in range(3):
        assert_equal(next(batches), plain.sample(8))


def test_bad_numbers_are_refused_before_anything_starts() -> None:
    sampler = filled().sampler(seed=3)
    for arguments, message in [
        ({"batch_size": 0}, r"\bbatch_size\b.*\b0\b"),
        ({"batch_size": 8, "prefetch": 1025}, r"\bprefetch\b.*\b1025\b.*\b0\b.*\b1024\b"),
        ({"batch_size": 8, "prefetch": -1}, r"\bprefetch\b.*-1\b"),
        ({"batch_size": 8, "limit": -1}, r"\blimit\b.*-1\b"),
        ({"batch_size": 8, "depth": 2}, "`depth`"),
    ]:
        with pytest.raises(bc.BackcastError, match=message):
            sampler.batches(**arguments)  # type: ignore[arg-type]
    assert list(sampler.batches(8, limit=0)) == []
    sampler.sample(8)
    with pytest.raises(bc.BackcastError, match=r"buf\.sampler\("):
        bc.types.Batches()


def test_two_threads_share_the_batches_of_an_iterator() -> None:
    plain, sampler = filled().sampler(seed=3), filled().sampler(seed=3)
    batches = sampler.batches(16, limit=100)
    drawn: list[bytes] = []

    def take() -> None:
        drawn.extend(batch.index.tobytes() for batch in batches)

    workers = [threading.Thread(target=take) for _ in range(2)]
    for worker in workers:
        worker.start()
    join(*workers)
    assert sorted(drawn) == sorted(plain.sample(16).index.tobytes() for _ in range(100))


@FORKS_BESIDE_THREADS
def test_a_forked_child_neither_uses_nor_ends_the_parents_iterator() -> None:
    sampler = filled().sampler(seed=3)
    batches = sampler.batches(8, prefetch=2, reuse=True)
    batch = next(batches)
    kept = batch.index.copy()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            next(batches)
        except bc.BackcastError as error:
            if '"spawn"' in str(error):
                buf = filled()
                out = buf.sampler(seed=3).sample(8)
                del batches, batch
                gc.collect()
                buf.sampler(seed=3).sample(8, out=out)
                status = 0
        finally:
            os._exit(status)
    assert exit_code_of(child) == 0
    np.testing.assert_array_equal(batch.index, kept)
    next(batches)
    batches.close()
    sampler.sample(8)


@FORKS_BESIDE_THREADS
def test_children_forked_at_any_moment_neither_hang_nor_hand_memory_back() -> None:
    plain, sampler = filled().sampler(seed=3, history=6), filled().sampler(seed=3, history=6)
    batches = sampler.batches(256, prefetch=4)
    for _ in range(25):
        batch = next(batches)
        view, expected = batch["obs"]["x"][5], plain.sample(256)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                # The child returns the arrays to its own copy of the array pool, or frees them.
                del batch, batches, sampler
                gc.collect()
                # The thread that fills the arrays runs in the parent only.
                np.testing.assert_array_equal(view, expected["obs"]["x"][5])
                filled().sampler(seed=3).sample(256)
                status = 0
            finally:
                os._exit(status)
        later = next(batches)
        assert exit_code_of(child) == 0
        assert_equal(batch, expected)
        assert_equal(later, plain.sample(256))


def test_an_exception_in_the_loop_ends_the_thread_with_the_iterator() -> None:
    plain, sampler = filled().sampler(seed=3), filled().sampler(seed=3)

    def learn() -> None:
        for number, batch in enumerate(sampler.batches(8, prefetch=4)):
            assert_equal(batch, plain.sample(8))
            if number == 3:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        learn()
    # The traceback of the exception no longer refers to the iterator here.
    gc.collect()
    assert settles_at(0)
    assert_equal(sampler.sample(8), plain.sample(8))


@pytest.mark.parametrize("how", ["closed", "removed", "replaced"])
def test_an_iterator_goes_on_with_the_ring_that_it_began_with(how: str, tmp_path: Path) -> None:
    def make(steps: int) -> bc.ReplayBuffer:
        buf = bc.ReplayBuffer.create("pong", COLUMNS, capacity=400, exist="replace", dir=tmp_path)
        write(buf, steps)
        return buf

    buf = make(200)
    plain, sampler = buf.sampler(seed=3), buf.sampler(seed=3)
    batches = sampler.batches(16, prefetch=2)
    assert_equal(next(batches), plain.sample(16))
    if how == "closed":
        buf.close()
    elif how == "removed":
        bc.remove_object("pong", force=True, dir=tmp_path)
    else:
        make(20)
    with nullcontext() if how == "closed" else pytest.warns(bc.errors.UnlinkedWarning) as told:
        for _ in range(10):
            assert_equal(next(batches), plain.sample(16))
    batches.close()
    assert_equal(sampler.sample(16), plain.sample(16))
    assert told is None or len(told) == 1


def test_batches_outlive_their_iterator_sampler_and_ring() -> None:
    buf = filled()
    sampler = buf.sampler(seed=3, history=4)
    kept = list(sampler.batches(64, prefetch=2, limit=6))
    views = [batch["next_obs"]["x"][-1] for batch in kept[::2]]
    expected = [view.copy() for view in views]
    batches = sampler.batches(64, prefetch=2)
    last = next(batches)["obs"]["n"]
    numbers = last.copy()
    del kept, batches, sampler, buf
    gc.collect()
    # If the memory of the kept arrays had been freed, these draws could overwrite it.
    other = filled(steps=390, ends=5).sampler(seed=1, history=4)
    drawn = [other.sample(64) for _ in range(6)]
    assert drawn
    for view, kept_copy in zip(views, expected, strict=True):
        np.testing.assert_array_equal(view, kept_copy)
    np.testing.assert_array_equal(last, numbers)


LOOP = """
import signal, sys
import backcast as bc
# A shell starts background jobs with Ctrl-C ignored, and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
buf = bc.ReplayBuffer.create(None, {"obs": ("f4", (64,))}, capacity=1000)
with buf.writer() as writer:
    for t in range(900):
        writer.append(obs=[t] * 64, terminated=False, truncated=False)
sampler = buf.sampler(seed=1)
batches = sampler.batches(4096, prefetch=2)
try:
    for number, batch in enumerate(batches):
        if number == 3:
            print("going", flush=True)
        if number == 3 and sys.argv[1] == "exit":
            sys.exit(7)
except KeyboardInterrupt:
    batches.close()
    sampler.sample(8)
    print("interrupted", flush=True)
"""


def test_an_endless_loop_ends_at_ctrl_c(start: Callable[..., Child]) -> None:
    child = start(LOOP, "go on")
    assert read_line(child) == "going\n"
    child.send_signal(signal.SIGINT)
    assert child.communicate(timeout=60) == ("interrupted\n", "")


def test_a_process_ends_while_its_iterator_draws(start: Callable[..., Child]) -> None:
    child = start(LOOP, "exit")
    assert child.communicate(timeout=60) == ("going\n", "")
    assert child.returncode == 7


def fails(what: BaseException) -> int:
    raise what


def test_an_exception_that_drops_an_iterator_is_unchanged() -> None:
    with bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=100) as buf:
        with buf.writer() as writer:
            for t in range(50):
                writer.append(obs=t, terminated=False, truncated=False)
        for what in (ValueError("mine"), KeyboardInterrupt()):
            with pytest.raises(type(what)) as caught:
                _ = (buf.sampler(seed=1).batches(4, prefetch=2), fails(what))
            assert caught.value is what


WAITS_FOR_ROWS = """
import faulthandler, os, signal, sys, threading
import backcast as bc
signal.signal(signal.SIGINT, signal.default_int_handler)
# Ends what hangs.
faulthandler.dump_traceback_later(50, exit=True)
buf = bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=100)
batches = buf.sampler(select=bc.Consume()).batches(1, prefetch=int(sys.argv[1]))
def interrupt():
    while not repr(batches).endswith("busy>"):
        os.sched_yield()
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt).start()
try:
    next(batches)
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize("prefetch", ["0", "2"])
def test_ctrl_c_ends_a_wait_for_rows(start: Callable[..., Child], prefetch: str) -> None:
    child = start(WAITS_FOR_ROWS, prefetch)
    assert child.communicate(timeout=60) == ("interrupted\n", "")
