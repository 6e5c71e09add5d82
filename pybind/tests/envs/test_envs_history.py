"""History windows in observations: content in every mode, as copies and as views of an arena."""

from __future__ import annotations

import copy
import gc
import os
import resource
import warnings
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Literal

import backcast as bc
import gymnasium as gym
import numpy as np
import pytest
from backcast.envs import PortfolioEnv, PortfolioVectorEnv
from envs_worlds import MODES, row_of, same
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode
from waits import exit_code_of

DAYS = 150
H = 6


@pytest.fixture
def market(tmp_path: Path) -> bc.Panel:
    """Draw prices of three tickers and an index; one ticker lacks days."""
    draw = np.random.default_rng(5)
    lines = ["date,tic,open,high,low,close,volume,rsi,ema"]
    for ticker in ["AAA", "BBB", "CCC", "IDX"]:
        close = 50 * np.exp(np.cumsum(draw.normal(0, 0.02, DAYS)))
        for day in range(DAYS):
            if ticker == "BBB" and day in (3, 40, 41, 90):
                continue
            today = date(2020, 1, 1) + timedelta(days=day)
            prices = f"{close[day]},{close[day] * 1.1},{close[day] * 0.9},{close[day]}"
            lines.append(f"{today},{ticker},{prices},100,{draw.random()},{draw.random()}")
    path = tmp_path / "market.csv"
    path.write_text("\n".join(lines))
    return bc.Panel.from_csv(path, macro=["IDX"])


