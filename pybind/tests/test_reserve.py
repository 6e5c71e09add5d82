"""Rows written in place: committed or aborted, and their arrays that a caller keeps."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import pickle
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import backcast as bc
import numpy as np
import pytest
from backcast.errors import (
    AppendError,
    ArgumentTypeError,
    BackcastError,
    ClosedError,
    ColumnError,
    LeaseWarning,
)
from waits import exit_code_of

COLUMNS: dict[str, Any] = {
    "obs": {"image": ("u1", (7, 5)), "speed": "f4"},
    "action": ("i4", (2,)),
    "reward": "f8",
}


@pytest.fixture(params=["shared", "private"])
def buf(request: pytest.FixtureRequest, place: Path) -> Iterator[bc.ReplayBuffer]:
    """Make a ring of one lane: in shared memory, and private to this process."""
    name = "walk" if request.param == "shared" else None
    with bc.ReplayBuffer.create(name, COLUMNS, capacity=50, dir=place) as made:
        yield made


def fill(row: bc.types.ReservedRow, step: int) -> None:
    """Write every column, each in a different way."""
    row["obs"]["image"][:3] = step % 256
    row["obs/image"][3:] = step % 256
    row["obs"]["speed"][...] = step
    row["action"][:] = [step, -step]
    row["reward"] = step / 2


def give_up(writer: bc.Writer) -> None:
    """Write half a row, and fail."""
    with writer.reserve() as row:
        row["obs"]["image"][:] = 99
        row["reward"] = 1 / 0


def append(writer: bc.Writer, step: int, **ends: bool) -> Any:  # noqa: ANN401
    """Append the row that `fill` writes."""
    obs = {"image": np.full((7, 5), step % 256, "u1"), "speed": step}
    flags = {"terminated": False, "truncated": False} | ends
    return writer.append(obs=obs, action=[step, -step], reward=step / 2, **flags)


def content(buf: bc.ReplayBuffer) -> list[Any]:
    """Return the bytes of all readable rows by column."""
    first, head = buf.lane_span(0)
    rows = buf.rows(0, first, head - first)
    flat = {**rows.pop("obs"), **rows}
    return [(name, values.tobytes()) for name, values in flat.items()]


@pytest.mark.filterwarnings("ignore::backcast.errors.WriterWarning")
def test_rows_written_in_place_are_those_that_appends_make(
    buf: bc.ReplayBuffer, place: Path
) -> None:
    other = bc.ReplayBuffer.create(None, COLUMNS, capacity=50)
    mode: Any = "next_step"
    with buf.writer(1, mode) as writer, other.writer(1, mode) as appending:
        for step in range(3_000):
            ends = {"terminated": step % 7 == 6, "truncated": step % 11 == 10}
            if step % 5 == 0:
                with pytest.raises(ZeroDivisionError):
                    give_up(writer)
            with writer.reserve() as row:
                fill(row, step)
                row.terminated, row.truncated = ends["terminated"], ends["truncated"]
                assert len(buf) <= 50
            assert row.index == append(appending, step, **ends)[0]
        assert writer.rows_written == appending.rows_written == 3_000
        assert content(buf) == content(other)
        append(writer, 7)
        append(appending, 7)
        assert content(buf) == content(other)
    other.close()


def test_it_is_the_rings_memory(place: Path) -> None:
    with bc.ReplayBuffer.create("walk", COLUMNS, capacity=50, dir=place) as buf:
        [lane] = place.rglob("lane-0000.dat")
        with buf.writer() as writer, writer.reserve() as row:
            row["obs/image"][:] = np.frombuffer(
                b"here it is, before anybody may see it"[:35], "u1"
            ).reshape(7, 5)
            assert b"here it is, before anybody may see" in lane.read_bytes()
            assert buf.lane_span(0) == (0, 0)
            fill(row, 1)


def kept_ways(row: bc.types.ReservedRow) -> dict[str, Any]:
    """Return views that keep a column's memory, of every kind in NumPy and Python."""
    image = row["obs/image"]
    return {
        "array": image,
        "view": image[2:],
        "view of a view": image[2:][1],
        "reshaped": image.reshape(-1)[::-1],
        "memoryview": memoryview(image),
        "subclass": image.view(np.recarray),
        "frombuffer": np.frombuffer(image, "u1"),
        "ctypes": np.ctypeslib.as_ctypes(image),
        "iterator": image.flat,
    }


