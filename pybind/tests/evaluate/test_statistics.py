"""Statistics are those of their papers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from backcast.errors import ArgumentError
from backcast.evaluate import deflated_sharpe_ratio, sharpe_ratio, stationary_bootstrap
from backcast.evaluate._statistics import Resampled, probability_above


def test_the_deflated_ratio_is_that_of_the_papers_example() -> None:
    """Bailey & Lopez de Prado (2014), "A numerical example": 0.9004, and 0.9505 for 46 trials."""
    ratio, bars, variance = 2.5 / math.sqrt(250), 1250, 0.5 / 250
    for trials, expected in ((100, 0.9004), (46, 0.9505)):
        # Ratios of which the sample variance is that of the example.
        tried = np.tile([1.0, -1.0], trials // 2)
        tried *= math.sqrt(variance) / tried.std(ddof=1)
        luck = luck_of(tried)
        assert probability_above(luck, ratio, bars, -3, 10) == pytest.approx(expected, abs=5e-5)


def luck_of(tried: np.ndarray) -> float:
    """Return the threshold that the public function has, by bisection of its probability."""
    returns = np.random.default_rng(0).normal(0.001, 0.01, 500)
    wanted = deflated_sharpe_ratio(returns, tried)
    apart = returns - returns.mean()
    skewness = (apart**3).mean() / apart.std() ** 3
    kurtosis = (apart**4).mean() / apart.std() ** 4
    low, high = -1.0, 1.0
    for _ in range(80):
        middle = (low + high) / 2
        found = probability_above(middle, sharpe_ratio(returns), 500, skewness, kurtosis)
        low, high = (middle, high) if found > wanted else (low, middle)
    return low


def test_more_trials_and_wider_ones_deflate_more() -> None:
    returns = np.random.default_rng(1).normal(0.001, 0.01, 500)
    few = deflated_sharpe_ratio(returns, [0.0, 0.1])
    assert few > deflated_sharpe_ratio(returns, [0.0, 0.1] * 10)
    assert few > deflated_sharpe_ratio(returns, [-0.1, 0.1])
    # Trials that are all equal are one trial, which is compared with 0.
    assert luck_of(np.array([0.1, 0.1])) == pytest.approx(0, abs=1e-9)


def test_a_resampled_mean_varies_as_the_paper_derives() -> None:
    """Politis & Romano (1994), lemma 1: the variance of the mean of a resample, exactly."""
    draw = np.random.default_rng(2)
    noise = draw.normal(size=60)
    series = noise + 0.8 * np.roll(noise, 1)
    n, block = len(series), 6.0
    apart = series - series.mean()
    covariance = [float((apart[: n - lag] * apart[lag:]).sum()) / n for lag in range(n)]
    stay = 1 - 1 / block
    weight = [(1 - lag / n) * stay**lag + lag / n * stay ** (n - lag) for lag in range(n)]
    exact = covariance[0] + 2 * sum(w * c for w, c in zip(weight[1:], covariance[1:], strict=True))
    places = stationary_bootstrap(n, 20_000, mean_block=block, seed=3)
    means = series[places].mean(axis=1)
    assert means.mean() == pytest.approx(series.mean(), abs=4 * means.std() / math.sqrt(20_000))
    # The standard error of a variance of 20,000 numbers is 1 % of it.
    assert n * means.var() == pytest.approx(exact, rel=0.05)
    independent = series[stationary_bootstrap(n, 20_000, mean_block=1, seed=3)].mean(axis=1)
    assert n * independent.var() == pytest.approx(covariance[0], rel=0.05)
    assert abs(exact / covariance[0] - 1) > 0.2


def test_blocks_are_runs_of_places_of_the_mean_length() -> None:
    places = stationary_bootstrap(1_000, 200, mean_block=10, seed=0)
    assert places.shape == (200, 1_000)
    assert places.min() == 0
    assert places.max() == 999
    follows = (np.diff(places, axis=1) - 1) % 1_000 == 0
    # A new block begins at the next place by chance once in 1,000.
    assert follows.mean() == pytest.approx(0.9 + 0.1 / 1_000, abs=0.004)
    assert (stationary_bootstrap(1_000, 200, mean_block=10, seed=0) == places).all()
    assert (stationary_bootstrap(1_000, 200, mean_block=10, seed=1) != places).any()


def test_an_interval_covers_the_true_ratio_as_often_as_it_says() -> None:
    draw = np.random.default_rng(4)
    inside = 0
    for trial in range(200):
        returns = draw.normal(0.05, 1.0, (1, 250)) / 100
        _, sharpe = Resampled(250, 400, 2.0, trial, 0.9).intervals(returns, 1.0)
        inside += sharpe.low <= 0.05 <= sharpe.high
    # Three standard errors are 0.064.
    assert inside / 200 == pytest.approx(0.9, abs=0.07)


def test_runs_are_resampled_as_well() -> None:
    quiet = np.random.default_rng(5).normal(0, 1e-6, 100)
    apart = np.stack([quiet + 0.001, quiet - 0.001])
    total, _ = Resampled(100, 2_000, 5.0, 0, 0.95).intervals(apart, 1.0)
    # One quarter of the resamples has the better run twice, and one quarter the worse.
    assert total.low == pytest.approx(1.001**100 * math.exp(-0.2) - 1, abs=0.02)
    assert total.high == pytest.approx(1.001**100 - 1, abs=0.02)


def test_parts_of_the_resamples_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    from backcast.evaluate import _statistics

    returns = np.random.default_rng(6).normal(0.001, 0.01, (2, 50))
    whole = Resampled(50, 300, 4.0, 7, 0.9).intervals(returns, 252.0)
    monkeypatch.setattr(_statistics, "_AT_ONCE", 50 * 70)
    parts = Resampled(50, 300, 4.0, 7, 0.9).intervals(returns, 252.0)
    for one, other in zip(whole, parts, strict=True):
        assert one.value == other.value
        assert other.low == pytest.approx(one.low, abs=0.3 * (one.high - one.low))


def test_a_ratio_is_the_mean_over_the_sample_deviation() -> None:
    returns = [0.01, -0.02, 0.03]
    expected = np.mean(returns) / np.std(returns, ddof=1)
    assert sharpe_ratio(returns) == pytest.approx(expected)
    assert sharpe_ratio(returns, 252) == pytest.approx(expected * math.sqrt(252))
    assert sharpe_ratio([0.1, 0.1, 0.1]) == 0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: sharpe_ratio([0.1]), ["(1,)", "2"]),
        (lambda: sharpe_ratio([0.1, float("nan")]), ["finite"]),
        (lambda: sharpe_ratio([0.1, 0.2], 0), ["0"]),
        (lambda: deflated_sharpe_ratio([0.1, 0.2] * 15, [0.1]), ["(1,)", "two"]),
        (lambda: deflated_sharpe_ratio([0.1] * 14 + [0.2] * 15, [0.1, 0.2]), ["(29,)", "30"]),
        (lambda: deflated_sharpe_ratio([0.1] * 30, [0.1, 0.2]), ["do not vary"]),
        (lambda: stationary_bootstrap(0, 1, mean_block=1), ["n is 0"]),
        (lambda: stationary_bootstrap(5, 1, mean_block=0.5), ["0.5"]),
        (lambda: stationary_bootstrap(5, 0, mean_block=1), ["resamples is 0"]),
    ],
)
def test_bad_numbers_are_refused(call: Any, words: list[str]) -> None:  # noqa: ANN401
    with pytest.raises(ArgumentError) as caught:
        call()
    for word in words:
        assert word in str(caught.value)
