"""Policies and baselines under the rules of portfolios: actions, margin, volume, splits, costs."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import backcast as bc
import numpy as np
import pytest
from backcast.envs import Discrete, Margin, PortfolioEnv, Weights
from backcast.errors import ArgumentError
from backcast.evaluate import (
    Baseline,
    BuyAndHold,
    EqualWeight,
    MinimumVariance,
    Momentum,
    evaluate,
    sharpe_ratio,
)
from backcast.evaluate._statistics import Resampled, grown, growth, until_ruin
from evaluate_markets import DAYS, closes

SPLIT_ON, RATIO = 80, 4.0


def idle(obs: dict[str, np.ndarray]) -> np.ndarray:
    return np.zeros(obs["open"].shape)


def panel_with(
    close: np.ndarray,
    volume: Any = 1e9,  # noqa: ANN401 - a number or an array
    *,
    split: bool = False,
    paid: float = 0.0,
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
        name: given for name, given in settings.items() if name in ("impact_bps", "fractional")
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
    left = until_ruin(returns)
    np.testing.assert_allclose(growth(left)[0], [1.1, -0.55, -0.55, -0.55, -0.55])
    np.testing.assert_allclose(growth(left)[1], np.cumprod(1 + returns[1]))
    np.testing.assert_allclose(grown(left), [-1.55, np.prod(1 + returns[1]) - 1])
    total, _ = Resampled(5, 500, 1.0, 0, 0.95).intervals(left[:1], 252.0)
    # Two such losses in a resample are no gain: nothing but gains before the loss makes it larger.
    assert total.high <= 1.3**5 - 1
    assert total.low >= -1 - 0.5 * 1.3**4


def test_a_ruined_portfolio_earns_nothing_in_the_tests_that_follow() -> None:
    close = closes()
    close[0, 70:] *= 0.2
    panel = panel_with(close)
    settings: dict[str, Any] = {
        "actions": Weights(2), "margin": Margin(), "fractional": True, "baselines": (),
        "resamples": 200, "buy_cost_pct": 0.001, "sell_cost_pct": 0,
    }  # fmt: skip

    def first(obs: dict[str, np.ndarray]) -> np.ndarray:
        return np.array([[2.0, 0.0, 0.0]])

    result = evaluate(first, panel, [(60, 100), (100, DAYS)], **settings)
    found = result.policies["policy"]
    at = int(np.argmin(found.returns[0]))
    assert result.dates[at] == panel.dates[70]
    assert found.returns[0, at] < -1
    assert (found.returns[0, at + 1 :] == 0).all()
    assert found.ruined == 1
    assert f"policy is ruined, first on {panel.dates[70]}: nothing is left" in str(result)
    assert found.total_return.value == pytest.approx(np.prod(1 + found.returns[0]) - 1)
    assert found.sharpe.value == pytest.approx(sharpe_ratio(found.returns[0], panel.bars_per_year))
    assert found.max_drawdown > 1
    # It does not trade in the second test, and the others are as they were.
    alone = evaluate(first, panel, [(60, 100)], **settings).policies["policy"]
    assert (found.turnover, found.costs) == (alone.turnover, alone.costs)
    later = evaluate(first, panel, [(100, DAYS)], **settings)
    assert later.policies["policy"].returns[0].any()
    assert later.policies["policy"].ruined == 0
    assert "ruined" not in str(later)


def test_a_resample_earns_nothing_behind_a_ruin() -> None:
    returns = np.full((1, 40), 0.01)
    returns[0, ::2] = -0.002
    returns[0, -1] = -1.5
    # With blocks as long as the series a resample begins anywhere, and goes on behind the ruin.
    _, sharpe = Resampled(40, 400, 40.0, 0, 0.95).intervals(returns, 1.0)
    zeros = np.zeros(40)
    zeros[0] = -1.5
    assert sharpe.low == pytest.approx(sharpe_ratio(zeros), rel=0.2)


def test_a_run_that_is_ruined_leaves_the_others() -> None:
    close = closes()
    close[0, 70:] *= 0.2

    def half(obs: dict[str, np.ndarray]) -> np.ndarray:
        return np.array([[2.0, 0.0, 0.0], [0.5, 0.0, 0.0]])

    result = evaluate(
        half, panel_with(close), [(60, 100), (100, DAYS)], actions=Weights(2), margin=Margin(),
        fractional=True, baselines=(), resamples=20, runs=2,
    )  # fmt: skip
    ruined, other = result.policies["policy"].returns
    assert not ruined[11:].any()
    assert other[45:].any()
    assert "policy is ruined in 1 of 2 runs, first on" in str(result)


@pytest.mark.parametrize("baseline", [BuyAndHold(), EqualWeight(7)])
def test_a_volume_that_cuts_no_order_changes_no_baseline(baseline: Baseline) -> None:
    # Prices rise before the first orders are filled, and the cash buys less. Then they fall, and
    # what is left of it would buy a share.
    close = np.full((3, DAYS), 20.0)
    close[:, 60], close[:, 61:] = 22.1, 10.0
    panel = panel_with(close)
    settings: dict[str, Any] = {
        "baselines": [baseline], "resamples": 10, "buy_cost_pct": 0, "sell_cost_pct": 0,
    }  # fmt: skip
    free, bound = (
        evaluate(idle, panel, [(60, DAYS)], max_volume=most, **settings).baselines[baseline.name]
        for most in (None, 1.0)
    )
    np.testing.assert_array_equal(bound.returns, free.returns)
    assert (bound.turnover, bound.costs) == (free.turnover, free.costs)


@pytest.mark.parametrize("closed", [(), (106,), (107,), (106, 107)])
def test_purchases_go_on_when_the_sales_that_pay_for_them_are_done(closed: tuple[int, ...]) -> None:
    close = np.full((3, DAYS), 20.0)
    close[2, 100:] = 80.0
    volume = np.array([[1e9], [1e9], [200.0]])
    # The sale begins on day 105. On these days the rest of it waits.
    tradable = np.ones((3, DAYS), np.bool_)
    tradable[2, list(closed)] = False
    found = evaluate(
        idle, panel_with(close, volume), [(60, DAYS)], baselines=[EqualWeight(45)],
        resamples=10, max_volume=0.1, buy_cost_pct=0, sell_cost_pct=0, initial_amount=6_000.0,
        tradable=tradable,
    ).baselines["equal_weight"]  # fmt: skip
    # 100 shares of each become worth 12,000. The sale of 50 of the third one, 20 a bar, pays for
    # 100 of each of the others.
    assert found.turnover == pytest.approx((6_000 + 50 * 80 + 2 * 100 * 20) / 6_000)


def test_an_order_that_the_volume_cut_waits_for_a_bar() -> None:
    tradable = np.ones((3, DAYS), np.bool_)
    tradable[0, 61:64] = False
    found = evaluate(
        idle, panel_with(np.full((3, DAYS), 20.0), volume=500.0), [(60, DAYS)],
        baselines=[BuyAndHold()], resamples=10, max_volume=0.1, tradable=tradable, buy_cost_pct=0,
    ).baselines["buy_and_hold"]  # fmt: skip
    assert found.turnover == pytest.approx(1.0)


def test_few_returns_have_no_intervals_and_no_deflated_ratio() -> None:
    panel = panel_with(closes())

    def buy(obs: dict[str, np.ndarray]) -> np.ndarray:
        return np.ones(obs["open"].shape)

    for tests, few in (([(60, 63)], True), ([(60, 75), (80, 96)], True), ([(60, 91)], False)):
        result = evaluate(
            {"buy": buy, "idle": idle}, panel, tests, baselines=[BuyAndHold()], resamples=50
        )
        score = result.policies["buy"]
        assert math.isfinite(score.sharpe.value)
        assert score.deflated is not None
        assert math.isnan(score.deflated) == few
        assert math.isnan(score.sharpe.low) == math.isnan(score.total_return.high) == few
        assert ("are too few for intervals" in str(result)) == few
        if few:
            assert result.verdict("buy", "buy_and_hold") == "not distinguishable"
            assert f"{len(result.dates)} returns are too few" in str(result)
            assert "[none]" in str(result)


@pytest.mark.parametrize(
    "name",
    ["slippage_bps", "slippage_per_share", "buy_cost_pct", "failure_threshold", "hmax", "reward"],
)
def test_settings_that_none_means_nothing_for_are_refused(name: str) -> None:
    given: dict[str, Any] = {name: None}
    with pytest.raises(ArgumentError, match=f"{name} is None, .*leave it out"):
        evaluate(idle, panel_with(closes()), [(60, DAYS)], **given)


def test_settings_that_may_be_none_are_taken() -> None:
    panel = panel_with(closes())
    names = ("margin", "max_volume", "ticker_costs", "splits", "tickers", "valuation", "tradable")
    given: dict[str, Any] = {"baselines": [BuyAndHold()], "resamples": 10}
    empty: dict[str, Any] = dict.fromkeys(names)
    found = evaluate(idle, panel, [(60, DAYS)], **given, **empty)
    assert str(found) == str(evaluate(idle, panel, [(60, DAYS)], **given))
