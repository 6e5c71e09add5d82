"""Actions, margins and rewards of portfolios together with the rest: spaces, copies, ids, rings."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any, Literal

import backcast as bc
import backcast.envs
import gymnasium as gym
import numpy as np
import pytest
from backcast.envs import (
    Collector,
    DifferentialSharpe,
    Discrete,
    Drawdown,
    Excess,
    Margin,
    OrderLimit,
    PortfolioEnv,
    PortfolioStep,
    PortfolioVectorEnv,
    Weights,
)
from backcast.errors import ArgumentTypeError, EnvError
from gymnasium.utils.env_checker import check_env
from numpy.typing import ArrayLike

SHORT = Margin(borrow_rate=0.02, loan_rate=0.03)
FORMS: dict[str, dict[str, Any]] = {
    "weights": {"actions": "weights"},
    "fractions": {"actions": Weights(leverage=0.8), "fractional": True},
    "short": {"actions": Weights(leverage=2), "margin": SHORT, "failure_threshold": 0},
    "short fractions": {"margin": SHORT, "fractional": True, "hmax": 300},
    "discrete": {"actions": Discrete((-1, 0, 0.5, 1)), "step_info": True},
    "limits": {"max_position": 0.3, "max_volume": 0.05, "impact_bps": 50, "step_info": True},
}


@pytest.fixture
def panel(tmp_path: Path) -> bc.Panel:
    path = tmp_path / "prices.csv"
    rng = np.random.default_rng(0)
    with open(path, "w") as file:
        print("date,tic,open,high,low,close,volume,rsi,paid", file=file)
        for tic in ("AAA", "BBB", "VIX"):
            close = 50 * np.exp(np.cumsum(rng.normal(0, 0.02, 120)))
            for day, price in zip(np.arange("2023-01-01", 120, dtype="M8[D]"), close, strict=True):
                paid = 0.1 * (rng.random() < 0.1)
                cells = f"{price},{price * 1.01},{price * 0.99},{price},{rng.integers(100, 9999)}"
                print(f"{day},{tic},{cells},{rng.normal()},{paid}", file=file)
    return bc.Panel.from_csv(path, macro=["VIX"])


# Gymnasium recommends spaces from -1 to 1, which weights with a leverage are not.
@pytest.mark.filterwarnings("ignore:.*symmetric and normalized")
@pytest.mark.parametrize("obs", ["dict", "flat"])
@pytest.mark.parametrize("name", FORMS)
def test_every_form_passes_the_checker_and_stays_in_its_spaces(
    panel: bc.Panel, name: str, obs: Literal["dict", "flat"]
) -> None:
    env = PortfolioEnv(panel, obs=obs, dividends="paid", **FORMS[name])
    check_env(env, skip_render_check=True)
    envs = PortfolioVectorEnv(panel, 3, obs=obs, dividends="paid", **FORMS[name])
    envs.reset(seed=1)
    envs.action_space.seed(1)
    for _ in range(30):
        shown, *_ = envs.step(envs.action_space.sample())
        assert shown in envs.observation_space


@pytest.mark.parametrize("name", FORMS)
def test_an_id_makes_the_same_episodes_in_every_mode(panel: bc.Panel, name: str) -> None:
    given = {"panel": panel, "max_episode_steps": 12, "reward": "drawdown", **FORMS[name]}
    one = gym.make("backcast/Portfolio-v0", **given)
    many = gym.make_vec("backcast/Portfolio-v0", 2, autoreset_mode="disabled", **given)
    sync = gym.make_vec("backcast/Portfolio-v0", 2, vectorization_mode="sync", **given)
    one.reset(seed=4)
    many.reset(seed=4)
    sync.reset(seed=4)
    many.action_space.seed(1)
    for _ in range(12):
        actions = many.action_space.sample()
        expected = many.step(actions)
        found = one.step(actions[0])
        assert found[1] == expected[1][0] == sync.step(actions)[1][0]
        assert (found[0]["shares"] == expected[0]["shares"][0]).all()


@pytest.mark.parametrize("name", FORMS)
def test_trajectories_are_stored_in_a_ring_as_they_were(panel: bc.Panel, name: str) -> None:
    envs = PortfolioVectorEnv(panel, 2, max_episode_steps=10, **FORMS[name])
    schema = bc.Schema.from_spaces(envs.single_observation_space, envs.single_action_space)
    buf = bc.ReplayBuffer.create(None, schema, capacity=400, lanes=2)
    envs.action_space.seed(2)
    shares, actions = [], []
    with buf.writer(env=envs) as writer:
        collector = Collector(envs, writer)
        obs, _ = collector.reset(seed=2)
        for _ in range(10):
            shares.append(obs["shares"].copy())
            actions.append(envs.action_space.sample())
            obs, *_ = collector.step(actions[-1])
        collector.finish()
    batch = buf.sampler(seed=1).sample(200)
    found = set(map(bytes, batch["obs"]["shares"]))
    assert found <= {row.tobytes() for step in shares for row in step}
    assert {row.tobytes() for step in actions for row in step} >= set(map(bytes, batch["action"]))
    assert batch["obs"]["shares"].dtype == shares[0].dtype


def test_copies_keep_units_and_the_state_of_rewards(panel: bc.Panel, tmp_path: Path) -> None:
    given = {**FORMS["short fractions"], "reward": Counting(), "dividends": "paid"}
    envs = PortfolioVectorEnv(panel, 3, **given)
    envs.reset(seed=1)
    envs.action_space.seed(1)
    for _ in range(5):
        envs.step(envs.action_space.sample())
    twin = copy.deepcopy(envs)
    for _ in range(5):
        actions = envs.action_space.sample()
        one, other = envs.step(actions), twin.step(actions)
        assert (one[1] == other[1]).all()
        assert (one[0]["shares"] == other[0]["shares"]).all()
    named = PortfolioVectorEnv(
        tmp_path / "prices.csv", 3, panel_options={"macro": ["VIX"]}, **given
    )
    fresh = pickle.loads(pickle.dumps(named))
    fresh.reset(seed=1)
    assert (fresh.step(np.zeros((3, 2)))[1] == 11).all()  # the object was pickled as it is


class Counting:
    """Counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, step: PortfolioStep) -> np.ndarray:
        self.calls += 1
        return np.full(len(step.value), float(self.calls))


