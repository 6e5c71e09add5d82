"""Market data of the demo: daily prices from the files of two PyPI packages, as one CSV.

``python -m backcast.demo.data OUT.csv`` writes it on its own. Only data files of the packages are
read; neither is imported, so their own dependencies are not needed. Shares (AAPL, FB, GOOG, IBM,
MSFT, 2000-03-01 to 2013-03-01) come from bokeh_sampledata, unadjusted: open, high, low and close
are multiplied by adjusted close / close, volume stays as traded. SP500 and NASDAQ come from arch,
cut to the same days. No package has VIX for these years: RVOL, the 20-day realised volatility of
SP500 in percent a year, is written in its place.
"""

from __future__ import annotations

import csv
import gzip
import importlib.util
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from backcast.demo.indicators import NAMES, indicators, trailing

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    Series = NDArray[np.float64]

PRICES = ("open", "high", "low", "close", "volume")
MACRO = ("NASDAQ", "RVOL", "SP500")
FIRST_TEST_DATE = "2011-01-01"
_TRADING_DAYS_A_YEAR = 252.0


class DataMissingError(Exception):
    """A package that ships the prices is not installed."""


@dataclass(frozen=True)
class History:
    """Daily prices of one ticker, oldest first."""

    ticker: str
    dates: list[str]
    prices: dict[str, Series]

    def on(self, days: set[str]) -> History:
        """Keep the given dates only."""
        keep = [i for i, date in enumerate(self.dates) if date in days]
        prices = {name: series[keep] for name, series in self.prices.items()}
        return replace(self, dates=[self.dates[i] for i in keep], prices=prices)


def package_file(package: str, *parts: str) -> Path:
    """Find a data file of an installed package without importing it."""
    spec = importlib.util.find_spec(package)
    path = Path(spec.origin).parent.joinpath(*parts) if spec and spec.origin else None
    if path is None or not path.is_file():
        raise DataMissingError(
            f"no {'/'.join(parts)} of the package {package!r}: the demo's prices ship inside it. "
            f"Run `{sys.executable} -m pip install --no-deps bokeh_sampledata==2026.1 arch==8.0.0`,"
            " or give a file of your own with --panel FILE.csv"
        )
    return path


def _records(path: Path) -> list[dict[str, str]]:
    with gzip.open(path, "rt", encoding="ascii", newline="") as text:
        return list(csv.DictReader(text))


def _column(records: Iterable[dict[str, str]], name: str) -> Series:
    return np.array([float(record[name]) for record in records])


def shares() -> list[History]:
    """Read the five shares, adjusted for splits and dividends."""
    path = package_file("bokeh_sampledata", "_data", "stocks.csv.gz")
    by_ticker: dict[str, list[dict[str, str]]] = {}
    for record in _records(path):
        by_ticker.setdefault(record["Ticker"], []).append(record)
    histories = []
    for ticker, records in sorted(by_ticker.items()):
        records.sort(key=lambda record: record["Date"])
        adjusted = _column(records, "Adj Close")
        factor = adjusted / _column(records, "Close")
        prices = {name: _column(records, name.title()) * factor for name in PRICES[:3]}
        prices |= {"close": adjusted, "volume": _column(records, "Volume")}
        histories.append(History(ticker, [record["Date"] for record in records], prices))
    return histories


def index_level(ticker: str, name: str) -> History:
    """Read one of arch's index files; its dates are written month/day/year."""
    records = _records(package_file("arch", "data", name, f"{name}.csv.gz"))
    parts = [record["Date"].split("/") for record in records]
    dates = [f"{int(year):04d}-{int(month):02d}-{int(day):02d}" for month, day, year in parts]
    return History(ticker, dates, {name: _column(records, name.title()) for name in PRICES})


def realised_volatility(index: History) -> History:
    """Turn an index into its 20-day volatility in percent a year, as a ticker called RVOL."""
    returns = np.diff(np.log(index.prices["close"]), prepend=np.nan)
    window = trailing(returns, 20)
    known = np.isfinite(window).sum(axis=1)
    first = int(np.argmax(known >= 5))
    spread = np.nanstd(window[first:], axis=1, ddof=1)
    # Days before the first estimate carry it, so that no cell is missing.
    level = np.concatenate([np.full(first, spread[0]), spread])
    close = level * np.sqrt(_TRADING_DAYS_A_YEAR) * 100.0
    open_ = np.concatenate([close[:1], close[:-1]])
    prices = {"open": open_, "close": close, "volume": np.zeros_like(close)}
    prices |= {"high": np.maximum(open_, close), "low": np.minimum(open_, close)}
    return History("RVOL", index.dates, prices)


def histories() -> list[History]:
    """Collect all eight tickers, sorted by name, on the days of the shares."""
    stocks = shares()
    days = {date for history in stocks for date in history.dates}
    sp500 = index_level("SP500", "sp500")
    macro = [sp500, index_level("NASDAQ", "nasdaq"), realised_volatility(sp500)]
    return sorted(stocks + [index.on(days) for index in macro], key=lambda one: one.ticker)


def write_csv(out: Path, tickers: Sequence[History]) -> int:
    """Write prices and indicators in long format, by date, then ticker; return the rows written."""
    rows = []
    for history in tickers:
        prices = history.prices
        made = indicators(prices["high"], prices["low"], prices["close"])
        block = np.column_stack([prices[n] for n in PRICES] + [made[n] for n in NAMES])
        for date, values in zip(history.dates, block.tolist(), strict=True):
            cells = ",".join([f"{value:.6f}" for value in values])
            rows.append((date, history.ticker, cells))
    rows.sort()
    with out.open("w", encoding="ascii", newline="\n") as text:
        text.write(",".join(("date", "tic", *PRICES, *NAMES)) + "\n")
        text.writelines(f"{date},{ticker},{cells}\n" for date, ticker, cells in rows)
    return len(rows)


def write_real_panel(out: Path) -> int:
    """Write the demo's panel to `out`: 21,964 rows, 3,270 days, 8 tickers; about a second."""
    return write_csv(out, histories())


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit("usage: python -m backcast.demo.data OUT.csv")
    try:
        print(f"{sys.argv[1]}: {write_real_panel(Path(sys.argv[1]))} rows")
    except (DataMissingError, OSError) as error:
        sys.exit(f"backcast demo data: {error}")
