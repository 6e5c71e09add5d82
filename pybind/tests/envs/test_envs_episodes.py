"""Metrics of episodes, their recorded histories, and their renders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import backcast as bc
import backcast.finrl as ff
import gymnasium as gym
import numpy as np
import pytest
from backcast.envs import PortfolioEnv, PortfolioVectorEnv
from envs_worlds import MODES
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

# The market of the tests is open on weekends.
DAYS_A_YEAR = 365


def plainly(history: dict[str, Any]) -> dict[str, float]:
    """Compute the metrics of an episode from their definitions."""
    value = history["value"]
    gains = value[1:] / value[:-1] - 1
    peaks = np.maximum.accumulate(value)
    losses = np.sqrt((np.minimum(gains, 0) ** 2).mean())
    return {
        "return": value[-1] / value[0] - 1,
        "sharpe": gains.mean() / gains.std(ddof=1) * np.sqrt(DAYS_A_YEAR),
        "sortino": gains.mean() / losses * np.sqrt(DAYS_A_YEAR),
        "max_drawdown": (1 - value / peaks).max(),
        "stop_losses": history["stopped"].sum(),
        "final_value": value[-1],
        "length": len(gains),
    }


@pytest.mark.parametrize("mode", MODES)
def test_metrics_are_those_of_the_recorded_episode(panel: bc.Panel, mode: AutoresetMode) -> None:
    env = PortfolioVectorEnv(
        panel,
        4,
        autoreset_mode=mode,
        record=True,
        hmax=60,
        max_episode_steps=25,
        stop_loss_tolerance=0.95,
        stop_loss_day="next",
    )
    env.reset(seed=2)
    draw = np.random.default_rng(1)
    ends = stops = 0
    for _ in range(90):
        _, _, terminated, truncated, infos = env.step(draw.uniform(-1, 1, (4, 2)))
        ended = terminated | truncated
        assert ("metrics" in infos) == ended.any()
        for at in np.flatnonzero(ended):
            history = env.history(int(at), before=mode is AutoresetMode.SAME_STEP)
            metrics = infos["metrics"]
            for key, expected in plainly(history).items():
                assert metrics[key][at] == pytest.approx(expected, rel=1e-9, abs=1e-12), key
                assert metrics[f"_{key}"].tolist() == ended.tolist()
            orders = (history["bought"] > 0).sum() + (history["sold"] > 0).sum()
            # A stop loss may follow a sale of the same ticker in one step.
            assert orders <= metrics["trades"][at] <= orders + history["stopped"].sum()
            close = history["close"][:-1]
            traded = ((history["bought"] + history["sold"]) * close).sum()
            if not history["stopped"].any():
                assert metrics["turnover"][at] == pytest.approx(traded / history["value"][0])
                assert metrics["costs"][at] == pytest.approx(0.01 * traded)
            stops += history["stopped"].sum()
            ends += 1
        assert infos.get("_metrics", ended).tolist() == ended.tolist()
        if mode is AutoresetMode.DISABLED and ended.any():
            env.reset(options={"reset_mask": ended})
    assert ends > 8
    assert stops > 0


def test_a_history_adds_up(panel: bc.Panel) -> None:
    env = PortfolioEnv(panel, record=True, hmax=30)
    env.reset(seed=1, options={"start_day": 10})
    draw = np.random.default_rng(2)
    for _ in range(20):
        env.step(draw.uniform(-1, 1, 2))
    history = env.history()
    assert history["day"].tolist() == list(range(10, 31))
    assert history["date"] == list(panel.dates[10:31])
    assert history["tickers"] == ["AAA", "BBB"]
    change = history["bought"] - history["sold"]
    np.testing.assert_array_equal(np.diff(history["shares"], axis=0), change)
    np.testing.assert_allclose(
        history["value"], history["cash"] + (history["shares"] * history["close"]).sum(1)
    )
    assert history["close"][3, 1] == panel.values[1, 13, 3]


def test_unrecorded_histories_cannot_be_shown(panel: bc.Panel) -> None:
    env = PortfolioVectorEnv(panel, 2)
    env.reset(seed=1)
    with pytest.raises(bc.errors.EnvError, match="record=True"):
        env.history(0)
    kept = PortfolioVectorEnv(panel, 2, record=True)
    with pytest.raises(bc.errors.EnvError, match=r"\breset\b"):
        kept.history(0)
    kept.reset(seed=1)
    with pytest.raises(bc.errors.EnvError, match=r"\bi\b.*\b2\b.*\b1\b"):
        kept.history(2)
    with pytest.raises(bc.errors.EnvError):
        kept.history(0, before=True)
    assert kept.history(0), "a right call goes on"


def test_the_classes_of_finrl_keep_histories_too(panel: bc.Panel) -> None:
    many = ff.VecFastFinRL(panel, 2, record=True, return_format="vec")
    one = ff.FastFinRL(panel)
    many.reset(seed=3)
    one.reset(seed=3)
    for _ in range(3):
        many.step(np.full((2, 2), 0.5))
        one.step([0.5, 0.5])
    here, there = many.history(0), one.history()
    assert here.keys() == there.keys()
    for key, values in here.items():
        np.testing.assert_array_equal(values, there[key])


@pytest.mark.parametrize("settings", [{}, {"tickers": ["AAA"], "stop_loss_tolerance": 0.97}])
def test_an_episode_can_be_seen(panel: bc.Panel, settings: dict[str, Any]) -> None:
    env = PortfolioVectorEnv(panel, 2, render_mode="rgb_array", **settings)
    env.reset(seed=1, options={"start_day": [5, 40]})
    tickers = len(env.tickers)
    before = env.render()
    draw = np.random.default_rng(3)
    for _ in range(18):
        env.step(draw.uniform(-1, 1, (2, tickers)))
    frames = env.render()
    assert before is not None
    assert frames is not None
    for picture in frames:
        assert picture.shape == (480, 640, 3)
        assert picture.dtype == np.uint8
        assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 100
    assert not np.array_equal(before[0], frames[0])
    assert not np.array_equal(frames[0], frames[1])
    assert PortfolioVectorEnv(panel, 2).render() is None


def test_value_is_compared_with_buying_and_holding(panel: bc.Panel) -> None:
    from backcast.plot._episode import kept

    env = PortfolioEnv(panel, record=True, initial_amount=1e6)
    env.reset(options={"start_day": 5})
    for _ in range(10):
        env.step([0.0, 0.0])
    history = env.history()
    growth = history["close"][-1] / history["close"][0]
    worth = env._batch.held_units(0, before=False)["worth"]
    assert kept(history, worth)[-1] == pytest.approx(1e6 * growth.mean())


def test_the_single_environment_renders_as_gymnasium_asks(panel_file: Path) -> None:
    env = gym.make("backcast/Portfolio-v0", panel=panel_file, render_mode="rgb_array")
    check_env(env.unwrapped)
    env.reset(seed=1)
    env.step(env.action_space.sample())
    picture: Any = env.render()
    assert picture.shape == (480, 640, 3)


def test_metrics_are_there_where_a_wrapper_cuts_an_episode(panel: bc.Panel) -> None:
    cut: Any = gym.wrappers.TimeLimit(PortfolioEnv(panel), 9)
    plain = PortfolioEnv(panel, max_episode_steps=9)
    with pytest.raises(bc.errors.EnvError, match=r"\breset\b"):
        plain.metrics_so_far()
    for env in (cut, plain):
        env.reset(seed=3)
    draw = np.random.default_rng(1)
    for step in range(9):
        assert plain.metrics_so_far()["length"] == step
        action = draw.uniform(-1, 1, 2).astype(np.float32)
        *_, here = cut.step(action)
        *_, truncated, there = plain.step(action)
    assert truncated
    assert "metrics" not in here
    assert cut.unwrapped.metrics_so_far() == plain.metrics_so_far() == there["metrics"]


def test_metrics_so_far_of_many_are_those_of_their_ends(panel: bc.Panel) -> None:
    env = PortfolioVectorEnv(panel, 3, autoreset_mode="disabled", max_episode_steps=5)
    env.reset(seed=3)
    for _ in range(5):
        *_, infos = env.step(np.ones((3, 2)))
    so_far = env.metrics_so_far()
    assert so_far.keys() == {key for key in infos["metrics"] if not key.startswith("_")}
    for key, values in so_far.items():
        np.testing.assert_array_equal(values, infos["metrics"][key])
    env.reset(options={"reset_mask": np.array([True, False, False])})
    assert env.metrics_so_far()["length"].tolist() == [0, 5, 5]
