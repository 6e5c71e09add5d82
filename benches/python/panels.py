"""Measure how fast a market is read from a CSV file, in one process.

python benches/python/panels.py [--rounds 7] [--seconds 1] [--quick]

The file has the market of the other suites: 2,500 days of 33 tickers, 13 numbers a line. Backcast
makes a panel of all columns, by ticker and day, and checks every cell. NumPy makes a structured
array, line by line. The third contender only reads the bytes into new memory.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import backcast as bc
import numpy as np
import results
from numpy.typing import NDArray
from portfolios.market import DAYS, MACROS, Columns, names, prices, write
from replay.rounds import read_options, take_turns

MB = 1e6


def loaded(path: Path) -> bc.Panel:
    """Load the file into a panel that is private to this process, as NumPy's array is."""
    return bc.Panel.from_csv(path, macro=list(MACROS))


def lines_of(path: Path, columns: Columns) -> NDArray[np.void]:
    """Parse the file with NumPy."""
    kinds = [("date", "U10"), ("tic", "U4"), *((name, "f8") for name in columns)]
    lines: NDArray[np.void] = np.loadtxt(path, dtype=kinds, delimiter=",", skiprows=1)
    return lines


def check(path: Path, columns: Columns) -> None:
    """Assert that both read the same numbers."""
    panel, lines = loaded(path), lines_of(path, columns)
    tickers = [list(panel.tickers).index(name) for name in names()]
    for name in columns:
        values = panel.values[tickers, :, list(panel.columns).index(name)]
        of_lines = lines[name].reshape(DAYS, len(tickers)).T
        assert np.array_equal(values, of_lines), f"{name} is the same in both"


def main() -> None:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(prog="panels.py", description=__doc__.splitlines()[0])
    options = read_options(parser, seconds=1)
    columns = prices()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "market.csv")
        write(path, columns)
        check(path, columns)
        calls: dict[str, Callable[[], object]] = {
            "backcast": partial(loaded, path),
            "NumPy, loadtxt": partial(lines_of, path, columns),
            "read of the bytes": path.read_bytes,
        }
        size = path.stat().st_size
        rates = take_turns(calls, size, options.rounds, options.seconds)
    figures = [(rate.contender, [of / MB for of in rate.rates]) for rate in rates]
    entries = results.lines("panels", f"load a CSV of {size / MB:.1f} MB", "MB/s", figures, "main")
    results.table(entries)
    if not options.quick:
        results.append(entries)


if __name__ == "__main__":
    main()
