"""Settings, seeds, masks and actions of trading environments."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backcast import sim
from backcast.envs import TradingEnv, TradingVectorEnv
from backcast.errors import ArgumentTypeError, BackcastError, EnvError
from refusal import Row, World, check, table, world_at

SHORT: dict[str, Any] = {"warmup_ticks": 10, "max_ticks": 20}


class Scaled:
    """A reward whose class takes an argument."""

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def __call__(self, step: Any) -> float:  # noqa: ANN401
        return self.scale


def make(case: str, changes: dict[str, Any], error: type[BackcastError], *words: str) -> Row:
    """Make a vector environment with some arguments changed."""

    def do(_world: World) -> object:
        return TradingVectorEnv(**({"num_envs": 2} | SHORT | changes))

    return Row(case, do, error, words)


def call(case: str, do: Callable[[Any], object], error: type[BackcastError], *words: str) -> Row:
    """Use an environment of two markets, which has been reset."""

    def use(_world: World) -> object:
        envs = TradingVectorEnv(2, autoreset_mode="disabled", **SHORT)
        envs.reset(seed=1)
        return do(envs)

    return Row(case, use, error, words)


MADE = [
    make("none", {"num_envs": 0}, EnvError, "num_envs is 0", "from 1 up"),
    make(
        "too many",
        {"num_envs": 1 << 20, "market": {"symbols": 64}},
        EnvError,
        "'num_envs' is 1048576, but memory is left for",
        "each takes about",
        "make fewer",
    ),
    make(
        "more than the most",
        {"num_envs": 2_000_000, "reward": lambda: pytest.fail("a reward was made")},
        EnvError,
        "'num_envs' is 2000000",
        "1 to 1048576",
    ),
    make("preset", {"preset": "hectic"}, EnvError, "no preset 'hectic'", "teaching"),
    make("preset type", {"preset": 3}, ArgumentTypeError, "preset is 3", "'normal'"),
    make(
        "preset and market",
        {"preset": "calm", "market": sim.MarketConfig()},
        EnvError,
        "both preset ('calm'",
        "give one of them",
    ),
    make("typo", {"frameskip": 3}, ArgumentTypeError, "'frameskip'", "did you mean 'frame_skip'"),
    make("actions", {"actions": "buy"}, EnvError, "actions is 'buy'", "'discrete_limit'"),
    make("size", {"order_size": 0}, EnvError, "order_size is 0", "from 1 to"),
    make("above limit", {"order_size": 1_001}, EnvError, "1001 shares", "limit of 1000"),
    make("frame skip", {"frame_skip": 0}, EnvError, "frame_skip is 0", "from 1 to 1000000"),
    make("ticks", {"max_ticks": 0}, EnvError, "'max_ticks' is 0", "1 to 2^40"),
    make("steps", {"max_episode_steps": 0}, EnvError, "max_episode_steps is 0", "from 1 up"),
    make("latency", {"latency_ticks": 70}, EnvError, "latency of 70", "holds 64", "raise"),
    make("cash", {"initial_cash": -1.0}, EnvError, "'account.cash' is -10000", "0 to"),
    make("much cash", {"initial_cash": 1e300}, EnvError, "initial_cash is 1", "give an amount"),
    make("shares", {"initial_shares": 2_000}, EnvError, "2000 shares", "limits of"),
    make("margin", {"maintenance_margin": 1.0}, EnvError, "'maintenance_margin' is 1", "[0, 1)"),
    make("ruin", {"bankruptcy_equity": 1e6}, EnvError, "'bankruptcy_equity' is 1000000", "below"),
    make("seed space", {"seed_space": "dev"}, EnvError, "seed_space is 'dev'", "'train'"),
    make("mark", {"mark": "last"}, EnvError, "mark is 'last'", "'liquidation'"),
    make("features", {"features": "all"}, EnvError, "features is 'all'", "'full'"),
    make("snapshots", {"warm_snapshots": 2_000}, EnvError, "warm_snapshots is 2000", "1024"),
    make("threads", {"threads": 0}, EnvError, "threads is 0", "from 1 to 1024"),
    make("mode", {"autoreset_mode": "never"}, EnvError, "autoreset_mode is 'never'"),
    make("copy", {"copy": "no"}, ArgumentTypeError, "copy is 'no'", "give True"),
    make("render", {"render_mode": "human"}, EnvError, "render_mode is 'human'", "'ansi'"),
    make("reward", {"reward": "sharpe"}, EnvError, "reward is 'sharpe'", "'risk_adjusted'"),
    make("reward type", {"reward": 3}, ArgumentTypeError, "reward is 3", "'pnl_delta'"),
    make(
        "reward made",
        {"reward": lambda: 3},
        ArgumentTypeError,
        "what reward() returned is 3",
        "RewardInput",
    ),
    make(
        "reward in place of its factory",
        {"reward": lambda step: 0.0},
        ArgumentTypeError,
        "reward is <function",
        "without arguments",
        "reward=lambda: reward",
        "missing 1 required positional argument",
    ),
    make(
        "class of a reward with arguments",
        {"reward": Scaled},
        ArgumentTypeError,
        "reward is",
        "Scaled",
        "without arguments",
    ),
    make(
        "reward of built-in code",
        {"reward": abs},
        ArgumentTypeError,
        "reward is <built-in function abs>",
        "without arguments",
    ),
    make(
        "reward options",
        {"reward": "risk_adjusted", "reward_options": {"drawdown": 1}},
        EnvError,
        "'drawdown'",
        "did you mean 'drawdown_penalty'",
    ),
    make(
        "options of another",
        {"reward_options": {"drawdown_penalty": 1}},
        EnvError,
        "'pnl_delta' does not take",
        "scale",
    ),
    make(
        "infinite weight",
        {"reward": "risk_adjusted", "reward_options": {"drawdown_penalty": float("inf")}},
        EnvError,
        "drawdown_penalty is inf",
        "finite",
    ),
]

USED = [
    call("too many", lambda e: e.step([1, 1, 1]), EnvError, "(3,)", "give (2,)"),
    call("no choice", lambda e: e.step([1, 3]), EnvError, "environment 1 is 3", "0 to 2"),
    call("half", lambda e: e.step([0.5, 1]), EnvError, "is 0.5", "a whole number"),
    call("nan", lambda e: e.step([np.nan, 1]), EnvError, "is NaN", "0 to 2"),
    call("words", lambda e: e.step(["buy", "sell"]), EnvError, "actions: got"),
    call("seeds", lambda e: e.reset(seed=[1]), EnvError, "seed has length 1", "2 environments"),
    call("negative", lambda e: e.reset(seed=-1), EnvError, "seed is -1", "from 0"),
    call(
        "mask",
        lambda e: e.reset(options={"reset_mask": np.zeros(2, bool)}),
        EnvError,
        "selects none",
        "at least one",
    ),
    call(
        "mask type",
        lambda e: e.reset(options={"reset_mask": [True, False]}),
        ArgumentTypeError,
        "reset_mask is [True, False]",
        "NumPy array of 2",
    ),
    call(
        "option",
        lambda e: e.reset(options={"start_day": 1}),
        EnvError,
        "options has 'start_day'",
        "'episode_seed'",
    ),
    call(
        "endowment",
        lambda e: e.reset(options={"shares": 5_000}),
        EnvError,
        "5000 shares",
        "limits of -1000 to 1000",
    ),
    call("options", lambda e: e.reset(options=3), ArgumentTypeError, "options is 3", "a dict"),
    call("book", lambda e: e.book(2), EnvError, "i is 2", "from 0 to 1"),
]


@table(MADE)
def test_settings_that_cannot_be_are_refused(row: Row, place: Path, tmp_path: Path) -> None:
    with world_at(place, tmp_path) as world:
        check(world, row)


@table(USED)
def test_calls_that_cannot_be_are_refused(row: Row, place: Path, tmp_path: Path) -> None:
    with world_at(place, tmp_path) as world:
        check(world, row)


def test_a_refused_step_changes_nothing() -> None:
    envs, twin = (TradingVectorEnv(2, **SHORT) for _ in range(2))
    envs.reset(seed=1)
    twin.reset(seed=1)
    for bad in ([1, 3], [2, np.nan], [[1, 1]]):
        with pytest.raises(EnvError):
            envs.step(bad)
    for _ in range(5):
        here, there = envs.step([2, 0]), twin.step([2, 0])
        assert np.array_equal(here[0], there[0])
        assert np.array_equal(here[1], there[1])


def test_a_single_environment_is_told_without_numbers() -> None:
    env = TradingEnv(**SHORT)
    env.reset(seed=1)
    with pytest.raises(EnvError, match=r"^the action is 7, but"):
        env.step(7)
