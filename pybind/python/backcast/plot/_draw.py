"""Draws one window on matplotlib axes; imported when a picture is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, MaxNLocator
from matplotlib.transforms import ScaledTranslation

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from backcast.plot._read import Window

# Palette of Okabe and Ito, distinguishable with every common kind of colour blindness.
_UP, _DOWN, _SIGN, _END = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
_LINES = (_UP, _DOWN, _SIGN, _END, "#56B4E9", "#E69F00")
# Grey that is visible on white and on black.
_NEUTRAL = "#808080"
# Half a candle's width; a fraction that binary numbers hold exactly.
_BODY = 0.3125


def draw(window: Window, ax: Axes | None) -> Axes:
    """Draw the window and return its axes."""
    if ax is None:
        ax = Figure(figsize=(8.0, 4.5), layout="constrained").subplots()
    _frame(ax, window)
    if window.prices:
        _candles(ax, window)
        _signs(ax, window)
    else:
        _series(ax, window)
    _ends(ax, window)
    _legend(ax)
    return ax


def _frame(ax: Axes, window: Window) -> None:
    """Draw the axes, the line at the drawn place, and the shade of the future."""
    first, last = int(window.places[0]), int(window.places[-1])
    ax.axvline(0, color=_NEUTRAL, linewidth=1.0, linestyle=(0, (4, 3)), zorder=0.5,
               label=window.drawn)  # fmt: skip
    if window.future:
        ax.axvspan(0.5, last + 0.5, color=_NEUTRAL, alpha=0.13, linewidth=0, zorder=0)
    # Wide enough that a single place is drawn as a candle and not across the whole axis.
    ax.set_xlim(min(first, -1) - 0.75, max(last, window.final_place, 1) + 0.75)
    ax.xaxis.set_major_locator(MaxNLocator(nbins=12, integer=True, min_n_ticks=1))
    ax.xaxis.set_major_formatter(FuncFormatter(_signed))
    ax.spines[["top", "right"]].set_visible(False)
    ax.yaxis.grid(color=_NEUTRAL, alpha=0.25, linewidth=0.6)
    ax.set_axisbelow(True)
    ax.set_xlabel(f"{window.unit} from the {window.drawn}")
    ax.set_title(window.title, loc="left", fontsize="medium", pad=18)
    head: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points",
                            "fontsize": "small", "color": _NEUTRAL, "va": "bottom"}  # fmt: skip
    if first < 0:
        ax.annotate("history", (-0.5, 1), xytext=(0, 2), ha="right", **head)
    if window.future:
        ax.annotate("future", (0.5, 1), xytext=(0, 2), ha="left", **head)


def _candles(ax: Axes, window: Window) -> None:
    prices = window.prices
    there = ~np.isnan(prices["close"])
    rising = prices["close"] >= prices["open"]
    for chosen, colour, face, label in (
        (there & rising, _UP, "none", "close at or above open"),
        (there & ~rising, _DOWN, _DOWN, "close below open"),
    ):
        x = window.places[chosen]
        open_, high, low, close = (
            prices[name][chosen] for name in ("open", "high", "low", "close")
        )
        bottom, top = np.minimum(open_, close), np.maximum(open_, close)
        gap = np.full(len(x), np.nan)
        # One line with gaps at the bodies, so that no wick shows through a hollow body.
        wicks = np.stack([low, bottom, gap, top, high, gap], axis=-1)
        ax.plot(np.repeat(x, wicks.shape[1]), wicks.ravel(), color=colour, linewidth=1.2)
        for at, (left, under, over) in enumerate(zip(x - _BODY, bottom, top, strict=True)):
            ax.add_patch(
                Rectangle((left, under), 2 * _BODY, over - under, facecolor=face, edgecolor=colour,
                          linewidth=1.2, label=label if at == 0 else "")
            )  # fmt: skip
    if window.day_open is not None:
        ax.plot([0], [window.day_open], "D", color=_NEUTRAL, markersize=6,
                label="open of the drawn day")  # fmt: skip
    ax.margins(y=0.12)
    ax.autoscale_view(scalex=False)
    ax.set_ylabel("price")


def _signs(ax: Axes, window: Window) -> None:
    """Mark purchases below the candle and sales above it, a little apart from the wick."""
    if window.action is None:
        return
    for chosen, price, marker, points, label in (
        (window.action > 0, "low", "^", -8, "buy"),
        (window.action < 0, "high", "v", 8, "sell"),
    ):
        if chosen.any():
            apart = ScaledTranslation(0, points / 72, ax.figure.dpi_scale_trans)
            ax.plot(window.places[chosen], window.prices[price][chosen], marker, color=_SIGN,
                    markersize=6, linestyle="none", label=label,
                    transform=ax.transData + apart)  # fmt: skip


def _series(ax: Axes, window: Window) -> None:
    for (name, values), colour in zip(window.lines.items(), _LINES, strict=False):
        ax.plot(window.places, values, color=colour, linewidth=1.5, marker="o", markersize=3.5,
                label=name)  # fmt: skip
    ax.set_ylabel(next(iter(window.lines)) if len(window.lines) == 1 else "value")
    ax.margins(y=0.08)


def _ends(ax: Axes, window: Window) -> None:
    """Mark where episodes end, and their final observations."""
    for flags, style, label in (
        (window.terminated, "solid", "terminated"),
        (window.truncated, (0, (1, 1.5)), "truncated"),
    ):
        for place in window.places[flags] if flags is not None else ():
            ax.axvline(place + 0.5, color=_END, linewidth=1.8, linestyle=style, label=label)
    for name, value in window.final.items():
        colour = _END if window.prices else _LINES[list(window.lines).index(name)]
        ax.plot([window.final_place], [value], "o", color=colour, markerfacecolor="none",
                markersize=7, label="final observation")  # fmt: skip


def _legend(ax: Axes) -> None:
    handles, labels = ax.get_legend_handles_labels()
    # One entry for each meaning: an end or a final observation may be drawn several times.
    once = dict(zip(reversed(labels), reversed(handles), strict=True))
    if once:
        ordered = dict(reversed(once.items()))
        legend = ax.legend(ordered.values(), ordered.keys(), fontsize="small", framealpha=0.75)
        legend.set_zorder(5)


def _signed(place: float, _position: int | None) -> str:
    return f"{place:+.0f}".replace("-", "\N{MINUS SIGN}") if place else "0"
