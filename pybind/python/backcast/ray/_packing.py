"""Batches as a few runs of bytes, and back.

Windows of ``obs`` and ``next_obs`` are views of one array, which is sent once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from backcast._trees import flat, nested

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]

_ALIGNED = 16
"""Bytes at whose multiples memories begin in a joined one, so that numbers are read whole."""
_MOST_JOINED = 2_000_000
"""Bytes of a batch whose copy takes less time than to send its memories one by one."""


class Column(NamedTuple):
    """An array of a batch, as a view of one of its memories."""

    name: str
    """Its name, with ``/`` between the keys that lead to it."""
    dtype: str
    shape: tuple[int, ...]
    """Its shape, without the axis of items."""
    strides: tuple[int, ...]
    """Its strides, with that of items."""
    memory: int
    """Number of the memory."""
    offset: int
    """Byte of the memory at which it begins."""


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
        Their bytes. Of a batch that was split, the first part of its only memory.
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

    def joined(self) -> Packed:
        """Return the same items with one memory, which is a copy."""
        begins, end = [], 0
        for memory in self.memories:
            begins.append(end)
            end += -(-memory.nbytes // _ALIGNED) * _ALIGNED
        whole = np.empty(end, np.uint8)
        for begin, memory in zip(begins, self.memories, strict=True):
            whole[begin : begin + memory.nbytes] = memory
        columns = tuple(
            column._replace(memory=0, offset=begins[column.memory] + column.offset)
            for column in self.columns
        )
        return Packed(columns, self.items, [whole])

    def split(self, parts: int) -> tuple[Packed, list[Bytes]]:
        """Return the items with a part of their bytes, and the other parts, about as large."""
        if parts == 1 and self.nbytes > _MOST_JOINED:
            return self, []
        one = self.joined()
        first, *others = np.array_split(one.memories[0], parts)
        return Packed(one.columns, one.items, [first]), others

    def with_parts(self, others: Sequence[Bytes]) -> Packed:
        """Return the items with all of their bytes, of which `split` has returned the others."""
        if not others:
            return self
        return Packed(self.columns, self.items, [np.concatenate([*self.memories, *others])])


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


def pack(batch: Mapping[str, Any]) -> Packed:
    """Describe a batch by columns and memories, which are those of the batch.

    Parameters
    ----------
    batch : mapping
        Nested arrays with one leading axis.
    """
    arrays = [(name, _forward(value)) for name, value in flat(batch)]
    bounds = [_bounds(array) for _, array in arrays]
    columns: list[Column | None] = [None] * len(arrays)
    memories = []
    found = _memories([array for _, array in arrays], bounds)
    for number, (members, begin, end) in enumerate(found):
        for member in members:
            name, array = arrays[member]
            offset = bounds[member][0] - begin
            columns[member] = Column(
                name, array.dtype.str, array.shape[1:], array.strides, number, offset
            )
        kept = [arrays[member][1] for member in members]
        memories.append(np.asarray(_Address(kept, begin, end)))
    whole = tuple(column for column in columns if column is not None)
    return Packed(whole, len(arrays[0][1]), memories)


def _forward(value: Any) -> NDArray[Any]:
    array = np.asarray(value)
    # Negative strides do not occur, and items without bytes share no memory.
    whole = array.size and (array.flags.c_contiguous or all(step > 0 for step in array.strides))
    return array if whole else np.ascontiguousarray(array)


def _bounds(array: NDArray[Any]) -> tuple[int, int]:
    begin: int = array.__array_interface__["data"][0]
    if array.flags.c_contiguous:
        return begin, begin + array.nbytes
    reach = sum((n - 1) * step for n, step in zip(array.shape, array.strides, strict=True))
    return begin, begin + reach + array.itemsize


def _memories(
    arrays: list[NDArray[Any]], bounds: list[tuple[int, int]]
) -> list[tuple[list[int], int, int]]:
    """Return arrays whose bytes overlap and whose items are as far apart, and their bounds."""
    groups: list[tuple[list[int], int, int]] = []
    for number in sorted(range(len(arrays)), key=bounds.__getitem__):
        begin, end = bounds[number]
        if groups:
            members, first, last = groups[-1]
            alike = arrays[members[0]].strides[0] == arrays[number].strides[0]
            if begin < last and alike:
                groups[-1] = ([*members, number], first, max(last, end))
                continue
        groups.append(([number], begin, end))
    return groups
