"""Policies and baselines under the rules of portfolios: actions, margin, volume, splits, costs."""

from __future__ import annotations

from typing import Any, ClassVar

import backcast as bc
import numpy as np
import pytest
from backcast.envs import Discrete, Margin, PortfolioEnv, Weights
from backcast.evaluate import (
    Baseline,
    BuyAndHold,
    EqualWeight,
    MinimumVariance,
    Momentum,
    evaluate,
)
from backcast.evaluate._statistics import Resampled, grown, growth
from evaluate_markets import DAYS, closes

SPLIT_ON, RATIO = 80, 4.0


def idle(obs: dict[str, np.ndarray]) -> np.ndarray:
    return np.zeros(obs["open"].shape)


def panel_with(
    close: np.ndarray, volume: float = 1e9, *, split: bool = False, paid: float = 0.0
) -> bc.Panel:
    """Return a panel of prices that open at the close before.

    `split`: the first ticker becomes `RATIO` shares on a day, and prices are not adjusted. `paid`:
    the second one pays a dividend on that day.
    """
    tickers, days = close.shape
    opened = np.concatenate([close[:, :1], close[:, :-1]], axis=1)
    scale, ratios, dividends = (np.full(close.shape, given) for given in (1.0, 0.0, 0.0))
    if split:
        scale[0, SPLIT_ON:], ratios[0, SPLIT_ON] = 1 / RATIO, RATIO
    dividends[1, SPLIT_ON] = paid
    opened, close = opened * scale, close * scale
    columns = {
        "open": opened,
        "high": np.maximum(opened, close),
        "low": np.minimum(opened, close),
        "close": close,
        "volume": np.full(close.shape, volume),
        "split": ratios,
        "paid": dividends,
    }
    dates = np.arange("2020-01-01", days, dtype="datetime64[D]")
    rows: dict[str, Any] = {
        "date": np.tile(dates, tickers),
        "tic": np.repeat([f"T{at:02}" for at in range(tickers)], days),
    }
    return bc.Panel.from_frame(rows | {name: of.ravel() for name, of in columns.items()})


@pytest.mark.parametrize(
    ("settings", "action"),
    [
        ({"actions": "weights"}, [0.2, 0.3, 0.5]),
        ({"actions": "weights", "fractional": True}, [0.2, 0.3, 0.5]),
        ({"actions": Weights(2), "margin": Margin(), "fractional": True}, [1.0, -0.5, 0.5]),
        ({"actions": "discrete"}, [2, 1, 0]),
        ({"actions": Discrete((-1, 0, 0.5, 1)), "hmax": 40, "step_info": True}, [3, 2, 0]),
        ({"max_position": 0.1, "reward": "drawdown", "impact_bps": 10}, [1, 1, 1]),
    ],
)
def test_a_policy_acts_as_its_settings_say_and_baselines_do_not(
    settings: dict[str, Any], action: list[float]
) -> None:
    panel, (first, end) = panel_with(closes()), (60, 150)
    settings = {"failure_threshold": 0.0, "buy_cost_pct": 0.001} | settings
    found = evaluate(
        lambda obs: np.tile(action, (2, 1)), panel, [(first, end)],
        runs=2, baselines=[EqualWeight(5)], resamples=10, **settings,
    )  # fmt: skip
    env = PortfolioEnv(panel, days=(first, end), record=True, **settings)
    env.reset(options={"start_day": first})
    while not env.step(action)[3]:
        pass
    value = env.history()["value"]
    np.testing.assert_allclose(found.policies["policy"].returns[1], value[1:] / value[:-1] - 1)
    market: dict[str, Any] = {
        name: given for name, given in settings.items() if name in ("impact_bps",)
    }
    alone = evaluate(
        idle, panel, [(first, end)],
        baselines=[EqualWeight(5)], resamples=10, buy_cost_pct=0.001, **market,
    )  # fmt: skip
    np.testing.assert_array_equal(
        found.baselines["equal_weight"].returns[0], alone.baselines["equal_weight"].returns[0]
    )


@pytest.mark.parametrize(
    "baseline",
    [
        BuyAndHold(),
        EqualWeight(7),
        Momentum(lookback=30, skip=2, top=0.4, every=3),
        MinimumVariance(lookback=30, every=3),
    ],
)
def test_a_split_does_not_change_what_a_baseline_holds(baseline: Baseline) -> None:
    settings: dict[str, Any] = {"initial_amount": 1e9, "resamples": 10, "baselines": [baseline]}
    name = baseline.name
    raw = evaluate(idle, panel_with(closes(), split=True), [(60, DAYS)], splits="split", **settings)
    adjusted = evaluate(idle, panel_with(closes()), [(60, DAYS)], **settings)
    found, expected = (one.baselines[name].returns for one in (raw, adjusted))
    np.testing.assert_allclose(found, expected, atol=1e-6)


