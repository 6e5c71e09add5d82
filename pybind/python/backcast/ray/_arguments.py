"""Checks of the arguments of samplers over shards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from backcast._select import Priority
from backcast.errors import ArgumentError, SampleError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

STATE = 2
"""Version of a saved state."""


def beta_of(priority: Priority, batch: int) -> float:
    """Return the exponent of the weights at a batch, numbered from 0."""
    beta = priority.beta
    if callable(beta):
        return float(beta(batch))
    if isinstance(beta, tuple):
        first, batches = beta
        return first + (1 - first) * min(1.0, batch / batches)
    return float(beta)


def located(index: ArrayLike, shard: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return index and shard of items as arrays.

    Parameters
    ----------
    index, shard : array_like of int64, [B]
        Index and shard of each item, of one batch.

    Raises
    ------
    SampleError
        If one is of another dtype or shape, or their lengths differ.
    """
    rows, places = np.asarray(index), np.asarray(shard)
    for name, array in (("index", rows), ("shard", places)):
        if array.dtype != np.int64 or array.ndim != 1:
            raise SampleError(
                f"{name} is {array.dtype} with the shape {array.shape}; give the int64 array "
                "[B] of the batch"
            )
    if len(rows) != len(places):
        raise SampleError(
            f"index has {len(rows)} rows and shard {len(places)}; give both of one batch"
        )
    return rows, places


def check(options: dict[str, Any], shard_timeout: float, prefetch: int) -> None:
    """Refuse options that do not go with draws over shards.

    Parameters
    ----------
    options : dict
        Options of `ReplayBuffer.sampler`.
    shard_timeout : float
        Seconds, above 0.
    prefetch : int
        Blocks ahead, 0 to 64.

    Raises
    ------
    SampleError
        If an option needs one ring.
    ArgumentError
        If a number is out of its range.
    """
    for refused, instead in (
        ("share", "one sampler draws from shards; divide its batches"),
        ("learned", "tables of learned values belong to one ring"),
    ):
        if options.get(refused) is not None:
            raise SampleError(f"{refused} does not go with draws over shards: {instead}")
    select = options.get("select")
    if isinstance(select, Priority) and select.initial == "held":
        raise SampleError(
            "draws over shards do not go with initial='held': new rows would enter each shard at "
            "another priority; give initial='ever'"
        )
    if isinstance(select, Priority) and select.by == "rank":
        raise SampleError(
            "draws over shards do not go with by='rank': a rank is one among the rows of a ring; "
            "give by='priority'"
        )
    if not shard_timeout > 0:
        raise ArgumentError(f"shard_timeout is {shard_timeout!r}; give seconds above 0")
    if isinstance(prefetch, bool) or not isinstance(prefetch, int) or not 0 <= prefetch <= 64:
        raise ArgumentError(f"prefetch is {prefetch!r}; give 0 to 64 blocks of each shard")


def checked_state(state: dict[str, Any] | None, shards: int) -> dict[str, Any] | None:
    """Return a saved state of a sampler, or None for none.

    Raises
    ------
    SampleError
        If it is of another version or number of shards.
    """
    if state is not None and (state.get("version") != STATE or state.get("shards") != shards):
        raise SampleError(
            f"the state is of version {state.get('version')} and {state.get('shards')} shards; "
            f"give one of version {STATE} and {shards} shards, as state() returned it"
        )
    return state
