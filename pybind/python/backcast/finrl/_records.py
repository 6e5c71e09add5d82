"""Conversion of states in other forms to a dict of arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from backcast.errors import AppendError
from backcast.finrl._rules import refuse_masked

FIELDS = ("day", "cash", "shares", "avg_buy_price")
FLAGS = ("terminal", "terminated")


def as_arrays(states: Any, what: str, arrived: bool = False) -> dict[str, Any]:  # noqa: ANN401
    """Return a dict of arrays as it is, or convert a list of states to one.

    A state is a dict, an object with attributes, or the nested dict of a single environment.
    `arrived`: take ``final_obs``, where a state has it, in the state's place.
    """
    if isinstance(states, Mapping):
        return dict(states)
    if not isinstance(states, Sequence) or isinstance(states, str):
        raise AppendError(
            f"{what} is a {type(states).__name__}; give the dict of arrays or the list of states "
            "that the environment returned"
        )
    if not states:
        raise AppendError(f"{what} is empty; give one state per environment")
    rows = [_flat(state, f"{what}[{at}]") for at, state in enumerate(states)]
    if arrived:
        rows = [_arrived(states[at], row, f"{what}[{at}]") for at, row in enumerate(rows)]
    width = len(rows[0]["tickers"])
    for at, row in enumerate(rows):
        if len(row["tickers"]) != width:
            raise AppendError(
                f"{what}[{at}] has {len(row['tickers'])} tickers and {what}[0] has {width}; give "
                "states of equally many"
            )
    return _stacked(rows)


def as_arrays_of_one(state: Any, what: str, arrived: bool = False) -> dict[str, Any]:  # noqa: ANN401
    """Convert one state to a dict of arrays, as :func:`as_arrays` does with many."""
    row = _flat(state, what)
    return _stacked([_arrived(state, row, what) if arrived else row])


def _stacked(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    flags = {
        key: np.array([bool(row[key]) for row in rows])
        for key in FLAGS
        if all(row[key] is not None for row in rows)
    }
    return {
        "day": np.array([row["day"] for row in rows]),
        "cash": np.array([row["cash"] for row in rows]),
        "shares": np.array([row["shares"] for row in rows]),
        "avg_buy_price": np.array([row["avg_buy_price"] for row in rows]),
        "tickers": [list(row["tickers"]) for row in rows],
    } | flags


def _arrived(state: Any, row: dict[str, Any], what: str) -> dict[str, Any]:  # noqa: ANN401
    final = _get(state, "final_obs")
    if final is None:
        return row
    return _flat(final, f"final_obs of {what}") | {key: row[key] for key in FLAGS}


def _flat(state: Any, what: str) -> dict[str, Any]:  # noqa: ANN401
    """Read the fields of one state, flat or nested."""
    portfolio = _get(state, "portfolio")
    if portfolio is not None:
        holdings = _get(portfolio, "holdings") or {}
        if not isinstance(holdings, Mapping):
            raise AppendError(
                f"{what}['portfolio']['holdings'] is {holdings!r}; give a dict by ticker"
            )
        row = {
            "day": _get(state, "day"),
            "cash": _get(portfolio, "cash"),
            "tickers": list(holdings),
            "shares": [_get(held, "shares") for held in holdings.values()],
            "avg_buy_price": [_get(held, "avg_buy_price") for held in holdings.values()],
        }
    else:
        row = {key: _get(state, key) for key in (*FIELDS, "tickers")}
    for key, value in row.items():
        if value is None:
            raise AppendError(f"{what} has no {key}; give a state that the environment returned")
    terminal = _get(state, "terminal")
    row["terminal"] = False if terminal is None else terminal
    row["terminated"] = _get(state, "terminated")
    tickers = row["tickers"]
    if not isinstance(tickers, Sequence | np.ndarray) or isinstance(tickers, str):
        raise AppendError(f"{what}['tickers'] is {tickers!r}; give a list of names")
    for key in ("day", "cash", *FLAGS):
        if row[key] is not None:
            _check_shape(row[key], (), f"{what}['{key}']")
    for key in ("shares", "avg_buy_price"):
        _check_shape(row[key], (len(tickers),), f"{what}['{key}']")
    return row


def _check_shape(value: Any, shape: tuple[int, ...], what: str) -> None:  # noqa: ANN401
    """Refuse a value that cannot be stacked with those of other states."""
    refuse_masked(value, what, AppendError)
    try:
        found = np.shape(value)
    except ValueError:
        # Ragged lists have no shape.
        found = None
    if found != shape:
        one = "one per ticker" if shape else "a single value"
        raise AppendError(f"{what}: got shape {found}; give {shape}, {one}")


def _get(state: Any, key: str) -> Any:  # noqa: ANN401
    if isinstance(state, Mapping):
        return state.get(key)
    return getattr(state, key, None)
