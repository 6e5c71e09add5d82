"""Public record of the model: prices, volume, flow, arousal, indicators, candles."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from market_model.book import Trade

HORIZONS = (15.0, 30.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1_920.0)
FLOW_TICKS = 20.0
PACE_TICKS = 100.0
VOLATILITY_TICKS = 60.0


@dataclass(slots=True)
class Horizon:
    """Decaying means of the mid-price and of its changes with one time constant."""

    ticks: float
    mean: float
    high: float
    low: float
    variance: float = 0.0
    up: float = 0.0
    down: float = 0.0
    signal: float = 0.0

    def add(self, mid: float, change: float, shorter: float) -> None:
        """Add the mid-price of a tick. `shorter` is the mean of the next shorter horizon."""
        weight = 1.0 / self.ticks
        gap = mid - self.mean
        self.mean += weight * gap
        self.variance += weight * ((1.0 - weight) * gap * gap - self.variance)
        self.up += weight * (max(change, 0.0) - self.up)
        self.down += weight * (max(-change, 0.0) - self.down)
        self.signal += 2.0 * weight * (shorter - self.mean - self.signal)
        self.high = max(mid, self.high - weight * (self.high - mid))
        self.low = min(mid, self.low + weight * (mid - self.low))


@dataclass(slots=True)
class Candle:
    """Prices and shares of some ticks; it opens at the close of the one before."""

    open: int
    high: int
    low: int
    close: int
    volume: int = 0


@dataclass(slots=True)
class Tick:
    """Trades of one tick. `trades` are side, shares, and the sum of price times shares."""

    prices: list[int] = field(default_factory=list)
    volume: int = 0
    signed: int = 0
    notional: int = 0
    trades: list[tuple[int, int, int]] = field(default_factory=list)


class Tape:
    """Record of one symbol."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        price = config["initial_price"]
        self.mid, self.last, self.tick = float(price), price, Tick()
        self.flow = self.roots = self.consumed = self.activity = self.rate = self.pace = 0.0
        typical = config["arousal"]["typical"]
        self.fast = self.slow = typical
        self.variance = typical**2
        self.volume = self.notional = 0
        self.horizons = [Horizon(ticks, self.mid, self.mid, self.mid) for ticks in HORIZONS]
        self.ticks, self.candle = 0, Candle(price, price, price, price)
        self.candles: list[Candle] = []

    def begin(self) -> None:
        """Begin a tick."""
        self.tick = Tick()

    def arrive(self, side: int, trades: list[Trade], *, pushes: bool) -> None:
        """Add the trades of one incoming order; `pushes` is false for orders of makers."""
        tick, shares = self.tick, sum(trade.quantity for trade in trades)
        notional = sum(trade.resting.price * trade.quantity for trade in trades)
        tick.prices += [trade.resting.price for trade in trades]
        tick.volume += shares
        tick.signed += side * shares
        tick.notional += notional
        tick.trades.append((side, shares, notional))
        self.last = tick.prices[-1]
        if pushes:
            self.roots += side * math.sqrt(shares)
            self.consumed += side * shares

    def cross(self, side: int, shares: int, price: int) -> None:
        """Add the trades of an auction, which neither side initiates; `side` has more shares."""
        tick = self.tick
        tick.prices.append(price)
        tick.volume += shares
        tick.notional += price * shares
        tick.trades.append((side, shares, price * shares))
        self.last = price

    def end(self, bid: int | None, ask: int | None) -> None:
        """Close a tick."""
        before, tick, arousal = self.mid, self.tick, self.config["arousal"]
        if bid is not None and ask is not None:
            self.mid = (bid + ask) / 2
        change = self.mid - before
        self.volume += tick.volume
        self.notional += tick.notional
        self.flow += tick.signed - self.flow / FLOW_TICKS
        self.roots -= self.roots / FLOW_TICKS
        self.activity += tick.volume - self.activity / FLOW_TICKS
        self.rate += (len(tick.prices) - self.rate) / FLOW_TICKS
        self.pace += (tick.volume - self.pace) / PACE_TICKS
        self.variance += (change * change - self.variance) / VOLATILITY_TICKS
        self.fast += (abs(change) - self.fast) / arousal["fast_ticks"]
        self.slow += (abs(change) - self.slow) / arousal["slow_ticks"]
        shorter = self.mid
        for horizon in self.horizons:
            horizon.add(self.mid, change, shorter)
            shorter = horizon.mean
        self.draw_candle()

    def draw_candle(self) -> None:
        """Add the tick to the candle, and close it after its last tick."""
        candle, tick = self.candle, self.tick
        if tick.volume:
            candle.high = max(candle.high, *tick.prices)
            candle.low = min(candle.low, *tick.prices)
            candle.close = self.last
            candle.volume += tick.volume
        self.ticks += 1
        if self.ticks % self.config["features"]["candle_ticks"] == 0:
            self.candles.append(candle)
            self.candle = Candle(candle.close, candle.close, candle.close, candle.close)

    def volatility(self) -> float:
        """Return the root of the mean squared change of the mid-price in one tick."""
        return math.sqrt(self.variance)

    def arousal(self) -> float:
        """Return the factor on all wake rates."""
        config = self.config["arousal"]
        excited = config["fast"] * self.fast + config["slow"] * self.slow
        return float(min(config["floor"] + excited / config["typical"], config["ceiling"]))

    def mean_price(self) -> float:
        """Return the mean price of all shares traded; the last price before any."""
        return self.notional / self.volume if self.volume else float(self.last)

    def indicator(self, which: str, at: int) -> float:
        """Return an indicator at one horizon; it is positive in a rising market."""
        horizon = self.horizons[at]
        shorter = self.horizons[at - 1].mean if at else self.mid
        sd = max(math.sqrt(horizon.variance), 0.25)
        gap = shorter - horizon.mean
        if which == "mean_gap":
            return gap / sd
        if which == "strength":
            changes = max(horizon.up + horizon.down, 1e-9)
            return (horizon.up - horizon.down) / changes * math.sqrt(horizon.ticks)
        if which == "divergence":
            return 2.0 * (gap - horizon.signal) / sd
        if which == "band":
            return (self.mid - horizon.mean) / sd
        middle, width = 0.5 * (horizon.high + horizon.low), max(horizon.high - horizon.low, 0.5)
        return (self.mid - middle) / width * 3.0
