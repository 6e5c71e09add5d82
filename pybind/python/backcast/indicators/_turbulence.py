"""Turbulence of a market: how unusual the returns of a bar are, given those before it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Directions of less variance than this fraction of the largest count as having none.
_RANK = 1e-10


def turbulence(
    close: NDArray[np.float64], mask: NDArray[np.bool_], bars: int
) -> NDArray[np.float64]:
    """Return the turbulence of each bar, ``[D]``, NaN where no ticker has enough returns.

    The squared Mahalanobis distance of the returns of a bar from those of the `bars` before it
    (Kritzman & Li, "Skulls, Financial Turbulence, and Risk Management", Financial Analysts Journal,
    2010, equation 1). A ticker counts where it has all of these returns.
    """
    tickers, days = close.shape
    returns = np.full((tickers, days), np.nan)
    both = mask[:, 1:] & mask[:, :-1]
    np.divide(close[:, 1:], close[:, :-1], out=returns[:, 1:], where=both)
    returns -= 1.0
    found = np.full(days, np.nan)
    counting = _counting(mask, bars)
    for day in range(bars + 1, days):
        whole = counting[:, day]
        if not whole.any():
            continue
        before = returns[whole, day - bars : day]
        apart = returns[whole, day] - before.mean(axis=1)
        spread = np.atleast_2d(np.cov(before))
        found[day] = apart @ np.linalg.pinv(spread, rcond=_RANK, hermitian=True) @ apart
    return found


def counted(mask: NDArray[np.bool_], bars: int) -> NDArray[np.bool_]:
    """Return whether a ticker counts for the turbulence of any bar, ``[T]``."""
    return np.asarray(_counting(mask, bars).any(axis=1))


def _counting(mask: NDArray[np.bool_], bars: int) -> NDArray[np.bool_]:
    """Return whether a ticker has the return of a bar and of the `bars` before it, ``[T, D]``."""
    counting = np.zeros_like(mask)
    known = np.cumsum(mask[:, 1:] & mask[:, :-1], axis=1)
    known = np.concatenate([np.zeros((len(mask), 2), known.dtype), known], axis=1)
    # `known[:, day + 1]` is the number of returns up to `day`.
    if mask.shape[1] > bars + 1:
        counting[:, bars + 1 :] = known[:, bars + 2 :] - known[:, 1 : -bars - 1] == bars + 1
    return counting
