"""Strided windows: which transitions are drawn, uniformly, and what is refused."""

from __future__ import annotations

from typing import Any

import backcast as bc
import numpy as np
import pytest
from counted_ring import filled

ENDS = 17


@pytest.mark.parametrize("boundary", ["mask", "reject", "clamp"])
@pytest.mark.parametrize(("history", "stride"), [(1, 4), (5, 3), (8, 8), (4, 13)])
@pytest.mark.parametrize("priority", [None, 0.6])
def test_windows_start_every_stride_transitions_and_all_are_drawn_alike(
    boundary: str, history: int, stride: int, priority: float | None
) -> None:
    buf = filled(steps=200, ends=ENDS)
    settings: dict[str, Any] = {
        "history": history,
        "stride": stride,
        "boundary": boundary,
        "priority": priority,
    }
    sampler = buf.sampler(seed=3, **settings)
    assert sampler.stride == stride
    drawn = sampler.sample(4_000)["action"][:, -1]
    on = [s for s in range(199) if (s % ENDS - (history - 1)) % stride == 0]
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
    never = buf.sampler(seed=1, history=40, stride=40)
    with pytest.raises(
        bc.SampleError, match=r"steps 39, 79, .* longest .* 17 now; ask for a smaller"
    ):
        never.sample(4)
    with pytest.raises(bc.SampleError, match="stride is 0"):
        buf.sampler(stride=0)
