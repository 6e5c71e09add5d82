"""Market data that makes no panel, windows that it cannot serve, and settings of environments."""

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
    """Try to load a text."""

    def given(world: World) -> None:
        (world.files / "bad.csv").write_text(text)

    return Row(case, lambda w: bc.Panel.from_csv(w.files / "bad.csv"), PanelError, words, given)


def load(case: str, changes: dict[str, Any], error: type[BackcastError], *words: str) -> Row:
    """Try to load good data with some arguments changed."""
    return Row(case, lambda w: bc.Panel.from_csv(**({"path": w.csv} | changes)), error, words)


def ask(case: str, do: Callable[[Any], object], error: type[BackcastError], *words: str) -> Row:
    """Ask the panel something that its types would not allow either."""
    return Row(case, lambda world: do(world.panel), error, words)


@table(
    [
        csv("empty", "", "no data row", "a header"),
        csv("lacks columns", "date,tic,open\n2024-01-01,A,1\n", "'high'", "'volume'", "rename"),
        csv("date", HEADER + "2024-13-01,A,1,1,1,1,1\n", "line 2", "2024-13-01", "YYYY-MM-DD"),
        csv("number", HEADER + "2024-01-01,A,1,x,1,1,1\n", "line 2", "'high'", "'x'", "drop"),
        csv("nan", HEADER + "2024-01-01,A,1,nan,1,1,1\n", "'high'", "is NaN", "'mask'"),
        csv("short line", HEADER + "2024-01-01,A,1\n", "line 2", "3 cells", "7", "separator"),
        csv("twice", prices("2024-01-01,AAA,1,2,1,1,1,1"), "line 2 and line 22", "keep one"),
        csv("free", HEADER + "2024-01-01,A,0,1,0,1,1\n", "price 0", "macro"),
        load("no file", {"path": "/none.csv"}, PanelError, "/none.csv", "check the path"),
        load("macro of nobody", {"macro": ["VXI"]}, PanelError, "'VXI'", "'VIX'", "correct"),
        load("macro is text", {"macro": "VIX"}, ArgumentTypeError, "'VIX', a str", "names"),
        load("name", {"name": "a/b"}, ArgumentError, "'a/b'", "A-Z"),
        load("exist", {"name": "a", "exist": "maybe"}, ArgumentError, "'maybe'", "'attach'"),
        load("nan policy", {"nan": "drop"}, ArgumentError, "'drop'", "'refuse' or 'mask'"),
        load("columns", {"columns": ["date"]}, ArgumentTypeError, "a list", "a dict"),
        load("rename", {"columns": {"Rsi": "x"}}, PanelError, "'Rsi'", "did you mean 'rsi'"),
        load("misspelt", {"macros": ["VIX"]}, ArgumentTypeError, "'macros'", "'macro'?"),
        load("path is a number", {"path": 3}, ArgumentTypeError, "path is 3", "file"),
        Row(
            "attach to nobody",
            lambda w: bc.Panel.attach("pong", dir=w.place),
            NotFoundError,
            ("panel", "'pong'", "backcast ls"),
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
        ask("late", lambda p: p.windows([40], [[1]], 1, 1), PanelError, "days[0]", "40", "0 to 9"),
        ask("far back", lambda p: p.windows([4], [[1]], 10**9, 1), PanelError, "history", "4136"),
        ask("far on", lambda p: p.windows([4], [[1]], 1, 10**9), PanelError, "future", "4136"),
        ask("early", lambda p: p.windows([-1], [[1]], 1, 1), PanelError, "-1", "0 to 9"),
        ask("token", lambda p: p.windows([1], [[5]], 1, 1), PanelError, "tokens[0] is 5", "to 2"),
        ask("tokens", lambda p: p.windows([1, 2], [[1]], 1, 1), PanelError, "(1, 1)", "(2, T)"),
        ask("two axes", lambda p: p.windows([[1]], [[1]], 1, 1), PanelError, "(1, 1)", "(B,)"),
        ask("float day", lambda p: p.windows([1.5], [[1]], 1, 1), PanelError, "float64", "i8"),
        ask("history", lambda p: p.windows([1], [[1]], -1, 0), PanelError, "history is -1"),
        ask("future", lambda p: p.windows([1], [[1]], 0, -2), PanelError, "future is -2"),
        ask("float", lambda p: p.windows([1], [[1]], 0.5, 0), ArgumentTypeError, "0.5, a float"),
        ask("left out", lambda p: p.windows([1], [[1]]), ArgumentTypeError, "history is missing"),
        ask("misspelt", lambda p: p.windows(day=[1]), ArgumentTypeError, "'day'", "'days'?"),
        ask("ticker", lambda p: p.tokens(["AAB"]), PanelError, "'AAB'", "did you mean 'AAA'?"),
        ask("one ticker", lambda p: p.tokens("AAA"), ArgumentTypeError, "'AAA', a str", "names"),
    ]
)
def test_questions_that_a_panel_refuses(place: Path, tmp_path: Path, row: Row) -> None:
    with world_at(place, tmp_path) as world:
        check(world, row)
