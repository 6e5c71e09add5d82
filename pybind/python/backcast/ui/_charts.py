"""Options of the charts. Their text takes the colour of the page, in light and in dark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from backcast.ui import _words
from backcast.ui._window import Drawn

Options = dict[str, Any]
BLUE, ORANGE = "#2b8cd6", "#e06c1f"
COLOURS = (BLUE, ORANGE, "#2f9e62", "#a36bdc", "#d6508f", "#7f8790")
"""Colours of lines and bars in their order. All stand out from cards in light and in dark."""
_GRID = {"splitLine": {"lineStyle": {"color": "rgba(128,128,128,0.25)"}}}
_CANDLES = {"color": "none", "color0": ORANGE, "borderColor": BLUE, "borderColor0": ORANGE}


def chart(
    kind: str,
    named: Mapping[str, Iterable[Any]],
    labels: Iterable[Any] | None = None,
    *,
    unit: str = "",
    scale: bool = False,
) -> Options:
    """Return lines, stacked bars or candles at the labels, or of points with a time in ms."""
    x = {"type": "time"} if labels is None else {"type": "category", "data": list(labels)}
    # The margin keeps the first label apart from the zero of the other axis.
    ticks = {"axisTick": {"show": False}, "axisLabel": {"hideOverlap": True, "margin": 12}}
    style: Options = {"type": kind, "showSymbol": False, "barCategoryGap": "15%"}
    style |= {"stack": "bars"} if kind == "bar" else {}
    style |= {"itemStyle": _CANDLES} if kind == "candlestick" else {}
    return {
        "animation": False,
        "color": list(COLOURS),
        "grid": {"left": 8, "right": 16, "top": 36, "bottom": 8, "containLabel": True},
        "legend": {"top": 0, "type": "scroll"},
        "tooltip": {"trigger": "axis", "confine": True},
        "xAxis": _GRID | ticks | x,
        "yAxis": _GRID | {"type": "value", "name": unit, "scale": scale},
        "series": [style | {"name": name, "data": list(data)} for name, data in named.items()],
    }


def rates(points: Sequence[tuple[int, float, float]]) -> Options:
    """Return lines of the rows published and drawn per second, given with the time in ms."""
    at, published, drawn = zip(*points, strict=True)
    named = {"published/s": published, "drawn/s": drawn}
    return chart("line", {name: zip(at, rate, strict=True) for name, rate in named.items()})


def of_ring(ring: _words.Row) -> Iterable[tuple[str, Options]]:
    """Yield titles and charts of what is counted at a ring in a frame."""
    lanes = {str(one["lane"]): one["publish_rate_per_s"] or 0.0 for one in ring["lanes"]}
    yield "Rows/s of each lane", chart("bar", {"rows/s": lanes.values()}, lanes)
    ages: dict[int, int] = {}
    for reader in ring["reader_ages"]:
        for entry in reader["ages"]:
            ages[entry["from"]] = ages.get(entry["from"], 0) + entry["rows"]
    counts = {"Ages of drawn rows, in newer rows of their lane": dict(sorted(ages.items()))}
    for table in ring["tables"]:
        bins = (table["priorities"] or {}).get("histogram", ())
        counts[f"Priorities of `{table['name']}`"] = {one["from"]: one["rows"] for one in bins}
        bins = table["times_sampled"] or ()
        counts[f"Times sampled, `{table['name']}`"] = {one["times"]: one["rows"] for one in bins}
    for title, bins in counts.items():
        if bins:
            labels = (f"{one:,}" if isinstance(one, int) else f"{one:.3g}" for one in bins)
            yield title, chart("bar", {"rows": bins.values()}, labels)


def window(found: Drawn) -> Options:
    """Return candles if the window has prices, else lines. A grey line is the end of an episode."""
    kind = "candlestick" if found.has_prices else "line"
    made = chart(kind, found.named, found.places, scale=True)
    marks = {"silent": True, "symbol": "none", "label": {"show": False}}
    marks["lineStyle"] = {"color": "rgba(128,128,128,0.8)"}
    made["series"][0]["markLine"] = marks | {"data": [{"xAxis": place} for place in found.ends]}
    return made


def book(frame: _words.Row) -> Options:
    """Return the shares at each price of a book, bids left of asks."""
    bids, asks = frame["bids"][::-1], frame["asks"]
    shares = {
        "bids": [one["shares"] for one in bids] + [None] * len(asks),
        "asks": [None] * len(bids) + [one["shares"] for one in asks],
    }
    labels = [f"{level['price']:.2f}" for level in (*bids, *asks)]
    return chart("bar", shares, labels, unit="shares")
