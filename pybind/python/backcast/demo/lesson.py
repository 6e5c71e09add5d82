"""Learning task: the next five days of a share, given the twenty days before.

Everything known at the open of day d is used and nothing later: the closes, ranges and volumes of
d-20 .. d-1, each relative to the open of d or to their own mean. Two targets: the log return from
the open of d to the close of d+5 (hard: prices say little) and the log of the mean daily range,
ln(high / low), of d+1 .. d+5 (easy: volatility clusters; it shows that windows and rows fit
together). A (row, ticker) pair counts only if no place of its history and future is masked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Mask = NDArray[np.bool_]

HISTORY = 20
FUTURE = 5
FEATURES = 3 * HISTORY
TARGETS = ("return", "log_range")
# Typical sizes, so that the network sees numbers near one: a day's move, and five days'.
_DAY = 0.02
_FIVE_DAYS = 0.05
_LEAST_RANGE = 1e-4
_HIGH, _LOW, _CLOSE, _VOLUME = 1, 2, 3, 4


@dataclass(frozen=True)
class Examples:
    """Features ``[B, T, 3 H]``, targets ``[B, T, 2]`` in units near one, and which may be used.

    `known` needs the history alone (enough to predict), `complete` the future too.
    """

    features: Array
    targets: Array
    known: Mask
    complete: Mask

    def usable(self, rows: Mask) -> tuple[Array, Array]:
        """Pick the complete pairs of the chosen rows: features ``[n, 3 H]``, targets ``[n, 2]``."""
        use = self.complete & rows[:, None]
        return self.features[use], self.targets[use]


def examples(windows: dict[str, Any]) -> Examples:
    """Build features and targets from the arrays of ``Panel.windows``."""
    history = np.asarray(windows["history"][..., : _VOLUME + 1], np.float64)
    future = np.asarray(windows["future"][..., :_VOLUME], np.float64)
    today = np.asarray(windows["open"], np.float64)

    known = windows["history_mask"].all(axis=-1) & windows["listed"] & (today > 0)
    known &= (history[..., :_VOLUME] > 0).all(axis=(-2, -1))
    complete = known & windows["future_mask"].all(axis=-1)
    complete &= (future > 0).all(axis=(-2, -1))

    # Masked places are zero: any positive number in their place keeps the logarithms finite.
    history = np.where(known[..., None, None], history, 1.0)
    future = np.where(complete[..., None, None], future, 1.0)
    today = np.where(known, today, 1.0)

    days_ago = np.arange(HISTORY, 0, -1)
    moves = np.log(history[..., _CLOSE] / today[..., None]) / (_DAY * np.sqrt(days_ago))
    ranges = np.log(np.maximum(_range(history), _LEAST_RANGE) / _DAY)
    volume = history[..., _VOLUME]
    volumes = np.log((volume + 1.0) / (volume.mean(axis=-1, keepdims=True) + 1.0))
    features = np.concatenate([moves, ranges, volumes], axis=-1)

    gain = np.log(future[..., -1, _CLOSE] / today) / _FIVE_DAYS
    spread = np.log(np.maximum(_range(future).mean(axis=-1), _LEAST_RANGE) / _DAY)
    targets = np.stack([gain, spread], axis=-1)
    return Examples(np.clip(features, -8.0, 8.0), targets, known, complete)


def _range(prices: Array) -> Array:
    return np.asarray(np.log(prices[..., _HIGH] / prices[..., _LOW]))


def squared_errors(predicted: Array, targets: Array) -> Array:
    """Return the mean squared error of each target, the first in squared log returns."""
    return np.asarray(np.mean((predicted - targets) ** 2, axis=0) * [_FIVE_DAYS**2, 1.0])


def five_day_return(scaled: float) -> float:
    """Turn a predicted return target into a log return."""
    return float(scaled) * _FIVE_DAYS
