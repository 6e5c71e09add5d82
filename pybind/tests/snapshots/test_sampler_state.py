"""The state of a sampler restores its next draws, also in another process."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import backcast as bc
import numpy as np
import pytest
from saved_ring import append, ring

SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {"seed": 7},
    "unseeded": {},
    "windows": {"seed": 2**64 - 1, "history": 4, "future": 3, "boundary": "reject"},
    "returns": {"seed": 0, "n_step": 3, "gamma": 0.97, "boundary": "clamp", "copy": True},
}


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Return whether two batches, or their nested columns, are equal."""
    assert one.keys() == other.keys()
    return all(
        same(one[key], other[key])
        if isinstance(one[key], dict)
        else np.array_equal(one[key], other[key])
        for key in one
    )


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_a_sampler_goes_on_where_another_was(place: Path, settings: dict[str, Any]) -> None:
    with ring(place) as buf, buf.sampler(**settings) as sampler:
        for batches in range(4):
            state = json.loads(json.dumps(sampler.state()))
            assert state["batches"] == batches
            with buf.sampler(state=state) as again:
                assert again.seed == sampler.seed
                assert repr(again).split(", seed")[0] == repr(sampler).split(", seed")[0]
                assert again.state() == sampler.state()
                assert same(again.sample(40), sampler.sample(40))
                assert again.state() == sampler.state()
                assert same(again.sample(3), buf.sampler(state=sampler.state()).sample(3))


@pytest.mark.parametrize("prefetch", [0, 3])
@pytest.mark.parametrize("reuse", [False, True])
def test_batches_drawn_ahead_and_not_returned_are_still_to_come(
    place: Path, prefetch: int, reuse: bool
) -> None:
    with ring(place) as buf:
        plain = buf.sampler(seed=3)
        expected = [plain.sample(16).index for _ in range(6)]
        sampler = buf.sampler(seed=3)
        ahead = sampler.batches(16, prefetch=prefetch, reuse=reuse)
        for index in expected[:3]:
            np.testing.assert_array_equal(next(ahead).index, index)
        state = sampler.state()
        assert state["batches"] == 3
        with buf.sampler(state=state) as again:
            for index in expected[3:]:
                np.testing.assert_array_equal(again.sample(16).index, index)
        ahead.close()
        assert sampler.state() == state


CHILD = """
import sys, backcast as bc
with bc.ReplayBuffer.load("walk@epoch", "again", store=sys.argv[1]) as buf:
    with buf.sampler(state=buf.saved_state["sampler"]) as sampler:
        for _ in range(3):
            print(*sampler.sample(20).index)
"""


def test_a_training_continues_after_a_full_restart(
    place: Path, tmp_path: Path, start: Callable[..., Any]
) -> None:
    with ring(place) as buf, buf.sampler(seed=5, history=3) as sampler:
        for _ in range(10):
            sampler.sample(20)
        state = {"sampler": sampler.state(), "steps": 200}
        buf.snapshot("epoch", store=tmp_path, state=state)
        expected = [" ".join(map(str, sampler.sample(20).index)) for _ in range(3)]
        with buf.writer(2, "next_step") as writer:
            append(writer, 50, seed=9)
    out, error = start(CHILD, str(tmp_path)).communicate(timeout=60)
    assert out.splitlines() == expected, error


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seed": 2**70}, r"`seed`.*\b0\b.*\b18446744073709551615\b"),
        ({"seed": -1}, r"`seed`.*\b0\b.*\b18446744073709551615\b.*-1\b"),
        ({"sed": 1}, r"`sed`.*`state\(\)`"),
        ({"history": 0}, r"\b0\b"),
        ({"history": 10**6}, r"1000000"),
        ({"gamma": 7.0, "n_step": 2}, r"gamma"),
        ({"boundary": "cut"}, r"\bboundary\b.*`cut`"),
        ({"draws": 3}, r"\b3\b.*\b1\b.*\b2\b"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_a_state_that_is_none_is_refused(place: Path, change: dict[str, Any], words: str) -> None:
    with ring(place) as buf, buf.sampler(seed=1) as sampler:
        with pytest.raises(bc.errors.SampleError, match=words):
            buf.sampler(state=sampler.state() | change)
        with pytest.raises(bc.errors.SampleError, match=r"`draws`.*state\(\)"):
            buf.sampler(state={})
        none: Any
        for none in ("x", 7, [1]):
            with pytest.raises(bc.errors.SampleError, match=r"state\(\)"):
                buf.sampler(state=none)


@pytest.mark.parametrize(
    "other",
    ["seed", "history", "future", "n_step", "gamma", "copy", "select", "form", "share", "learned"],
)
def test_a_state_stands_for_all_other_arguments(place: Path, other: str) -> None:
    with ring(place) as buf, buf.sampler(seed=1) as sampler:
        given: dict[str, Any] = {other: 0}
        with pytest.raises(bc.errors.SampleError, match=rf"\bstate\b.*\b{other}\b"):
            buf.sampler(state=sampler.state(), **given)


def test_a_closed_sampler_has_no_state(place: Path) -> None:
    with ring(place) as buf:
        sampler = buf.sampler(seed=1)
        sampler.close()
        with pytest.raises(bc.ClosedError):
            sampler.state()
