"""Steps that do not fit the schema or the writer's mode; none of them changes the ring."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from backcast.errors import AppendError, ArgumentTypeError
from refusal import Row, World, check, table, world_at

GOOD: dict[str, Any] = {
    "obs": {"x": np.zeros((2, 3), np.float32), "y": [1, 2]},
    "action": [0, 1],
    "terminated": [False, False],
    "truncated": [False, False],
}
END = {"terminated": [False, True]}
ZEROS = np.zeros((2, 3))
MASKED = np.ma.array(np.ones((2, 3), np.float32), mask=np.eye(2, 3, 1, bool))
STRIDED = np.zeros((3, 2), np.float32).T


def row(case: str, changes: dict[str, Any], *words: str, same_step: bool = True) -> Row:
    """Append a good step with some columns changed; ``...`` takes one away."""

    def do(world: World) -> None:
        step = GOOD | changes
        step = {key: value for key, value in step.items() if value is not ...}
        (world.same_step if same_step else world.next_step).append(**step)

    return Row(case, do, AppendError, words)


def obs(**changes: object) -> dict[str, Any]:
    """Change a part of the observation; ``...`` takes one away."""
    whole = GOOD["obs"] | changes
    return {"obs": {key: value for key, value in whole.items() if value is not ...}}


@table(
    [
        row("missing", {"action": ...}, "action"),
        row("missing group", {"obs": ...}, "obs/x", "obs/y"),
        row("missing in group", obs(y=...), "obs/y"),
        row("misspelt", {"actoin": [0, 0]}, "actoin", "'action'"),
        row("misspelt end", {"terminatd": [False] * 2}, "'terminated'"),
        row("done", {"done": [True, False]}, "done", "terminated=", "truncated="),
        row("unknown", {"whatever_it_is": 1}, "whatever_it_is"),
        row("next_obs", {"next_obs": ZEROS}, "next_obs"),
        row("unknown in group", obs(z=[0, 0]), "obs/z"),
        row("number as a key", {"obs": {1: 0}}, "'obs'"),
        row("doubled", {"obs/y": [1, 2]}, "obs/y"),
        row("group is array", {"obs": ZEROS}, "obs"),
        row("array is group", {"action": {"a": 1}}, "u1", "action"),
        row("none", {"action": None}, "None", "u1", "action"),
        row("overflow", {"action": [0, 256]}, "256", "0", "255", "action"),
        row("underflow", {"action": [-1, 0]}, "-1", "0", "255", "action"),
        row("overflow of an int32", obs(y=[0, 2**31]), "2147483648", "2147483647"),
        row("overflow beyond 64 bits", obs(y=[0, 2**70]), "obs/y", "i4"),
        row("fraction", {"action": [0.5, 1]}, "float64", "u1", "action"),
        row("nan for an int", obs(y=[0, np.nan]), "obs/y", "float64", "i4"),
        row("text", {"action": ["a", "b"]}, "u1", "action"),
        row("object array", obs(x=np.full((2, 3), None)), "obs/x", "f4"),
        row("none inside", {"action": [None, 1]}, "object", "action"),
        row("ragged", {"action": [[0], [1, 2]]}, "u1", "action"),
        row("complex", obs(x=np.zeros((2, 3), complex)), "obs/x", "complex128", "f4"),
        row("masked", {"action": np.ma.masked_equal([1, 2], 2)}, "action"),
        row("masked of the column's type", obs(x=MASKED), "obs/x"),
        row("nothing masked", obs(x=np.ma.array(GOOD["obs"]["x"])), "obs/x"),
        row("masked lanes", obs(x=[MASKED[0], MASKED[1]]), "obs/x"),
        row("the masked constant", obs(y=[1, np.ma.masked]), "obs/y", "i4"),
        row("masked flags", {"truncated": np.ma.array([False] * 2)}, "truncated"),
        row(
            "masked final",
            END | {"final_obs": [None, {"x": MASKED[1], "y": 0}]},
            "final_obs[1]",
            "obs/x",
        ),
        row("time", obs(y=np.zeros(2, "M8[D]")), "obs/y", "datetime64", "i4"),
        row("lanes", {"action": [0, 1, 2]}, "(3,)", "(2,)", "2", "action"),
        row("scalar for lanes", {"action": 0}, "()", "(2,)", "2", "action"),
        row("scalar for a vector", obs(x=1.0), "obs/x", "()", "(2, 3)", "2"),
        row("shape", obs(x=np.zeros((2, 4))), "obs/x", "(2, 4)", "(2, 3)"),
        row("no lanes", obs(x=np.zeros(3)), "obs/x", "(3,)", "(2, 3)"),
        row("lanes last", obs(x=np.zeros((3, 2))), "obs/x", "(3, 2)", "(2, 3)"),
        row("an axis of one", obs(y=[[0], [0]]), "obs/y", "(2, 1)", "(2,)"),
        row("no terminated", {"terminated": ...}, "terminated", "2"),
        row("no truncated", {"truncated": ...}, "truncated", "2"),
        row("ints for flags", {"truncated": [0, 2]}, "truncated", "int64", "0", "1"),
        row("flags' lanes", {"truncated": [True]}, "truncated", "(1,)", "(2,)"),
        row("lone flag", {"terminated": False}, "terminated", "()", "(2,)"),
        row("no final", {"terminated": [True, False]}, "final_obs", "0"),
        row("final is none", END | {"final_obs": [None, None]}, "final_obs[1]", "None"),
        row(
            "final lacks a column",
            END | {"final_obs": [None, {"x": np.zeros(3)}]},
            "final_obs",
            "y",
        ),
        row(
            "final has another shape",
            END | {"final_obs": [None, {"x": np.zeros(4), "y": 0}]},
            "final_obs[1]",
            "obs/x",
            "(4,)",
            "(3,)",
        ),
        row("final is an array", END | {"final_obs": ZEROS}, "final_obs"),
        row(
            "final of fewer lanes",
            END | {"final_obs": {"x": np.zeros((1, 3)), "y": [0, 0]}},
            "final_obs",
            "obs/x",
            "(1, 3)",
            "(2, 3)",
        ),
        row(
            "final in next-step mode",
            {
                "obs": {"x": np.zeros(3), "y": 0},
                "action": 0,
                "terminated": True,
                "truncated": False,
                "final_obs": {"x": np.zeros(3), "y": 0},
            },
            "final_obs",
            "next_step",
            "autoreset_mode='same_step'",
            same_step=False,
        ),
    ]
)
def test_steps_that_do_not_fit_change_nothing(place: Path, tmp_path: Path, row: Row) -> None:
    with world_at(place, tmp_path) as world:
        check(world, row)
        world.same_step.append(**GOOD)
        assert world.pong.rows(1, 0, 1)["flags"].tolist() == [0]


@table(
    [
        Row(
            "by position",
            lambda w: w.next_step.append(1, 2),  # type: ignore[call-arg]
            ArgumentTypeError,
            ("2", "terminated"),
        ),
        Row(
            "restart of other lanes",
            lambda w: w.same_step.restart([True]),
            AppendError,
            ("(1,)", "(2,)", "2"),
        ),
        Row(
            "restart by number",
            lambda w: w.same_step.restart([0, 1]),
            AppendError,
            ("int64",),
        ),
        Row(
            "restart misspelt",
            lambda w: w.same_step.restart(lane=[True]),  # type: ignore[call-arg]
            ArgumentTypeError,
            ("'lane'", "'lanes'"),
        ),
    ]
)
def test_calls_of_a_writer_that_cannot_be(place: Path, tmp_path: Path, row: Row) -> None:
    with world_at(place, tmp_path) as world:
        check(world, row)


def test_arrays_of_other_layouts_and_widths_are_taken(place: Path, tmp_path: Path) -> None:
    with world_at(place, tmp_path) as world:
        world.same_step.append(**(GOOD | obs(x=STRIDED, y=np.array([1, 2], np.int64))))
        world.same_step.append(**(GOOD | obs(x=np.ones((2, 6))[:, ::2], y=[True, False])))
        world.same_step.append(**(GOOD | obs(x=[[np.nan, np.inf, 0], [1, 2, 3]])))
        rows = world.pong.rows(1, 0, 3)["obs"]["x"]
        assert rows[1].tolist() == [1, 1, 1]
        assert np.isnan(rows[2, 0]), "NaN is a float like any other"
