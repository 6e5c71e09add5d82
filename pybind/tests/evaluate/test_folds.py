"""Folds are plain ranges of positions, without a bar that a label of the test overlaps."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np
import pytest
from backcast.envs import PortfolioEnv
from backcast.errors import ArgumentError, ArgumentTypeError
from backcast.evaluate import Fold, k_fold, split, walk_forward
from evaluate_markets import closes, panel_of
from hypothesis import given
from hypothesis import strategies as st

PANEL = panel_of(closes())


def bad(value: Any) -> Any:  # noqa: ANN401 - an argument of another type
    return value


def bars(*ranges: tuple[int, int]) -> set[int]:
    return {bar for start, stop in ranges for bar in range(start, stop)}


def test_a_panel_is_divided_at_dates() -> None:
    assert split(PANEL) == [(0, 150)]
    assert split(PANEL, "2020-02-01") == [(0, 31), (31, 150)]
    assert split(PANEL, date(2020, 2, 1), np.datetime64("2020-03-01")) == [
        (0, 31), (31, 60), (60, 150)
    ]  # fmt: skip
    assert split(PANEL, 40, 100, purge=5) == [(0, 35), (40, 95), (100, 150)]


def test_folds_walk_forward() -> None:
    assert walk_forward(PANEL, train=60, test=30) == [
        Fold(((0, 60),), (60, 90)),
        Fold(((30, 90),), (90, 120)),
        Fold(((60, 120),), (120, 150)),
    ]
    assert walk_forward(PANEL, train=60, test=40, anchored=True, purge=5, days=(10, None)) == [
        Fold(((10, 65),), (70, 110)),
        Fold(((10, 105),), (110, 150)),
    ]


@given(
    st.integers(2, 12),
    st.integers(0, 20),
    st.integers(0, 20),
    st.integers(0, 30),
    st.integers(60, 150),
)
def test_k_folds_keep_what_no_label_overlaps(
    k: int, purge: int, embargo: int, start: int, stop: int
) -> None:
    try:
        folds = k_fold(PANEL, k, purge=purge, embargo=embargo, days=(start, stop))
    except ArgumentError as error:
        assert "leave no training bars" in str(error)  # noqa: PT017
        return
    tests = [fold.test for fold in folds]
    assert bars(*tests) == set(range(start, stop))
    assert sum(end - first for first, end in tests) == stop - start
    for fold in folds:
        # Section 7.4.1: a label spans the bars from its own to `purge` later, ends included.
        of_tests = {bar + ahead for bar in bars(fold.test) for ahead in range(purge + 1)}
        overlap = {
            bar
            for bar in range(start, stop)
            if of_tests & {bar + ahead for ahead in range(purge + 1)}
        }
        behind = max(overlap)
        embargoed = set(range(behind + 1, behind + 1 + embargo))
        assert bars(*fold.train) == set(range(start, stop)) - overlap - embargoed


@given(st.integers(1, 80), st.integers(1, 40), st.integers(0, 10), st.booleans())
def test_walking_forward_never_trains_on_what_follows(
    train: int, test: int, purge: int, anchored: bool
) -> None:
    if purge >= train:
        with pytest.raises(ArgumentError, match="purge"):
            walk_forward(PANEL, train=train, test=test, purge=purge)
        return
    folds = walk_forward(PANEL, train=train, test=test, purge=purge, anchored=anchored)
    for fold in folds:
        assert max(bars(*fold.train)) + purge < fold.test[0]
        assert fold.test[1] - fold.test[0] == test
    assert 150 - folds[-1].test[1] < test
    assert [one.test[1] for one in folds[:-1]] == [one.test[0] for one in folds[1:]]


def test_environments_take_the_ranges() -> None:
    fold = walk_forward(PANEL, train=60, test=30, purge=2)[1]
    env = PortfolioEnv(PANEL, days=fold.train[0])
    obs, _ = env.reset(seed=0)
    assert 30 <= obs["day"][0] < 88
    env.close()


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: split(PANEL, 40, 40), ArgumentError, ["(40, 40)", "40 to 40"]),
        (lambda: split(PANEL, 40, 45, purge=5), ArgumentError, ["40 to 40", "purge=5"]),
        (lambda: split(PANEL, "2020-03-01", "2020-02-01"), ArgumentError, ["60 to 31"]),
        (lambda: split(PANEL, 151), ArgumentError, ["151", "150"]),
        (lambda: split(PANEL, bad(1.5)), ArgumentTypeError, ["1.5"]),
        (lambda: split(PANEL, 40, purge=-1), ArgumentError, ["-1"]),
        (lambda: split(bad("prices")), ArgumentTypeError, ["'prices'"]),
        (lambda: walk_forward(PANEL, train=100, test=51), ArgumentError, ["151", "150"]),
        (lambda: walk_forward(PANEL, train=0, test=5), ArgumentError, ["train is 0"]),
        (lambda: walk_forward(PANEL, train=5, test=5, purge=5), ArgumentError, ["5 bars"]),
        (lambda: k_fold(PANEL, 1), ArgumentError, ["k is 1", "2"]),
        (lambda: k_fold(PANEL, 151), ArgumentError, ["151", "150"]),
        (lambda: k_fold(PANEL, 2, purge=75), ArgumentError, ["purge=75", "0 to 75"]),
        (lambda: k_fold(PANEL, 2, days=(5, 3)), ArgumentError, ["(5, 3)"]),
    ],
)
def test_bad_folds_are_refused(call: Any, error: type[Exception], words: list[str]) -> None:  # noqa: ANN401
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)