def expected(panel: bc.Panel, obs: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """Return the panel's windows before the observed days."""
    days = obs["day"].reshape(-1)
    found = panel.windows(days, panel.tokens(names), H, 0)
    return {"history": found["history"], "history_mask": found["history_mask"]}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize("n", [2, 12])
def test_it_is_the_panels_window_before_every_observation(
    market: bc.Panel, mode: AutoresetMode, fresh: bool, n: int
) -> None:
    env = PortfolioVectorEnv(
        market,
        n,
        history=H,
        macro_tickers=["IDX"],
        autoreset_mode=mode,
        max_episode_steps=37,
        copy=fresh,
        failure_threshold=29_000,
        hmax=300,
    )
    names = ["AAA", "BBB", "CCC", "IDX"]
    starts = np.arange(n) * 7 % 90 + 1
    obs, _ = env.reset(seed=3, options={"start_day": np.where(np.isin(starts, (3, 4)), 6, starts)})
    draw = np.random.default_rng(1)
    ends = 0
    for _ in range(200):
        assert obs["history"].shape == (n, 4, H, 7)
        assert obs["history"].dtype == np.float32
        assert obs["history_mask"].dtype == bool
        assert obs in env.observation_space
        wanted = expected(market, obs, names)
        for key, values in wanted.items():
            np.testing.assert_array_equal(obs[key], values, err_msg=key)
        obs, _, terminated, truncated, infos = env.step(draw.uniform(-1, 1, (n, 3)))
        ended = terminated | truncated
        ends += ended.sum()
        if "final_obs" in infos:
            for at in np.flatnonzero(ended):
                last = infos["final_obs"][at]
                assert last in env.single_observation_space
                for key, values in expected(market, last, names).items():
                    np.testing.assert_array_equal(last[key], values[0], err_msg=key)
        if mode is AutoresetMode.DISABLED and ended.any():
            obs, _ = env.reset(options={"reset_mask": ended})
    assert ends > n


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("days", [H, 7, 8, 140])
def test_a_view_is_what_it_was_until_the_next_step_or_reset(
    market: bc.Panel, mode: AutoresetMode, days: int
) -> None:
    env = PortfolioVectorEnv(
        market, 3, history=days, copy=False, autoreset_mode=mode, max_episode_steps=37
    )
    obs, _ = env.reset(seed=1)
    draw = np.random.default_rng(4)
    for step in range(400):
        kept = {key: (obs[key], obs[key].copy()) for key in ("history", "history_mask")}
        with pytest.raises(ValueError, match="read-only"):
            obs["history"][...] = 0
        with pytest.raises(bc.errors.EnvError, match=r"\b2\b.*\[-1, 1\]"):
            env.step(np.full((3, 3), 2.0))
        with pytest.raises(bc.errors.EnvError, match="start_day"):
            env.reset(options={"start_day": DAYS})
        env.metrics_so_far()
        if step % 40 == 0:
            copy.deepcopy(env).step(np.zeros((3, 3)))
        for now, before in kept.values():
            np.testing.assert_array_equal(now, before)
        obs, _, terminated, truncated, _ = env.step(draw.uniform(-1, 1, (3, 3)))
        mask = terminated | truncated if mode is AutoresetMode.DISABLED else draw.random(3) < 0.02
        if mask.any():
            obs, _ = env.reset(options={"reset_mask": mask})


def test_views_go_round_in_an_arena(market: bc.Panel) -> None:
    env = PortfolioVectorEnv(market, 3, history=H, copy=False)
    env.reset(seed=1)
    views = [env.step(np.zeros((3, 3)))[0]["history"] for _ in range(40)]
    places = [view.__array_interface__["data"][0] for view in views]
    assert set(np.diff(places[:7]).tolist()) == {views[0].strides[2]}, "a day further each step"
    assert places[:-8] == places[8:], "seven days are needed, and eight are there"
    assert all(view.flags.aligned for view in views)


def test_views_keep_their_memory_and_stay_read_only(market: bc.Panel) -> None:
    env = PortfolioVectorEnv(market, 3, history=H, copy=False)
    seen = env.reset(seed=1)[0]
    views = {key: seen[key] for key in ("history", "history_mask")}
    before = {key: view.copy() for key, view in views.items()}
    env.close()
    del env, seen
    gc.collect()
    for key, view in views.items():
        np.testing.assert_array_equal(view, before[key])
        assert view[0].base is not None
        for part in (view, view[0], view.T):
            with pytest.raises(ValueError, match="WRITEABLE"):
                part.setflags(write=True)


def test_a_forked_child_reads_the_views_that_it_has(market: bc.Panel) -> None:
    env = PortfolioVectorEnv(market, 3, history=H, copy=False)
    seen = env.reset(seed=1)[0]
    before = seen["history"].copy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        told = "nothing"
        try:
            np.testing.assert_array_equal(seen["history"], before)
            env.step(np.zeros((3, 3)))
        except BaseException as error:
            told = str(error)
        finally:
            os._exit(0 if '"spawn"' in told else 1)
    assert exit_code_of(pid) == 0
    np.testing.assert_array_equal(seen["history"], before, err_msg="the child wrote nothing")
    moved = env.step(np.zeros((3, 3)))[0]["history"]
    np.testing.assert_array_equal(moved[:, :, :-1], before[:, :, 1:])


def test_without_descriptors_the_error_recommends_copies(market: bc.Panel) -> None:
    env = PortfolioVectorEnv(market, 3, history=H, copy=False)
    first_free = os.open(os.devnull, os.O_RDONLY)
    os.close(first_free)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (first_free, limits[1]))
    try:
        with pytest.raises(bc.errors.EnvError, match=r"\b6\b.*copy=True"):
            env.reset(seed=1)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert env.reset(seed=1)[0]["history_mask"].any(), "nothing was broken by it"


@pytest.mark.parametrize("obs", ["dict", "flat"])
@pytest.mark.parametrize("days", [1, H, 170])
@pytest.mark.parametrize("n", [2, 12])
def test_a_deep_copy_shows_the_days_that_the_original_would(
    market: bc.Panel, n: int, days: int, obs: Literal["dict", "flat"]
) -> None:
    settings: dict[str, Any] = {"autoreset_mode": "disabled", "max_episode_steps": 30, "obs": obs}
    env = PortfolioVectorEnv(market, n, history=days, copy=False, **settings)
    new = copy.deepcopy(env)
    assert same(new.reset(seed=2)[0], env.reset(seed=2)[0]), "copied before the first reset"
    for steps in (0, 7):
        for _ in range(steps):
            env.step(np.zeros((n, 3)))
        # The first call on the copy is a step, or a masked reset.
        stepped, masked = copy.deepcopy(env), copy.deepcopy(env)
        mask = {"reset_mask": np.arange(n) == 1}
        shown = masked.reset(options=dict(mask))[0]
        twin = copy.deepcopy(stepped)
        assert same(shown, twin.reset(options=dict(mask))[0])
        for _ in range(5):
            actions = np.full((n, 3), 0.5)
            wanted = env.step(actions)[0]
            assert same(stepped.step(actions)[0], wanted)
            if obs == "dict":
                found = market.windows(wanted["day"], market.tokens(env.tickers), days, 0)
                np.testing.assert_array_equal(wanted["history"], found["history"])
                shown = masked.step(actions)[0]
                found = market.windows(shown["day"], market.tokens(env.tickers), days, 0)
                np.testing.assert_array_equal(shown["history"], found["history"])
                np.testing.assert_array_equal(shown["history_mask"], found["history_mask"])


