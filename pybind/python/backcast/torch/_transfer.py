"""Copies of batches to a device, and the events that say when they have ended."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import torch

from backcast.torch._tensors import tensors_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Constant of Linux, which Python's `mmap` lacks.
_MADV_WIPEONFORK = 18


class Copy(Protocol):
    """A copy of a batch that was begun."""

    def is_done(self) -> bool:
        """Return whether the host's memory was read to the end."""

    def finish(self) -> None:
        """Wait until the host's memory was read to the end."""

    def hand_over(self, tensors: dict[str, Any]) -> None:
        """Let the caller's stream use the tensors after the copy."""


class HostMemory(NamedTuple):
    """Memory of batches on the host, as bytes."""

    memory: NDArray[np.uint8]
    release: Callable[[], None]
    """Ends the page lock. The memory must not be freed before."""
    fault: str | None
    """Reason why the memory is not page-locked by its address; None if it is."""


class Transfer(Protocol):
    """Copies batches to a device."""

    def allocate(self, size: int) -> HostMemory:
        """Allocate memory of `size` bytes, from which copies are made."""

    def begin(self, values: dict[str, Any]) -> tuple[dict[str, Any], Copy]:
        """Begin to copy the arrays of `values`. Return the tensors, nested like these."""

    def drain(self) -> None:
        """Wait for all copies that were begun."""


def transfer_to(device: torch.device) -> Transfer | None:
    """Return what copies to the device; None if tensors share the memory of arrays, or may."""
    return CudaTransfer(device) if device.type == "cuda" else None


class CudaTransfer:
    """Copies batches to a GPU on a stream of their own, from page-locked memory."""

    def __init__(self, device: torch.device) -> None:
        # "cuda" alone is the current device, which may be another one later.
        at = torch.cuda.current_device() if device.index is None else device.index
        self._device = torch.device("cuda", at)
        self._stream = torch.cuda.Stream(self._device)

    def allocate(self, size: int) -> HostMemory:
        """Allocate page-locked memory, and say why where the driver locks none."""
        memory = private_memory(size)
        fault = self._lock(memory)
        if fault is None:
            address = memory.ctypes.data
            return HostMemory(memory, lambda: self._unlock(address), None)
        try:
            pinned = torch.empty(size, dtype=torch.uint8, pin_memory=True)
        except RuntimeError as error:
            self._forget_error()
            fault = f"{fault}, and PyTorch has no pinned memory: {error}"
            return HostMemory(memory, lambda: None, f"{fault}; copies from it are not asynchronous")
        return HostMemory(pinned.numpy(), lambda: None, f"{fault}; PyTorch's pinned memory is used")

    def begin(self, values: dict[str, Any]) -> tuple[dict[str, Any], Copy]:
        """Begin to copy the arrays on the stream of copies."""
        with torch.cuda.device(self._device), torch.cuda.stream(self._stream):
            tensors = tensors_of(values, self._device, non_blocking=True)
            event = torch.cuda.Event()
            event.record(self._stream)
        return tensors, _CudaCopy(event, self._device)

    def drain(self) -> None:
        """Wait for the stream of copies."""
        self._stream.synchronize()

    def _lock(self, memory: NDArray[np.uint8]) -> str | None:
        """Page-lock memory. Return the reason if the driver refuses."""
        runtime: Any = torch.cuda.cudart()
        with torch.cuda.device(self._device):
            status = runtime.cudaHostRegister(memory.ctypes.data, memory.nbytes, 0)
        if int(status) == 0:
            return None
        self._forget_error()
        return f"cudaHostRegister of {memory.nbytes} bytes: {runtime.cudaGetErrorString(status)}"

    def _unlock(self, address: int) -> None:
        with torch.cuda.device(self._device):
            runtime: Any = torch.cuda.cudart()
            if int(runtime.cudaHostUnregister(address)) != 0:
                self._forget_error()

    def _forget_error(self) -> None:
        """Take the error that CUDA keeps for the next kernel, which did not cause it."""
        with suppress(RuntimeError), torch.cuda.device(self._device):
            torch.zeros(1, device=self._device)


class _CudaCopy:
    def __init__(self, event: torch.cuda.Event, device: torch.device) -> None:
        self._event = event
        self._device = device

    def is_done(self) -> bool:
        return bool(self._event.query())

    def finish(self) -> None:
        self._event.synchronize()

    def hand_over(self, tensors: dict[str, Any]) -> None:
        stream = torch.cuda.current_stream(self._device)
        stream.wait_event(self._event)
        _record(tensors, stream)


def _record(tensors: dict[str, Any], stream: torch.cuda.Stream) -> None:
    """Keep the memory of tensors from new copies until the work of `stream` with them is done."""
    for value in tensors.values():
        if isinstance(value, dict):
            _record(value, stream)
        elif isinstance(value, torch.Tensor):
            value.record_stream(stream)


def private_memory(size: int) -> NDArray[np.uint8]:
    """Return zeroed memory of whole pages, which a forked child does not share."""
    if size < 1:
        raise ValueError(f"memory of {size} bytes cannot be page-locked; give 1 byte at least")
    pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):
        # Otherwise a fork marks the pages to be copied on the next write: batches would then be
        # drawn to other pages than those that the GPU reads.
        pages.madvise(_MADV_WIPEONFORK)
    return np.frombuffer(pages, np.uint8)
