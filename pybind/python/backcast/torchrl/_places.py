"""Positions of a storage's elements in the rows of its ring."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from backcast._trees import value_at
from backcast.errors import ArgumentError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from backcast import ReplayBuffer

# Rows whose positions are read at a time.
_CHUNK = 1 << 16


class Places:
    """Where the newest element of each position lies.

    Each row has the position of its element. Of two rows with one position the later one counts,
    and the next position is the one after that of the newest row, or 0 in a ring without elements.
    All of it is in the ring, so every process finds the same.
    """

    def __init__(self, ring: ReplayBuffer, max_size: int, column: str) -> None:
        self._ring = ring
        self._max_size = max_size
        self._column = column
        #: Index of the row of each position; -1 where there is none.
        self.index = np.full(max_size, -1, np.int64)
        self._count = 0
        # Index of the row of the newest element, and its position; -1 if there is none.
        self._newest = self._last = -1
        # Where the elements begin while there are none.
        self._first = 0
        # Rows below it are known. The newest one may be no transition yet.
        self._read = 0
        self._span = (0, 0)

    def __len__(self) -> int:
        """Return how many positions have an element."""
        return self._count

    @property
    def next_position(self) -> int:
        """Position of the next element."""
        return (self._last + 1) % self._max_size if self._count else self._first

    @property
    def last_position(self) -> int | None:
        """Position of the newest element; None if there is none."""
        return self._last if self._count else None

    def check(self, positions: NDArray[np.int64]) -> None:
        """Refuse positions of new elements that do not follow the newest one."""
        size, expected = self._max_size, self.next_position
        start = int(positions[0])
        # Only a longer `extend` than the storage skips positions: those of its first elements.
        follows = start == expected or positions.size == size
        if follows and not ((start + np.arange(positions.size)) % size != positions).any():
            return
        if not self._count and self._span[1] and expected == 0:
            raise ArgumentError(
                f"position {start} does not follow: the ring was cleared meanwhile, and positions "
                "begin at 0 again; store the elements again, as the buffer begins there now"
            )
        raise ArgumentError(
            f"position {start} does not follow the newest one, after which {expected} is "
            "next; a ring is written round robin: use TensorDictRoundRobinWriter, and one buffer "
            "with shared=True in all processes that write"
        )

    def add(self, positions: NDArray[np.int64], index: NDArray[np.int64]) -> None:
        """Note where elements lie, in the order of their rows."""
        later = index > self.index[positions]
        positions, index = positions[later], index[later]
        if not positions.size:
            return
        self._count += np.unique(positions[self.index[positions] < 0]).size
        # The last row of a position counts.
        self.index[positions] = index
        if index[-1] > self._newest:
            self._newest, self._last = int(index[-1]), int(positions[-1])

    def begin_at(self, position: int) -> None:
        """Let the first element have this position, in a ring without elements."""
        self._first = position

    def refresh(self) -> None:
        """Find the elements that other handles and processes stored or dropped."""
        low, head = span = self._ring.lane_span(0)
        # A row becomes a transition only by the next one.
        if span == self._span:
            return
        dropped = low > self._span[0] and low > head - self._ring.lane_capacity
        # Writes after a clear may hide it: they fill the ring. No known element is left then.
        if dropped or (self._count and self._newest < low):
            self._drop_below(low)
        self._span = span
        start = max(self._read, low)
        while start < head:
            stop = min(start + _CHUNK, head)
            rows = np.arange(start, stop, dtype=np.int64)
            batch = self._ring.gather(rows, columns=[self._column], missing="mask")
            found = batch.found
            assert found is not None
            # Rings of earlier versions have numbers that go on behind the last position.
            positions = np.asarray(value_at(batch, self._column)[found], np.int64) % self._max_size
            self.add(positions, rows[found])
            self._read = stop if found[-1] else stop - 1
            start = stop

    def _drop_below(self, low: int) -> None:
        gone = (self.index >= 0) & (self.index < low)
        self.index[gone] = -1
        self._count = int(np.count_nonzero(self.index >= 0))
        self._first = 0
