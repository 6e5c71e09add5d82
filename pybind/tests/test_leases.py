"""Leases: rows in place, which writers do not overwrite while an array of the lease lives."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import signal
import warnings
from typing import TYPE_CHECKING, Any

import backcast as bc
import numpy as np
import pytest
from backcast.errors import (
    ArgumentError,
    BackcastError,
    ClosedError,
    LeaseError,
    LeaseWarning,
    WaitTimeoutError,
)
from waits import exit_code_of, read_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection
    from pathlib import Path

    from conftest import Child

COLUMNS = {"obs/image": ("u1", (2, 3)), "obs/day": "i4", "action": "f4", "reward": "f8"}
CAPACITY = 1_000


@pytest.fixture
def ring(place: Path) -> Iterator[bc.ReplayBuffer]:
    with bc.ReplayBuffer.create(
        "leases", COLUMNS, capacity=CAPACITY, dir=place, lease_timeout=0.01
    ) as made:
        yield made


def fill(writer: bc.Writer, rows: int, first: int = 0) -> list[int]:
    """Append rows whose columns are made of the row's number; return the indices."""
    index = []
    for n in range(first, first + rows):
        image = np.full((2, 3), n % 251, np.uint8)
        obs = {"image": image, "day": n}
        at = writer.append(obs=obs, action=n, reward=n / 2, terminated=False, truncated=False)
        index.append(int(at[0]))
    return index


def pins(ring: bc.ReplayBuffer) -> list[tuple[int, int]]:
    return [(pin["lane"], pin["start"]) for pin in ring.stats()["pins"]]


def test_the_arrays_of_a_lease_are_the_rows_themselves(ring: bc.ReplayBuffer) -> None:
    with ring.writer() as writer:
        fill(writer, 300)
    rows = ring.rows(0, 40, 200)
    with ring.lease(0, 40, 200) as lease:
        assert (lease.lane, lease.start, lease.length, lease.closed) == (0, 40, 200, False)
        assert (
            list(lease)
            == lease.keys()
            == ["action", "episode", "flags", "obs", "reward", "seq", "t"]
        )
        assert len(lease) == 7
        assert "obs" in lease
        assert "obs/day" in lease
        assert "obs/night" not in lease
        for name in ("action", "episode", "flags", "reward", "seq", "t"):
            np.testing.assert_array_equal(lease[name], rows[name])
            assert lease[name].dtype == rows[name].dtype
        for name in ("image", "day"):
            np.testing.assert_array_equal(lease["obs"][name], rows["obs"][name])
            np.testing.assert_array_equal(lease[f"obs/{name}"], rows["obs"][name])
        one, other = lease["reward"], lease["reward"]
        assert np.shares_memory(one, other), "no copy was made"
        assert one.flags.c_contiguous
        assert one.flags.aligned


def test_windows_are_one_strided_view_of_the_same_memory(ring: bc.ReplayBuffer) -> None:
    with ring.writer() as writer:
        fill(writer, 300)
    lease = ring.lease(0, 50, 100)
    windows = lease.windows(20)
    assert windows["obs"]["image"].shape == (81, 20, 2, 3)
    assert windows["reward"].shape == (81, 20)
    expected = np.lib.stride_tricks.sliding_window_view(ring.rows(0, 50, 100)["seq"], 20)
    np.testing.assert_array_equal(windows["seq"], expected)
    assert np.shares_memory(windows["reward"], lease["reward"])
    assert lease.windows(100)["seq"].shape == (1, 100)
    for bad in (0, 101, -1):
        with pytest.raises(LeaseError, match=rf"\blength\b.* {bad},.*\b100\b"):
            lease.windows(bad)


@pytest.mark.parametrize("key", ["reward", "obs/image"])
def test_nothing_can_be_written_through_a_lease(ring: bc.ReplayBuffer, key: str) -> None:
    with ring.writer() as writer:
        fill(writer, 10)
    array = ring.lease(0, 0, 5)[key]
    windows = ring.lease(0, 0, 5).windows(2)["reward"]
    for view in (array, array[1:3], windows):
        with pytest.raises(ValueError, match="read-only"):
            view[...] = 0
        with pytest.raises(ValueError, match="WRITEABLE"):
            view.flags.writeable = True


def test_a_slice_of_a_slice_keeps_the_rows_frozen_when_all_else_is_gone(
    ring: bc.ReplayBuffer,
) -> None:
    with ring.writer() as writer:
        fill(writer, 100)
        lease = ring.lease(0, 10, 50)
        part = lease.windows(5)["obs"]["day"][3:][::2, 1:]
        before = part.copy()
        lease.close()
        assert lease.closed
        with pytest.raises(ClosedError):
            lease["obs"]
        del lease
        gc.collect()
        assert pins(ring) == [(0, 10)]
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("always")
            fill(writer, 3 * CAPACITY, 100)
        assert writer.rows_dropped > 0
        np.testing.assert_array_equal(part, before)
        with pytest.warns(LeaseWarning, match=r"\d+\.\.\d+"):
            del part
        assert pins(ring) == []
        assert fill(writer, 2 * CAPACITY)[-1] > 0, "the writer goes on"


