"""Evaluates policies on the tests of folds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from types import NoneType
from typing import Any, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from backcast import Panel
from backcast._calls import explained
from backcast._counts import count_of, number_of
from backcast._market import Days, check_panel, day_range
from backcast.envs import PortfolioSettings
from backcast.errors import ArgumentError, ArgumentTypeError
from backcast.evaluate._baselines import BASELINES, Baseline
from backcast.evaluate._folds import Fold, Range
from backcast.evaluate._play import Played, Policy, play_baseline, play_policy
from backcast.evaluate._result import Evaluation, Score
from backcast.evaluate._statistics import (
    LEAST_RETURNS,
    Resampled,
    deflated_sharpe_ratio,
    growth,
    ratios,
    until_ruin,
)

Floats = NDArray[np.float64]
Many = Mapping[str, Policy | Sequence[Policy]]

# Settings that an evaluation decides itself, with the reason.
_OURS = {
    "autoreset_mode": "every test is one episode",
    "copy": "observations are new arrays",
    "days": "give the days as folds",
    "max_episode_steps": "every test is one episode",
    "num_envs": "give the number of runs as runs=",
    "panel_options": "give an open panel",
    "record": "every step is recorded",
    "render_mode": "draw with the result's plot()",
}
# Settings with which an agent knows prices before it trades at them.
_AHEAD: dict[str, tuple[Any, str]] = {
    "indicator_lag": (
        0,
        "shows indicators of the close at which orders are filled; give 1 or more",
    ),
    "valuation": ("close", 'shows the value at the close of the day; give "open"'),
    "stop_loss_day": ("next", 'shows sales at a close to come; give "same"'),
}


@explained
def evaluate(
    policy: Policy | Sequence[Policy] | Many,
    panel: Panel,
    folds: Sequence[Fold | Days],
    *,
    baselines: Sequence[Baseline] = BASELINES,
    tried: Sequence[float] = (),
    runs: int = 1,
    resamples: int = 2000,
    mean_block: float | None = None,
    level: float = 0.95,
    seed: int = 0,
    **settings: Any,  # noqa: ANN401 - those of the environment, which checks them
) -> Evaluation:
    """Run policies over the tests of folds, and compare them with baselines at the same costs.

    Every test is one episode of a :class:`backcast.envs.PortfolioVectorEnv` that begins on the
    first day of the test and ends on the last. Baselines trade in the same environment. Returns of
    all tests are joined in order.

    Parameters
    ----------
    policy : function, model, sequence or mapping
        A function from a batch of observations, with a leading axis of runs, to actions; or a model
        with ``predict`` as Stable-Baselines3 has it, asked for actions without noise. A sequence
        has one for each fold, trained on ``fold.train``. A mapping has several by name, with which
        the table shows deflated Sharpe ratios.
    panel : Panel
        The market.
    folds : sequence of Fold or (start, stop)
        Folds, or ranges of days to test on as environments take them.
    baselines : sequence of Baseline, optional
        What to compare with: by default buying and holding, equal weights, momentum and minimum
        variance. ``()`` is none.
    tried : sequence of float, optional
        Annualised Sharpe ratios on these tests of everything else that was tried, such as other
        settings. Leaving them out makes luck look like skill.
    runs : int, default 1
        Portfolios with the seeds ``seed``, ``seed + 1`` and so on, which differ where prices are
        drawn or the policy draws.
    resamples : int, default 2000
        Resamples of the bootstrap.
    mean_block : float, optional
        Mean length of its blocks in bars; the cube root of the number of returns when left out.
    level : float, default 0.95
        Level of the intervals.
    seed : int, default 0
        Seed of the first run and of the bootstrap.
    **settings : object
        Settings of the environment: ``obs=`` and those of
        :class:`backcast.envs.PortfolioSettings`. `failure_threshold` is 0 unless it is given; a
        portfolio that fails keeps its last value. One that is ruined, which only a margin allows,
        has nothing left for the tests that follow.

    Returns
    -------
    Evaluation
        Scores with intervals; its text is a table.

    Raises
    ------
    ArgumentError
        If tests overlap each other or the training days of their fold, a setting is look-ahead,
        decided here or None without a meaning, or a number is out of range. An
        ``ArgumentTypeError`` if an argument is of another type.
    EnvError
        If the environment refuses a setting or an action.

    Notes
    -----
    Intervals are percentiles of the stationary bootstrap (Politis & Romano 1994), which resamples
    the same bars for all. A total return is that of the resampled bars in a row. A difference is
    called skill only where intervals do not overlap. Fewer than 30 returns have no intervals and no
    deflated ratios: they are NaN. Intervals say nothing of other markets or
    times than those of the tests, or of a training with other seeds. Steps a portfolio once for
    each bar and run, and computes in ``O(resamples bars runs)``.

    Examples
    --------
    >>> train, test = split(panel, "2020-01-01")  # doctest: +SKIP
    >>> print(evaluate(model, panel, [test], buy_cost_pct=0.001))  # doctest: +SKIP
    """
    check_panel(panel)
    tests = _tests(panel, folds)
    _check_settings(settings)
    runs = count_of(runs, "runs", 1, ArgumentError)
    seed = count_of(seed, "seed", 0, ArgumentError)
    resamples = count_of(resamples, "resamples", 1, ArgumentError)
    level = number_of(level, "level", "a number between 0 and 1")
    if not 0 < level < 1:
        raise ArgumentError(f"level is {level}; give a number between 0 and 1, such as 0.95")
    bars = sum(stop - start - 1 for start, stop in tests)
    block = round(bars ** (1 / 3)) if mean_block is None else mean_block
    block = number_of(block, "mean_block", "a number of bars from 1 up")
    if not 1 <= block <= bars:
        raise ArgumentError(f"mean_block is {block}; give a number of bars from 1 to {bars}")
    policies = _policies(policy, len(tests))
    others = _tried(tried)
    _check_baselines(baselines, policies)
    seeds = [seed + run for run in range(runs)]
    order = sorted(range(len(tests)), key=tests.__getitem__)
    ours = {"failure_threshold": 0.0} | settings
    scored = Resampled(bars, resamples, float(block), seed, level)
    year = panel.bars_per_year

    of_policies = {
        name: _score(
            [play_policy(each[at], panel, tests[at], seeds, ours) for at in order], scored, year
        )
        for name, each in policies.items()
    }
    of_baselines = {
        one.name: _score(
            [play_baseline(one, panel, tests[at], seeds, ours) for at in order], scored, year
        )
        for one in baselines
    }
    trials = len(of_policies) + len(others)
    if trials > 1:
        of_policies = _deflated(of_policies, others / np.sqrt(year))
    dates = panel.dates
    return Evaluation(
        of_policies,
        of_baselines,
        [tests[at] for at in order],
        [dates[day] for at in order for day in range(tests[at][0] + 1, tests[at][1])],
        year,
        seeds,
        resamples,
        float(block),
        seed,
        level,
        trials,
    )


def _score(played: list[Played], scored: Resampled, bars_per_year: float) -> Score:
    of_tests = [_returns(one.values) for one in played]
    returns = until_ruin(np.concatenate(of_tests, axis=1))
    total, sharpe = scored.intervals(returns, bars_per_year)
    if scored.n < LEAST_RETURNS:
        total, sharpe = (one._replace(low=math.nan, high=math.nan) for one in (total, sharpe))
    grown = np.pad(growth(returns), ((0, 0), (1, 0)), constant_values=1.0)
    fallen = 1 - grown / np.maximum.accumulate(grown, axis=1)
    turnover, costs = np.zeros(len(returns)), np.zeros(len(returns))
    # A ruined run does not trade in the tests that follow.
    solvent = np.ones(len(returns), np.bool_)
    for one, of_test in zip(played, of_tests, strict=True):
        turnover += np.where(solvent, one.turnover, 0.0)
        costs += np.where(solvent, one.costs, 0.0)
        solvent &= (of_test > -1).all(axis=1)
    return Score(
        returns,
        total,
        sharpe,
        float(fallen.max(axis=1).mean()),
        float(turnover.mean()),
        float(costs.mean()),
    )


def _returns(values: Floats) -> Floats:
    """Return simple returns, ``[runs, days - 1]``; 0 where nothing is left to earn with."""
    before = values[:, :-1]
    returns: Floats = np.zeros(before.shape)
    np.divide(np.diff(values, axis=1), before, out=returns, where=before > 0)
    return returns


def _deflated(scores: dict[str, Score], others: Floats) -> dict[str, Score]:
    """Return scores with deflated Sharpe ratios, of the mean returns over runs."""
    means = {name: score.returns.mean(axis=0) for name, score in scores.items()}
    every = np.concatenate([ratios(np.stack([*means.values()])), others])
    return {
        name: replace(score, deflated=_worth(means[name], every)) for name, score in scores.items()
    }


def _worth(returns: Floats, every: Floats) -> float:
    """Return a deflated Sharpe ratio; NaN if there are too few returns for one."""
    if len(returns) < LEAST_RETURNS:
        return math.nan
    # Returns that do not vary, as of a policy that never trades, have no ratio to deflate.
    varies = ratios(returns[None, :])[0] != 0
    return deflated_sharpe_ratio(returns, every) if varies else 0.0


def _tests(panel: Panel, folds: object) -> list[Range]:
    if isinstance(folds, str | tuple | Fold) or not isinstance(folds, Sequence) or not folds:
        raise ArgumentTypeError(
            f"folds is {folds!r:.80}; give a list of folds or of ranges of days, such as "
            '[("2020-01-01", None)]'
        )
    tests = []
    for fold in folds:
        is_fold = isinstance(fold, Fold)
        test = day_range(panel, fold.test if is_fold else fold, "folds")
        for start, stop in fold.train if is_fold else ():
            if start < test[1] and test[0] < stop:
                raise ArgumentError(
                    f"a fold trains on days {start} to {stop} and tests on {test[0]} to {test[1]}; "
                    "give days that do not overlap"
                )
        if test[1] - test[0] < 3:
            raise ArgumentError(
                f"the test on days {test[0]} to {test[1]} has {test[1] - test[0]} bars; give at "
                "least 3, which are two returns"
            )
        tests.append(test)
    ordered = sorted(tests)
    for before, after in pairwise(ordered):
        if after[0] < before[1]:
            raise ArgumentError(
                f"tests on days {before[0]} to {before[1]} and {after[0]} to {after[1]} overlap, "
                "so that returns would count twice; give tests that do not"
            )
    return tests


def _check_settings(settings: Mapping[str, Any]) -> None:
    for name, reason in _OURS.items():
        if name in settings:
            raise ArgumentError(f"evaluate() has no setting {name!r}: {reason}")
    for name, (value, reason) in _AHEAD.items():
        if name in settings and settings[name] == value:
            raise ArgumentError(f"{name} is {value!r}, which {reason}")
    hints = get_type_hints(PortfolioSettings)
    for name, given in settings.items():
        if given is None and name in hints and NoneType not in get_args(hints[name]):
            raise ArgumentError(
                f"{name} is None, which means nothing for this setting; give a value, or leave it "
                "out for its default"
            )


def _policies(policy: Any, tests: int) -> dict[str, list[Policy]]:  # noqa: ANN401
    """Return the policies of each test, by name."""
    named = policy if isinstance(policy, Mapping) else {"policy": policy}
    if not named:
        raise ArgumentError("policy is an empty mapping; give at least one policy")
    found = {}
    for name, one in named.items():
        if not isinstance(name, str):
            raise ArgumentTypeError(f"policy has the key {name!r}; give names as text")
        if not isinstance(one, list | tuple):
            one = [one] * tests
        if len(one) != tests:
            raise ArgumentError(
                f"{name!r} has {len(one)} policies for {tests} folds; give one for each, or one "
                "for all"
            )
        found[name] = list(one)
    return found


def _tried(tried: object) -> Floats:
    wanted = "a list of finite Sharpe ratios, annualised"
    try:
        others = np.asarray(tried, np.float64)
    except (TypeError, ValueError):
        raise ArgumentTypeError(f"tried is {tried!r:.60}; give {wanted}") from None
    if others.ndim != 1 or not np.isfinite(others).all():
        raise ArgumentError(f"tried is {tried!r:.60}; give {wanted}")
    return others


def _check_baselines(baselines: object, policies: Mapping[str, object]) -> None:
    if isinstance(baselines, str) or not isinstance(baselines, Sequence):
        raise ArgumentTypeError(
            f"baselines is {baselines!r:.60}; give a list, such as [BuyAndHold(), EqualWeight()]"
        )
    names = list(policies)
    for one in baselines:
        if isinstance(one, type) or not all(
            hasattr(one, member) for member in ("name", "every", "needs", "weights")
        ):
            raise ArgumentTypeError(
                f"baselines has {one!r:.60}; give objects such as BuyAndHold(), with name, every, "
                "needs and weights"
            )
        if one.name in names:
            raise ArgumentError(f"the name {one.name!r} is taken twice; give each one its own")
        names.append(one.name)
