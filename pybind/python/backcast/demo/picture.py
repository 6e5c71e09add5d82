"""Picture of a run: what was learned, a window that was drawn, an episode of the test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from backcast import plot
from backcast.demo.market import MINUTES, TEST_EPISODES, episode_picture

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

    from backcast.demo.report import Test
    from backcast.demo.run import Run

# Palette of Okabe and Ito, as in `backcast.plot`.
_LEARNED, _HOLDING, _TRAINING, _GREY = "#0072B2", "#D55E00", "#009E73", "#808080"


def save(run: Run, test: Test, seed: int, path: Path) -> None:
    """Draw the picture as PNG."""
    figure = Figure(figsize=(12, 8.4), dpi=120, layout="constrained")
    axes = figure.subplots(2, 2)
    _learning(axes[0, 0], run, test)
    _equity(axes[0, 1], test)
    whole = run.windows.mask.all(axis=1) & run.windows.future_mask.all(axis=1)
    shown = {f"obs[{run.features.index(name)}]": name for name in ("value_gap", "position")}
    plot.window(run.windows, int(whole.argmax()), columns=list(shown), ax=axes[1, 0])
    named = ", ".join(f"{column} {name}" for column, name in shown.items())
    axes[1, 0].set_title(f"A drawn window: {named}", loc="left", pad=18)
    axes[1, 1].imshow(episode_picture(run.policies[-1][1].best, seed))
    axes[1, 1].set_title("The first test episode, as learned", loc="left")
    axes[1, 1].set_axis_off()
    figure.savefig(path)


def _learning(ax: Axes, run: Run, test: Test) -> None:
    """Draw the mean return of an episode over the time that the policy had learned."""
    _frame(ax, f"Return of an episode of {MINUTES} minutes", "seconds of training")
    # None, before the first episode has ended, is not drawn.
    seconds, returns = np.array(run.returns, float).reshape(-1, 2).T
    ax.plot(seconds, returns / 100, color=_TRAINING, linewidth=1,
            label="training: last 100 episodes, exploring")  # fmt: skip
    means, errors = np.array([exam.above() for _, exam in test.learning]).T
    ax.errorbar([after_s for after_s, _ in test.learning], means, 2 * errors, color=_LEARNED,
                marker="o", capsize=3,
                label=f"{TEST_EPISODES} unseen episodes, 2 standard errors")  # fmt: skip
    ax.axhline(test.holding.above()[0], color=_HOLDING, linestyle="--", label="holding")
    if run.death is not None:
        ax.axvline(run.death.at_s, color=_GREY, linestyle=":", label="SIGKILL of an actor")
    ax.legend(fontsize="small", loc="lower right")


def _equity(ax: Axes, test: Test) -> None:
    """Draw the mean gain in the test episodes by step, with the quartiles."""
    _frame(ax, f"Gain in {TEST_EPISODES} unseen episodes: mean, quartiles", "steps of 10 seconds")
    curves = {"learned": (test.learned, _LEARNED), "holding": (test.holding, _HOLDING)}
    curves["before training"] = test.before, _GREY
    for name, (exam, colour) in curves.items():
        gains = exam.gains
        low, high = np.quantile(gains, (0.25, 0.75), axis=1)
        ax.fill_between(np.arange(len(gains)), low, high, color=colour, alpha=0.15, linewidth=0)
        mean = gains.mean(axis=1)
        ax.plot(mean, color=colour, linewidth=1.5, label=f"{name} {mean[-1]:+.2%}")
    ax.margins(x=0)
    ax.legend(fontsize="small", loc="upper left")


def _frame(ax: Axes, title: str, below: str) -> None:
    ax.set_title(title, loc="left")
    ax.set_xlabel(below)
    ax.spines[["top", "right"]].set_visible(False)
    ax.yaxis.set_major_formatter(PercentFormatter(1.0))
