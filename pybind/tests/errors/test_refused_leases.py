"""Rows that cannot be leased, refused calls of a lease, and impossible lane policies."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import backcast as bc
import pytest
from backcast.errors import (
    ArgumentError,
    ArgumentTypeError,
    BackcastError,
    ClosedError,
    ColumnError,
    ExistsError,
    LeaseError,
    LeaseWarning,
)
from facts import missing
from refusal import COLUMNS, Row, World, check, table, world_at

MOST_HOLDS = 1024
"""Leases that one handle may hold."""


def ask(case: str, do: Callable[[Any], object], error: type[BackcastError], *words: str) -> Row:
    """Ask `pong` for a lease, typed as `Any` so that type checkers accept wrong arguments."""
    return Row(case, lambda world: do(world.pong), error, words)


def use(case: str, do: Callable[[Any], object], error: type[BackcastError], *words: str) -> Row:
    """Use a lease of ten rows of lane 0."""

    def given(world: World) -> None:
        world.keep(world.pong.lease(0, 80, 10))

    return Row(case, lambda world: do(world.kept[0]), error, words, given)


def closed(case: str, do: Callable[[Any], object]) -> Row:
    """Use a closed lease."""
    words = ("80..90", "'pong'")

    def given(world: World) -> None:
        world.keep(world.pong.lease(0, 80, 10)).close()

    return Row(case, lambda world: do(world.kept[0]), ClosedError, words, given)


def ring(case: str, given: Callable[[World], object], *words: str) -> Row:
    """Lease the first row of another ring."""
    return Row(case, lambda world: world.kept[0].lease(0, 0, 1), LeaseError, words, given)


def overwriting(world: World) -> None:
    """Make a ring that grants no leases."""
    made = world.keep(world.create("fast", {"x": "f4"}, capacity=50, lane_policy="overwrite"))
    with made.writer() as writer:
        writer.append(x=1, terminated=False, truncated=False)


def crowded(world: World) -> None:
    """Make a ring whose reader slots are all taken."""
    made = world.keep(world.create("tight", {"x": "f4"}, capacity=50, reader_slots=2))
    with made.writer() as writer:
        writer.append(x=1, terminated=False, truncated=False)
    world.keep(made.sampler(seed=1))
    world.keep(made.sampler(seed=2))


def all_held(world: World) -> None:
    """Take as many leases as a handle may hold."""
    for n in range(MOST_HOLDS):
        world.keep(world.pong.lease(0, 80 + n % 30, 1))


NAMED = "(lane, start, length)"
COLUMNS_OF_IT = ("seq", "episode", "t", "flags", "obs/x", "obs/y", "action")


@table(
    [
        ask("lane", lambda b: b.lease(4, 0, 1), LeaseError, "4", "0", "3"),
        ask("lane -1", lambda b: b.lease(-1, 0, 1), LeaseError, "lane", "-1", "0"),
        ask("lane 2**40", lambda b: b.lease(2**40, 0, 1), LeaseError, str(2**40), "0"),
        ask("lane by name", lambda b: b.lease("a", 0, 1), ArgumentTypeError, "'a'"),
        ask("no lane", lambda b: b.lease(), ArgumentTypeError, "lane"),
        ask("start -1", lambda b: b.lease(0, -1, 1), LeaseError, "start", "-1", "0"),
        ask("start 1.5", lambda b: b.lease(0, 80.5, 1), ArgumentTypeError, "80.5"),
        ask("no start", lambda b: b.lease(0), ArgumentTypeError, "start", "0"),
        ask("no length", lambda b: b.lease(0, 80), ArgumentTypeError, "length", "1"),
        ask("bool length", lambda b: b.lease(0, 80, True), ArgumentTypeError, "True"),
        ask("length -1", lambda b: b.lease(0, 80, -1), LeaseError, "length", "-1", "1"),
        ask("nothing", lambda b: b.lease(0, 80, 0), LeaseError, "0", "1", "12"),
        ask(
            "more than a quarter",
            lambda b: b.lease(0, 80, 13),
            LeaseError,
            "13 rows",
            "12",
            "50",
        ),
        ask("old rows", lambda b: b.lease(0, 69, 2), LeaseError, "69..71", "70..120"),
        ask("to come", lambda b: b.lease(0, 119, 2), LeaseError, "119..121", "70..120"),
        ask("beyond", lambda b: b.lease(0, 2**63, 9), LeaseError, str(2**63), "70..120"),
        ask("empty lane", lambda b: b.lease(3, 0, 1), LeaseError, "3"),
        ask("misspelt", lambda b: b.lease(0, strat=80), ArgumentTypeError, "'start'?", NAMED),
        ask("a fourth", lambda b: b.lease(0, 80, 1, 2), ArgumentTypeError, "4", NAMED),
        ask(
            "calling the class",
            lambda b: bc.types.Lease(b),
            ArgumentTypeError,
            "buf.lease(lane",
        ),
        ring("overwriting", overwriting, "'overwrite'", "'rows'", "'block'"),
        ring("no slot", crowded, "2", "'reader_slots'"),
        Row(
            "one too many",
            lambda w: w.pong.lease(0, 80, 1),
            LeaseError,
            ("1024",),
            all_held,
        ),
    ]
)
def test_rows_that_cannot_be_leased(place: Path, tmp_path: Path, row: Row) -> None:
    with world_at(place, tmp_path) as world:
        check(world, row)


@table(
    [
        use("column", lambda r: r["reward"], ColumnError, "'reward'", *COLUMNS_OF_IT),
        use("misspelt", lambda r: r["actoin"], ColumnError, "'action'"),
        use("without its group", lambda r: r["y"], ColumnError, "'obs/y'"),
        use("inside of one", lambda r: r["action/x"], ColumnError, "'action/x'"),
        use("half a name", lambda r: r["obs/"], ColumnError, "'obs/'", *COLUMNS_OF_IT),
        use("a row", lambda r: r[3], ArgumentTypeError, "name", "3"),
        use("window of 0", lambda r: r.windows(0), LeaseError, "length", "0", "1", "10"),
        use("long window", lambda r: r.windows(11), LeaseError, "11", "10"),
        use("no window", lambda r: r.windows(), ArgumentTypeError, "length", "1"),
        use("window 2.5", lambda r: r.windows(2.5), ArgumentTypeError, "2.5", "1"),
        use("H", lambda r: r.windows(H=2), ArgumentTypeError, "'H'"),
        use("pickle", pickle.dumps, ArgumentTypeError, "80..90", "'pong'"),
        use("copy", copy.copy, ArgumentTypeError, "80..90", "'pong'"),
        closed("a closed one's rows", lambda r: r["action"]),
        closed("a closed one's windows", lambda r: r.windows(2)),
        closed("a closed one's stalls", lambda r: r.stalls),
    ]
)
def test_leases_refuse(place: Path, tmp_path: Path, row: Row) -> None:
    with world_at(place, tmp_path) as world:
        check(world, row)


def policy(case: str, changes: dict[str, Any], error: type[BackcastError], *words: str) -> Row:
    """Make a ring with a lane policy or its settings."""
    return Row(case, lambda world: world.create(**changes), error, words)


@table(
    [
        policy("policy", {"lane_policy": "wait"}, ArgumentError, "'wait'", "'drop_new'"),
        policy("policy 1", {"lane_policy": 1}, ArgumentTypeError, "lane_policy", "1", "'fail'"),
        policy("timeout -1", {"lease_timeout": -1}, ArgumentError, "-1", "0"),
        policy("timeout nan", {"lease_timeout": float("nan")}, ArgumentError, "NaN", "0"),
        policy("two hours", {"lease_timeout": 7200}, ArgumentError, "7200", "3600"),
        policy("timeout text", {"lease_timeout": "1"}, ArgumentTypeError, "'1'"),
        policy(
            "timeout of one that fails",
            {"lane_policy": "fail", "lease_timeout": 1},
            ArgumentError,
            "lease_timeout",
            "1",
            "'fail'",
        ),
        policy("slots 0", {"reader_slots": 0}, ArgumentError, "reader_slots", "0", "1", "1024"),
        policy("slots 2000", {"reader_slots": 2000}, ArgumentError, "2000", "1", "1024"),
        policy("slots", {"reader_slots": 1.5}, ArgumentTypeError, "1.5", "1", "1024"),
        policy(
            "another policy under a name",
            {"name": "empty", "schema": {"x": "f4"}, "exist": "attach", "lane_policy": "fail"},
            ExistsError,
            "'empty'",
            "block",
            "fail",
        ),
        policy(
            "more reader slots under a name",
            {"name": "empty", "schema": {"x": "f4"}, "exist": "attach", "reader_slots": 9},
            ExistsError,
            "'empty'",
            "9",
            "64",
        ),
    ]
)
def test_policies_that_cannot_be(place: Path, tmp_path: Path, row: Row) -> None:
    with world_at(place, tmp_path) as world:
        check(world, row)


def test_an_append_that_a_lease_refuses_appends_nothing(place: Path) -> None:
    with bc.ReplayBuffer.create(
        "strict", COLUMNS, capacity=50, lane_policy="fail", dir=place
    ) as made:
        step: dict[str, Any] = {"obs": {"x": [0] * 3, "y": 0}, "action": 0}
        step |= {"terminated": False, "truncated": False}
        with made.writer() as writer:
            for _ in range(50):
                writer.append(**step)
            lease = made.lease(0, 0, 10)
            room = made.stats()["slots"] - 50
            for _ in range(room):
                writer.append(**step)
            before = (made.lane_span(0), len(made), writer.rows_written, writer.rows_dropped)
            with pytest.raises(LeaseError) as raised:
                writer.append(**step)
            after = (made.lane_span(0), len(made), writer.rows_written, writer.rows_dropped)
            assert after == before
            with pytest.warns(LeaseWarning, match=r"\b0\.\.10\b"):
                lease.close()
            assert writer.append(**step)[0] == before[0][1], "the writer goes on where it stopped"
    message = str(raised.value)
    assert missing(message, ["0", "lane_policy", '"fail"']) == []
