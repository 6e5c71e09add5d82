"""The arguments that both environments have, checked and in the form that the Rust side takes."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from backcast import ArgumentTypeError, EnvError
from backcast._market import PanelLike, is_file, open_panel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from backcast import Panel

ReturnFormat: TypeAlias = Literal["vec", "vector", "json"]
Tickers: TypeAlias = Sequence[str]
State: TypeAlias = dict[str, Any]


def market_of(source: PanelLike, macro: Sequence[str], options: Mapping[str, Any] | None) -> Panel:
    """Open what an environment was given; a file learns here which of its tickers are macro."""
    given = dict(options or {})
    if macro and is_file(source):
        given.setdefault("macro", list(macro))
    return open_panel(source, given)


def names_of(what: str, names: Iterable[str]) -> list[str]:
    """Read a list of names; a lone one is a slip."""
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


def seed_of(seed: int | None, what: str = "seed") -> int | None:
    """Read a seed: -1 is a random one, None goes on."""
    if seed is None:
        return None
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer):
        raise ArgumentTypeError(f"{what} is {seed!r}; give a whole number, or -1 for a random one")
    if seed == -1:
        return secrets.randbits(63)
    if not 0 <= int(seed) < 2**64:
        raise EnvError(
            f"{what} is {seed}; give a whole number from 0 to {2**64 - 1}, or -1 for a random one"
        )
    return int(seed)


def seeds_of(seeds: Any, count: int) -> list[int | None]:  # noqa: ANN401
    """Read one seed per environment."""
    if seeds is None:
        return [None] * count
    listed = np.asarray(seeds).tolist()
    if not isinstance(listed, list):
        raise ArgumentTypeError(f"seeds is {seeds!r}; give an array of {count} whole numbers")
    if len(listed) != count:
        raise EnvError(f"seeds has length {len(listed)}; give {count}, one per environment")
    return [seed_of(seed, f"seeds[{at}]") for at, seed in enumerate(listed)]


def columns_of(names: Sequence[str], panel_columns: Sequence[str]) -> NDArray[np.intp]:
    """Find where a panel has its indicators."""
    where = {name: at for at, name in enumerate(panel_columns)}
    return np.array([where[name] for name in names], np.intp)
