"""The portfolio environment through Python: shapes, modes, seeds, and a ring at its end."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any, Literal

import backcast as bc
import numpy as np
import pytest

Mode = Literal["next_step", "same_step", "disabled"]
MODES: list[Mode] = ["next_step", "same_step", "disabled"]
OBS = ["day", "cash", "shares", "avg_buy_price", "total_asset", "open", "indicators"]


@pytest.fixture
def panel(tmp_path: Path) -> bc.Panel:
    """Make a panel of three tickers, one of them macro, over 60 days."""
    draw = np.random.default_rng(1)
    lines = ["date,tic,open,high,low,close,volume,rsi,ema"]
    for ticker in ["AAA", "BBB", "IDX"]:
        close = 50 * np.exp(np.cumsum(draw.normal(0, 0.03, 60)))
        for day in range(60):
            opening = close[day] * 1.01
            prices = f"{opening},{close[day] * 1.1},{close[day] * 0.9},{close[day]}"
            today = date(2024, 1, 1) + timedelta(days=day)
            lines.append(f"{today},{ticker},{prices},1000,{draw.random()},{draw.random()}")
    path = tmp_path / "panel.csv"
    path.write_text("\n".join(lines) + "\n")
    return bc.Panel.from_csv(path, macro=["IDX"])


def test_shapes_dtypes_and_names(panel: bc.Panel) -> None:
    env = bc.PortfolioVectorEnv(panel, 5)
    assert (env.num_envs, env.n_tickers, env.tickers) == (5, 2, ["AAA", "BBB"])
    assert env.tokens.tolist() == panel.tokens(env.tickers).tolist()
    assert env.tokens.dtype == np.int32
    obs, infos = env.reset(seed=1)
    assert infos == {}
    for _ in range(3):
        assert list(obs) == OBS
        assert obs["day"].dtype == obs["shares"].dtype == np.int32
        assert obs["day"].shape == obs["cash"].shape == obs["total_asset"].shape == (5,)
        assert obs["shares"].shape == obs["avg_buy_price"].shape == obs["open"].shape == (5, 2)
        assert obs["indicators"].shape == (5, 2, 2)
        obs, rewards, terminated, truncated, infos = env.step(np.zeros((5, 2), np.float32))
        assert rewards.dtype == np.float64
        assert rewards.shape == (5,)
        assert terminated.dtype == truncated.dtype == bool
    env.close()
    env.close()
    with pytest.raises(bc.ClosedError, match="portfolio"):
        env.step(np.zeros((5, 2)))


def test_arrays_are_fresh_and_may_be_kept_and_written_to(panel: bc.Panel) -> None:
    env = bc.PortfolioVectorEnv(panel, 2)
    first, _ = env.reset(seed=1)
    kept = {name: values.copy() for name, values in first.items()}
    second = env.step(np.ones((2, 2)))[0]
    for name in OBS:
        np.testing.assert_array_equal(first[name], kept[name])
        second[name] += 1
    third = env.step(np.zeros((2, 2)))[0]
    assert (third["shares"] == second["shares"] - 1).all()


def test_the_observation_shows_the_open_of_the_day_and_yesterdays_indicators(
    panel: bc.Panel,
) -> None:
    env = bc.PortfolioVectorEnv(panel, 4)
    obs, _ = env.reset(seed=3, options={"start_day": [5, 6, 7, 8]})
    assert obs["day"].tolist() == [5, 6, 7, 8]
    at = env.tokens.astype(int) - 1
    np.testing.assert_array_equal(obs["open"], panel.values[at][:, obs["day"], 0].T)
    lagged = panel.values[at][:, obs["day"] - 1, 5:]
    np.testing.assert_array_equal(obs["indicators"], lagged.swapaxes(0, 1))


def test_buying_costs_the_close_and_the_fee(panel: bc.Panel) -> None:
    env = bc.PortfolioVectorEnv(panel, 1, hmax=10, buy_cost_pct=0.02)
    before, _ = env.reset(options={"start_day": 10})
    after = env.step([[1, 0.0]])[0]
    close = panel.values[0, 10, 3]
    assert after["shares"].tolist() == [[10, 0]]
    np.testing.assert_allclose(before["cash"] - after["cash"], 10 * close * 1.02, rtol=1e-12)


def run(env: bc.PortfolioVectorEnv, steps: int, seed: int) -> list[Any]:
    """Step with seeded actions and keep everything."""
    draw = np.random.default_rng(seed)
    seen: list[Any] = [env.reset(seed=seed)[0]]
    for _ in range(steps):
        actions = draw.uniform(-1, 1, (env.num_envs, env.n_tickers)).astype(np.float32)
        seen.append(env.step(actions))
    return seen


def test_equal_seeds_give_equal_episodes_whatever_the_number_of_environments(
    panel: bc.Panel,
) -> None:
    one, two = (run(bc.PortfolioVectorEnv(panel, 3), 80, 5) for _ in range(2))
    np.testing.assert_equal(one, two)
    starts = bc.PortfolioVectorEnv(panel, 3).reset(seed=5)[0]["day"]
    seeds = bc.PortfolioVectorEnv(panel, 2).reset(seed=[7, None])[0]["day"]
    assert seeds[0] == starts[2]


def test_single_and_double_precision_actions_trade_alike(panel: bc.Panel) -> None:
    actions = np.array([[0.5, -0.25]])
    results = []
    for given in [actions, actions.astype("f4"), actions.tolist()]:
        env = bc.PortfolioVectorEnv(panel, 1)
        env.reset(seed=1)
        results.append(env.step(given))
    np.testing.assert_equal(results[0], results[1])
    np.testing.assert_equal(results[0], results[2])


def test_a_reset_mask_resets_only_the_chosen(panel: bc.Panel) -> None:
    env = bc.PortfolioVectorEnv(panel, 3, autoreset_mode="disabled", max_episode_steps=2)
    env.reset(seed=1)
    env.step(np.ones((3, 2)))
    obs, _, _, truncated, _ = env.step(np.ones((3, 2)))
    assert truncated.all()
    with pytest.raises(bc.EnvError, match="environment 0 has ended"):
        env.step(np.ones((3, 2)))
    again, _ = env.reset(options={"reset_mask": np.array([True, False, True])})
    assert (again["shares"][1] == obs["shares"][1]).all()
    assert (again["shares"][[0, 2]] == 0).all()


RING: dict[str, Any] = {
    "obs": {
        "day": "i4",
        "cash": "f8",
        "shares": ("i4", (2,)),
        "avg_buy_price": ("f8", (2,)),
        "total_asset": "f8",
        "open": ("f8", (2,)),
        "indicators": ("f8", (2, 2)),
    },
    "action": ("f4", (2,)),
    "reward": "f8",
}


@pytest.mark.parametrize("mode", MODES)
def test_what_the_environment_does_is_what_the_ring_returns(
    panel: bc.Panel, place: Path, mode: Mode
) -> None:
    lanes, draw = 4, np.random.default_rng(8)
    env = bc.PortfolioVectorEnv(panel, lanes, autoreset_mode=mode, max_episode_steps=7)
    happened: dict[int, tuple[Any, Any, Any]] = {}
    with (
        bc.ReplayBuffer.create("e", RING, capacity=4000, lanes=lanes, dir=place) as buf,
        buf.writer(lanes=lanes, autoreset_mode=mode) as writer,
    ):
        obs, _ = env.reset(seed=2)
        resetting = np.zeros(lanes, bool)
        for _ in range(60):
            action = draw.uniform(-1, 1, (lanes, 2)).astype(np.float32)
            after, reward, terminated, truncated, infos = env.step(action)
            ended = terminated | truncated
            assert ("final_obs" in infos) == (mode == "same_step" and ended.any())
            final: Any = infos.get("final_obs")
            if mode == "same_step" and ended.any():
                assert infos["_final_obs"].tolist() == ended.tolist()
                assert [row is not None for row in final] == ended.tolist()
            elif mode == "disabled" and ended.any():
                final = after
            index = writer.append(
                obs=obs,
                action=action,
                reward=reward,
                terminated=terminated,
                truncated=truncated,
                final_obs=final,
            )
            for at in np.flatnonzero(~resetting):
                seen = {name: after[name][at] for name in OBS}
                if mode == "same_step" and ended[at]:
                    seen = final[at]
                here = {name: obs[name][at] for name in OBS}
                happened[int(index[at])] = (here, reward[at], seen)
            obs = after
            resetting = ended if mode == "next_step" else np.zeros(lanes, bool)
            if mode == "disabled" and ended.any():
                obs, _ = env.reset(options={"reset_mask": ended})
        batch = buf.sample(3000)
        assert set(batch.index.tolist()) <= set(happened)
        assert batch["truncated"].any()
        for position, drawn in enumerate(batch.index[:400].tolist()):
            here, reward, seen = happened[drawn]
            assert batch["reward"][position] == reward
            for name in OBS:
                np.testing.assert_array_equal(batch["obs"][name][position], here[name])
                np.testing.assert_array_equal(batch["next_obs"][name][position], seen[name])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"num_envs": 0}, ["num_envs", "0"]),
        ({"hmax": 0}, ["hmax", "0"]),
        ({"initial_amount": -1.0}, ["initial_amount", "-1"]),
        ({"initial_amount": float("nan")}, ["initial_amount", "NaN"]),
        ({"failure_threshold": 40_000.0}, ["failure_threshold", "40000"]),
        ({"buy_cost_pct": 1.0}, ["buy_cost_pct", "1"]),
        ({"sell_cost_pct": -0.1}, ["sell_cost_pct", "-0.1"]),
        ({"tickers": ["NOPE"]}, ["NOPE"]),
        ({"tickers": ["IDX"]}, ["IDX", "macro"]),
        ({"tickers": ["AAA", "AAA"]}, ["AAA", "0", "1"]),
        ({"tickers": []}, ["no ticker"]),
        ({"days": (50, 70)}, ["50..70", "60"]),
        ({"days": (-1, 5)}, ["-1"]),
        ({"indicator_lag": -1}, ["indicator_lag", "-1"]),
        ({"autoreset_mode": "NextStep"}, ["NextStep", "next_step"]),
        ({"max_episode_steps": 0}, ["max_episode_steps", "0"]),
    ],
    ids=str,
)
def test_settings_that_cannot_be(
    panel: bc.Panel, settings: dict[str, Any], words: list[str]
) -> None:
    with pytest.raises(bc.EnvError) as error:
        bc.PortfolioVectorEnv(panel, settings.pop("num_envs", 2), **settings)
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"start_day": 99}, ["start_day", "99"]),
        ({"start_day": [5, -1]}, ["environment 1", "-1"]),
        ({"start_day": [5]}, ["start_day", "(1,)", "(2,)"]),
        ({"start_day": 2.5}, ["start_day", "float64"]),
        ({"reset_mask": [True]}, ["reset_mask", "(1,)", "(2,)"]),
        ({"reset_mask": [0, 1]}, ["reset_mask", "booleans"]),
        ({"reset_mask": [False, False]}, ["none of the 2"]),
        ({"start": 3}, ["'start'", "start_day"]),
    ],
    ids=str,
)
def test_resets_that_cannot_be(panel: bc.Panel, options: Any, words: list[str]) -> None:  # noqa: ANN401
    env = bc.PortfolioVectorEnv(panel, 2)
    with pytest.raises(bc.EnvError) as error:
        env.reset(options=options)
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize(
    ("actions", "words"),
    [
        (np.zeros((2, 3)), ["(2, 3)", "(2, 2)"]),
        (np.zeros(4), ["(4,)", "(2, 2)"]),
        (np.full((2, 2), 1.5), ["AAA", "1.5", "[-1, 1]"]),
        (np.array([[0, 0], [0, np.nan]]), ["environment 1", "BBB", "NaN"]),
        ([["a", "b"], ["c", "d"]], ["actions", "f8"]),
    ],
)
def test_actions_that_cannot_be(panel: bc.Panel, actions: Any, words: list[str]) -> None:  # noqa: ANN401
    env = bc.PortfolioVectorEnv(panel, 2)
    with pytest.raises(bc.EnvError, match="reset"):
        env.step(np.zeros((2, 2)))
    env.reset(seed=1)
    with pytest.raises(bc.EnvError) as error:
        env.step(actions)
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize("seed", [-1, 1.5, [1], [1, -1], "7"])
def test_seeds_that_cannot_be(panel: bc.Panel, seed: Any) -> None:  # noqa: ANN401
    with pytest.raises(bc.EnvError, match="seed"):
        bc.PortfolioVectorEnv(panel, 2).reset(seed=seed)
