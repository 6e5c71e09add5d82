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
    """Ask a collector, which has been reset, for something."""
    return Row(case, lambda world: do(world.collector, world), error, words)


def writer_of(world: World, schema: object, lanes: int = 2, mode: Any = "disabled") -> bc.Writer:  # noqa: ANN401
    """Make a writer for a new ring."""
    made = world.hold(bc.ReplayBuffer.create(None, schema, capacity=20, lanes=lanes))  # type: ignore[arg-type]
    return world.hold(made.writer(lanes, mode))


def match(case: str, schema: Callable[[dict[str, Any]], object], *words: str, **writer: Any) -> Row:  # noqa: ANN401
    """Make a collector whose ring's columns are somewhat different."""

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
        make("no panel", {"panel": None}, ArgumentTypeError, "panel is None", "CSV"),
        make("no file", {"panel": "/none.csv"}, PanelError, "/none.csv", "check the path"),
        make("no such panel", {"panel": "none"}, NotFoundError, "'none'", "backcast ls"),
        make("misspelt", {"n_envs": 2}, ArgumentTypeError, "'n_envs'", "mean 'num_envs'?"),
        make("no portfolio", {"num_envs": 0}, EnvError, "num_envs is 0", "from 1 up"),
        make("half a portfolio", {"num_envs": 2.5}, ArgumentTypeError, "2.5, a float", "whole"),
        make("history", {"history": 10**9}, EnvError, "'history' is 1000000000 days", "has 10"),
        make("too many", {"num_envs": 10**9}, EnvError, "1000000000", "1 to 19", "gibibyte"),
        make(
            "too much history",
            {"num_envs": 10**5, "history": 4_000},
            EnvError,
            "'history' is 4000 days",
            "100000 portfolio(s)",
            "gibibyte",
            "make at most",
        ),
        make("form", {"obs": "box"}, EnvError, "obs is 'box'", "'dict' or 'flat'"),
        make("copy", {"copy": "no"}, ArgumentTypeError, "copy is 'no'", "False to reuse"),
        make("mode", {"autoreset_mode": "next"}, EnvError, "'next'", "'next_step'", "'disabled'"),
        make("render", {"render_mode": "human"}, EnvError, "'human'", "'rgb_array'"),
        make("a ticker alone", {"tickers": "AAA"}, ArgumentTypeError, "'AAA', a str", "names"),
        make("ticker", {"tickers": ["AAB"]}, EnvError, "'AAB'", "name some of those"),
        make("macro ticker", {"tickers": ["VIX"]}, EnvError, "'VIX'", "leave it out"),
        make("ticker twice", {"tickers": ["AAA"] * 2}, EnvError, "0 and 1 of 'tickers'", "one"),
        make(
            "macro ticker twice",
            {"macro_tickers": ["VIX"] * 2},
            EnvError,
            "0 and 1 of 'macro_tickers'",
            "keep one",
        ),
        make("days", {"days": 5}, ArgumentTypeError, "days is 5", "two whole numbers"),
        make("days of nobody", {"days": (0, 99)}, EnvError, "0..99", "0..10"),
        make("days in bool", {"days": (True, 9)}, ArgumentTypeError, "True, a bool", "whole"),
        make("half a day", {"days": (1, 9.5)}, ArgumentTypeError, "end of days is 9.5", "whole"),
        make("lag", {"indicator_lag": 30}, EnvError, "day 30", "lower 'indicator_lag'"),
        make("shares", {"hmax": 2**31}, EnvError, "hmax is 2147483648", "to 2147483647"),
        make("fee", {"buy_cost_pct": 2.0}, EnvError, "'buy_cost_pct' is 2", "0.01"),
        *(
            make(f"{name} {flag!r}", {name: flag}, ArgumentTypeError, f"{name} is", "give")
            for name in ["initial_amount", "failure_threshold", "buy_cost_pct", "fixed_fee"]
            for flag in [True, np.True_]
        ),
        make(
            "tolerance in an array of bool",
            {"stop_loss_tolerance": np.array(True)},
            ArgumentTypeError,
            "stop_loss_tolerance is array(True)",
            "give a fraction",
        ),
        *(
            make(
                f"fees of {fees}",
                {"ticker_costs": {"AAA": fees}},
                ArgumentTypeError,
                f"fee of 'AAA' for {what}, in ticker_costs, is",
                "give a fraction",
            )
            for fees, what in [((0.01, True), "selling"), ((np.False_, 0.01), "buying")]
        ),
        *(
            make(
                f"{shares} shares",
                {"initial_shares": {"AAA": shares}},
                error,
                f"the number of 'AAA' in initial_shares is {shares}",
                "give a whole number from 0 up",
            )
            for shares, error in [
                (True, ArgumentTypeError),
                (2.5, ArgumentTypeError),
                (-1, EnvError),
            ]
        ),
        make("money", {"initial_amount": 9.0}, EnvError, "25000", "'initial_amount'"),
        make("panel_options", {"panel_options": 3}, ArgumentTypeError, "is 3", "'macro'"),
        make("open already", {"panel_options": {"macro": []}}, ArgumentError, "where it is"),
        Row(
            "one portfolio, by position",
            lambda world: PortfolioEnv(world.panel, 2),  # type: ignore[call-arg, arg-type]
            ArgumentTypeError,
            ("PortfolioEnv() takes 1 argument by position, got 2", "by name: obs"),
        ),
        Row(
            "nothing",
            lambda world: PortfolioEnv(),  # type: ignore[call-arg]
            ArgumentTypeError,
            ("panel is missing", "PortfolioEnv() takes (panel"),
        ),
        Row(
            "a configuration that is none",
            lambda world: envs.make(world.panel),  # type: ignore[arg-type]
            ArgumentTypeError,
            ("env_config is <backcast.Panel", "'panel': "),
        ),
        reset("seed", {"seed": -1}, EnvError, "seed is -1", "from 0 to 18446744073709551615"),
        reset("large seed", {"seed": 2**64}, EnvError, f"seed is {2**64}", f"to {2**64 - 1}"),
        reset("half a seed", {"seed": 1.5}, ArgumentTypeError, "seed is 1.5, a float", "whole"),
        reset("seed is a bool", {"seed": True}, ArgumentTypeError, "True, a bool", "whole"),
        reset("a seed of two", {"seed": [1, -1]}, EnvError, "seed[1] is -1", "or None"),
        reset("half of two", {"seed": [None, 1.5]}, ArgumentTypeError, "seed[1] is 1.5", "give"),
        reset("bools for seeds", {"seed": [1, True]}, ArgumentTypeError, "[1] is True", "give"),
        reset("seeds", {"seed": [1]}, EnvError, "length 1", "2 environments", "entry for each"),
        reset("seeds misspelt", {"seeds": 1}, ArgumentTypeError, "'seeds'", "mean 'seed'?"),
        reset("options", {"options": 1}, ArgumentTypeError, "options is 1", "'start_day'"),
        reset("option", {"options": {"day": 1}}, EnvError, "'day'", "'reset_mask'"),
        reset(
            "mask is a list",
            {"options": {"reset_mask": [True, False]}},
            ArgumentTypeError,
            "[True, False], a list",
            "2 booleans",
        ),
        reset(
            "mask of three",
            {"options": {"reset_mask": np.ones(3, bool)}},
            EnvError,
            "(3,)",
            "give (2,)",
        ),
        reset(
            "mask of nobody",
            {"options": {"reset_mask": np.zeros(2, bool)}},
            EnvError,
            "none of the 2",
            "at least one",
        ),
        Row(
            "PortfolioVectorEnv.reset: first of some",
            lambda it: PortfolioVectorEnv(it.panel, 2).reset(
                options={"reset_mask": np.array([True, False])}
            ),
            EnvError,
            ("leaves out environment 1", "all of them first"),
        ),
        reset("start", {"options": {"start_day": 9}}, EnvError, "is 9", "lie in 1 to 8"),
        reset("starts", {"options": {"start_day": [1] * 3}}, EnvError, "(3,)", "give (2,)"),
        step(
            "masked",
            np.ma.array([[0.5], [1]], mask=[[False], [True]]),
            "actions",
            "masked",
            "filled",
        ),
        step("shape", [0.5, 0.5], "(2,)", "give (2, 1)", "per portfolio and ticker"),
        step("dtype", [["a"], ["b"]], "<U1", "f8", "convert"),
        step("nan", [[0], [np.nan]], "environment 1", "'AAA'", "NaN", "[-1, 1]"),
        step("range", [[15], [0]], "environment 0", "15", "[-1, 1]"),
        step("no action", None, "actions: got None", "give an array"),
        Row(
            "step before reset",
            lambda world: PortfolioVectorEnv(world.panel, 2).step([[0], [0]]),
            EnvError,
            ("environment 0 was never reset", "call reset"),
        ),
        Row(
            "step after the end",
            lambda world: world.env.step([[0], [0]]),
            EnvError,
            ("environment 1 has ended", "reset it"),
            ended,
        ),
    ]
)
def test_environments_refuse(place: Path, tmp_path: Path, row: Row) -> None:
    with world_at(place, tmp_path) as world:
        check(world, row)