def test_arrays_outlive_the_buffer_and_its_name(place: Path) -> None:
    ring = bc.ReplayBuffer.create("short", COLUMNS, capacity=CAPACITY, dir=place)
    with ring.writer() as writer:
        fill(writer, 100)
    day = ring.lease(0, 20, 30)["obs/day"]
    ring.unlink()
    ring.close()
    del ring, writer
    gc.collect()
    np.testing.assert_array_equal(day, np.arange(20, 50))


def test_several_leases_freeze_from_the_oldest_row_on(ring: bc.ReplayBuffer) -> None:
    with ring.writer() as writer:
        fill(writer, 200)
    first, second, third = (ring.lease(0, start, 10) for start in (100, 50, 150))
    assert pins(ring) == [(0, 50)]
    second.close()
    assert pins(ring) == [(0, 100)]
    first.close()
    assert pins(ring) == [(0, 150)]
    third.close()
    third.close()
    assert pins(ring) == []
    assert ring.stats()["readers"] == [], "the slot is free again"


def test_a_writer_waits_then_drops_marks_a_gap_and_both_sides_are_warned(
    ring: bc.ReplayBuffer,
) -> None:
    with ring.writer() as writer:
        fill(writer, 100)
        lease = ring.lease(0, 0, 10)
        with pytest.warns(LeaseWarning, match=rf"\b{os.getpid()}\b") as warned:
            index = fill(writer, ring.stats()["slots"], 100)
        assert len(warned) == 1, "once per lease"
        dropped = index.count(-1)
        assert writer.rows_dropped == dropped > 0
        lane = ring.stats()["lane_stats"][0]
        assert (lane["dropped"], lane["stalls"]) == (dropped, dropped)
        assert ring.stats()["readers"][0]["stalls"] == dropped
        assert lease.stalls == dropped
        with pytest.warns(LeaseWarning, match=r"\d+\.\.\d+"):
            lease.close()
        (at,) = fill(writer, 1, 9_999)
        last = ring.rows(0, at - 1, 2)
        assert list(last["flags"]) == [0, 8], "the row after the dropped ones is a GAP"
        assert list(last["t"])[1] == 0
        assert last["obs"]["day"][1] == 9_999


def test_the_final_observation_of_an_end_that_was_dropped_goes_with_it(place: Path) -> None:
    with (
        bc.ReplayBuffer.create(
            "ends", {"obs": "f4"}, capacity=100, dir=place, lane_policy="drop_new"
        ) as ring,
        ring.writer(1, autoreset_mode="next_step") as writer,
    ):
        go_on = {"obs": 0, "terminated": False, "truncated": False}
        for _ in range(10):
            writer.append(**go_on)
        lease = ring.lease(0, 0, 5)
        for _ in range(ring.stats()["slots"] - 10):
            writer.append(**go_on)
        with pytest.warns(LeaseWarning, match=r"\blane_policy\b|\b0\b"):
            assert writer.append(**go_on | {"terminated": True}) == [-1]
        assert writer.rows_dropped == 1
        with pytest.warns(LeaseWarning, match=r"\d+\.\.\d+"):
            lease.close()
        assert writer.append(**go_on) == [-1]
        assert writer.rows_dropped == ring.stats()["lane_stats"][0]["dropped"] == 2
        assert writer.append(**go_on) == [ring.stats()["slots"]]
        assert writer.rows_dropped == 2


def test_a_ring_that_drops_does_not_wait_and_one_that_fails_raises(place: Path) -> None:
    for policy in ("drop_new", "fail"):
        ring = bc.ReplayBuffer.create(
            policy,
            COLUMNS,
            capacity=CAPACITY,
            dir=place,
            lane_policy=policy,
        )
        assert ring.stats()["lane_policy"] == policy
        slots = ring.stats()["slots"]
        with ring.writer() as writer:
            fill(writer, 100)
            lease = ring.lease(0, 0, 10)
            if policy == "drop_new":
                with pytest.warns(LeaseWarning, match=r"\b0\b"):
                    assert -1 in fill(writer, slots, 100)
            else:
                with pytest.raises(LeaseError, match=r"\b0\b.*\d+.*\b0\b"):
                    fill(writer, slots, 100)
                head = ring.lane_span(0)[1]
                with pytest.raises(LeaseError):
                    fill(writer, 1)
                assert ring.lane_span(0)[1] == head, "nothing was appended"
                stats = ring.stats()
                assert (stats["lane_stats"][0]["stalls"], stats["readers"][0]["stalls"]) == (2, 2)
            with pytest.warns(LeaseWarning):
                lease.close()
            assert fill(writer, 1)[0] > 0


