"""Gathering by index: missing rows are refused or masked, and indices may have any shape."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import backcast as bc
import numpy as np
import pytest

COLUMNS = {"obs": {"x": "f4", "image": ("u1", (2, 2))}, "action": "i4"}


@pytest.fixture
def buf() -> Iterator[bc.ReplayBuffer]:
    """Give an empty ring of 20 transitions; after `fill` it holds rows 30 to 49."""
    with bc.ReplayBuffer.create(None, COLUMNS, capacity=20) as made:
        yield made


def fill(buf: bc.ReplayBuffer, steps: int = 50) -> np.ndarray[Any, Any]:
    with buf.writer() as writer:
        value = np.arange(1, steps + 1)[:, None]
        return writer.extend(
            obs={"x": value, "image": np.full((steps, 1, 2, 2), value[..., None, None])},
            action=value,
            terminated=np.zeros((steps, 1), bool),
            truncated=np.zeros((steps, 1), bool),
        )


def test_indices_have_the_shape_that_a_call_gave_them(buf: bc.ReplayBuffer) -> None:
    index = fill(buf)
    assert index.shape == (50, 1)
    kept = index[30:49]
    batch = buf.gather(kept)
    np.testing.assert_array_equal(batch["action"], np.arange(31, 50))
    np.testing.assert_array_equal(batch.index, kept[:, 0])
    square = buf.gather(kept[:16].reshape(2, 2, 4))
    np.testing.assert_array_equal(square["action"], np.arange(31, 47))
    assert buf.gather(kept[3, 0])["action"].tolist() == [34]
    assert buf.gather(kept[::2].tolist())["action"].tolist() == list(range(31, 50, 2))


@pytest.mark.parametrize("into", ["new", "batch", "dict"])
def test_missing_transitions_are_masked(buf: bc.ReplayBuffer, into: str) -> None:
    fill(buf)
    index = np.array([49, 48, 3, 40, -1, 40, 1 << 48])
    there = [False, True, False, True, False, True, False]
    out: Any = None
    if into == "batch":
        out = buf.gather([35] * 7)
    elif into == "dict":
        out = {"action": np.full(7, 9, "i4")}
    batch = buf.gather(index, missing="mask") if out is None else None
    batch = buf.gather(index, out, missing="mask") if batch is None else batch
    assert batch["found"].tolist() == there
    assert batch["action"].tolist() == [0, 49, 0, 41, 0, 41, 0]
    assert batch["next_obs"]["x"].tolist() == [0, 50, 0, 42, 0, 42, 0]
    assert batch["obs"]["image"].max(axis=(1, 2)).tolist() == [0, 49, 0, 41, 0, 41, 0]
    np.testing.assert_array_equal(batch["index"], index)
    assert (batch["age"] > 0).tolist() == there


@pytest.mark.parametrize("into", ["batch", "dict"])
def test_found_goes_when_a_batch_is_filled_again(buf: bc.ReplayBuffer, into: str) -> None:
    fill(buf)
    sampler = buf.sampler(seed=1, copy=into == "dict")
    out: Any = sampler.sample(2) if into == "batch" else {}
    missing = sampler.gather([3, 40], out, missing="mask")
    assert missing["found"].tolist() == [False, True]
    # Fills that memory with transitions that are all there.
    assert "found" not in sampler.gather([40, 41], out)
    assert sampler.gather([40, 3], out, missing="mask")["found"].tolist() == [True, False]
    assert "found" not in sampler.sample(2, out)


def test_masked_windows_are_zero_where_their_transition_is_missing(buf: bc.ReplayBuffer) -> None:
    fill(buf)
    sampler = buf.sampler(seed=1, history=3, future=2)
    batch = sampler.gather([31, 2, 47], missing="mask")
    assert batch.found is not None
    assert batch.found.tolist() == [True, False, True]
    assert batch.mask is not None
    assert batch.mask.tolist() == [[False, True, True], [False] * 3, [True] * 3]
    assert not batch["obs"]["x"][1].any()
    assert not batch["future"]["obs"]["x"][1].any()
    whole = buf.sampler(seed=1, history=3, boundary="reject").gather([31, 35], missing="mask")
    assert whole["found"].tolist() == [False, True]


def test_none_may_be_there(buf: bc.ReplayBuffer) -> None:
    batch = buf.gather([0, 5, -1], missing="mask")
    assert batch["found"].tolist() == [False] * 3
    assert not batch["action"].any()


def test_a_batch_without_missing_ones_has_no_found(buf: bc.ReplayBuffer) -> None:
    fill(buf)
    assert buf.gather([40]).found is None


@pytest.mark.parametrize(
    ("index", "why"),
    [
        (49, r"index\[1\] = 49\b"),
        (60, r"index\[1\] = 60\b"),
        (-1, r"-1\b"),
    ],
)
def test_the_error_says_why(buf: bc.ReplayBuffer, index: int, why: str) -> None:
    fill(buf)
    with pytest.raises(bc.errors.SampleError, match=why):
        buf.gather([40, index])


def test_rows_without_a_successor_say_so(buf: bc.ReplayBuffer) -> None:
    with buf.writer(1, autoreset_mode="next_step") as writer:
        for step in range(12):
            if step == 8:
                writer.restart()
            obs = {"x": step, "image": np.zeros((2, 2), "u1")}
            writer.append(obs=obs, action=step, terminated=step == 3, truncated=False)
    with pytest.raises(bc.errors.SampleError, match=r"\bFINAL\b"):
        buf.gather([4])
    with pytest.raises(bc.errors.SampleError, match=r"\bGAP\b"):
        buf.gather([7])


def test_missing_is_one_of_two_words(buf: bc.ReplayBuffer) -> None:
    with pytest.raises(bc.errors.ArgumentError, match=r'\bmissing\b.*\'drop\'.*"error".*"mask"'):
        buf.gather([1], missing="drop")  # type: ignore[call-overload]


def test_more_indices_than_a_batch_can_have_are_refused_before_they_are_copied(
    buf: bc.ReplayBuffer,
) -> None:
    endless = np.broadcast_to(np.int64(3), (1 << 24, 4))
    with pytest.raises(bc.errors.SampleError, match=r"\b67108864\b.*\b1\b.*\b16777216\b"):
        buf.gather(endless)
