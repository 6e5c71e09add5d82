"""Environments on a part of the days: future windows show no later days."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import backcast as bc
import backcast.finrl as ff
import numpy as np
import pytest
from facts import missing
from finrl_buffers import collect, same, vec, with_gaps

END = 30
DAYS = 60


@pytest.fixture
def panel(tmp_path: Path) -> Iterator[bc.Panel]:
    with bc.Panel.from_csv(
        with_gaps(tmp_path), macro=["VIX"], name="prices", dir=tmp_path
    ) as shared:
        yield shared


def trained(panel: bc.Panel, **settings: Any) -> tuple[ff.VecFastFinRL, ff.VecReplayBuffer]:  # noqa: ANN401
    """Make environments on the training days, and a buffer with transitions of the last of them."""
    env = vec(panel, 4, days=(0, END), **settings)
    buffer = ff.VecReplayBuffer(env, 200)
    add_last_days(env, buffer)
    return env, buffer


def add_last_days(env: ff.VecFastFinRL, buffer: ff.VecReplayBuffer) -> None:
    env.reset(seed=1, options={"start_day": END - 4})
    state = env.get_state()
    for _ in range(3):
        after = env.step(np.zeros((4, 2)))
        buffer.add(state, np.zeros((4, 2)), after["reward"], after, after["done"])
        state = after


@pytest.mark.parametrize("copy", [False, True])
@pytest.mark.parametrize("layout", ["ticker", "batched"])
def test_no_future_reaches_the_days_to_test_on(panel: bc.Panel, layout: Any, copy: bool) -> None:  # noqa: ANN401
    env, buffer = trained(panel)
    assert env.days == (0, END)
    for seed in range(3):
        indices = np.random.default_rng(seed).integers(0, buffer.size(), 16)
        s, _, _, s_next, *_ = buffer.sample(16, 3, 8, layout=layout, copy=copy, indices=indices)
        for state in (s, s_next):
            day = state["day"].astype(int)
            reached = day[:, None] + np.arange(1, 9) >= END
            assert reached.any()
            assert not reached.all()
            parts = [state] if layout == "batched" else [state[t] for t in state["unique_tickers"]]
            macros = state["macro"]
            parts += [macros] if layout == "batched" else [macros["VIX"]]
            for part in parts:
                mask = part["future_mask"]
                beyond = reached[:, None] & np.ones(mask.shape, bool) if mask.ndim == 3 else reached
                assert not mask[beyond].any()
                assert not part["future_ohlcv"][beyond].any()
                assert not part["future_indicators"][beyond].any()
                assert mask[~beyond].any()
                assert part["open"].any()


def test_windows_looked_up_one_at_a_time_end_there_too(panel: bc.Panel) -> None:
    env, buffer = trained(panel)
    stored = buffer.get(0)
    assert stored.state_day == END - 4
    data = buffer.get_market_data(0, 2, 8)
    window = env.get_market_window_numpy(["BBB", "DDD"], END - 4, 2, 8)
    for tic in stored.tickers:
        assert data[tic]["future_mask"].tolist() == [1, 1, 1, 0, 0, 0, 0, 0]
        assert data[tic]["future_days"].tolist() == [27, 28, 29, -1, -1, -1, -1, -1]
        assert not data[tic]["future_ohlcv"][3:].any()
    assert window["BBB"]["future_days"].tolist() == [27, 28, 29, -1, -1, -1, -1, -1]
    assert not window["BBB"]["future_ohlcv"][3:].any()
    # A window around a day after the end shows that day and its past, but masks its future.
    window = env.get_market_window_numpy(["BBB"], END + 5, 2, 3)
    assert window["BBB"]["past_mask"].tolist() == [1, 1]
    assert window["BBB"]["current_open"] > 0
    assert not window["BBB"]["future_mask"].any()


def test_environments_on_all_days_see_all_of_them(panel: bc.Panel) -> None:
    env = vec(panel)
    assert env.days == (0, DAYS)
    buffer = ff.VecReplayBuffer(env, 200)
    add_last_days(env, buffer)
    s, *_ = buffer.sample(8, 0, 8, layout="batched")
    assert s["macro"]["future_mask"].all()


def test_joined_and_unpickled_buffers_show_no_later_days(panel: bc.Panel, tmp_path: Path) -> None:
    env = vec(panel, days=(0, END))
    with ff.VecReplayBuffer(env, 200, name="moves", dir=tmp_path) as buffer:
        add_last_days(env, buffer)
        picked = range(12)

        def futures(other: ff.VecReplayBuffer) -> np.ndarray[Any, Any]:
            s, *_ = other.sample(12, 0, 8, layout="batched", indices=picked)
            return np.asarray(s["macro"]["future_mask"])

        mine = futures(buffer)
        assert mine.any()
        assert not mine.all()
        for other in (
            ff.VecReplayBuffer.attach("moves", dir=tmp_path),
            ff.VecReplayBuffer.attach("moves", env, dir=tmp_path),
            pickle.loads(pickle.dumps(buffer)),
        ):
            with other:
                same(futures(other), mine)
        with ff.VecReplayBuffer.attach("moves", dir=tmp_path, end=DAYS) as whole:
            assert futures(whole).all()
            with pickle.loads(pickle.dumps(whole)) as again:
                assert futures(again).all()
        with ff.VecReplayBuffer.attach("moves", vec(panel), dir=tmp_path) as tested:
            assert futures(tested).all()
        for wrong, error in [(-1, bc.errors.SampleError), ("x", bc.errors.ArgumentTypeError)]:
            with pytest.raises(error, match=r"\bend\b"):
                ff.VecReplayBuffer.attach("moves", dir=tmp_path, end=wrong)  # type: ignore[arg-type]


def test_the_wrappers_future_ends_with_its_days(panel: bc.Panel) -> None:
    wrapper = ff.VecFinRLWrapper(
        panel, 100, n_envs=4, num_tickers=2, macro_tickers=["VIX"], days=(0, END)
    )
    wrapper.reset(seed=1, options={"start_day": END - 4})
    for _ in range(3):
        wrapper.step(wrapper.sample_actions())
    for part in wrapper.sample_buffer(32, 2, 8)[5:]:
        shown = part["future"]["macro"].sum(axis=(1, 2))
        # A state or next state has 0 to 3 training days after it.
        assert {*shown.tolist()} <= {0, 1, 2, 3}
        assert shown.any()
    wrapper.close()


def test_a_state_of_one_portfolio_and_the_next_of_another_are_refused(panel: bc.Panel) -> None:
    env = vec(panel, num_tickers=2, shuffle_tickers=True)
    buffer = ff.VecReplayBuffer(env, 200)
    collect(env, buffer, 3)
    state = env.reset(seed=1)
    after = env.step(np.zeros((4, 2)))
    given = (np.zeros((4, 2)), after["reward"])
    swapped = [list(names) for names in after["tickers"]]
    swapped[2] = swapped[2][::-1]
    with pytest.raises(bc.errors.AppendError) as refused:
        buffer.add(state, *given, after | {"tickers": swapped}, after["done"])
    first, second = swapped[2]
    facts = [f"['{first}', '{second}']", f"['{second}', '{first}']", "2", "final_obs"]
    assert missing(refused.value, facts) == []
    tokens = np.array([[panel.tickers.index(name) + 1 for name in row] for row in after["tickers"]])
    with pytest.raises(bc.errors.AppendError, match=r"\bnext_states\b.*\b0\b"):
        buffer.add(state, *given, after | {"tokens": tokens[:, ::-1]}, after["done"])
    rows = [
        {key: after[key][at] for key in ("day", "cash", "shares", "avg_buy_price")}
        | {"tickers": swapped[at], "terminal": False}
        for at in range(4)
    ]
    with pytest.raises(bc.errors.AppendError, match=r"\bnext_states\b.*\b2\b"):
        buffer.add(state, *given, rows, after["done"])
    assert buffer.size() == 12
    # Equal lists that are other objects, equal tokens, and a next state without tickers are taken.
    buffer.add(
        state, *given, after | {"tickers": [list(n) for n in after["tickers"]]}, after["done"]
    )
    buffer.add(state, *given, after | {"tokens": tokens}, after["done"])
    without = {key: value for key, value in after.items() if key != "tickers"}
    buffer.add(state, *given, without, after["done"])
    assert buffer.size() == 24


def test_one_state_and_the_next_of_other_tickers_are_refused(panel: bc.Panel) -> None:
    env = ff.FastFinRL(panel, macro_tickers=["VIX"], num_tickers=2)
    buffer = ff.ReplayBuffer(env, 50)
    state = env.reset(["AAA", "BBB"], seed=1)
    env.reset(["BBB", "AAA"], seed=1)
    after = env.step([0.0, 0.0])
    with pytest.raises(bc.errors.AppendError, match=r"\bnext_state\b.*\['BBB'.*'AAA'.*\['AAA'"):
        buffer.add(state, [0.0, 0.0], 0.0, after, False)
    assert buffer.size() == 0


def test_a_buffer_without_a_name_takes_its_sizes_again_once_it_is_cleared(
    panel: bc.Panel, tmp_path: Path
) -> None:
    env = vec(panel, num_tickers=2)
    buffer = ff.VecReplayBuffer(env, 200)
    collect(env, buffer, 2)
    buffer.save(tmp_path / "two.buffer")
    wide = vec(panel, num_tickers=3)
    state = wide.reset(seed=1)
    after = wide.step(np.zeros((4, 3)))
    added = (state, np.zeros((4, 3)), after["reward"], after, after["done"])
    with pytest.raises(bc.errors.AppendError, match=r"shares'\].*\b4\b.*\b3\b.*\b4\b.*\b2\b"):
        buffer.add(*added)
    buffer.clear()
    buffer.add(*added)
    assert buffer.size() == 4
    with pytest.raises(bc.errors.SchemaError):
        buffer.load(tmp_path / "two.buffer")
    assert buffer.size() == 4
    buffer.clear()
    buffer.load(tmp_path / "two.buffer")
    assert buffer.size() == 8


def test_current_indicators_are_as_old_in_both_layouts(panel: bc.Panel) -> None:
    env = vec(panel, indicator_lag=3)
    buffer = ff.VecReplayBuffer(env, 200)
    added = collect(env, buffer, 4)
    seen = {
        (int(day), env_id): row
        for state, *_ in added
        for env_id, (day, row) in enumerate(zip(state["day"], state["indicators"], strict=True))
    }
    for history in (0, 2, 5):
        s, *_ = buffer.sample(8, history, indices=range(8))
        batched, *_ = buffer.sample(8, history, layout="batched", indices=range(8))
        for at in range(8):
            shown = seen[int(s["day"][at]), int(s["env_ids"][at])].astype(np.float32)
            np.testing.assert_array_equal(batched["current_indicators"][at], shown)
            for slot, name in enumerate(s["tickers"][at]):
                np.testing.assert_array_equal(s[name]["current_indicators"][at], shown[slot])
        assert s["macro"]["VIX"]["current_indicators"].shape == (8, 2)
