"""Checks of the arguments of samplers over shards."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from backcast._select import Priority
from backcast.errors import ArgumentError, ArgumentTypeError, SampleError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

STATE = 3
"""Version of a saved state."""
_KEYS: dict[str, type] = {
    "seed": int,
    "opens": int,
    "batches": int,
    "samples": int,
    "admitted": int,
    "rings": list,
    "rng": dict,
    "options": dict,
}
"""Keys of a saved state besides its version and number of shards."""


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
    ArgumentError, ArgumentTypeError
        If a number is out of its range, or something of another type.
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
    transform = options.get("transform")
    if transform is not None and not callable(transform):
        raise ArgumentTypeError(f"transform is {transform!r}; give a function of a batch")
    if isinstance(shard_timeout, bool) or not isinstance(shard_timeout, int | float):
        raise ArgumentTypeError(f"shard_timeout is {shard_timeout!r}; give seconds above 0")
    if not shard_timeout > 0:
        raise ArgumentError(f"shard_timeout is {shard_timeout!r}; give seconds above 0")
    if isinstance(prefetch, bool) or not isinstance(prefetch, int) or not 0 <= prefetch <= 64:
        raise ArgumentError(f"prefetch is {prefetch!r}; give 0 to 64 blocks of each shard")


def described(options: dict[str, Any]) -> dict[str, str]:
    """Return options as words, which a state keeps: functions differ in every process."""
    return {name: _words(given) for name, given in sorted(options.items()) if given is not None}


def _words(value: Any) -> str:
    if is_dataclass(value) and not isinstance(value, type):
        given = ((one.name, getattr(value, one.name)) for one in fields(value))
        return f"{type(value).__name__}({', '.join(f'{k}={_words(v)}' for k, v in given)})"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_words, value))}]"
    return "a function" if callable(value) else repr(value)


def checked_state(
    state: dict[str, Any] | None, shards: int, options: dict[str, str]
) -> dict[str, Any] | None:
    """Return a saved state of a sampler, or None for none.

    Raises
    ------
    ArgumentTypeError
        If it is no dict.
    SampleError
        If it is of another version or number of shards, of a sampler with other options, or no
        state at all.
    """
    if state is None:
        return None
    if not isinstance(state, dict):
        raise ArgumentTypeError(f"state is {state!r:.60}; give what state() returned, a dict")
    if state.get("version") != STATE or state.get("shards") != shards:
        raise SampleError(
            f"the state is of version {state.get('version')} and {state.get('shards')} shards; "
            f"give one of version {STATE} and {shards} shards, as state() returned it"
        )
    wrong = [name for name, kind in _KEYS.items() if type(state.get(name)) is not kind]
    negative = [name for name in ("opens", "batches", "samples") if name not in wrong]
    wrong += [name for name in negative if state[name] < 0]
    if not wrong and len(state["rings"]) != shards:
        wrong = ["rings"]
    if wrong:
        raise SampleError(
            f"the state has {wrong[0]}={state.get(wrong[0])!r:.60}; give one that state() returned"
        )
    saved = state["options"]
    for name in sorted({*saved, *options}):
        if saved.get(name) != options.get(name):
            raise SampleError(
                f"the state is of a sampler with {name}={saved.get(name, 'nothing')}, and this one "
                f"has {options.get(name, 'nothing')}; give the options that it had"
            )
    return state


def numbers_of(values: ArrayLike) -> NDArray[np.float64]:
    """Return numbers as an array, also those of a tensor with a gradient or on another device."""
    detach = getattr(values, "detach", None)
    if callable(detach):
        values = detach().cpu()
    return np.asarray(values, np.float64)


def check_priorities(
    priority: NDArray[np.float64],
    mask: NDArray[np.bool_] | None,
    eta: float | None,
    rows: int,
) -> None:
    """Refuse priorities that a shard would refuse.

    Raises
    ------
    SampleError
        If shapes differ, a number is negative or not finite, or ``mask`` or ``eta`` is given for
        one priority an item, or ``eta`` is not from 0 to 1.
    """
    if len(priority.shape) < 1 or len(priority) != rows:
        raise SampleError(
            f"index has {rows} rows, but priority has the shape {priority.shape}; give one "
            "priority for each"
        )
    for name, given in (("mask", mask), ("eta", eta)):
        if given is not None and priority.ndim != 2:
            raise SampleError(
                f"priority has the shape {priority.shape}, and {name} is for windows; give TD "
                f"errors [B, H], or leave {name} out"
            )
    if eta is not None and not (isinstance(eta, int | float) and 0 <= eta <= 1):
        raise SampleError(f"eta is {eta!r}; give a number from 0 to 1")
    if mask is not None and mask.shape != priority.shape:
        raise SampleError(
            f"mask has the shape {mask.shape}, but priority {priority.shape}; give one value for "
            "each priority"
        )
    counted = priority if mask is None else priority[mask]
    if not (np.isfinite(counted) & (counted >= 0)).all():
        raise SampleError("a priority is negative or not finite; give numbers from 0 up")
