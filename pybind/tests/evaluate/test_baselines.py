"""Baselines hold what they say, and are paid for as a policy is."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from backcast.errors import ArgumentError
from backcast.evaluate import (
    Baseline,
    BuyAndHold,
    EqualWeight,
    Evaluation,
    MinimumVariance,
    Momentum,
    evaluate,
)
from backcast.evaluate._baselines import least_variance, shrunk_covariance
from evaluate_markets import closes, panel_of

MONEY = 1e9
"""So much that whole shares do not matter."""
FEE = 0.002


def evaluated(close: np.ndarray, baseline: Any, test: tuple[int, int], **more: Any) -> Evaluation:  # noqa: ANN401
    settings = {"initial_amount": MONEY, "buy_cost_pct": FEE, "sell_cost_pct": FEE} | more
    idle = lambda obs: np.zeros((1, len(close)))  # noqa: E731
    return evaluate(idle, panel_of(close), [test], baselines=[baseline], resamples=10, **settings)


def by_weights(
    close: np.ndarray,
    weights: Callable[[np.ndarray], np.ndarray],
    test: tuple[int, int],
    every: int | None,
    fee: float = FEE,
) -> np.ndarray:
    """Return daily returns of fractional portfolios, filled at the close for a fee.

    Shares are decided at the open, which is the close before.
    """
    first, end = test
    cash, shares, values = 1.0, np.zeros(len(close)), []
    for day in range(first, end):
        now, before = close[:, day], close[:, max(day - 1, 0)]
        values.append(cash + shares @ now)
        passed = day - first
        if day < end - 1 and (passed == 0 or (every is not None and passed % every == 0)):
            worth = cash + shares @ before
            target = weights(close[:, :day]) * worth / (before * (1 + fee))
            sold = np.maximum(shares - target, 0)
            cash += (sold * now).sum() * (1 - fee)
            shares = shares - sold
            # The largest orders come first, and the last ones get what cash is left.
            wanted = np.maximum(target - shares, 0)
            for at in np.argsort(-wanted, kind="stable"):
                bought = min(wanted[at], cash / (now[at] * (1 + fee)))
                shares[at] += bought
                cash -= bought * now[at] * (1 + fee)
    worths = np.array(values)
    return np.asarray(worths[1:] / worths[:-1] - 1)


@pytest.mark.parametrize(
    ("baseline", "every"),
    [
        (BuyAndHold(), None),
        (EqualWeight(5), 5),
        (Momentum(lookback=30, skip=5, top=0.4, every=7), 7),
        (MinimumVariance(lookback=40, every=6), 6),
    ],
)
def test_a_baseline_earns_what_its_weights_earn_after_fees(
    baseline: Baseline, every: int | None
) -> None:
    close, test = closes(tickers=5), (60, 150)
    found = evaluated(close, baseline, test).baselines[baseline.name].returns[0]
    expected = by_weights(close, baseline.weights, test, every)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    free = by_weights(close, baseline.weights, test, every, fee=0)
    assert np.abs(free - expected).max() > 1e-4


def test_the_default_fee_is_that_of_the_environment() -> None:
    close = closes(tickers=5)
    result = evaluate(
        lambda obs: np.zeros((1, 5)),
        panel_of(close),
        [(60, 150)],
        baselines=[BuyAndHold()],
        initial_amount=MONEY,
    )
    found = result.baselines["buy_and_hold"]
    expected = by_weights(close, BuyAndHold().weights, (60, 150), None, fee=0.01)
    np.testing.assert_allclose(found.returns[0], expected, atol=1e-6)
    # Each ticker is bought, since cash is kept for the fees.
    assert found.costs == pytest.approx(0.01 * MONEY / 1.01, rel=0.02)


def test_momentum_holds_the_tickers_that_rose_before_the_skipped_bars() -> None:
    close = np.ones((4, 40))
    close[0, 10:] = 2.0
    close[1, 20:] = 3.0
    # Rises in the skipped bars do not count.
    close[2, 38:] = 9.0
    momentum = Momentum(lookback=30, skip=5, top=0.5)
    assert momentum.weights(close).tolist() == [0.5, 0.5, 0, 0]
    assert Momentum(lookback=30, skip=5, top=0.1).weights(close).tolist() == [0, 1, 0, 0]
    close[1, :20] = np.nan
    assert momentum.weights(close).tolist() == [0.5, 0, 0.5, 0]
    assert Momentum(lookback=30, skip=5).weights(np.full((2, 40), np.nan)).tolist() == [0, 0]


def test_the_least_variance_is_the_best_of_all_sets_of_tickers() -> None:
    draw = np.random.default_rng(0)
    for _ in range(20):
        factors = draw.normal(size=(5, 3))
        covariance = factors @ factors.T + np.diag(draw.random(5) / 10)
        found = least_variance(covariance)
        best = float("inf")
        for count in range(1, 6):
            for held in itertools.combinations(range(5), count):
                part = covariance[np.ix_(held, held)]
                weights = np.linalg.solve(part, np.ones(count))
                weights /= weights.sum()
                if (weights >= 0).all():
                    best = min(best, float(weights @ part @ weights))
        assert found.sum() == pytest.approx(1)
        assert (found >= 0).all()
        assert found @ covariance @ found == pytest.approx(best, rel=1e-8)


def test_a_price_that_never_moves_takes_all_of_the_least_variance() -> None:
    close = closes(80, 3)
    close[1] = 10.0
    weights = MinimumVariance(lookback=60).weights(close)
    assert weights.sum() == pytest.approx(1)
    assert weights[1] > 0.5
    assert MinimumVariance(lookback=60).weights(np.full((3, 80), 5.0)) == pytest.approx(1 / 3)


def test_covariances_are_shrunk_as_ledoit_and_wolf_write() -> None:
    returns = np.random.default_rng(3).normal(size=(4, 30)) * [[1], [2], [3], [1]]
    apart = returns - returns.mean(axis=1, keepdims=True)
    sample = np.cov(apart, ddof=0)
    middle = np.trace(sample) / 4

    def norm(matrix: np.ndarray) -> float:
        return float((matrix**2).sum() / 4)

    d2 = norm(sample - middle * np.eye(4))
    b2 = sum(norm(np.outer(x, x) - sample) for x in apart.T) / 30**2
    b2 = min(b2, d2)
    expected = b2 / d2 * middle * np.eye(4) + (d2 - b2) / d2 * sample
    np.testing.assert_allclose(shrunk_covariance(returns), expected, rtol=1e-10)
    assert 0.01 < b2 / d2 < 0.99


def test_what_follows_a_day_does_not_change_what_a_baseline_has_on_it() -> None:
    close = closes(tickers=4)
    changed = close.copy()
    changed[:, 100:] = close[::-1, 100:] * 2
    for one in (BuyAndHold(), EqualWeight(5), Momentum(30, 5, 0.5, 3), MinimumVariance(40, 3)):
        first, second = (
            evaluated(prices, one, (60, 150)).baselines[one.name].returns[0, :39]
            for prices in (close, changed)
        )
        assert (first == second).all()


def test_weights_of_tickers_without_a_bar_go_to_the_others() -> None:
    close = closes(tickers=3)
    close[2, :80] = np.nan
    found = evaluated(close, EqualWeight(10), (60, 150)).baselines["equal_weight"].returns[0]
    two = evaluated(close[:2], EqualWeight(10), (60, 81)).baselines["equal_weight"].returns[0]
    np.testing.assert_allclose(found[:20], two, atol=1e-7)
    assert (
        found[30:]
        != evaluated(close[:2], EqualWeight(10), (60, 150))
        .baselines["equal_weight"]
        .returns[0, 30:]
    ).all()


@pytest.mark.parametrize("baseline", [BuyAndHold(), EqualWeight(21)])
@pytest.mark.parametrize("first", [60, 61, 63, 64])
def test_money_of_a_ticker_that_is_closed_waits_for_its_next_bar(
    baseline: Baseline, first: int
) -> None:
    close = np.tile(10 * 1.01 ** np.arange(150.0), (2, 1))
    # The second one trades five days a week, at a price of its own, and doubles at the end.
    close[1], close[1, 149] = 20.0, 40.0
    closed = np.arange(150) % 7 >= 5
    close[1, closed & (np.arange(150) < 149)] = np.nan
    found = evaluated(close, baseline, (first, 150), buy_cost_pct=0.0, sell_cost_pct=0.0)
    days = np.arange(first, 150)
    every, half = baseline.every or 1_000, MONEY / 2
    # Its money waits on closed days. On the others orders are filled at the close.
    cash, shares, owed, values = MONEY, np.zeros(2), np.nan, []
    for day in days:
        values.append(cash + shares @ [close[0, day], 40.0 if day == 149 else 20.0])
        is_open = not np.isnan(close[1, day])
        target = shares.copy()
        if (day - first) % every == 0:
            before = close[0, day - 1]
            half = (cash + shares @ [before, 20.0]) / 2
            target[0] = half / before
            target[1], owed = (half / 20, np.nan) if is_open else (shares[1], half)
        elif is_open and owed == owed:
            target[1], owed = owed / 20, np.nan
        for at in (1, 0) if target[1] < shares[1] else (0, 1):
            cost = close[0, day] if at == 0 else 20.0
            bought = min(target[at] - shares[at], cash / cost)
            shares[at] += bought
            cash -= bought * cost
    expected = np.array(values[1:]) / np.array(values[:-1]) - 1
    returns = found.baselines[baseline.name].returns[0]
    np.testing.assert_allclose(returns, expected, atol=2e-3)
    if baseline.every is None:
        np.testing.assert_allclose(returns, expected, atol=1e-6)


def test_a_ticker_that_is_closed_for_longer_than_a_week_counts_as_delisted() -> None:
    close = closes(tickers=3)
    close[2, 70:] = np.nan
    found = evaluated(close, EqualWeight(10), (80, 150)).baselines["equal_weight"].returns[0]
    two = evaluated(close[:2], EqualWeight(10), (80, 150)).baselines["equal_weight"].returns[0]
    np.testing.assert_allclose(found, two, atol=1e-7)


def test_fractional_baselines_hold_parts_of_a_share() -> None:
    close = closes(tickers=2) * 100
    settings = {"initial_amount": 5_000.0, "buy_cost_pct": 0.0, "sell_cost_pct": 0.0}
    found = evaluated(close, BuyAndHold(), (60, 150), **settings, fractional=True)
    whole = evaluated(close, BuyAndHold(), (60, 150), **settings)
    assert found.baselines["buy_and_hold"].turnover == pytest.approx(1, abs=0.05)
    assert whole.baselines["buy_and_hold"].turnover < 0.8
    rich = evaluated(close, BuyAndHold(), (60, 150), buy_cost_pct=0.0, sell_cost_pct=0.0)
    np.testing.assert_allclose(
        found.baselines["buy_and_hold"].returns, rich.baselines["buy_and_hold"].returns, atol=1e-6
    )


def test_costs_of_all_kinds_are_paid() -> None:
    close = closes(tickers=3)
    plain = evaluated(close, EqualWeight(5), (60, 150)).baselines["equal_weight"]
    for more in (
        {"slippage_bps": 50},
        {"fixed_fee": MONEY / 1000},
        {"ticker_costs": {"T01": (0.05, 0.05)}},
        {"bidding": "adv_uniform"},
    ):
        dear = evaluated(close, EqualWeight(5), (60, 150), **more).baselines["equal_weight"]
        assert dear.total_return.value < plain.total_return.value, more
    # Settings of the policies' actions and observations are not those of baselines.
    same = evaluated(
        close, EqualWeight(5), (60, 150), hmax=3, obs="flat", history=4, stop_loss_tolerance=0.99
    )
    assert (same.baselines["equal_weight"].returns == plain.returns).all()


class Greedy:
    """A baseline that asks for more than all."""

    name, every, needs = "greedy", 5, 0

    def weights(self, closes: np.ndarray) -> np.ndarray:
        return np.ones(len(closes))


def test_bad_baselines_are_refused() -> None:
    table: list[tuple[Any, list[str]]] = [
        (lambda: EqualWeight(0), ["EqualWeight.every", "0"]),
        (lambda: EqualWeight(True), ["EqualWeight.every", "True"]),
        (lambda: Momentum(10, 10), ["skips 10", "10"]),
        (lambda: Momentum(top=0), ["Momentum.top", "0"]),
        (lambda: MinimumVariance(lookback=1), ["MinimumVariance.lookback", "1"]),
        (lambda: evaluated(closes(), Momentum(), (60, 150)), ["'momentum'", "253", "60"]),
        (lambda: evaluated(closes(), Greedy(), (60, 150)), ["'greedy'", "[1. 1. 1.]"]),
    ]
    for call, words in table:
        with pytest.raises(ArgumentError) as caught:
            call()
        for word in words:
            assert word in str(caught.value)
