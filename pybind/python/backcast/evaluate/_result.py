"""Results of an evaluation: a table, verdicts and a picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from backcast._calls import explained
from backcast.errors import ArgumentTypeError, MissingExtraError
from backcast.evaluate._folds import Range
from backcast.evaluate._statistics import LEAST_RETURNS, Interval, growth

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Verdict: TypeAlias = Literal["better", "worse", "not distinguishable"]


@dataclass(frozen=True, eq=False)
class Score:
    """Numbers of a policy or a baseline over all tests.

    Parameters
    ----------
    returns : ndarray of float64
        Simple returns from close to close, over all tests, ``[runs, bars]``. They are 0 after a
        bar on which a run lost all it had, or more on a margin, in the tests that follow as well.
    total_return : Interval
        Return over all tests together, and its interval.
    sharpe : Interval
        Annualised Sharpe ratio, and its interval.
    max_drawdown : float
        Largest fall from an earlier peak, as a fraction of it; the mean over runs.
    turnover : float
        Value traded over the first value of a test, summed over tests up to that of a ruin; the
        mean over runs.
    costs : float
        Costs of all kinds in cash, summed over the same tests; the mean over runs.
    deflated : float or None
        Deflated Sharpe ratio, where several policies were tried; NaN with fewer than 30 returns,
        None for baselines.
    """

    returns: NDArray[np.float64]
    total_return: Interval
    sharpe: Interval
    max_drawdown: float
    turnover: float
    costs: float
    deflated: float | None = None

    @property
    def ruined(self) -> int:
        """Number of runs that lost all they had, or more."""
        return int((self.returns <= -1).any(axis=1).sum())


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Scores of policies and baselines; ``print`` shows the table.

    Attributes
    ----------
    policies, baselines : dict of str to Score
        Scores by name.
    tests : list of (int, int)
        Days of the tests, half open, in order.
    dates : list of str
        Dates of the returns: each is the return up to the close of its date.
    bars_per_year : float
        What ratios are annualised by.
    seeds : list of int
        Seeds of the runs.
    resamples, mean_block, seed, level : int, float, int, float
        Settings of the bootstrap.
    trials : int
        Number of policies that were tried.
    """

    policies: dict[str, Score]
    baselines: dict[str, Score]
    tests: list[Range]
    dates: list[str]
    bars_per_year: float
    seeds: list[int]
    resamples: int
    mean_block: float
    seed: int
    level: float
    trials: int

    def verdict(
        self, policy: str, baseline: str, of: Literal["sharpe", "total_return"] = "sharpe"
    ) -> Verdict:
        """Return how a policy compares with a baseline.

        Intervals that overlap are not distinguishable, nor are tests with fewer than 30 returns,
        which have no intervals. Neither is a better Sharpe ratio of a policy whose deflated one is
        below the level: the best of many trials is good by luck.

        Parameters
        ----------
        policy, baseline : str
            Names.
        of : {"sharpe", "total_return"}
            What to compare.

        Returns
        -------
        str
            ``"better"``, ``"worse"`` or ``"not distinguishable"``.
        """
        one, other = self.policies[policy], self.baselines[baseline]
        ours: Interval = getattr(one, of)
        theirs: Interval = getattr(other, of)
        # NaN, with too few returns, is no evidence either.
        lucky = one.deflated is not None and not one.deflated >= self.level
        if ours.low > theirs.high and not lucky:
            return "better"
        return "worse" if ours.high < theirs.low else "not distinguishable"

    def __repr__(self) -> str:
        """Show the table."""
        return str(self)

    def __str__(self) -> str:
        """Show the table, the verdicts and the settings."""
        many = self.trials > 1
        head = ["", "return", "Sharpe", "drawdown", "turnover", "costs"]
        head += ["deflated"] if many else []
        rows = [head]
        for name, score in (self.policies | self.baselines).items():
            row = [
                name,
                score.total_return.shown(".1%"),
                str(score.sharpe),
                f"{score.max_drawdown:.1%}",
                f"{score.turnover:.1f}",
                f"{score.costs:,.0f}",
            ]
            if many:
                row.append("" if score.deflated is None else _deflated(score.deflated))
            rows.append(row)
        lines = _aligned(rows)
        lines.append("")
        for policy in self.policies:
            for baseline in self.baselines:
                sharpe, total = (
                    self.verdict(policy, baseline, "sharpe"),
                    self.verdict(policy, baseline, "total_return"),
                )
                lines.append(f"{policy} against {baseline}: Sharpe {sharpe}, return {total}")
        lines += self._ruins()
        lines.append("")
        lines.append(self._settings())
        return "\n".join(lines)

    def _ruins(self) -> list[str]:
        """Return a line for each score with a run that lost all it had."""
        lines = []
        for name, score in (self.policies | self.baselines).items():
            if score.ruined:
                first = int((score.returns <= -1).any(axis=0).argmax())
                runs = f" in {score.ruined} of {len(score.returns)} runs" * (len(self.seeds) > 1)
                lines.append(
                    f"{name} is ruined{runs}, first on {self.dates[first]}: nothing is left after "
                    "such a bar"
                )
        return lines

    def _settings(self) -> str:
        first, last = self.dates[0], self.dates[-1]
        few = ""
        if len(self.dates) < LEAST_RETURNS:
            few = (
                f"\n{len(self.dates)} returns are too few for intervals and deflated ratios, which "
                f"need {LEAST_RETURNS}"
            )
        return (
            f"{len(self.tests)} test{_s(self.tests)} of {len(self.dates)} returns, {first} to "
            f"{last}; run seed{_s(self.seeds)} {', '.join(map(str, self.seeds))}\n"
            f"{self.level:.0%} intervals of {self.resamples} resamples in blocks of "
            f"{self.mean_block:g} bars on average, seed {self.seed}; "
            f"{self.trials} polic{'y' if self.trials == 1 else 'ies'} tried{few}"
        )

    @explained
    def plot(self, axes: Sequence[Axes] | None = None) -> list[Axes]:
        """Draw growth over the tests, and Sharpe ratios with their intervals.

        Parameters
        ----------
        axes : sequence of two matplotlib Axes, optional
            Axes for growth and for ratios; those of a new figure when left out, which is
            ``axes[0].figure`` and not registered with pyplot.

        Returns
        -------
        list of Axes
            The two axes.

        Raises
        ------
        ArgumentTypeError
            If ``axes`` are not two.
        MissingExtraError
            If matplotlib is not installed.
        """
        if axes is not None and (len(axes) != 2 or not all(hasattr(ax, "plot") for ax in axes)):
            raise ArgumentTypeError(
                f"axes has {len(axes)} elements; give two axes of matplotlib, or leave it out"
            )
        try:
            from backcast.evaluate._draw import draw
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] != "matplotlib":
                raise
            raise MissingExtraError(
                "evaluations are drawn with matplotlib, which is not installed; "
                "run `pip install 'backcast[plot]'`"
            ) from error
        return draw(self, axes)


def curve(score: Score) -> NDArray[np.float64]:
    """Return the growth of one unit, ``[bars + 1]``: the mean over runs."""
    grown = growth(score.returns).mean(axis=0)
    with_start: NDArray[np.float64] = np.concatenate([[1.0], grown])
    return with_start


def _deflated(ratio: float) -> str:
    return "none" if math.isnan(ratio) else f"{ratio:.3f}"


def _s(of: Sequence[Any]) -> str:
    return "" if len(of) == 1 else "s"


def _aligned(rows: list[list[str]]) -> list[str]:
    """Return rows of a table: names to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if at else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
