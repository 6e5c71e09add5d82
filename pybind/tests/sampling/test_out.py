"""Draws into the memory of an earlier batch or of the caller, and reuse of dropped arrays."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import warnings
from collections.abc import Callable
from typing import Any

import backcast as bc
import numpy as np
import pytest
from counted_ring import COLUMNS, assert_equal, filled, flat, write
from numpy.typing import NDArray
from waits import join

SETTINGS: list[dict[str, Any]] = [
    {},
    {"history": 5, "future": 3},
    {"history": 5, "copy": True},
    {"history": 4, "future": 2, "n_step": 3, "gamma": 0.9, "boundary": "clamp"},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_a_batch_filled_again_is_the_one_that_would_have_been_drawn(
    settings: dict[str, Any],
) -> None:
    buf = filled()
    fresh, again = buf.sampler(seed=1, **settings), buf.sampler(seed=1, **settings)
    out = again.sample(32)
    assert_equal(out, fresh.sample(32))
    views = dict(flat(out))
    for _ in range(3):
        assert again.sample(32, out=out) is out
        assert_equal(out, fresh.sample(32))
        assert all(array is views[key] for key, array in flat(out)), "the very same arrays"
    index = out.index.copy()
    assert again.gather(index[::-1], out=out) is out
    assert_equal(out, fresh.gather(index[::-1]))


def test_a_slice_that_was_kept_shows_the_new_draw() -> None:
    sampler = filled().sampler(seed=1, history=4)
    out = sampler.sample(8)
    kept = out["next_obs"]["x"][2:4]
    sampler.sample(8, out=out)
    np.testing.assert_array_equal(kept, out["next_obs"]["x"][2:4])
    assert not kept.flags.writeable


def test_keys_taken_out_of_a_batch_come_back_when_it_is_filled() -> None:
    sampler = filled().sampler(seed=1)
    out = sampler.sample(8)
    expected = list(out)
    del out["reward"]
    del out["obs"]
    out["weights"] = np.ones(8)
    sampler.sample(8, out=out)
    assert set(out) == {*expected, "weights"}
    assert out["obs"]["x"].shape == (8, 3)


MISFITS = [
    ({}, 16, r"`obs/x`.*\bf4\b.*\[16.*3\].*\bf4\b.*\[8.*3\]"),
    ({"history": 2}, 8, r"`obs/x`.*\bf4\b.*\[8.*\b2\b.*3\]"),
    ({"n_step": 2, "gamma": 1.0}, 8, "`n_reward`"),
]


@pytest.mark.parametrize(("settings", "size", "message"), MISFITS, ids=str)
def test_a_batch_that_does_not_fit_is_refused_and_left_alone(
    settings: dict[str, Any], size: int, message: str
) -> None:
    buf = filled()
    out = buf.sampler(seed=1, **settings).sample(size)
    before = copy.deepcopy(out)
    with pytest.raises(bc.errors.SampleError, match=message):
        buf.sampler(seed=2).sample(8, out=out)
    assert_equal(out, before)


def test_a_batch_of_a_closed_sampler_is_filled_by_an_open_one() -> None:
    buf = filled()
    with buf.sampler(seed=1) as first:
        out = first.sample(8)
    buf.sampler(seed=2).sample(8, out=out)
    assert_equal(out, buf.sampler(seed=2).sample(8))
    with pytest.raises(bc.ClosedError):
        first.sample(8, out=out)
    assert buf.sample(8, out=out) is out
    assert buf.gather(out.index, out=out) is out


def own(buf: bc.ReplayBuffer, size: int, **settings: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return arrays that the caller owns, shaped like those of a batch and filled with ones."""

    def like(values: dict[str, Any]) -> dict[str, Any]:
        return {
            key: like(value) if isinstance(value, dict) else np.full_like(value, 1)
            for key, value in values.items()
        }

    return like(buf.sampler(seed=9, **settings).sample(size))


def test_arrays_of_the_callers_are_filled_in_place() -> None:
    buf = filled()
    for settings in ({}, {"history": 3, "future": 2, "copy": True, "n_step": 2, "gamma": 0.5}):
        sampler, out = buf.sampler(seed=1, **settings), own(buf, 8, **settings)  # type: ignore[arg-type]
        arrays = dict(flat(out))
        assert sampler.sample(8, out=out) is out
        assert all(array is arrays[key] for key, array in flat(out))
        assert_equal(out, buf.sampler(seed=1, **settings).sample(8))  # type: ignore[arg-type]


