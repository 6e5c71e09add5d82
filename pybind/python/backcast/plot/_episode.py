"""Pictures of episodes: prices with trades, portfolio value and drawdown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

# Palette of Okabe and Ito, distinguishable with every common kind of colour blindness.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
_NEUTRAL = "#808080"
_SIZE, _DPI = (8.0, 6.0), 80


def frame(
    history: dict[str, Any], held: dict[str, NDArray[np.float64]], title: str
) -> NDArray[np.uint8]:
    """Draw an episode; return the picture, uint8 ``[480, 640, 3]``.

    `held` has ``units`` after splits, and their ``worth`` with dividends reinvested, ``[S + 1, T]``
    each.
    """
    figure = Figure(figsize=_SIZE, dpi=_DPI, layout="constrained")
    canvas: Any = FigureCanvasAgg(figure)
    prices, value, fall = figure.subplots(3, 1, sharex=True, height_ratios=[3, 2, 1])
    _prices(prices, history, held["units"])
    _value(value, history, held["worth"])
    _fall(fall, history)
    prices.set_title(title, loc="left", fontsize="medium")
    for ax in (prices, value, fall):
        ax.spines[["top", "right"]].set_visible(False)
        ax.yaxis.grid(color=_NEUTRAL, alpha=0.25, linewidth=0.6)
    first, last = history["date"][0], history["date"][-1]
    # Only instants have a time of day.
    fall.set_xlabel(f"{'bar' if 'T' in first else 'day'}, {first} to {last}")
    canvas.draw()
    pixels = np.asarray(canvas.buffer_rgba())[:, :, :3]
    return np.ascontiguousarray(pixels)


def kept(history: dict[str, Any], worth: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the value by day of buying all tickers at the first close, and holding them.

    The first value of the portfolio is spread equally over the tickers that have that close.
    """
    listed = worth[0] > 0
    if not listed.any():
        return np.full(len(worth), history["value"][0])
    growth = worth[:, listed] / worth[0, listed]
    values: NDArray[np.float64] = history["value"][0] * growth.mean(axis=1)
    return values


def _prices(ax: Axes, history: dict[str, Any], units: NDArray[np.float64]) -> None:
    # Prices times the units after splits: a split moves no line.
    close, days = history["close"] * units, history["day"]
    traded = history["bought"].sum(axis=0) + history["sold"].sum(axis=0)
    # The most traded tickers, at most as many as there are distinguishable colours.
    shown = np.sort(np.argsort(-traded, kind="stable")[: len(_COLOURS)])
    alone = close.shape[1] == 1
    for colour, at in zip(_COLOURS, shown, strict=False):
        first = close[:, at][np.isfinite(close[:, at])]
        if not first.size:
            continue
        line = close[:, at] if alone else 100 * close[:, at] / first[0]
        ax.plot(days, line, color=colour, linewidth=1.0, label=history["tickers"][at])
        marks = [
            (history["bought"][:, at] > 0, "^", "none"),
            ((history["sold"][:, at] > 0) & ~history["stopped"][:, at], "v", colour),
            (history["stopped"][:, at], "X", colour),
        ]
        for where, marker, fill in marks:
            ax.scatter(
                days[:-1][where], line[:-1][where], marker=marker, s=26, facecolor=fill,
                edgecolor=colour, linewidth=0.9, zorder=3,
            )  # fmt: skip
    unit = "close" if (units == 1).all() else "close before splits"
    ax.set_ylabel(unit if alone else f"{unit}, first = 100")
    ax.legend(loc="upper left", ncols=6, fontsize="small", frameon=False)


def _value(ax: Axes, history: dict[str, Any], worth: NDArray[np.float64]) -> None:
    ax.plot(history["day"], history["value"], color=_COLOURS[0], linewidth=1.4, label="portfolio")
    ax.plot(
        history["day"], kept(history, worth), color=_NEUTRAL, linewidth=1.0, linestyle="--",
        label="buy and hold",
    )  # fmt: skip
    ax.set_ylabel("value")
    ax.legend(loc="upper left", ncols=2, fontsize="small", frameon=False)


def _fall(ax: Axes, history: dict[str, Any]) -> None:
    value = history["value"]
    fallen = 100 * (value / np.maximum.accumulate(value) - 1)
    ax.fill_between(history["day"], fallen, 0, color=_COLOURS[1], alpha=0.5, linewidth=0)
    ax.set_ylabel("drawdown, %")
