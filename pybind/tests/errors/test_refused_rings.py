"""Rings that cannot be made, attached, removed or pickled, and lanes that cannot be claimed."""

from __future__ import annotations

import copy
import os
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
    CorruptError,
    ExistsError,
    InUseError,
    NotFoundError,
    SpaceError,
    StorageError,
    WriterError,
)
from refusal import COLUMNS, Row, World, check, table, world_at

ANY: Any = bc
"""The module, typed as `Any` so that type checkers accept wrong arguments."""


def untyped(thing: object) -> Any:  # noqa: ANN401 - that is the point
    """Return an object typed as `Any`."""
    return thing


def create(case: str, changes: dict[str, Any], error: type[BackcastError], *words: str) -> Row:
    """Make a ring with some arguments changed."""
    return Row(case, lambda world: world.create(**changes), error, words)


def call(case: str, do: Callable[[World], object], error: type[BackcastError], *words: str) -> Row:
    """Make any other call."""
    return Row(case, do, error, words)


def damage(content: Callable[[bytes], bytes]) -> Callable[[World], object]:
    """Return a function that overwrites the control file of `kept`."""

    def do(world: World) -> None:
        [control] = world.place.rglob("kept.ring/ring.ctl")
        control.write_bytes(content(control.read_bytes()))

    return do


def attach_kept(world: World) -> bc.ReplayBuffer:
    """Attach to the damaged ring."""
    return bc.ReplayBuffer.attach("kept", dir=world.place)


MISSPELT = "'capacity'"


