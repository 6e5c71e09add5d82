"""TradingEnv: Gymnasium's checker, spaces, action masks, episodes, copies."""

from __future__ import annotations

import copy
import pickle
import signal
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import backcast as bc
import backcast.envs
import gymnasium as gym
import numpy as np
import pytest
from backcast import sim
from backcast._native import SharedMarket
from backcast.envs import TradingEnv, TradingVectorEnv
from envs_worlds import same
from gymnasium.utils.env_checker import check_env

ID = "backcast/Trading-v0"
SHORT: dict[str, Any] = {"warmup_ticks": 40, "max_ticks": 60}
PRESETS = ["calm", "normal", "stressed", "flash", "teaching"]


@pytest.mark.parametrize("scheme", ["discrete", "discrete_limit", "target", "quotes"])
@pytest.mark.parametrize("render_mode", [None, "ansi", "rgb_array"])
def test_gymnasiums_checker_finds_nothing_not_even_a_warning(
    scheme: str, render_mode: str | None
) -> None:
    env = gym.make(ID, actions=scheme, render_mode=render_mode, **SHORT)
    check_env(env.unwrapped)


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_steps_inside_its_space(preset: str) -> None:
    env: Any = gym.make(ID, preset=preset, features="full", **SHORT)
    obs, _ = env.reset(seed=1)
    env.action_space.seed(1)
    for _ in range(60):
        assert obs in env.observation_space
        obs, reward, terminated, truncated, info = env.step(env.action_space.sample())
        assert np.isfinite(reward)
    assert (terminated, truncated) == (False, True)
    assert info["metrics"]["length"] == 60
    assert "stop_losses" not in info["metrics"]


@pytest.mark.parametrize(
    ("limits", "length"),
    [
        ({"max_ticks": 9, "max_episode_steps": 5}, 3),
        ({"max_ticks": 10, "max_episode_steps": 3}, 3),
        ({"max_ticks": 9, "max_episode_steps": 3}, 3),
        ({"max_ticks": np.int64(5), "max_episode_steps": 7}, 2),
        ({"max_ticks": 9, "max_episode_steps": None}, 3),
    ],
    ids=["ticks first", "steps first", "together", "number of NumPy", "no steps"],
)
def test_the_first_of_two_limits_ends_an_episode(limits: dict[str, Any], length: int) -> None:
    settings = {"preset": "teaching", "warmup_ticks": 10, "frame_skip": 3, **limits}
    for env in (TradingEnv(**settings), gym.make(ID, **settings), TradingVectorEnv(1, **settings)):
        env.reset(seed=1)
        ends = [bool(np.all(env.step(env.action_space.sample())[3])) for _ in range(length)]
        assert ends == [False] * (length - 1) + [True]


def test_the_space_is_that_of_the_features() -> None:
    env = TradingEnv(features="full", private_features=False, **SHORT)
    space = env.observation_space
    assert isinstance(space, gym.spaces.Box)
    assert len(env.features) == 55
    assert [entry.low for entry in env.features] == space.low.tolist()
    assert np.isfinite(space.low).all()
    assert np.isfinite(space.high).all()
    assert (space.low < space.high).all()
    assert len(TradingEnv(**SHORT).features) == 40 + 11
    named = {entry.name for entry in TradingEnv(**SHORT).features}
    assert {"position", "cash", "time_left"} <= named


def test_flags_are_bools_the_reward_is_a_float_and_actions_come_in_any_form() -> None:
    env = TradingEnv(**SHORT)
    env.reset(seed=1)
    for action in (2, np.int64(0), np.array(1), np.array([2]), [1]):
        _, reward, terminated, truncated, info = env.step(action)
        assert (type(reward), type(terminated), type(truncated)) == (float, bool, bool)
    assert type(info["position"]) is int
    assert info["decisions"] == 5
    continuous = TradingEnv(actions="target", **SHORT)
    continuous.reset(seed=1)
    info = continuous.step(np.array([0.05], np.float32))[4]
    assert info["position"] == 50
    assert same(continuous.step(np.array([0.05]))[4]["position"], 50)


def test_the_mask_says_what_can_have_an_effect() -> None:
    env = TradingEnv(allow_short=False, long_limit=100, **SHORT)
    _, info = env.reset(seed=1)
    assert info["action_mask"].dtype == np.int8
    assert info["action_mask"].tolist() == [0, 1, 1]
    env.step(2)
    assert env.action_masks().tolist() == [True, True, False]
    info = env.step(2)[4]
    assert info["masked"] == 1
    assert info["position"] == 100
    with pytest.raises(bc.errors.EnvError, match=r'\bactions="discrete"'):
        TradingEnv(actions="quotes", **SHORT).action_masks()


