"""Rows that every contender stores, and the checks that each drawn batch passes before timing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from replay.workloads import (
    ACTION,
    BATCH,
    EPISODE,
    FUTURE,
    HISTORY,
    MANY,
    OBS,
    SHAPE,
    STACK,
    STEP_OBS,
    Frame,
    Transition,
    frames,
    numbers,
    observations,
    transitions,
)

Array = npt.NDArray[Any]
Row = tuple[Any, Any, Any, Any, Any]
"""One transition in the order of `Transition`, as plain NumPy values."""

FRAMES: Final = 20_000
SHARED: Final = 65_536
"""Rows of a buffer that two processes share."""
FEWER: Final = 100_000
"""Rows of a contender that needs several kilobytes for each."""
WINDOW: Final = HISTORY + FUTURE
COLUMNS: Final[dict[str, tuple[tuple[int, ...], type]]] = {
    "obs": ((OBS,), np.float32),
    "action": ((ACTION,), np.float32),
    "reward": ((), np.float32),
    "next_obs": ((OBS,), np.float32),
    "done": ((), np.bool_),
}
"""Shape and type of each column of a transition, in the order of `Transition`."""


def several() -> list[Transition]:
    """Make consecutive steps of `MANY` environments; after the last one they begin again."""
    return transitions(500, (MANY,))


def singles() -> list[list[Row]]:
    """Make lists of `BATCH` transitions of one environment; the very last one ends an episode."""
    steps: list[Row] = [
        (step.obs, step.action, step.reward, step.next_obs, step.done)
        for step in transitions(16 * BATCH)
    ]
    steps[-1] = (*steps[-1][:4], np.True_)
    return [steps[i : i + BATCH] for i in range(0, len(steps), BATCH)]


def episodes_of_frames(count: int) -> Iterator[Frame]:
    """Make `count` frames, an array ``[EPISODE, 84, 84]`` for each episode."""
    some = frames(count)
    for _ in range(count // EPISODE):
        yield np.stack([next(some).copy() for _ in range(EPISODE)])


def episodes_of_observations(count: int) -> Iterator[npt.NDArray[np.float32]]:
    """Make `count` observations, an array ``[EPISODE, 32]`` for each episode."""
    obs = observations(0, count)
    yield from obs.reshape(-1, EPISODE, STEP_OBS)


def torn(obs: Array, next_obs: Array) -> int:
    """Count rows whose next observation is not the successor of their observation."""
    here = obs.reshape(len(obs), -1)[:, 0]
    there = next_obs.reshape(len(obs), -1)[:, 0]
    # The steps of `several` begin again with number 0.
    return int(((there != here + 1) & (there != 0)).sum())


def check_transitions(obs: Array, next_obs: Array) -> None:
    """Fail unless both are batches of successive observations."""
    for of in (obs, next_obs):
        assert of.shape == (BATCH, OBS), of.shape
        assert of.dtype == np.float32, of.dtype
    assert torn(obs, next_obs) == 0, "next_obs is not the successor of obs"
    assert len(np.unique(obs[:, 0])) > BATCH // 8, "rows are not drawn at random"


def check_stacks(stacks: Array, after: Array) -> None:
    """Fail unless both are batches of stacks, oldest frame first, one step apart."""
    for of in (stacks, after):
        assert of.shape == (BATCH, STACK, *SHAPE), of.shape
        assert of.dtype == np.uint8, of.dtype
    before, then = numbers(stacks).astype(int), numbers(after).astype(int)
    # The first stacks of an episode may repeat its first frame.
    assert (np.diff(before, axis=1) <= 1).all(), "frames of a stack do not follow one another"
    assert (before[:, 1:] == then[:, :-1]).all(), "the next stack is not one step later"
    assert len(np.unique(before[:, -1])) > BATCH // 2, "stacks are not drawn at random"


def check_windows(windows: Array) -> None:
    """Fail unless these are windows of consecutive observations."""
    assert windows.shape == (BATCH, WINDOW, STEP_OBS), windows.shape
    assert (np.diff(windows[:, :, 0], axis=1) == 1).all(), "rows of a window do not follow on"
    assert len(np.unique(windows[:, 0, 0])) > BATCH // 2, "windows are not drawn at random"
