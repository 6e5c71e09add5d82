"""The ``state`` that is saved with a snapshot comes back as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import backcast as bc
import numpy as np
import pytest
from backcast.errors import ArgumentError
from saved_ring import ring

STATES: dict[str, Any] = {
    "words": {"none": None, "run": "naïve \0 💡", "yes": True},
    "numbers": [
        0,
        -1,
        2**63,
        2**64 - 1,
        -(2**63),
        0.1,
        -0.0,
        1e-308,
        5e-324,
        1.7976931348623157e308,
    ],
    "large": [2**64, -(2**63) - 1, 10**40, -(10**5000), 3**20_000],
    "alike": [
        {"$int": "0x1"},
        {"$dict": {"a": 1}},
        {"$dict": {"$int": 2}},
        {"$int": 1, "b": 2**70},
    ],
    "generator": np.random.default_rng(5).bit_generator.state,
    "nested": {"a": [{"b": [[], {}]}]},
    "text": "alone",
    "nothing": None,
}


@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
def test_the_state_comes_back_to_the_bit(place: Path, tmp_path: Path, state: object) -> None:
    with ring(place, 5) as buf:
        buf.snapshot("a", store=tmp_path, state=state)
    with bc.ReplayBuffer.load("walk@a", store=tmp_path, dir=place) as again:
        assert shown(again.saved_state) == shown(state)
    assert shown(bc.list_snapshots(store=tmp_path)[0]["state"]) == shown(state)


def shown(state: object) -> str:
    """Represent values so that 0.0 and -0.0 differ; integers in hexadecimal, which has no limit."""
    if isinstance(state, dict):
        return f"{{{', '.join(f'{key!r}: {shown(item)}' for key, item in sorted(state.items()))}}}"
    if isinstance(state, list):
        return f"[{', '.join(map(shown, state))}]"
    return hex(state) if type(state) is int else repr(state)


def test_a_generator_goes_on_from_where_it_was_saved(place: Path, tmp_path: Path) -> None:
    draw = np.random.default_rng(11)
    draw.normal(size=100)
    with ring(place, 5) as buf:
        buf.snapshot("a", store=tmp_path, state={"draw": draw.bit_generator.state})
    again = np.random.default_rng()
    again.bit_generator.state = bc.list_snapshots(store=tmp_path)[0]["state"]["draw"]
    assert np.array_equal(again.normal(size=100), draw.normal(size=100))


def test_floats_of_any_size_come_back_to_the_bit(place: Path, tmp_path: Path) -> None:
    bits = np.random.default_rng(0).integers(0, 2**64, 5_000, np.uint64)
    numbers = bits.view(np.float64)
    state = numbers[np.isfinite(numbers)].tolist()
    with ring(place, 5) as buf:
        buf.snapshot("a", store=tmp_path, state=state)
    assert bc.list_snapshots(store=tmp_path)[0]["state"] == state


def test_numbers_of_numpy_are_taken_as_pythons(place: Path, tmp_path: Path) -> None:
    state = {"a": np.int64(3), "b": np.float32(0.5), "c": np.bool_(True), "d": (np.uint8(1), "x")}
    with ring(place, 5) as buf:
        buf.snapshot("a", store=tmp_path, state=state)
    [saved] = bc.list_snapshots(store=tmp_path)
    assert saved["state"] == {"a": 3, "b": 0.5, "c": True, "d": [1, "x"]}


def circle() -> dict[str, Any]:
    """Make a dict that contains itself."""
    made: dict[str, Any] = {}
    made["again"] = made
    return made


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"weights": np.zeros(3)}, r'state\[.*"weights".*\bNone\b'),
        ({"a": [1, {2: 3}]}, r'state\[.*"a".*\]\[1\].*\b2\b'),
        ([float("nan")], r"state\[0\].*\bNaN\b.*\bJSON\b"),
        ([-float("inf")], r"state\[0\].*-inf.*\bJSON\b"),
        ({1}, r"\bstate\b.*\{1\}.*\bNone\b"),
        ("\ud800", r"\bstate\b.*'\\ud800'"),
        (circle(), r'state\[.*"again".*\b64\b'),
        ("x" * (17 << 20), r"\blimit\b.*\b16777216\b"),
    ],
    ids=["array", "key", "nan", "infinite", "set", "surrogate", "circle", "too long"],
)
def test_a_state_that_json_lacks_is_refused_and_nothing_is_saved(
    place: Path, tmp_path: Path, state: object, words: str
) -> None:
    with ring(place, 5) as buf, pytest.raises(ArgumentError, match=words):
        buf.snapshot("a", store=tmp_path / "store", state=state)
    assert not (tmp_path / "store").exists()
