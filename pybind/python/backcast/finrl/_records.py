"""States in other forms than a dict of arrays, made into one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from backcast import AppendError

FIELDS = ("day", "cash", "shares", "avg_buy_price")


def as_arrays(states: Any, what: str, arrived: bool = False) -> dict[str, Any]:  # noqa: ANN401
    """Return a dict of arrays as it is, and make one of a list of states.

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
        rows = [_arrived(state, row) for state, row in zip(states, rows, strict=True)]
    width = len(rows[0]["tickers"])
    for at, row in enumerate(rows):
        if len(row["tickers"]) != width:
            raise AppendError(
                f"{what}[{at}] has {len(row['tickers'])} tickers and {what}[0] has {width}; give "
                "states of equally many"
            )
    return {
        "day": np.array([row["day"] for row in rows]),
        "cash": np.array([row["cash"] for row in rows], float),
        "shares": np.array([row["shares"] for row in rows]).reshape(len(rows), width),
        "avg_buy_price": np.array([row["avg_buy_price"] for row in rows], float).reshape(
            len(rows), width
        ),
        "tickers": [list(row["tickers"]) for row in rows],
        "terminal": np.array([bool(row["terminal"]) for row in rows]),
    }


def _arrived(state: Any, row: dict[str, Any]) -> dict[str, Any]:  # noqa: ANN401
    final = _get(state, "final_obs")
    if final is None:
        return row
    return _flat(final, "final_obs") | {"terminal": row["terminal"]}


def _flat(state: Any, what: str) -> dict[str, Any]:  # noqa: ANN401
    """Read the fields of one state, flat or nested."""
    portfolio = _get(state, "portfolio")
    if portfolio is not None:
        holdings = _get(portfolio, "holdings") or {}
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
    return row | {"terminal": False if terminal is None else terminal}


def _get(state: Any, key: str) -> Any:  # noqa: ANN401
    if isinstance(state, Mapping):
        return state.get(key)
    return getattr(state, key, None)