@table(
    [
        create("slash", {"name": "a/b"}, ArgumentError, "'a/b'", "A-Z"),
        create("blank", {"name": "a b"}, ArgumentError, "'a b'", "A-Z"),
        create("empty name", {"name": ""}, ArgumentError, "1", "100"),
        create("long name", {"name": "x" * 300}, ArgumentError, "1", "100"),
        create("hidden name", {"name": ".a"}, ArgumentError, "'.a'"),
        create("number as name", {"name": 7}, ArgumentTypeError, "name", "7", "None"),
        create("path as name", {"name": Path("a")}, ArgumentTypeError, "'a'"),
        create("no rows", {"capacity": 0}, ArgumentError, "capacity", "0", "1"),
        create("negative rows", {"capacity": -5}, ArgumentError, "-5", "1"),
        create("capacity in words", {"capacity": "8 gigs"}, ArgumentError, "8 gigs", "8GiB"),
        create("small unit", {"capacity": "8gb"}, ArgumentError, "'8gb'", "8GB"),
        create("unit alone", {"capacity": "GiB"}, ArgumentError, "'GiB'", "8GiB"),
        create("negative bytes", {"capacity": "-1GiB"}, ArgumentError, "'-1GiB'", "8GiB"),
        create("float capacity", {"capacity": 1e6}, ArgumentTypeError, "1000000.0"),
        create("bool capacity", {"capacity": True}, ArgumentTypeError, "True"),
        create("no capacity", {"capacity": None}, ArgumentTypeError, "'8GiB'"),
        create("huge capacity", {"capacity": 2**62}, ArgumentError, str(2**62), "'capacity'"),
        create("beyond 64 bits", {"capacity": 2**70}, ArgumentError, str(2**70), str(2**64 - 1)),
        create("no space", {"capacity": "20TiB"}, SpaceError, "20 TiB"),
        create("too few bytes", {"capacity": "100B"}, ArgumentError, "100"),
        create("no lanes", {"lanes": 0}, ArgumentError, "lanes", "0", "1", "4096"),
        create("negative lanes", {"lanes": -1}, ArgumentError, "lanes", "-1", "1", "4096"),
        create("too many lanes", {"lanes": 5000}, ArgumentError, "5000", "4096"),
        create("float lanes", {"lanes": 2.0}, ArgumentTypeError, "2.0", "1", "4096"),
        create("bool lanes", {"lanes": True}, ArgumentTypeError, "True", "1", "4096"),
        create("text lanes", {"lanes": "4"}, ArgumentTypeError, "'4'", "1", "4096"),
        create("exist", {"exist": "maybe"}, ArgumentError, "'maybe'", "'attach'"),
        create("exist in bool", {"exist": True}, ArgumentTypeError, "True", "'attach'"),
        create("huge", {"huge_pages": "no"}, ArgumentTypeError, "huge_pages", "'no'", "True"),
        create("persistent", {"persistent": "no"}, ArgumentTypeError, "'no'", "True"),
        create("dir", {"dir": 5}, ArgumentTypeError, "dir", "5"),
        create("dir is a file", {"dir": __file__}, StorageError, "test_refused_rings.py"),
        create("columns", {"schema": [("x", "f4")]}, ArgumentTypeError, "schema", "[('x', 'f4')]"),
        create("misspelt", {"capcity": 100}, ArgumentTypeError, "'capcity'", MISSPELT, "lanes=1"),
        create("unknown", {"prefetch": 1}, ArgumentTypeError, "'prefetch'"),
        call(
            "capacity by position",
            lambda w: ANY.ReplayBuffer.create("new", COLUMNS, 100),
            ArgumentTypeError,
            "2",
            "3",
        ),
        call(
            "no schema",
            lambda w: ANY.ReplayBuffer.create("new", capacity=100),
            ArgumentTypeError,
            "schema",
        ),
        call("no name", lambda w: ANY.ReplayBuffer.create(), ArgumentTypeError, "name"),
        call(
            "calling the class",
            lambda w: ANY.ReplayBuffer("new", COLUMNS, capacity=100),
            ArgumentTypeError,
            "ReplayBuffer.create(",
        ),
        create("taken", {"name": "pong"}, ExistsError, "'pong'", "exist='attach'"),
        create("kept", {"name": "kept"}, ExistsError, "'kept'", "backcast rm kept"),
        create(
            "another schema",
            {"name": "pong", "schema": {"y": "f4"}, "exist": "attach"},
            ExistsError,
            "'pong'",
            "'obs/x'",
            "'y'",
        ),
        create(
            "persistent where it is not",
            {"name": "empty", "schema": {"x": "f4"}, "exist": "attach", "persistent": True},
            ExistsError,
            "'empty'",
        ),
        create(
            "private and persistent",
            {"name": None, "schema": {"x": "f4"}, "persistent": True},
            ArgumentError,
            "persistent",
            "True",
        ),
        create(
            "another capacity",
            {"name": "empty", "schema": {"x": "f4"}, "capacity": 999, "exist": "attach"},
            ExistsError,
            "999",
            "10",
        ),
    ]
)
def test_rings_that_cannot_be_made(place: Path, tmp_path: Path, row: Row) -> None:
    with world_at(place, tmp_path) as world:
        check(world, row)


