"""Strided windows: which transitions are drawn, uniformly, and what is refused.

The core compares every selector with a list of the rows.
"""

from __future__ import annotations

from typing import Any, Literal

import backcast as bc
import numpy as np
import pytest
from counted_ring import filled

ENDS = 17


@pytest.mark.parametrize("boundary", ["mask", "reject", "clamp"])
@pytest.mark.parametrize(("history", "stride"), [(1, 4), (5, 3), (8, 8), (4, 13)])
@pytest.mark.parametrize("select", ["uniform", bc.Priority(alpha=0.6)], ids=["uniform", "priority"])
def test_windows_start_every_stride_transitions_or_end_an_episode_and_are_drawn_alike(
    boundary: str, history: int, stride: int, select: str | bc.Priority
) -> None:
    buf = filled(steps=200, ends=ENDS)
    settings: dict[str, Any] = {
        "history": history,
        "stride": stride,
        "boundary": boundary,
        "select": select,
    }
    sampler = buf.sampler(seed=3, **settings)
    assert sampler.stride == stride
    drawn = sampler.sample(4_000)["action"][:, -1]
    last = ENDS - 1
    on = [s for s in range(199) if (s % ENDS - (history - 1)) % stride == 0 or s % ENDS == last]
    if boundary == "reject":
        on = [s for s in on if s % ENDS >= history - 1]
    places, counts = np.unique(drawn, return_counts=True)
    assert places.tolist() == on
    expected = 4_000 / len(on)
    # With n degrees of freedom chi-square exceeds n + 4 sqrt(2 n) once in about 10,000 seeds.
    chi2 = ((counts - expected) ** 2 / expected).sum()
    assert chi2 < len(on) + 4 * np.sqrt(2 * len(on)) + 8
    again = buf.sampler(state=buf.sampler(seed=3, **settings).state())
    assert again.stride == stride
    np.testing.assert_array_equal(again.sample(4_000)["action"][:, -1], drawn)


def test_named_rows_may_lie_between_and_impossible_strides_say_so() -> None:
    buf = filled(steps=60, ends=ENDS)
    every = buf.sampler(seed=1, history=2).sample(64)
    strided = buf.sampler(seed=1, history=2, stride=5)
    np.testing.assert_array_equal(strided.gather(every.index)["action"], every["action"])
    never = filled(steps=10, ends=ENDS).sampler(seed=1, history=40, stride=40)
    with pytest.raises(
        bc.SampleError, match=r"steps 39, 79, .* once it has ended; .* has 9 now; ask for a smaller"
    ):
        never.sample(4)
    with pytest.raises(bc.SampleError, match="stride is 0"):
        buf.sampler(stride=0)


@pytest.mark.parametrize("boundary", ["mask", "reject", "clamp"])
@pytest.mark.parametrize("length", [80, 81, 119, 120, 150, 159])
def test_the_windows_of_r2d2_show_every_step_of_every_episode(
    boundary: Literal["mask", "reject", "clamp"], length: int
) -> None:
    buf = filled(steps=6 * length + 9, ends=length, capacity=2_000)
    windows: dict[str, Any] = {"action": 80, "terminated": 80, "truncated": 80, "reward": "first"}
    sampler = buf.sampler(seed=7, history=windows, stride=40, boundary=boundary)
    batch = sampler.sample(2_000)
    seen = np.unique(batch["action"][batch.mask])
    assert set(range(6 * length)) <= set(seen.tolist())
    assert (batch["terminated"] | batch["truncated"]).any()
    # Selectors without chance agree on the windows: here all of them, in order.
    ends = np.unique(batch.index).size
    ordered = buf.sampler(history=windows, stride=40, boundary=boundary, select="fifo")
    np.testing.assert_array_equal(ordered.sample(ends).index, np.unique(batch.index))
