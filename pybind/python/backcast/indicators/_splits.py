"""Splits of prices that are not adjusted."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from backcast import Panel
from backcast._calls import levels_up
from backcast.errors import ArgumentError, ArgumentTypeError

# Logarithm of the smallest split that a price tells from a usual move between bars.
_SURE = 0.4


def shares_of(panel: Panel, splits: str | None) -> NDArray[np.float64] | None:
    """Return what one share of the first day has become, ``[tickers, days]``; None if nothing is.

    Warns of a column whose name says that it has splits, and by which prices move, if no argument
    names it.
    """
    if splits is None:
        for name in panel.indicators:
            if "split" in name.lower() and (day := _moved(panel, name)) is not None:
                warnings.warn(
                    f"prices move on {panel.dates[day]} by the split in column {name!r}, which "
                    "indicators would take for a crash or a jump; "
                    f"give splits={name!r}, or load adjusted prices",
                    UserWarning,
                    stacklevel=levels_up(),
                )
        return None
    if not isinstance(splits, str):
        raise ArgumentTypeError(f"splits is {splits!r}; give the name of a column, or None")
    if splits not in panel.indicators:
        raise ArgumentError(
            f"splits is {splits!r}, which is no column behind the prices; the panel has "
            f"{', '.join(panel.indicators) or 'none'}"
        )
    ratios = _ratios(panel, splits)
    if (ratios < 0).any():
        raise ArgumentError(
            f"splits is {splits!r}, a column with {ratios.min()}; splits are numbers from 0 up, "
            "such as 2 where a share becomes two"
        )
    shares: NDArray[np.float64] = np.where(ratios > 0, ratios, 1.0).cumprod(axis=1)
    return shares


def _ratios(panel: Panel, name: str) -> NDArray[np.float64]:
    column = panel.values[:, :, panel.columns.index(name)]
    ratios: NDArray[np.float64] = np.where(panel.mask, column, 0.0)
    return ratios


def _moved(panel: Panel, name: str) -> int | None:
    """Return the first day on which a price opens as after the split that a column has."""
    ratios = _ratios(panel, name)
    opened, close = (panel.values[:, :, panel.columns.index(part)] for part in ("open", "close"))
    tickers, days = np.nonzero(ratios > 0)
    for ticker, day in sorted(zip(tickers, days, strict=True), key=lambda cell: cell[1]):
        told = np.log(ratios[ticker, day])
        before = np.flatnonzero(panel.mask[ticker, :day])
        if abs(told) < _SURE or not before.size:
            continue
        move = np.log(opened[ticker, day] / close[ticker, before[-1]])
        if abs(move + told) < abs(move):
            return int(day)
    return None