@table(
    [
        columns("text", spaces.Text(5), "obs: Text", "flatten it"),
        columns("graph", spaces.Graph(BIT, None), "obs: Graph", "wrapper"),
        columns("a part", spaces.Dict(x=BIT, y=spaces.Sequence(BIT)), "obs/y: Sequence", "wrapper"),
        columns(
            "nothing in a dict", spaces.Dict({}), "obs: the space has no parts", "leave it out"
        ),
        columns("nothing in a box", spaces.Box(0, 1, (0,)), "holds no number", "leave it out"),
        columns("slash", spaces.Dict({"a/b": BIT}), "'a/b'", "without"),
        columns("an environment", "CartPole-v1", "'CartPole-v1'", "env.observation_space"),
        columns("reward", BIT, "'reward'", "1 is not a dtype", "use bool", reward=1),
        columns("doubled", BIT, "'obs' is already there", "something else", extra={"obs": "f4"}),
        Row(
            "no action space",
            lambda world: bc.Schema.from_spaces(BIT),  # type: ignore[call-arg]
            ArgumentTypeError,
            ("action_space is missing", "gymnasium.Space"),
        ),
    ]
)
def test_spaces_that_make_no_columns(place: Path, tmp_path: Path, row: Row) -> None:
    with world_at(place, tmp_path) as world:
        check(world, row)


