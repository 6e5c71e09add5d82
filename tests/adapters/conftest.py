"""What the adapters' tests share: made-up prices, and the registered environments to try."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

DAYS = 80


@pytest.fixture(scope="session")
def prices(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a market of two tickers and an index, with two indicators."""
    draw = np.random.default_rng(7)
    path = tmp_path_factory.mktemp("market") / "prices.csv"
    days = np.arange("2024-01-01", DAYS, dtype="datetime64[D]")
    lines = ["date,tic,open,high,low,close,volume,rsi,ema"]
    for ticker in ("AAA", "BBB", "IDX"):
        close = 100 * np.exp(np.cumsum(draw.normal(0, 0.02, DAYS)))
        lines += [
            f"{day},{ticker},{price},{price + 1},{price - 1},{price},1000,{draw.random()},{price}"
            for day, price in zip(days, close, strict=True)
        ]
    path.write_text("\n".join(lines))
    return path
