"""Indicators of a panel: equal to their sources, without look-ahead, absent while they warm up."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import backcast as bc
import indicator_sources as source
import numpy as np
import pytest
from backcast import indicators
from backcast.errors import ArgumentError, ArgumentTypeError, PanelError
from hypothesis import given, settings
from hypothesis import strategies as st
from indicator_sources import market, panel_of, without

talib: Any = pytest.importorskip("talib", reason="TA-Lib is not installed")

EVERY = [
    *indicators.FINRL,
    *("macds", "macdh", "adx", "atr_14", "boll", "rsi", "cci", "dx_5", "turbulence_20"),
]


def column(panel: bc.Panel, name: str, ticker: int = 0) -> np.ndarray:
    return np.asarray(panel.values[ticker, panel.mask[ticker], panel.columns.index(name)])


def test_every_indicator_is_what_its_source_says() -> None:
    panel = panel_of(market(200))
    names = ["macd", "macds", "macdh", "rsi_14", "atr_14", "cci_20", "boll", "boll_ub", "boll_lb"]
    names += ["dx_14", "adx_14", "close_30_sma"]
    added = indicators.add(panel, names)
    for ticker in range(3):
        prices = [column(panel, name, ticker) for name in ("high", "low", "close")]
        high, low, close = prices
        middle, upper, lower = source.bands(close, 20)
        expected = {
            "macd": source.macd(close),
            "macds": source.macds(close),
            "macdh": source.macd(close) - source.macds(close),
            "rsi_14": source.rsi(close, 14),
            "atr_14": source.atr(high, low, close, 14),
            "cci_20": source.cci(high, low, close, 20),
            "boll": middle,
            "boll_ub": upper,
            "boll_lb": lower,
            # TA-Lib begins with one bar less than Wilder, which the page says.
            "dx_14": source.dx(high, low, close, 14, first=13),
            "adx_14": source.adx(high, low, close, 14, first=13),
            "close_30_sma": np.convolve(close, np.ones(30) / 30, "full")[: len(close)],
        }
        first = int(panel.mask[ticker].sum() - added.mask[ticker].sum())
        for name, line in expected.items():
            np.testing.assert_allclose(
                column(added, name, ticker), line[first:], rtol=1e-9, atol=1e-9, err_msg=name
            )


def test_dx_comes_to_wilders_numbers_as_the_first_bars_fade() -> None:
    panel = panel_of(market(400))
    high, low, close = (column(panel, name) for name in ("high", "low", "close"))
    apart = np.abs(
        source.dx(high, low, close, 14, first=14)[-372:]
        - column(indicators.add(panel, ["adx_14", "dx_14"]), "dx_14")[-372:]
    )
    assert apart[:10].max() > 1e-3
    assert apart[-10:].max() < 1e-9


@pytest.mark.parametrize(
    ("name", "bars"),
    [
        ("macd", 25),
        ("macds", 33),
        ("macdh", 33),
        ("rsi_14", 14),
        ("atr_14", 14),
        ("dx_14", 14),
        ("adx_14", 27),
        ("cci_20", 19),
        ("boll_ub_20", 19),
        ("close_30_sma", 29),
        ("turbulence_20", 21),
    ],
)
def test_bars_of_the_warm_up_have_no_row_and_days_stay(name: str, bars: int) -> None:
    frame = market(60, "AB")
    late = (frame["tic"] == "B") & (frame["date"] < frame["date"][10])
    panel = panel_of(without(frame, late))
    added = indicators.add(panel, [name])
    assert added.dates == panel.dates
    # Turbulence is one number for the market; the newcomer counts once it has its returns.
    later = bars if name.startswith("turbulence") else bars + 10
    assert added.mask.argmax(axis=1).tolist() == [bars, later]
    assert added.mask[:, later:].all()
    assert (added.values[~added.mask] == 0).all()


def test_an_indicator_of_a_ticker_goes_over_the_bars_that_it_has() -> None:
    frame = market(100, "AB")
    halted = (frame["tic"] == "A") & np.isin(np.arange(200), [*range(50, 57), 70])
    gone = without(frame, halted)
    added = indicators.add(panel_of(gone), ["rsi_14", "macd", "atr_14"])
    # Compares with a panel in which these bars are neighbours.
    alone = {name: cells[gone["tic"] == "A"] for name, cells in gone.items()}
    alone["date"] = np.arange("2021-01-01", len(alone["date"]), dtype="datetime64[D]")
    together = indicators.add(panel_of(alone), ["rsi_14", "macd", "atr_14"])
    for name in ("rsi_14", "macd", "atr_14"):
        assert (column(added, name) == column(together, name)).all()
    assert not added.mask[0, 50:57].any()


# Later bars are made up, and may move as after a split.
@pytest.mark.filterwarnings("ignore:.*as after a split")
# Turbulence may leave out the tickers with holes.
@pytest.mark.filterwarnings("ignore:.*leaves out:UserWarning")
@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    cut=st.integers(62, 118),
    holes=st.floats(0, 0.1),
)
def test_no_bar_after_a_day_changes_what_is_known_on_it(seed: int, cut: int, holes: float) -> None:
    frame = market(120, "ABC", seed)
    draw = np.random.default_rng(seed)
    # One ticker is whole, so that turbulence has no holes.
    missing = (draw.random(360) < holes) & (frame["tic"] != "A")
    after = np.flatnonzero(frame["date"] > frame["date"][cut])
    changed = {name: np.array(cells) for name, cells in frame.items()}
    shuffled = draw.permutation(after)
    for name in ("open", "high", "low", "close", "volume"):
        changed[name][after] = frame[name][shuffled] * 3
    try:
        before = indicators.add(panel_of(without(frame, missing)), EVERY)
        then = indicators.add(panel_of(without(changed, missing)), EVERY)
    except PanelError as error:
        # Too many holes for the longest indicator.
        assert "close_60_sma" in str(error)  # noqa: PT017
        return
    assert (before.mask == then.mask).all()
    assert (before.values[:, : cut + 1] == then.values[:, : cut + 1]).all()
    assert before.mask[:, : cut + 1].any()
    assert (before.values[:, cut + 1 :] != then.values[:, cut + 1 :]).any()


def test_turbulence_is_the_distance_from_the_returns_before() -> None:
    frame = market(80, "ABC")
    late = (frame["tic"] == "C") & (frame["date"] < frame["date"][40])
    panel = panel_of(without(frame, late))
    added = indicators.add(panel, ["turbulence_20"])
    close = panel.values[:, :, panel.columns.index("close")]
    returns = close[:, 1:] / np.where(close[:, :-1] > 0, close[:, :-1], 1) - 1
    place = added.columns.index("turbulence_20")
    for day in (21, 40, 60, 61, 79):
        # C has 21 returns from day 61 on.
        of = [0, 1, 2] if day >= 61 else [0, 1]
        expected = source.distance(returns[of, day - 1], returns[of, day - 21 : day - 1].T)
        assert added.values[0, day, place] == pytest.approx(expected, rel=1e-8)
        assert added.values[0, day, place] == added.values[1, day, place]


def test_a_ticker_that_never_counts_for_turbulence_is_warned_of() -> None:
    frame = market(80, "ABC")
    # B trades on two days of three, and C on 22 days in a row, which give 21 returns.
    days = np.searchsorted(frame["date"][:80], frame["date"])
    missing = ((frame["tic"] == "B") & (days % 3 == 0)) | ((frame["tic"] == "C") & (days >= 22))
    panel = panel_of(without(frame, missing))
    with pytest.warns(UserWarning, match="turbulence_20.*'B' on all bars.*21 returns") as warned:
        added = indicators.add(panel, ["turbulence_20"])
    assert warned[0].filename == __file__
    alone = indicators.add(panel_of(without(frame, frame["tic"] != "A")), ["turbulence_20"])
    later = slice(30, None)
    assert (column(added, "turbulence_20")[later] == column(alone, "turbulence_20")[later]).all()
    with pytest.warns(UserWarning, match="'B', 'C'"):
        indicators.add(panel, ["turbulence_21"])


def test_turbulence_leaves_macro_tickers_out() -> None:
    frame = market(60, "AB")
    with_index = {
        name: np.concatenate([cells, np.full(60, "VIX") if name == "tic" else cells[:60]])
        for name, cells in frame.items()
    }
    added = indicators.add(panel_of(with_index, macro=["VIX"]), ["turbulence_20"])
    bare = indicators.add(panel_of(frame), ["turbulence_20"])
    assert (column(added, "turbulence_20", 0) == column(bare, "turbulence_20", 0)).all()
    assert added.macro == ["VIX"]
    assert (column(added, "turbulence_20", 2) == column(bare, "turbulence_20", 0)).all()


def test_a_ticker_that_repeats_another_does_not_make_turbulence_infinite() -> None:
    frame = market(60, "AB")
    twice = {
        name: np.concatenate([cells, np.full(60, "C") if name == "tic" else cells[:60]])
        for name, cells in frame.items()
    }
    one = indicators.add(panel_of(frame), ["turbulence_20"])
    two = indicators.add(panel_of(twice), ["turbulence_20"])
    np.testing.assert_allclose(column(two, "turbulence_20"), column(one, "turbulence_20"), 1e-6)


@pytest.mark.parametrize("price", [10.0, 0.1, 1 / 3, 61_234.57])
def test_a_price_that_never_moves_is_neutral(price: float) -> None:
    frame = market(60, "AB")
    for name in ("open", "high", "low", "close"):
        frame[name][:60] = price
    added = indicators.add(panel_of(frame), ["rsi_14", "cci", "dx", "atr", "boll_ub", "macd"])
    expected = {"rsi_14": 50, "cci": 0, "dx": 0, "atr": 0, "boll_ub": price, "macd": 0}
    for name, number in expected.items():
        np.testing.assert_allclose(column(added, name), number, atol=1e-10 * price)


def test_a_halt_leaves_no_rounding_in_the_channel_index() -> None:
    frame = market(80, "A")
    for name in ("open", "high", "low", "close"):
        frame[name][40:70] = frame["close"][39]
    added = indicators.add(panel_of(frame), ["cci_10"])
    assert (column(added, "cci_10")[41:61] == 0).all()
    assert np.abs(column(added, "cci_10")[61:]).min() > 1


@pytest.mark.parametrize("power", [-60, -30, 30])
def test_indicators_of_small_prices_are_those_of_large_ones(power: int) -> None:
    frame = market(120, "AB")
    names = [*indicators.FINRL, "adx", "atr", "macds", "macdh"]
    plain = indicators.add(panel_of(frame), names)
    scale = 2.0**power
    for name in ("open", "high", "low", "close"):
        frame[name] = frame[name] * scale
    scaled = indicators.add(panel_of(frame), names)
    without_unit = [*plain.columns[4:5], "rsi_30", "cci_30", "dx_30", "adx"]
    for at, name in enumerate(plain.columns):
        expected = plain.values[:, :, at] * (1 if name in without_unit else scale)
        assert (scaled.values[:, :, at] == expected).all(), name


def test_bands_keep_their_digits_far_from_zero() -> None:
    frame = market(3000, "A")
    for name in ("open", "high", "low", "close"):
        frame[name] = 60_000 + frame[name] / 100
    added = indicators.add(panel_of(frame), ["boll_ub"])
    _, upper, _ = source.bands(frame["close"], 20)
    middle = column(added, "close")
    np.testing.assert_allclose(
        column(added, "boll_ub") - middle, (upper - frame["close"])[19:], atol=1e-9
    )


def test_bars_of_hours_keep_their_calendar() -> None:
    frame = market(100, "A")
    hours = np.arange("2024-01-01T00", 100, dtype="datetime64[h]")
    bars = {"timestamp": hours, **{k: v for k, v in frame.items() if k != "date"}}
    panel = panel_of(bars, zone="UTC", bars_per_year=1234.0)
    added = indicators.add(panel, ["rsi_14"])
    assert (added.timestamps == panel.timestamps).all()
    assert (added.calendar, added.bars_per_year) == ("bars", 1234.0)


def test_a_panel_keeps_its_rows_tickers_and_indicators() -> None:
    frame = market(50, "CAB") | {"mine": np.arange(150.0)}
    panel = panel_of(frame)
    added = indicators.add(panel, ["rsi_14"])
    assert added.tickers == panel.tickers
    assert added.indicators == ["mine", "rsi_14"]
    assert (added.values[:, 14:, :6] == panel.values[:, 14:]).all()
    assert (added.tokens(["A"]) == panel.tokens(["A"])).all()


def test_a_row_that_was_absent_stays_absent() -> None:
    frame = market(50, "AB") | {"mine": np.arange(100.0)}
    frame["mine"][[0, 30]] = np.nan
    panel = panel_of(frame, nan="mask")
    added = indicators.add(panel, ["rsi_14"])
    assert added.mask[0].tolist() == [day > 14 and day != 30 for day in range(50)]


def test_a_shared_panel_is_attached_with_its_indicators(place: Any) -> None:  # noqa: ANN401
    with indicators.add(panel_of(market(50)), ["rsi_14"], name="prices", dir=place) as added:
        with bc.Panel.attach("prices", dir=place) as same:
            assert (same.values == added.values).all()
        with pytest.raises(bc.errors.ExistsError, match="prices"):
            indicators.add(panel_of(market(50)), ["rsi_14"], name="prices", dir=place)


def test_numbers_do_not_depend_on_settings_of_the_process() -> None:
    panel = panel_of(market(80, "A"))
    talib.set_unstable_period("CMO", 5)
    try:
        with pytest.raises(ArgumentError, match=r"CMO is 5 .*CMO', 0"):
            indicators.add(panel, ["rsi_14"])
    finally:
        talib.set_unstable_period("CMO", 0)


@pytest.mark.parametrize(
    ("names", "error", "words"),
    [
        ("macd", ArgumentTypeError, ["'macd'", "list"]),
        (3, ArgumentTypeError, ["3", "list"]),
        ([3], ArgumentTypeError, ["3", "text"]),
        ([], ArgumentError, ["empty"]),
        (["mcad"], ArgumentError, ["'mcad'", "'macd'?"]),
        (["macd_5"], ArgumentError, ["'macd_5'"]),
        (["rsi_1"], ArgumentError, ["'rsi_1'", "2", "100000"]),
        (["rsi_100001"], ArgumentError, ["100001", "100000"]),
        (["rsi_14", "macd", "rsi_14"], ArgumentError, ["'rsi_14'", "twice"]),
        (["close"], ArgumentError, ["'close'"]),
        (["mine"], ArgumentError, ["'mine'"]),
        (["rsi_120"], PanelError, ["'rsi_120'", "'A'", "121", "120"]),
        (["turbulence_3"], PanelError, ["3 bars", "3 tickers"]),
        (["turbulence_119"], PanelError, ["120 returns", "120 bars"]),
    ],
)
def test_bad_names_are_refused(names: Any, error: type[Exception], words: list[str]) -> None:  # noqa: ANN401
    panel = panel_of(market())
    with pytest.raises(error) as caught:
        indicators.add(panel, names)
    for word in words:
        assert word in str(caught.value)


def test_a_column_of_the_panel_is_not_computed_again() -> None:
    added = indicators.add(panel_of(market(50)), ["rsi_14"])
    with pytest.raises(ArgumentError, match=r"rsi_14.*already"):
        indicators.add(added, ["rsi_14"])


def test_turbulence_with_holes_is_refused_with_the_day() -> None:
    frame = market(100, "AB")
    halted = np.isin(np.arange(200) % 100, [60]) & (frame["tic"] == "A")
    halted |= np.isin(np.arange(200) % 100, [70]) & (frame["tic"] == "B")
    panel = panel_of(without(frame, halted))
    with pytest.raises(PanelError, match=r"turbulence_20.*2020-03-11"):
        indicators.add(panel, ["turbulence_20"])


def test_without_the_library_the_error_names_the_extra() -> None:
    code = """
import sys
sys.modules["talib"] = None
import backcast as bc
frame = {"date": ["2024-01-01", "2024-01-02", "2024-01-03"], "close": [1.0, 2.0, 3.0]}
panel = bc.Panel.from_frame(frame, ticker="A", derive=["open", "high", "low", "volume"])
try:
    bc.indicators.add(panel, ["close_2_sma"])
except bc.errors.MissingExtraError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert "pip install 'backcast[indicators]'" in done.stdout


def test_what_is_no_panel_is_refused() -> None:
    with pytest.raises(ArgumentTypeError, match="panel is 'prices'"):
        indicators.add("prices", ["macd"])  # type: ignore[arg-type]
