"""Draws evaluations; imported when a picture is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from backcast.evaluate._result import curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from backcast.evaluate._result import Evaluation

# Palette of Okabe and Ito, distinguishable with every common kind of colour blindness.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
_NEUTRAL = "#808080"
_DASHES = ("-", "--", "-.", ":")


def draw(result: Evaluation, axes: Sequence[Axes] | None) -> list[Axes]:
    """Draw both parts and return their axes."""
    if axes is None:
        figure = Figure(figsize=(9.0, 4.0), layout="constrained")
        axes = list(figure.subplots(1, 2, width_ratios=[3, 2]))
    growth, ratios = axes
    scores = result.policies | result.baselines
    for at, (name, score) in enumerate(scores.items()):
        ours = name in result.policies
        colour = _COLOURS[at % len(_COLOURS)] if ours else _NEUTRAL
        style = "-" if ours else _DASHES[(at - len(result.policies)) % len(_DASHES)]
        line = curve(score)
        growth.plot(
            np.arange(len(line)), line, style, color=colour, label=name,
            linewidth=1.5 if ours else 0.9,
        )  # fmt: skip
        value, low, high = score.sharpe
        # The percentiles of resamples need not lie around the value.
        below, above = np.maximum([value - low, high - value], 0)
        ratios.errorbar(
            value, at, xerr=[[below], [above]], fmt="o" if ours else "s", color=colour, capsize=3
        )
    behind = 0
    for start, stop in result.tests[:-1]:
        behind += stop - start - 1
        growth.axvline(behind, color=_NEUTRAL, linewidth=0.5, alpha=0.5)
    growth.set_xlabel(f"bars of tests, {result.dates[0]} to {result.dates[-1]}")
    growth.set_ylabel("growth of 1")
    growth.legend(fontsize="small", frameon=False)
    ratios.set_yticks(range(len(scores)), list(scores))
    ratios.invert_yaxis()
    ratios.set_xlabel(f"Sharpe ratio, {result.level:.0%} interval")
    return [growth, ratios]
