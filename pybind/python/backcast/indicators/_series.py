"""Indicators of one ticker, computed by TA-Lib over the bars that the ticker has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from backcast.errors import ArgumentError, MissingExtraError
from backcast.indicators._names import Indicator

Prices: TypeAlias = Mapping[str, NDArray[np.float64]]
Series: TypeAlias = NDArray[np.float64]

# Appel's lengths of the fast and the slow mean and of the signal; Bollinger's standard deviations.
_FAST, _SLOW, _SIGNAL, _DEVIATIONS = 12, 26, 9, 2.0
# Binary exponent of the first close as TA-Lib sees it, and what does not scale with prices.
_EXPONENT = 20
_WITHOUT_UNIT = {"rsi", "cci", "dx", "adx"}


def series(indicator: Indicator, prices: Prices) -> Series:
    """Return an indicator by bar, NaN where it has too few bars before.

    TA-Lib takes numbers below 1e-14 for 0, which changes of small prices are. So prices are scaled
    by a power of two, which rounds nothing. It depends on the first bar alone.
    """
    _, exponent = np.frexp(prices["close"][0])
    scale = np.ldexp(1.0, _EXPONENT - int(exponent))
    large = {name: numbers * scale for name, numbers in prices.items()}
    computed: Series = _FORMULAS[indicator.kind](_library(), large, indicator.bars)
    return computed if is_free_of_unit(indicator) else computed / scale


def is_free_of_unit(indicator: Indicator) -> bool:
    """Return whether an indicator does not scale with prices."""
    return indicator.kind in _WITHOUT_UNIT


def warm_up(indicator: Indicator) -> int:
    """Return the number of bars before the first value of an indicator of one ticker."""
    bars = indicator.bars
    fixed = {"macd": _SLOW - 1, "macds": _SLOW + _SIGNAL - 2, "macdh": _SLOW + _SIGNAL - 2}
    wilder = {"rsi": bars, "atr": bars, "dx": bars, "adx": 2 * bars - 1}
    return {**fixed, **wilder}.get(indicator.kind, bars - 1)


def _library() -> Any:  # noqa: ANN401 - a module that may be missing
    try:
        talib = import_module("talib")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "talib":
            raise
        raise MissingExtraError(
            "backcast.indicators computes with TA-Lib, which is not installed; "
            "run `pip install 'backcast[indicators]'`"
        ) from error
    # A setting of the whole process, which would make the warm-up longer than we say.
    for name in _UNSTABLE:
        if bars := talib.get_unstable_period(name):
            raise ArgumentError(
                f"TA-Lib's unstable period of {name} is {bars} bars in this process; reset it with "
                f"talib.set_unstable_period({name!r}, 0)"
            )
    return talib


# Functions that an unstable period would shorten.
_UNSTABLE = ("EMA", "CMO", "DX", "ADX", "ATR")


def _rsi(talib: Any, prices: Prices, bars: int) -> Series:  # noqa: ANN401
    # Chande's momentum is 2 * RSI - 100 with the same means. TA-Lib's RSI of prices that never
    # changed is 0, the mark of a crash; by way of CMO it is 50.
    changes: Series = talib.CMO(prices["close"], bars)
    return 50.0 + changes / 2


def _macd(talib: Any, prices: Prices, _: int) -> Series:  # noqa: ANN401
    fast, slow = (talib.EMA(prices["close"], bars) for bars in (_FAST, _SLOW))
    line: Series = fast - slow
    return line


def _signal(talib: Any, prices: Prices, _: int) -> Series:  # noqa: ANN401
    signal: Series = talib.EMA(_macd(talib, prices, 0), _SIGNAL)
    return signal


def _band(side: int) -> Callable[[Any, Prices, int], Series]:
    def band(talib: Any, prices: Prices, bars: int) -> Series:  # noqa: ANN401
        # TA-Lib subtracts means of squares, so digits are lost where prices are far from 0.
        base = prices["close"][0]
        near = prices["close"] - base
        line: Series = talib.BBANDS(near, bars, _DEVIATIONS, _DEVIATIONS)[side] + base
        return line

    return band


def _of_range(name: str) -> Callable[[Any, Prices, int], Series]:
    def compute(talib: Any, prices: Prices, bars: int) -> Series:  # noqa: ANN401
        high, low, close = (prices[column] for column in ("high", "low", "close"))
        line: Series = getattr(talib, name)(high, low, close, bars)
        return line

    return compute


def _cci(talib: Any, prices: Prices, bars: int) -> Series:  # noqa: ANN401
    line: Series = _of_range("CCI")(talib, prices, bars)
    # TA-Lib divides rounding errors by rounding errors where prices stand still.
    highest, lowest = talib.MAX(prices["high"], bars), talib.MIN(prices["low"], bars)
    return np.where(highest == lowest, 0.0, line)


_FORMULAS: dict[str, Callable[[Any, Prices, int], Series]] = {
    "macd": _macd,
    "macds": _signal,
    "macdh": lambda talib, prices, _: _macd(talib, prices, 0) - _signal(talib, prices, 0),
    "rsi": _rsi,
    "cci": _cci,
    "dx": _of_range("DX"),
    "adx": _of_range("ADX"),
    "atr": _of_range("ATR"),
    "boll_ub": _band(0),
    "boll": _band(1),
    "boll_lb": _band(2),
    "sma": lambda talib, prices, bars: talib.SMA(prices["close"], bars),
}
