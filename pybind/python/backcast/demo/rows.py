"""What one row of the demo's ring holds, and the checksum that shows whether a row is whole.

A row is 8 bytes of checksum beside everything else, written as one word. Its upper half covers the
observation columns, its lower half the step columns, so that the observation of a *next* row (whose
step columns a batch does not carry) can be checked too.

The hash is the multilinear family of Lemire and Kaser, "Strongly universal string hashing is fast"
(2014), section 2: 32-bit words times random 64-bit keys, summed modulo 2^64, upper half kept. Two
different rows collide with probability 2^-32 a half. The keys are fixed: torn rows do not plot.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Columns = Mapping[str, Any]
    Words = NDArray[np.uint32]
    Sums = NDArray[np.uint64]

OBS_COLUMNS = ("day", "tics", "portfolio/cash", "portfolio/shares", "portfolio/avg_buy_price")
STEP_COLUMNS = ("action", "reward")
_KEYS = np.random.Generator(np.random.PCG64(0x6261636B63617374)).integers(
    0, 2**64, size=4096, dtype=np.uint64
)
_HALF = np.uint64(32)


def schema(tickers: int) -> dict[str, tuple[str, tuple[int, ...], str]]:
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


def _words(batch: Columns, paths: tuple[str, ...], rank: int) -> Words:
    """Lay the columns' bytes side by side as 32-bit words, ``[rows, words]``."""
    blocks = []
    for path in paths:
        values = np.ascontiguousarray(column(batch, path))
        rows = int(np.prod(values.shape[:rank], dtype=np.int64))
        blocks.append(values.reshape(rows, -1).view(np.uint32))
    return np.concatenate(blocks, axis=1)


def _fold(words: Words, salt: int) -> Sums:
    keys = _KEYS[salt : salt + words.shape[1] + 1]
    sums = words.astype(np.uint64) @ keys[1:] + keys[0]
    return np.asarray(sums, np.uint64) >> _HALF


def obs_sums(batch: Columns, *, rank: int = 1, prefix: str = "") -> Sums:
    """Hash the observation columns of every row; `rank` leading axes count rows."""
    paths = tuple(prefix + path for path in OBS_COLUMNS)
    return _fold(_words(batch, paths, rank), 0)


def step_sums(batch: Columns, *, rank: int = 1) -> Sums:
    """Hash the step columns of every row."""
    return _fold(_words(batch, STEP_COLUMNS, rank), 2048)


def checksums(batch: Columns, *, rank: int = 1) -> Sums:
    """Compute the checksum column that belongs to the rows of `batch`, flat."""
    return (obs_sums(batch, rank=rank) << _HALF) | step_sums(batch, rank=rank)


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