def test_keys_that_a_dict_lacks_are_added() -> None:
    buf = filled()
    mine = np.zeros((8, 3), np.float32)
    out: dict[str, Any] = {"obs": {"x": mine}}
    buf.sampler(seed=1).sample(8, out=out)
    assert out["obs"]["x"] is mine
    expected = buf.sampler(seed=1).sample(8)
    assert {key for key, _ in flat(out)} == {key for key, _ in flat(expected)}
    for key, array in flat(expected):
        np.testing.assert_array_equal(dict(flat(out))[key], array)


def _read_only() -> NDArray[Any]:
    array = np.zeros((8, 3), np.float32)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize("settings", [{}, {"history": 3, "copy": True}], ids=str)
def test_an_array_that_was_put_into_a_batch_is_filled(settings: dict[str, Any]) -> None:
    buf = filled()
    out = buf.sampler(seed=3, **settings).sample(8)
    drawn = out["obs"]["x"]
    before, mine = drawn.copy(), np.zeros_like(drawn)
    out["obs"]["x"] = mine
    for seed in (4, 5):
        assert buf.sampler(seed=seed, **settings).sample(8, out=out) is out
        assert out["obs"]["x"] is mine
        assert_equal(out, buf.sampler(seed=seed, **settings).sample(8))
    np.testing.assert_array_equal(drawn, before)
    out["obs"] = {"x": drawn}
    buf.sampler(seed=6, **settings).sample(8, out=out)
    assert_equal(out, buf.sampler(seed=6, **settings).sample(8))


def _set(name: str, value: object) -> Callable[[bc.Batch], None]:
    def put(batch: bc.Batch) -> None:
        batch["obs"][name] = value

    return put


def _reshape(batch: bc.Batch) -> None:
    batch["obs"]["x"] = batch["obs"]["x"]
    with warnings.catch_warnings():
        # NumPy deprecates assignments to `shape` in favour of `reshape`.
        warnings.simplefilter("ignore", DeprecationWarning)
        batch["obs"]["x"].shape = (*batch["obs"]["x"].shape[:-1], 1, 3)


def _ungroup(batch: bc.Batch) -> None:
    batch["obs"] = np.zeros((8, 3), np.float32)


CHANGED: dict[str, tuple[dict[str, Any], Callable[[bc.Batch], None], str]] = {
    "another dtype": ({}, _set("x", np.zeros((8, 3))), r"\bfloat64 \(8, 3\).*\bfloat32 \(8, 3\)"),
    "another shape": ({}, _set("x", np.zeros((8, 4), np.float32)), r"\bfloat32 \(8, 4\)"),
    "no array": ({}, _set("x", [1.0]), "obs/x.*NumPy"),
    "not in one piece": (
        {},
        _set("x", np.zeros((8, 6), np.float32)[:, ::2]),
        r"obs/x.*np\.ascontiguousarray",
    ),
    "a masked one": (
        {},
        _set("x", np.ma.masked_array(np.zeros((8, 3), np.float32))),
        r"obs/x.*\.data\b",
    ),
    "a part of a larger one": (
        {"history": 2},
        _set("x", np.zeros((8, 2, 3), np.float32)),
        "obs/x.*copy=True",
    ),
    "reshaped": ({}, _reshape, r"obs/x.*\bfloat32 \(8, 1, 3\)"),
    "a reshaped window": ({"history": 2}, _reshape, r"obs/x.*\bfloat32 \(8, 2, 1, 3\)"),
    "no dict": ({}, _ungroup, 'out."obs"'),
}


@pytest.mark.parametrize("name", CHANGED)
def test_a_batch_whose_arrays_were_changed_is_refused_and_left_alone(name: str) -> None:
    settings, change, message = CHANGED[name]
    buf = filled()
    out = buf.sampler(seed=1, **settings).sample(8)
    reward = out["reward"].copy()
    change(out)
    with pytest.raises(bc.errors.SampleError, match=message):
        buf.sampler(seed=2, **settings).sample(8, out=out)
    np.testing.assert_array_equal(out["reward"], reward)


def _masked() -> np.ma.MaskedArray[Any, Any]:
    return np.ma.masked_array(np.zeros((8, 3), np.float32), mask=np.ones((8, 3), bool))


WRONG: list[tuple[Any, str]] = [
    (
        {"obs": {"x": np.zeros((8, 3), np.float64)}},
        r"\bfloat64\b.*\b8\b.*\b3\b.*\bfloat32\b.*\b8\b.*\b3\b",
    ),
    ({"obs": {"x": np.zeros((8, 4), np.float32)}}, r"\bfloat32\b.*\b8\b.*\b4\b"),
    ({"obs": {"x": np.zeros((8, 6), np.float32)[:, ::2]}}, r"obs/x.*np\.ascontiguousarray"),
    ({"obs": {"x": _read_only()}}, "obs/x"),
    ({"obs": {"x": _masked()}}, r"obs/x.*\.data\b"),
    ({"obs": {"x": [1.0, 2.0]}}, r"\bNumPy\b"),
    ({"obs": np.zeros((8, 3), np.float32)}, '"obs"'),
    ({"observation": np.zeros(8)}, r'"observation".*obs/x'),
    ([1, 2], r"\bout\b"),
]


