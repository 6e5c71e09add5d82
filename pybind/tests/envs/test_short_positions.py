"""Short positions: average prices, splits of whole shares, and tickers that leave the market."""

from __future__ import annotations

from typing import Any

import backcast as bc
import numpy as np
import pytest
from backcast.envs import Margin, PortfolioEnv

SHARES = 200


def begun(
    closes: list[float],
    told: list[float] | None = None,
    **settings: Any,  # noqa: ANN401 - settings of the environment
) -> PortfolioEnv:
    """Begin an episode on the first day of a ticker AAA, beside BBB, which has all days.

    Days behind the closes have no row of AAA. `told`: its splits.
    """
    days, rows = len(closes) + 2, len(closes)
    dates = np.arange("2024-01-01", days, dtype="datetime64[D]")
    price = np.concatenate([closes, np.full(days, 5.0)])
    ratios = np.zeros(rows + days)
    ratios[:rows] = 0.0 if told is None else told
    frame = {
        "date": np.concatenate([dates[:rows], dates]),
        "tic": np.repeat(["AAA", "BBB"], [rows, days]),
        **dict.fromkeys(("open", "high", "low", "close"), price),
        "volume": np.full(rows + days, 1e6),
        "split": ratios,
    }
    env = PortfolioEnv(
        bc.Panel.from_frame(frame), hmax=SHARES, margin=Margin(), buy_cost_pct=0, sell_cost_pct=0,
        indicator_lag=0, failure_threshold=0, step_info=True, **settings,
    )  # fmt: skip
    env.reset(options={"start_day": 0})
    return env


def ordered(env: PortfolioEnv, shares: float) -> dict[str, Any]:
    """Order shares of AAA; return the observation."""
    obs: dict[str, Any] = env.step([shares / SHARES, 0.0])[0]
    return obs


def test_the_average_price_follows_a_position_through_its_sides() -> None:
    env = begun([10.0, 12.0, 8.0, 9.0, 7.0, 6.0, 6.0])
    for shares, held, average in [
        (100, 100, 10.0),
        # 100 are sold and 50 sold short, at 12.
        (-150, -50, 12.0),
        (-50, -100, (50 * 12 + 50 * 8) / 100),
        # A position that becomes smaller keeps its average.
        (40, -60, 10.0),
        # 60 are bought back and 20 are bought, at 7.
        (80, 20, 7.0),
        (-20, 0, 0.0),
    ]:
        obs = ordered(env, shares)
        assert obs["shares"][0] == held
        assert obs["avg_buy_price"][0] == pytest.approx(average)


@pytest.mark.parametrize("held", [49, -49, 50, -50])
def test_a_split_makes_whole_shares_and_pays_the_rest(held: int) -> None:
    # 49 / 49 in floating point is below 1.
    ratio = 1 / 49
    assert 49 * ratio < 1
    env = begun([10.0, 490.0, 490.0], [0.0, ratio, 0.0], splits="split")
    obs = ordered(env, held)
    assert obs["shares"][0] == np.sign(held)
    rest = np.sign(held) * (abs(held) - 49) * 10.0
    assert obs["cash"][0] == pytest.approx(30_000 - held * 10.0 + rest)
    assert obs["avg_buy_price"][0] == pytest.approx(490.0)


def test_a_short_position_in_a_ticker_that_leaves_is_settled_at_its_last_close() -> None:
    env = begun([10.0, 10.0, 12.0])
    assert ordered(env, -100)["cash"][0] == 31_000
    ordered(env, 0)
    # The last row is that of the third day.
    obs = ordered(env, 0)
    assert (obs["shares"][0], obs["avg_buy_price"][0]) == (0, 0)
    assert obs["cash"][0] == 31_000 - 1_200