def test_a_function_is_called_once_a_step_with_arrays_of_all_portfolios(panel: bc.Panel) -> None:
    seen: list[PortfolioStep] = []

    def reward(step: PortfolioStep) -> np.ndarray:
        seen.append(step)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(step.acted, np.log(step.value / step.value_before), np.nan)

    given: dict[str, Any] = {"max_episode_steps": 5, "fixed_fee": 2.0}
    mine = PortfolioVectorEnv(panel, 6, reward=reward, **given)
    plain = PortfolioVectorEnv(panel, 6, **given)
    pnl = PortfolioVectorEnv(panel, 6, reward="pnl", **given)
    for envs in (mine, plain, pnl):
        envs.reset(seed=9)
    for at in range(1, 20):
        actions = mine.action_space.sample()
        found, expected, cash = (envs.step(actions)[1] for envs in (mine, plain, pnl))
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)
        assert len(seen) == at
        step = seen[-1]
        assert (np.where(step.acted, step.value - step.value_before, 0) == cash).all()
        assert (step.first == ((at - 1) % 6 == 0)).all() or not step.acted.any()
        assert (step.acted == (at % 6 != 0)).all()
        assert (step.truncated == (at % 6 == 5)).all()
    single = PortfolioEnv(panel, reward=lambda step: step.value - step.value_before)
    single.reset(seed=1)
    assert type(single.step([1, 1])[1]) is float


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (np.zeros(2), r"\(2,\).*\(3,\)"),
        (0.5, r"\(\).*\(3,\)"),
        (np.array([0, np.nan, 0]), r"portfolio 1 is nan"),
        (np.array(["a", "b", "c"]), r"<U1"),
    ],
)
def test_what_a_function_returns_is_checked(
    panel: bc.Panel, returned: ArrayLike, message: str
) -> None:
    envs = PortfolioVectorEnv(panel, 3, reward=lambda _: returned)
    envs.reset(seed=1)
    with pytest.raises(EnvError, match=message):
        envs.step(np.zeros((3, 2)))


