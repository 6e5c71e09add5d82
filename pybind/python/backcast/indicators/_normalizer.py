"""Normalises indicators by the mean and the standard deviation of chosen days."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from backcast import Panel
from backcast._calls import explained
from backcast._market import Days, check_panel, day_ranges
from backcast.errors import ArgumentError, ArgumentTypeError, PanelError
from backcast.indicators._panel import Sharing, with_columns

# Where a mean is this much larger than the spread, the spread is rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False, repr=False)
class Normalizer:
    """Means and standard deviations of indicators on the days that they were fitted on.

    Made by :meth:`fit`. It pickles, so that a policy keeps the numbers that it was trained with.

    Parameters
    ----------
    columns : tuple of str
        Indicators that are normalised, ``K`` of them.
    days : tuple of (int, int)
        Ranges of days that were fitted on, half open.
    tickers : tuple of str or None
        Tickers with numbers of their own, ``T`` of them; None if all share one.
    mean, scale : ndarray of float64
        Mean and sample standard deviation, ``[T, K]`` or ``[1, K]``.
    """

    columns: tuple[str, ...]
    days: tuple[tuple[int, int], ...]
    tickers: tuple[str, ...] | None
    mean: NDArray[np.float64]
    scale: NDArray[np.float64]

    def __repr__(self) -> str:
        """Show what was fitted."""
        whose = "all tickers" if self.tickers is None else f"each of {len(self.tickers)} tickers"
        return (
            f"<backcast.indicators.Normalizer: {', '.join(self.columns)} of {whose}, "
            f"days {_words(self.days)}>"
        )

    @classmethod
    @explained
    def fit(
        cls,
        panel: Panel,
        days: Days | Sequence[Days],
        *,
        columns: Sequence[str] | None = None,
        per: Literal["ticker", "panel"] = "ticker",
    ) -> Normalizer:
        """Compute means and standard deviations over some days, and over no others.

        Parameters
        ----------
        panel : Panel
            Panel with indicators.
        days : tuple
            Training days, half open, as environments take them: positions, dates, None. Or several
            such ranges, such as ``Fold.train``.
        columns : sequence of str, optional
            Indicators to normalise; all of them when left out.
        per : {"ticker", "panel"}
            One mean and deviation for each ticker, or one for all but macro tickers.

        Returns
        -------
        Normalizer
            What :meth:`apply` applies to any days.

        Raises
        ------
        ArgumentError
            If a column is no indicator, or the days are not the panel's.
        PanelError
            If a column does not vary on these days, or a ticker has fewer than two rows there.
        """
        check_panel(panel)
        ranges = day_ranges(panel, days)
        chosen = np.zeros(panel.n_days, np.bool_)
        for start, stop in ranges:
            chosen[start:stop] = True
        names = _columns(panel, columns)
        if per not in ("ticker", "panel"):
            raise ArgumentError(f'per is {per!r}; write "ticker" or "panel"')
        at = [panel.columns.index(name) for name in names]
        values, mask = panel.values[:, chosen][:, :, at], panel.mask[:, chosen]
        if per == "panel":
            own = [ticker not in panel.macro for ticker in panel.tickers]
            groups = {"all tickers": values[own][mask[own]]}
        else:
            groups = {
                repr(ticker): values[row][mask[row]] for row, ticker in enumerate(panel.tickers)
            }
        found = [_moments(whose, rows, names, _words(ranges)) for whose, rows in groups.items()]
        mean, scale = (np.array(part) for part in zip(*found, strict=True))
        tickers = tuple(panel.tickers) if per == "ticker" else None
        return cls(tuple(names), ranges, tickers, mean, scale)

    @explained
    def apply(
        self,
        panel: Panel,
        *,
        name: str | None = None,
        exist: Literal["error", "replace", "attach"] = "error",
        persistent: bool = False,
        dir: str | os.PathLike[str] | None = None,
    ) -> Panel:
        """Return a panel with normalised indicators: less the mean, over the deviation.

        Parameters
        ----------
        panel : Panel
            Panel with the indicators that were fitted; it is left as it is.
        name : str, optional
            Name to share the new panel under; it is private when left out.
        exist : {"error", "replace", "attach"}
            What to do if the name is taken, as in ``Panel.from_csv``.
        persistent : bool, default False
            Keep a named panel when no process holds it.
        dir : str or path, optional
            Directory for the named panel.

        Returns
        -------
        Panel
            A new panel with the same tickers, days and columns. Prices are not changed.

        Raises
        ------
        PanelError
            If the panel lacks an indicator, or has a ticker that was not fitted.
        """
        check_panel(panel)
        for column in self.columns:
            if column not in panel.indicators:
                raise PanelError(
                    f"the panel has no indicator {column!r}, which was fitted; it has "
                    f"{', '.join(panel.indicators) or 'none'}"
                )
        rows = [self._row(ticker) for ticker in panel.tickers]
        changed = {}
        for place, column in enumerate(self.columns):
            numbers = panel.values[:, :, panel.columns.index(column)]
            mean, scale = (part[rows, place][:, None] for part in (self.mean, self.scale))
            changed[column] = (numbers - mean) / scale
        share: Sharing = {"name": name, "exist": exist, "persistent": persistent, "dir": dir}
        return with_columns(panel, changed, share)

    def _row(self, ticker: str) -> int:
        if self.tickers is None:
            return 0
        if ticker not in self.tickers:
            raise PanelError(
                f"ticker {ticker!r} was not fitted, but {', '.join(self.tickers)}; fit a panel "
                'that has it, or fit with per="panel"'
            )
        return self.tickers.index(ticker)


def _columns(panel: Panel, columns: Sequence[str] | None) -> list[str]:
    known = panel.indicators
    if columns is None:
        columns = known
    elif isinstance(columns, str) or not isinstance(columns, Sequence):
        raise ArgumentTypeError(f"columns is {columns!r}; give a list of indicators")
    for column in columns:
        if column not in known:
            raise ArgumentError(
                f"columns has {column!r}, which is no indicator of the panel; it has "
                f"{', '.join(known) or 'none'}"
            )
    if not columns:
        raise ArgumentError(
            "the panel has no indicators to normalise; add some with indicators.add"
        )
    return list(columns)


def _words(ranges: tuple[tuple[int, int], ...]) -> str:
    return " and ".join(f"{start} to {stop}" for start, stop in ranges)


def _moments(
    whose: str, rows: NDArray[np.float64], names: list[str], days: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean and sample standard deviation of each column."""
    if len(rows) < 2:
        raise PanelError(
            f"{whose} has {len(rows)} rows on days {days}, and 2 are needed; fit on more days, or "
            'with per="panel"'
        )
    mean, scale = rows.mean(axis=0), rows.std(axis=0, ddof=1)
    still = scale <= _ROUNDING * np.abs(mean)
    if still.any():
        raise PanelError(
            f"{names[int(still.argmax())]!r} of {whose} does not vary on days {days}; fit on more "
            "days, or leave it out with columns="
        )
    return mean, scale
