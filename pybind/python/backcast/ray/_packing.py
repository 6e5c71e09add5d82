"""Batches as a few runs of bytes, and back.

Windows of ``obs`` and ``next_obs`` are views of one array, which is sent once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from backcast._trees import flat, nested

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Column:
    """An array of a batch, as a view of one of its memories.

    Parameters
    ----------
    name : str
        Its name, with ``/`` between the keys that lead to it.
    dtype : dtype
        Its dtype.
    shape : tuple of int
        Its shape, without the axis of items.
    strides : tuple of int
        Its strides, with that of items.
    memory : int
        Number of the memory.
    offset : int
        Byte of an item's part of the memory at which it begins.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    memory: int
    offset: int


@dataclass(frozen=True)
class Packed:
    """Items of a batch: columns, and the memories that they are views of.

    Parameters
    ----------
    columns : tuple of Column
        The arrays.
    items : int
        Items.
    memories : list of ndarray of uint8
        Bytes of the items, memory by memory.
    """

    columns: tuple[Column, ...]
    items: int
    memories: list[Bytes]

    @property
    def nbytes(self) -> int:
        """Bytes of the memories."""
        return sum(memory.nbytes for memory in self.memories)

    def batch(self) -> dict[str, Any]:
        """Return the items as nested arrays, which are views of the memories."""
        arrays = ((column.name, self._array(column)) for column in self.columns)
        found: dict[str, Any] = nested(arrays)
        return found

    def _array(self, column: Column) -> NDArray[Any]:
        shape = (self.items, *column.shape)
        if 0 in shape:
            return np.empty(shape, column.dtype)
        memory = self.memories[column.memory]
        return np.ndarray(shape, column.dtype, memory.data, column.offset, column.strides)


class _Address:
    """Bytes of the memory behind arrays, which it keeps."""

    def __init__(self, arrays: list[NDArray[Any]], begin: int, end: int) -> None:
        self.arrays = arrays
        self.__array_interface__ = {
            "data": (begin, True),
            "shape": (end - begin,),
            "typestr": "|u1",
            "version": 3,
        }


def pack(batch: Mapping[str, Any], parts: int) -> list[Packed]:
    """Split a batch into parts of about as many items, which share its memory.

    Parameters
    ----------
    batch : mapping
        Nested arrays with one leading axis.
    parts : int
        Parts, at least 1.

    Returns
    -------
    list of Packed
        As many as ``parts``; the last ones may have no items.
    """
    arrays = [(name, _forward(value)) for name, value in flat(batch)]
    items = len(arrays[0][1])
    groups = _memories([array for _, array in arrays])
    columns: list[Column | None] = [None] * len(arrays)
    bounds = []
    for number, (members, begin, end) in enumerate(groups):
        for member in members:
            name, array = arrays[member]
            offset = _bounds(array)[0] - begin
            columns[member] = Column(
                name, array.dtype, array.shape[1:], array.strides, number, offset
            )
        stride = abs(arrays[members[0]][1].strides[0])
        bounds.append((members, begin, end, stride))
    whole = tuple(column for column in columns if column is not None)
    made = []
    for part in range(parts):
        low, high = items * part // parts, items * (part + 1) // parts
        memories = []
        for members, begin, end, stride in bounds:
            kept = [arrays[member][1] for member in members]
            # The last item ends where its own bytes do, not a stride further.
            last = end - (items - high) * stride
            memories.append(np.asarray(_Address(kept, begin + low * stride, last)))
        if low == high:
            memories = [np.empty(0, np.uint8) for _ in bounds]
        made.append(Packed(whole, high - low, memories))
    return made


def _forward(value: Any) -> NDArray[Any]:
    array = np.asarray(value)
    # Negative strides do not occur, and items without bytes share no memory.
    whole = all(stride > 0 for stride in array.strides) and array.size
    return array if whole else np.ascontiguousarray(array)


def _bounds(array: NDArray[Any]) -> tuple[int, int]:
    begin: int = array.__array_interface__["data"][0]
    if not array.size:
        return begin, begin
    reach = sum((n - 1) * step for n, step in zip(array.shape, array.strides, strict=True))
    return begin, begin + reach + array.itemsize


def _memories(arrays: list[NDArray[Any]]) -> list[tuple[list[int], int, int]]:
    """Return arrays whose bytes overlap and whose items are as far apart, and their bounds."""
    order = sorted(range(len(arrays)), key=lambda k: _bounds(arrays[k]))
    groups: list[tuple[list[int], int, int]] = []
    for number in order:
        begin, end = _bounds(arrays[number])
        if groups:
            members, first, last = groups[-1]
            alike = arrays[members[0]].strides[0] == arrays[number].strides[0]
            if begin < last and alike:
                groups[-1] = ([*members, number], first, max(last, end))
                continue
        groups.append(([number], begin, end))
    return groups
