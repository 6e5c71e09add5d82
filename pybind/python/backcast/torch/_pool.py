"""Batches on the host that a sampler fills again once their copies to a device have ended."""

from __future__ import annotations

import os
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from backcast import Batch
from backcast._calls import levels_up
from backcast._trees import flat, nested

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from backcast.torch._transfer import Copy, Transfer

# Alignment of each array: a cache line, and a multiple of every item size.
_ALIGNMENT = 64


class PoolBatch(Batch):
    """Batch of arrays in the memory of a pool."""

    __slots__ = ("place", "pool")

    pool: Pool
    place: int


class Pool:
    """A few batches of equal arrays in one piece of page-locked memory.

    A batch is *busy* from the beginning of a copy until its end. Memory that a copy reads must not
    be written to: ask `wait` or `take_done` before a batch is filled again.
    """

    def __init__(self, blank: Batch, count: int, transfer: Transfer) -> None:
        fields, size = _layout(blank)
        memory, release, self.fault = transfer.allocate(size * count)
        if self.fault is not None:
            warnings.warn(
                f"batches for the GPU are not in memory that Backcast page-locked: {self.fault}",
                RuntimeWarning,
                stacklevel=levels_up(),
            )
        self._transfer = transfer
        self.batches = [self._batch(fields, memory, place, size) for place in range(count)]
        self._busy: dict[int, Copy | None] = {}
        # Runs before the memory is freed, which the arguments keep; at exit at the latest.
        arguments = (self._busy, transfer, release, memory, os.getpid())
        self._finalizer = weakref.finalize(self, _release, *arguments)

    def _batch(
        self,
        fields: list[tuple[str, NDArray[Any], int]],
        memory: NDArray[np.uint8],
        place: int,
        size: int,
    ) -> PoolBatch:
        arrays = (
            (name, np.ndarray(like.shape, like.dtype, memory[place * size + offset :].data))
            for name, like, offset in fields
        )
        batch = PoolBatch(nested(arrays))
        # A reference to the pool itself would be a cycle, which ends at some later time.
        batch.pool = weakref.proxy(self)
        batch.place = place
        return batch

    def begin(self, batch: PoolBatch) -> tuple[dict[str, Any], Copy]:
        """Begin to copy a batch. Return the tensors and the copy."""
        # Until the copy has an event, an exception or Ctrl-C leaves it to `drain`.
        self._busy[batch.place] = None
        tensors, copy = self._transfer.begin(batch)
        self._busy[batch.place] = copy
        return tensors, copy

    @property
    def busy(self) -> list[int]:
        """Numbers of the busy batches, the oldest copy first."""
        return list(self._busy)

    def wait(self, place: int) -> None:
        """Wait until a batch is not busy."""
        if place not in self._busy:
            return
        copy = self._busy[place]
        if copy is None:
            self._transfer.drain()
        else:
            copy.finish()
        del self._busy[place]

    def take_done(self, places: Iterator[int]) -> list[int]:
        """Return those of `places` that are not busy, or not any more."""
        done = []
        for place in places:
            copy = self._busy.get(place)
            if place in self._busy and (copy is None or not copy.is_done()):
                continue
            self._busy.pop(place, None)
            done.append(place)
        return done

    def close(self) -> None:
        """Wait for all copies, and end the page lock."""
        self._finalizer()


def _release(
    busy: dict[int, Copy | None],
    transfer: Transfer,
    release: Callable[[], None],
    _memory: NDArray[np.uint8],
    pid: int,
) -> None:
    # The copies and the page lock of a parent are not a forked child's.
    if os.getpid() != pid:
        return
    if busy:
        transfer.drain()
        busy.clear()
    release()


def _layout(blank: Batch) -> tuple[list[tuple[str, NDArray[Any], int]], int]:
    """Return name, array to be like, and offset of each array of a batch; and its whole size."""
    fields = []
    size = 0
    for name, array in flat(blank):
        fields.append((name, array, size))
        size += -(-array.nbytes // _ALIGNMENT) * _ALIGNMENT
    return fields, size
