"""Handles: names, sizes, closing and repr."""

from __future__ import annotations

import gc
import warnings
from pathlib import Path
from typing import Any

import backcast as bc
import numpy as np
import pytest


def test_a_ring_says_what_it_is(place: Path) -> None:
    columns = {"obs": ("u1", (4, 4)), "action": "i4"}
    with bc.ReplayBuffer.create("h", columns, capacity=1001, lanes=4, dir=place) as buf:
        assert (buf.name, buf.lanes, buf.lane_capacity, buf.capacity) == ("h", 4, 251, 1004)
        assert buf.path == str(next(place.iterdir()) / "h.ring")
        assert buf.schema == bc.Schema(columns)
        assert (len(buf), bool(buf), buf.closed) == (0, True, False)
        assert repr(buf) == "<backcast.ReplayBuffer: ring 'h', 0/1004 transitions, 4 lanes>"
        stats = buf.stats()
        assert stats["columns"] == buf.schema.columns
        assert stats["row_bytes"] == buf.schema.row_bytes == 16 + 4 + 24
        assert [lane["lane"] for lane in stats["lane_stats"]] == [0, 1, 2, 3]
        assert stats["bytes_allocated"] >= stats["bytes_asked"] == 1001 * 44
        sampler = buf.sampler(seed=5)
        assert [reader["slot"] for reader in buf.stats()["readers"]] == [0]
        sampler.close()
        assert buf.stats()["readers"] == []


def test_a_schema_reads_back_as_it_was_written() -> None:
    columns: dict[str, Any] = {
        "obs": {"image": (np.uint8, (2, 3)), "state": float},
        "flag": ("?", 4),
        "day": (np.dtype("int32"), (), "obs"),
    }
    schema = bc.Schema(columns)
    assert schema.columns == {
        "obs/image": ("u1", (2, 3), "obs"),
        "obs/state": ("f8", (), "obs"),
        "flag": ("bool", (4,), "step"),
        "day": ("i4", (), "obs"),
    }
    assert eval(repr(schema), {"Schema": bc.Schema}) == schema
    assert schema != bc.Schema({"flag": "?"})
    assert schema != "flag"


@pytest.mark.parametrize(("capacity", "rows"), [(77, 77), ("77", 77), ("1_000", 1_000)])
def test_capacity_is_rows(place: Path, capacity: int | str, rows: int) -> None:
    with bc.ReplayBuffer.create("c", {"x": "f8"}, capacity=capacity, dir=place) as buf:
        assert (buf.capacity, buf.stats()["bytes_asked"]) == (rows, rows * buf.schema.row_bytes)


@pytest.mark.parametrize(
    ("capacity", "size"),
    [("64MiB", 64 << 20), ("2.5 MB", 2_500_000), ("1_000 KiB", 1_000 << 10), ("1e6 B", None)],
)
def test_capacity_is_bytes(place: Path, capacity: str, size: int | None) -> None:
    def create() -> bc.ReplayBuffer:
        return bc.ReplayBuffer.create("c", {"x": "f8"}, capacity=capacity, dir=place)

    if size is None:
        with pytest.raises(bc.errors.ArgumentError, match="1e6 B"):
            create()
        return
    with create() as buf:
        stats = buf.stats()
        assert stats["bytes_asked"] == size
        assert 0.9 * size < stats["bytes_allocated"] <= size
        assert 0.5 < buf.capacity * buf.schema.row_bytes / size <= 1


def test_much_more_memory_than_asked_for_is_a_warning(place: Path) -> None:
    columns = {"obs": ("u1", (8191,))}
    with pytest.warns(UserWarning, match=r"\d{4}"):
        bc.ReplayBuffer.create("w", columns, capacity=4085, dir=place).close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bc.ReplayBuffer.create("w", {"x": "f4"}, capacity=10, dir=place).close()


def test_a_private_ring_needs_no_name() -> None:
    with bc.ReplayBuffer.create(None, {"x": "f4"}, capacity=100) as buf:
        assert (buf.name, buf.path) == (None, None)
        with buf.writer() as writer:
            for value in range(10):
                writer.append(x=value, terminated=False, truncated=False)
        assert set(buf.sample(200)["x"].tolist()) == set(range(9))
        with pytest.raises(TypeError, match="pickled"):
            buf.__reduce__()


def test_exist_attaches_or_replaces(place: Path) -> None:
    columns = {"x": "f4"}
    with bc.ReplayBuffer.create("x", columns, capacity=100, dir=place) as old:
        with old.writer() as writer:
            for value in range(5):
                writer.append(x=value, terminated=False, truncated=False)
        same = bc.ReplayBuffer.create("x", columns, capacity=100, exist="attach", dir=place)
        assert len(same) == 4
        same.close()
        new = bc.ReplayBuffer.create("x", columns, capacity=100, exist="replace", dir=place)
        assert (len(old), len(new)) == (4, 0)
        new.close()


def test_a_persistent_ring_outlives_its_holders(place: Path) -> None:
    bc.ReplayBuffer.create("p", {"x": "f4"}, capacity=10, persistent=True, dir=place).close()
    [entry] = bc.list_objects(dir=place)
    assert (entry["name"], entry["kind"], entry["persistent"]) == ("p", "ring", True)
    assert (entry["held"], entry["building"]) == (False, False)
    assert bc.collect_garbage(dir=place) == []
    with bc.ReplayBuffer.attach("p", dir=place) as buf:
        buf.unlink()
        assert bc.list_objects(dir=place) == []


def test_writers_and_samplers_hold_the_ring_on_their_own(place: Path) -> None:
    buf = bc.ReplayBuffer.create("o", {"x": "f4"}, capacity=10, dir=place)
    writer, sampler = buf.writer(), buf.sampler()
    buf.close()
    for value in range(3):
        writer.append(x=value, terminated=False, truncated=False)
    assert set(sampler.sample(50)["x"].tolist()) == {0, 1}
    del writer, sampler
    gc.collect()
    assert bc.list_objects(dir=place) == []


def test_sampling_every_way_keeps_few_reader_slots(place: Path) -> None:
    with bc.ReplayBuffer.create("s", {"x": "f4"}, capacity=100, dir=place) as buf:
        with buf.writer() as writer:
            for value in range(50):
                writer.append(x=value, terminated=False, truncated=False)
        for history in range(1, 20):
            buf.sample(2, history=history)
        assert len(buf.stats()["readers"]) <= 4


def test_equal_seeds_draw_equally_and_counters_count(place: Path) -> None:
    with bc.ReplayBuffer.create("d", {"x": "f4"}, capacity=1000, lanes=2, dir=place) as buf:
        with buf.writer(lanes=2, autoreset_mode="next_step") as writer:
            for _ in range(300):
                writer.append(x=[0, 0], terminated=[False] * 2, truncated=[False] * 2)
        first, second, third = buf.sampler(seed=7), buf.sampler(seed=7), buf.sampler(seed=8)
        for _ in range(3):
            index = first.sample(64).index
            np.testing.assert_array_equal(index, second.sample(64).index)
            assert (index != third.sample(64).index).any()
        assert (first.sampled, first.lapped, first.seed) == (192, 0, 7)
        assert (first.history, first.future) == (None, 0)
        unseeded = buf.sampler()
        again = buf.sampler(seed=unseeded.seed)
        np.testing.assert_array_equal(unseeded.sample(64).index, again.sample(64).index)
        for sampler in [first, second, third, unseeded, again]:
            sampler.close()
