"""Market data that makes no panel, and windows and tickers that a panel does not have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import backcast as bc
from backcast.errors import (
    ArgumentError,
    ArgumentTypeError,
    BackcastError,
    NotFoundError,
    PanelError,
)
from refusal import Row, World, check, prices, table, world_at

HEADER = "date,tic,open,high,low,close,volume\n"


def csv(case: str, text: str, *words: str) -> Row:
    """Load a CSV of this text."""

    def given(world: World) -> None:
        (world.files / "bad.csv").write_text(text)

    return Row(case, lambda w: bc.Panel.from_csv(w.files / "bad.csv"), PanelError, words, given)


def load(case: str, changes: dict[str, Any], error: type[BackcastError], *words: str) -> Row:
    """Load good data with some arguments changed."""
    return Row(case, lambda w: bc.Panel.from_csv(**({"path": w.csv} | changes)), error, words)


def ask(case: str, do: Callable[[Any], object], error: type[BackcastError], *words: str) -> Row:
    """Call the panel, typed as `Any` so that type checkers accept wrong arguments."""
    return Row(case, lambda world: do(world.panel), error, words)


@table(
    [
        csv("empty", "", "bad.csv"),
        csv("lacks columns", "date,tic,open\n2024-01-01,A,1\n", "'high'", "'volume'"),
        csv("date", HEADER + "2024-13-01,A,1,1,1,1,1\n", "2", "2024-13-01", "YYYY-MM-DD"),
        csv("number", HEADER + "2024-01-01,A,1,x,1,1,1\n", "2", "'high'", "'x'"),
        csv("nan", HEADER + "2024-01-01,A,1,nan,1,1,1\n", "'high'", "NaN", "'mask'"),
        csv("short line", HEADER + "2024-01-01,A,1\n", "2", "3", "7"),
        csv("twice", prices("2024-01-01,AAA,1,2,1,1,1,1"), "2", "22"),
        csv("free", HEADER + "2024-01-01,A,0,1,0,1,1\n", "2", "0"),
        load("no file", {"path": "/none.csv"}, PanelError, "/none.csv"),
        load("macro of nobody", {"macro": ["VXI"]}, PanelError, "'VXI'", "'VIX'"),
        load("macro is text", {"macro": "VIX"}, ArgumentTypeError, "'VIX'"),
        load("name", {"name": "a/b"}, ArgumentError, "'a/b'", "A-Z"),
        load("exist", {"name": "a", "exist": "maybe"}, ArgumentError, "'maybe'", "'attach'"),
        load("nan policy", {"nan": "drop"}, ArgumentError, "'drop'", "'refuse'", "'mask'"),
        load("columns", {"columns": ["date"]}, ArgumentTypeError, "['date']"),
        load("rename", {"columns": {"Rsi": "x"}}, PanelError, "'Rsi'", "'rsi'"),
        load("misspelt", {"macros": ["VIX"]}, ArgumentTypeError, "'macros'", "'macro'?"),
        load("path is a number", {"path": 3}, ArgumentTypeError, "path", "3"),
        Row(
            "attach to nobody",
            lambda w: bc.Panel.attach("pong", dir=w.place),
            NotFoundError,
            ("'pong'", "backcast ls"),
        ),
        Row(
            "calling the class",
            lambda w: bc.Panel(w.csv),  # type: ignore[arg-type]
            ArgumentTypeError,
            ("Panel.from_csv(path)", "Panel.attach(name)"),
        ),
    ]
)
def test_panels_that_cannot_be(place: Path, tmp_path: Path, row: Row) -> None:
    with world_at(place, tmp_path) as world:
        check(world, row)


@table(
    [
        ask("late", lambda p: p.windows([40], [[1]], 1, 1), PanelError, "days[0]", "40", "0", "9"),
        ask("far back", lambda p: p.windows([4], [[1]], 10**9, 1), PanelError, "4136", "history"),
        ask("far on", lambda p: p.windows([4], [[1]], 1, 10**9), PanelError, "4136", "future"),
        ask("early", lambda p: p.windows([-1], [[1]], 1, 1), PanelError, "-1", "0", "9"),
        ask("token", lambda p: p.windows([1], [[5]], 1, 1), PanelError, "tokens[0]", "5", "2"),
        ask("tokens", lambda p: p.windows([1, 2], [[1]], 1, 1), PanelError, "(1, 1)", "(2, T)"),
        ask("two axes", lambda p: p.windows([[1]], [[1]], 1, 1), PanelError, "(1, 1)", "(B,)"),
        ask("float day", lambda p: p.windows([1.5], [[1]], 1, 1), PanelError, "float64", "i8"),
        ask("history", lambda p: p.windows([1], [[1]], -1, 0), PanelError, "history", "-1"),
        ask("future", lambda p: p.windows([1], [[1]], 0, -2), PanelError, "future", "-2"),
        ask("float", lambda p: p.windows([1], [[1]], 0.5, 0), ArgumentTypeError, "0.5"),
        ask("left out", lambda p: p.windows([1], [[1]]), ArgumentTypeError, "history"),
        ask("misspelt", lambda p: p.windows(day=[1]), ArgumentTypeError, "'day'", "'days'?"),
        ask("ticker", lambda p: p.tokens(["AAB"]), PanelError, "'AAB'", "'AAA'"),
        ask("one ticker", lambda p: p.tokens("AAA"), ArgumentTypeError, "'AAA'"),
    ]
)
def test_questions_that_a_panel_refuses(place: Path, tmp_path: Path, row: Row) -> None:
    with world_at(place, tmp_path) as world:
        check(world, row)
