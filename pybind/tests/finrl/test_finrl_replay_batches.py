"""Batches of a buffer: filled again, views or copies, outliving it, drawn again by seed."""

from __future__ import annotations

import copy
import gc
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import backcast.finrl as ff
import numpy as np
import pytest
from finrl_buffers import collect, filled, same, vec, with_gaps


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return with_gaps(tmp_path)


@pytest.fixture
def env(path: Path) -> ff.VecFastFinRL:
    return vec(path)


@pytest.fixture
def buffer(env: ff.VecFastFinRL) -> Iterator[ff.VecReplayBuffer]:
    with filled(env) as made:
        yield made


def test_an_earlier_batch_is_filled_again(buffer: ff.VecReplayBuffer) -> None:
    layouts: list[Any] = ["ticker", "batched"]
    for layout in layouts:
        twin = buffer.sample(30, 5, 2, layout=layout, indices=np.arange(30))
        out = copy.copy(twin)
        out = buffer.sample(30, 5, 2, layout=layout, indices=np.arange(30, 60))
        places = [part.ctypes.data for part in out if isinstance(part, np.ndarray)]
        again = buffer.sample(
            30,
            5,
            2,
            layout=layout,
            indices=np.arange(30),
            out=out,
        )
        if again is out:
            assert places == [part.ctypes.data for part in out if isinstance(part, np.ndarray)]
        same(again, twin)


def test_reused_batches_of_both_kinds_are_right_whatever_was_drawn_before(path: Path) -> None:
    env = vec(path)
    buffer, twin = (ff.VecReplayBuffer(env, capacity=300, seed=5) for _ in range(2))
    state = env.reset(seed=2)
    for step in range(60):
        after = env.step(np.zeros((4, 2)))
        kept = {key: value for key, value in after.items() if key != "final_obs" or step % 2}
        for into in (buffer, twin):
            into.add(state, np.zeros((4, 2)), after["reward"], kept, after["done"])
        state = after
    kinds, reused = set(), 0
    out: Any = None
    for _ in range(60):
        before = out
        out = buffer.sample(12, 4, 2, out=out)
        reused += out is before
        same(out, twin.sample(12, 4, 2))
        kinds.add(out[0]["AAA"]["ohlcv"].flags.writeable)
    assert kinds == {True, False}, "some states are followed by the day after, some are not"
    assert reused > 10


def test_views_that_overlap_are_read_only_unless_copies_are_asked_for(
    buffer: ff.VecReplayBuffer,
) -> None:
    index = [i for i in range(80) if buffer.get(i).next_state_day == buffer.get(i).state_day + 1]
    s, *_, mask, _ = buffer.sample(history_length=5, future_length=2, indices=index)
    s_next = buffer.sample(history_length=5, indices=index)[3]
    ticker = s["unique_tickers"][0]
    for array in (s[ticker]["ohlcv"], s_next[ticker]["indicators"], mask[ticker]):
        with pytest.raises(ValueError, match="read-only"):
            array += 1
    s["portfolio"]["cash"] += 1
    shared = buffer.sample(history_length=5, future_length=2, indices=index)
    apart = buffer.sample(history_length=5, future_length=2, indices=index, copy=True)
    same(apart, shared)
    kept = apart[3][ticker]["ohlcv"].copy()
    apart[0][ticker]["ohlcv"][...] = -1
    np.testing.assert_array_equal(apart[3][ticker]["ohlcv"], kept)


def test_a_batch_outlives_its_buffer_and_pickles_as_plain_parts(env: ff.VecFastFinRL) -> None:
    buffer = ff.VecReplayBuffer(env, capacity=100)
    collect(env, buffer, 10)
    batch = buffer.sample(20, 3, 1)
    before: tuple[Any, ...] = copy.deepcopy(tuple(batch))
    buffer.close()
    del buffer
    gc.collect()
    same(batch, before)
    again = pickle.loads(pickle.dumps(batch))
    assert type(again) is tuple
    same(again, before)


def test_draws_repeat_with_the_seed_and_indices_are_in_range(env: ff.VecFastFinRL) -> None:
    one, other, third = (ff.VecReplayBuffer(env, 100, seed=seed) for seed in (7, 7, 8))
    for into in (one, other, third):
        collect(env, into, 12)
    same(one.sample(30, 2), other.sample(30, 2))
    indices = one.sample_indices(40)
    assert indices == other.sample_indices(40)
    assert indices != third.sample_indices(40)
    assert isinstance(indices, list)
    assert set(indices) <= set(range(48))
    assert len(set(indices)) < 40, "with replacement"
    assert len(one.sample_indices(400)) == 48
    free = ff.VecReplayBuffer(env, 100, seed=-1), ff.VecReplayBuffer(env, 100, seed=-1)
    for into in free:
        collect(env, into, 12)
    assert free[0].sample_indices(40) != free[1].sample_indices(40)
