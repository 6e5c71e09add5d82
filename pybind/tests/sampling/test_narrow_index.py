"""Indices of fewer than 64 bits may have lost their lane; every call refuses them."""

from __future__ import annotations

import array
from collections.abc import Callable, Iterator
from operator import methodcaller
from typing import Any

import backcast as bc
import numpy as np
import pytest

Call = Callable[[Any], Any]


class Foreign:
    """Array of another library, which NumPy converts."""

    def __init__(self, values: object) -> None:
        self.values = np.asarray(values)

    def __array__(
        self, dtype: np.dtype[Any] | None = None, copy: bool | None = None
    ) -> np.ndarray[Any, Any]:
        return self.values if dtype is None else self.values.astype(dtype)

    def __int__(self) -> int:
        return int(self.values)


@pytest.fixture
def buf() -> Iterator[bc.ReplayBuffer]:
    """Give a ring of two lanes of 40 rows. Their reward is the number of the lane.

    An index of lane 1 cut to 32 bits is the index of a row of lane 0.
    """
    with bc.ReplayBuffer.create(None, {"obs": "f4", "reward": "f4"}, capacity=200, lanes=2) as buf:
        with buf.writer(lanes=2, autoreset_mode="disabled") as writer:
            for t in range(40):
                writer.append(
                    obs=[t, t], reward=[0, 1], terminated=[False] * 2, truncated=[False] * 2
                )
        yield buf


def takers(buf: bc.ReplayBuffer) -> dict[str, Call]:
    """Return every call that takes indices of rows."""
    sampler = buf.sampler(seed=1, select=bc.Priority(alpha=1.0))
    table = buf.table("online", learned={"value": "f4"})
    order = buf.transitions()

    def ones(index: object) -> np.ndarray[Any, Any]:
        return np.ones(np.asarray(index).shape)

    return {
        "ReplayBuffer.gather": buf.gather,
        "ReplayBuffer.gather mask": lambda index: buf.gather(index, missing="mask"),
        "Sampler.gather": sampler.gather,
        "Sampler.update_priorities": lambda index: sampler.update_priorities(index, ones(index)),
        "LearnedTable.update_values": lambda index: table.update_values(index, value=ones(index)),
        "LearnedTable.values": table.values,
        "TransitionOrder.position_of": order.position_of,
    }


TAKERS = [
    "ReplayBuffer.gather",
    "ReplayBuffer.gather mask",
    "Sampler.gather",
    "Sampler.update_priorities",
    "LearnedTable.update_values",
    "LearnedTable.values",
    "TransitionOrder.position_of",
]

CUT: dict[str, Callable[[Any], Any]] = {
    **{code: methodcaller("astype", code) for code in ["i4", "u4", "i2", "u1"]},
    "big-endian i4": lambda index: index.astype(">i4"),
    "0-d": lambda index: index.astype("i4")[0],
    "another library's": lambda index: Foreign(index.astype("i4")),
    "array.array": lambda index: array.array("i", index.astype("i4").tolist()),
    "list of scalars": lambda index: list(index.astype("i4")),
    "one scalar among ints": lambda index: [*index.tolist()[:-1], index.astype("i4")[-1]],
    "a row among rows": lambda index: [index, index.astype("i4")],
    "tuple of others": lambda index: (index[0], Foreign(index.astype("i4")[1])),
    "f8": lambda index: index.astype("f8"),
    "f4": lambda index: index.astype("f4"),
}


def test_the_table_of_takers_is_complete(buf: bc.ReplayBuffer) -> None:
    assert list(takers(buf)) == TAKERS


@pytest.mark.parametrize("taker", TAKERS)
@pytest.mark.parametrize("form", CUT)
def test_a_narrow_index_is_refused_and_changes_nothing(
    buf: bc.ReplayBuffer, taker: str, form: str
) -> None:
    calls = takers(buf)
    index = buf.sampler(seed=2).sample(16).index
    given = CUT[form](index)
    with pytest.raises(bc.errors.SampleError, match=r"\b48\b.*batch\.index.*\bJAX\b"):
        calls[taker](given)
    assert not calls["LearnedTable.values"](index)["value_set"].any()
    assert [table["updated"] for table in buf.stats()["tables"]] == [0]


@pytest.mark.parametrize("taker", TAKERS)
def test_64_bits_and_python_integers_are_taken(buf: bc.ReplayBuffer, taker: str) -> None:
    call = takers(buf)[taker]
    index = np.array([3, 1 << 48 | 5])
    for given in [
        index,
        index.astype("u8"),
        index.astype(">i8"),
        index.tolist(),
        tuple(index.tolist()),
        list(index),
        list(index.astype("u8")),
        Foreign(index),
        array.array("q", index.tolist()),
        [Foreign(index[0]), int(index[1])],
    ]:
        call(given)


def test_a_mask_is_told_to_select_indices(buf: bc.ReplayBuffer) -> None:
    for call in takers(buf).values():
        with pytest.raises(bc.errors.SampleError, match=r"index\[mask\]"):
            call(np.array([True, False]))


def test_numbers_of_transitions_are_no_indices_of_rows(buf: bc.ReplayBuffer) -> None:
    # Positions in the transition order count from 0 without gaps, so any integer type that holds
    # the number of transitions is wide enough.
    order = buf.transitions()
    at = order.index_at(np.arange(len(order), dtype="u1"))
    np.testing.assert_array_equal(order.position_of(at), np.arange(len(order)))
