"""Panels of bars in Python: instants of every form, look-ups by date, environments and metrics."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any, Literal
from zoneinfo import ZoneInfo

import backcast as bc
import numpy as np
import pytest
from backcast.envs import PortfolioEnv, PortfolioVectorEnv
from backcast.errors import ArgumentError, ArgumentTypeError, EnvError, PanelError

DERIVED: tuple[Literal["open", "high", "low", "volume"], ...] = ("open", "high", "low", "volume")
HOURS = np.arange("2024-01-01T00", "2024-01-11T00", dtype="datetime64[h]")
UTC = [dt.datetime.fromisoformat(f"{hour}:00+00:00") for hour in HOURS.astype(str)]
CLOSES = 100 + np.sin(np.arange(len(HOURS)))
NEW_YORK = ZoneInfo("America/New_York") if Path("/usr/share/zoneinfo").exists() else None


def load(times: dict[str, Any], **options: Any) -> bc.Panel:  # noqa: ANN401
    rows = times | {"close": CLOSES[: len(next(iter(times.values())))]}
    return bc.Panel.from_frame(rows, ticker="BTC", derive=DERIVED, **options)


@pytest.fixture
def bars() -> bc.Panel:
    return load({"timestamp": HOURS}, zone="UTC")


def test_bars_have_instants_in_utc(bars: bc.Panel) -> None:
    assert (bars.calendar, bars.n_days) == ("bars", 240)
    assert bars.timestamps.dtype == "datetime64[us]"
    assert (bars.timestamps == HOURS).all()
    assert bars.dates[1] == "2024-01-01T01:00:00Z"
    assert "240 bars 2024-01-01T00:00:00Z to 2024-01-10T23:00:00Z" in repr(bars)
    found = bars.describe()
    assert (found["calendar"], found["days"], found["bars_per_year"]) == ("bars", 240, 8760)
    assert found["last_date"] == "2024-01-10T23:00:00Z"


def test_a_panel_of_days_keeps_its_words(panel: bc.Panel) -> None:
    assert panel.calendar == panel.describe()["calendar"] == "days"
    assert panel.timestamps.dtype == "datetime64[D]"
    assert panel.timestamps.astype(str).tolist() == panel.dates
    assert " days 2024-01-01 to " in repr(panel)


FORMS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "datetimes": ({"timestamp": UTC}, {}),
    "datetimes of Tokyo": (
        {"Datetime": [when.astimezone(dt.timezone(dt.timedelta(hours=9))) for when in UTC]},
        {},
    ),
    "text": ({"timestamp": [when.isoformat() for when in UTC]}, {}),
    "text without a zone": ({"timestamp": HOURS.astype("M8[m]").astype(str)}, {"zone": "UTC"}),
    "datetime64[ns]": ({"timestamp": HOURS.astype("datetime64[ns]")}, {"zone": "+00:00"}),
    "date and time": (
        {
            "date": HOURS.astype("datetime64[D]"),
            "time": [when.time() for when in UTC],
        },
        {"zone": "UTC"},
    ),
    **{
        unit: ({"timestamp": HOURS.astype(f"datetime64[{unit}]").astype(int)}, {"unit": unit})
        for unit in ("s", "ms", "us", "ns")
    },
}


@pytest.mark.parametrize("form", FORMS)
def test_an_instant_may_be_given_as(tmp_path: Path, bars: bc.Panel, form: str) -> None:
    times, options = FORMS[form]
    expected = bars.describe()["fingerprint"]
    assert load(times, **options).describe()["fingerprint"] == expected
    # Loads these rows from a CSV, where names are exact.
    names = [name.replace("Datetime", "timestamp") for name in times]
    lines = [",".join([*names, "close"])]
    lines += [",".join(map(str, line)) for line in zip(*times.values(), CLOSES, strict=True)]
    path = tmp_path / "bars.csv"
    path.write_text("\n".join(lines))
    panel = bc.Panel.from_csv(path, ticker="BTC", derive=DERIVED, **options)
    assert panel.describe()["fingerprint"] == expected


def test_parquet_and_streams_hold_the_same_bars(tmp_path: Path, bars: bc.Panel) -> None:
    pa = pytest.importorskip("pyarrow", reason="PyArrow is not installed")
    pq = pytest.importorskip("pyarrow.parquet", reason="PyArrow is not installed")
    table = pa.table({"timestamp": pa.array(UTC, pa.timestamp("us", "UTC")), "close": CLOSES})
    pq.write_table(table, tmp_path / "bars.parquet")
    given: dict[str, Any] = {"ticker": "BTC", "derive": DERIVED}
    expected = bars.describe()["fingerprint"]
    from_file = bc.Panel.from_parquet(tmp_path / "bars.parquet", **given)
    assert from_file.describe()["fingerprint"] == expected
    assert bc.Panel.from_frame(table, **given).describe()["fingerprint"] == expected


NAIVE = {"timestamp": HOURS}
INTEGERS = {"timestamp": HOURS.astype("datetime64[s]").astype(int)}
FOLD = np.array(["2024-11-03T01:30"], "datetime64[s]")
GAP = np.array(["2024-03-10T02:30"], "datetime64[s]")
REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], type[Exception], tuple[str, ...]]] = {
    "no zone": (NAIVE, {}, PanelError, ("'timestamp'", "zone", "UTC")),
    "no unit": (INTEGERS, {}, PanelError, ("'timestamp'", "unit")),
    "unit": (INTEGERS, {"unit": "min"}, ArgumentError, ("'min'", "'ms'")),
    "unit is a number": (INTEGERS, {"unit": 3}, ArgumentTypeError, ("unit", "3")),
    "zone is a number": (NAIVE, {"zone": 3}, ArgumentTypeError, ("zone", "3")),
    "zone": (NAIVE, {"zone": "Mars"}, PanelError, ("'Mars'",)),
    "two zones": ({"timestamp": UTC}, {"zone": "UTC"}, PanelError, ("row 0", "zone")),
    "mixed": ({"timestamp": [UTC[0], "2024-01-01T01:00"]}, {}, PanelError, ("row 1", "01:00")),
    "zone of numbers": (INTEGERS, {"unit": "s", "zone": "UTC"}, PanelError, ("zone", "unit")),
    "overflow": (
        {"timestamp": [0, 2**62]},
        {"unit": "s"},
        PanelError,
        ("row 1", str(2**62), "9999"),
    ),
    "nanoseconds": ({"timestamp": [1, 2]}, {"unit": "ns"}, PanelError, ("row 0", "microsecond")),
    "twice": ({"timestamp": [5, 5]}, {"unit": "s"}, PanelError, ("1970-01-01T00:00:05Z", "'BTC'")),
    "zone of days": ({"date": ["2024-01-02"]}, {"zone": "UTC"}, PanelError, ("zone", "'date'")),
    "time without zone": ({"date": ["2024-01-02"], "time": ["9:30"]}, {}, PanelError, ("zone",)),
    "a bad clock": (
        {"date": ["2024-01-02"], "time": ["9:30"]},
        {"zone": "UTC"},
        PanelError,
        ("'9:30'", "HH:MM"),
    ),
    "days as instants": (
        {"timestamp": np.array(["2024-01-02"], "M8[D]")},
        {"zone": "UTC"},
        PanelError,
        ("'timestamp'", "date"),
    ),
    "both": (NAIVE | {"date": HOURS}, {"zone": "UTC"}, PanelError, ("'date'", "'timestamp'")),
    "bars of a year": (NAIVE, {"zone": "UTC", "bars_per_year": 0}, PanelError, ("0", "252")),
}
if NEW_YORK:
    REFUSED["fold"] = (
        {"timestamp": FOLD},
        {"zone": "America/New_York"},
        PanelError,
        ("row 0", "2024-11-03T01:30:00", "twice"),
    )
    REFUSED["gap"] = (
        {"timestamp": GAP},
        {"zone": "America/New_York"},
        PanelError,
        ("row 0", "2024-03-10T02:30:00", "never"),
    )


@pytest.mark.parametrize("case", REFUSED)
def test_times_that_are_no_instants_are_refused_with_what_to_do(case: str) -> None:
    times, options, error, words = REFUSED[case]
    with pytest.raises(error) as raised:
        load(times, **options)
    said = str(raised.value).replace('"', "'")
    assert all(word in said for word in words), said


@pytest.mark.parametrize(
    ("when", "at"),
    [
        ("2024-01-02", 24),
        (dt.date(2024, 1, 2), 24),
        ("2024-01-02T12:30:00Z", 37),
        (dt.datetime(2024, 1, 2, 12, tzinfo=dt.UTC), 36),
        (dt.datetime(2024, 1, 2, 12, tzinfo=dt.timezone(dt.timedelta(hours=-5))), 41),
        (np.datetime64("2024-01-02"), 24),
        (np.datetime64("2024-01-02T12"), 36),
        (np.datetime64("2024-01-02T12:00:00.000000001"), None),
        (dt.datetime(2024, 1, 2, 12), None),
        ("noon", None),
        ("2030-01-01", 240),
    ],
)
def test_a_bar_is_found_by_its_date(bars: bc.Panel, when: Any, at: int | None) -> None:  # noqa: ANN401
    if at is None:
        with pytest.raises(PanelError, match="2024-01-02"):
            bars.position(when)
        with pytest.raises(EnvError, match="2024-01-02"):
            PortfolioVectorEnv(bars, 1, days=(when, 100))
    else:
        assert bars.position(when) == at


def test_a_position_needs_a_date(bars: bc.Panel) -> None:
    with pytest.raises(ArgumentTypeError, match="when"):
        bars.position(3)  # type: ignore[arg-type]


def test_environments_are_split_by_dates(bars: bc.Panel, panel: bc.Panel) -> None:
    split = "2024-01-06"
    train = PortfolioVectorEnv(bars, 2, days=("2024-01-01", split), record=True)
    test = PortfolioVectorEnv(bars, 2, days=(np.datetime64(split), 240), record=True)
    for env, first in ((train, 2), (test, 120)):
        env.reset(seed=0, options={"start_day": first})
        assert env.history(0)["date"][0] == bars.dates[first]
    with pytest.raises(EnvError):
        train.reset(seed=0, options={"start_day": 120})
    days = PortfolioVectorEnv(panel, 1, days=(panel.dates[5], panel.dates[20]))
    by_number = PortfolioVectorEnv(panel, 1, days=(5, 20))
    one, other = days.reset(seed=1)[0], by_number.reset(seed=1)[0]
    assert one["day"].tolist() == other["day"].tolist()


def test_dates_begin_episodes_and_edges_may_be_left_open(bars: bc.Panel) -> None:
    env = PortfolioVectorEnv(bars, 2, days=("2024-01-03", None))
    times = ["2024-01-04T06:00Z", "2024-01-03"]
    for given, first in (
        ("2024-01-04", [72, 72]),
        (dt.date(2024, 1, 4), [72, 72]),
        (np.datetime64("2024-01-04T06"), [78, 78]),
        (times, [78, 48]),
        (np.array(["2024-01-04T06", "2024-01-03T00"], "datetime64[h]"), [78, 48]),
        (np.array([78, 48]), [78, 48]),
    ):
        obs, _ = env.reset(seed=0, options={"start_day": given})
        assert obs["day"].ravel().tolist() == first
    for wrong in ("2024-01-02", "2030-01-01", "soon", [times[0]], [times[0], 5]):
        with pytest.raises((EnvError, ArgumentTypeError)):
            env.reset(seed=0, options={"start_day": wrong})
    one = PortfolioEnv(bars, days=(None, "2024-01-03"))
    assert one.reset(options={"start_day": "2024-01-02"})[0]["day"].item() == 24
    with pytest.raises(EnvError):
        one.reset(options={"start_day": "2024-01-03"})


def test_a_year_that_is_guessed_and_bars_of_two_lengths_are_warned_of() -> None:
    short = {"timestamp": HOURS[:72]}
    with pytest.warns(UserWarning, match="bars_per_year"):
        load(short, zone="UTC")
    load(short, zone="UTC", bars_per_year=8760)
    stamps = np.concatenate([HOURS, HOURS[::24]])
    rows = {"timestamp": stamps, "tic": ["H"] * 240 + ["D"] * 10, "close": np.ones(250)}
    with pytest.warns(UserWarning, match='"D".*"H"'):
        bc.Panel.from_frame(rows, derive=DERIVED, zone="UTC")


def test_bars_that_begin_within_those_of_another_ticker_are_warned_of() -> None:
    half = HOURS.astype("M8[m]") + np.timedelta64(30, "m")
    stamps = np.concatenate([HOURS.astype("M8[m]"), half])
    rows = {"timestamp": stamps, "tic": ["BTC"] * 240 + ["SPY"] * 240, "close": np.ones(480)}
    given: dict[str, Any] = {"derive": DERIVED, "zone": "UTC"}
    with pytest.warns(
        UserWarning, match='"BTC" has a bar every 1 h.*"SPY".*2024-01-01T01:30'
    ) as of:
        panel = bc.Panel.from_frame(rows, **given)
    assert of[0].filename == __file__
    # Shows what the warning is about: at 01:30 a close is shown that is known at 02:00.
    at = panel.position("2024-01-01T01:30:00Z")
    shown = panel.windows([at], [[1, 2]], 1, 0)
    assert panel.dates[at - 1] == "2024-01-01T01:00:00Z"
    assert shown["history"][0, 0, 0, 3] == 1
    bc.Panel.from_frame(rows | {"timestamp": np.concatenate([HOURS, HOURS])}, **given)


def test_times_that_are_in_the_wrong_unit_are_warned_of() -> None:
    times = {"timestamp": HOURS.astype("datetime64[ms]").astype(int)}
    for unit in ("us", "ns"):
        with pytest.warns(UserWarning, match=f'"{unit}" since 1970; set `unit` to "ms"') as warned:
            load(times, unit=unit, bars_per_year=8760)
        assert [of.filename for of in warned] == [__file__]
    load(times, unit="ms")
    # Made of numbers without a unit, which NumPy and pandas take for nanoseconds.
    times = {"timestamp": times["timestamp"].view("datetime64[ns]")}
    with pytest.warns(UserWarning, match="to_datetime"):
        load(times, zone="UTC", bars_per_year=8760)


def test_times_of_day_in_a_column_of_days_are_warned_of() -> None:
    days = np.arange("2024-01-01T15", "2024-01-21T15", 24, dtype="datetime64[h]")
    for times, options in (
        ({"date": days}, {}),
        ({"date": days.astype("datetime64[s]").astype(int)}, {"unit": "s"}),
        ({"date": [f"{day}:00Z" for day in days]}, {}),
    ):
        with pytest.warns(UserWarning, match=r'"date".* 20 row\(s\).*2024-01-01T15:00:00.*`zone`'):
            load(times, **options)
    load({"date": [f"{day}T00:00:00+09:00" for day in days.astype("M8[D]")]})
    load({"date": days.astype("M8[D]")})


@pytest.mark.parametrize("stated", [None, 1000.0])
def test_ratios_are_annualised_by_the_bars_of_a_year(stated: float | None) -> None:
    bars = load({"timestamp": HOURS}, zone="UTC", bars_per_year=stated)
    year = 8760.0 if stated is None else stated
    assert bars.bars_per_year == year
    env = PortfolioEnv(bars, max_episode_steps=50, record=True, failure_threshold=0)
    env.reset(seed=0)
    over, infos = False, dict[str, Any]()
    while not over:
        *_, over, infos = env.step(np.ones(1, np.float32))
    value = env.history()["value"]
    gains = value[1:] / value[:-1] - 1
    expected = gains.mean() / gains.std(ddof=1) * np.sqrt(year)
    np.testing.assert_allclose(infos["metrics"]["sharpe"], expected, rtol=1e-6)
