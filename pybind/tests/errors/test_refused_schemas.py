"""Columns that are refused in a schema."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import backcast as bc
import numpy as np
from backcast.errors import ArgumentTypeError, SchemaError
from refusal import Row, check, table, world_at


def row(case: str, columns: Any, *words: str) -> Row:  # noqa: ANN401 - anything is tried
    """Make a schema of these columns."""
    return Row(case, lambda world: bc.Schema(columns), SchemaError, words)


def wrong(case: str, columns: Any, *words: str) -> Row:  # noqa: ANN401 - anything is tried
    """Make a schema of an object that is not a dict of columns."""
    return Row(case, lambda world: bc.Schema(columns), ArgumentTypeError, words)


@table(
    [
        row("empty", {}, "obs"),
        row("dtype", {"x": "f3"}, "'f3'", "'x'", "f4"),
        row("a misspelt dtype", {"x": "flaot32"}, "'flaot32'", "'float32'"),
        row("a dtype of C", {"x": "uint8_t"}, "'uint8_t'", "'uint8'"),
        row("byte order", {"x": ">f4"}, ">f4"),
        row("complex", {"x": "c8"}, "'c8'", "f8"),
        row("object", {"x": object}, "object", "f8"),
        row("text", {"x": "U10"}, "'U10'", "f8"),
        row("time", {"x": "M8[ns]"}, "'M8[ns]'", "i8"),
        row("record", {"x": [("a", "f4")]}, "[('a', 'f4')]"),
        row("shape first", {"x": ((3,), "f4")}, "(3,)"),
        row("none", {"x": None}, "None"),
        row("negative axis", {"x": ("f4", (2, -1))}, "-1"),
        row("empty axis", {"x": ("f4", (0,))}, "0"),
        row("fraction of an axis", {"x": ("f4", (2.5,))}, "2.5"),
        row("axis in bool", {"x": ("f4", True)}, "True"),
        row("an axis in bool", {"x": ("f4", (2, True))}, "(2, True)"),
        row("shape is text", {"x": ("f4", "22")}, "'22'"),
        row("role", {"x": ("f4", (2,), "observation")}, "'observation'", "step"),
        row("tuple", {"x": ("f4", (), "obs", 1)}, "4"),
        row("reserved next", {"next_obs": "f4"}, "'next_obs'"),
        row("reserved", {"terminated": "bool"}, "'terminated'"),
        row("reserved later", {"obs": "f4", "length": "i4"}, "'length'"),
        row("empty dict", {"obs": {}}, "'obs'"),
        row("array and dict", {"obs": "f4", "obs/x": "f4"}, "'obs/x'", "'obs'"),
        row("name is no string", {1: "f4"}, "1"),
        row("empty name", {"": "f4"}, "48"),
        row("blank in a name", {"a b": "f4"}, "'a b'", "A-Z"),
        row("name too long", {"x" * 49: "f4"}, "48"),
        row("too wide", {"x": ("f8", (2**31, 2**31))}, "2147483648", "1073741824"),
        row("too many axes", {"x": ("f4", (1,) * 7)}, "7", "6"),
        row("too many columns", dict.fromkeys(map(str, range(256)), "f4"), "256", "255"),
        wrong("a list", [("x", "f4")], "[('x', 'f4')]"),
        wrong("a dtype alone", np.float32, "float32"),
        wrong("nothing", None, "schema"),
    ]
)
def test_schemas_that_cannot_be(place: Path, tmp_path: Path, row: Row) -> None:
    with world_at(place, tmp_path) as world:
        check(world, row)
