"""Refused settings, seeds, masks and actions of trading environments."""

from __future__ import annotations

import re
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
    make("none", {"num_envs": 0}, EnvError, "num_envs", "0", "1"),
    make(
        "too many",
        {"num_envs": 1 << 20, "market": {"symbols": 64}},
        EnvError,
        "'num_envs'",
        "1048576",
    ),
    make(
        "more than the most",
        {"num_envs": 2_000_000, "reward": lambda: pytest.fail("a reward was made")},
        EnvError,
        "'num_envs'",
        "2000000",
        "1",
        "1048576",
    ),
    make("preset", {"preset": "hectic"}, EnvError, "'hectic'", "teaching"),
    make("preset type", {"preset": 3}, ArgumentTypeError, "preset", "3", "'normal'"),
    make(
        "preset and market",
        {"preset": "calm", "market": sim.MarketConfig()},
        EnvError,
        "('calm'",
    ),
    make("typo", {"frameskip": 3}, ArgumentTypeError, "'frameskip'", "'frame_skip'"),
    make("actions", {"actions": "buy"}, EnvError, "actions", "'buy'", "'discrete_limit'"),
    make("size", {"order_size": 0}, EnvError, "order_size", "0", "1"),
    make("above limit", {"order_size": 1_001}, EnvError, "1001", "1000"),
    make("frame skip", {"frame_skip": 0}, EnvError, "frame_skip", "0", "1", "1000000"),
    make("ticks", {"max_ticks": 0}, EnvError, "'max_ticks'", "0", "1", "2^40"),
    make(
        "ticks beside steps",
        {"max_ticks": 0, "max_episode_steps": 9},
        EnvError,
        "'max_ticks'",
        "0",
        "2^40",
    ),
    make(
        "ticks of text beside steps",
        {"max_ticks": "9", "max_episode_steps": 9},
        ArgumentTypeError,
        "max_ticks",
        "'9'",
    ),
    make(
        "limit of what is not allowed",
        {"allow_short": False, "short_limit": 500},
        EnvError,
        "short_limit",
        "500",
        "allow_short",
    ),
    make(
        "size of actions that have none",
        {"actions": "target", "order_size": 50},
        EnvError,
        "order_size",
        "50",
        "target",
        "quotes",
    ),
    make("commands", {"commands": 2}, EnvError, "commands", "2", "discrete", "limit_orders"),
    make("offset", {"max_offset": 9}, EnvError, "max_offset", "9", "discrete", "quotes"),
    make(
        "slippage of quotes",
        {"actions": "quotes", "max_slippage": 7},
        EnvError,
        "max_slippage",
        "7",
        "quotes",
        "discrete",
    ),
    make("steps", {"max_episode_steps": 0}, EnvError, "max_episode_steps", "0", "1"),
    make("latency", {"latency_ticks": 70}, EnvError, "70", "64"),
    make("cash", {"initial_cash": -1.0}, EnvError, "initial_cash", "-1", "0", "1000000000000"),
    make(
        "days without anything that divides them",
        {"market": {"session": {"ticks": 1_000}}},
        EnvError,
        "'session.ticks'",
        "1000",
        "'overnight_sd'",
        "23400",
    ),
    make("much cash", {"initial_cash": 1e300}, EnvError, "initial_cash"),
    make("shares", {"initial_shares": 2_000}, EnvError, "2000"),
    make("margin", {"maintenance_margin": 1.0}, EnvError, "'maintenance_margin'", "1", "[0, 1)"),
    make("ruin", {"bankruptcy_equity": 1e6}, EnvError, "'bankruptcy_equity'", "1000000"),
    make("seed space", {"seed_space": "dev"}, EnvError, "seed_space", "'dev'", "'train'"),
    make("mark", {"mark": "last"}, EnvError, "mark", "'last'", "'liquidation'"),
    make("features", {"features": "all"}, EnvError, "features", "'all'", "'full'"),
    make("snapshots", {"warm_snapshots": 2_000}, EnvError, "warm_snapshots", "2000", "1024"),
    make("threads", {"threads": 0}, EnvError, "threads", "0", "1", "1024"),
    make("mode", {"autoreset_mode": "never"}, EnvError, "autoreset_mode", "'never'"),
    make("copy", {"copy": "no"}, ArgumentTypeError, "copy", "'no'", "True"),
    make("render", {"render_mode": "human"}, EnvError, "render_mode", "'human'", "'ansi'"),
    make("reward", {"reward": "sharpe"}, EnvError, "reward", "'sharpe'", "'risk_adjusted'"),
    make("reward type", {"reward": 3}, ArgumentTypeError, "reward", "3", "'pnl_delta'"),
    make(
        "reward made",
        {"reward": lambda: 3},
        ArgumentTypeError,
        "reward()",
        "3",
        "RewardInput",
    ),
    make(
        "reward in place of its factory",
        {"reward": lambda step: 0.0},
        ArgumentTypeError,
        "reward",
        "<function",
        "reward=lambda: reward",
        "1",
    ),
    make(
        "class of a reward with arguments",
        {"reward": Scaled},
        ArgumentTypeError,
        "reward",
        "Scaled",
    ),
    make(
        "reward of built-in code",
        {"reward": abs},
        ArgumentTypeError,
        "reward",
        "<built-in",
        "abs>",
    ),
    make(
        "reward options",
        {"reward": "risk_adjusted", "reward_options": {"drawdown": 1}},
        EnvError,
        "'drawdown'",
        "'drawdown_penalty'",
    ),
    make(
        "options of another",
        {"reward_options": {"drawdown_penalty": 1}},
        EnvError,
        "'pnl_delta'",
    ),
    make("no weight", {"reward": "risk_adjusted"}, EnvError, "'risk_adjusted'", "drawdown_penalty"),
    make(
        "infinite weight",
        {"reward": "risk_adjusted", "reward_options": {"drawdown_penalty": float("inf")}},
        EnvError,
        "drawdown_penalty",
        "inf",
    ),
]

