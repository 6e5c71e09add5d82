"""Columns on a device, and the rows of windows in them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from backcast.errors import SpaceError
from backcast.torch._tensors import tensor_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Integers that stand for values of as many bytes: PyTorch gathers these of every width.
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

_SEQ = (1 << 48) - 1


class Table:
    """A column on a device. Row 0 is zero and stands for places that are masked."""

    def __init__(
        self, rows: int, shape: tuple[int, ...], dtype: np.dtype[Any], device: torch.device
    ) -> None:
        self._dtype = tensor_of(np.zeros(1, dtype)).dtype
        self._bits = torch.zeros((rows, *shape), dtype=_BITS[dtype.itemsize], device=device)

    @property
    def nbytes(self) -> int:
        return int(self._bits.nbytes)

    def store(self, rows: NDArray[np.int64], values: NDArray[Any]) -> None:
        """Store values of the host at rows."""
        bits = tensor_of(np.ascontiguousarray(values)).view(self._bits.dtype)
        device = self._bits.device
        self._bits.index_copy_(0, torch.from_numpy(rows).to(device), bits.to(device))

    def at(self, rows: torch.Tensor) -> torch.Tensor:
        """Return the values at rows, of the shape of `rows` and then of a value."""
        found = self._bits.index_select(0, rows.reshape(-1))
        return found.view(self._dtype).reshape(*rows.shape, *self._bits.shape[1:])


class RowMap:
    """Rows of the tables for the transitions of a ring: lane after lane, each with a successor."""

    def __init__(self, index: NDArray[np.int64], device: torch.device) -> None:
        lane, seq = index >> 48, index & _SEQ
        lanes = int(lane.max()) + 1
        first, span = np.zeros(lanes, np.int64), np.zeros(lanes, np.int64)
        for number in np.unique(lane):
            rows = seq[lane == number]
            # The last transition has a successor, which is no transition.
            first[number], span[number] = rows.min(), rows.max() - rows.min() + 2
        # Row 0 is the row of zeros.
        base = 1 + np.cumsum(span) - span
        self.count = 1 + int(span.sum())
        self._host = base - first
        self._first, self._span, self._offset = (
            torch.from_numpy(array).to(device) for array in (first, span, base - first)
        )

    def numbers(self, index: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows of transitions that were copied."""
        found: NDArray[np.int64] = self._host[index >> 48] + (index & _SEQ)
        return found

    def of(self, index: torch.Tensor) -> torch.Tensor:
        """Return the rows of indices; 0 for those of other rows of the ring."""
        lane, seq = index >> 48, index & _SEQ
        known = (lane >= 0) & (lane < len(self._first))
        lane = torch.where(known, lane, 0)
        place = seq - self._first[lane]
        known &= (place >= 0) & (place < self._span[lane])
        return torch.where(known, self._offset[lane] + seq, 0)

    def flags(self, index: NDArray[np.int64]) -> torch.Tensor:
        """Return a flag for each row of the tables, which is set for the rows of `index`."""
        flags = np.zeros(self.count, np.bool_)
        flags[self.numbers(index)] = True
        return torch.from_numpy(flags).to(self._first.device)

    def spread(self, index: NDArray[np.int64], values: NDArray[np.int64]) -> torch.Tensor:
        """Return a number for each row of the tables: that of its transition, or 0."""
        numbers = np.zeros(self.count, np.int64)
        numbers[self.numbers(index)] = values
        return torch.from_numpy(numbers).to(self._first.device)


class WindowRows:
    """Rows of windows around transitions."""

    def __init__(
        self,
        rows: RowMap,
        index: NDArray[np.int64],
        before: NDArray[np.int64],
        after: NDArray[np.int64],
        steps: NDArray[np.int64] | None,
        *,
        history: int,
        future: int,
        clamp: bool,
        device: torch.device,
    ) -> None:
        self._before, self._after = rows.spread(index, before), rows.spread(index, after)
        self._steps = None if steps is None else rows.spread(index, steps)
        self._back = torch.arange(1 - history, 1, device=device) if history else None
        self._ahead = torch.arange(1, future + 1, device=device) if future else None
        self._clamp = clamp

    def around(self, rows: torch.Tensor) -> Windows:
        """Return the rows of the windows around `rows`."""
        windows = Windows({"drawn": rows, "obs_drawn": rows, "next_drawn": rows + 1})
        if self._steps is not None:
            windows.rows["after_steps"] = rows + self._steps[rows]
        if self._back is not None:
            first = rows - self._before[rows]
            windows.mask = self._add(windows, "history", self._back, first, None)
        if self._ahead is not None:
            last = rows + self._after[rows]
            windows.future_mask = self._add(windows, "future", self._ahead, None, last)
        return windows

    def _add(
        self,
        windows: Windows,
        name: str,
        offsets: torch.Tensor,
        first: torch.Tensor | None,
        last: torch.Tensor | None,
    ) -> torch.Tensor:
        """Add the rows of a window that begins or ends with a transition. Return its mask."""
        rows = windows.rows["drawn"][:, None] + offsets
        if first is not None:
            mask = rows >= first[:, None]
        else:
            assert last is not None, "a window has one end besides the drawn transition"
            mask = rows <= last[:, None]
        zero = torch.zeros((), dtype=rows.dtype, device=rows.device)
        windows.rows[name] = torch.where(mask, rows, zero)
        for kind, obs in (("obs", rows), ("next", rows + 1)):
            if not self._clamp:
                shown = torch.where(mask, obs, zero)
            elif first is not None:
                shown = torch.maximum(obs, first[:, None])
            else:
                assert last is not None, "see above"
                # The observation after the last transition is the last of the episode.
                shown = torch.minimum(obs, last[:, None] + 1)
            windows.rows[f"{kind}_{name}"] = shown
        return mask


@dataclass
class Windows:
    """Rows of the entries of a batch, by their kind, and its masks."""

    rows: dict[str, torch.Tensor]
    mask: torch.Tensor | None = None
    future_mask: torch.Tensor | None = None


@contextmanager
def room_for(size: int, device: torch.device, what: str) -> Iterator[None]:
    """Refuse what does not fit the memory of a device, before or while it is allocated."""
    free = _free_memory(device)
    remedy = "copy fewer columns with columns=, or a smaller ring, or draw with a Sampler"
    if free is not None and size > free:
        raise SpaceError(
            f"{what} take {_shown(size)}, and {device} has {_shown(free)} free; {remedy}"
        )
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        text = str(error)
        if isinstance(error, MemoryError | torch.OutOfMemoryError) or "allocate" in text:
            raise SpaceError(
                f"{what} take {_shown(size)}, which {device} cannot allocate; {remedy}"
            ) from error
        raise


def _free_memory(device: torch.device) -> int | None:
    """Return the bytes that tensors can still have on a device, or None if that is unknown."""
    if device.type != "cuda":
        return None
    free, _ = torch.cuda.mem_get_info(device)
    # PyTorch keeps freed memory for later tensors.
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(free + kept)


def _shown(size: int) -> str:
    """Return a size in words."""
    for unit, bits in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if size >= 1 << bits:
            return f"{size / (1 << bits):.1f} {unit}"
    return f"{size} B"
