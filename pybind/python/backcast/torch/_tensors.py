"""Tensors over the memory of a batch, nested as the batch is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from backcast.errors import ArgumentError, ArgumentTypeError


def device_of(device: torch.device | str | int | None) -> torch.device:
    """Return the device. Refuse one on which PyTorch cannot put tensors here."""
    if device is None:
        return torch.device("cpu")
    if isinstance(device, bool) or not isinstance(device, torch.device | str | int):
        raise ArgumentTypeError(f'device is {device!r}; give a torch.device, or a name as "cpu"')
    shown = device if isinstance(device, str) else str(device)
    try:
        where = torch.device(device)
    except (RuntimeError, ValueError) as error:
        raise ArgumentError(
            f'device is {shown!r}, which PyTorch does not know; give "cpu", or "cuda" or "cuda:1" '
            "where there are GPUs"
        ) from error
    if where.type == "meta":
        raise ArgumentError("device is 'meta', which holds no values; give \"cpu\" or a GPU")
    try:
        torch.empty(0, device=where)
    # A build without this kind of device raises AssertionError or NotImplementedError.
    except (RuntimeError, AssertionError, NotImplementedError, ValueError) as error:
        found = "PyTorch has no such device here"
        if where.type == "cuda":
            found = f"PyTorch finds {torch.cuda.device_count()} CUDA devices here"
            if torch.cuda.device_count() > (where.index or 0):
                # The device exists, but not for this process, such as a forked child.
                found = f"CUDA cannot be used here: {error}"
        raise ArgumentError(f'device is {shown!r}, and {found}; give "cpu" or another') from error
    return where


def array_of(value: Any) -> Any:
    """Return the values of a tensor, on whatever device, as an array; anything else as it is."""
    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach().cpu()
    return (value.float() if value.dtype == torch.bfloat16 else value).numpy()


def tensor_of(array: NDArray[Any]) -> torch.Tensor:
    """Return a tensor over the array's memory; the tensor keeps the memory alive.

    PyTorch warns about read-only arrays. Overlapping windows are such arrays: their tensor is a
    view of the writable arena behind them. Other read-only arrays are copied.
    """
    # Types of `ml_dtypes` have the kind "V", which no other column has.
    if array.dtype.kind == "V":
        return _tensor(array, _bits).view(torch.bfloat16)
    return _tensor(array, torch.from_numpy)


def _bits(array: NDArray[Any]) -> torch.Tensor:
    """Read an array of bfloat16, a type of ``ml_dtypes`` that PyTorch does not know, as uint16."""
    return torch.from_numpy(array.view(np.uint16))


def _tensor(
    array: NDArray[Any], tensor_over: Callable[[NDArray[Any]], torch.Tensor]
) -> torch.Tensor:
    if array.flags.writeable:
        return tensor_over(array)
    arena = array.base
    if isinstance(arena, np.ndarray) and arena.flags.writeable and arena.dtype == array.dtype:
        whole = tensor_over(arena)
        size = array.itemsize
        start = array.__array_interface__["data"][0] - arena.__array_interface__["data"][0]
        return whole.as_strided(
            array.shape, [stride // size for stride in array.strides], start // size
        )
    return tensor_over(array.copy())


def tensors_of(
    values: dict[str, Any],
    device: torch.device | None = None,
    *,
    non_blocking: bool = False,
) -> dict[str, Any]:
    """Return a dict of tensors, nested as `values`; without a `device` they share its memory."""
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
