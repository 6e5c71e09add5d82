"""Small ring whose observations hold the number of their step, for the tests of sampling."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import backcast as bc
import numpy as np
from numpy.typing import NDArray

COLUMNS = {"obs": {"x": ("f4", (3,)), "n": "i8"}, "action": "i4", "reward": "f4"}


def filled(steps: int = 200, ends: int = 17, capacity: int = 400) -> bc.ReplayBuffer:
    """Return a ring of episodes of ``ends`` steps, which end terminated and truncated in turn."""
    buf = bc.ReplayBuffer.create(None, COLUMNS, capacity=capacity)
    write(buf, steps, ends)
    return buf


def write(buf: bc.ReplayBuffer, steps: int, ends: int = 17) -> None:
    """Append steps; the observation ``n`` is the number of the step, from 0."""
    with warnings.catch_warnings(), buf.writer(autoreset_mode="same_step") as writer:
        # The first observation of an episode equals the final one of the episode before. A
        # WriterWarning reports that as a sign of the wrong autoreset mode.
        warnings.simplefilter("ignore", bc.errors.WriterWarning)
        for step in range(steps):
            over, odd = step % ends == ends - 1, step // ends % 2 == 1
            obs = {"x": [step, step + 0.25, step + 0.5], "n": step}
            last = {"x": [step + 1, step + 1.25, step + 1.5], "n": step + 1}
            writer.append(
                obs=obs,
                action=step,
                reward=step / 8,
                terminated=over and not odd,
                truncated=over and odd,
                final_obs=last if over else None,
            )


def flat(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the arrays of a batch under their full names."""
    for key, value in values.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{key}/")
        else:
            yield f"{prefix}{key}", value


def assert_equal(batch: dict[str, Any], other: dict[str, Any]) -> None:
    """Compare all arrays of two batches."""
    left, right = dict(flat(batch)), dict(flat(other))
    assert list(left) == list(right)
    for key, array in left.items():
        np.testing.assert_array_equal(array, right[key], err_msg=key)
