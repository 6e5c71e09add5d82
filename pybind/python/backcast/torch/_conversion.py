"""Conversion of a sampler's batches of arrays to batches of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from backcast import Batch
from backcast.errors import ArgumentError, ArgumentTypeError
from backcast.torch._pool import PoolBatch
from backcast.torch._tensors import tensors_of

if TYPE_CHECKING:
    from backcast import ReplayBuffer

# Largest float tensor, in bytes, that is copied if it is a strided view: a linear layer reads the
# copy faster. Integers stay views, because their conversion to floats reads a view as fast.
_SMALL = 1 << 20


class Conversion:
    """Converts batches of one buffer from arrays to tensors."""

    def __init__(
        self, buf: ReplayBuffer, device: torch.device, contiguous: bool | None, float_obs: bool
    ) -> None:
        self.device = device
        self._float_obs = float_obs
        self._contiguous = contiguous
        roles = buf.schema.columns.items()
        self._obs = frozenset(name for name, (_, _, role) in roles if role == "obs")
        self._bfloat16 = frozenset(name for name, (code, _, _) in roles if code == "bfloat16")

    def __call__(self, batch: Batch) -> Batch:
        """Return a batch of tensors.

        On the CPU they share the memory of the arrays, but for tensors whose values or strides
        change. A batch of a pool is copied to the device meanwhile; others when this returns.
        """
        if isinstance(batch, PoolBatch):
            tensors, copy = batch.pool.begin(batch)
            copy.hand_over(tensors)
            return self.of_tensors(tensors)
        return self.of_tensors(
            tensors_of(batch, None if self.device.type == "cpu" else self.device)
        )

    def of_tensors(self, found: dict[str, Any]) -> Batch:
        """Return a batch of tensors that are on the device."""
        if self._bfloat16:
            found = _mapped(found, self._bfloat16, _as_bfloat16)
        if self._contiguous is None:
            found = _small_contiguous(found)
        if self._float_obs:
            found = _mapped(found, self._obs, _as_float)
        return Batch(found)


def check_float_obs(buf: ReplayBuffer, float_obs: bool) -> None:
    """Refuse ``float_obs`` of another type, or of a ring without uint8 observations."""
    if not isinstance(float_obs, bool):
        raise ArgumentTypeError(f"float_obs is {float_obs!r}; give True or False")
    columns = buf.schema.columns.values()
    if float_obs and not any(code == "u1" and role == "obs" for code, _, role in columns):
        raise ArgumentError(
            "float_obs is True, but no column of observations is uint8; leave float_obs out"
        )


def _small_contiguous(values: dict[str, Any]) -> dict[str, Any]:
    found = {}
    for key, value in values.items():
        if isinstance(value, dict):
            found[key] = _small_contiguous(value)
        elif (
            isinstance(value, torch.Tensor) and value.is_floating_point() and value.nbytes <= _SMALL
        ):
            found[key] = value.contiguous()
        else:
            found[key] = value
    return found


def _as_bfloat16(value: torch.Tensor) -> torch.Tensor:
    """View uint16 bits as bfloat16; a column has those where ``ml_dtypes`` is not installed."""
    return value.view(torch.bfloat16) if value.dtype == torch.uint16 else value


def _as_float(value: torch.Tensor) -> torch.Tensor:
    """Scale uint8 to float32 from 0 to 1; return other tensors unchanged."""
    return value.to(torch.float32).div_(255) if value.dtype == torch.uint8 else value


def _mapped(
    values: dict[str, Any],
    names: frozenset[str],
    change: Callable[[torch.Tensor], torch.Tensor],
    path: str = "",
) -> dict[str, Any]:
    """Apply `change` to the named columns, and to those derived from them, such as ``next_obs``."""
    found = {}
    for key, value in values.items():
        here = f"{path}{key}"
        if isinstance(value, dict):
            found[key] = _mapped(value, names, change, "" if here == "future" else f"{here}/")
        elif isinstance(value, torch.Tensor) and not names.isdisjoint(
            {here, here.removeprefix("n_").removeprefix("next_")}
        ):
            found[key] = change(value)
        else:
            found[key] = value
    return found