def test_rewards_equal_their_formulas(panel: bc.Panel) -> None:
    given: dict[str, Any] = {"actions": "weights", "fractional": True, "buy_cost_pct": 0.001}
    rate, weight = 0.05, 3.0
    rewards: list[Any] = [
        "log_return",
        "pnl",
        DifferentialSharpe(rate),
        Drawdown(weight),
        Excess("VIX"),
    ]
    runs: list[np.ndarray] = []
    values = np.zeros(0)
    for reward in rewards:
        env = PortfolioEnv(panel, reward=reward, record=True, failure_threshold=0, **given)
        env.reset(seed=3, options={"start_day": 5})
        rng = np.random.default_rng(4)
        runs.append(np.array([env.step(rng.random(2))[1] for _ in range(60)]))
        history = env.history()
        values, days = history["value"], history["day"]
    logs = np.log(values[1:] / values[:-1])
    np.testing.assert_allclose(runs[0], logs, atol=1e-12)
    np.testing.assert_allclose(runs[1], np.diff(values), atol=1e-8)
    mean = square = 0.0
    for at, found in enumerate(runs[2]):
        gain = values[at + 1] / values[at] - 1
        change, squared = gain - mean, gain * gain - square
        spread = square - mean**2
        expected = 0.0 if at == 0 else (square * change - 0.5 * mean * squared) / spread**1.5
        assert abs(found - expected) <= 1e-9 * max(1, abs(expected))
        mean, square = mean + rate * change, square + rate * squared
    fallen = 1 - values / np.maximum.accumulate(values)
    deepest = np.maximum.accumulate(fallen)
    np.testing.assert_allclose(runs[3], logs - weight * np.diff(deepest), atol=1e-12)
    closes = panel.values[panel.tickers.index("VIX"), days, panel.columns.index("close")]
    np.testing.assert_allclose(runs[4], logs - np.diff(np.log(closes)), atol=1e-12)


REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"fractional": True, "actions": "discrete"}, EnvError, "fractional.*discrete"),
    ({"margin": Margin(), "stop_loss_tolerance": 0.9}, EnvError, "stop_loss_tolerance.*margin"),
    ({"max_volume": 0.1, "stop_loss_tolerance": 0.9}, EnvError, "stop_loss_tolerance.*max_volume"),
    ({"actions": "weights", "hmax": 100}, EnvError, "hmax.*weights"),
    ({"actions": Weights(leverage=1.5)}, EnvError, r"Weights\.leverage.*1\.5"),
    ({"actions": Weights(leverage=3), "margin": Margin()}, EnvError, r"Weights\.leverage.*3"),
    ({"margin": Margin(initial=2)}, EnvError, r"Margin\.initial.*2"),
    ({"margin": Margin(maintenance=0.9)}, EnvError, r"Margin\.maintenance.*0\.9"),
    ({"margin": {"initial": 0.5}}, ArgumentTypeError, "Margin"),
    ({"actions": "weight"}, EnvError, '"weight".*"weights"'),
    ({"actions": 3}, ArgumentTypeError, "actions is 3"),
    ({"actions": Discrete((0.5,))}, EnvError, r"Discrete\.choices"),
    ({"actions": Discrete((0, 2))}, EnvError, r"Discrete\.choices.*2"),
    ({"reward": Drawdown}, ArgumentTypeError, r"reward is .*, or a function of a PortfolioStep"),
    ({"reward": "sharp"}, EnvError, '"sharp".*"differential_sharpe"'),
    ({"reward": Excess("SPY")}, EnvError, '"SPY"'),
    ({"reward": DifferentialSharpe(2)}, EnvError, r"DifferentialSharpe\.rate.*2"),
    ({"dividends": "dividend"}, EnvError, '"dividend".*rsi, paid'),
    ({"splits": "rsi"}, EnvError, '"rsi".*splits'),
    ({"max_position": 0}, EnvError, "max_position"),
    ({"impact_bps": -1}, EnvError, "impact_bps"),
]


