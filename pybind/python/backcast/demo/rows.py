"""Rows of the demo's ring, with a checksum that detects torn rows.

A row is 8 bytes of checksum beside everything else, written as one word. Its upper half covers the
observation columns, its lower half the step columns. So the observation of a *next* row (whose step
columns a batch does not carry) can be checked too.

The hash is the multilinear family of Lemire and Kaser, "Strongly universal string hashing is fast"
(2014), section 2: 32-bit words times random 64-bit keys, summed modulo 2^64, upper half kept. Two
different rows collide with probability 2^-32 in each half. The keys are fixed, since torn rows
are accidents and not attacks.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Column = tuple[str, tuple[int, ...], Literal["obs", "step"]]
    Columns = Mapping[str, Any]
    Words = NDArray[np.uint32]
    Sums = NDArray[np.uint64]

OBS_COLUMNS = ("day", "tics", "portfolio/cash", "portfolio/shares", "portfolio/avg_buy_price")
STEP_COLUMNS = ("action", "reward")
_KEY_SEED = 20140901
_HALF = np.uint64(32)


def schema(tickers: int) -> dict[str, Column]:
    """Describe the ring's columns for `tickers` tickers a row."""
    each = (tickers,)
    return {
        "day": ("i4", (), "obs"),
        "tics": ("i4", each, "obs"),
        "portfolio/cash": ("f8", (), "obs"),
        "portfolio/shares": ("i4", each, "obs"),
        "portfolio/avg_buy_price": ("f8", each, "obs"),
        "checksum": ("u8", (), "obs"),
        "action": ("f4", each, "step"),
        "reward": ("f4", (), "step"),
    }


def column(batch: Columns, path: str) -> NDArray[Any]:
    """Look a column up by its path; batches nest at each slash."""
    found: Any = batch
    for part in path.split("/"):
        found = found[part]
    array: NDArray[Any] = found
    return array


def _words(batch: Columns, paths: Sequence[str], rank: int) -> list[Words]:
    """View the columns' bytes as 32-bit words, ``[rows, words]`` each."""
    rows = math.prod(column(batch, paths[0]).shape[:rank])
    arrays = (np.ascontiguousarray(column(batch, path)) for path in paths)
    return [array.reshape(rows, -1).view(np.uint32) for array in arrays]


@functools.cache
def _keys(obs_words: int, step_words: int) -> tuple[Sums, Sums]:
    """Return keys ``[words, 2]`` that hash both halves of a row, and the initial sums."""
    keys = np.zeros((obs_words + step_words, 2), np.uint64)
    starts = np.zeros(2, np.uint64)
    for half, place in enumerate((slice(0, obs_words), slice(obs_words, None))):
        draw = np.random.default_rng([_KEY_SEED, half])
        starts[half] = draw.integers(2**64, dtype=np.uint64)
        count = obs_words if half == 0 else step_words
        keys[place, half] = draw.integers(2**64, dtype=np.uint64, size=count)
    return keys, starts


def _halves(obs: list[Words], step: list[Words]) -> Sums:
    """Hash the observation and the step of each row, ``[rows, 2]``; `step` may be empty."""
    widths = [sum(block.shape[1] for block in blocks) for blocks in (obs, step)]
    keys, start = _keys(*widths)
    words = np.concatenate([*obs, *step], axis=1).astype(np.uint64)
    return np.asarray((words @ keys + start) >> _HALF)


def obs_sums(batch: Columns, *, rank: int = 1, prefix: str = "") -> Sums:
    """Hash the observation columns of every row; `rank` leading axes count rows."""
    paths = OBS_COLUMNS if not prefix else [prefix + path for path in OBS_COLUMNS]
    return np.asarray(_halves(_words(batch, paths, rank), [])[:, 0])


def checksums(batch: Columns, *, rank: int = 1) -> Sums:
    """Compute the checksum column that belongs to the rows of `batch`, flat."""
    halves = _halves(_words(batch, OBS_COLUMNS, rank), _words(batch, STEP_COLUMNS, rank))
    return np.asarray((halves[:, 0] << _HALF) | halves[:, 1])


def torn_rows(batch: Columns, *, rank: int = 1, mask: NDArray[np.bool_] | None = None) -> int:
    """Count rows whose columns do not add up to their checksum; masked places are not rows."""
    wrong = checksums(batch, rank=rank) != np.ravel(column(batch, "checksum"))
    if mask is not None:
        wrong &= np.ravel(mask)
    return int(np.count_nonzero(wrong))


def torn_next_rows(batch: Columns, *, rank: int = 1, mask: NDArray[np.bool_] | None = None) -> int:
    """Count next rows whose observation does not add up to the upper half of their checksum."""
    sums = obs_sums(batch, rank=rank, prefix="next_")
    wrong = sums != np.ravel(column(batch, "next_checksum")) >> _HALF
    if mask is not None:
        wrong &= np.ravel(mask)
    return int(np.count_nonzero(wrong))
