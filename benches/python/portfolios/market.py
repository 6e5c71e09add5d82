"""A made-up market: 2,500 days of 33 tickers with one common factor, and causal indicators."""

from __future__ import annotations

import tempfile
from pathlib import Path

import backcast as bc
import numpy as np
from numpy.typing import NDArray

DAYS, TICKERS, MACROS = 2_500, 30, ("IDX", "QIX", "VOL")
INDICATORS = ("ema_12", "ema_26", "macd", "rsi_14", "sma_30", "range_14", "up_27", "down_27")

Columns = dict[str, NDArray[np.float64]]


def smoothed(values: NDArray[np.float64], span: int) -> NDArray[np.float64]:
    """Average exponentially along the first axis, from the first value on."""
    weight = 2 / (span + 1)
    out = values.copy()
    for day in range(1, len(out)):
        out[day] = out[day - 1] + weight * (values[day] - out[day - 1])
    return out


def prices(seed: int = 7) -> Columns:
    """Draw every column, ``[days, tickers]``, macro tickers last."""
    draw = np.random.default_rng(seed)
    names = TICKERS + len(MACROS)
    factor = draw.normal(0.0002, 0.01, (DAYS, 1)) * draw.uniform(0.5, 1.5, names)
    moves = factor + draw.normal(0, 0.012, (DAYS, names))
    close = draw.lognormal(4, 0.5, names) * np.exp(np.cumsum(moves, axis=0))
    before = np.vstack([close[:1], close[:-1]])
    opening = before * np.exp(draw.normal(0, 0.004, close.shape))
    high = np.maximum(opening, close) * np.exp(np.abs(draw.normal(0, 0.006, close.shape)))
    low = np.minimum(opening, close) * np.exp(-np.abs(draw.normal(0, 0.006, close.shape)))
    volume = np.rint(draw.lognormal(14, 0.5, close.shape))
    change = close - before
    up, down = smoothed(np.maximum(change, 0), 27), smoothed(np.maximum(-change, 0), 27)
    fast, slow = smoothed(close, 12), smoothed(close, 26)
    shown = [fast, slow, fast - slow, 100 * up / (up + down + 1e-12), smoothed(close, 30)]
    shown += [smoothed(high - low, 27), up, down]
    columns = {"open": opening, "high": high, "low": low, "close": close, "volume": volume}
    return columns | dict(zip(INDICATORS, shown, strict=True))


def names() -> list[str]:
    """Name the tickers, macro tickers last."""
    return [f"T{at:03}" for at in range(TICKERS)] + list(MACROS)


def write(path: Path, columns: Columns) -> None:
    """Write the market as a CSV file, a line per day and ticker."""
    dates = np.datetime64("2015-01-02") + np.arange(DAYS)
    lines = [",".join(["date", "tic", *columns])]
    for day, date in enumerate(dates.astype(str).tolist()):
        for at, name in enumerate(names()):
            cells = [f"{values[day, at]:.6f}" for values in columns.values()]
            lines.append(",".join([date, name, *cells]))
    path.write_text("\n".join(lines) + "\n")


def panel(columns: Columns) -> bc.Panel:
    """Load the market from a CSV file, as users do."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "market.csv")
        write(path, columns)
        return bc.Panel.from_csv(path, macro=list(MACROS))