USED = [
    call("too many", lambda e: e.step([1, 1, 1]), EnvError, "(3,)", "(2,)"),
    call("no choice", lambda e: e.step([1, 3]), EnvError, "1", "3", "0", "2"),
    call("half", lambda e: e.step([0.5, 1]), EnvError, "0.5"),
    call("nan", lambda e: e.step([np.nan, 1]), EnvError, "NaN", "0", "2"),
    call("words", lambda e: e.step(["buy", "sell"]), EnvError, "actions"),
    call("seeds", lambda e: e.reset(seed=[1]), EnvError, "1", "2"),
    call("negative", lambda e: e.reset(seed=-1), EnvError, "seed", "-1", "0"),
    call(
        "mask",
        lambda e: e.reset(options={"reset_mask": np.zeros(2, bool)}),
        EnvError,
        "2",
    ),
    call(
        "mask type",
        lambda e: e.reset(options={"reset_mask": [True, False]}),
        ArgumentTypeError,
        "reset_mask",
        "[True, False]",
        "2",
    ),
    call(
        "option",
        lambda e: e.reset(options={"start_day": 1}),
        EnvError,
        "'start_day'",
        "'episode_seed'",
    ),
    call(
        "endowment",
        lambda e: e.reset(options={"shares": 5_000}),
        EnvError,
        "5000",
        "-1000",
        "1000",
    ),
    call("no cash", lambda e: e.reset(options={"cash": -1}), EnvError, "cash", "-1", "0"),
    call("options", lambda e: e.reset(options=3), ArgumentTypeError, "options", "3"),
    call("book", lambda e: e.book(2), EnvError, "i", "2", "0", "1"),
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
    with pytest.raises(EnvError, match=r"\baction\b.*\b7\b") as raised:
        env.step(7)
    # The action and its range, and no number of an environment.
    assert re.findall(r"\d+", str(raised.value)) == ["7", "0", "2"]