def test_a_ring_that_overwrites_grants_no_leases(place: Path) -> None:
    ring = bc.ReplayBuffer.create(
        "fast", COLUMNS, capacity=CAPACITY, dir=place, lane_policy="overwrite"
    )
    with ring.writer() as writer:
        fill(writer, 10)
    with pytest.raises(LeaseError, match=r'\blane_policy\b.*"overwrite"'):
        ring.lease(0, 0, 5)


def test_a_lease_neither_pickles_nor_copies_and_is_not_made_by_hand(ring: bc.ReplayBuffer) -> None:
    with ring.writer() as writer:
        fill(writer, 10)
    lease = ring.lease(0, 0, 5)
    with pytest.raises(TypeError, match=r"\d+\.\.\d+"):
        pickle.dumps(lease)
    with pytest.raises(TypeError, match=r"buf\.lease"):
        bc.types.Lease()
    assert "rows 0..5 of lane 0" in repr(lease)
    lease.close()
    assert "closed" in repr(lease)


def test_private_memory_leases_what_lies_in_one_piece() -> None:
    ring = bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=100)
    with ring.writer() as writer:
        for n in range(150):
            writer.append(obs=n, terminated=False, truncated=False)
    slots = ring.stats()["slots"]
    assert list(ring.lease(0, slots, 3)["obs"]) == [slots, slots + 1, slots + 2]
    with pytest.raises(LeaseError, match=rf"\b{slots - 1}\b"):
        ring.lease(0, slots - 2, 4)


def ready(child: Child) -> Child:
    """Wait for the child's first line, and return the child."""
    assert read_line(child) == "ready\n", child.communicate(timeout=60)[1]
    return child


ATTACH = "import sys, backcast as bc\nring = bc.ReplayBuffer.attach('leases')\n"


def test_a_killed_holder_stops_no_writer(place: Path, start: Callable[..., Child]) -> None:
    # A writer that waited for so long a timeout would hang this test.
    with bc.ReplayBuffer.create(
        "leases", COLUMNS, capacity=CAPACITY, dir=place, lease_timeout=3_600
    ) as ring:
        writer = ring.writer()
        fill(writer, 100)
        code = "l = ring.lease(0, 0, 50)\nprint('ready', flush=True)\nsys.stdin.read()"
        holder = ready(start(ATTACH + code))
        assert ring.stats()["pins"] == [{"slot": 0, "pid": holder.pid, "lane": 0, "start": 0}]
        holder.kill()
        holder.communicate(timeout=60)
        assert pins(ring) == [], "a dead reader's pins are not shown"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LeaseWarning)
            index = fill(writer, 3 * CAPACITY, 100)
        assert -1 not in index
        assert writer.rows_dropped == 0


def test_ctrl_c_ends_an_append_that_waits_for_a_lease(
    place: Path, start: Callable[..., Child]
) -> None:
    with bc.ReplayBuffer.create(
        "leases", COLUMNS, capacity=CAPACITY, dir=place, lease_timeout=3_600
    ) as ring:
        with ring.writer() as writer:
            fill(writer, 100)
        lease = ring.lease(0, 0, 50)
        code = (
            "import signal\n"
            "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
            "w = ring.writer()\n"
            "obs = {'image': [[0] * 3] * 2, 'day': 0}\n"
            "print('ready', flush=True)\n"
            "try:\n"
            "    while True:\n"
            "        w.append(obs=obs, action=0, reward=0, terminated=False, truncated=False)\n"
            "except KeyboardInterrupt:\n"
            "    print(ring.lane_span(0)[1], w.rows_dropped)\n"
        )
        waiter = ready(start(ATTACH + code))
        while ring.stats()["lane_stats"][0]["reserved"] <= ring.stats()["slots"]:
            os.sched_yield()
        waiter.send_signal(signal.SIGINT)
        out, _ = waiter.communicate(timeout=60)
        head, dropped = map(int, out.split())
        assert dropped == 0
        assert head <= ring.stats()["slots"]
        assert lease["obs/day"][0] == 0
        with pytest.warns(LeaseWarning, match=r"\b1\b"):
            lease.close()


def wait_in_child(ring: bc.ReplayBuffer, rows: int, answer: Connection) -> None:
    answer.send("ready")
    answer.send(ring.wait(rows_published=rows, timeout=60))


def test_a_wait_is_woken_by_another_process_also_in_a_full_ring(ring: bc.ReplayBuffer) -> None:
    writer = ring.writer()
    fill(writer, 3 * CAPACITY)
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe()
    waiter = context.Process(target=wait_in_child, args=(ring, 3 * CAPACITY + 1, theirs))
    waiter.start()
    try:
        assert mine.poll(60)
        assert mine.recv() == "ready"
        fill(writer, 1)
        assert mine.poll(60)
        assert mine.recv() == 3 * CAPACITY + 1
    finally:
        waiter.join(60)
    assert waiter.exitcode == 0


