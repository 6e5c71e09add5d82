"""Positions of a storage's elements: the same in every process, and read once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import backcast as bc
import numpy as np
import pytest

pytest.importorskip(
    "torchrl", reason="TorchRL is not installed: pip install -r requirements/adapters.txt"
)

import torch
from backcast.torchrl import Storage
from backcast.torchrl._places import Places
from tensordict import TensorDict
from torch import multiprocessing

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

SIZE = 20
# Elements that are stored at once, more than fit in all.
SIZES = (4, 3, 9, 8, 5)


def steps(first: int, count: int) -> TensorDict:
    """Make elements that hold their numbers."""
    return TensorDict({"x": torch.arange(first, first + count)}, [count])


def stored(storage: Storage) -> list[int]:
    """Return the numbers that lie at the positions 0, 1 and so on."""
    numbers: list[int] = storage.get(range(len(storage)))["x"].tolist()
    return numbers


def opened(place: Path, name: str = "ring") -> Storage:
    return Storage(SIZE, name=name, dir=place, shared=True)


def write_in_turn(writers: Iterable[Storage], sizes: Iterable[int]) -> list[int]:
    """Let each writer in turn store some elements, and return what should lie at the positions."""
    lies: dict[int, int] = {}
    at = 0
    for writer, count in zip(writers, sizes, strict=True):
        writer.set((torch.arange(count) + at) % SIZE, steps(100 + at, count))
        lies |= {position % SIZE: 100 + position for position in range(at, at + count)}
        at += count
    return [lies[position] for position in sorted(lies)]


@pytest.mark.parametrize("stored_before", [7, SIZE, 3 * SIZE + 9])
def test_an_emptied_storage_has_one_order_for_all_that_write(
    place: Path, stored_before: int
) -> None:
    one, two = opened(place), opened(place)
    # The second one reads the first elements only, the first one all of them.
    for first in range(0, stored_before, 5):
        count = min(5, stored_before - first)
        one.set((torch.arange(count) + first) % SIZE, steps(first, count))
        if first == 0:
            assert len(two) == count
    one._empty()
    expected = write_in_turn([two, one, two, two, one], SIZES)
    assert stored(one) == stored(two) == stored(opened(place)) == expected
    assert one._last_cursor_index == two._last_cursor_index == (sum(SIZES) - 1) % SIZE
    one.close()
    two.close()


def write_and_read(place: Path, at: int, count: int, answers: Any) -> None:
    storage = opened(place)
    storage.set((torch.arange(count) + at) % SIZE, steps(100 + at, count))
    answers.put((stored(storage), storage._last_cursor_index))
    storage.close()


def test_a_process_that_comes_after_the_storage_was_emptied_has_the_same_order(
    place: Path,
) -> None:
    here = opened(place)
    here.set(range(17), steps(0, 17))
    here._empty()
    expected = write_in_turn([here], [6])
    spawn = multiprocessing.get_context("spawn")
    answers = spawn.Queue()
    child = spawn.Process(target=write_and_read, args=(place, 6, 5, answers))
    child.start()
    there = answers.get(timeout=120)
    child.join(60)
    assert child.exitcode == 0
    assert there == ([*expected, *range(106, 111)], 10)
    # This process, too, goes on after what the other one stored.
    assert (stored(here), here._last_cursor_index) == there
    here.set([11], steps(111, 1))
    assert stored(here) == list(range(100, 112))
    here.close()


def test_a_restored_storage_begins_at_a_position_once(place: Path) -> None:
    one = opened(place)
    one._begin_at(13, steps(0, 1))
    one._empty()
    one.set(range(3), steps(0, 3))
    assert stored(one) == [0, 1, 2]
    one.close()


class CountedRing:
    """A ring that notes which rows are read."""

    def __init__(self, ring: bc.ReplayBuffer) -> None:
        self._ring = ring
        self.read: list[int] = []

    @property
    def lane_capacity(self) -> int:
        return self._ring.lane_capacity

    def lane_span(self, lane: int) -> tuple[int, int]:
        return self._ring.lane_span(lane)

    def gather(self, rows: np.ndarray, **options: Any) -> Any:
        self.read.extend(rows.tolist())
        return self._ring.gather(rows, **options)


def test_rows_are_read_once_and_the_newest_one_again_when_it_has_a_successor() -> None:
    ring = bc.ReplayBuffer.create(None, {"at": ("i8", (), "obs")}, capacity=100)
    counted = CountedRing(ring)
    places = Places(counted, SIZE, "at")  # type: ignore[arg-type]
    with ring.writer() as writer:
        for at in range(3):
            writer.append(at=at, next_obs={"at": at + 1}, terminated=False, truncated=False)
        places.refresh()
        assert (counted.read, len(places), places.last_position) == ([0, 1, 2], 2, 1)
        places.refresh()
        assert counted.read == [0, 1, 2]
        writer.append(at=3, next_obs={"at": 4}, terminated=False, truncated=False)
        places.refresh()
        assert (counted.read, len(places), places.last_position) == ([0, 1, 2, 2, 3], 3, 2)
    # The writer's end made the newest row a transition, and added a FINAL row.
    counted.read.clear()
    places.refresh()
    assert (counted.read[0], len(places), places.last_position) == (3, 4, 3)
    counted.read.clear()
    ring.clear()
    places.refresh()
    assert (counted.read, len(places), places.next_position) == ([], 0, 0)
    ring.close()


@pytest.mark.parametrize("episodes", [1, 11, 12, 13, 30])
def test_a_ring_that_was_cleared_and_filled_keeps_no_element_of_before(episodes: int) -> None:
    # Episodes of one element take two rows, and the ring has room for 12 of them.
    ring = bc.ReplayBuffer.create(None, {"at": ("i8", (), "obs")}, capacity=24)
    early = Places(ring, SIZE, "at")
    with ring.writer() as writer:
        for at in range(SIZE):
            ends = at == SIZE - 1
            writer.append(at=at, next_obs={"at": at + 1}, terminated=ends, truncated=False)
        early.refresh()
        assert len(early) == SIZE
        ring.clear()
        for at in range(episodes):
            position = at % SIZE
            writer.append(at=position, next_obs={"at": position}, terminated=True, truncated=False)
        late = Places(ring, SIZE, "at")
        for places in (early, late):
            places.refresh()
        assert len(early) == len(late) == min(episodes, 12)
        assert early.index.tolist() == late.index.tolist()
        assert early.last_position == late.last_position == (episodes - 1) % SIZE
    ring.close()
