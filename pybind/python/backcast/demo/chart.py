"""Chart of the demo: rates and fill over time, equity on test days, one window as candles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.dates as mdates
import numpy as np
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patheffects import withStroke
from matplotlib.ticker import EngFormatter, PercentFormatter

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from backcast.demo.progress import Frame

_INK = "#22303c"
_FAINT = "#8a97a3"
_ACTORS = ("#16697a", "#489fb5", "#82c0cc", "#b9dde3")
_ACCENT = "#e07a2f"
_POLICY = {"learned": _ACCENT, "buy and hold": "#16697a", "random": "#9aa5ae"}
_HALO = [withStroke(linewidth=3, foreground="white")]
_UP, _DOWN = "#2a9d6f", "#c8553d"


@dataclass(frozen=True)
class Candles:
    """One sampled window: prices ``[H + 1 + F, 4]``; the day itself shows only its open."""

    ticker: str
    dates: list[str]
    prices: NDArray[np.float64]
    history: int
    predicted_close: float


@dataclass(frozen=True)
class Picture:
    """Everything the chart shows; without dates, equity is drawn over steps."""

    frames: Sequence[Frame]
    kills_s: Sequence[float]
    test_dates: Sequence[str] | None
    equity: dict[str, list[float]]
    note: str
    candles: Candles | None
    episode: NDArray[np.uint8] | None = None


def save(picture: Picture, path: Path) -> None:
    """Draw the picture as PNG."""
    with mpl.rc_context(
        {
            "font.size": 9,
            "axes.edgecolor": _FAINT,
            "axes.labelcolor": _INK,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.titlelocation": "left",
            "axes.titlesize": 10.5,
            "axes.titleweight": "bold",
            "xtick.color": _FAINT,
            "ytick.color": _FAINT,
            "text.color": _INK,
            "axes.titlecolor": _INK,
            "legend.frameon": False,
        }
    ):
        layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12)
        figure = Figure(figsize=(12, 8.4), dpi=130, layout=layout)
        rows = figure.add_gridspec(2, 2, height_ratios=(1, 1.15), width_ratios=(1.1, 1))
        _rates(figure.add_subplot(rows[0, 0]), picture)
        _fill(figure.add_subplot(rows[0, 1]), picture)
        _equity(figure.add_subplot(rows[1, 0]), picture)
        corner = figure.add_subplot(rows[1, 1])
        if picture.episode is None:
            _candles(corner, picture.candles)
        else:
            _episode(corner, picture.episode)
        figure.savefig(path)


def _rates(axes: Axes, picture: Picture) -> None:
    seconds = [frame.elapsed_s for frame in picture.frames]
    names = [actor.name for actor in picture.frames[-1].actors] if picture.frames else []
    rates = np.array(
        [[actor.rows_per_s for actor in frame.actors] for frame in picture.frames]
    ).reshape(len(seconds), -1)
    colours = [_ACTORS[i % len(_ACTORS)] for i in range(len(names))]
    axes.stackplot(seconds, rates.T, colors=colours, linewidth=0.6, edgecolor="white")
    axes.set_title("Rows appended per second, by actor")
    axes.set_xlabel("seconds")
    axes.yaxis.set_major_formatter(EngFormatter(sep=" "))
    axes.set_ylim(bottom=0, top=1.18 * max(1.0, float(rates.sum(axis=1).max(initial=0.0))))
    axes.margins(x=0)
    if len(names) <= 8:
        handles = axes.collections[::-1]
        axes.legend(handles, names[::-1], loc="lower right", fontsize=8, labelcolor=_INK,
                    frameon=True, framealpha=0.85, edgecolor="none")  # fmt: skip
    for moment in picture.kills_s:
        axes.axvline(moment, color=_DOWN, linewidth=1.2, linestyle=(0, (3, 2)))
        axes.annotate("SIGKILL", (moment, 0.97), xycoords=("data", "axes fraction"),
                      xytext=(4, 0), textcoords="offset points", va="top", color=_DOWN,
                      fontsize=8)  # fmt: skip


def _fill(axes: Axes, picture: Picture) -> None:
    seconds = [frame.elapsed_s for frame in picture.frames]
    fill = [frame.fill for frame in picture.frames]
    axes.fill_between(seconds, fill, color="#dbe7ea")
    axes.plot(seconds, fill, color=_ACTORS[0], linewidth=1.4)
    axes.set_ylim(0, 1.08)
    axes.margins(x=0)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set_title("Fill of the ring, and the learner's batches per second")
    axes.set_xlabel("seconds")
    axes.set_ylabel("fill", color=_ACTORS[0])
    other = axes.twinx()
    other.spines["right"].set_visible(True)
    other.margins(x=0)
    batches = [frame.batches_per_s for frame in picture.frames]
    other.plot(seconds, batches, color=_ACCENT, linewidth=1.4)
    other.set_ylim(bottom=0, top=1.25 * max([1.0, *batches]))
    other.set_ylabel("batches of 256 per second", color=_ACCENT)


def _equity(axes: Axes, picture: Picture) -> None:
    for name, values in picture.equity.items():
        places: Any = np.arange(len(values))
        if picture.test_dates is not None:
            places = np.array(picture.test_dates[: len(values)], "datetime64[D]")
        gain = np.asarray(values) / values[0] - 1.0
        colour = _POLICY[name]
        axes.plot(places, gain, color=colour, linewidth=1.5, label=f"{name} {gain[-1]:+.1%}")
    axes.axhline(0.0, color=_FAINT, linewidth=0.8)
    if picture.test_dates is None:
        axes.set_title("Account value in test episodes, mean by step")
    else:
        axes.xaxis_date()
        locator = mdates.AutoDateLocator(maxticks=8)  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_locator(locator)
        formatter = mdates.ConciseDateFormatter(locator)  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_formatter(formatter)
        axes.set_title("Account value on held-out days")
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.margins(x=0.01)
    upper = picture.test_dates is not None
    axes.legend(loc="upper left" if upper else "lower left", fontsize=9, labelcolor="linecolor")
    axes.set_xlabel(picture.note, fontsize=8, color=_FAINT)


def _episode(axes: Axes, episode: NDArray[np.uint8]) -> None:
    axes.imshow(episode)
    axes.set_axis_off()
    axes.set_title("A test episode of the learned policy")


def _candles(axes: Axes, candles: Candles | None) -> None:
    if candles is None:
        axes.set_axis_off()
        return
    places = np.arange(len(candles.prices)) - candles.history
    for place, (open_, high, low, close) in zip(places, candles.prices, strict=True):
        if place == 0:
            continue
        colour = _UP if close >= open_ else _DOWN
        alpha = 1.0 if place < 0 else 0.45
        axes.vlines(place, low, high, color=colour, linewidth=1.0, alpha=alpha)
        body = max(abs(close - open_), 0.002 * (high - low) + 1e-9)
        axes.bar(place, body, 0.64, min(open_, close), color=colour, alpha=alpha, linewidth=0)
    today = candles.prices[candles.history, 0]
    axes.axvspan(0.5, places[-1] + 0.5, color="#f4efe6", zorder=-2)
    axes.plot([0], [today], "D", color=_INK, markersize=5)
    axes.annotate("open", (0, today), xytext=(0, -15), textcoords="offset points", ha="center",
                  fontsize=8, color=_INK, path_effects=_HALO)  # fmt: skip
    axes.plot([0, places[-1]], [today, candles.predicted_close], color=_ACCENT, linewidth=1.2,
              linestyle=(0, (4, 2)))  # fmt: skip
    axes.plot([places[-1]], [candles.predicted_close], "o", color=_ACCENT, markersize=5)
    axes.set_ylim(*_room_above(axes.get_ylim()))
    top: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "va": "top", "fontsize": 8}
    axes.annotate(
        f"{candles.history} days of history", (places[0] - 0.4, 0.99), color=_FAINT, **top
    )
    axes.annotate(f"{places[-1]} of future", (0.7, 0.99), color=_FAINT, **top)
    axes.annotate("predicted", (places[-1], candles.predicted_close), xytext=(9, 0),
                  textcoords="offset points", va="center", fontsize=8, color=_ACCENT)  # fmt: skip
    axes.set_xlim(places[0] - 0.8, places[-1] + 4.2)
    shown = [0, candles.history, len(places) - 1]
    axes.set_xticks(places[shown], [candles.dates[i][0 if i == 0 else 5 :] for i in shown])
    axes.set_ylabel("adjusted price")
    axes.set_title(f"One sampled row's window: {candles.ticker}")


def _room_above(limits: tuple[float, float]) -> tuple[float, float]:
    low, high = limits
    return low - 0.06 * (high - low), high + 0.1 * (high - low)