def test_seeds_repeat_episodes_and_none_goes_on() -> None:
    env, twin = TradingEnv(**SHORT), TradingEnv(**SHORT)
    first = env.reset(seed=5)
    assert same(twin.reset(seed=np.int64(5)), first)  # type: ignore[arg-type]
    second = env.reset()
    assert not np.array_equal(second[0], first[0])
    assert same(twin.reset(), second)
    assert same(env.reset(options={"episode_seed": first[1]["episode_seed"]}), first)
    fresh = TradingEnv(**SHORT).reset()[1]["episode_seed"]
    assert fresh != TradingEnv(**SHORT).reset()[1]["episode_seed"]


def test_a_seed_of_the_settings_is_that_of_the_first_reset() -> None:
    seeded, reset = TradingEnv(seed=5, **SHORT), TradingEnv(**SHORT)
    first = reset.reset(seed=5)
    assert same(seeded.reset(), first)
    assert seeded.np_random.random() == reset.np_random.random()
    assert same(seeded.reset(), reset.reset())
    assert same(seeded.reset(seed=6), reset.reset(seed=6))
    assert same(TradingEnv(seed=5, **SHORT).reset(seed=6), reset.reset(seed=6))
    assert same(pickle.loads(pickle.dumps(seeded)).reset(), first)
    vector = TradingVectorEnv(3, seed=5, **SHORT).reset()
    assert same(vector, TradingVectorEnv(3, **SHORT).reset(seed=5))
    assert same(vector[0][0], first[0])
    for bad in (-1, 1 << 64):
        with pytest.raises(bc.errors.EnvError, match=rf"\bseed\b.*{bad}\b"):
            TradingEnv(seed=bad, **SHORT)


def test_an_endowment_below_the_margin_is_refused() -> None:
    short: dict[str, Any] = {"initial_shares": -100, "initial_cash": 12_000}
    with pytest.raises(bc.errors.EnvError, match=r"-100\b.*\b2000\b.*\b3000\b"):
        TradingEnv(**short, **SHORT)
    TradingEnv(**short, maintenance_margin=0.1, **SHORT)
    env, twin = TradingEnv(**SHORT), TradingEnv(**SHORT)
    env.reset(seed=1)
    twin.reset(seed=1)
    with pytest.raises(bc.errors.EnvError, match=r"-100\b.*\b2000\b.*\b3000\b"):
        env.reset(options={"shares": -100, "cash": 12_000})
    assert same(env.step(2), twin.step(2))


def test_prices_of_fills_and_books_are_those_of_their_ticks() -> None:
    env = TradingEnv(order_size=300, **SHORT)
    env.reset(seed=1)
    fills = env.step(2)[4]["fill_records"]
    assert fills
    for fill in fills:
        assert fill.price == round(fill.price, 2)
    for side in env.book():
        assert side[:, 0].tolist() == [round(price, 2) for price in side[:, 0].tolist()]


def test_bankruptcy_terminates_and_the_limit_truncates() -> None:
    env = TradingEnv(bankruptcy_equity=99_999.99, order_size=1_000, **SHORT)
    env.reset(seed=1)
    terminated = truncated = False
    steps = 0
    while not (terminated or truncated):
        _, _, terminated, truncated, info = env.step(2 * (steps % 2))
        steps += 1
    assert (terminated, truncated) == (True, False)
    assert info["equity"] <= 99_999.99
    with pytest.raises(bc.errors.EnvError, match=r"reset\(\)"):
        env.step(1)


def test_latency_delays_the_fill() -> None:
    env = TradingEnv(latency_ticks=3, **SHORT)
    env.reset(seed=1)
    positions = [env.step(action)[4]["position"] for action in (2, 1, 1, 1, 1)]
    assert positions == [0, 0, 0, 100, 100]


def test_limit_orders_rest_and_a_cancel_takes_them_back() -> None:
    env = TradingEnv(actions="discrete_limit", order_size=7, long_limit=1_000, **SHORT)
    at = [entry.name for entry in env.features].index("open_buys")
    resting = 0
    for seed in range(8):
        env.reset(seed=seed)
        obs, *_, info = env.step(4)
        # `open_buys` is a fraction of `long_limit`. Part of the order may have traded.
        assert round(obs[at] * 1_000) + info["position"] == 7
        resting += obs[at] > 0
        bids, asks = env.book()
        assert bids.shape[1] == asks.shape[1] == 2
        assert (np.diff(bids[:, 0]) < 0).all()
        assert (np.diff(asks[:, 0]) > 0).all()
        assert bids[0, 0] < asks[0, 0]
        obs, *_, info = env.step(5)
        assert obs[at] == 0
        assert {env.step(1)[4]["position"] for _ in range(20)} == {info["position"]}
    assert resting > 0


def test_warm_snapshots_are_told_and_begin_with_any_shares() -> None:
    env = TradingEnv(warm_snapshots=3, **SHORT)
    snapshots = {env.reset(seed=seed)[1]["snapshot"] for seed in range(20)}
    assert snapshots == {0, 1, 2}
    assert env.reset(options={"shares": 3})[1]["position"] == 3


