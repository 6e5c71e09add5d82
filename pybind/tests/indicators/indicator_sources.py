"""Indicators as their sources define them, in loops; and markets to compute them on."""

from __future__ import annotations

from typing import Any

import backcast as bc
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
NAN = float("nan")


def market(days: int = 120, tickers: str = "ABC", seed: int = 0) -> dict[str, Any]:
    """Return prices of some tickers on neighbouring days, as columns."""
    draw = np.random.default_rng(seed)
    dates = np.arange("2020-01-01", days, dtype="datetime64[D]")
    rows: dict[str, Any] = {name: [] for name in ("open", "high", "low", "close", "volume")}
    for _ in tickers:
        close = 50 * np.exp(np.cumsum(draw.normal(0, 0.02, days)))
        opened = np.concatenate([close[:1], close[:-1]]) * np.exp(draw.normal(0, 0.005, days))
        rows["open"].append(opened)
        rows["close"].append(close)
        rows["high"].append(np.maximum(opened, close) * (1 + draw.random(days) / 50))
        rows["low"].append(np.minimum(opened, close) * (1 - draw.random(days) / 50))
        rows["volume"].append(draw.integers(0, 1000, days).astype(float))
    named = {name: np.concatenate(column) for name, column in rows.items()}
    return {"date": np.tile(dates, len(tickers)), "tic": np.repeat([*tickers], days)} | named


def without(frame: dict[str, Any], missing: NDArray[np.bool_]) -> dict[str, Any]:
    """Return the rows that are not missing."""
    return {name: np.asarray(column)[~missing] for name, column in frame.items()}


def panel_of(frame: dict[str, Any], **options: Any) -> bc.Panel:  # noqa: ANN401 - keywords
    """Load a panel."""
    return bc.Panel.from_frame(frame, **options)


def first_mean(numbers: Floats, bars: int, weight: float) -> Floats:
    """Return an exponential mean that begins as the simple mean of the first `bars` numbers."""
    found = np.full(len(numbers), NAN)
    if len(numbers) >= bars:
        found[bars - 1] = numbers[:bars].mean()
        for at in range(bars, len(numbers)):
            found[at] = found[at - 1] + weight * (numbers[at] - found[at - 1])
    return found


def macd(close: Floats) -> Floats:
    """Appel: the 12-bar exponential mean less the 26-bar one."""
    return first_mean(close, 12, 2 / 13) - first_mean(close, 26, 2 / 27)


def macds(close: Floats) -> Floats:
    """Appel: the 9-bar exponential mean of the line."""
    line = macd(close)
    found = np.full(len(close), NAN)
    found[25:] = first_mean(line[25:], 9, 2 / 10)
    return found


def rsi(close: Floats, bars: int) -> Floats:
    """Wilder, section VI: 100 - 100 / (1 + average up close / average down close)."""
    change = np.diff(close)
    up = first_mean(np.maximum(change, 0), bars, 1 / bars)
    down = first_mean(np.maximum(-change, 0), bars, 1 / bars)
    return np.concatenate([[NAN], 100 - 100 / (1 + up / down)])


def true_range(high: Floats, low: Floats, close: Floats) -> Floats:
    """Wilder: the largest of three distances, from the second bar on."""
    before = close[:-1]
    ranges = [high[1:] - low[1:], np.abs(high[1:] - before), np.abs(low[1:] - before)]
    return np.asarray(np.maximum.reduce(ranges))


def atr(high: Floats, low: Floats, close: Floats, bars: int) -> Floats:
    """Wilder, section III: his mean of the true range."""
    return np.concatenate([[NAN], first_mean(true_range(high, low, close), bars, 1 / bars)])


def cci(high: Floats, low: Floats, close: Floats, bars: int) -> Floats:
    """Lambert: the distance from the mean, over 0.015 mean absolute deviations."""
    typical = (high + low + close) / 3
    found = np.full(len(close), NAN)
    for at in range(bars - 1, len(close)):
        window = typical[at - bars + 1 : at + 1]
        deviation = np.abs(window - window.mean()).mean()
        found[at] = (typical[at] - window.mean()) / (0.015 * deviation)
    return found


def bands(close: Floats, bars: int) -> tuple[Floats, Floats, Floats]:
    """Bollinger: the mean, and two standard deviations of the population around it."""
    middle, upper, lower = (np.full(len(close), NAN) for _ in range(3))
    for at in range(bars - 1, len(close)):
        window = close[at - bars + 1 : at + 1]
        middle[at] = window.mean()
        upper[at] = middle[at] + 2 * window.std()
        lower[at] = middle[at] - 2 * window.std()
    return middle, upper, lower


def dx(high: Floats, low: Floats, close: Floats, bars: int, first: int) -> Floats:
    """Wilder, section IV: directional movement, with sums that begin with `first` bars.

    His begin with `bars`.
    """
    up, down = np.diff(high), -np.diff(low)
    plus = np.where((up > down) & (up > 0), up, 0.0)
    minus = np.where((down > up) & (down > 0), down, 0.0)

    def summed(numbers: Floats) -> Floats:
        found = np.full(len(numbers), NAN)
        found[first - 1] = numbers[:first].sum()
        for at in range(first, len(numbers)):
            found[at] = found[at - 1] - found[at - 1] / bars + numbers[at]
        return found

    ranges = summed(true_range(high, low, close))
    plus, minus = summed(plus) / ranges, summed(minus) / ranges
    found = 100 * np.abs(plus - minus) / (plus + minus)
    found[: bars - 1] = NAN
    return np.concatenate([[NAN], found])


def adx(high: Floats, low: Floats, close: Floats, bars: int, first: int) -> Floats:
    """Wilder, section IV: his mean of DX."""
    line = dx(high, low, close, bars, first)
    found = np.full(len(close), NAN)
    found[bars:] = first_mean(line[bars:], bars, 1 / bars)
    return found


def distance(returns: Floats, before: Floats) -> float:
    """Kritzman & Li, equation 1: (y - m) C^-1 (y - m)'; rows of `before` are bars."""
    apart = returns - before.mean(axis=0)
    covariance = np.zeros((len(returns), len(returns)))
    for row in before:
        covariance += np.outer(row - before.mean(axis=0), row - before.mean(axis=0))
    covariance /= len(before) - 1
    return float(apart @ np.linalg.solve(covariance, apart))
