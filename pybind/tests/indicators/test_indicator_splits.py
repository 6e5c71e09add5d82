"""Indicators of prices that are not adjusted for splits."""

from __future__ import annotations

import warnings
from typing import Any

import backcast as bc
import numpy as np
import pytest
from backcast import indicators
from backcast.errors import ArgumentError, ArgumentTypeError
from indicator_sources import market, panel_of

pytest.importorskip("talib", reason="TA-Lib is not installed")

DAYS, SPLIT_ON, RATIO = 120, 70, 3.0
OF_PRICES = ["macd", "macds", "macdh", "atr_14", "boll", "boll_ub", "boll_lb", "close_30_sma"]
OTHERS = ["rsi_14", "cci_20", "dx_14", "adx_14", "turbulence_20"]


def panels() -> tuple[bc.Panel, bc.Panel, np.ndarray]:
    """Return a market with a split of B, the same with adjusted prices, and the scale of B."""
    frame = market(DAYS)
    ratios = np.zeros((3, DAYS))
    ratios[1, SPLIT_ON] = RATIO
    frame["stock_splits"] = ratios.ravel()
    scale = np.ones((3, DAYS))
    scale[1, SPLIT_ON:] = 1 / RATIO
    raw = dict(frame)
    for name in ("open", "high", "low", "close"):
        raw[name] = frame[name] * scale.ravel()
    return panel_of(raw), panel_of(frame), scale


def test_indicators_see_no_split() -> None:
    raw, adjusted, scale = panels()
    found = indicators.add(raw, [*OF_PRICES, *OTHERS], splits="stock_splits")
    with warnings.catch_warnings():
        # The prices do not move by the column, so that there is nothing to warn of.
        warnings.simplefilter("error")
        expected = indicators.add(adjusted, [*OF_PRICES, *OTHERS])
    assert (found.mask == expected.mask).all()
    for name in [*OF_PRICES, *OTHERS]:
        values, wanted = (one.values[:, :, one.columns.index(name)] for one in (found, expected))
        wanted = wanted * (scale if name in OF_PRICES else 1.0)
        known = found.mask
        np.testing.assert_allclose(values[known], wanted[known], rtol=1e-6, atol=1e-7, err_msg=name)
    kept = found.values[1, SPLIT_ON + 1, :5]
    assert (kept == raw.values[1, SPLIT_ON + 1, :5]).all(), "prices stay as they are"


def test_what_follows_a_bar_does_not_change_its_indicators() -> None:
    raw, _, _ = panels()
    frame = market(DAYS)
    frame["stock_splits"] = np.zeros(3 * DAYS)
    before = indicators.add(panel_of(frame), OF_PRICES, splits="stock_splits")
    found = indicators.add(raw, OF_PRICES, splits="stock_splits")
    assert (found.values[:, :SPLIT_ON, 6:] == before.values[:, :SPLIT_ON, 6:]).all()


def test_a_split_that_no_argument_names_is_warned_of() -> None:
    raw, _, _ = panels()
    with pytest.warns(UserWarning, match=r"2020-03-11.*'stock_splits'.*splits='stock_splits'"):
        indicators.add(raw, ["rsi_14"])


def test_what_the_panel_was_warned_of_is_not_said_of_panels_made_from_it() -> None:
    raw, _, _ = panels()
    frame = market(DAYS)
    for name in ("open", "high", "low", "close"):
        at = raw.columns.index(name)
        frame[name] = np.where(raw.mask, raw.values[:, :, at], np.nan).ravel()
    # Nothing tells the split, and a high below the close is kept.
    frame["high"][40] = frame["low"][40]
    with pytest.warns(UserWarning, match="outside their low|as after a split") as caught:
        panel = panel_of(frame)
    assert [("opens on" in str(one.message)) for one in caught] == [False, True]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        added = indicators.add(panel, ["rsi_14"])
        normal = indicators.Normalizer.fit(added, (0, 60)).apply(added)
    assert normal.describe()["inconsistent_rows"] == panel.describe()["inconsistent_rows"] == 1


def test_every_column_that_is_named_after_splits_may_tell_them() -> None:
    frame = market(DAYS)
    raw, _, _ = panels()
    for name in ("open", "high", "low", "close"):
        at = raw.columns.index(name)
        frame[name] = np.where(raw.mask, raw.values[:, :, at], np.nan).ravel()
    frame["split_source"] = np.ones(3 * DAYS)
    frame["Splits"] = raw.values[:, :, raw.columns.index("stock_splits")].ravel()
    with pytest.warns(UserWarning, match="splits='Splits'") as caught:
        indicators.add(panel_of(frame), ["rsi_14"])
    assert len(caught) == 1


@pytest.mark.parametrize(
    ("splits", "error", "words"),
    [
        (3, ArgumentTypeError, "splits is 3"),
        ("split", ArgumentError, "'split', which is no column.*stock_splits"),
        ("close", ArgumentError, "'close', which is no column"),
    ],
)
def test_bad_columns_of_splits_are_refused(
    splits: Any,  # noqa: ANN401
    error: type[Exception],
    words: str,
) -> None:
    with pytest.raises(error, match=words):
        indicators.add(panels()[0], ["rsi_14"], splits=splits)


def test_negative_ratios_are_refused() -> None:
    frame = market(DAYS)
    frame["ratio"] = np.full(3 * DAYS, -1.0)
    with pytest.raises(ArgumentError, match=r"'ratio', a column with -1\.0"):
        indicators.add(panel_of(frame), ["rsi_14"], splits="ratio")
