"""Normalisers know the days that they were fitted on, and no others."""

from __future__ import annotations

import pickle
from typing import Any

import backcast as bc
import numpy as np
import pytest
from backcast.errors import ArgumentError, ArgumentTypeError, PanelError
from backcast.evaluate import k_fold
from backcast.indicators import Normalizer
from indicator_sources import market, panel_of

TRAIN = ("2020-01-01", "2020-03-01")


def frame_of(seed: int = 0) -> dict[str, Any]:
    draw = np.random.default_rng(seed)
    return market(120, "ABC") | {"mine": draw.normal(5, 2, 360), "yours": draw.normal(0, 9, 360)}


def test_training_days_have_mean_0_and_deviation_1_for_each_ticker() -> None:
    panel = panel_of(frame_of())
    same = Normalizer.fit(panel, TRAIN).apply(panel)
    assert same.columns == panel.columns
    assert (same.values[:, :, :5] == panel.values[:, :, :5]).all()
    train = same.values[:, :60, 5:]
    np.testing.assert_allclose(train.mean(axis=1), 0, atol=1e-12)
    np.testing.assert_allclose(train.std(axis=1, ddof=1), 1, rtol=1e-12)
    assert np.abs(same.values[:, 60:, 5:].mean(axis=1)).min() > 1e-3


def test_one_normalizer_for_all_tickers() -> None:
    panel = panel_of(frame_of(), macro=["C"])
    same = Normalizer.fit(panel, TRAIN, per="panel").apply(panel)
    np.testing.assert_allclose(same.values[:2, :60, 5:].mean(axis=(0, 1)), 0, atol=1e-12)
    assert np.abs(same.values[2, :60, 5:].mean(axis=0)).min() > 1e-3


def test_days_behind_the_training_change_nothing_and_planted_ones_do() -> None:
    frame = frame_of()
    changed = {name: np.array(cells) for name, cells in frame.items()}
    behind = frame["date"] >= np.datetime64("2020-03-01")
    changed["mine"][behind] *= 1e6
    panel, other = panel_of(frame), panel_of(changed)
    one, two = Normalizer.fit(panel, TRAIN), Normalizer.fit(other, TRAIN)
    assert (one.mean == two.mean).all()
    assert (one.scale == two.scale).all()
    # A fit that saw the test would differ.
    planted = Normalizer.fit(other, ("2020-01-01", "2020-03-02"))
    assert (planted.mean[:, 0] > 100 * one.mean[:, 0]).all()
    assert (one.apply(panel).values[:, :60] == two.apply(other).values[:, :60]).all()


def test_absent_rows_do_not_count_and_stay_absent() -> None:
    frame = frame_of()
    frame["mine"][:10] = np.nan
    panel = panel_of(frame, nan="mask")
    fitted = Normalizer.fit(panel, TRAIN)
    np.testing.assert_allclose(fitted.mean[0, 0], frame["mine"][10:60].mean())
    assert (fitted.apply(panel).mask == panel.mask).all()


def test_a_pickled_normalizer_is_the_same() -> None:
    panel = panel_of(frame_of())
    fitted = Normalizer.fit(panel, (0, 60), columns=["mine"])
    again = pickle.loads(pickle.dumps(fitted))
    assert repr(again) == repr(fitted)
    assert (again.apply(panel).values == fitted.apply(panel).values).all()
    assert (fitted.apply(panel).values[:, :, 6] == panel.values[:, :, 6]).all()


def test_bad_fits_are_refused() -> None:
    panel = panel_of(frame_of() | {"still": np.full(360, 0.1)})
    late = frame_of()
    rows = (late["tic"] != "B") | (late["date"] > np.datetime64("2020-04-01"))
    newcomer = panel_of({name: cells[rows] for name, cells in late.items()})
    table: list[tuple[bc.Panel, dict[str, Any], type[Exception], list[str]]] = [
        (panel, {"days": TRAIN}, PanelError, ["'still'", "does not vary", "columns="]),
        (panel, {"days": (0, 1), "columns": ["mine"]}, PanelError, ["'A'", "1 rows"]),
        (panel, {"days": TRAIN, "columns": ["close"]}, ArgumentError, ["'close'", "mine"]),
        (panel, {"days": TRAIN, "columns": "mine"}, ArgumentTypeError, ["'mine'"]),
        (panel, {"days": TRAIN, "per": "day"}, ArgumentError, ["'day'", '"panel"']),
        (panel, {"days": (5, 5)}, ArgumentError, ["(5, 5)"]),
        (panel, {"days": (0, 500)}, ArgumentError, ["500", "120"]),
        (panel, {"days": 5}, ArgumentTypeError, ["5"]),
        (panel, {"days": (0, True)}, ArgumentTypeError, ["True"]),
        (newcomer, {"days": TRAIN}, PanelError, ["'B'", "0 rows", 'per="panel"']),
        (panel_of(market()), {"days": TRAIN}, ArgumentError, ["no indicators"]),
    ]
    for of, options, error, words in table:
        with pytest.raises(error) as caught:
            Normalizer.fit(of, **options)
        for word in words:
            assert word in str(caught.value)


def test_a_panel_that_was_not_fitted_is_refused() -> None:
    fitted = Normalizer.fit(panel_of(frame_of()), TRAIN)
    with pytest.raises(PanelError, match=r"'mine'.*none"):
        fitted.apply(panel_of(market()))
    other = {name: np.where(cells == "A", "X", cells) if name == "tic" else cells
             for name, cells in frame_of().items()}  # fmt: skip
    with pytest.raises(PanelError, match=r"'X'.*A, B, C"):
        fitted.apply(panel_of(other))
    pooled = Normalizer.fit(panel_of(frame_of()), TRAIN, per="panel")
    assert pooled.apply(panel_of(other)).tickers[-1] == "X"


def test_the_training_days_of_a_fold_are_fitted_with_a_gap_between() -> None:
    frame = frame_of()
    panel = panel_of(frame)
    fold = k_fold(panel, 3)[1]
    assert len(fold.train) == 2
    changed = {name: np.array(cells) for name, cells in frame.items()}
    start, stop = fold.test
    days = panel.timestamps
    changed["mine"][(frame["date"] >= days[start]) & (frame["date"] < days[stop])] *= 1e6
    one, two = (Normalizer.fit(known, fold.train) for known in (panel, panel_of(changed)))
    assert (one.mean == two.mean).all()
    assert (one.scale == two.scale).all()
    rows = np.concatenate([panel.values[:, begin:end, 5:] for begin, end in fold.train], axis=1)
    np.testing.assert_allclose(one.mean, rows.mean(axis=1))
    assert one.days == fold.train
    assert " and " in repr(one)
