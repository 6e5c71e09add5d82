"""Columns of splits beside prices: what contradicts them, or is not named, is warned of."""

from __future__ import annotations

import math
import warnings
from typing import Any

import backcast as bc
import numpy as np
import pytest
from backcast.envs import Excess, PortfolioEnv, PortfolioVectorEnv

DAYS, SPLIT_ON = 30, 15
TOLD = "Stock Splits"


def panel_of(
    ratio: float, told: float, paid: float = 0.0, name: str = TOLD, **columns: float
) -> bc.Panel:
    """Return prices that fall to `1 / ratio` on a day of which a column tells a split.

    `paid`: dividend of that day, by which the price falls as well. `columns`: the number on all
    days of further columns, which come first.
    """
    close = np.full((2, DAYS), 12.0)
    close[:, ::2] *= 1.01
    close[0, SPLIT_ON:] /= ratio
    close[0, SPLIT_ON:] -= paid
    column, payments = np.zeros((2, DAYS)), np.zeros((2, DAYS))
    column[0, SPLIT_ON], payments[0, SPLIT_ON] = told, paid
    dates = np.arange("2024-01-01", DAYS, dtype="datetime64[D]")
    frame = {"date": np.tile(dates, 2), "tic": np.repeat(["AAA", "BBB"], DAYS)}
    prices = {part: close.ravel() for part in ("open", "high", "low", "close")}
    volume = {"volume": np.full(2 * DAYS, 1e6)}
    others = {other: np.full(2 * DAYS, number) for other, number in columns.items()}
    more = {name: column.ravel(), "paid": payments.ravel()}
    return bc.Panel.from_frame(frame | prices | volume | others | more)


@pytest.mark.parametrize("made", [PortfolioEnv, PortfolioVectorEnv])
@pytest.mark.parametrize(
    ("ratio", "splits", "words"),
    [
        (1.0, TOLD, "column .Stock Splits. has a split of .AAA. on 2024-01-16.*for nothing"),
        (3.0, None, "price of .AAA. moves on 2024-01-16 by the split in column .Stock Splits."),
    ],
)
def test_splits_that_prices_contradict_or_no_setting_names_are_warned_of(
    made: Any,  # noqa: ANN401
    ratio: float,
    splits: str | None,
    words: str,
) -> None:
    with pytest.warns(UserWarning, match=words) as caught:
        made(panel_of(ratio, 3.0), splits=splits)
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_a_column_of_ones_tells_no_split() -> None:
    with pytest.warns(UserWarning, match=r".AAA. opens on 2024-01-16 at 0.330 times") as caught:
        panel = panel_of(3.0, 1.0)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PortfolioEnv(panel)
        PortfolioEnv(panel, splits=TOLD)


def test_every_column_that_is_named_after_splits_may_tell_them() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        panel = panel_of(3.0, 3.0, split_source=1.0, split_known=0.0)
    with pytest.warns(UserWarning, match=r"by the split in column .Stock Splits."):
        PortfolioEnv(panel)


@pytest.mark.parametrize(
    ("ratio", "told", "settings"),
    [
        (3.0, 3.0, {"splits": TOLD}),
        (1 / 4, 1 / 4, {"splits": TOLD}),
        # Adjusted prices with a column for information.
        (1.0, 3.0, {}),
        # Too small to be told from a usual move.
        (1.0, 1.1, {"splits": TOLD}),
        (3.0, 3.0, {"days": (SPLIT_ON, DAYS)}),
        (3.0, 3.0, {"tickers": ["BBB"]}),
    ],
)
def test_splits_that_agree_are_not_warned_of(
    ratio: float, told: float, settings: dict[str, Any]
) -> None:
    panel = panel_of(ratio, told)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PortfolioEnv(panel, **settings)


def test_the_excess_over_a_ticker_counts_its_split_and_dividend() -> None:
    panel = panel_of(3.0, 3.0, paid=0.5)
    env = PortfolioEnv(panel, splits=TOLD, dividends="paid", reward=Excess("AAA"))
    env.reset(options={"start_day": SPLIT_ON - 2})
    rewards = [env.step([0, 0])[1] for _ in range(3)]
    # Closes are 12 and 12.12 in turn, and from the split on a third of them less 0.5.
    returns = [12.12 / 12, (3.5 + 0.5) * 3 / 12.12, (12.12 / 3 - 0.5) / 3.5]
    assert rewards == pytest.approx([-math.log(gain) for gain in returns])


def test_buying_and_holding_is_drawn_through_a_split_and_a_dividend(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("matplotlib")
    from backcast.plot import _episode
    from matplotlib.figure import Figure

    env = PortfolioEnv(
        panel_of(3.0, 3.0, paid=0.5), splits=TOLD, dividends="paid", render_mode="rgb_array"
    )
    env.reset(options={"start_day": SPLIT_ON - 2})
    for _ in range(3):
        env.step([1, 0])
    drawn: list[Any] = []
    monkeypatch.setattr(_episode, "frame", lambda *given: drawn.append(given))
    env.render()
    [(history, held, _)] = drawn
    # Closes are 12 and 12.12 in turn, and from the split on a third of them less 0.5.
    split = [1.0, 12.12 / 12, (3.5 + 0.5) * 3 / 12]
    split.append(split[-1] * (12.12 / 3 - 0.5) / 3.5)
    growth = (np.array(split) + np.array([1.0, 12.12 / 12, 1.0, 12.12 / 12])) / 2
    np.testing.assert_allclose(_episode.kept(history, held["worth"]), 30_000 * growth)
    # The price of what a share has become falls by the dividend, and not by the split.
    axes: Any = Figure().subplots()
    _episode._prices(axes, history, held["units"])
    line = axes.get_lines()[0].get_ydata()
    np.testing.assert_allclose(line, history["close"][:, 0] * [1, 1, 3, 3] * 100 / 12)
    assert "before splits" in axes.get_ylabel()
