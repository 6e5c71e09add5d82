"""Markets and environments of the regression tests of defects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import backcast.finrl as ff
from finrl_market import constant, market


def ordinary(folder: Path) -> Path:
    """Write a market of 40 days without holes."""
    return market(tickers=["AAA", "BBB", "CCC", "VIX"]).write(folder / "market.csv")


def crash(folder: Path) -> Path:
    """Write a market of two tickers that fall by three fifths on day 6."""
    ends = [100.0] * 6 + [40.0] * 14
    return constant({"AAA": ends, "BBB": ends}).write(folder / "crash.csv")


def vec(source: Any, n_envs: int = 2, **settings: Any) -> ff.VecFastFinRL:  # noqa: ANN401
    """Make the vectorised class with states as arrays."""
    return ff.VecFastFinRL(source, n_envs, **({"return_format": "vec"} | settings))