@pytest.mark.parametrize(("out", "message"), WRONG, ids=[message for _, message in WRONG])
def test_memory_that_does_not_fit_is_refused_by_its_key(out: Any, message: str) -> None:  # noqa: ANN401
    with pytest.raises(bc.BackcastError, match=message):
        filled().sampler(seed=1).sample(8, out=out)


def test_arrays_that_share_memory_are_refused() -> None:
    buf = filled()
    out = own(buf, 8)
    out["obs"]["x"] = out["next_obs"]["x"]
    with pytest.raises(bc.errors.SampleError, match="next_obs/x"):
        buf.sampler(seed=1).sample(8, out=out)
    # The refused call leaves no array marked as in use.
    out["obs"]["x"] = out["next_obs"]["x"].copy()
    buf.sampler(seed=1).sample(8, out=out)


def test_separate_arrays_cannot_take_overlapping_windows() -> None:
    buf = filled()
    with pytest.raises(bc.errors.SampleError, match="copy=True"):
        buf.sampler(seed=1, history=3).sample(8, out={})


def test_a_batch_pickles_and_copies_as_its_arrays() -> None:
    sampler = filled().sampler(seed=1, history=3)
    batch = sampler.sample(8)
    for other in (pickle.loads(pickle.dumps(batch)), copy.copy(batch), copy.deepcopy(batch)):
        assert type(other) is bc.Batch
        assert_equal(other, batch)
        with pytest.raises(bc.errors.SampleError, match="copy=True"):
            sampler.sample(8, out=other)  # a copy has separate arrays, and not a sampler's arena


def test_memory_of_a_dropped_batch_is_used_again_and_held_memory_is_not() -> None:
    sampler = filled().sampler(seed=1, history=6)

    def place(batch: dict[str, Any]) -> int:
        address: int = batch["obs"]["x"].__array_interface__["data"][0]
        return address

    first = sampler.sample(64)
    at, view = place(first), first["obs"]["x"][3]
    expected = view.copy()
    del first
    gc.collect()
    second = sampler.sample(64)
    assert place(second) != at, "a view is still alive"
    np.testing.assert_array_equal(view, expected)
    del view
    third = sampler.sample(64)
    assert place(third) == at, "the last view died"
    del sampler
    gc.collect()
    np.testing.assert_array_equal(third["action"].shape, (64, 6))
    assert third["action"].flags.writeable
    third["action"] += 1


def test_a_numpy_array_outlives_everything_it_came_from() -> None:
    buf = filled()
    batch = buf.sampler(seed=1, history=3).sample(16)
    tail = batch["next_obs"]["x"][-1][1:]
    expected = tail.copy()
    buf.close()
    del buf, batch
    gc.collect()
    np.testing.assert_array_equal(tail, expected)


def test_threads_that_share_a_batch_are_refused_or_take_turns() -> None:
    buf = filled(steps=5_000, ends=1_000, capacity=6_000)
    out = buf.sampler(seed=1).sample(2_000)
    refused: list[str] = []
    start = threading.Barrier(3, timeout=60)

    def fill(seed: int) -> None:
        sampler = buf.sampler(seed=seed)
        start.wait()
        for _ in range(50):
            try:
                sampler.sample(2_000, out=out)
            except bc.errors.SampleError as error:
                refused.append(str(error))

    threads = [threading.Thread(target=fill, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    join(*threads)
    # The thread that filled the batch last filled all of it.
    np.testing.assert_array_equal(out["action"], out["obs"]["n"])
    buf.sampler(seed=1).sample(2_000, out=out)


def test_gather_leaves_the_callers_index_as_it_was() -> None:
    buf = filled()
    index = buf.sampler(seed=1).sample(8).index
    before = index.copy()
    buf.gather(index)
    buf.sampler(history=3).gather(index)
    np.testing.assert_array_equal(index, before)


def test_memory_of_a_failed_draw_can_be_filled_later() -> None:
    buf = bc.ReplayBuffer.create(None, COLUMNS, capacity=50)
    out = own(filled(), 8)
    with pytest.raises(bc.errors.SampleError, match=r"\b0\b"):
        buf.sampler(seed=1).sample(8, out=out)
    write(buf, 20)
    buf.sampler(seed=1).sample(8, out=out)
    assert_equal(out, buf.sampler(seed=1).sample(8))
