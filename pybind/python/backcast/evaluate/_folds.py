"""Divides the days of a panel into days for training and days for testing."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple, TypeAlias

from backcast import Panel
from backcast._calls import explained
from backcast._counts import count_of
from backcast._market import Days, Edge, check_panel, day_range, edge_of
from backcast.errors import ArgumentError

Range: TypeAlias = tuple[int, int]


class Fold(NamedTuple):
    """Days for training and for testing, as half-open positions that environments take.

    Attributes
    ----------
    train : tuple of (int, int)
        Ranges to train on: one before the test, and for :func:`k_fold` perhaps one behind it.
    test : (int, int)
        Range to test on.
    """

    train: tuple[Range, ...]
    test: Range


@explained
def split(panel: Panel, *dates: Edge, purge: int = 0) -> list[Range]:
    """Divide a panel at dates: ``train, test = split(panel, "2020-01-01")``.

    Parameters
    ----------
    panel : Panel
        Panel whose days are divided.
    *dates : date, str or int
        First days of all parts but the first, in order; positions or dates.
    purge : int, default 0
        Bars left out at the end of every part but the last: as many as a label reaches ahead.

    Returns
    -------
    list of (int, int)
        Half-open positions, one more than dates.

    Raises
    ------
    ArgumentError
        If a part is empty, or a position is not the panel's.
    """
    check_panel(panel)
    purge = count_of(purge, "purge", 0, ArgumentError)
    edges = [0, *(edge_of(panel, date, "dates") for date in dates), panel.n_days]
    last = len(edges) - 2
    parts = [(edges[at], edges[at + 1] - purge * (at < last)) for at in range(len(edges) - 1)]
    for start, stop in parts:
        if start >= stop:
            raise ArgumentError(
                f"dates {dates} and purge={purge} leave a part from {start} to {stop} of the "
                f"{panel.n_days} days; give dates in order, with more than {purge} bars between"
            )
    return parts


@explained
def walk_forward(
    panel: Panel,
    *,
    train: int,
    test: int,
    anchored: bool = False,
    purge: int = 0,
    days: Days = (None, None),
) -> list[Fold]:
    """Return folds that train on the past and test on what follows.

    Tests are neighbours: each begins where the one before ends. Bars at the end that fill no test
    are left out. There is no embargo, since no training bar is behind the test of its fold.

    Parameters
    ----------
    panel : Panel
        Panel whose days are divided.
    train, test : int
        Bars of a training and of a test range.
    anchored : bool, default False
        Train from the first day on in every fold, on more and more bars. Otherwise the training
        range moves with the test.
    purge : int, default 0
        Bars left out between training and test: as many as a label reaches ahead, such as
        `n_step` or `future`. They are taken from the end of the training range.
    days : tuple, optional
        Days to use, as environments take them.

    Returns
    -------
    list of Fold
        At least one.

    Raises
    ------
    ArgumentError
        If a number is out of range, or the days are too few for a fold.
    """
    start, stop = day_range(check_panel(panel), days)
    train, test = (
        count_of(given, what, 1, ArgumentError)
        for given, what in ((train, "train"), (test, "test"))
    )
    purge = count_of(purge, "purge", 0, ArgumentError)
    if purge >= train:
        raise ArgumentError(f"purge is {purge}, which leaves none of {train} bars of training")
    if start + train + test > stop:
        raise ArgumentError(
            f"train={train} and test={test} need {train + test} bars, and days {start} to {stop} "
            f"are {stop - start}; give fewer"
        )
    return [
        Fold(((start if anchored else at - train, at - purge),), (at, at + test))
        for at in range(start + train, stop - test + 1, test)
    ]


@explained
def k_fold(
    panel: Panel,
    k: int,
    *,
    purge: int = 0,
    embargo: int = 0,
    days: Days = (None, None),
) -> list[Fold]:
    """Return folds whose tests are ``k`` neighbouring ranges, and that train on the rest.

    Lopez de Prado, "Advances in Financial Machine Learning" (2018), sections 7.4.1 and 7.4.2. A
    label of bar i is known at bar ``i + purge``. A training bar is purged if its label overlaps
    those of test bars, ends included: `purge` bars before the test, and `purge` bars behind it.
    Behind these, `embargo` bars are left out, since they still depend on the test.

    Parameters
    ----------
    panel : Panel
        Panel whose days are divided.
    k : int
        Folds, at least 2.
    purge : int, default 0
        Bars by which a label reaches ahead.
    embargo : int, default 0
        Further bars left out behind a test.
    days : tuple, optional
        Days to use, as environments take them.

    Returns
    -------
    list of Fold
        ``k`` folds. Tests differ by one bar at most.

    Raises
    ------
    ArgumentError
        If a number is out of range, or a fold has no test or training bars.
    """
    start, stop = day_range(check_panel(panel), days)
    k = count_of(k, "k", 2, ArgumentError)
    purge = count_of(purge, "purge", 0, ArgumentError)
    embargo = count_of(embargo, "embargo", 0, ArgumentError)
    if k > stop - start:
        raise ArgumentError(f"k is {k}, but days {start} to {stop} are {stop - start}; give fewer")
    edges = [start + (stop - start) * at // k for at in range(k + 1)]
    folds = []
    for first, end in pairwise(edges):
        around = ((start, first - purge), (end + purge + embargo, stop))
        train = tuple(part for part in around if part[0] < part[1])
        if not train:
            raise ArgumentError(
                f"purge={purge} and embargo={embargo} leave no training bars beside the test "
                f"{first} to {end} of days {start} to {stop}; give less"
            )
        folds.append(Fold(train, (first, end)))
    return folds
