"""Positions of a storage's elements in the rows of its ring."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from backcast.errors import ArgumentError
from backcast.torchrl._layout import nested

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from backcast import ReplayBuffer

# Rows whose numbers are read at a time.
_CHUNK = 1 << 16


class Places:
    """Where the newest element of each position lies.

    Elements are numbered; the one with the number ``n`` has the position ``n % max_size``. The
    numbers are in the ring, so every process finds the elements that others stored.
    """

    def __init__(self, ring: ReplayBuffer, max_size: int, number: str) -> None:
        self._ring = ring
        self._max_size = max_size
        self._column = number
        #: Index of the row of each position; -1 where there is none.
        self.index = np.full(max_size, -1, np.int64)
        self._number = np.full(max_size, -1, np.int64)
        self._count = 0
        self._newest = -1
        # Rows below it were read, but for the newest one, which may be no transition yet.
        self._read = 0
        self._low = 0

    def __len__(self) -> int:
        """Return how many positions have an element."""
        return self._count

    @property
    def next_number(self) -> int:
        """Number of the next element."""
        return self._newest + 1

    @property
    def last_position(self) -> int | None:
        """Position of the newest element; None if there is none."""
        return self._newest % self._max_size if self._count else None

    def numbers(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the numbers of new elements, whose positions must follow the newest one."""
        size, expected = self._max_size, self.next_number
        start = int(positions[0])
        skipped = (start - expected) % size
        numbers = expected + skipped + np.arange(positions.size, dtype=np.int64)
        # Only a longer `extend` than the storage skips positions: those of its first elements.
        allowed = skipped == 0 or positions.size == size
        if allowed and not (numbers % size != positions).any():
            return np.asarray(numbers, np.int64)
        if not self._count and self._newest >= 0 and expected % size == 0:
            raise ArgumentError(
                f"position {start} does not follow: the ring was cleared meanwhile, and positions "
                "begin at 0 again; store the elements again, as the buffer begins there now"
            )
        raise ArgumentError(
            f"position {start} does not follow the newest one, after which {expected % size} is "
            "next; a ring is written round robin: use TensorDictRoundRobinWriter, and one buffer "
            "with shared=True in all processes that write"
        )

    def add(self, numbers: NDArray[np.int64], index: NDArray[np.int64]) -> None:
        """Note where elements lie, in the order of their numbers."""
        at = numbers % self._max_size
        newer = numbers > self._number[at]
        numbers, index, at = numbers[newer], index[newer], at[newer]
        if not numbers.size:
            return
        self._count += np.unique(at[self._number[at] < 0]).size
        self._number[at] = numbers
        self.index[at] = index
        self._newest = max(self._newest, int(numbers[-1]))

    def skip_to(self, number: int) -> None:
        """Give the next element this number, if it would have a smaller one."""
        self._newest = max(self._newest, number - 1)

    def forget(self) -> None:
        """Forget all elements; later ones get numbers of their own from position 0 on."""
        self.index[:] = -1
        self._number[:] = -1
        self._count = 0
        laps = -(-(self._newest + 1) // self._max_size)
        self._newest = laps * self._max_size - 1

    def refresh(self) -> None:
        """Find the elements that other handles and processes stored or dropped."""
        low, head = self._ring.lane_span(0)
        if low > self._low:
            if low > head - self._ring.lane_capacity:
                # Rows were dropped, and not overwritten.
                self._drop_below(low)
            self._low = low
        start = max(self._read, low)
        while start < head:
            stop = min(start + _CHUNK, head)
            rows = np.arange(start, stop, dtype=np.int64)
            batch = self._ring.gather(rows, columns=[self._column], missing="mask")
            found = batch.found
            numbers = nested(batch, self._column)[found]
            self.add(np.asarray(numbers, np.int64), rows[found])
            start = stop
        self._read = max(self._read, head - 1)

    def _drop_below(self, low: int) -> None:
        gone = (self.index >= 0) & (self.index < low)
        if not gone.any():
            return
        self.index[gone] = -1
        self._number[gone] = -1
        self._count = int(np.count_nonzero(self.index >= 0))
        if not self._count:
            self.forget()
