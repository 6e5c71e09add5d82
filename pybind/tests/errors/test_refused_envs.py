"""Refused settings, seeds, masks and actions of environments, spaces, and collectors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import backcast as bc
import numpy as np
from backcast import envs
from backcast.envs import Collector, PortfolioEnv, PortfolioVectorEnv
from backcast.errors import (
    AppendError,
    ArgumentError,
    ArgumentTypeError,
    BackcastError,
    EnvError,
    NotFoundError,
    PanelError,
    SchemaError,
)
from gymnasium import spaces
from refusal import Row, World, check, table, world_at

BIT = spaces.Discrete(2)


def make(case: str, changes: dict[str, Any], error: type[BackcastError], *words: str) -> Row:
    """Make a vector environment with some arguments changed."""

    def do(world: World) -> object:
        settings: dict[str, Any] = {"panel": world.panel, "num_envs": 2} | changes
        return PortfolioVectorEnv(**settings)

    return Row(case, do, error, words)


def reset(case: str, given: dict[str, Any], error: type[BackcastError], *words: str) -> Row:
    """Reset an environment of two portfolios."""
    return Row(case, lambda world: world.env.reset(**given), error, words)


def step(case: str, actions: Any, *words: str) -> Row:  # noqa: ANN401 - anything is tried
    """Step an environment of two portfolios and one ticker."""
    return Row(case, lambda world: world.env.step(actions), EnvError, words)


def columns(case: str, given: Any, *words: str, **named: Any) -> Row:  # noqa: ANN401
    """Derive columns from an observation space."""
    return Row(case, lambda world: bc.Schema.from_spaces(given, BIT, **named), SchemaError, words)


def collect(
    case: str,
    do: Callable[[Any, World], object],
    error: type[BackcastError],
    *words: str,
) -> Row:
    """Call a collector that has been reset."""
    return Row(case, lambda world: do(world.collector, world), error, words)


def writer_of(world: World, schema: object, lanes: int = 2, mode: Any = "disabled") -> bc.Writer:  # noqa: ANN401
    """Make a writer for a new ring."""
    made = world.hold(bc.ReplayBuffer.create(None, schema, capacity=20, lanes=lanes))  # type: ignore[arg-type]
    return world.hold(made.writer(lanes, mode))


def match(case: str, schema: Callable[[dict[str, Any]], object], *words: str, **writer: Any) -> Row:  # noqa: ANN401
    """Make a collector for a ring or writer that differs from the environment."""

    def do(world: World) -> object:
        given = dict(world.collector.writer.schema.columns)
        return Collector(world.env, writer_of(world, schema(given), **writer))

    return Row(case, do, ArgumentError, words)


def without(name: str) -> Callable[[dict[str, Any]], object]:
    """Leave a column out."""
    return lambda given: {key: column for key, column in given.items() if key != name}


def ended(world: World) -> None:
    """Let the second portfolio's episode end."""
    world.env.reset(options={"start_day": [1, 8]})
    assert world.env.step([[0], [0]])[3].tolist() == [False, True]


