"""Markets to evaluate policies on."""

from __future__ import annotations

from typing import Any

import backcast as bc
import numpy as np
from numpy.typing import NDArray

DAYS = 150


def closes(days: int = DAYS, tickers: int = 3, seed: int = 0) -> NDArray[np.float64]:
    """Return random walks, ``[tickers, days]``."""
    draw = np.random.default_rng(seed)
    walks: NDArray[np.float64] = 20 * np.exp(draw.normal(0, 0.02, (tickers, days)).cumsum(axis=1))
    return walks


def panel_of(close: NDArray[np.float64], **options: Any) -> bc.Panel:  # noqa: ANN401 - keywords
    """Return a panel of closes, NaN for no row. Each day opens at the close before."""
    tickers, days = close.shape
    opened = np.concatenate([close[:, :1], close[:, :-1]], axis=1)
    opened = np.where(np.isnan(opened), close, opened)
    dates = np.arange("2020-01-01", days, dtype="datetime64[D]")
    return bc.Panel.from_frame(
        {
            "date": np.tile(dates, tickers),
            "tic": np.repeat([f"T{at:02}" for at in range(tickers)], days),
            "open": opened.ravel(),
            "high": np.maximum(opened, close).ravel() * 1.01,
            "low": np.minimum(opened, close).ravel() * 0.99,
            "close": close.ravel(),
            "volume": np.ones(close.size),
        },
        nan="mask",
        **options,
    )