def test_metrics_are_there_before_an_end() -> None:
    env = TradingEnv(**SHORT)
    with pytest.raises(bc.errors.EnvError, match=r"\breset\b"):
        env.metrics_so_far()
    env.reset(seed=1)
    env.step(2)
    metrics = env.metrics_so_far()
    assert metrics["length"] == 1
    assert metrics["trades"] > 0


def test_copies_keep_the_state_and_pickles_the_settings() -> None:
    weights = {"drawdown_penalty": 0.5, "sharpe_terminal_bonus": 0.1}
    env = TradingEnv(preset="stressed", reward="risk_adjusted", reward_options=weights, **SHORT)
    env.reset(seed=1)
    env.step(2)
    twin = copy.deepcopy(env)
    assert same(env.step(0), twin.step(0))
    assert same(env.reset(), twin.reset())
    again = pickle.loads(pickle.dumps(env))
    assert same(again.reset(seed=2), env.reset(seed=2))
    env.close()
    with pytest.raises(bc.ClosedError):
        env.step(1)


def test_a_pickle_has_the_market_that_the_environment_was_made_of() -> None:
    market = sim.MarketConfig.preset("calm")
    env = TradingEnv(market=market, **SHORT)
    envs = TradingVectorEnv(1, market=market, **SHORT)
    expected = env.reset(seed=2)
    market.initial_price *= 2
    assert same(pickle.loads(pickle.dumps(env)).reset(seed=2), expected)
    made = pickle.loads(pickle.dumps(envs)).reset(seed=2)
    assert same(made[0][0], expected[0])


def test_the_spec_is_plain_and_makes_the_environment_again() -> None:
    env = gym.make(ID, preset="teaching", reward_options={"scale": "currency"}, **SHORT)
    assert env.spec is not None
    again = gym.make(gym.envs.registration.EnvSpec.from_json(env.spec.to_json()))
    assert same(again.reset(seed=2), env.reset(seed=2))


def test_make_vec_passes_the_step_limit_on() -> None:
    envs: Any = gym.make_vec(ID, 2, max_episode_steps=4, frame_skip=5, warmup_ticks=20)
    envs.reset(seed=1)
    truncations = [envs.step(np.ones(2, int))[3].tolist() for _ in range(9)]
    assert truncations == [[step % 5 == 3] * 2 for step in range(9)]


def test_a_configuration_makes_a_single_environment_or_many() -> None:
    single = backcast.envs.make({"preset": "calm"})
    many = backcast.envs.make({"preset": "calm", "num_envs": 3})
    assert isinstance(single, TradingEnv)
    assert isinstance(many, TradingVectorEnv)
    assert many.num_envs == 3


def test_wrappers_of_single_environments_work() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wrapped: Any = gym.make(ID, max_episode_steps=4, **SHORT)
        env: Any = gym.wrappers.RecordEpisodeStatistics(gym.wrappers.NormalizeReward(wrapped))
        env.reset(seed=1)
        for step in range(4):
            _, _, terminated, truncated, info = env.step(2)
            assert (terminated, truncated) == (False, step == 3)
    assert info["episode"]["l"] == 4


def test_a_small_order_limit_goes_with_actions_that_have_no_order_size() -> None:
    for actions in ("discrete_target", "target", "limit_orders"):
        settings: dict[str, Any] = {"actions": actions, "order_limit": 20, **SHORT}
        env = TradingEnv(**settings)
        assert env.reset(seed=1)[0] in env.observation_space
    with pytest.raises(bc.errors.EnvError, match=r"\border_size\b.*\b100\b.*\b20\b"):
        TradingEnv(order_limit=20, **SHORT)


class AlarmError(Exception):
    """Exception of a signal handler."""


@pytest.fixture
def alarm() -> Iterator[None]:
    """Raise an AlarmError a moment later."""

    def raise_it(*_: object) -> NoReturn:
        raise AlarmError

    before = signal.signal(signal.SIGALRM, raise_it)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


ENDLESS: dict[str, Any] = {"warmup_ticks": 10**12, "warm_snapshots": 0}


@pytest.mark.parametrize(
    "begin",
    [
        lambda: TradingEnv(**{**ENDLESS, "warm_snapshots": 1}),
        lambda: TradingEnv(**ENDLESS).reset(seed=1),
        lambda: TradingVectorEnv(3, threads=2, **ENDLESS).reset(seed=1),
        lambda: SharedMarket({"a": {}, "b": {}}, ENDLESS).reset(seed=1),
    ],
    ids=["snapshot", "reset", "threads", "agents"],
)
def test_a_signal_ends_a_warm_up(begin: Callable[[], object], alarm: None) -> None:
    with pytest.raises(AlarmError):
        begin()


def test_an_interrupted_environment_has_to_be_reset(alarm: None) -> None:
    env = TradingEnv(**ENDLESS)
    with pytest.raises(AlarmError):
        env.reset(seed=1)
    with pytest.raises(bc.errors.EnvError, match=r"\breset\b"):
        env.step(1)
