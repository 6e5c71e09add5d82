"""Priorities of the transitions that one learner added, drawn with NumPy's global generator."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from backcast.errors import SampleError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from backcast import Priority

# Smallest power, as in a table of priorities: every transition can be drawn.
_LEAST = 2.0**-24


class OwnPriorities:
    """Powers ``(priority + eps) ** alpha`` of the last ``steps`` steps of ``lanes`` environments.

    A draw sums all powers, so it takes time in proportion to them. With ``initial="held"`` a step
    does too, which finds the largest.
    """

    def __init__(self, select: Priority, steps: int, lanes: int) -> None:
        self._select = select
        self._powers = np.zeros((steps, lanes))
        #: Number of the step whose transitions have a place; -1 before there were any.
        self._step = np.full(steps, -1, np.int64)
        self._largest = 1.0
        self._batch = 0

    def enter(self, step: int) -> None:
        """Give the transitions of a new step the initial power of the options."""
        at = step % len(self._step)
        self._powers[at] = 0
        held = self._select.initial == "held"
        self._powers[at] = (self._powers.max() or 1.0) if held else self._largest
        self._step[at] = step

    def draw(self, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Draw places in proportion to their powers; return steps and environments."""
        sums = self._powers.cumsum()
        numbers = np.random.random_sample(count)
        if self._select.stratified:
            numbers = (np.arange(count) + numbers) / count
        chosen = np.searchsorted(sums, numbers * sums[-1], side="right")
        # A product that was rounded up to the sum is of the last transition that has a power.
        chosen = np.minimum(chosen, np.searchsorted(sums, sums[-1]))
        at, lanes = np.divmod(chosen, self._powers.shape[1])
        return at, lanes

    def weights(self, at: NDArray[np.int64], lanes: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the importance weights of a batch of places, and count the batch."""
        powers = self._powers[at, lanes]
        beta = self._beta()
        self._batch += 1
        least = powers.min(initial=np.inf)
        if self._select.normalize == "table":
            least = self._powers[self._step >= 0].min()
        weights: NDArray[np.float32] = ((least / powers) ** beta).astype(np.float32)
        return weights

    def index(self, at: NDArray[np.int64], lanes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the numbers of transitions, which no later one has."""
        return self._step[at] * self._powers.shape[1] + lanes

    def update(self, index: NDArray[np.int64], priorities: NDArray[np.float64]) -> int:
        """Set priorities; return how many were dropped because newer transitions came."""
        if index.shape != priorities.shape:
            raise SampleError(
                f"{priorities.size} priorities for {index.size} indices; give one for each index"
            )
        bad = np.flatnonzero(~(np.isfinite(priorities) & (priorities >= 0)))
        if bad.size:
            raise SampleError(
                f"priority[{bad[0]}] is {priorities[bad[0]]}; give finite numbers from 0 up, such "
                "as absolute TD errors"
            )
        step, lanes = np.divmod(index, self._powers.shape[1])
        at = step % len(self._step)
        there = (step >= 0) & (self._step[at] == step)
        powers = np.maximum((priorities[there] + self._select.eps) ** self._select.alpha, _LEAST)
        self._powers[at[there], lanes[there]] = powers
        self._largest = max(self._largest, powers.max(initial=0.0))
        return int(np.count_nonzero(~there))

    def _beta(self) -> float:
        beta = self._select.beta
        if callable(beta):
            number = float(beta(self._batch))
            if not 0 <= number <= 1:
                raise SampleError(f"beta is {number}; give 0 to 1: 0 corrects nothing, 1 all")
            return number
        if isinstance(beta, tuple):
            first, batches = beta
            return first + (1 - first) * min(1.0, self._batch / batches)
        return beta
