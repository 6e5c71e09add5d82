"""`Writer.extend`: many steps in one call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import backcast as bc
import numpy as np
import pytest
from facts import missing

# The writer warns because random rows contradict the autoreset mode.
pytestmark = pytest.mark.filterwarnings("ignore::backcast.errors.WriterWarning")

COLUMNS = {"obs": {"x": ("f4", (3,)), "n": "i4"}, "reward": "f4"}
Mode = Literal["next_step", "same_step", "disabled"]
MODES: list[Mode] = ["next_step", "same_step", "disabled"]


@pytest.fixture
def make(place: Path) -> Iterator[Callable[..., bc.ReplayBuffer]]:
    """Yield a function that makes rings, which are closed when the test ends."""
    made: list[bc.ReplayBuffer] = []

    def ring(lanes: int = 1, lane_policy: Literal["block", "fail"] = "block") -> bc.ReplayBuffer:
        name = f"r{len(made)}"
        made.append(
            bc.ReplayBuffer.create(
                name, COLUMNS, capacity=300, lanes=lanes, lane_policy=lane_policy, dir=place
            )
        )
        return made[-1]

    yield ring
    for buf in made:
        buf.close()


def steps(count: int, lanes: int, seed: int = 0) -> dict[str, Any]:
    """Make steps with distinct values in each column; about one in seven ends its episode."""
    draws = np.random.default_rng(seed)
    first = 10_000 * seed

    def numbers(kind: str, *row: int) -> np.ndarray:
        size = count * lanes * int(np.prod(row))
        return np.arange(first, first + size, dtype=kind).reshape(count, lanes, *row)

    return {
        "obs": {"x": numbers("f4", 3), "n": numbers("i4")},
        "reward": numbers("f4"),
        "terminated": draws.random((count, lanes)) < 0.1,
        "truncated": draws.random((count, lanes)) < 0.05,
        "final_obs": {"x": -numbers("f4", 3), "n": -numbers("i4")},
    }


def part(values: dict[str, Any], at: int | tuple[slice, int]) -> dict[str, Any]:
    """Cut one part out of every array."""
    return {
        key: part(value, at) if isinstance(value, dict) else value[at]
        for key, value in values.items()
    }


def given(values: dict[str, Any], mode: Mode) -> dict[str, Any]:
    """Return the arguments for a writer of this mode."""
    return {k: v for k, v in values.items() if k != "final_obs" or mode != "next_step"}


def contents(buf: bc.ReplayBuffer) -> list[dict[str, Any]]:
    """Return every readable row of every lane."""
    spans = [(lane["head"] - lane["rows"], lane["rows"]) for lane in buf.stats()["lane_stats"]]
    return [buf.rows(lane, start, length) for lane, (start, length) in enumerate(spans)]


def equal(one: bc.ReplayBuffer, other: bc.ReplayBuffer) -> None:
    """Assert that two rings have equal rows."""
    for here, there in zip(contents(one), contents(other), strict=True):
        np.testing.assert_equal(here, there)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("lanes", [1, 3])
def test_many_steps_at_once_are_the_same_rows_as_one_by_one(
    make: Callable[..., bc.ReplayBuffer], lanes: int, mode: Mode
) -> None:
    one, many = make(lanes), make(lanes)
    with (
        one.writer(lanes=lanes, autoreset_mode=mode) as append,
        many.writer(lanes=lanes, autoreset_mode=mode) as extend,
    ):
        # Together the calls append more rows than a lane holds.
        for seed, count in enumerate([5, 64, 1, 17, 300, 64]):
            values = given(steps(count, lanes, seed), mode)
            expected = [append.append(**part(values, at)) for at in range(count)]
            index = extend.extend(**values)
            assert index.dtype == np.int64
            assert index.shape == (count, lanes)
            np.testing.assert_array_equal(index, expected)
            equal(many, one)


def test_plain_arrays_take_the_short_way_and_others_the_long_one_to_the_same_rows(
    make: Callable[..., bc.ReplayBuffer],
) -> None:
    short, long = make(2), make(2)
    values = steps(40, 2) | {"truncated": np.zeros((40, 2), bool)}
    values |= {"terminated": np.zeros((40, 2), bool)}
    del values["final_obs"]
    flat = {"obs/x": values["obs"]["x"], "obs/n": values["obs"]["n"], "reward": values["reward"]}
    ends = {"terminated": values["terminated"], "truncated": values["truncated"]}
    lists = {name: array.tolist() for name, array in (flat | ends).items()}
    with (
        short.writer(lanes=2, autoreset_mode="next_step") as one,
        long.writer(lanes=2, autoreset_mode="next_step") as other,
    ):
        np.testing.assert_array_equal(one.extend(**flat, **ends), other.extend(**lists))
    equal(short, long)


def test_one_lane_needs_no_axis_of_lanes(make: Callable[..., bc.ReplayBuffer]) -> None:
    with_axis, without = make(), make()
    values = steps(30, 1)
    short = part(values, (slice(None), 0))
    with (
        with_axis.writer(autoreset_mode="same_step") as one,
        without.writer(autoreset_mode="same_step") as other,
    ):
        np.testing.assert_array_equal(one.extend(**values), other.extend(**short))
    equal(with_axis, without)


def test_no_steps_are_no_rows(make: Callable[..., bc.ReplayBuffer]) -> None:
    buf = make(2)
    with buf.writer(lanes=2, autoreset_mode="next_step") as writer:
        assert writer.extend(**given(steps(0, 2), "next_step")).shape == (0, 2)
    assert buf.stats()["rows_published"] == 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"terminated": None}, ["terminated"]),
        ({"truncated": None}, ["truncated"]),
        ({"terminated": True}, ["2"]),
        ({"terminated": np.zeros(8, bool)}, ["(8,)", "(8, 2)"]),
        ({"truncated": np.zeros((7, 2), bool)}, ["7", "2", "(8, 2)"]),
        ({"reward": np.zeros((8, 3), "f4")}, ["`reward`", "8", "3", "(8, 2)"]),
        ({"reward": np.zeros(16, "f4")}, ["(16,)"]),
        ({"reward": np.zeros((8, 2), "c8")}, ["`reward`", "complex64"]),
        ({"rewards": np.zeros((8, 2), "f4")}, ["`rewards`", "`reward`"]),
        ({"final_obs": None}, ["`final_obs`"]),
        ({"final_obs": {"x": np.zeros((8, 2, 3), "f4")}}, ["final_obs", "`obs/n`"]),
        (
            {"final_obs": {"x": np.zeros((2, 3), "f4"), "n": np.zeros((8, 2), "i4")}},
            ["final_obs", "`obs/x`", "2", "3", "(8, 2, 3)"],
        ),
    ],
)
def test_errors_are_raised_before_any_row_is_appended(
    make: Callable[..., bc.ReplayBuffer], change: dict[str, Any], words: list[str]
) -> None:
    buf = make(2)
    values = steps(8, 2)
    values["terminated"][3, 1] = True
    values |= change
    with buf.writer(lanes=2, autoreset_mode="same_step") as writer:
        with pytest.raises(bc.errors.AppendError) as raised:
            writer.extend(**{name: value for name, value in values.items() if value is not None})
        assert missing(raised.value, words) == []
        assert writer.rows_written == 0
    assert buf.stats()["rows_published"] == 0


def test_a_lease_in_the_way_leaves_the_steps_before_it(
    make: Callable[..., bc.ReplayBuffer],
) -> None:
    buf = make(lane_policy="fail")
    values: dict[str, Any] = {"obs": {"x": np.zeros((64, 3), "f4"), "n": np.zeros(64, "i4")}}
    values |= {name: np.zeros(64, kind) for name, kind in [("reward", "f4"), ("truncated", "?")]}
    values["terminated"] = np.zeros(64, bool)
    with buf.writer() as writer:
        while writer.rows_written < buf.stats()["slots"]:
            writer.extend(**values)
        start, _ = buf.lane_span(0)
        lease = buf.lease(0, start + 40, 4)
        before = writer.rows_written
        with pytest.raises(bc.errors.LeaseError, match=r"\d+.*\b64\b"):
            [writer.extend(**values) for _ in range(40)]
        assert writer.rows_written > before
        with pytest.warns(bc.errors.LeaseWarning, match=r"\b1\b"):
            lease.close()
        writer.extend(**values)


def test_a_closed_writer_says_so(make: Callable[..., bc.ReplayBuffer]) -> None:
    writer = make().writer()
    writer.close()
    with pytest.raises(bc.ClosedError):
        writer.extend(**given(steps(4, 1), "next_step"))
