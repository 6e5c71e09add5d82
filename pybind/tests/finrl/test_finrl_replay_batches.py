"""Batches of a buffer: refilled, as views or copies, after it is closed, and repeated by seed."""

from __future__ import annotations

import copy
import gc
import pickle
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import backcast as bc
import backcast.finrl as ff
import numpy as np
import pytest
from finrl_buffers import collect, filled, same, vec, with_gaps
from finrl_market import market


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
        assert again is out, layout
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


def made(
    panel: bc.Panel,
    indicators: list[str] | None = None,
    macro: str = "VIX",
    tickers: int = 2,
    rewards: int = 1,
    **settings: Any,  # noqa: ANN401
) -> ff.VecReplayBuffer:
    """Fill a buffer whose batches have parts of these names and sizes."""
    chosen = ["alpha", "zeta"] if indicators is None else indicators
    env = vec(panel, num_tickers=tickers, macro_tickers=[macro], tech_indicator_list=chosen)
    buffer = ff.VecReplayBuffer(env, 100, **settings)
    state = env.reset(seed=3)
    for _ in range(10):
        action = np.full((4, *buffer.action_shape), 0.5)
        after = env.step(np.zeros((4, tickers)))
        reward = np.repeat(after["reward"][:, None], rewards, 1)
        buffer.add(state, action, reward, after, after["done"])
        state = after
    return buffer


def test_large_batches_begin_huge_pages_and_give_their_memory_to_later_ones(
    buffer: ff.VecReplayBuffer,
) -> None:
    def drawn(first: int) -> np.ndarray[Any, Any]:
        indices = np.arange(first, first + 5_000) % 60
        state, *_ = buffer.sample(5_000, 5, 2, layout="batched", indices=indices)
        prices: np.ndarray[Any, Any] = state["ohlcv"]
        return prices

    def place_of(prices: np.ndarray[Any, Any]) -> int:
        arena = prices.base
        assert arena is not None
        assert arena.nbytes > 2**20
        return arena.ctypes.data

    kept = drawn(0)
    place, before = place_of(kept), kept.copy()
    assert place % 2**21 == 0
    others = [drawn(first) for first in range(1, 4)]
    assert place not in {place_of(other) for other in others}
    np.testing.assert_array_equal(kept, before)
    del kept, others
    again = [drawn(first) for first in range(4)]
    assert place in {place_of(prices) for prices in again}
    np.testing.assert_array_equal(again[0], before)


OTHERS: dict[str, dict[str, Any]] = {
    "order of indicators": {"indicators": ["zeta", "alpha"]},
    "macro ticker": {"macro": "SPY"},
    "action": {"action_shape": (2, 2)},
    "shape of the same actions": {"action_shape": (2, 1)},
    "rewards": {"rewards": 3},
    "tickers": {"tickers": 3},
}


@pytest.mark.parametrize("layout", ["ticker", "batched"])
@pytest.mark.parametrize("other", [*OTHERS, "market", "none"])
def test_a_batch_of_another_buffer_is_filled_only_where_all_its_parts_are_the_same(
    tmp_path: Path,
    layout: Any,  # noqa: ANN401
    other: str,
) -> None:
    def panel(name: str, tickers: list[str]) -> bc.Panel:
        path = market(60, [*tickers, "SPY", "VIX"]).write(tmp_path / f"{name}.csv")
        return bc.Panel.from_csv(path, macro=["SPY", "VIX"])

    first = panel("first", ["AAA", "BBB", "CCC"])
    second = panel("second", ["KKK", "LLL", "MMM"]) if other == "market" else first
    out = made(first).sample(8, 3, 1, layout=layout)
    mine = copy.deepcopy(tuple(out))
    buffer = made(second, **OTHERS.get(other, {}))
    index = np.arange(8)
    batch = buffer.sample(None, 3, 1, layout=layout, indices=index, out=out)
    assert (batch is out) == (other == "none")
    same(tuple(batch), tuple(buffer.sample(None, 3, 1, layout=layout, indices=index)))
    if batch is not out:
        same(tuple(out), mine)


def test_a_batch_from_before_a_buffer_took_other_sizes_is_not_filled_again(
    env: ff.VecFastFinRL, buffer: ff.VecReplayBuffer
) -> None:
    out = buffer.sample(4, 3)
    buffer.clear()
    state, after = env.reset(seed=1), env.step(np.zeros((4, 2)))
    buffer.add(state, np.zeros((4, 2)), np.ones((4, 3)), after, after["done"])
    batch = buffer.sample(4, 3, out=out)
    assert batch is not out
    assert (batch[2].shape, out[2].shape) == ((4, 3), (4, 1))


def test_a_batch_whose_arrays_were_resized_is_not_filled_again(buffer: ff.VecReplayBuffer) -> None:
    out = buffer.sample(4, 3, layout="batched", copy=True)
    out[1].resize((2, 2), refcheck=False)
    batch = buffer.sample(4, 3, layout="batched", copy=True, out=out)
    assert batch is not out
    assert batch[1].shape == (4, 2)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"history_length": 10**7}, r"\b10000000\b"),
        ({"history_length": np.int64(10**7)}, r"\b10000000\b"),
        ({"future_length": np.uint16(50_000)}, r"\b50000\b"),
        ({"history_length": np.int64(4_000), "future_length": 40_000}, r"\b40000\b"),
        ({"out": "read-only"}, "out"),
    ],
)
def test_a_refused_batch_does_not_move_the_draws(
    path: Path, given: dict[str, Any], says: str
) -> None:
    asked, other = (filled(vec(path)) for _ in range(2))
    if "out" in given:
        out = asked.sample(30, indices=np.arange(30), layout="batched", copy=True)
        out[1].flags.writeable = False
        given = {"batch_size": 30, "layout": "batched", "copy": True, "out": out}
    with pytest.raises(bc.errors.SampleError, match=says):
        asked.sample(**given)
    assert asked.sample_indices(20) == other.sample_indices(20)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="Linux says what is mapped")
def test_a_batch_without_memory_does_not_move_the_draws(path: Path) -> None:
    env = vec(path)
    asked, other = (ff.VecReplayBuffer(env, 400) for _ in range(2))
    for into in (asked, other):
        collect(env, into, 100)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 2**24, before[1]))
    try:
        with pytest.raises(bc.errors.SampleError, match=r"\b400\b|\bbytes\b"):
            asked.sample(400, 2_000, 2_000)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    assert asked.sample_indices(20) == other.sample_indices(20)


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