@table(
    [
        make("no panel", {"panel": None}, ArgumentTypeError, "panel", "None", "CSV"),
        make("no file", {"panel": "/none.csv"}, PanelError, "/none.csv"),
        make("no such panel", {"panel": "none"}, NotFoundError, "'none'", "backcast ls"),
        make("misspelt", {"n_envs": 2}, ArgumentTypeError, "'n_envs'", "'num_envs'"),
        make("no portfolio", {"num_envs": 0}, EnvError, "num_envs", "0", "1"),
        make("half a portfolio", {"num_envs": 2.5}, ArgumentTypeError, "2.5"),
        make("history", {"history": 10**9}, EnvError, "'history'", "1000000000", "10"),
        make("too many", {"num_envs": 10**9}, EnvError, "1000000000", "'num_envs'"),
        make(
            "too much history",
            {"num_envs": 10**5, "history": 4_000},
            EnvError,
            "'history'",
            "4000",
            "100000 portfolio(s)",
        ),
        make("form", {"obs": "box"}, EnvError, "obs", "'box'", "'dict'", "'flat'"),
        make("copy", {"copy": "no"}, ArgumentTypeError, "copy", "'no'", "False"),
        make("mode", {"autoreset_mode": "next"}, EnvError, "'next'", "'next_step'", "'disabled'"),
        make("render", {"render_mode": "human"}, EnvError, "'human'", "'rgb_array'"),
        make("a ticker alone", {"tickers": "AAA"}, ArgumentTypeError, "'AAA'"),
        make("ticker", {"tickers": ["AAB"]}, EnvError, "'AAB'"),
        make("macro ticker", {"tickers": ["VIX"]}, EnvError, "'VIX'"),
        make("ticker twice", {"tickers": ["AAA"] * 2}, EnvError, "0", "1", "'tickers'"),
        make(
            "macro ticker twice",
            {"macro_tickers": ["VIX"] * 2},
            EnvError,
            "0",
            "1",
            "'macro_tickers'",
        ),
        make("days", {"days": 5}, ArgumentTypeError, "days", "5"),
        make("days of nobody", {"days": (0, 99)}, EnvError, "0..99", "0..10"),
        make("days in bool", {"days": (True, 9)}, ArgumentTypeError, "True"),
        make("half a day", {"days": (1, 9.5)}, ArgumentTypeError, "days", "9.5"),
        make("lag", {"indicator_lag": 30}, EnvError, "30", "'indicator_lag'"),
        make("shares", {"hmax": 2**31}, EnvError, "hmax", "2147483648", "2147483647"),
        make("fee", {"buy_cost_pct": 2.0}, EnvError, "'buy_cost_pct'", "2", "0.01"),
        *(
            make(f"{name} {flag!r}", {name: flag}, ArgumentTypeError, name)
            for name in ["initial_amount", "failure_threshold", "buy_cost_pct", "fixed_fee"]
            for flag in [True, np.True_]
        ),
        make(
            "tolerance in an array of bool",
            {"stop_loss_tolerance": np.array(True)},
            ArgumentTypeError,
            "stop_loss_tolerance",
            "array(True)",
        ),
        *(
            make(
                f"fees of {fees}",
                {"ticker_costs": {"AAA": fees}},
                ArgumentTypeError,
                "'AAA'",
                "ticker_costs",
                shown,
            )
            for fees, shown in [((0.01, True), "True"), ((np.False_, 0.01), "np.False_")]
        ),
        *(
            make(
                f"{shares} shares",
                {"initial_shares": {"AAA": shares}},
                error,
                "'AAA'",
                "initial_shares",
                str(shares),
                "0",
            )
            for shares, error in [
                (True, ArgumentTypeError),
                (2.5, ArgumentTypeError),
                (-1, EnvError),
            ]
        ),
        make("money", {"initial_amount": 9.0}, EnvError, "25000", "'initial_amount'"),
        make("panel_options", {"panel_options": 3}, ArgumentTypeError, "3", "'macro'"),
        make("open already", {"panel_options": {"macro": []}}, ArgumentError, "panel_options"),
        Row(
            "one portfolio, by position",
            lambda world: PortfolioEnv(world.panel, 2),  # type: ignore[call-arg, arg-type]
            ArgumentTypeError,
            ("PortfolioEnv()", "1", "2", "obs"),
        ),
        Row(
            "nothing",
            lambda world: PortfolioEnv(),  # type: ignore[call-arg]
            ArgumentTypeError,
            ("panel", "PortfolioEnv()"),
        ),
        Row(
            "a configuration that is none",
            lambda world: envs.make(world.panel),  # type: ignore[arg-type]
            ArgumentTypeError,
            ("env_config", "<backcast.Panel", "'panel': "),
        ),
        reset("seed", {"seed": -1}, EnvError, "seed", "-1", "0", "18446744073709551615"),
        reset("large seed", {"seed": 2**64}, EnvError, str(2**64), str(2**64 - 1)),
        reset("half a seed", {"seed": 1.5}, ArgumentTypeError, "seed", "1.5"),
        reset("seed is a bool", {"seed": True}, ArgumentTypeError, "True"),
        reset("a seed of two", {"seed": [1, -1]}, EnvError, "seed[1]", "-1", "None"),
        reset("half of two", {"seed": [None, 1.5]}, ArgumentTypeError, "seed[1]", "1.5"),
        reset("bools for seeds", {"seed": [1, True]}, ArgumentTypeError, "[1]", "True"),
        reset("seeds", {"seed": [1]}, EnvError, "1", "2"),
        reset("seeds misspelt", {"seeds": 1}, ArgumentTypeError, "'seeds'", "'seed'"),
        reset("options", {"options": 1}, ArgumentTypeError, "options", "1", "'start_day'"),
        reset("option", {"options": {"day": 1}}, EnvError, "'day'", "'reset_mask'"),
        reset(
            "mask is a list",
            {"options": {"reset_mask": [True, False]}},
            ArgumentTypeError,
            "[True, False]",
            "2",
        ),
        reset(
            "mask of three",
            {"options": {"reset_mask": np.ones(3, bool)}},
            EnvError,
            "(3,)",
            "(2,)",
        ),
        reset(
            "mask of nobody",
            {"options": {"reset_mask": np.zeros(2, bool)}},
            EnvError,
            "2",
        ),
        Row(
            "PortfolioVectorEnv.reset: first of some",
            lambda it: PortfolioVectorEnv(it.panel, 2).reset(
                options={"reset_mask": np.array([True, False])}
            ),
            EnvError,
            ("1",),
        ),
        reset("start", {"options": {"start_day": 9}}, EnvError, "9", "1", "8"),
        reset("starts", {"options": {"start_day": [1] * 3}}, EnvError, "(3,)", "(2,)"),
        step(
            "masked",
            np.ma.array([[0.5], [1]], mask=[[False], [True]]),
            "actions",
        ),
        step("shape", [0.5, 0.5], "(2,)", "(2, 1)"),
        step("dtype", [["a"], ["b"]], "<U1", "f8"),
        step("nan", [[0], [np.nan]], "1", "'AAA'", "NaN", "[-1, 1]"),
        step("range", [[15], [0]], "0", "15", "[-1, 1]"),
        step("no action", None, "None"),
        Row(
            "step before reset",
            lambda world: PortfolioVectorEnv(world.panel, 2).step([[0], [0]]),
            EnvError,
            ("0", "reset"),
        ),
        Row(
            "step after the end",
            lambda world: world.env.step([[0], [0]]),
            EnvError,
            ("1", "reset"),
            ended,
        ),
    ]
)
def test_environments_refuse(place: Path, tmp_path: Path, row: Row) -> None:
    with world_at(place, tmp_path) as world:
        check(world, row)


