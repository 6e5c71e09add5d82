"""`wrapper.env` is the environment that a wrapper steps; the wrapper reports its episodes."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import backcast as bc
import backcast.finrl as ff
import numpy as np
import pytest
from finrl_buffers import same, with_gaps

MODES = ["next_step", "same_step", "disabled"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return with_gaps(tmp_path)


def made(path: Path, **changes: Any) -> ff.VecFinRLWrapper:  # noqa: ANN401
    """Make a small wrapper whose tickers are drawn at random."""
    given: dict[str, Any] = {"n_envs": 3, "num_tickers": 2, "macro_tickers": ["VIX"]}
    return ff.VecFinRLWrapper(path, 500, 5, **(given | changes))


@pytest.mark.parametrize("mode", MODES)
def test_the_environment_reports_the_episode_that_is_stepped(path: Path, mode: str) -> None:
    wrapper = made(path, autoreset_mode=mode, max_episode_steps=4, record=True)
    obs, _ = wrapper.reset(seed=3)
    env, seen = wrapper.env, set()
    done = np.zeros(3, bool)
    for _ in range(30):
        shown = wrapper.tokenizer.decode_batch(obs["tics"])
        assert env.get_tickers() == shown
        np.testing.assert_array_equal(env.tokens, obs["tics"])
        state = env.get_state()
        assert state["tickers"] == shown
        np.testing.assert_array_equal(state["cash"].astype("f4")[:, None], obs["portfolio"]["cash"])
        np.testing.assert_array_equal(state["shares"], obs["portfolio"]["shares"])
        np.testing.assert_array_equal(state["done"], done)
        so_far = wrapper.metrics_so_far()
        same(so_far, env.metrics_so_far())
        for i in range(3):
            same(wrapper.history(i), env.history(i))
            assert wrapper.history(i)["tickers"] == shown[i]
            assert len(wrapper.history(i)["day"]) == so_far["length"][i] + 1
            assert wrapper.history(i)["day"][-1] == state["day"][i]
        seen |= {tuple(names) for names in shown}
        if mode == "disabled" and done.any():
            obs, _ = wrapper.reset(options={"reset_mask": done})
            done = np.zeros(3, bool)
            continue
        obs, rewards, terminated, truncated, infos = wrapper.step(wrapper.sample_actions())
        done = terminated | truncated
        state = env.get_state()
        np.testing.assert_array_equal(state["reward"], rewards)
        np.testing.assert_array_equal(state["truncated"], truncated)
        if "final_obs" in infos:
            assert state["final_obs"]["tickers"] == shown
    assert len(seen) > 4, "drawn anew in every episode"
    wrapper.close()


def test_stepping_the_environment_itself_leaves_buffer_and_wrapper_right(path: Path) -> None:
    wrapper = made(path, shuffle_tickers=False)
    wrapper.reset(seed=1)
    wrapper.env.step(np.zeros((3, 2)))
    assert wrapper.buffer.size() == 0
    day = wrapper.env.get_state()["day"]
    wrapper.step(np.zeros((3, 2, 2)))
    stored = [wrapper.buffer.get(i) for i in range(3)]
    assert [row.state_day for row in stored] == day.tolist()
    assert [row.next_state_day for row in stored] == (day + 1).tolist()
    # The wrapper takes over other tickers of the same number. Other sizes do not fit its spaces.
    wrapper.env.reset([["BBB", "DDD"]] * 3)
    obs, *_ = wrapper.step(np.zeros((3, 2, 2)))
    assert wrapper.tokenizer.decode_batch(obs["tics"]) == [["BBB", "DDD"]] * 3
    assert wrapper.buffer.get(5).tickers == ["BBB", "DDD"]
    for lists in ([["BBB", "DDD"]] * 2, [["BBB"]] * 3):
        says = rf"\b{len(lists)}\b.*\b{len(lists[0])}\b.*\b3\b.*\b2\b"
        with pytest.raises(bc.errors.EnvError, match=says):
            wrapper.env.reset(lists)
    with pytest.raises(bc.errors.EnvError, match=r"set_auto_reset\(False\)"):
        wrapper.env.set_auto_reset(False)
    assert wrapper.env.auto_reset()
    assert not made(path, auto_reset=False).env.auto_reset()


def test_changes_by_the_caller_are_neither_stored_nor_reported(path: Path) -> None:
    wrapper = made(path)
    wrapper.reset(seed=1)
    state = wrapper.env.get_state()
    cash = state["cash"].copy()
    state["cash"] += 1_000
    wrapper.step(np.ones((3, 2, 2)))
    assert [wrapper.buffer.get(i).state_cash for i in range(3)] == cash.tolist()
    shown = wrapper.env.get_state()["reward"].copy()
    wrapper = made(path)
    wrapper.reset(seed=1)
    _, rewards, terminated, _, infos = wrapper.step(np.ones((3, 2, 2)))
    rewards *= 100
    terminated[:] = True
    infos["mine"] = 1
    state = wrapper.env.get_state()
    np.testing.assert_array_equal(state["reward"], shown)
    assert not state["done"].any()


def test_pictures_and_records_are_the_wrappers_too(path: Path) -> None:
    wrapper = made(path, render_mode="rgb_array")
    assert wrapper.metadata["render_modes"] == ["rgb_array"]
    with pytest.raises(bc.errors.EnvError, match=r"\breset\b"):
        wrapper.render()
    wrapper.reset(seed=1)
    wrapper.step(wrapper.sample_actions())
    pictures = wrapper.render()
    assert pictures is not None
    assert [picture.shape for picture in pictures] == [(480, 640, 3)] * 3
    plain, single = made(path), ff.FastFinRL(path)
    asked: list[Any] = [plain.metrics_so_far, plain.env.metrics_so_far, single.metrics_so_far]
    for ask in [*asked, single.history, lambda: made(path, record=True).history(0)]:
        with pytest.raises(bc.errors.EnvError, match=r"\breset\b"):
            ask()
    plain.reset(seed=1)
    assert plain.render() is None
    with pytest.raises(bc.errors.EnvError, match="record=True"):
        plain.history(0)
    refused: list[tuple[dict[str, Any], str]] = [
        ({"render_mode": "human"}, r"\brender_mode\b.*'human'.*\"rgb_array\""),
        ({"record": 1}, r"\brecord\b.*\b1\b"),
    ]
    for change, says in refused:
        with pytest.raises(bc.BackcastError, match=says):
            made(path, **change)


def test_its_copies_and_pickles_are_environments_of_their_own(path: Path) -> None:
    wrapper = made(path, autoreset_mode="next_step", max_episode_steps=2)
    wrapper.reset(seed=1)
    twin = copy.deepcopy(wrapper.env)
    still = np.zeros((3, 2))
    for _ in range(3):
        wrapper.step(np.zeros((3, 2, 2)))
        same(twin.step(still), wrapper.env.get_state())
    twin.set_auto_reset(False)
    again = pickle.loads(pickle.dumps(wrapper.env))
    same(again.reset(seed=1), made(path).env.reset(seed=1))
    again.reset([["AAA"]], seed=1)
    wrapper.close()
    twin.get_state()


@pytest.mark.parametrize("number", [0, 1])
def test_actions_that_are_ignored_are_not_looked_at(path: Path, number: int) -> None:
    settings: dict[str, Any] = {"autoreset_mode": "next_step", "max_episode_steps": 2}
    wrapper, other = made(path, **settings), made(path, **settings)
    still = np.zeros((3, 2, 2))
    for each in (wrapper, other):
        each.reset(seed=1)
        each.step(still)
        # Portfolio 1 is a step behind the others.
        each.reset(options={"reset_mask": np.array([False, True, False])})
        each.step(still)
    odd = still.copy()
    odd[[0, 2], 1, number] = [np.nan, 7.0]
    same(wrapper.step(odd)[:4], other.step(still)[:4])
    odd = still.copy()
    odd[0, 1, number] = np.nan
    with pytest.raises(bc.errors.EnvError, match=r"\b0\b"):
        wrapper.step(odd)
    assert wrapper.buffer.size() == other.buffer.size() == 7


def test_a_closed_wrapper_says_so_itself(path: Path) -> None:
    wrapper = made(path)
    wrapper.reset(seed=1)
    wrapper.step(wrapper.sample_actions())
    wrapper.close()
    calls: list[Any] = [
        wrapper.reset,
        wrapper.sample_buffer,
        lambda: wrapper.step(np.zeros((3, 2, 2))),
    ]
    for call in calls:
        with pytest.raises(bc.ClosedError, match=r"\bVecFinRLWrapper\b"):
            call()
    for ask in (wrapper.metrics_so_far, wrapper.env.reset):
        with pytest.raises(bc.ClosedError):
            ask()


def test_the_past_is_another_name_of_the_market_for_all_that_takes_a_key(path: Path) -> None:
    obs, _ = made(path).reset(seed=1)
    hist = obs["hist"]
    market = hist["market"]
    assert hist["past"] is hist.get("past") is hist.setdefault("past", 3) is market
    assert "past" in hist
    assert hist.get("future") is None
    assert "future" not in hist
    assert list(hist) == [*hist.keys()] == ["market", "macro"]
    assert len(hist) == 2
    assert hist == {"market": market, "macro": hist["macro"]}
    copies = [hist.copy(), copy.copy(hist), copy.deepcopy(hist), pickle.loads(pickle.dumps(hist))]
    for twin in [*copies, hist | {}, {"macro": 1} | hist]:
        assert sorted(twin) == ["macro", "market"]
    for twin in [*copies, hist | {}]:
        same(twin, hist)
        assert "past" in twin
        same(twin["past"], market)
    assert "past" not in dict(hist)
    twin = hist.copy()
    twin["past"] = 1
    assert dict(twin) == {"market": 1, "macro": hist["macro"]}
    twin.update(past=2)
    twin |= {"macro": 3}
    assert dict(twin | {"past": 4}) == {"market": 4, "macro": 3}
    assert twin.pop("past") == 2
    assert "market" not in twin
    assert twin.pop("past", 5) == 5
    with pytest.raises(KeyError):
        twin.pop("past")
    with pytest.raises(KeyError):
        del twin["past"]
    with pytest.raises(KeyError):
        twin["past"]
    assert hist["past"] is market
