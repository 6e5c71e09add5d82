"""A portfolio in plain NumPy, written from docs/concepts/portfolio-rules.md, one at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class Rules:
    """Settings of one portfolio; the names are those of the environment."""

    weights: bool = True
    leverage: float = 1.0
    hmax: int = 15
    fractional: bool = True
    margin: tuple[float, float, float, float] | None = None
    max_position: float | None = None
    max_volume: float | None = None
    buy: float = 0.01
    sell: float = 0.01
    fixed: float = 0.0
    slippage_bps: float = 0.0
    per_share: float = 0.0
    impact_bps: float = 0.0
    bars_per_year: float = 252.0
    threshold: float = 0.0


@dataclass
class Market:
    """Columns of a panel, [D, T] each; every ticker has every row."""

    close: np.ndarray
    volume: np.ndarray
    dividend: np.ndarray
    split: np.ndarray


@dataclass
class Portfolio:
    """State of one portfolio."""

    rules: Rules
    market: Market
    day: int
    cash: float
    units: np.ndarray
    info: dict[str, Any] = field(default_factory=dict)

    def value(self) -> float:
        return self.cash + float((self.units * self.market.close[self.day]).sum())

    def step(self, action: np.ndarray) -> tuple[float, bool]:
        """Trade one day; return the log return, and whether the portfolio is ruined."""
        rules, close = self.rules, self.market.close[self.day]
        before = equity = self.value()
        self.info = {"fees": 0.0, "slippage": 0.0, "impact": 0.0, "borrow": 0.0, "interest": 0.0}
        self.info |= {"dividends": 0.0, "liquidated": False}
        if rules.weights:
            gross = np.abs(action).sum()
            scale = rules.leverage / gross if gross > rules.leverage else 1.0
            orders = action * scale * max(equity, 0) / close - self.units
        else:
            orders = action * rules.hmax
        if rules.fractional:
            orders = np.where(np.abs(orders) * close < 1e-9 * max(equity, 0), 0.0, orders)
        else:
            orders = np.trunc(orders)
        self.info["orders"] = orders
        fills = np.zeros(len(orders))
        sequence = sorted(
            (at for at in range(len(orders)) if orders[at] != 0),
            key=lambda at: (orders[at] > 0, -abs(orders[at]), at),
        )
        for at in sequence:
            size = self._cut(at, orders[at], equity)
            if size != 0:
                fills[at] += self._execute(at, size)
        if rules.margin is not None:
            gross = (np.abs(self.units) * close).sum()
            if gross > 0 and self.value() < rules.margin[1] * gross:
                longs = [at for at in range(len(orders)) if self.units[at] > 0]
                shorts = [at for at in range(len(orders)) if self.units[at] < 0]
                for at in longs + shorts:
                    closed = self._execute(at, -self.units[at], forced=True)
                    self.info["liquidated"] |= closed != 0
                    fills[at] += closed
        self.info["fills"] = fills
        self._carry()
        self.day += 1
        after = self.value()
        reward = np.log(max(after, 1e-6 * before) / before) if before > 0 else 0.0
        ruined = after <= rules.threshold or (rules.margin is not None and after <= 0)
        return float(reward), ruined

    def _cut(self, at: int, order: float, equity: float) -> float:
        rules, held = self.rules, self.units[at]
        most = 2147483647
        size = min(max(order, min((-most if rules.margin else 0) - held, 0)), max(most - held, 0))
        if rules.max_position is not None:
            cap = rules.max_position * max(equity, 0) / self.market.close[self.day, at]
            size = min(max(size, min(-cap - held, 0)), max(cap - held, 0))
        if rules.max_volume is not None:
            cap = rules.max_volume * self.market.volume[self.day, at]
            size = min(max(size, -cap), cap)
        return size if rules.fractional else float(np.trunc(size))

    def _execute(self, at: int, size: float, forced: bool = False) -> float:
        rules, close = self.rules, self.market.close[self.day, at]
        side, asked, held = np.sign(size), abs(size), self.units[at]
        share = asked / self.market.volume[self.day, at]
        impact = close * rules.impact_bps / 1e4 * np.sqrt(share) if rules.impact_bps else 0.0
        slippage = close * rules.slippage_bps / 1e4 + rules.per_share
        price = close + side * (slippage + impact)
        if price <= 0:
            return 0.0
        fee = rules.buy if side > 0 else rules.sell
        number = asked
        if forced:
            pass
        elif rules.margin is not None:
            closing = min(abs(held), asked) if held * side < 0 else 0.0
            opening = asked - closing
            lost = slippage + impact + price * fee
            gross = (np.abs(self.units) * self.market.close[self.day]).sum()
            initial = rules.margin[0]
            room = self.value() - lost * closing - rules.fixed - initial * (gross - close * closing)
            most = room / (initial * close + lost)
            if opening * (1 - 1e-12) > most:
                opening = max(most, 0.0)
                opening = opening if rules.fractional else np.trunc(opening)
            number = closing + opening
        elif side > 0:
            unit = price * (1 + fee)
            if asked * unit + rules.fixed > self.cash:
                number = max((self.cash - rules.fixed) / unit, 0.0)
                number = number if rules.fractional else np.trunc(number)
        if number <= 0:
            return 0.0
        flow = -side * price * number - price * number * fee - rules.fixed
        if rules.margin is None and side < 0 and self.cash + flow < 0:
            return 0.0
        self.cash += flow
        self.units[at] += side * number
        self.info["fees"] += price * number * fee + rules.fixed
        self.info["slippage"] += slippage * number
        self.info["impact"] += impact * number
        return float(side * number)

    def _carry(self) -> None:
        rules, close = self.rules, self.market.close[self.day]
        if rules.margin is not None:
            short = -(np.minimum(self.units, 0) * close).sum()
            borrow = short * rules.margin[2] / rules.bars_per_year
            interest = max(-self.cash, 0) * rules.margin[3] / rules.bars_per_year
            self.cash -= borrow + interest
            self.info["borrow"], self.info["interest"] = borrow, interest
        ratio = self.market.split[self.day + 1]
        ratio = np.where(ratio > 0, ratio, 1.0)
        exact = self.units * ratio
        if rules.fractional:
            self.units = exact
        else:
            nearest = np.round(exact)
            self.units = np.where(np.abs(exact - nearest) <= 1e-9, nearest, np.trunc(exact))
        self.cash += float(((exact - self.units) * close / ratio).sum())
        paid = float((self.units * self.market.dividend[self.day + 1]).sum())
        self.cash += paid
        self.info["dividends"] = paid
