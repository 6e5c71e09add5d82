"""Rings that grow under their writers and readers, in several processes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import backcast as bc
import numpy as np
import pytest
from conftest import Child
from waits import read_line

COLUMNS: dict[str, Any] = {"x": ("f4", (2,)), "reward": "f4"}
ROUND = 1_000_000
"""Rows after which the values repeat, so that float32 holds each of them exactly."""
WRITER = """
import sys, threading
import backcast as bc

round_ = int(sys.argv[2])
told = threading.Thread(target=sys.stdin.readline)
told.start()
buf = bc.ReplayBuffer.attach("grows", dir=sys.argv[1])
with buf.writer() as writer:
    row, last = 0, None
    while row != last:
        value = row % round_
        writer.append(x=[value, -value], reward=value, terminated=False, truncated=False)
        row += 1
        if row == 2_000:
            print("on the way", flush=True)
        if last is None and not told.is_alive():
            last = row + 12_000  # More than the grown ring holds.
print(row)
"""


def test_a_writer_and_a_sampler_go_over_by_themselves(
    place: Path, start: Callable[..., Child]
) -> None:
    with bc.ReplayBuffer.create("grows", COLUMNS, capacity=1_000, dir=place) as buf:
        sampler = buf.sampler(seed=3, history=4)
        writer = start(WRITER, str(place), str(ROUND))
        assert read_line(writer) == "on the way\n"
        asked = buf.capacity
        while asked < 9_000:
            asked += 1_500
            done = buf.resize(asked, timeout=60)
            assert (done["capacity"], done["lanes_waiting"]) == (asked, [])
            assert buf.capacity == asked
            batch = sampler.sample(64)
            newest = batch["x"][:, -1]
            assert (newest[:, 0] == -newest[:, 1]).all()
        # Once told to end, the writer appends more rows than the grown ring holds.
        said, error = writer.communicate("end\n", timeout=60)
        assert writer.returncode == 0, error
        written = int(said)
        assert buf.lane_span(0) == (written - asked, written)
        rows = buf.rows(0, written - asked, asked)
        expected = (np.arange(written - asked, written) % ROUND).astype("f4")
        assert (rows["x"][:, 0] == expected).all()
        assert (rows["reward"] == expected).all()


def test_views_of_a_lease_stay(place: Path) -> None:
    with bc.ReplayBuffer.create("grows", COLUMNS, capacity=1_000, dir=place) as buf:
        with buf.writer() as writer:
            for row in range(500):
                writer.append(x=[row, 0], reward=0, terminated=False, truncated=False)
        with buf.lease(0, 100, 50) as lease:
            view = lease["x"]
            assert buf.resize(2_000)["lanes_waiting"] == []
            with buf.writer() as writer:
                for row in range(500, 1_500):
                    writer.append(x=[row, 0], reward=0, terminated=False, truncated=False)
            assert (view[:, 0] == np.arange(100, 150)).all()
            del view


@pytest.mark.parametrize(
    ("capacity", "kind", "says"),
    [
        (999, bc.errors.ArgumentError, r"\b999\b"),
        (1, bc.errors.ArgumentError, r"\b1\b"),
        ("9TiB", bc.errors.SpaceError, "9 TiB"),
        (0, bc.errors.ArgumentError, r"\b1\b"),
        ("much", bc.errors.ArgumentError, "much"),
    ],
)
def test_impossible_sizes_are_refused(
    place: Path, capacity: int | str, kind: type[Exception], says: str
) -> None:
    with bc.ReplayBuffer.create("grows", COLUMNS, capacity=1_000, dir=place) as buf:
        with pytest.raises(kind, match=says):
            buf.resize(capacity)
        assert buf.capacity == 1_000


def test_private_buffers_and_snapshots_keep_their_size(place: Path, tmp_path: Path) -> None:
    with (
        bc.ReplayBuffer.create(None, COLUMNS, capacity=10) as buf,
        pytest.raises(bc.errors.ArgumentError),
    ):
        buf.resize(20)
    with bc.ReplayBuffer.create("grows", COLUMNS, capacity=10, dir=place) as buf:
        buf.snapshot("a", store=tmp_path)
        with (
            bc.ReplayBuffer.open_snapshot("grows@a", store=tmp_path, dir=place) as snapshot,
            pytest.raises(bc.errors.ArgumentError),
        ):
            snapshot.resize(20)


def test_a_resize_that_a_callback_stops_changes_nothing(place: Path) -> None:
    def stop(done: int, total: int) -> None:
        assert 0 <= done <= total
        raise KeyError("enough")

    with bc.ReplayBuffer.create("grows", COLUMNS, capacity=900, lanes=3, dir=place) as buf:
        with pytest.raises(KeyError, match="enough"):
            buf.resize(5_000, progress=stop)
        assert buf.capacity == 900
        assert buf.resize(5_000)["capacity"] == 5_001
    assert sys.exc_info() == (None, None, None)


def test_a_queue_of_another_handle_waits_for_as_many_rows_as_the_grown_ring_holds(
    place: Path,
) -> None:
    with (
        bc.ReplayBuffer.create("grows", COLUMNS, capacity=4, dir=place) as buf,
        bc.ReplayBuffer.attach("grows", dir=place) as other,
        other.sampler(select=bc.Consume()) as sampler,
    ):
        with pytest.raises(bc.errors.SampleError, match=r"\b3\b"):
            sampler.sample(10, timeout=0)
        buf.resize(20)
        with pytest.raises(bc.errors.WaitTimeoutError):
            sampler.sample(10, timeout=0)
        with pytest.raises(bc.errors.SampleError, match=r"\b19\b"):
            sampler.sample(20, timeout=0)