@table(
    [
        match("lanes", dict, "lanes are 3, the environments 2", "lanes=2", lanes=3),
        match("mode", dict, "'same_step'", "resets as 'disabled'", mode="same_step"),
        match("no action", without("action"), "no column 'action'", "obs/cash", "from_spaces(env."),
        match("no cash", without("obs/cash"), "no column 'obs/cash'", "from_spaces(env.single_"),
        match("one more", lambda c: c | {"obs/x": "f4"}, "'obs/x'", "has not", "from_spaces"),
        match(
            "shape",
            lambda c: c | {"obs/cash": ("f8", (7,))},
            "'obs/cash' is (7,) in the ring, but (1,) in",
            "from_spaces",
        ),
        collect(
            "the ring itself",
            lambda _, world: Collector(world.env, world.pong),  # type: ignore[arg-type]
            ArgumentTypeError,
            "no backcast.Writer",
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
            "writer is missing",
            "(env, writer)",
        ),
        collect(
            "step before reset",
            lambda it, _: Collector(it.env, it.writer).step([[0], [0]]),
            EnvError,
            "no observation",
            "call reset first",
        ),
        collect(
            "mask before reset",
            lambda it, _: Collector(it.env, it.writer).reset(
                options={"reset_mask": np.array([True, False])}
            ),
            EnvError,
            "reset_mask",
            "all of them first",
        ),
        collect(
            "action",
            lambda it, _: it.step([[2], [0]], value=[0, 0]),
            EnvError,
            "is 2",
            "[-1, 1]",
        ),
        collect(
            "a column of the environment",
            lambda it, _: it.step([[0], [0]], obs=[0, 0], value=[0, 0]),
            ArgumentError,
            "step() was given obs",
            "wrapper",
        ),
        collect(
            "a column misspelt",
            lambda it, _: it.step([[0], [0]], values=[0, 0]),
            AppendError,
            "'values'",
            "did you mean 'value'?",
        ),
        collect(
            "a column of nobody",
            lambda it, _: it.step([[0], [0]], log_prob=[0, 0], value=[0, 0]),
            AppendError,
            "no column 'log_prob'",
            "extra={'log_prob': 'f4'}",
        ),
        collect(
            "a column left out",
            lambda it, _: it.step([[0], [0]]),
            AppendError,
            "'value' is missing",
            "value=...",
        ),
        collect(
            "policy and steps swapped",
            lambda it, _: it.run(5, lambda obs: obs),
            ArgumentTypeError,
            "policy is 5",
            "a function",
        ),
        collect(
            "steps",
            lambda it, _: it.run(lambda obs: obs, -1),
            ArgumentError,
            "steps is -1",
            "from 0 up",
        ),
        collect(
            "half a step",
            lambda it, _: it.run(lambda obs: obs, 2.5),
            ArgumentTypeError,
            "steps is 2.5",
            "whole number",
        ),
    ]
)
def test_collectors_refuse(place: Path, tmp_path: Path, row: Row) -> None:
    with world_at(place, tmp_path) as world:
        check(world, row)
