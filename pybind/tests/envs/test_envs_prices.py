"""Prices and volumes at which orders or holdings are impossible, when an environment is made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import backcast as bc
import backcast.finrl as ff
import numpy as np
import pytest
from backcast.envs import PortfolioEnv, PortfolioVectorEnv
from backcast.errors import EnvError


def prices(folder: Path, **closes: float) -> Path:
    """Write a CSV of tickers whose price never changes."""
    lines = ["date,tic,open,high,low,close,volume"]
    for date in np.arange("2024-01-01", 30, dtype="datetime64[D]"):
        lines += [f"{date},{tic},{p},{p},{p},{p},1" for tic, p in closes.items()]
    path = folder / "prices.csv"
    path.write_text("\n".join(lines))
    return path


def test_a_share_that_costs_more_than_there_is(tmp_path: Path) -> None:
    path = prices(tmp_path, BTC=65_000.0, AAA=10.0)
    for make in (
        lambda: PortfolioEnv(path),
        lambda: PortfolioVectorEnv(path, 3),
        lambda: ff.FastFinRL(path),
        lambda: ff.VecFastFinRL(path, 2),
        lambda: ff.VecFinRLWrapper(path, 10),
    ):
        with pytest.warns(UserWarning, match=r'"BTC".*\b65000\b.*\binitial_amount\b') as warned:
            make()
        assert len(warned) == 1
        assert warned[0].filename == __file__
    PortfolioEnv(path, initial_amount=65_651)
    PortfolioEnv(path, tickers=["AAA"])
    with pytest.warns(UserWarning, match=r'"BTC".*\b65000\b'):
        PortfolioEnv(path, initial_amount=65_649)  # 1 less than the price plus the fee of 1 %.


def test_holdings_that_stop_before_the_cash_is_spent(tmp_path: Path) -> None:
    path = prices(tmp_path, SHIB=9e-6)
    with pytest.warns(UserWarning, match=r'\b2147483647\b.*"SHIB".*\b0\.000009\b'):
        PortfolioEnv(path)
    PortfolioEnv(path, initial_amount=19_000, failure_threshold=0)


def test_limits_by_volume_need_a_volume() -> None:
    days = np.arange("2024-01-01", 30, dtype="datetime64[D]")
    closes = {"date": np.tile(days, 2), "tic": np.repeat(["A", "B"], 30), "close": np.full(60, 9.0)}
    derived: dict[str, Any] = {"derive": ["open", "high", "low"]}
    none = bc.Panel.from_frame(closes, derive=[*derived["derive"], "volume"])
    for name, value in (("max_volume", 0.1), ("impact_bps", 10.0)):
        settings: dict[str, Any] = {name: value}
        for make in (
            lambda settings=settings: PortfolioEnv(none, **settings),
            lambda settings=settings: PortfolioVectorEnv(none, 2, **settings),
        ):
            with pytest.raises(EnvError) as raised:
                make()
            said = str(raised.value)
            assert all(word in said for word in (name, "all 2 tickers", "volume", "leave", "load"))
        with pytest.raises(EnvError, match='"A"'):
            PortfolioEnv(none, tickers=["A"], **settings)
        some = bc.Panel.from_frame(closes | {"volume": [0.0] * 30 + [5.0] * 30}, **derived)
        with pytest.warns(UserWarning, match=rf'volume.*`{name}`.*"A" at 9') as warned:
            PortfolioEnv(some, **settings)
        assert len(warned) == 1
        assert warned[0].filename == __file__
        PortfolioEnv(some, tickers=["B"], **settings)
    PortfolioEnv(none)


def test_one_column_is_not_both_dividends_and_splits(tmp_path: Path) -> None:
    with pytest.raises(EnvError, match=r"dividends.*splits of the same column.*column for each"):
        PortfolioEnv(prices(tmp_path, A=9.0), dividends="paid", splits="paid")
