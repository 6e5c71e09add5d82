"""Bad input: the class of the error, and that its message names the value and the limit."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import backcast as bc
import numpy as np
import pytest

COLUMNS: dict[str, Any] = {"obs": {"x": ("f4", (3,)), "y": "i4"}, "action": "u1"}
GOOD: dict[str, Any] = {
    "obs": {"x": np.zeros((2, 3), np.float32), "y": [1, 2]},
    "action": [0, 1],
    "terminated": [False, False],
    "truncated": [False, False],
}


def test_every_error_is_a_backcast_error_and_a_builtin() -> None:
    tree = {
        bc.ArgumentError: ValueError,
        bc.SchemaError: ValueError,
        bc.NotFoundError: FileNotFoundError,
        bc.ExistsError: FileExistsError,
        bc.InUseError: OSError,
        bc.SpaceError: OSError,
        bc.StorageError: OSError,
        bc.CorruptError: ValueError,
        bc.WriterError: RuntimeError,
        bc.AppendError: ValueError,
        bc.SampleError: ValueError,
        bc.LappedError: bc.SampleError,
        bc.WaitTimeoutError: TimeoutError,
        bc.PanelError: ValueError,
        bc.EnvError: ValueError,
        bc.ClosedError: ValueError,
    }
    for error, builtin in tree.items():
        assert issubclass(error, bc.BackcastError)
        assert issubclass(error, builtin)
        assert error.__module__ == "backcast"
        assert error.__doc__


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        pytest.param({}, ["no column"], id="empty"),
        pytest.param({"x": "f3"}, ["'f3'", "'x'", "f4"], id="dtype"),
        pytest.param({"x": ">f4"}, [">f4", "native"], id="byte order"),
        pytest.param({"x": "c8"}, ["'c8'"], id="complex"),
        pytest.param({"x": object}, ["object"], id="object"),
        pytest.param({"x": None}, ["None"], id="none"),
        pytest.param({"x": ("f4", (2, -1))}, ["-1", "whole numbers"], id="negative axis"),
        pytest.param({"x": ("f4", (0,))}, ["0"], id="empty axis"),
        pytest.param({"x": ("f4", "22")}, ["'22'"], id="shape is text"),
        pytest.param({"x": ("f4", (2,), "observation")}, ["'observation'", "step"], id="role"),
        pytest.param({"x": ("f4", (), "obs", 1)}, ["4", "(dtype, shape, role)"], id="tuple"),
        pytest.param({"next_obs": "f4"}, ["next_obs"], id="reserved next"),
        pytest.param({"terminated": "bool"}, ["terminated"], id="reserved"),
        pytest.param({"obs": {}}, ["obs", "empty"], id="empty dict"),
        pytest.param({"obs": "f4", "obs/x": "f4"}, ["obs/x", "obs"], id="array and dict"),
        pytest.param({1: "f4"}, ["1", "string"], id="name is no string"),
        pytest.param({"": "f4"}, ["name"], id="empty name"),
        pytest.param({"x": ("f8", (2**31, 2**31))}, ["2147483648"], id="too wide"),
    ],
)
def test_schemas_that_cannot_be(columns: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(bc.SchemaError) as error:
        bc.Schema(columns)
    message = str(error.value).replace('"', "'").replace("`", "'")
    for word in words:
        assert word in message


def create(place: Path, **changes: object) -> bc.ReplayBuffer:
    """Make a ring with one thing changed."""
    arguments: dict[str, Any] = {"name": "e", "schema": {"x": "f4"}, "capacity": 100} | changes
    name, schema = arguments.pop("name"), arguments.pop("schema")
    return bc.ReplayBuffer.create(name, schema, dir=place, **arguments)


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"name": "a/b"}, bc.ArgumentError, ["a/b"]),
        ({"name": ""}, bc.ArgumentError, ["name"]),
        ({"name": "x" * 300}, bc.ArgumentError, ["name"]),
        ({"capacity": 0}, bc.ArgumentError, ["0"]),
        ({"capacity": -5}, bc.ArgumentError, ["-5"]),
        ({"capacity": "8 gigs"}, bc.ArgumentError, ["8 gigs", "GiB"]),
        ({"capacity": 1.5}, TypeError, ["capacity"]),
        ({"capacity": 2**62}, bc.BackcastError, [""]),
        ({"capacity": "20TiB"}, bc.SpaceError, ["space"]),
        ({"lanes": 0}, bc.ArgumentError, ["lanes", "0"]),
        ({"lanes": 5000}, bc.ArgumentError, ["5000", "4096"]),
        ({"exist": "maybe"}, bc.ArgumentError, ["maybe", "attach"]),
        ({"schema": [("x", "f4")]}, TypeError, ["schema", "list"]),
    ],
    ids=str,
)
def test_rings_that_cannot_be(
    place: Path, changes: dict[str, Any], error: type[Exception], words: list[str]
) -> None:
    with pytest.raises(error) as raised:
        create(place, **changes)
    for word in words:
        assert word in str(raised.value)
    assert bc.list(dir=place) == []


def changed(**changes: object) -> dict[str, Any]:
    """Make a good step with some columns changed; None takes one away."""
    step = GOOD | changes
    return {key: value for key, value in step.items() if value is not None}


def with_obs(**changes: object) -> dict[str, Any]:
    """Make a good step with part of the observation changed."""
    return changed(obs={k: v for k, v in (GOOD["obs"] | changes).items() if v is not None})


STEPS = [
    pytest.param(changed(action=None), ["action", "missing"], id="missing"),
    pytest.param(changed(obs=None), ["obs/x", "obs/y"], id="missing group"),
    pytest.param(with_obs(y=None), ["obs/y"], id="missing in group"),
    pytest.param(changed(actoin=[0, 0]), ["actoin", "did you mean 'action'"], id="misspelt"),
    pytest.param(changed(done=[True, False]), ["done", "terminated="], id="done"),
    pytest.param(changed(whatever_it_is=1), ["whatever_it_is", "append takes"], id="unknown"),
    pytest.param(with_obs(z=[0, 0]), ["obs/z"], id="unknown in group"),
    pytest.param(changed(**{"obs/y": [1, 2]}), ["obs/y", "twice"], id="doubled"),
    pytest.param(changed(obs=np.zeros((2, 3))), ["obs", "dict", "x, y"], id="group is array"),
    pytest.param(changed(action={"a": 1}), ["action", "dict"], id="array is group"),
    pytest.param(changed(action=[0, 256]), ["action", "256", "0 to 255"], id="overflow"),
    pytest.param(changed(action=[-1, 0]), ["action", "-1", "0 to 255"], id="underflow"),
    pytest.param(changed(action=[0.5, 1]), ["action", "float64", "u1"], id="fraction"),
    pytest.param(changed(action=["a", "b"]), ["action", "u1"], id="text"),
    pytest.param(changed(action=[None, 1]), ["action", "object"], id="none inside"),
    pytest.param(changed(action=[[0], [1, 2]]), ["action", "u1"], id="ragged"),
    pytest.param(changed(action=[0, 1, 2]), ["action", "(3,)", "(2,)"], id="lanes"),
    pytest.param(changed(action=0), ["action", "()", "(2,)"], id="scalar"),
    pytest.param(with_obs(x=np.zeros((2, 4))), ["obs/x", "(2, 4)", "(2, 3)"], id="shape"),
    pytest.param(with_obs(x=np.zeros(3)), ["obs/x", "(3,)", "(2, 3)"], id="no lanes"),
    pytest.param(with_obs(x=np.zeros((2, 3), complex)), ["obs/x", "complex128"], id="complex"),
    pytest.param(changed(terminated=None), ["terminated", "missing"], id="terminated"),
    pytest.param(changed(truncated=None), ["truncated", "missing"], id="truncated"),
    pytest.param(changed(truncated=[0, 1]), ["truncated", "int64", "booleans"], id="ints"),
    pytest.param(changed(truncated=[True]), ["truncated", "(1,)", "(2,)"], id="flags' lanes"),
    pytest.param(changed(terminated=[True, False]), ["final_obs", "lane 0"], id="no final"),
    pytest.param(
        changed(terminated=[False, True], final_obs=[None, None]),
        ["final_obs[1]", "None"],
        id="final is none",
    ),
    pytest.param(
        changed(terminated=[False, True], final_obs=[None, {"x": np.zeros(3)}]),
        ["final_obs", "y"],
        id="final lacks a column",
    ),
    pytest.param(
        changed(terminated=[False, True], final_obs=[None, {"x": np.zeros(4), "y": 0}]),
        ["final_obs[1]", "obs/x", "(4,)", "(3,)"],
        id="final has another shape",
    ),
    pytest.param(
        changed(truncated=[False, True], final_obs=np.zeros((2, 3))),
        ["final_obs", "dict"],
        id="final is an array",
    ),
    pytest.param(
        changed(truncated=[False, True], final_obs={"x": np.zeros((1, 3)), "y": [0, 0]}),
        ["final_obs", "obs/x", "(1, 3)", "(2, 3)"],
        id="final of fewer lanes",
    ),
]


@pytest.mark.parametrize(("step", "words"), STEPS)
def test_steps_that_do_not_fit_change_nothing(
    place: Path, step: dict[str, Any], words: list[str]
) -> None:
    with (
        create(place, schema=COLUMNS, lanes=2) as buf,
        buf.writer(lanes=2, autoreset_mode="same_step") as writer,
    ):
        with pytest.raises(bc.AppendError) as error:
            writer.append(**step)
        message = str(error.value).replace('"', "'").replace("`", "'")
        for word in words:
            assert word in message
        assert buf.stats()["rows_published"] == 0
        writer.append(**GOOD)
        assert buf.rows(0, 0, 1)["flags"].tolist() == [0]


def test_final_obs_in_next_step_mode_is_a_mistake_of_the_mode(place: Path) -> None:
    with (
        create(place) as buf,
        buf.writer() as writer,
        pytest.raises(bc.AppendError, match="same_step"),
    ):
        writer.append(x=0, terminated=True, truncated=False, final_obs={"x": 1})


def with_rows(place: Path, use: Callable[[bc.ReplayBuffer], object]) -> None:
    """Use a ring of 2 lanes x 50 rows of which lane 0 was lapped."""
    with create(place, lanes=2) as buf:
        with buf.writer(lanes=1) as writer:
            for _ in range(120):
                writer.append(x=0, terminated=False, truncated=False)
        use(buf)


@pytest.mark.parametrize(
    ("use", "error", "words"),
    [
        (lambda b: b.sample(0), bc.SampleError, ["batch_size", "0"]),
        (lambda b: b.sample(-1), bc.SampleError, ["batch_size", "-1"]),
        (lambda b: b.sample(2**40), bc.SampleError, ["batch_size", str(2**40)]),
        (lambda b: b.sample(1.5), TypeError, ["float"]),
        (lambda b: b.sample(4, history=0), bc.SampleError, ["history", "0"]),
        (lambda b: b.sample(4, history=60), bc.SampleError, ["60", "50"]),
        (lambda b: b.sample(4, future=-1), bc.SampleError, ["future", "-1"]),
        (lambda b: b.sampler(history=30, future=30), bc.SampleError, ["61", "50"]),
        (lambda b: b.sampler(seed=-1), bc.SampleError, ["seed", "-1"]),
        (lambda b: b.sampler(seed=2**64), bc.SampleError, [str(2**64), str(2**64 - 1)]),
        (lambda b: b.wait(-1), bc.ArgumentError, ["min_size", "-1"]),
        (lambda b: b.gather([0]), bc.LappedError, ["index[0]", "70"]),
        (lambda b: b.gather([119]), bc.SampleError, ["index[0]", "119"]),
        (lambda b: b.gather([1 << 48]), bc.SampleError, ["lane 1"]),
        (lambda b: b.gather([7 << 48]), bc.SampleError, ["lane 7"]),
        (lambda b: b.gather([-1]), bc.SampleError, ["-1"]),
        (lambda b: b.gather([[100]]), bc.SampleError, ["(1, 1)", "(B,)"]),
        (lambda b: b.gather([0.5]), bc.SampleError, ["float64"]),
        (lambda b: b.gather([]), bc.SampleError, ["0"]),
        (lambda b: b.rows(0, 60, 20), bc.SampleError, ["60", "70..120"]),
        (lambda b: b.rows(0, 110, 11), bc.SampleError, ["121", "120"]),
        (lambda b: b.rows(2, 0, 1), bc.SampleError, ["lane 2", "1"]),
        (lambda b: b.rows(0, -1, 1), bc.SampleError, ["-1"]),
        (lambda b: b.rows(-1, 0, 1), bc.SampleError, ["-1"]),
        (lambda b: b.lane_span(2), bc.SampleError, ["2", "1"]),
        (lambda b: b.writer(lanes=0), bc.WriterError, ["lanes", "0"]),
        (lambda b: b.writer(lanes=3), bc.WriterError, ["3", "2"]),
        (lambda b: b.writer(autoreset_mode="auto"), bc.WriterError, ["auto", "same_step"]),
        (lambda b: b.wait(50, timeout=-1), bc.ArgumentError, ["-1"]),
        (lambda b: b.wait(60, timeout=0.01), bc.WaitTimeoutError, ["60", "49"]),
        (lambda b: b.wait(10**6), bc.ArgumentError, ["1000000", "100"]),
    ],
)
def test_questions_that_cannot_be_answered(
    place: Path, use: Callable[[bc.ReplayBuffer], object], error: type[Exception], words: list[str]
) -> None:
    def ask(buf: bc.ReplayBuffer) -> None:
        with pytest.raises(error) as raised:
            use(buf)
        for word in words:
            assert word in str(raised.value)

    with_rows(place, ask)


def test_an_empty_ring_says_that_it_is_empty(place: Path) -> None:
    with create(place) as buf, pytest.raises(bc.SampleError, match="no transition yet"):
        buf.sample(1)


def test_all_lanes_taken_names_the_holder(place: Path) -> None:
    with (
        create(place, lanes=2) as buf,
        buf.writer(lanes=2),
        pytest.raises(bc.WriterError, match=f"only 0 of 2 are free.*{os.getpid()}"),
    ):
        buf.writer()


def test_a_name_that_is_not_there(place: Path) -> None:
    with pytest.raises(bc.NotFoundError, match="nobody"):
        bc.ReplayBuffer.attach("nobody", dir=place)
    with pytest.raises(bc.NotFoundError, match="nobody"):
        bc.Panel.attach("nobody", dir=place)
    with pytest.raises(bc.NotFoundError, match="nobody"):
        bc.remove("nobody", dir=place)


def test_a_name_that_is_taken(place: Path) -> None:
    with create(place) as buf:
        with pytest.raises(bc.ExistsError, match=r"exist=.attach"):
            create(place)
        with pytest.raises(bc.ExistsError, match="differs from what was asked"):
            create(place, schema={"y": "f4"}, exist="attach")
        with create(place, exist="attach") as same:
            assert same.path == buf.path
        with pytest.raises(bc.InUseError, match="in use"):
            bc.remove("e", dir=place)
        with pytest.raises(bc.ArgumentError, match="table"):
            bc.remove("e", kind="table", dir=place)  # type: ignore[arg-type]


def test_bytes_that_are_no_ring(place: Path) -> None:
    with create(place, persistent=True) as buf:
        folder = Path(str(buf.path))
        control = folder / "ring.ctl"
        whole = control.read_bytes()
        for damaged in [b"", whole[:100], b"x" * len(whole), whole[: len(whole) // 2]]:
            control.write_bytes(damaged)
            with pytest.raises(bc.CorruptError, match=r"ring\.ctl|damaged"):
                bc.ReplayBuffer.attach("e", dir=place)
        buf.unlink()
