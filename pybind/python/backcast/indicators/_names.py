"""Names of indicators: what is computed, and over how many bars."""

from __future__ import annotations

import re
from dataclasses import dataclass

from backcast._native import _closest_name
from backcast.errors import ArgumentError, ArgumentTypeError

# Kind, and the bars that a name without a number means. None: the name takes no number.
_DEFAULTS: dict[str, int | None] = {
    "macd": None,
    "macds": None,
    "macdh": None,
    "rsi": 14,
    "cci": 20,
    "dx": 14,
    "adx": 14,
    "atr": 14,
    "boll": 20,
    "boll_ub": 20,
    "boll_lb": 20,
    "turbulence": 252,
}
_SMA = re.compile(r"close_(\d+)_sma")
_NUMBERED = re.compile(r"(\w+?)_(\d+)")
# TA-Lib takes no more.
_LEAST, _MOST = 2, 100_000
_KNOWN = (*_DEFAULTS, "close_30_sma")


@dataclass(frozen=True)
class Indicator:
    """One indicator: the name of its column, its kind, and its bars."""

    name: str
    kind: str
    bars: int


def read_names(names: object) -> list[Indicator]:
    """Read names of indicators, each once."""
    if isinstance(names, str) or not hasattr(names, "__iter__"):
        raise ArgumentTypeError(
            f'names is {names!r}; give a list of names, such as ["macd", "rsi_14"]'
        )
    read = [_read(name) for name in names]
    if not read:
        raise ArgumentError('names is empty; give at least one, such as ["macd", "rsi_14"]')
    for at, one in enumerate(read):
        if one.name in {other.name for other in read[:at]}:
            raise ArgumentError(f"names has {one.name!r} twice; give each name once")
    return read


def _read(name: object) -> Indicator:
    if not isinstance(name, str):
        raise ArgumentTypeError(f'names has {name!r}; give text, such as "rsi_14"')
    kind, bars = name, _DEFAULTS.get(name)
    if sma := _SMA.fullmatch(name):
        kind, bars = "sma", int(sma[1])
    elif name not in _DEFAULTS:
        numbered = _NUMBERED.fullmatch(name)
        if numbered is None or _DEFAULTS.get(numbered[1]) is None:
            near = _closest_name(name, _KNOWN)
            hint = f"did you mean {near!r}? It" if near else "it"
            raise ArgumentError(
                f"names has {name!r}, which is no indicator; {hint} is one of "
                f"{', '.join(_KNOWN)}, with the number of bars behind it, as in 'rsi_30'"
            )
        kind, bars = numbered[1], int(numbered[2])
    if bars is not None and not _LEAST <= bars <= _MOST:
        raise ArgumentError(
            f"names has {name!r}, an indicator over {bars} bars; give {_LEAST} to {_MOST}"
        )
    return Indicator(name, kind, bars or 0)