@table(
    [
        call(
            "attach to nobody",
            lambda w: bc.ReplayBuffer.attach("zebra", dir=w.place),
            NotFoundError,
            "'zebra'",
            "backcast ls",
            "BACKCAST_DIR",
        ),
        call(
            "attach to a typo",
            lambda w: bc.ReplayBuffer.attach("pnog", dir=w.place),
            NotFoundError,
            "'pnog'",
            "'pong'",
        ),
        call("attach to nothing", lambda w: ANY.ReplayBuffer.attach(), ArgumentTypeError, "name"),
        call(
            "attach elsewhere",
            lambda w: ANY.ReplayBuffer.attach("pong", directory=w.place),
            ArgumentTypeError,
            "'directory'",
            "dir=None",
        ),
        Row(
            "other bytes",
            attach_kept,
            CorruptError,
            ("ring.ctl", "backcast rm"),
            damage(lambda old: b"x" * len(old)),
        ),
        Row("no bytes", attach_kept, CorruptError, ("ring.ctl", "rm"), damage(lambda old: b"")),
        Row(
            "half the bytes",
            attach_kept,
            CorruptError,
            ("ring.ctl", "backcast rm"),
            damage(lambda old: old[: len(old) // 2]),
        ),
        Row(
            "another layout version",
            attach_kept,
            CorruptError,
            ("99",),
            damage(lambda old: old[:8] + b"\x63\0\0\0" + old[12:]),
        ),
        call(
            "remove nobody",
            lambda w: bc.remove_object("kep", dir=w.place),
            NotFoundError,
            "'kep'",
            "'kept'",
        ),
        call(
            "remove what is held",
            lambda w: bc.remove_object("pong", dir=w.place),
            InUseError,
            "'pong'",
            "force",
        ),
        call(
            "remove another kind",
            lambda w: ANY.remove_object("pong", "table", dir=w.place),
            ArgumentError,
            "'table'",
            "'panel'",
        ),
        call(
            "remove by force of text",
            lambda w: ANY.remove_object("pong", force="yes", dir=w.place),
            ArgumentTypeError,
            "'yes'",
            "True",
            "False",
        ),
        call("list a number", lambda w: ANY.list_objects(3), ArgumentTypeError, "dir", "3"),
        call(
            "list two places",
            lambda w: ANY.list_objects(w.place, w.place),
            ArgumentTypeError,
            "1",
            "2",
            "(dir=None)",
        ),
        call(
            "gc by name",
            lambda w: ANY.collect_garbage(name="a"),
            ArgumentTypeError,
            "'name'",
            "(dir=None)",
        ),
    ]
)
def test_names_that_cannot_be_used(place: Path, tmp_path: Path, row: Row) -> None:
    with world_at(place, tmp_path) as world:
        check(world, row)


@table(
    [
        call("no lanes", lambda w: w.pong.writer(0), WriterError, "lanes", "0", "1", "4096"),
        call(
            "too many",
            lambda w: w.pong.writer(5),
            WriterError,
            "5",
            "4",
            "lanes=5",
        ),
        call(
            "taken",
            lambda w: w.pong.writer(2, "disabled"),
            WriterError,
            "1",
            "4",
            str(os.getpid()),
        ),
        call(
            "no mode",
            lambda w: w.pong.writer(2),
            WriterError,
            "2",
            "'next_step'",
            "'same_step'",
            "'disabled'",
            "writer(env=env)",
        ),
        call(
            "mode",
            lambda w: untyped(w.pong).writer(1, "auto"),
            WriterError,
            "'auto'",
            "'same_step'",
        ),
        call(
            "mode and no lanes",
            lambda w: untyped(w.pong).writer("same_step"),
            ArgumentTypeError,
            "'same_step'",
            "1",
            "4096",
        ),
        call(
            "misspelt",
            lambda w: untyped(w.pong).writer(autoreset="same_step"),
            ArgumentTypeError,
            "'autoreset'",
            "autoreset_mode=None",
        ),
        call("calling the class", lambda w: ANY.Writer(w.pong), ArgumentTypeError, "writer(lanes"),
    ]
)
def test_writers_that_cannot_be_had(place: Path, tmp_path: Path, row: Row) -> None:
    with world_at(place, tmp_path) as world:
        check(world, row)


@pytest.mark.parametrize("how", ["pickled", "copied"])
def test_a_private_ring_cannot_be_pickled_but_copied(how: str) -> None:

    with bc.ReplayBuffer.create(None, {"x": "f4"}, capacity=10) as buf:
        if how == "pickled":
            with pytest.raises(ArgumentTypeError, match=r"\bname\b"):
                pickle.dumps(buf)
        else:
            with buf.writer() as writer, copy.deepcopy(buf) as again, copy.copy(buf) as third:
                writer.append(x=1, terminated=False, truncated=False)
                writer.append(x=2, terminated=False, truncated=False)
                assert len(again) == len(third) == len(buf) == 1, "one ring"
