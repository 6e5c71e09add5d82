"""Sharpe ratios, what they are worth after many trials, and intervals by the bootstrap."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from backcast._calls import explained
from backcast._counts import count_of, number_of
from backcast.errors import ArgumentError

Floats = NDArray[np.float64]

# Numbers of a part of the resamples, which bounds the memory.
_AT_ONCE = 2_000_000
# Rounding leaves a small deviation where returns are constant.
_CONSTANT = 1e-12
LEAST_RETURNS = 30
"""Returns below which neither intervals nor deflated ratios mean anything.

Both are asymptotic. Bailey & Lopez de Prado, "The Sharpe Ratio Efficient Frontier" (2012), ask for
more than 30 observations.
"""


class Interval(NamedTuple):
    """A number, and the ends of its confidence interval: NaN with fewer than 30 returns."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        """Show the number with its interval, if there is one."""
        return self.shown(".3f")

    def shown(self, form: str) -> str:
        """Show the number with its interval, both in a format."""
        ends = "none" if math.isnan(self.low) else f"{self.low:{form}}, {self.high:{form}}"
        return f"{self.value:{form}} [{ends}]"


@explained
def sharpe_ratio(returns: ArrayLike, bars_per_year: float = 1.0) -> float:
    """Return the mean of returns over their sample standard deviation, annualised.

    Sharpe, "The Sharpe Ratio" (1994), with a riskless return of zero: what environments report.

    Parameters
    ----------
    returns : array_like of float, shape (n,)
        Simple returns of bars, at least 2.
    bars_per_year : float, default 1
        ``panel.bars_per_year``; 1 gives the ratio of one bar.

    Returns
    -------
    float
        The ratio; 0 if the returns do not vary.

    Raises
    ------
    ArgumentError
        If there are fewer than two returns, or one is no finite number.
    """
    wanted = "a number above 0, such as panel.bars_per_year"
    bars_per_year = number_of(bars_per_year, "bars_per_year", wanted)
    if not 0 < bars_per_year < math.inf:
        raise ArgumentError(f"bars_per_year is {bars_per_year}; give {wanted}")
    return float(ratios(_returns(returns)[None, :])[0] * math.sqrt(bars_per_year))


@explained
def deflated_sharpe_ratio(returns: ArrayLike, tried: ArrayLike) -> float:
    """Return the probability that a Sharpe ratio is above what luck gives the best of many trials.

    Bailey & Lopez de Prado, "The Deflated Sharpe Ratio", Journal of Portfolio Management (2014),
    equations 1 and 2. All ratios are those of one bar, not annualised.

    Parameters
    ----------
    returns : array_like of float, shape (n,)
        Simple returns of bars of the strategy that was chosen, at least 30: the distribution of the
        ratio is that of many returns.
    tried : array_like of float, shape (trials,)
        Sharpe ratios of everything that was tried on these bars, the chosen one included: at least
        2.

    Returns
    -------
    float
        Probability, 0 to 1; 0.95 and above is commonly called significant.

    Raises
    ------
    ArgumentError
        If there are fewer than two trials or 30 returns, one is no finite number, or the returns do
        not vary.
    """
    rows = _returns(returns, LEAST_RETURNS)
    ratios_tried = np.asarray(tried, np.float64)
    if ratios_tried.ndim != 1 or len(ratios_tried) < 2 or not np.isfinite(ratios_tried).all():
        raise ArgumentError(
            f"tried has shape {ratios_tried.shape}; give the finite Sharpe ratios of two or more "
            "trials, the chosen one included"
        )
    apart = rows - rows.mean()
    deviation = apart.std()
    if deviation <= _CONSTANT * np.abs(rows).max():
        raise ArgumentError("returns do not vary: they have no Sharpe ratio; give others")
    trials = len(ratios_tried)
    normal = NormalDist()
    luck = ratios_tried.std(ddof=1) * (
        (1 - np.euler_gamma) * normal.inv_cdf(1 - 1 / trials)
        + np.euler_gamma * normal.inv_cdf(1 - 1 / (trials * math.e))
    )
    skewness = float((apart**3).mean() / deviation**3)
    kurtosis = float((apart**4).mean() / deviation**4)
    ratio = float(ratios(rows[None, :])[0])
    return probability_above(float(luck), ratio, len(rows), skewness, kurtosis)


def probability_above(
    threshold: float, ratio: float, bars: int, skewness: float, kurtosis: float
) -> float:
    """Return the probability that the true Sharpe ratio is above a threshold (their equation 1)."""
    spread = 1 - skewness * ratio + (kurtosis - 1) / 4 * ratio**2
    return NormalDist().cdf((ratio - threshold) * math.sqrt(bars - 1) / math.sqrt(spread))


@explained
def stationary_bootstrap(
    n: int, resamples: int, *, mean_block: float, seed: int = 0
) -> NDArray[np.int64]:
    """Draw places of resampled series: blocks of random length, which keep the serial dependence.

    Politis & Romano, "The Stationary Bootstrap", JASA (1994): a place is followed by the next one,
    or with the probability ``1 / mean_block`` by a new one. The last is followed by the first.

    Parameters
    ----------
    n : int
        Length of the series.
    resamples : int
        Number of resampled series.
    mean_block : float
        Mean length of a block, from 1 up.
    seed : int, default 0
        Seed of the draws.

    Returns
    -------
    ndarray, int64 [resamples, n]
        Places in ``0..n``.

    Raises
    ------
    ArgumentError
        If a number is out of range.
    """
    n = count_of(n, "n", 1, ArgumentError)
    resamples = count_of(resamples, "resamples", 1, ArgumentError)
    seed = count_of(seed, "seed", 0, ArgumentError)
    wanted = "a number of bars from 1 up"
    mean_block = number_of(mean_block, "mean_block", wanted)
    if not 1 <= mean_block < math.inf:
        raise ArgumentError(f"mean_block is {mean_block}; give {wanted}")
    return _places(n, resamples, mean_block, np.random.default_rng(seed))


def _places(
    n: int, resamples: int, mean_block: float, draw: np.random.Generator
) -> NDArray[np.int64]:
    begins = draw.random((resamples, n)) < 1 / mean_block
    begins[:, 0] = True
    starts = draw.integers(n, size=(resamples, n))
    at = np.arange(n)
    # The place where the block of each element begins.
    begin = np.maximum.accumulate(np.where(begins, at, 0), axis=1)
    places: NDArray[np.int64] = (np.take_along_axis(starts, begin, axis=1) + at - begin) % n
    return places


class Resampled:
    """Statistics of resampled returns: the same bars of every strategy, so that they compare.

    Runs of a strategy are resampled as well: a statistic is the mean over as many drawn runs.
    """

    def __init__(self, n: int, resamples: int, mean_block: float, seed: int, level: float) -> None:
        self.n, self.resamples, self.mean_block = n, resamples, mean_block
        self.seed, self.level = seed, level

    def intervals(self, returns: Floats, bars_per_year: float) -> tuple[Interval, Interval]:
        """Return the total return and the annualised Sharpe ratio of ``[runs, n]`` returns.

        The returns are those :func:`until_ruin`; each resample is cut at its own ruin.
        """
        year = math.sqrt(bars_per_year)
        runs = len(returns)
        draw = np.random.default_rng([self.seed, 1])
        totals, sharpes = [], []
        for places in self._parts():
            weights = draw.multinomial(runs, np.full(runs, 1 / runs), size=len(places)) / runs
            drawn = [until_ruin(run[places]) for run in returns]
            totals.append((weights * np.stack([grown(one) for one in drawn], axis=1)).sum(axis=1))
            sharpes.append((weights * np.stack([ratios(one) for one in drawn], axis=1)).sum(axis=1))
        return (
            self._interval(float(grown(returns).mean()), totals),
            self._interval(float(ratios(returns).mean()) * year, [one * year for one in sharpes]),
        )

    def _parts(self) -> Iterator[NDArray[np.int64]]:
        draw = np.random.default_rng([self.seed, 0])
        step = max(1, _AT_ONCE // self.n)
        for first in range(0, self.resamples, step):
            yield _places(self.n, min(step, self.resamples - first), self.mean_block, draw)

    def _interval(self, value: float, parts: list[Floats]) -> Interval:
        tail = (1 - self.level) / 2
        low, high = np.quantile(np.concatenate(parts), [tail, 1 - tail])
        return Interval(value, float(low), float(high))


def until_ruin(returns: Floats) -> Floats:
    """Return returns that are 0 after the bar on which everything was lost, or more.

    Nothing is left to earn with. A second such loss would make a gain of the two.
    """
    lost = returns <= -1
    if not lost.any():
        return returns
    after = lost.cumsum(axis=-1) > lost
    left: Floats = np.where(after, 0.0, returns)
    return left


def grown(returns: Floats) -> Floats:
    """Return the total return of each row; give returns :func:`until_ruin`."""
    total: Floats = np.prod(1 + returns, axis=-1) - 1
    return total


def growth(returns: Floats) -> Floats:
    """Return the growth of one unit by bar; give returns :func:`until_ruin`."""
    growing: Floats = (1 + returns).cumprod(axis=-1)
    return growing


def ratios(returns: Floats) -> Floats:
    """Return the Sharpe ratio of one bar of each row; 0 where returns do not vary."""
    deviation = returns.std(axis=-1, ddof=1)
    varies = deviation > _CONSTANT * np.abs(returns).max(axis=-1)
    found: Floats = np.zeros(len(returns))
    np.divide(returns.mean(axis=-1), deviation, out=found, where=varies)
    return found


def _returns(returns: ArrayLike, least: int = 2) -> Floats:
    rows = np.asarray(returns, np.float64)
    if rows.ndim != 1 or len(rows) < least or not np.isfinite(rows).all():
        raise ArgumentError(
            f"returns have shape {rows.shape}; give {least} or more finite numbers, shape (n,)"
        )
    return rows