class Watching:
    """A baseline that keeps the closes that it sees."""

    name: ClassVar[str] = "watching"
    every: ClassVar[int] = 10
    needs: ClassVar[int] = 1

    def __init__(self) -> None:
        self.seen: list[np.ndarray] = []

    def weights(self, closes: np.ndarray) -> np.ndarray:
        self.seen.append(closes)
        return np.zeros(len(closes))


def test_baselines_see_closes_with_the_dividends_so_far() -> None:
    close, watching = closes(), Watching()
    panel = panel_with(close, paid=3.0)
    evaluate(idle, panel, [(60, DAYS)], baselines=[watching], resamples=10, dividends="paid")
    expected = close.copy()
    expected[1, SPLIT_ON:] *= 1 + 3.0 / close[1, SPLIT_ON]
    for at, seen in enumerate(watching.seen):
        np.testing.assert_allclose(seen, expected[:, : 60 + 10 * at])


def test_orders_that_the_volume_cuts_go_on() -> None:
    settings: dict[str, Any] = {"baselines": [BuyAndHold()], "resamples": 10, "max_volume": 0.1}
    close = np.full((3, DAYS), 20.0)
    panel = panel_with(close, volume=500.0, split=True)
    found = evaluate(idle, panel, [(60, DAYS)], buy_cost_pct=0, splits="split", **settings)
    # 500 shares of each, 50 a bar, and four times as many of one behind its split.
    assert found.baselines["buy_and_hold"].turnover == pytest.approx(1.0)


def test_what_may_not_be_traded_goes_to_the_others() -> None:
    settings: dict[str, Any] = {"baselines": [BuyAndHold()], "resamples": 10}
    panel = panel_with(np.full((3, DAYS), 20.0))
    days = np.ones((3, DAYS), np.bool_)
    days[2] = False
    for tradable in (days, [True, True, False]):
        found = evaluate(idle, panel, [(60, DAYS)], buy_cost_pct=0, tradable=tradable, **settings)
        assert found.baselines["buy_and_hold"].turnover == pytest.approx(1.0)


def test_slippage_a_share_is_part_of_what_baselines_pay() -> None:
    close = np.full((3, DAYS), 20.0)
    close[2, 100:] = 40.0
    found = evaluate(
        idle, panel_with(close), [(60, DAYS)], baselines=[BuyAndHold()], resamples=10,
        buy_cost_pct=0, slippage_per_share=2.0, initial_amount=66_000.0,
    ).baselines["buy_and_hold"]  # fmt: skip
    # 1,000 shares of each at 22. Orders of 1,100 would leave cash for 800 of the last one.
    assert found.total_return.value == pytest.approx(80_000 / 66_000 - 1)
    assert found.costs == pytest.approx(6_000)


def test_what_is_lost_with_more_than_all_earns_nothing_again() -> None:
    returns = np.array([[0.1, -1.5, 0.2, -1.4, 0.3], [0.1, -0.5, 0.2, 0.0, 0.1]])
    np.testing.assert_allclose(growth(returns)[0], [1.1, -0.55, -0.55, -0.55, -0.55])
    np.testing.assert_allclose(growth(returns)[1], np.cumprod(1 + returns[1]))
    np.testing.assert_allclose(grown(returns), [-1.55, np.prod(1 + returns[1]) - 1])
    total, _ = Resampled(5, 500, 1.0, 0, 0.95).intervals(returns[:1], 252.0)
    # Two such losses in a resample are no gain: nothing but gains before the loss makes it larger.
    assert total.high <= 1.3**5 - 1
    assert total.low >= -1 - 0.5 * 1.3**4


def test_a_ruined_portfolio_stays_ruined_over_the_tests_that_follow() -> None:
    close = closes()
    close[0, 70:] *= 0.2
    found = evaluate(
        lambda obs: np.array([[2.0, 0.0, 0.0]]), panel_with(close), [(60, 100), (100, DAYS)],
        actions=Weights(2), margin=Margin(), fractional=True, baselines=(), resamples=200,
        buy_cost_pct=0, sell_cost_pct=0,
    ).policies["policy"]  # fmt: skip
    at = int(np.argmin(found.returns[0]))
    assert found.returns[0, at] < -1
    assert found.total_return.value == pytest.approx(np.prod(1 + found.returns[0, : at + 1]) - 1)
    assert found.max_drawdown > 1
    assert (found.returns[0, at + 1 : 39] == 0).all()