@pytest.mark.parametrize(("given", "error", "message"), REFUSED, ids=lambda value: str(value)[:40])
def test_settings_that_cannot_be_are_refused(
    panel: bc.Panel, given: dict[str, Any], error: type[Exception], message: str
) -> None:
    for make in (PortfolioEnv, PortfolioVectorEnv):
        with pytest.raises(error, match=message):
            make(panel, **given)


def test_actions_outside_their_space_are_refused_before_anything_changes(panel: bc.Panel) -> None:
    for given, action, message in (
        ({"actions": "weights"}, [0.5, -0.1], r"\"BBB\".*-0\.1.*\[0, 1\]"),
        (FORMS["short"], [2.5, 0], r"\"AAA\".*2\.5.*\[-2, 2\]"),
        ({"actions": "discrete"}, [1, 3], r"\"BBB\".*3.*0 to 2"),
        ({"actions": "discrete"}, [0.5, 1], r"\"AAA\".*0\.5.*whole"),
    ):
        env = PortfolioEnv(panel, **given)
        before, _ = env.reset(seed=1)
        with pytest.raises(EnvError, match=message):
            env.step(action)
        again, *_ = env._batch.shown()
        assert all((before[name] == again[name]).all() for name in before)


def test_limits_are_told_by_their_names(panel: bc.Panel) -> None:
    env = PortfolioEnv(panel, max_volume=0.001, step_info=True, hmax=1_000)
    env.reset(seed=1)
    info = env.step([1, -1])[4]
    assert [OrderLimit(limit).name for limit in info["limits"]] == ["VOLUME", "HOLDING"]
    assert info["orders"].tolist() == [1_000, -1_000]
    assert info["fills"][1] == 0
    assert sorted(info["costs"]) == ["borrow", "fees", "impact", "interest", "slippage"]


def test_pictures_show_short_and_fractional_episodes(panel: bc.Panel) -> None:
    pytest.importorskip("matplotlib")
    env = PortfolioEnv(panel, render_mode="rgb_array", **FORMS["short fractions"])
    env.reset(seed=1)
    env.action_space.seed(1)
    for _ in range(20):
        env.step(env.action_space.sample())
    history = env.history()
    assert history["shares"].dtype == np.float64
    assert (history["shares"] < 0).any()
    assert history["bought"].dtype == np.float64
    frame = env.render()
    assert frame is not None
    assert frame.shape == (480, 640, 3)


def test_finrl_environments_keep_their_own_settings(tmp_path: Path, panel: bc.Panel) -> None:
    import backcast.finrl as ff

    with pytest.raises(ArgumentTypeError, match="margin"):
        ff.VecFastFinRL(panel, 2, margin=Margin())  # type: ignore[call-arg]


def test_panel_transitions_refuse_fractions_and_keep_short_positions(panel: bc.Panel) -> None:
    import backcast.finrl as ff

    env = ff.VecFastFinRL(panel, 2, return_format="vec", macro_tickers=["VIX"])
    first = env.reset(seed=1)
    second = env.step(np.zeros((2, 2)))
    with ff.VecReplayBuffer(env, 20) as buffer:
        for state in (first, second):
            state["shares"] = np.array([[0.5, 0], [0, 0]])
        with pytest.raises(bc.BackcastError, match=r"shares.*0\.5"):
            buffer.add(first, np.zeros((2, 2)), np.zeros(2), second, np.zeros(2, bool))
        for state in (first, second):
            state["shares"] = np.array([[-3, 0], [0, 7]])
        buffer.add(first, np.zeros((2, 2)), np.zeros(2), second, np.zeros(2, bool))
        assert len(buffer) == 2


def test_choices_that_are_no_numbers_are_refused() -> None:
    for given in (5, "ab"):
        with pytest.raises(ArgumentTypeError, match=r"choices is .*; give fractions of hmax"):
            Discrete(given)  # type: ignore[arg-type]
