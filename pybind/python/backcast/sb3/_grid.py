"""SB3's arrays, ``[buffer_size, n_envs, ...]``, read from a ring when they are indexed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from backcast.errors import ArgumentError, LappedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from backcast.sb3._stored import Rows, Stored


class Grid:
    """Reads transitions of one buffer for its columns, and caches the last ones read."""

    def __init__(self, stored: Stored) -> None:
        self._stored = stored
        self._last: tuple[int, NDArray[Any], NDArray[Any], Rows] | None = None

    def __reduce__(self) -> tuple[type[Grid], tuple[Stored]]:
        """Pickle without the rows that were read."""
        return type(self), (self._stored,)

    @property
    def shape(self) -> tuple[int, int]:
        """Steps and environments."""
        return self._stored.steps, self._stored.lanes

    def places(self, key: Any) -> tuple[NDArray[np.int64], NDArray[np.int64], Any]:
        """Return the steps and environments that an index names, and the rest of the index."""
        key = key if isinstance(key, tuple) else (key,)
        if any(part is None or part is Ellipsis for part in key[:2]):
            raise ArgumentError("index steps and environments, without None and Ellipsis")
        steps, lanes = self.shape
        at = np.broadcast_to(np.arange(steps)[:, None], self.shape)[key[:2]]
        of = np.broadcast_to(np.arange(lanes), self.shape)[key[:2]]
        return np.asarray(at), np.asarray(of), key[2:]

    def rows(self, at: NDArray[np.int64], lanes: NDArray[np.int64]) -> Rows:
        """Return the transitions at some places; zero where nothing was added yet."""
        version = self._stored.added
        if self._last is not None:
            then, last_at, last_lanes, rows = self._last
            if (
                then == version
                and np.array_equal(last_at, at)
                and np.array_equal(last_lanes, lanes)
            ):
                return rows
        rows = self.fetch(at.ravel(), lanes.ravel())
        self._last = (version, at.copy(), lanes.copy(), rows)
        return rows

    def fetch(self, at: NDArray[np.int64], lanes: NDArray[np.int64]) -> Rows:
        """Read the transitions at some places from the ring; zero where nothing was added yet."""
        rows, found = self._stored.take(at, lanes)
        lost = ~found & (at < self._stored.added)
        if lost.any():
            first = int(np.flatnonzero(lost)[0])
            raise LappedError(
                f"step {at[first]} of environment {lanes[first]} was overwritten by newer rows; an "
                "episode takes a row more than it has transitions, so give the buffer a larger "
                "capacity"
            )
        return rows

    def cut(self, at: NDArray[np.int64], lanes: NDArray[np.int64]) -> None:
        """End the episodes of `lanes` at their newest transitions; refuse other steps."""
        stored = self._stored
        if not at.size or (at != (stored.added - 1) % stored.steps).any() or not stored.added:
            refuse_writes()
        chosen = np.zeros(stored.lanes, bool)
        chosen[lanes] = True
        stored.cut(chosen)
        self._last = None


class Column:
    """Stands in for one of SB3's arrays: indexing it copies rows from the ring."""

    def __init__(
        self,
        grid: Grid,
        part: Callable[[Rows], NDArray[Any]],
        shape: tuple[int, ...],
        dtype: Any,
        ends: bool = False,
    ) -> None:
        self._grid = grid
        self._part = part
        self.shape = (*grid.shape, *shape)
        self.dtype = np.dtype(dtype)
        self._ends = ends

    def __len__(self) -> int:
        """Return the number of steps."""
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        """Return a copy; the first two parts of the index are steps and environments."""
        at, lanes, rest = self._grid.places(key)
        values = self._part(self._grid.rows(at, lanes))
        values = values.reshape((*at.shape, *self.shape[2:])).astype(self.dtype, copy=True)
        return values[(slice(None),) * at.ndim + rest] if rest else values[()]

    def __setitem__(self, key: Any, value: Any) -> None:
        """End episodes at their newest transitions; refuse every other assignment."""
        if not self._ends or not np.all(value):
            refuse_writes()
        at, lanes, rest = self._grid.places(key)
        if rest:
            refuse_writes()
        self._grid.cut(at.ravel(), lanes.ravel())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Copy the whole column."""
        if copy is False:
            raise ValueError("the transitions are in a ring, not in an array; they are copied out")
        return np.asarray(self[:], dtype)

    def __repr__(self) -> str:
        """Show the shape."""
        return f"<backcast.sb3 column: {self.dtype} {list(self.shape)}>"


def refuse_writes() -> NoReturn:
    """Raise the error of an assignment to a transition."""
    raise ArgumentError(
        "rows of a ring are written once, and other processes may be reading them; only the newest "
        "transition's dones can be set to True, which ends its episode there"
    )
