"""Arguments of both environments, checked and converted for Rust."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from backcast import Panel
from backcast._counts import whole_of
from backcast._market import PanelLike, is_file, open_panel
from backcast.errors import ArgumentTypeError, BackcastError, EnvError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

Seeds: TypeAlias = "ArrayLike | Sequence[int | None]"
ReturnFormat: TypeAlias = Literal["vec", "vector", "json"]
Tickers: TypeAlias = Sequence[str]
State: TypeAlias = dict[str, Any]

WINDOW_PARTS = ("indicator_names", "h", "future")
"""Keys of a window besides tickers."""


def market_of(source: PanelLike, macro: Sequence[str], options: Mapping[str, Any] | None) -> Panel:
    """Open the market of an environment; macro tickers of a file are set here."""
    if options is not None and not isinstance(options, Mapping):
        raise ArgumentTypeError(
            f'panel_options is {options!r}; give a dict of keywords, {{"nan": "mask"}}'
        )
    check_source(source, "csv_path")
    given = dict(options or {})
    if macro and is_file(source):
        given.setdefault("macro", list(macro))
    return open_panel(source, given)


def check_source(source: Any, what: str) -> None:  # noqa: ANN401
    """Refuse values that name no market."""
    if not isinstance(source, Panel | str | os.PathLike):
        raise ArgumentTypeError(
            f"{what} is {source!r}; give the path of a CSV or Parquet file, a backcast.Panel, or "
            "the name of a shared one"
        )


def names_of(what: str, names: Iterable[str]) -> list[str]:
    """Read a list of names, and refuse a single str."""
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise ArgumentTypeError(f'{what} is {names!r}; give a list of names, ["AAPL", "MSFT"]')
    listed = list(names)
    for name in listed:
        if not isinstance(name, str):
            raise ArgumentTypeError(f"{what} holds {name!r}; give names, strings")
    return listed


def format_of(name: str) -> Literal["vec", "json"]:
    """Read a return format."""
    if name in ("vec", "vector"):
        return "vec"
    if name == "json":
        return "json"
    raise EnvError(f'return_format is {name!r}; write "vec" or "json"')


def refuse_parts(tickers: Iterable[str], error: type[BackcastError]) -> None:
    """Refuse tickers with the name of another part of a window."""
    for name in tickers:
        if name in WINDOW_PARTS:
            raise error(
                f"a ticker is called {name!r}, as a part of the window is; leave it out, and take "
                "its days from panel.windows, which has no names"
            )


def seed_of(seed: int | None, what: str = "seed") -> int | None:
    """Read a seed: -1 is a random one, None continues the stream."""
    return None if seed is None else given_seed_of(seed, what)


def given_seed_of(seed: Any, what: str) -> int:  # noqa: ANN401
    """Read a seed where one is needed."""
    number = whole_of(seed, what, "a whole number, or -1 for a random one")
    if number == -1:
        return secrets.randbits(63)
    if not 0 <= number < 2**64:
        raise EnvError(
            f"{what} is {number}; give a whole number from 0 to {2**64 - 1}, or -1 for a random one"
        )
    return number


def seeds_of(seeds: Any, count: int) -> list[int | None]:  # noqa: ANN401
    """Read one seed per environment."""
    if seeds is None:
        return [None] * count
    # NumPy would convert mixed types to one, so lists are read entry by entry.
    listed = [*seeds] if isinstance(seeds, list | tuple) else np.asarray(seeds).tolist()
    if not isinstance(listed, list) or any(isinstance(seed, list | tuple) for seed in listed):
        raise ArgumentTypeError(f"seeds is {seeds!r}; give an array of {count} whole numbers")
    if len(listed) != count:
        raise EnvError(f"seeds has length {len(listed)}; give {count}, one per environment")
    return [seed_of(seed, f"seeds[{at}]") for at, seed in enumerate(listed)]


def check_window(days: int, what: str, panel: Panel, error: type[BackcastError]) -> None:
    """Refuse windows many times longer than the market, which are probably a mistake."""
    longest = panel.longest_window
    if days > longest:
        raise error(
            f"{what} is {days} days, of a panel that has {panel.n_days}; give at most {longest}: "
            "what lies beyond the panel is masked"
        )


def options_of(options: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Read the options of a reset, without touching the caller's dict."""
    if options is None:
        return None
    if not isinstance(options, Mapping):
        raise ArgumentTypeError(f'options is {options!r}; give a dict, {{"start_day": 5}}')
    return dict(options)


def starts_of(options: dict[str, Any], count: int) -> Any:  # noqa: ANN401
    """Read the start days of `count` portfolios, and refuse other options."""
    for key in options:
        if key != "start_day":
            raise EnvError(f'options has {key!r}; reset_indices knows "start_day"')
    if "start_day" not in options:
        return None
    try:
        starts = np.asarray(options["start_day"])
    except ValueError:
        # Ragged lists make no array.
        starts = np.zeros(1, object)
    whole = starts.dtype.kind in "iu" or starts.size == 0
    if not whole or starts.shape not in ((), (count,)):
        raise EnvError(
            f"start_day is {options['start_day']!r}; give a whole number, or an array of {count}, "
            "one per index"
        )
    return starts


def refuse_masked(value: Any, what: str, error: type[BackcastError]) -> None:  # noqa: ANN401
    """Refuse masked arrays, since NumPy's functions pass on the values under the mask."""
    if isinstance(value, np.ma.MaskedArray):
        raise error(
            f"{what}: got a masked array, whose masked values are unknown; give the array that "
            "filled(...) returns"
        )


def pairs_of(
    action: ArrayLike, shape: tuple[int, int, int], ignored: NDArray[np.bool_] | None
) -> NDArray[np.float64]:
    """Read the wrapper's actions, and check the second number of each pair.

    The environment checks the first numbers.

    Actions of `ignored` portfolios, which are about to begin an episode, are not checked.
    """
    refuse_masked(action, "action", EnvError)
    try:
        given = np.asarray(action)
        # NumPy would convert strings to numbers and drop imaginary parts.
        actions = given.astype(np.float64, copy=False) if given.dtype.kind in "biufO" else None
    except (TypeError, ValueError):
        actions = None
    if actions is None:
        raise ArgumentTypeError(f"action is no array of numbers; give one of shape {shape}")
    if actions.shape != shape:
        raise EnvError(
            f"action: got shape {actions.shape}; give {shape}, portfolios, tickers, pairs"
        )
    # Both comparisons are false for NaN.
    odd = ~(np.abs(actions[..., 1]) <= 1.0)
    if ignored is not None:
        odd &= ~ignored[:, None]
    if odd.any():
        env, ticker = (int(at[0]) for at in odd.nonzero())
        value = actions[env, ticker, 1]
        raise EnvError(
            f"action of environment {env}: the second number of ticker {ticker} is {value}; give "
            "numbers in [-1, 1]"
        )
    return actions


def flag_of(value: Any, what: str) -> bool:  # noqa: ANN401
    """Read True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ArgumentTypeError(f"{what} is {value!r}; give True or False")
    return bool(value)


def columns_of(names: Sequence[str], panel_columns: Sequence[str]) -> NDArray[np.intp]:
    """Find where a panel has its indicators."""
    where = {name: at for at, name in enumerate(panel_columns)}
    return np.array([where[name] for name in names], np.intp)
