"""Random markets and settings for the tests against `finrl_oracle`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from finrl_golden import near
from finrl_market import market
from finrl_oracle import Prices, Rules

DRAWN: dict[str, list[Any]] = {
    "initial_amount": [30_000.0, 25_500.0, 3_000.0, 250_000.0],
    "failure_threshold": [25_000.0, 0.0, 100.0, 29_000.0],
    "hmax": [1, 15, 100, 1_000],
    "buy_cost_pct": [0.01, 0.0, 0.002, 0.25],
    "sell_cost_pct": [0.01, 0.0, 0.001, 0.25],
    "stop_loss_tolerance": [0.8, 0.0, 0.95, 1.0],
    "bidding": ["default", "default", "uniform", "adv_uniform"],
    "stop_loss_calculation": ["close", "low"],
    "stop_loss_day": ["same", "next", "same_always"],
    "indicator_lag": [1, 0, 3],
    "delisting": ["settle", "hold"],
    "valuation": [None, "open", "close"],
    "max_episode_steps": [None, 7],
    "fixed_fee": [0.0, 0.0, 2.5],
    "slippage_bps": [0.0, 0.0, 35.0],
    "tech_indicator_list": [(), ("alpha",), ("alpha", "zeta")],
}
"""Values of settings; the first of each is the likeliest one."""


@dataclass(frozen=True)
class MadeUp:
    """A market, its file, and settings to trade it with."""

    path: Path
    prices: Prices
    rules: Rules
    tickers: list[str]
    """Traded tickers, in alphabetical order."""

    def settings(self, *without: str) -> dict[str, Any]:
        """Return the settings as arguments of the classes."""
        given = {field.name: getattr(self.rules, field.name) for field in fields(self.rules)}
        panel, table = self.prices.tickers, self.rules.tradable
        days = len(self.prices.dates)
        given["tradable"] = [table.get(tic, [True] * days) for tic in panel] if table else None
        return {key: value for key, value in given.items() if key not in without}


def made_up(seed: int, folder: Path, **settled: Any) -> MadeUp:  # noqa: ANN401
    """Draw a market and settings; `settled` fixes some of the settings."""
    draw = np.random.default_rng(seed)
    many = draw.integers(17, 40) if draw.random() < 0.1 else draw.integers(1, 8)
    names = [f"T{at}" for at in draw.permutation(40)[:many]]
    macro = ["VIX", "SPY"][: draw.integers(0, 3)]
    days = int(draw.integers(25, 60))
    everything = [*names, *macro]
    late = {tic: int(draw.integers(1, 10)) for tic in everything if draw.random() < 0.2}
    # Some tickers are delisted before the market ends.
    gone = {tic: int(draw.integers(12, days)) for tic in names if draw.random() < 0.2}
    gaps = [
        (tic, int(day))
        for tic in everything
        if draw.random() < 2 / (2 + len(names))
        for day in draw.integers(5, days, 4)
    ] + [(tic, day) for tic, last in gone.items() for day in range(last, days)]
    spread = float(draw.choice([0.01, 0.03, 0.08]))
    made = market(days, everything, seed=seed, late=late, gaps=gaps, spread=spread)
    for rows in made.rows.values():
        rows[:, :4] *= float(draw.choice([0.02, 1.0, 30.0]))
        if draw.random() < 0.4:
            rows[draw.integers(1, days) :, :4] *= draw.uniform(0.05, 0.7)
        if draw.random() < 0.3:
            # Integer prices: they may tie, and cash can be spent to the last cent.
            rows[:, :4] = np.maximum(np.round(rows[:, :4]), 1.0)
    prices = Prices(path := made.write(folder / f"market-{seed}.csv"))
    days = len(prices.dates)

    drawn = {key: values[first_or_any(draw, len(values))] for key, values in DRAWN.items()}
    drawn["failure_threshold"] = min(drawn["failure_threshold"], drawn["initial_amount"] * 0.99)
    if draw.random() < 0.3:
        drawn["ticker_costs"] = {names[0]: (0.03, 0.0)}
    if draw.random() < 0.3:
        drawn["tradable"] = {tic: (draw.random(days) < 0.7).tolist() for tic in names[:2]}
    if draw.random() < 0.3:
        drawn["initial_shares"] = {names[-1]: 12}
    if draw.random() < 0.3:
        drawn["days"] = (int(draw.integers(0, 4)), days - int(draw.integers(0, 4)))
    rules = Rules(**(drawn | {"macro_tickers": macro} | settled))
    return MadeUp(path, prices, rules, sorted(names))


def first_or_any(draw: np.random.Generator, count: int) -> int:
    """Draw an index below `count`, at least half of the time 0."""
    return 0 if draw.random() < 0.5 else int(draw.integers(count))


def orders(draw: np.random.Generator, count: int) -> list[float]:
    """Draw the actions of a portfolio from one of four distributions, chosen at random."""
    kind = draw.integers(4)
    if kind == 0:
        return draw.choice([-1.0, -0.5, 0.0, 0.5, 1.0], count).tolist()  # type: ignore[no-any-return]
    if kind == 1:
        return (draw.uniform(-1, 1, count) ** 3).tolist()  # type: ignore[no-any-return]
    if kind == 2:
        return draw.uniform(0, 1, count).astype(np.float32).astype(float).tolist()  # type: ignore[no-any-return]
    return draw.uniform(-1, 1, count).tolist()  # type: ignore[no-any-return]


def rules_of(config: dict[str, Any], stop_loss_day: str) -> Rules:
    """Return the rules of a recorded trajectory."""
    known = {key: value for key, value in config.items() if key in Rules.__dataclass_fields__}
    return Rules(**known, indicator_lag=0, stop_loss_day=stop_loss_day)


def compare(found: Mapping[str, Any], expected: Mapping[str, Any], at: str) -> None:
    """Compare an environment's state with the expected one; empty parts may be missing."""
    for key, value in expected.items():
        if np.size(value) > 0:
            near(found[key], value, key if key == "reward" else f"{key} {at}")
