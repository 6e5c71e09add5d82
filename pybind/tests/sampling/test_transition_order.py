"""Transition order: the transitions of a ring, numbered without gaps."""

from __future__ import annotations

from typing import Any

import backcast as bc
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

LANES = 2


def listed(buf: bc.ReplayBuffer) -> list[int]:
    """Return the indices of all transitions, found in the rows of every lane."""
    found = []
    for lane in range(LANES):
        first, end = buf.lane_span(lane)
        flags = buf.rows(lane, first, end - first)["flags"]
        starts = (flags[:-1] & 4 == 0) & (flags[1:] & 8 == 0)
        found += [lane << 48 | int(first + at) for at in np.flatnonzero(starts)]
    return found


Append = tuple[int, bool]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 25), st.booleans()), max_size=12))
def test_numbers_are_those_of_a_list(appends: list[Append]) -> None:
    with bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=60, lanes=LANES) as buf:
        order = buf.transitions()
        for rows, leave in appends:
            with buf.writer(LANES, "next_step") as writer:
                for row in range(rows):
                    ends = np.full(LANES, not leave and row == rows - 1)
                    writer.append(obs=[row] * LANES, terminated=ends, truncated=~ends & False)
            order.refresh()
            expected = listed(buf)
            assert len(order) == len(expected) == len(buf)
            numbers = np.arange(len(expected))
            np.testing.assert_array_equal(order.index_at(numbers), expected)
            np.testing.assert_array_equal(order.position_of(expected), numbers)
        order.close()


def ring() -> bc.ReplayBuffer:
    """Create a ring whose row 3 is FINAL, and whose row 5 has no successor."""
    buf = bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=100)
    with buf.writer(autoreset_mode="next_step") as writer:
        for t in range(6):
            writer.append(obs=t, terminated=t == 2, truncated=False)
    return buf


def test_transitions_that_are_not_there_are_refused_or_masked() -> None:
    order = ring().transitions()
    assert order.index_at([3, 4, -1], missing="mask").tolist() == [4, -1, -1]
    assert order.position_of([4, 3, 5, -1, 1 << 48], missing="mask").tolist() == [3, *[-1] * 4]
    cases: list[tuple[Any, str]] = [
        (lambda: order.index_at([0, 4]), r"position\[1\].*\b4\b"),
        (lambda: order.position_of([4, 3]), r"index\[1\].*\b3\b"),
        (
            lambda: order.position_of([4], missing="other"),  # type: ignore[arg-type]
            r"\bmissing\b.*'other'",
        ),
    ]
    for call, part in cases:
        with pytest.raises(bc.BackcastError, match=part):
            call()
    order.close()
    with pytest.raises(bc.ClosedError, match="`transitions`"):
        order.index_at([0])


def test_numbers_stay_until_they_are_refreshed() -> None:
    buf = ring()
    order = buf.transitions()
    with buf.writer(autoreset_mode="next_step") as writer:
        for t in range(200):
            writer.append(obs=t, terminated=False, truncated=False)
    assert len(order) == 4
    assert order.index_at([0]).tolist() == [0]
    assert not buf.gather(order.index_at([0]), missing="mask")["found"].any()
    order.refresh()
    assert len(order) == len(buf)
    oldest = order.index_at([0])
    assert order.position_of(oldest).tolist() == [0]
    assert buf.gather(oldest)["obs"].shape == (1,)