def test_a_wait_needs_one_thing_to_wait_for(ring: bc.ReplayBuffer) -> None:
    assert ring.wait(0) == 0
    assert ring.wait(rows_published=0, timeout=60) == 0
    with pytest.raises(ArgumentError, match=r"\bmin_size\b.*\brows_published\b"):
        ring.wait(timeout=60)
    with pytest.raises(ArgumentError, match=r"\bmin_size\b.*\brows_published\b"):
        ring.wait(1, rows_published=1)
    with pytest.raises(WaitTimeoutError, match=r"\b0\b.*\b7\b"):
        ring.wait(rows_published=7, timeout=0.001)
    with pytest.raises(TimeoutError, match=r"\b0\b.*\b7\b"):
        ring.wait(7, timeout=0.001)


def test_a_forked_child_neither_uses_nor_closes_its_parents_leases(
    ring: bc.ReplayBuffer,
) -> None:
    with ring.writer() as writer:
        fill(writer, 100)
    lease = ring.lease(0, 10, 50)
    day = lease["obs/day"]
    with warnings.catch_warnings():
        # Python warns of a fork beside other threads, which this test makes on purpose.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        status = 1
        try:
            lease["obs/day"]
        except BackcastError as error:
            status = 0 if '"spawn"' in str(error) else 2
        del day
        lease.close()
        gc.collect()
        os._exit(status)
    assert exit_code_of(pid) == 0
    assert pins(ring) == [(0, 10)]
    np.testing.assert_array_equal(day, np.arange(10, 60))


BAD_LEASES: dict[str, tuple[tuple[Any, Any, Any], type[Exception], str]] = {
    "a lane there is not": ((1, 0, 5), LeaseError, r"\b1\b.*\b0\b"),
    "a negative lane": ((-1, 0, 5), LeaseError, r"\blane\b.*-1\b"),
    "a lane by name": (("left", 0, 5), TypeError, r"\blane\b.*'left'"),
    "a negative start": ((0, -1, 5), LeaseError, r"\bstart\b.*-1\b"),
    "no rows": ((0, 0, 0), LeaseError, r"\b0\b"),
    "more than a quarter": ((0, 0, 251), LeaseError, r"\b251\b.*\b1\b.*\b250\b"),
    "rows to come": ((0, 60, 50), LeaseError, r"60\.\.110.*\b0\.\.100\b"),
    "a bool for a length": ((0, 0, True), TypeError, r"\blength\b.*True"),
}


@pytest.mark.parametrize("name", BAD_LEASES)
def test_a_refused_lease_says_why_and_pins_nothing(ring: bc.ReplayBuffer, name: str) -> None:
    arguments, error, text = BAD_LEASES[name]
    with ring.writer() as writer:
        fill(writer, 100)
    before = ring.stats()
    with pytest.raises(error, match=text) as raised:
        ring.lease(*arguments)
    assert isinstance(raised.value, BackcastError)
    assert ring.stats() == before
    assert pins(ring) == []


def test_rows_that_were_overwritten_are_not_leased(ring: bc.ReplayBuffer) -> None:
    with ring.writer() as writer:
        fill(writer, 3_000)
    with pytest.raises(LeaseError, match=r"2000\.\.3000"):
        ring.lease(0, 1_999, 5)


def test_all_reader_slots_taken_is_a_lease_error_that_says_so(ring: bc.ReplayBuffer) -> None:
    with ring.writer() as writer:
        fill(writer, 10)
    samplers = [ring.sampler(seed=seed) for seed in range(64)]
    with pytest.raises(LeaseError, match=r"\b64\b"):
        ring.lease(0, 0, 5)
    samplers.pop().close()
    ring.lease(0, 0, 5).close()


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"lane_policy": "wait"}, r'\blane_policy\b.*`wait`.*"block".*"drop_new"'),
        ({"lease_timeout": -1}, r"\blease_timeout\b.*-1\b"),
        ({"lease_timeout": float("nan")}, r"\blease_timeout\b.*\bNaN\b"),
        ({"lease_timeout": 3_601}, r"\b3601\b.*\blimit\b.*\b3600\b"),
        ({"lane_policy": "fail", "lease_timeout": 1}, r'\blane_policy\b.*"fail"'),
    ],
)
def test_a_policy_that_cannot_be_is_refused(place: Path, given: dict[str, Any], text: str) -> None:
    with pytest.raises(ArgumentError, match=text):
        bc.ReplayBuffer.create("x", COLUMNS, capacity=100, dir=place, **given)
    assert bc.list_objects(place) == []
