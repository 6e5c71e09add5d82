"""Panels of environments: given as such, by name, or as a file to load."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from backcast import Panel
from backcast._calls import levels_up
from backcast._counts import whole_of
from backcast.errors import ArgumentError, ArgumentTypeError, BackcastError

if TYPE_CHECKING:
    from backcast._native import PortfolioBatch

PanelLike: TypeAlias = Panel | str | os.PathLike[str]
# An edge of a range of days: a position, a date or time, or None for the panel's edge.
Edge: TypeAlias = int | str | date | np.datetime64 | None
Days: TypeAlias = tuple[Edge, Edge]

_PARQUET = (".parquet", ".pq")
_FILES = (".csv", *_PARQUET)


def open_panel(panel: PanelLike, options: Mapping[str, Any] | None = None) -> Panel:
    """Return the panel, attach to it by name, or load it from a CSV or Parquet file.

    A string is a file if it ends in ``.csv``, ``.parquet`` or ``.pq`` or has a directory in it,
    else the name of a shared panel. `options` are keywords of ``Panel.attach``, ``Panel.from_csv``
    or ``Panel.from_parquet``.
    """
    if options is not None and not isinstance(options, Mapping):
        raise ArgumentTypeError(
            f'panel_options is {options!r}; give a dict of keywords, {{"macro": ["SP500"]}}'
        )
    options = dict(options or {})
    if isinstance(panel, Panel):
        if options:
            raise ArgumentError(
                f"panel_options is {options}, but the panel is open already; give them where it "
                "is opened"
            )
        return _here(panel)
    if not isinstance(panel, str | os.PathLike):
        raise ArgumentTypeError(
            f"panel is {panel!r:.60}, a {type(panel).__name__}; give a backcast.Panel, such as "
            "bc.Panel.from_frame(frame), the name of a shared one, or the path of a CSV or Parquet "
            "file"
        )
    text = os.fspath(panel)
    if not is_file(panel):
        return Panel.attach(text, **options)
    load = Panel.from_parquet if Path(text).suffix.lower() in _PARQUET else Panel.from_csv
    return load(text, **options)


def is_file(panel: PanelLike) -> bool:
    """Return whether this is a file to load, by its ending or because it is a path."""
    if isinstance(panel, str):
        return Path(panel).suffix.lower() in _FILES or os.sep in panel
    return isinstance(panel, os.PathLike)


def position_of(panel: Panel, day: Any) -> int:  # noqa: ANN401
    """Return the position of a day: the day itself, if it is a number, or that of its date."""
    is_date = isinstance(day, str | np.datetime64) or hasattr(day, "isoformat")
    return panel.position(day) if is_date else int(day)


def check_panel(panel: object) -> Panel:
    """Return the panel, or refuse what is none."""
    if not isinstance(panel, Panel):
        raise ArgumentTypeError(
            f"panel is {panel!r:.60}, a {type(panel).__name__}; give a Panel, such as "
            "bc.Panel.from_csv(path)"
        )
    return panel


def day_range(panel: Panel, days: object, what: str = "days") -> tuple[int, int]:
    """Return the positions of a half-open range of days, as the `days` of environments mean it."""
    if not isinstance(days, tuple | list) or len(days) != 2:
        raise ArgumentTypeError(
            f"{what} is {days!r}; give two days, the first one and the one behind the last, "
            'such as (0, 100) or ("2015-01-01", None)'
        )
    start, stop = (
        edge if day is None else edge_of(panel, day, what)
        for day, edge in zip(days, (0, panel.n_days), strict=True)
    )
    if start >= stop:
        raise ArgumentError(
            f"{what} is {days!r}, positions {start} to {stop}; give a first day before the end"
        )
    return start, stop


def day_ranges(panel: Panel, days: object) -> tuple[tuple[int, int], ...]:
    """Return the positions of a range of days, or of several such as those of a fold's training."""
    if isinstance(days, tuple | list) and days and all(isinstance(x, tuple | list) for x in days):
        return tuple(day_range(panel, one) for one in days)
    return (day_range(panel, days),)


def edge_of(panel: Panel, day: object, what: str) -> int:
    """Return the position of a day, which may be the one behind the last."""
    if isinstance(day, str | np.datetime64) or hasattr(day, "isoformat"):
        return position_of(panel, day)
    at = whole_of(day, what, "positions, dates or None")
    if not 0 <= at <= panel.n_days:
        raise ArgumentError(
            f"{what} has {at}, but the panel has days 0 to {panel.n_days}; give one of these"
        )
    return at


def warn_of_prices(batch: PortfolioBatch) -> None:
    """Warn of prices at which an order can never be filled, or a holding not grow."""
    for message in batch.price_warnings():
        warnings.warn(message, UserWarning, stacklevel=levels_up())


def _here(panel: Panel) -> Panel:
    """Return the panel, or attach to it again in a forked process."""
    try:
        _ = panel.n_days
    except BackcastError as error:
        # Subclasses are other errors, such as that of a closed panel.
        if type(error) is not BackcastError or panel.name is None:
            raise
        attach, arguments = panel.__reduce__()
        reopened: Panel = attach(*arguments)
        return reopened
    return panel
