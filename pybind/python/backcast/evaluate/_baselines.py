"""Strategies without learning, which a policy is compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from backcast.errors import ArgumentError

Floats = NDArray[np.float64]

# Bars of a month and of a year of trading days.
_MONTH, _YEAR = 21, 252
# Sweeps of the minimisation, and the change of weights that ends it.
_SWEEPS, _ENOUGH = 10_000, 1e-12


class Baseline(Protocol):
    """Members of a baseline, which any class may have."""

    @property
    def name(self) -> str:
        """Name in the table."""

    @property
    def every(self) -> int | None:
        """Bars between two rebalancings; None rebalances on the first day alone."""

    @property
    def needs(self) -> int:
        """Closes that must lie before the first day."""

    def weights(self, closes: Floats) -> Floats:
        """Return the weights of the tickers, ``[T]``, from 0 up, with a sum of at most 1.

        `closes` are those before the day, ``[T, days]``; NaN before a listing. Where settings name
        dividends or splits, they are the value of one share of the first day with all it brought.
        """


def _check(baseline: object, **least: int) -> None:
    for name, lowest in least.items():
        value = getattr(baseline, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < lowest:
            raise ArgumentError(
                f"{type(baseline).__name__}.{name} is {value!r}; give a whole number of bars from "
                f"{lowest} up"
            )


@dataclass(frozen=True)
class BuyAndHold:
    """Buys equal amounts of all tickers on the first day, and holds them."""

    name: ClassVar[str] = "buy_and_hold"
    every: ClassVar[None] = None
    needs: ClassVar[int] = 0

    def weights(self, closes: Floats) -> Floats:
        """Return equal weights."""
        return np.full(len(closes), 1 / len(closes))


@dataclass(frozen=True)
class EqualWeight:
    """Rebalances to equal weights (DeMiguel, Garlappi & Uppal 2009).

    Attributes
    ----------
    every : int, default 21
        Bars between two rebalancings.
    """

    every: int = _MONTH
    name: ClassVar[str] = "equal_weight"
    needs: ClassVar[int] = 0

    def __post_init__(self) -> None:
        """Check the numbers."""
        _check(self, every=1)

    def weights(self, closes: Floats) -> Floats:
        """Return equal weights."""
        return np.full(len(closes), 1 / len(closes))


@dataclass(frozen=True)
class Momentum:
    """Holds the tickers with the largest past returns, equally (Jegadeesh & Titman 1993).

    Attributes
    ----------
    lookback : int, default 252
        Bars before the day at which the past return begins.
    skip : int, default 21
        Bars before the day at which it ends, since recent returns tend to reverse.
    top : float, default 0.3
        Fraction of the tickers that is held, at least one.
    every : int, default 21
        Bars between two rebalancings.
    """

    lookback: int = _YEAR
    skip: int = _MONTH
    top: float = 0.3
    every: int = _MONTH
    name: ClassVar[str] = "momentum"

    def __post_init__(self) -> None:
        """Check the numbers."""
        _check(self, lookback=1, skip=0, every=1)
        if self.skip >= self.lookback:
            raise ArgumentError(
                f"Momentum skips {self.skip} bars of a lookback of {self.lookback}; skip fewer"
            )
        if not 0 < self.top <= 1:
            raise ArgumentError(f"Momentum.top is {self.top}; give a fraction above 0, up to 1")

    @property
    def needs(self) -> int:
        """Closes before the first day."""
        return self.lookback + 1

    def weights(self, closes: Floats) -> Floats:
        """Return equal weights of the winners; 0 if no ticker is old enough."""
        past = closes[:, -1 - self.skip] / closes[:, -1 - self.lookback] - 1
        old = np.isfinite(past)
        held = np.zeros(len(closes))
        if old.any():
            count = max(1, round(self.top * int(old.sum())))
            order = np.argsort(np.where(old, -past, np.inf), kind="stable")[:count]
            held[order] = 1 / count
        return held


@dataclass(frozen=True)
class MinimumVariance:
    """Holds the weights of the smallest variance, without short sales (Markowitz 1952).

    Covariances are shrunk as by Ledoit & Wolf, "A well-conditioned estimator for large-dimensional
    covariance matrices" (2004).

    Attributes
    ----------
    lookback : int, default 252
        Returns before the day that the covariances are estimated from.
    every : int, default 21
        Bars between two rebalancings.
    """

    lookback: int = _YEAR
    every: int = _MONTH
    name: ClassVar[str] = "minimum_variance"

    def __post_init__(self) -> None:
        """Check the numbers."""
        _check(self, lookback=2, every=1)

    @property
    def needs(self) -> int:
        """Closes before the first day."""
        return self.lookback + 1

    def weights(self, closes: Floats) -> Floats:
        """Return the weights of the smallest variance; 0 if no ticker is old enough."""
        recent = closes[:, -1 - self.lookback :]
        old = np.isfinite(recent).all(axis=1)
        held = np.zeros(len(closes))
        if old.any():
            returns = recent[old, 1:] / recent[old, :-1] - 1
            held[old] = least_variance(shrunk_covariance(returns))
        return held


BASELINES: tuple[Baseline, ...] = (BuyAndHold(), EqualWeight(), Momentum(), MinimumVariance())
"""The baselines that a policy is compared with unless others are given."""


def shrunk_covariance(returns: Floats) -> Floats:
    """Return the covariances of ``[T, n]`` returns, shrunk to a multiple of the identity.

    Section 3.2 of Ledoit & Wolf (2004), whose names the variables have.
    """
    tickers, bars = returns.shape
    apart = returns - returns.mean(axis=1, keepdims=True)
    sample: Floats = apart @ apart.T / bars
    m = np.trace(sample) / tickers
    d2 = ((sample - m * np.eye(tickers)) ** 2).sum() / tickers
    # The mean of |x x' - S|^2 over bars, without a matrix for each of them.
    squares = ((apart**2).sum(axis=0) ** 2).sum() / bars - (sample**2).sum()
    b2 = min(squares / bars / tickers, d2)
    share = b2 / d2 if d2 > 0 else 0.0
    shrunk: Floats = share * m * np.eye(tickers) + (1 - share) * sample
    return shrunk


def least_variance(covariance: Floats) -> Floats:
    """Return the weights from 0 up, with the sum 1, of the smallest variance.

    They are those of ``min x' C x / 2 - sum(x)`` over x from 0 up, divided by their sum, since the
    conditions of both are equal up to a factor. Solved by coordinate descent.
    """
    tickers = len(covariance)
    scale = float(np.trace(covariance)) / tickers
    if scale <= 0:
        return np.full(tickers, 1 / tickers)
    # A price that does not move would take an unbounded weight.
    matrix = covariance / scale + 1e-9 * np.eye(tickers)
    x = np.zeros(tickers)
    for _ in range(_SWEEPS):
        before = x.copy()
        for at in range(tickers):
            x[at] = max(0.0, x[at] + (1 - matrix[at] @ x) / matrix[at, at])
        if np.abs(x - before).max() <= _ENOUGH * x.max():
            break
    weights: Floats = x / x.sum()
    return weights
