"""Adds indicators to a panel."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from backcast import Panel
from backcast._calls import explained, levels_up
from backcast._market import check_panel
from backcast.errors import ArgumentError, PanelError
from backcast.indicators._names import Indicator, read_names
from backcast.indicators._panel import Sharing, with_columns
from backcast.indicators._series import is_free_of_unit, series, warm_up
from backcast.indicators._splits import shares_of
from backcast.indicators._turbulence import counted, turbulence

# Tickers that a warning names; the others are counted.
_NAMED = 3

FINRL = (
    "macd",
    "boll_ub",
    "boll_lb",
    "rsi_30",
    "cci_30",
    "dx_30",
    "close_30_sma",
    "close_60_sma",
)
"""The indicators that FinRL's examples use; ``turbulence`` is another."""


@explained
def add(
    panel: Panel,
    names: Iterable[str],
    *,
    splits: str | None = None,
    name: str | None = None,
    exist: Literal["error", "replace", "attach"] = "error",
    persistent: bool = False,
    dir: str | os.PathLike[str] | None = None,
) -> Panel:
    """Return a panel with indicators behind the columns that it has.

    The value of a bar is computed from this bar and the ones before it. Environments show it a bar
    later (`indicator_lag`). Indicators of a ticker go over the bars that the ticker has: a missing
    bar is skipped. **Warm-up**: a bar before the first value of any of the indicators has no row in
    the new panel, as before a listing. The days keep their positions.

    Parameters
    ----------
    panel : Panel
        Prices; it is left as it is.
    names : iterable of str
        Indicators, with the number of bars: ``macd`` (12, 26), its signal ``macds`` (9) and the
        difference ``macdh``; ``rsi_14``, ``cci_20``, ``dx_14``, ``adx_14``, ``atr_14``;
        ``boll_20``, ``boll_ub_20``, ``boll_lb_20``, two standard deviations; ``close_30_sma``;
        ``turbulence_252`` of all tickers but macro ones. Without a number those shown are meant.
        A ticker counts for turbulence where it has all of these returns in a row: one with hours
        of an exchange hardly does beside one that trades around the clock.
        ``indicators.FINRL`` are FinRL's.
    splits : str, optional
        Column of splits, as environments take it, of prices that are not adjusted. Bars before a
        split count as if it had been: no indicator sees a fall where a share became two.
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
        A new panel with the same tickers and days.

    Raises
    ------
    ArgumentError
        If a name is no indicator, is given twice, or is a column of the panel, or the panel has no
        such column of splits; an ``ArgumentTypeError`` if an argument is of another type.
    PanelError
        If a ticker has too few bars for a value, turbulence is not over more bars than there are
        tickers, or a bar after its first value has none.
    MissingExtraError
        If TA-Lib is not installed.

    Warns
    -----
    UserWarning
        If a ticker never counts for turbulence.

    Notes
    -----
    Copies the panel once. Computes in ``O(tickers days)``, turbulence in
    ``O(days (bars tickers^2 + tickers^3))``. Sources: Wilder, "New Concepts in Technical Trading
    Systems" (1978) for RSI, ATR, DX and ADX; Appel (1979) for MACD; Lambert (1980) for CCI;
    Bollinger (2001); Kritzman & Li (2010) for turbulence. Differences from them: DX and ADX start
    from sums of ``bars - 1`` instead of ``bars`` bars, as TA-Lib has it, which fades by
    ``1 - 1 / bars`` a bar. RSI of a price that never changed is 50.

    Examples
    --------
    >>> indicators.add(panel, [*indicators.FINRL, "turbulence"])  # doctest: +SKIP
    """
    check_panel(panel)
    wanted = read_names(names)
    for one in wanted:
        if one.name in panel.columns:
            raise ArgumentError(
                f"names has {one.name!r}, which is a column of the panel already: "
                f"{', '.join(panel.columns)}; leave it out here, or there with columns="
            )
    _check_lengths(panel, wanted)
    shares = shares_of(panel, splits)
    columns = {one.name: _column(panel, one, shares) for one in wanted}
    share: Sharing = {"name": name, "exist": exist, "persistent": persistent, "dir": dir}
    return with_columns(panel, columns, share)


def _check_lengths(panel: Panel, wanted: list[Indicator]) -> None:
    """Refuse indicators that some ticker has no bar for."""
    tradable = len(panel.tickers) - len(panel.macro)
    for one in wanted:
        if one.kind == "turbulence" and one.bars <= tradable:
            raise PanelError(
                f"{one.name!r} is over {one.bars} bars, which do not determine the covariances of "
                f"{tradable} tickers; give more bars than tickers, as in "
                f"'turbulence_{max(252, 2 * tradable)}'"
            )
    own = [one for one in wanted if one.kind != "turbulence"]
    for ticker, bars in zip(panel.tickers, panel.mask.sum(axis=1), strict=True):
        for one in own:
            if bars <= warm_up(one):
                raise PanelError(
                    f"{one.name!r} has no value for {ticker!r}: its first one needs "
                    f"{warm_up(one) + 1} bars, and the ticker has {bars}; leave one of them out"
                )


def _column(
    panel: Panel, one: Indicator, shares: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    """Return an indicator of all tickers, ``[tickers, days]``, NaN where there is none.

    `shares` is the cumulative split ratio since the first day.
    """
    values, mask = panel.values, panel.mask
    at = {column: panel.columns.index(column) for column in ("high", "low", "close")}
    if shares is not None:
        values = values * shares[:, :, None]
    if one.kind == "turbulence":
        own = [ticker not in panel.macro for ticker in panel.tickers]
        found = turbulence(values[own][:, :, at["close"]], mask[own], one.bars)
        _check_whole(panel, one, found)
        _warn_of_left_out(panel, one, own)
        return np.broadcast_to(found, mask.shape)
    computed = np.full(mask.shape, np.nan)
    for ticker, rows in enumerate(mask):
        prices = {
            column: np.ascontiguousarray(values[ticker, rows, place])
            for column, place in at.items()
        }
        computed[ticker, rows] = series(one, prices)
    return computed if shares is None or is_free_of_unit(one) else computed / shares


def _warn_of_left_out(panel: Panel, one: Indicator, own: list[bool]) -> None:
    """Warn of tickers that a turbulence leaves out on all bars."""
    places = np.flatnonzero(own)
    lost = [panel.tickers[at] for at in places[~counted(panel.mask[own], one.bars)]]
    if lost:
        more = f" and {len(lost) - _NAMED} more" if len(lost) > _NAMED else ""
        warnings.warn(
            f"{one.name!r} leaves out {', '.join(map(repr, lost[:_NAMED]))}{more} on all bars: a "
            f"ticker counts where it has {one.bars + 1} returns in a row; compute it of tickers "
            "that trade at the same times, or over fewer bars",
            UserWarning,
            stacklevel=levels_up(),
        )


def _check_whole(panel: Panel, one: Indicator, found: NDArray[np.float64]) -> None:
    """Refuse a turbulence that ends or has holes: rows in the middle would become absent."""
    known = np.isfinite(found)
    if not known.any():
        raise PanelError(
            f"{one.name!r} has no value: no ticker has {one.bars + 1} returns in a row, with "
            f"{panel.n_days} bars in the panel; give fewer bars"
        )
    first = int(known.argmax())
    holes = ~known & panel.mask.any(axis=0)
    holes[:first] = False
    if holes.any():
        day = int(holes.argmax())
        raise PanelError(
            f"{one.name!r} has no value on {panel.dates[day]}, after its first one: no ticker has "
            f"{one.bars + 1} returns in a row up to there; give fewer bars, or leave that one out"
        )