def write(kept: Any) -> None:  # noqa: ANN401
    """Write through a view of any kind."""
    if isinstance(kept, ctypes.Array):
        kept[0][0] = 200
    elif isinstance(kept, memoryview):
        kept[0, 0] = 200
    else:
        kept[...] = 200


WAYS = ["array", "view", "view of a view", "reshaped", "memoryview", "subclass", "frombuffer"]
WAYS += ["ctypes", "iterator"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("end", ["commit", "abort"])
def test_kept_views_can_never_reach_the_ring(buf: bc.ReplayBuffer, way: str, end: str) -> None:
    with buf.writer() as writer:
        for step in range(5):
            append(writer, step)
        row = writer.reserve()
        fill(row, 5)
        kept = kept_ways(row)[way]
        gc.collect()
        (row.commit if end == "commit" else row.abort)()
        before = content(buf)
        if way == "array":
            with pytest.raises(ValueError, match="read-only"):
                write(kept)
        write_quietly(kept)
        assert content(buf) == before
        # Writes through the view do not reach later rows in the same slot or near it either.
        for step in range(6, 2_200):
            append(writer, step)
            if step % 500 == 0:
                write_quietly(kept)
        after = content(buf)
        write_quietly(kept)
        assert content(buf) == after
        # The next row can be reserved although a view is kept.
        with writer.reserve() as other:
            fill(other, 3)
            write_quietly(kept)
            assert (other["obs/image"] == 3).all()
        last = buf.rows(0, buf.lane_span(0)[1] - 1, 1)
        assert (last["obs"]["image"] == 3).all()


def write_quietly(kept: Any) -> None:  # noqa: ANN401
    """Write through a view, and ignore a refusal."""
    with contextlib.suppress(ValueError, TypeError):
        write(kept)


def test_an_array_that_is_kept_shows_what_was_written_and_stays_read_only(
    buf: bc.ReplayBuffer,
) -> None:
    with buf.writer() as writer:
        with writer.reserve() as row:
            fill(row, 4)
            kept, inner = row["obs/image"], row["obs"]
        assert not kept.flags.writeable
        if buf.name:  # a private ring reserves rows in separate memory
            with pytest.raises(ValueError, match="WRITEABLE"):
                kept.flags.writeable = True
        assert inner == {}
        for step in range(3_000):
            append(writer, step)
        assert (kept == 4).all()


def leave_out_speed(writer: bc.Writer) -> None:
    """Write all columns but one."""
    with writer.reserve() as row:
        row["obs/image"][:] = 0
        row["action"] = 1
        row["reward"] = 1


def test_a_row_with_an_unwritten_column_is_refused(buf: bc.ReplayBuffer) -> None:
    with buf.writer() as writer:
        with pytest.raises(AppendError, match="`obs/speed`"):
            leave_out_speed(writer)
        assert buf.lane_span(0) == (0, 0)
        append(writer, 1)


def test_of_a_final_row_only_observations_count(buf: bc.ReplayBuffer) -> None:
    with buf.writer(1, "next_step") as writer:
        append(writer, 1, terminated=True)
        with writer.reserve() as row:
            assert row.is_final
            row["obs"]["image"][:] = 8
            row["obs"]["speed"][...] = 8
            row["action"] = 5
        rows = buf.rows(0, 0, 2)
        assert rows["flags"].tolist() == [1, 4]
        assert rows["action"].tolist() == [[1, -1], [0, 0]]
        assert rows["obs"]["speed"].tolist() == [1, 8]


def test_meanwhile_the_writer_does_nothing_else(buf: bc.ReplayBuffer) -> None:
    with buf.writer() as writer:
        row = writer.reserve()
        calls: list[Callable[[], object]] = [
            lambda: append(writer, 1),
            lambda: writer.extend(
                obs={"image": np.zeros((1, 7, 5), "u1"), "speed": [0.0]},
                action=[[1, 2]],
                reward=[0.0],
                terminated=[False],
                truncated=[False],
            ),
            writer.reserve,
            writer.restart,
        ]
        for call in calls:
            with pytest.raises(AppendError):
                call()
        row.abort()
        row.abort()
        with pytest.raises(ClosedError, match="`reserve`"):
            row.commit()
        with pytest.raises(ClosedError):
            row["obs"]
        append(writer, 1)
        # A row without references is discarded.
        row = writer.reserve()
        del row
        gc.collect()
        append(writer, 2)
        assert buf.lane_span(0) == (0, 2)


def test_a_writer_that_is_closed_gives_its_row_up(buf: bc.ReplayBuffer) -> None:
    writer = buf.writer()
    row = writer.reserve()
    kept = row["obs/image"][1:]
    writer.close()
    with buf.writer() as other:
        append(other, 3)
        before = content(buf)
        kept[...] = 9
        assert content(buf) == before
        assert row.closed
        with pytest.raises(ClosedError):
            row.commit()
        append(other, 4)


def test_only_a_writer_of_one_lane_reserves() -> None:
    with (
        bc.ReplayBuffer.create(None, COLUMNS, capacity=50, lanes=2) as buf,
        buf.writer(2, "next_step") as writer,
        pytest.raises(AppendError, match=r"\b1\b.*\b2\b"),
    ):
        writer.reserve()


def test_wrong_uses_are_refused_with_the_reason(buf: bc.ReplayBuffer) -> None:
    with buf.writer() as writer:
        row: Any = writer.reserve()
        with pytest.raises(ColumnError, match=r"`actoin`.*`action`"):
            row["actoin"]
        with pytest.raises(ArgumentTypeError, match=r"\bname\b.*\b7\b"):
            row[7]
        with pytest.raises(ArgumentTypeError, match=r"\bobs\b.*obs/"):
            row["obs"] = 0
        with pytest.raises(AppendError, match=r"`action`"):
            row["action"] = [1, 2, 3]
        with pytest.raises(ArgumentTypeError, match=r"\bterminated\b.*\b1\b.*\bTrue\b.*\bFalse\b"):
            row.terminated = 1
        with pytest.raises(ArgumentTypeError, match=r"\brow\b"):
            pickle.dumps(row)
        row.abort()


def test_a_lease_in_the_way_drops_the_row_as_the_policy_says(place: Path) -> None:
    columns = {"obs": ("f4", (1024,))}
    made = bc.ReplayBuffer.create("walk", columns, capacity=60, lane_policy="drop_new", dir=place)
    with made as buf, buf.writer() as writer:
        for step in range(200):
            writer.append(obs=np.full(1024, step), terminated=False, truncated=False)
        rows = buf.lease(0, buf.lane_span(0)[0], 1)
        frozen = rows["obs"].copy()

        def drop_ten() -> None:
            dropped = 0
            while dropped < 10:
                with writer.reserve() as row:
                    row["obs"][:] = 1
                dropped += row.index == -1

        with pytest.warns(LeaseWarning):
            drop_ten()
        np.testing.assert_array_equal(rows["obs"], frozen)
        with pytest.warns(LeaseWarning):
            rows.close()
        with writer.reserve() as row:
            row["obs"][:] = 5
        assert buf.rows(0, row.index or 0, 1)["flags"].tolist() == [8]


KILLED = """
import os, signal, sys, backcast as bc
with bc.ReplayBuffer.attach("walk") as buf, buf.writer() as writer:
    with writer.reserve() as row:
        row["obs/image"][:] = 77
        row["reward"] = 1
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_process_that_is_killed_inside_leaves_no_row(
    place: Path, start: Callable[..., Any]
) -> None:
    with bc.ReplayBuffer.create("walk", COLUMNS, capacity=50, dir=place) as buf:
        with buf.writer() as writer:
            for step in range(4_000):
                append(writer, step)
        before = content(buf)
        head = buf.lane_span(0)[1]
        child = start(KILLED)
        child.communicate(timeout=60)
        assert child.returncode == -signal.SIGKILL
        assert buf.lane_span(0)[1] == head
        assert content(buf) == before
        with buf.writer() as writer, writer.reserve() as row:
            fill(row, 5)
        assert row.index == head
        assert buf.rows(0, head, 1)["flags"].tolist() == [8]


@pytest.mark.skipif(sys.platform != "linux", reason="what a fork takes along is the system's")
def test_a_forked_child_has_none_of_it(place: Path) -> None:
    made = bc.ReplayBuffer.create("walk", COLUMNS, capacity=50, dir=place)
    with made as buf, contextlib.closing(buf.writer()) as writer:
        row = writer.reserve()
        fill(row, 5)
        kept = row["obs/image"]
        read, report = os.pipe()
        child = os.fork()
        if child == 0:
            status = b""
            for use in (row.commit, lambda: row["action"], lambda: row.terminated):
                try:
                    status += repr(use()).encode()
                except BackcastError as error:
                    status += b"refused; " * ('"spawn"' in str(error))
            row = None  # type: ignore[assignment]
            gc.collect()
            os.write(report, status)
            os._exit(0)
        assert exit_code_of(child) == 0
        assert os.read(read, 1000) == b"refused; " * 3
        assert (kept == 5).all()
        assert row.commit() == 0
        assert (buf.rows(0, 0, 1)["obs"]["image"] == 5).all()


def fails(what: BaseException) -> int:
    raise what


def test_an_exception_that_drops_a_reserved_row_is_unchanged() -> None:
    with bc.ReplayBuffer.create(None, COLUMNS, capacity=50) as buf, buf.writer() as writer:
        for what in (ValueError("mine"), KeyboardInterrupt()):
            with pytest.raises(type(what)) as caught:
                # Only the interpreter refers to the row, and drops it as the exception propagates.
                _ = (writer.reserve(), fails(what))
            assert caught.value is what
        assert append(writer, 6)[0] == 0


ODD: dict[str, list[Any]] = {
    "image": [np.array([300, -1, 2]), [2**40, 0, 0], 1.9, "7", None],
    "action": [1.9, 2**40, np.array(np.nan), 1j, "7", None],
    "reward": [None, "7", 1j, {}],
}


@pytest.mark.parametrize(
    ("column", "value"), [(column, odd) for column in ODD for odd in ODD[column]]
)
def test_a_value_that_append_would_refuse_is_refused_and_the_row_goes_on(
    column: str,
    value: Any,  # noqa: ANN401
) -> None:
    columns = {"image": ("u1", (3,)), "action": "i4", "reward": "f4"}
    with bc.ReplayBuffer.create(None, columns, capacity=9) as buf, buf.writer() as writer:
        right = {"image": np.array([1, 2, 3], "u1"), "action": 4, "reward": 0.5}
        with pytest.raises(AppendError, match=f"`{column}`"):
            writer.append(**(right | {column: value}), terminated=False, truncated=False)
        row: Any = writer.reserve()
        for name, each in right.items():
            row[name] = each
        with pytest.raises(AppendError, match=f"`{column}`"):
            row[column] = value
        row.commit()
        stored = buf.rows(0, 0, 1)
        assert stored["image"].tolist() == [[1, 2, 3]]
        assert (stored["action"][0], stored["reward"][0]) == (4, 0.5)


def test_a_reserved_row_names_its_columns_like_a_dict() -> None:
    columns = {"obs": {"x": "f4", "y": ("f4", (2,))}, "action": "i4"}
    with bc.ReplayBuffer.create(None, columns, capacity=100) as buf, buf.writer() as writer:
        row = writer.reserve()
        assert list(row) == row.keys() == ["obs", "action"]
        assert (len(row), bool(row)) == (2, True)
        assert [name in row for name in ("obs", "obs/x", "obs/z", "ob", 3)] == [
            True,
            True,
            False,
            False,
            False,
        ]
        values: Any = dict(row)
        assert values["obs"]["y"].shape == (2,)
        with pytest.raises(ArgumentTypeError, match=r'"obs".*"obs/x".*"obs/y"'):
            row["obs"] = {"x": 1, "y": [1, 2]}
        with pytest.raises(ArgumentTypeError, match=r"reserve\(\).*\b1\b"):
            writer.reserve(1)  # type: ignore[call-arg]
        row.abort()
        assert (list(row), len(row), "obs" in row) == (["obs", "action"], 2, True)
