"""Panels with other columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypedDict

import numpy as np
from numpy.typing import NDArray

from backcast import Panel


class Sharing(TypedDict):
    """Keywords of ``Panel.from_frame`` for a panel that other processes attach."""

    name: str | None
    exist: Literal["error", "replace", "attach"]
    persistent: bool
    dir: Any


def with_columns(panel: Panel, columns: Mapping[str, NDArray[np.float64]], share: Sharing) -> Panel:
    """Return a panel with these columns ``[tickers, days]`` in place of or beside its indicators.

    A row that lacks a number is absent. The days and the order of the tickers stay.
    """
    values, mask = panel.values, panel.mask
    tickers, days = mask.shape
    every = {name: values[:, :, at] for at, name in enumerate(panel.columns)} | dict(columns)
    rows: dict[str, Any] = {}
    if panel.calendar == "days":
        rows["date"] = np.tile(panel.timestamps.astype("datetime64[D]"), tickers)
    else:
        rows["timestamp"] = np.tile(panel.timestamps, tickers)
    rows["tic"] = np.repeat(np.array(panel.tickers, dtype=object), days)
    for name, numbers in every.items():
        rows[name] = np.where(mask, numbers, np.nan).ravel()
    # Instants of a panel are in UTC, which `datetime64` does not say.
    zone = None if panel.calendar == "days" else "UTC"
    # Loading the source panel already warned.
    return Panel._derived(
        rows,
        macro=panel.macro,
        nan="mask",
        zone=zone,
        bars_per_year=panel.bars_per_year,
        **share,
    )
