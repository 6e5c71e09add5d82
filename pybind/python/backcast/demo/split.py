"""Split of the data: tickers that are traded, training days and held-out days."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from backcast.demo.data import FIRST_TEST_DATE
from backcast.demo.lesson import FUTURE, HISTORY

if TYPE_CHECKING:
    import backcast as bc

_FEWEST_DAYS = 2 * (HISTORY + FUTURE)
_TEST_SHARE = 0.2
_NAMES_SHOWN = 6


class UnusablePanelError(Exception):
    """A panel too short or too empty for the demo."""


@dataclass(frozen=True)
class Split:
    """Training days are ``0 .. first_test_day - 1``; training does not see later days."""

    tickers: tuple[str, ...]
    first_test_day: int
    first_test_date: str

    @property
    def names(self) -> str:
        """Names of the first tickers, and the number of further ones."""
        shown = ", ".join(self.tickers[:_NAMES_SHOWN])
        more = len(self.tickers) - _NAMES_SHOWN
        return f"{shown} and {more} more" if more > 0 else shown


def split(panel: bc.Panel) -> Split:
    """Hold out 2011 and later, or the last fifth of a panel that does not reach so far.

    The demo trades tickers that are no macro series, and are listed for at least half of the
    training days and of the held-out days.
    """
    dates = list(panel.dates)
    first = int(np.searchsorted(np.array(dates), FIRST_TEST_DATE))
    if min(first, len(dates) - first) < _FEWEST_DAYS:
        first = len(dates) - max(_FEWEST_DAYS, int(_TEST_SHARE * len(dates)))
    if first < _FEWEST_DAYS:
        raise UnusablePanelError(
            f"the panel has {len(dates)} days; training and test need {_FEWEST_DAYS} each, "
            f"so give a file with at least {2 * _FEWEST_DAYS} dates"
        )
    macro = set(panel.macro)
    mask = np.asarray(panel.mask)
    listed = np.minimum(mask[:, :first].mean(axis=1), mask[:, first:].mean(axis=1))
    names = zip(panel.tickers, listed, strict=True)
    tickers = tuple(name for name, share in names if name not in macro and share >= 0.5)
    if not tickers:
        raise UnusablePanelError(
            "no ticker outside --macro is listed for half of the training days and half of the "
            f"held-out ones ({dates[0]} .. {dates[first - 1]}, {dates[first]} .. {dates[-1]})"
        )
    return Split(tickers, first, dates[first])
