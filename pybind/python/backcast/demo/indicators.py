"""The eight causal indicators of the demo's panel, computed per ticker with NumPy alone.

The value on day d uses prices up to and including d; the environment shows it on day d + 1
(``indicator_lag=1``). Averages that need more days than exist use those that exist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Series = NDArray[np.float64]

NAMES = ("macd", "rsi_14", "cci_14", "dx_14", "boll_ub", "boll_lb", "sma_30", "atr_14")

# Wilder's smoothing over n days is an exponential average of span 2 n - 1.
_WILDER_14 = 27
_TINY = 1e-12


def exponential_mean(values: Series, span: int) -> Series:
    """Return the exponential moving average, started at the first value."""
    alpha = 2.0 / (span + 1.0)
    out = np.empty_like(values)
    level = out[0] = float(values[0])
    for i, value in enumerate(values[1:].tolist(), start=1):
        level += alpha * (value - level)
        out[i] = level
    return out


def trailing(values: Series, days: int) -> Series:
    """Return the last `days` values of every day, ``[len(values), days]``; NaN before the first."""
    padded = np.concatenate([np.full(days - 1, np.nan), values])
    return np.lib.stride_tricks.sliding_window_view(padded, days)


def indicators(high: Series, low: Series, close: Series) -> dict[str, Series]:
    """Compute the eight series of one ticker, each as long as `close`."""
    before = np.concatenate([close[:1], close[:-1]])

    change = close - before
    up = exponential_mean(np.maximum(change, 0.0), _WILDER_14)
    down = exponential_mean(np.maximum(-change, 0.0), _WILDER_14)

    typical = (high + low + close) / 3.0
    mean = np.nanmean(trailing(typical, 14), axis=1)
    spread = np.nanmean(trailing(np.abs(typical - mean), 14), axis=1)
    channel = (typical - mean) / np.maximum(0.015 * spread, _TINY)

    true_range = np.maximum.reduce([high - low, np.abs(high - before), np.abs(low - before)])
    rise = np.diff(high, prepend=high[:1])
    fall = -np.diff(low, prepend=low[:1])
    plus = exponential_mean(np.where((rise > fall) & (rise > 0), rise, 0.0), _WILDER_14)
    minus = exponential_mean(np.where((fall > rise) & (fall > 0), fall, 0.0), _WILDER_14)

    twenty = trailing(close, 20)
    middle, band = np.nanmean(twenty, axis=1), 2.0 * np.nanstd(twenty, axis=1)
    return {
        "macd": exponential_mean(close, 12) - exponential_mean(close, 26),
        "rsi_14": 100.0 * up / np.maximum(up + down, _TINY),
        "cci_14": np.clip(channel, -500.0, 500.0),
        "dx_14": 100.0 * np.abs(plus - minus) / np.maximum(plus + minus, _TINY),
        "boll_ub": middle + band,
        "boll_lb": middle - band,
        "sma_30": np.nanmean(trailing(close, 30), axis=1),
        "atr_14": exponential_mean(true_range, _WILDER_14),
    }
