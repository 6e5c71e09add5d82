"""Draws the histograms of a sampler's statistics; imported when a picture is drawn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BAR, _EMPTY = "#0072B2", "#808080"


def draw(stats: Mapping[str, Any], axes: Sequence[Axes] | None) -> list[Axes]:
    """Draw four panels and return their axes."""
    if axes is None:
        figure = Figure(figsize=(9.0, 6.0), layout="constrained")
        axes = list(figure.subplots(2, 2).flat)
    ages, priorities, times, effective = axes
    _bars(ages, "age at the draw, newer rows", *_labelled(_ages(stats), whole=True))
    found = stats.get("priorities")
    histogram = [] if found is None else found["histogram"]
    _bars(priorities, "(priority + eps) ** alpha", *_labelled(histogram, whole=False))
    counted = stats.get("times_sampled") or []
    labels = [str(entry["times"]) for entry in counted]
    _bars(times, "times sampled", labels, [entry["rows"] for entry in counted])
    numbers = {} if found is None else {"all": found["rows"], "effective": found["effective_rows"]}
    _bars(effective, "rows with a priority", list(numbers), list(numbers.values()))
    return [ages, priorities, times, effective]


def _ages(stats: Mapping[str, Any]) -> list[dict[str, int]]:
    """Return the ages of a sampler or reader, or the sums over all readers of a ring."""
    rows: Counter[int] = Counter()
    for entry in stats.get("readers", [stats]):
        rows.update({found["from"]: found["rows"] for found in entry["ages"]})
    return [{"from": first, "rows": rows[first]} for first in sorted(rows)]


def _labelled(bins: Sequence[Mapping[str, Any]], *, whole: bool) -> tuple[list[str], list[int]]:
    """Return the labels and the counts of bins.

    A bin of whole numbers is labelled by its range, another one by its smallest value.
    """
    labels = []
    for entry in bins:
        first = entry["from"]
        if not whole:
            labels.append(f"{first:.3g}")
        else:
            last = max(2 * first - 1, 0)
            labels.append(f"{first}" if last <= first else f"{first}-{last}")
    return labels, [entry["rows"] for entry in bins]


def _bars(ax: Axes, label: str, names: Sequence[str], counts: Sequence[float]) -> None:
    ax.set_xlabel(label)
    ax.set_ylabel("transitions")
    if not counts:
        ax.text(0.5, 0.5, "not counted", ha="center", va="center", color=_EMPTY)
        ax.set_xticks([])
        ax.set_yticks([])
        return
    ax.bar(range(len(counts)), counts, width=0.85, color=_BAR)
    every = max(1, len(names) // 8)
    ax.set_xticks(range(0, len(names), every), names[::every])
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))
