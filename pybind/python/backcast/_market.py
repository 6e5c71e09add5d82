"""Panels of environments: given as such, by name, or as a file to load."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from backcast import Panel
from backcast._calls import levels_up
from backcast.errors import ArgumentError, ArgumentTypeError, BackcastError

if TYPE_CHECKING:
    from backcast._native import PortfolioBatch

PanelLike: TypeAlias = Panel | str | os.PathLike[str]

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
            f"panel is {panel!r}; give a backcast.Panel, the name of a shared one, or the path of "
            "a CSV or Parquet file"
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