@table(
    [
        columns("text", spaces.Text(5), "obs"),
        columns("graph", spaces.Graph(BIT, None), "obs"),
        columns("a part", spaces.Dict(x=BIT, y=spaces.Sequence(BIT)), "obs/y"),
        columns("nothing in a dict", spaces.Dict({}), "obs"),
        columns("nothing in a box", spaces.Box(0, 1, (0,)), "(0,)"),
        columns("slash", spaces.Dict({"a/b": BIT}), "'a/b'"),
        columns("an environment", "CartPole-v1", "'CartPole-v1'", "env.observation_space"),
        columns("reward", BIT, "'reward'", "1", reward=1),
        columns("doubled", BIT, "'obs'", extra={"obs": "f4"}),
        Row(
            "no action space",
            lambda world: bc.Schema.from_spaces(BIT),  # type: ignore[call-arg]
            ArgumentTypeError,
            ("action_space", "gymnasium.Space"),
        ),
    ]
)
def test_spaces_that_make_no_columns(place: Path, tmp_path: Path, row: Row) -> None:
    with world_at(place, tmp_path) as world:
        check(world, row)


@table(
    [
        match("lanes", dict, "3", "2", "lanes=2", lanes=3),
        match("mode", dict, "'same_step'", "'disabled'", mode="same_step"),
        match("no action", without("action"), "'action'", "obs/cash", "from_spaces(env."),
        match("no cash", without("obs/cash"), "'obs/cash'", "env.single_observation_space"),
        match("one more", lambda c: c | {"obs/x": "f4"}, "'obs/x'", "from_spaces"),
        match(
            "shape",
            lambda c: c | {"obs/cash": ("f8", (7,))},
            "'obs/cash'",
            "(7,)",
            "(1,)",
            "from_spaces",
        ),
        collect(
            "the ring itself",
            lambda _, world: Collector(world.env, world.pong),  # type: ignore[arg-type]
            ArgumentTypeError,
            "backcast.Writer",
            "buf.writer(env=env)",
            "lanes=2, autoreset_mode='disabled'",
        ),
        collect(
            "no environment",
            lambda it, _: Collector("CartPole-v1", it.writer),  # type: ignore[arg-type]
            ArgumentTypeError,
            "'CartPole-v1'",
            "gymnasium.Env",
        ),
        collect(
            "no writer",
            lambda it, _: Collector(it.env),  # type: ignore[call-arg]
            ArgumentTypeError,
            "writer",
        ),
        collect(
            "step before reset",
            lambda it, _: Collector(it.env, it.writer).step([[0], [0]]),
            EnvError,
            "reset",
        ),
        collect(
            "mask before reset",
            lambda it, _: Collector(it.env, it.writer).reset(
                options={"reset_mask": np.array([True, False])}
            ),
            EnvError,
            "reset_mask",
        ),
        collect(
            "action",
            lambda it, _: it.step([[2], [0]], value=[0, 0]),
            EnvError,
            "2",
            "[-1, 1]",
        ),
        collect(
            "a column of the environment",
            lambda it, _: it.step([[0], [0]], obs=[0, 0], value=[0, 0]),
            ArgumentError,
            "obs",
        ),
        collect(
            "a column misspelt",
            lambda it, _: it.step([[0], [0]], values=[0, 0]),
            AppendError,
            "'values'",
            "'value'",
        ),
        collect(
            "a column of nobody",
            lambda it, _: it.step([[0], [0]], log_prob=[0, 0], value=[0, 0]),
            AppendError,
            "'log_prob'",
            "extra={'log_prob': 'f4'}",
        ),
        collect(
            "a column left out",
            lambda it, _: it.step([[0], [0]]),
            AppendError,
            "'value'",
            "value=...",
        ),
        collect(
            "policy and steps swapped",
            lambda it, _: it.run(5, lambda obs: obs),
            ArgumentTypeError,
            "policy",
            "5",
        ),
        collect(
            "steps",
            lambda it, _: it.run(lambda obs: obs, -1),
            ArgumentError,
            "steps",
            "-1",
            "0",
        ),
        collect(
            "half a step",
            lambda it, _: it.run(lambda obs: obs, 2.5),
            ArgumentTypeError,
            "steps",
            "2.5",
        ),
    ]
)
def test_collectors_refuse(place: Path, tmp_path: Path, row: Row) -> None:
    with world_at(place, tmp_path) as world:
        check(world, row)
