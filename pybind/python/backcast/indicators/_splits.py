"""Splits of prices that are not adjusted."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from backcast import Panel
from backcast._calls import levels_up
from backcast.errors import ArgumentError, ArgumentTypeError


def shares_of(panel: Panel, splits: str | None) -> NDArray[np.float64] | None:
    """Return the cumulative split ratio since the first day, ``[tickers, days]``; None without.

    Warns of a column whose name says that it has splits, and by which prices move, if no argument
    names it.
    """
    if splits is None:
        if (found := panel._splits_by_name()) is not None:
            name, day = found
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
    column = panel.values[:, :, panel.columns.index(splits)]
    ratios = np.where(panel.mask, column, 0.0)
    if (ratios < 0).any():
        raise ArgumentError(
            f"splits is {splits!r}, a column with {ratios.min()}; splits are numbers from 0 up, "
            "such as 2 where a share becomes two"
        )
    shares: NDArray[np.float64] = np.where(ratios > 0, ratios, 1.0).cumprod(axis=1)
    return shares
