"""Features of the model: the full set of 55, the normalised 40, and the private 11."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from market_model.book import BUY, SELL
from market_model.ledger import CASH_PER_TICK
from market_model.market import Market
from market_model.tape import Candle

LAGS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
PRICE = 1e9
# Value, lower and upper bound, and what stands for None.
Entry = tuple[float | None, float, float, float]


def smooth(values: Sequence[float], length: int, weight: float) -> float | None:
    """Return an exponential mean that starts from the simple mean of the first values."""
    if len(values) < length:
        return None
    mean = sum(values[:length]) / length
    for value in values[length:]:
        mean += weight * (value - mean)
    return mean


def sd(values: Sequence[float], length: int, less_one: int) -> float | None:
    """Return the standard deviation of the last values, over their number or one less."""
    if len(values) < length:
        return None
    mean = sum(values[-length:]) / length
    return math.sqrt(sum((value - mean) ** 2 for value in values[-length:]) / (length - less_one))


def both(
    call: Callable[[float, float], float], left: float | None, right: float | None
) -> float | None:
    """Apply a function of two numbers where both are known."""
    return None if left is None or right is None else call(left, right)


def less(left: float | None, right: float | None) -> float | None:
    """Return a difference where both numbers are known."""
    return both(lambda a, b: a - b, left, right)


def imbalance(bids: int, asks: int) -> float | None:
    """Return (bids - asks) / (bids + asks)."""
    return (bids - asks) / (bids + asks) if bids + asks else None


class Indicators:
    """Indicators on closed candles, each from its definition over the whole history."""

    def __init__(self, candles: list[Candle]) -> None:
        self.closes = closes = [candle.close for candle in candles]
        pairs = list(pairwise(candles))
        changes = [after.close - before.close for before, after in pairs]
        ranges = [max(a.high, b.close) - min(a.low, b.close) for b, a in pairs]
        self.ema8, self.ema16 = smooth(closes, 8, 2 / 9), smooth(closes, 16, 2 / 17)
        self.macd = less(self.ema8, self.ema16)
        self.signal = self.macd_signal(closes)
        gain = smooth([max(change, 0) for change in changes], 8, 1 / 8)
        loss = smooth([max(-change, 0) for change in changes], 8, 1 / 8)
        self.rsi = both(lambda g, b: 100 * g / (g + b) if g + b else 50.0, gain, loss)
        self.atr = smooth(ranges, 8, 1 / 8)
        returns = [math.log(a.close / b.close) for b, a in pairs[-32:]]
        self.sd8, self.sd32 = sd(returns, 8, 1), sd(returns, 32, 1)
        deviation = sd(closes, 12, 0)
        self.band = None if deviation is None else 2 * deviation
        volumes = [candle.volume for candle in candles[-8:]]
        known = bool(volumes) and sum(volumes) > 0
        self.surge = volumes[-1] / (sum(volumes) / len(volumes)) if known else None

    @staticmethod
    def macd_signal(closes: list[int]) -> float | None:
        """Return the exponential mean of length 4 of all values of the MACD line."""
        fast, slow = sum(closes[:8]) / 8, sum(closes[:16]) / 16
        lines: list[float] = []
        for at, close in enumerate(closes):
            fast += 2 / 9 * (close - fast) if at >= 8 else 0.0
            slow += 2 / 17 * (close - slow) if at >= 16 else 0.0
            if at >= 15:
                lines.append(fast - slow)
        return smooth(lines, 4, 2 / 5)

    def mean(self, length: int) -> float | None:
        """Return the mean of the last closes."""
        return sum(self.closes[-length:]) / length if len(self.closes) >= length else None

    def ratio(self, lag: int) -> float | None:
        """Return the last close over that of `lag` candles before."""
        return self.closes[-1] / self.closes[-1 - lag] if len(self.closes) > lag else None


def written(entries: list[Entry]) -> NDArray[np.float32]:
    """Clip values to their bounds and fill in what is not known."""
    values = [
        missing if value is None else min(max(value, low), high)
        for value, low, high, missing in entries
    ]
    return np.array(values, np.float32)


def full(market: Market, seen: Indicators) -> NDArray[np.float32]:
    """Return the 55 features."""
    size: float = market.config["tick_size"]
    mid, tape, book = market.tape.mid, market.tape, market.book
    ratios = [seen.ratio(lag) for lag in LAGS]
    out: list[Entry] = [(mid * size, 0.0, PRICE, 0.0)]
    out += [(r and 100 * (r - 1), -100.0, 1e6, 0.0) for r in ratios]
    out += [(r and math.log(r), -20.0, 20.0, 0.0) for r in ratios]

    def price(ticks: float | None) -> Entry:
        return (None if ticks is None else ticks * size, -PRICE, PRICE, 0.0)

    out += [price(ticks) for ticks in (seen.mean(8), seen.mean(16), seen.ema8, seen.ema16)]
    out.append((seen.rsi, 0.0, 100.0, 50.0))
    line = None if seen.signal is None else seen.macd
    out += [price(line), price(seen.signal), price(less(line, seen.signal))]
    middle, band = seen.mean(12), seen.band
    lower = less(middle, band)
    upper = both(lambda a, b: a + b, middle, band)
    out += [price(upper), price(middle), price(lower)]
    place = (mid - lower) / (2 * band) if band and lower is not None else None
    out += [(place, -100.0, 100.0, 0.5), price(seen.atr)]
    active, sentiment, magnitude, ticks = headline(market)
    out += [(active, 0.0, 1.0, 0.0), (sentiment, -1.0, 1.0, 0.0), (magnitude, 0.0, 1.0, 0.0)]
    out.append((ticks, 0.0, 1e7, 0.0))
    spread = both(lambda bid, ask: 1e4 * (ask - bid) / mid, book.best(BUY), book.best(SELL))
    shares = [sum(order.left for order in book.orders(side)) for side in (BUY, SELL)]
    out += [(spread, 0.0, 1e5, 0.0), (imbalance(*shares), -1.0, 1.0, 0.0), flow(tape)]
    out += [(seen.sd8, 0.0, 20.0, 0.0), (seen.sd32, 0.0, 20.0, 0.0)]
    out.append((both(lambda a, b: a / b, seen.sd8, seen.sd32 or None), 0.0, 100.0, 1.0))
    away = mid / market.shown_value() - 1
    out += [(away, -1.0, 1e3, 0.0), (away + 1, 0.0, 1e3, 1.0)]
    out.append((both(lambda a, b: abs(a) / b, seen.macd, seen.atr or None), 0.0, 100.0, 0.0))
    out.append((less(seen.rsi, 50.0), -50.0, 50.0, 0.0))
    out += [(seen.surge, 0.0, 100.0, 1.0), (tape.rate, 0.0, 1e4, 0.0)]
    out.append((mood(market) * away, -1e3, 1e3, 0.0))
    return written(out)


def flow(tape: Any) -> Entry:  # noqa: ANN401
    """Return shares bought less sold by incoming orders, as a fraction of all."""
    known = tape.activity > 1e-6
    return (tape.flow / tape.activity if known else None, -1.0, 1.0, 0.0)


def headline(market: Market) -> tuple[float, float | None, float | None, float | None]:
    """Return whether there is live news, and sentiment, magnitude and ticks left of the newest."""
    if not (news := market.fundamental.live(market.now)):
        return 0.0, None, None, None
    return 1.0, news[-1].faded(market.now), news[-1].magnitude, news[-1].left(market.now)


def mood(market: Market) -> float:
    """Return the sum of the sentiments of live news."""
    return sum(event.faded(market.now) for event in market.fundamental.live(market.now))


def normalised(market: Market, seen: Indicators) -> NDArray[np.float32]:
    """Return the 40 features that do not depend on the price level."""
    mid, tape, book = market.tape.mid, market.tape, market.book

    def within(bound: float, *values: float | None) -> list[Entry]:
        return [(value, -bound, bound, 0.0) for value in values]

    def log(value: float | None) -> float | None:
        return (math.log(value) if value else -math.inf) if value is not None else None

    out: list[Entry] = []
    deviation = None if seen.sd32 is None else max(seen.sd32, 0.25 / mid)
    for lag in LAGS:
        ratio = log(seen.ratio(lag))
        scale = None if deviation is None else deviation * math.sqrt(lag)
        out += within(5.0, both(lambda a, b: a / b, ratio, scale))
    atr = None if seen.atr is None else max(seen.atr, 0.5)

    def in_ranges(*distances: float | None) -> list[Entry]:
        return within(10.0, *(both(lambda a, b: a / b, d, atr) for d in distances))

    means = (seen.mean(8), seen.mean(16), seen.ema8, seen.ema16)
    out += in_ranges(*(less(mid, mean) for mean in means))
    out += within(1.0, both(lambda rsi, half: rsi / half - 1, seen.rsi, 50.0))
    line = None if seen.signal is None else seen.macd
    out += in_ranges(line, seen.signal, less(line, seen.signal))
    out += within(5.0, both(lambda a, b: a / b, less(mid, seen.mean(12)), seen.band or None))
    out += in_ranges(seen.band, None if seen.macd is None else abs(seen.macd))
    active, sentiment, magnitude, ticks = headline(market)
    out += within(1.0, active, sentiment, magnitude)
    out += within(10.0, None if ticks is None else math.log(1 + ticks))
    spread = both(lambda bid, ask: ask - bid, book.best(BUY), book.best(SELL))
    out += within(10.0, log(spread))
    touch, five = (
        imbalance(*(sum(n for _, n in book.depth(side, levels)) for side in (BUY, SELL)))
        for levels in (1, 5)
    )
    out += within(1.0, touch, five, None if spread is None else touch)
    out.append(flow(tape))
    at_touch = sum(book.depth(side, 1)[0][1] for side in (BUY, SELL)) if spread else None
    out += within(10.0, log(both(lambda a, b: a / b, at_touch, 1.0 + tape.pace)))
    out += within(5.0, log(seen.surge))
    out += within(10.0, math.log(1 + tape.rate))
    short, long = (None if s is None else max(s, 1e-7) for s in (seen.sd8, seen.sd32))
    out += within(10.0, log(both(lambda a, b: a * b, long, 1e4)))
    out += within(5.0, log(both(lambda a, b: a / b, short, long)), math.log(tape.arousal()))
    away = 100 * (mid / market.shown_value() - 1)
    out += within(10.0, away, mood(market) * away)
    return written(out)


def private(market: Market, left: float) -> NDArray[np.float32]:
    """Return the 11 features of the slot, with a fraction of the episode left."""
    account, state = market.ledger.accounts[0], market.account()
    fill = account.last
    limits, mid = account.limits, market.tape.mid
    start = market.config["slots"][0]["account"]
    initial = start["cash"] + start["shares"] * market.config["initial_price"] * CASH_PER_TICK
    value = account.position * mid * CASH_PER_TICK
    sign = (account.position > 0) - (account.position < 0)
    long, short = limits["long"], limits["short"]
    out: list[Entry] = [
        (account.position / (short if sign < 0 else long), -1.0, 1.0, 0.0),
        (account.cash / initial, -100.0, 100.0, 0.0),
        (state["equity"] / initial - 1, -100.0, 100.0, 0.0),
        ((value - sign * account.cost) / initial, -100.0, 100.0, 0.0),
        (account.shares[BUY] / long, -1.0, 1.0, 0.0),
        (account.shares[SELL] / max(long, short), -1.0, 1.0, 0.0),
        (0.0, -64.0, 64.0, 0.0),
        (fill and fill[1] * fill[3] / limits["order"], -1.0, 1.0, 0.0),
        (fill and 100 * (fill[2] / mid - 1), -100.0, 100.0, 0.0),
        (fill and math.log(1 + market.now - fill[0]), -30.0, 30.0, 0.0),
        (left, -1.0, 1.0, 0.0),
    ]
    return written(out)
