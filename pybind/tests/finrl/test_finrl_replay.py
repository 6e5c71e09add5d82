"""Buffers return transitions as they were added: shapes, values, lists, objects, objectives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import backcast as bc
import backcast.finrl as ff
import numpy as np
import pytest
from finrl_buffers import collect, filled, vec, with_gaps


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


def test_the_seven_parts_have_the_shapes_of_the_page(buffer: ff.VecReplayBuffer) -> None:
    b, h, f, k = 50, 6, 3, 2
    s, action, reward, s_next, done, mask, mask_next = buffer.sample(b, h, f)
    for state, masks in ((s, mask), (s_next, mask_next)):
        for ticker in state["unique_tickers"]:
            assert state[ticker]["ohlcv"].shape == (b, h, 5)
            assert state[ticker]["indicators"].shape == (b, h, k)
            assert state[ticker]["future_ohlcv"].shape == (b, f, 5)
            assert state[ticker]["future_indicators"].shape == (b, f, k)
            assert state[ticker]["future_mask"].shape == (b, f)
            assert masks[ticker].shape == (b, h)
            assert masks[ticker].dtype == state[ticker]["future_mask"].dtype == np.int32
            assert state[ticker]["ohlcv"].dtype == np.float32
        assert state["macro"]["VIX"]["ohlcv"].shape == (b, h, 5)
        assert masks["macro"]["VIX"].shape == (b, h)
        assert state["portfolio"]["cash"].shape == (b,)
        assert state["portfolio"]["shares"].shape == (b, 2)
        assert state["portfolio"]["shares"].dtype == np.int32
        assert state["portfolio"]["avg_buy_price"].shape == (b, 2)
        assert np.shape(state["tickers"]) == (b, 2)
        assert state["env_ids"].shape == (b,)
        assert state["macro_tickers"] == ["VIX"]
        assert state["indicator_names"] == ["zeta", "alpha"]
        assert state["action_shape"] == (2,)
    assert (action.shape, reward.shape, done.shape) == ((b, 2), (b, 1), (b,))
    assert done.dtype == bool
    assert len(buffer.sample(b)[0]["env_ids"]) == b
    assert len(buffer.sample()[0]["env_ids"]) == 80, "never more than are stored"


def test_numbers_are_the_states_and_the_markets(path: Path) -> None:
    env = vec(path)
    buffer = ff.VecReplayBuffer(env, capacity=1_000)
    added = collect(env, buffer, 15)
    index = np.arange(60)
    s, action, reward, s_next, done, mask, _ = buffer.sample(
        history_length=4, future_length=2, layout="batched", indices=index
    )
    for at in index:
        state, actions, after = (part for part in added[at // 4])
        i, arrived = at % 4, after.get("final_obs", after)
        assert s["day"][at] == state["day"][i]
        assert s_next["day"][at] == arrived["day"][i] == state["day"][i] + 1
        for side, of in ((s, state), (s_next, arrived)):
            for key in ("cash", "shares", "avg_buy_price"):
                kept = np.asarray(of[key][i], side["portfolio"][key].dtype)
                np.testing.assert_array_equal(side["portfolio"][key][at], kept)
        np.testing.assert_array_equal(action[at], actions[i].astype(np.float32))
        assert reward[at, 0] == np.float32(after["reward"][i])
        assert done[at] == after["done"][i]
        window = env.get_market_window_numpy(state["tickers"][i], int(state["day"][i]), 4, 2)
        for t, ticker in enumerate(state["tickers"][i]):
            past = window[ticker]["past_ohlcv"].astype(np.float32)
            np.testing.assert_array_equal(s["ohlcv"][at, t], past)
            np.testing.assert_array_equal(mask["market"][at, t], window[ticker]["past_mask"])
            assert s["open"][at, t] == np.float32(window[ticker]["current_open"])
    found = buffer.get_market_data(17, 4, 2)
    day, names = int(added[4][0]["day"][1]), added[4][0]["tickers"][1]
    np.testing.assert_equal(found, env.get_market_window_numpy(names, day, 4, 2))


def test_lists_of_states_are_as_good_as_arrays(path: Path) -> None:
    env = vec(path)
    arrays, dicts, objects = (ff.VecReplayBuffer(env, capacity=100) for _ in range(3))
    for state, actions, after in collect(env, arrays, 20):
        rewards, dones = after["reward"].tolist(), after["done"].tolist()

        def rows(of: dict[str, Any]) -> list[dict[str, Any]]:
            keys = ("day", "cash", "shares", "avg_buy_price", "tickers", "terminal")
            made = [{key: of[key][i] for key in keys if key in of} for i in range(4)]
            if "final_obs" in of:
                for row, last in zip(made, rows(of["final_obs"]), strict=True):
                    row["final_obs"] = last
            return made

        dicts.add(rows(state), actions, rewards, rows(after), dones)
        as_objects = [[SimpleNamespace(**row) for row in rows(of)] for of in (state, after)]
        objects.add(as_objects[0], actions.tolist(), rewards, as_objects[1], dones)
    kept = [[buffer.get(i) for i in range(80)] for buffer in (arrays, dicts, objects)]
    assert kept[0] == kept[1] == kept[2]


def test_the_json_states_of_an_environment_are_added_as_they_are(path: Path) -> None:
    env = vec(path, return_format="json")
    buffer = ff.VecReplayBuffer(env, capacity=500)
    state, days = env.reset(seed=4), []
    for _ in range(70):
        after = env.step(np.zeros((4, 2)))
        buffer.add(state, np.zeros((4, 2)), [0.0] * 4, after, [row["done"] for row in after])
        days += [(row["day"], row["done"]) for row in state]
        state = after
    found = [buffer.get(i) for i in range(280)]
    assert [row.state_day for row in found] == [day for day, _ in days]
    assert all(row.next_state_day == row.state_day + 1 for row in found), "also where one ended"
    assert sum(row.done for row in found) > 4


def test_empty_endless_and_array_arguments(
    env: ff.VecFastFinRL, buffer: ff.VecReplayBuffer
) -> None:
    nothing = buffer.sample(indices=[], history_length=3)
    assert (nothing[1].shape[0], nothing[0]["unique_tickers"]) == (0, [])
    batched = buffer.sample(indices=[], history_length=3, layout="batched")
    assert batched[0]["ohlcv"].shape[0] == 0
    for days in (10**5, 2**31, 2**63, 2**70):
        for h, future in ((days, 0), (0, days)):
            with pytest.raises(bc.errors.SampleError, match=rf"\b({days}|{days + 1})\b"):
                buffer.get_market_data(0, h, future)
    state = env.reset(seed=1)
    after = env.step(np.zeros((4, 2)))
    state["tickers"] = [np.array(names) for names in state["tickers"]]
    before = buffer.size()
    for _ in range(2):
        buffer.add(state, np.zeros((4, 2)), after["reward"], after, after["done"])
    assert buffer.size() == before + 8
    with pytest.raises(bc.errors.AppendError, match=r"next_states\['final_obs'\].*\b5\b"):
        buffer.add(state, np.zeros((4, 2)), [0] * 4, after | {"final_obs": 5}, [False] * 4)


def test_lists_of_states_are_looked_at_one_by_one(path: Path) -> None:
    env = ff.VecFastFinRL(path, 2)
    buffer = ff.VecReplayBuffer(env, capacity=50)
    states = env.reset([["AAA", "BBB"]] * 2, seed=1)
    after = env.step(np.zeros((2, 2)))
    for odd, says in [
        ({"shares": [1]}, r"states\[1\]\['shares'\].*\(1,\).*\(2,\)"),
        ({"cash": [1, 2]}, r"states\[1\]\['cash'\].*\(2,\)"),
        ({"cash": "much"}, r"states\['cash'\]: "),
        ({"portfolio": {"holdings": [1]}}, r"states\[1\]\['portfolio'\]\['holdings'\].*\[1\]"),
    ]:
        with pytest.raises(bc.errors.AppendError, match=says):
            buffer.add([states[0], states[1] | odd], np.zeros((2, 2)), [0, 0], after, [False] * 2)
    assert buffer.size() == 0


def test_rewards_of_several_objectives_and_actions_of_any_shape(env: ff.VecFastFinRL) -> None:
    state = env.reset(seed=1)
    after = env.step(np.zeros((4, 2)))
    actions, rewards = np.arange(16.0).reshape(4, 2, 2), np.arange(12.0).reshape(4, 3)
    buffer = ff.VecReplayBuffer(env, 100, action_shape=(env.n_tickers(), 2))
    buffer.add(state, actions, rewards, after, after["done"])
    assert (buffer.n_objectives, buffer.action_shape) == (3, (2, 2))
    _, action, reward, *_ = buffer.sample(indices=[0, 1, 2, 3])
    np.testing.assert_array_equal(action, actions)
    np.testing.assert_array_equal(reward, rewards)
    assert buffer.get(2).action == [8.0, 9.0, 10.0, 11.0]
    assert buffer.get(2).rewards == [6.0, 7.0, 8.0]
    with pytest.raises(bc.errors.AppendError, match=r"\(4,\).*\b4\b.*\b3\b"):
        buffer.add(state, actions, rewards[:, 0], after, after["done"])
    with pytest.raises(bc.errors.AppendError, match=r"\b4\b.*\b1\b.*\b4\b.*\b3\b"):
        buffer.add(state, actions, rewards[:, :1].tolist(), after, after["done"])
    assert buffer.size() == 4
