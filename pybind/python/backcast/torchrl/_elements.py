"""Elements as TensorDicts and as arrays, and the positions that an index chooses."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from tensordict import TensorDict, TensorDictBase, is_tensor_collection
from torchrl.data.replay_buffers import ReplayBuffer

from backcast._trees import nested
from backcast.errors import ArgumentError, ArgumentTypeError, SampleError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    import backcast as bc
    from backcast.torchrl._layout import Key, Layout

# Rows that are read at once; a sampler gathers no more than 2^24.
_PIECE = 1 << 20
# Calls between `rb["key"] = value` and the storage, and some more.
_DEPTH = 8


def tensordict_of(data: Any) -> TensorDictBase:
    if not isinstance(data, TensorDictBase):
        what = f"a {type(data).__name__}"
        hint = ": data.to_tensordict()" if is_tensor_collection(data) else ""
        raise ArgumentTypeError(f"the element is {what}; give a TensorDict{hint}")
    return data


def clones_of(element: TensorDictBase, layout: Layout) -> dict[Key, torch.Tensor]:
    """Return copies of the tensors of one element by key."""
    return {key: element.get(key).detach().cpu().clone() for key in layout.keys}


def as_tensordict(tensors: dict[Key, torch.Tensor], count: int) -> TensorDict:
    return TensorDict(nested(("/".join(key), value) for key, value in tensors.items()), count)


def gathered(
    reader: bc.Sampler,
    index: NDArray[np.int64],
    tensors_of: Callable[[bc.Batch], dict[Key, torch.Tensor]],
) -> tuple[dict[Key, torch.Tensor], NDArray[np.bool_]]:
    """Return the tensors of rows, and which of them there still are."""
    whole: dict[Key, torch.Tensor] = {}
    found = np.zeros(index.size, bool)
    for start in range(0, index.size, _PIECE):
        part = slice(start, start + _PIECE)
        batch = reader.gather(index[part], missing="mask")
        assert batch.found is not None
        found[part] = batch.found
        tensors = tensors_of(batch)
        if index.size <= _PIECE:
            return tensors, found
        for key, value in tensors.items():
            if not start:
                whole[key] = value.new_empty((index.size, *value.shape[1:]))
            whole[key][part] = value
    return whole, found


def refuse_assignment(reason: str) -> None:
    """Refuse ``rb["key"] = value``, for which TorchRL's buffers change what ``[:]`` returned."""
    frame = sys._getframe(1)
    for _ in range(_DEPTH):
        if frame.f_back is None:
            return
        frame = frame.f_back
        if frame.f_code.co_name == "__setitem__" and isinstance(
            frame.f_locals.get("self"), ReplayBuffer
        ):
            raise ArgumentError(reason)


def chosen(index: Any, size: int) -> NDArray[np.int64]:
    """Return the positions that an index chooses among the first `size`."""
    if isinstance(index, slice):
        return np.arange(*index.indices(size), dtype=np.int64)
    if isinstance(index, torch.Tensor):
        index = index.detach().cpu().numpy()
    if index is None or isinstance(index, tuple | str):
        raise ArgumentTypeError(
            f"the index is {index!r}; give an int, a slice or a sequence of int"
        )
    array = np.asarray(index)
    if array.dtype == np.bool_:
        if array.shape != (size,):
            raise ArgumentError(f"the mask has the shape {list(array.shape)}; give [{size}]")
        return np.flatnonzero(array)
    if array.size and not np.issubdtype(array.dtype, np.integer):
        raise ArgumentTypeError(f"the index has values of {array.dtype}; give whole numbers")
    positions = array.astype(np.int64).reshape(-1)
    positions = np.where(positions < 0, positions + size, positions)
    if positions.size and (positions.min() < 0 or positions.max() >= size):
        worst = int(np.asarray(index).reshape(-1)[((positions < 0) | (positions >= size)).argmax()])
        raise SampleError(
            f"position {worst} has no element; the storage has {size}, at 0 to {size - 1}"
            if size
            else "the storage is empty; extend the buffer first"
        )
    return positions


def positions_of(cursor: Any, count: int, max_size: int) -> NDArray[np.int64]:
    """Return the positions at which `count` elements are to be stored."""
    if isinstance(cursor, slice):
        positions = np.arange(*cursor.indices(max_size), dtype=np.int64)
    else:
        if isinstance(cursor, torch.Tensor):
            cursor = cursor.cpu()
        positions = np.asarray(cursor, np.int64).reshape(-1)
    if positions.size != count:
        raise ArgumentError(
            f"there are {positions.size} positions for {count} elements; give one for each"
        )
    if not count:
        raise ArgumentError("there is no element to store; give at least one")
    outside = positions[(positions < 0) | (positions >= max_size)]
    if outside.size:
        raise ArgumentError(
            f"position {int(outside[0])} is outside of a storage of {max_size} elements; give 0 to "
            f"{max_size - 1}"
        )
    return positions
