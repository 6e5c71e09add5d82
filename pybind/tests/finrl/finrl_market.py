"""Small random markets as CSV files, whose late, missing and changed rows the tests choose."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

COLUMNS = ("open", "high", "low", "close", "volume", "zeta", "alpha")
"""The indicators are not in alphabetical order."""


@dataclass
class Market:
    """Prices by ticker, float64 ``[days, columns]``, and the missing rows."""

    rows: dict[str, NDArray[np.float64]]
    missing: set[tuple[str, int]] = field(default_factory=set)

    def write(self, path: Path, columns: Sequence[str] = COLUMNS) -> Path:
        """Write a CSV."""
        lines = [",".join(["date", "tic", *columns])]
        for ticker, rows in self.rows.items():
            for day, row in enumerate(rows):
                if (ticker, day) not in self.missing:
                    today = date(2020, 1, 1) + timedelta(days=day)
                    cells = [repr(float(row[COLUMNS.index(column)])) for column in columns]
                    lines.append(",".join([str(today), ticker, *cells]))
        path.write_text("\n".join(lines) + "\n")
        return path


def market(
    days: int = 40,
    tickers: Sequence[str] = ("AAA", "BBB", "CCC"),
    *,
    seed: int = 3,
    late: Mapping[str, int] | None = None,
    gaps: Collection[tuple[str, int]] = (),
    spread: float = 0.03,
) -> Market:
    """Draw a random walk for each ticker."""
    draw = np.random.default_rng(seed)
    rows = {}
    for ticker in tickers:
        close = 50 * np.exp(np.cumsum(draw.normal(0, spread, days)))
        opening = close * np.exp(draw.normal(0, spread / 2, days))
        high = np.maximum(opening, close) * (1 + draw.uniform(0, spread, days))
        low = np.minimum(opening, close) * (1 - draw.uniform(0, spread, days))
        volume = np.full(days, 1_000.0)
        shown = [draw.normal(size=days), draw.normal(size=days)]
        rows[ticker] = np.stack([opening, high, low, close, volume, *shown], axis=1)
    missing = set(gaps)
    for ticker, first in (late or {}).items():
        missing |= {(ticker, day) for day in range(first)}
    return Market(rows, missing)


def constant(prices: Mapping[str, Sequence[float]]) -> Market:
    """Return a market in which open, high, low and close of a day are equal."""
    rows = {}
    for ticker, values in prices.items():
        column = np.array(values, float)
        zeros = np.zeros(len(column))
        rows[ticker] = np.stack([*[column] * 4, zeros + 1, zeros, zeros], axis=1)
    return Market(rows)