def test_fresh_histories_may_be_kept_and_written_to(market: bc.Panel) -> None:
    env = PortfolioVectorEnv(market, 9, history=H)
    obs, _ = env.reset(seed=1)
    kept = copy.deepcopy(obs)
    after = env.step(np.zeros((9, 3)))[0]
    assert same(obs, kept)
    assert not np.shares_memory(obs["history"], after["history"])
    after["history"][...] = 0


def test_the_single_environment_is_a_row_and_passes_gymnasiums_checker(market: bc.Panel) -> None:
    many = PortfolioVectorEnv(market, 10, history=H, macro_tickers=["IDX"])
    one = PortfolioEnv(market, history=H, macro_tickers=["IDX"])
    here, there = many.reset(seed=4)[0], one.reset(seed=9)[0]
    assert same({**row_of(here, 5), "history": None}, {**there, "history": None})
    assert np.array_equal(here["history"][5], there["history"])
    with pytest.warns(UserWarning, match="not having a spec"):
        check_env(PortfolioEnv(market, history=H))


def test_before_the_first_day_there_is_nothing(market: bc.Panel) -> None:
    env = PortfolioVectorEnv(market, 9, history=H, indicator_lag=0)
    obs, _ = env.reset(options={"start_day": 2})
    assert obs["history_mask"].sum(axis=2).tolist() == [[2, 2, 2]] * 9
    assert not obs["history"][:, :, : H - 2].any()
    drawn = PortfolioVectorEnv(market, 400, history=H).reset(seed=1)[0]
    assert drawn["history_mask"].all(), "drawn starts have all their days"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize("n", [2, 9])
def test_a_flat_observation_is_what_gymnasium_makes_of_the_dict(
    market: bc.Panel, mode: AutoresetMode, fresh: bool, n: int
) -> None:
    settings: dict[str, Any] = {"macro_tickers": ["IDX"], "history": 4, "max_episode_steps": 6}
    nested = PortfolioVectorEnv(market, n, autoreset_mode=mode, **settings)
    flat = PortfolioVectorEnv(market, n, autoreset_mode=mode, obs="flat", copy=fresh, **settings)
    one = nested.single_observation_space
    assert flat.single_observation_space.shape == gym.spaces.flatten_space(one).shape
    here, there = nested.reset(seed=2)[0], flat.reset(seed=2)[0]
    draw = np.random.default_rng(1)
    ends = 0
    for _ in range(25):
        assert there in flat.observation_space
        for at in range(n):
            wanted: Any = gym.spaces.flatten(one, row_of(here, at))
            np.testing.assert_array_equal(there[at], wanted.astype(np.float32))
        actions = draw.uniform(-1, 1, (n, 3))
        here, _, terminated, truncated, infos = nested.step(actions)
        there, *_, others = flat.step(actions)
        for at in np.flatnonzero(infos.get("_final_obs", [])).tolist():
            wanted = gym.spaces.flatten(one, infos["final_obs"][at])
            np.testing.assert_array_equal(others["final_obs"][at], wanted.astype(np.float32))
            ends += 1
        if mode is AutoresetMode.DISABLED and (terminated | truncated).any():
            masked = {"reset_mask": terminated | truncated}
            here, there = nested.reset(options=masked)[0], flat.reset(options=dict(masked))[0]
    assert (ends > 0) == (mode is AutoresetMode.SAME_STEP)


def test_statistics_and_flattening_wrappers_work(market: bc.Panel) -> None:
    env: Any = gym.wrappers.vector.FlattenObservation(PortfolioVectorEnv(market, 3, history=2))
    obs, _ = env.reset(seed=1)
    assert obs in env.observation_space
