"""Tensors over the memory of a batch, nested as the batch is."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray


def tensor_of(array: NDArray[Any]) -> torch.Tensor:
    """Return a tensor over the array's memory; the tensor keeps the memory alive.

    Overlapping windows are read-only arrays, which PyTorch warns about. Their tensor is a view of
    the arena behind them. PyTorch reads the arrays of ``ml_dtypes`` as bits.
    """
    if array.dtype.name == "bfloat16":
        return _tensor(array, np.dtype(np.uint16)).view(torch.bfloat16)
    return _tensor(array, array.dtype)


def _tensor(array: NDArray[Any], dtype: np.dtype[Any]) -> torch.Tensor:
    """Return a tensor over the array's memory, read as elements of another type of the size."""
    if array.flags.writeable:
        return torch.from_numpy(array.view(dtype))
    arena = array.base
    if isinstance(arena, np.ndarray) and arena.flags.writeable and arena.dtype == array.dtype:
        whole = torch.from_numpy(arena.view(dtype))
        size = array.itemsize
        start = array.__array_interface__["data"][0] - arena.__array_interface__["data"][0]
        return whole.as_strided(
            array.shape, [stride // size for stride in array.strides], start // size
        )
    return torch.from_numpy(array.copy().view(dtype))


def tensors_of(
    values: dict[str, Any],
    device: torch.device | None = None,
    *,
    non_blocking: bool = False,
) -> dict[str, Any]:
    """Return a dict of tensors, nested as `values`; on the CPU without a copy."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            found[key] = tensors_of(value, device, non_blocking=non_blocking)
        elif isinstance(value, np.ndarray):
            tensor = tensor_of(value)
            found[key] = tensor if device is None else tensor.to(device, non_blocking=non_blocking)
        else:
            found[key] = value
    return found


class Pinned:
    """Copies batches to a GPU out of pinned memory, of which there are two sets."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._sets: list[dict[str, torch.Tensor]] = [{}, {}]
        self._copied: list[torch.cuda.Event | None] = [None, None]
        self._turn = 0

    def moved(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return the tensors on the device; the copies may still be under way."""
        turn = self._turn
        self._turn = 1 - turn
        before = self._copied[turn]
        if before is not None:
            before.synchronize()
        with torch.cuda.device(self._device):
            found = self._move(values, self._sets[turn], "")
            event = torch.cuda.Event()
            event.record()
        self._copied[turn] = event
        return found

    def _move(
        self, values: dict[str, Any], memory: dict[str, torch.Tensor], path: str
    ) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in values.items():
            here = f"{path}{key}"
            if isinstance(value, dict):
                found[key] = self._move(value, memory, f"{here}/")
            elif isinstance(value, np.ndarray):
                tensor = tensor_of(value)
                pinned = memory.get(here)
                if pinned is None or pinned.shape != tensor.shape or pinned.dtype != tensor.dtype:
                    pinned = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
                    memory[here] = pinned
                pinned.copy_(tensor)
                found[key] = pinned.to(self._device, non_blocking=True)
            else:
                found[key] = value
        return found
