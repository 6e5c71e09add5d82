"""Options of the charts. Their text takes the colour of the page, in light and in dark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from backcast.plot._read import Window

Options = dict[str, Any]
BLUE, ORANGE = "#2b8cd6", "#e06c1f"
_GRID = {"splitLine": {"lineStyle": {"color": "rgba(128,128,128,0.25)"}}}


def _chart(x: Options, y: Options, series: Iterable[Options]) -> Options:
    return {
        "animation": False,
        "grid": {"left": 8, "right": 16, "top": 36, "bottom": 8, "containLabel": True},
        "legend": {"top": 0, "type": "scroll"},
        "tooltip": {"trigger": "axis", "confine": True},
        "xAxis": _GRID | {"axisTick": {"show": False}, "axisLabel": {"hideOverlap": True}} | x,
        "yAxis": _GRID | {"type": "value"} | y,
        "series": list(series),
    }


def lines(named: dict[str, list[Any]], *, scale: bool = False, **x: Any) -> Options:  # noqa: ANN401
    """Return lines; the options are those of the axis below."""
    each = {"type": "line", "showSymbol": False}
    series = [each | {"name": name, "data": data} for name, data in named.items()]
    return _chart({"scale": True} | x, {"scale": scale}, series)


def rates(points: Iterable[tuple[int, float, float]]) -> Options:
    """Return lines of the rows published and drawn per second, given with the time in ms."""
    times, published, drawn = zip(*points, strict=True)
    named = {"published/s": published, "drawn/s": drawn}
    pairs = {name: list(zip(times, values, strict=True)) for name, values in named.items()}
    return lines(pairs, type="time")


def bars(labels: Sequence[str], values: Sequence[float], name: str) -> Options:
    """Return one bar a label."""
    series = {"type": "bar", "data": list(values), "barCategoryGap": "15%"}
    x = {"type": "category", "data": list(labels)}
    return _chart(x, {"minInterval": 1, "name": name}, [series])


def window(found: Window) -> Options:
    """Return candles if the window has prices, else lines."""
    places = [int(place) for place in found.places]
    x = {"type": "category", "data": places, "splitLine": {"show": False}}
    assert found.terminated is not None
    assert found.truncated is not None
    ends = np.flatnonzero(found.terminated | found.truncated)
    marks = {
        "silent": True,
        "symbol": "none",
        "label": {"show": False},
        "lineStyle": {"color": "rgba(128,128,128,0.8)"},
        "data": [{"xAxis": int(place)} for place in ends],
    }
    if not found.prices:
        named = {name: _numbers(values) for name, values in found.lines.items()}
        chart = lines(named, scale=True, **x)
        chart["series"][0]["markLine"] = marks
        return chart
    order = [found.prices[name] for name in ("open", "close", "low", "high")]
    candles = {
        "type": "candlestick",
        "name": "price",
        "data": [_numbers(place) for place in zip(*order, strict=True)],
        "itemStyle": {
            "color": "transparent",
            "color0": ORANGE,
            "borderColor": BLUE,
            "borderColor0": ORANGE,
        },
        "markLine": marks,
    }
    chart = _chart(x, {"scale": True}, [candles])
    if found.action is not None:
        low = found.prices["low"]
        for sign, name, turn in ((1, "bought", 0), (-1, "sold", 180)):
            at = np.flatnonzero(np.sign(found.action) == sign)
            data = [[int(place), float(low[place])] for place in at if np.isfinite(low[place])]
            mark = {"type": "scatter", "symbol": "triangle", "symbolRotate": turn, "symbolSize": 9}
            chart["series"].append(mark | {"name": name, "data": data})
    return chart


def _numbers(values: Iterable[float]) -> list[float | None]:
    return [float(value) if np.isfinite(value) else None for value in values]


def book(frame: dict[str, Any]) -> Options:
    """Return the shares at each price of a book, bids left of asks."""
    bids, asks = frame["bids"][::-1], frame["asks"]
    labels = [f"{level['price']:.2f}" for level in (*bids, *asks)]
    stack: Options = {"type": "bar", "stack": "book", "barCategoryGap": "15%"}
    shares = {
        "bids": [one["shares"] for one in bids] + [0] * len(asks),
        "asks": [0] * len(bids) + [one["shares"] for one in asks],
    }
    series = (stack | {"name": name, "data": data} for name, data in shares.items())
    return _chart({"type": "category", "data": labels}, {"name": "shares"}, series)
