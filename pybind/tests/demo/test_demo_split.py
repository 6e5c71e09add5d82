"""Which days the demo holds out, and which tickers it trades."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from backcast.demo.split import UnusablePanelError, split


def panel(first: str, days: int, **late: float) -> Any:  # noqa: ANN401 - stands in for a Panel
    """Three tickers A, B, M (macro); `late` maps a ticker to the share of days that it misses."""
    dates = [str(np.datetime64(first) + i) for i in range(days)]
    mask = np.array([np.arange(days) >= late.get(name, 0.0) * days for name in "ABM"])
    return SimpleNamespace(dates=dates, tickers=list("ABM"), macro=["M"], mask=mask)


def test_the_first_day_of_2011_is_held_out() -> None:
    made = split(panel("2010-01-01", 730))
    assert made.first_test_day == 365
    assert made.first_test_date == "2011-01-01"
    assert made.tickers == ("A", "B")


def test_a_panel_of_other_years_holds_out_its_last_fifth() -> None:
    assert split(panel("2015-01-01", 1000)).first_test_day == 800
    assert split(panel("1990-01-01", 1000)).first_test_day == 800


def test_a_ticker_listed_late_in_training_is_not_traded() -> None:
    assert split(panel("2015-01-01", 1000, B=0.5)).tickers == ("A",)
    assert split(panel("2015-01-01", 1000, B=0.3)).tickers == ("A", "B")


def test_a_ticker_that_left_before_the_held_out_days_is_not_traded() -> None:
    made = panel("2015-01-01", 1000)
    made.mask[1, 850:] = False
    assert split(made).tickers == ("A",)


def test_a_short_panel_is_refused() -> None:
    with pytest.raises(UnusablePanelError, match="the panel has 60 days"):
        split(panel("2015-01-01", 60))


def test_a_panel_of_macro_series_alone_is_refused() -> None:
    with pytest.raises(UnusablePanelError, match="no ticker outside --macro"):
        split(panel("2015-01-01", 1000, A=1.0, B=1.0))
