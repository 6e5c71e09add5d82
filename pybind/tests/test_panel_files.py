"""Panels from files of many kinds: types of Parquet, pandas indices, renamed columns, NaNs."""

from __future__ import annotations

import ast
import json
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import backcast as bc
import numpy as np
import pytest
from facts import missing

pa = pytest.importorskip("pyarrow", reason="PyArrow is not installed")
pq = pytest.importorskip("pyarrow.parquet", reason="PyArrow is not installed")

DAYS = [date(2024, 1, 2), date(2024, 1, 3), date(2024, 1, 3)]
TICKERS = ["A", "A", "B"]
NUMBERS = {
    "open": [10.0, 10.5, 20.0],
    "high": [11.0, 12.0, 22.0],
    "low": [9.5, 10.0, 19.0],
    "close": [10.5, 11.5, 21.0],
    "volume": [1000.0, 1200.0, 0.0],
    "rsi": [50.0, 61.0, 3.0],
}


def table(**changed: Any) -> Any:  # noqa: ANN401
    """Make a table of three rows with some columns replaced, added, or taken out (None)."""
    columns = {"date": [str(day) for day in DAYS], "tic": TICKERS} | NUMBERS | changed
    return pa.table({name: column for name, column in columns.items() if column is not None})


def write(tmp_path: Path, content: Any, **options: Any) -> Path:  # noqa: ANN401
    path = tmp_path / "prices.parquet"
    pq.write_table(content, path, **options)
    return path


@pytest.fixture
def fingerprint(tmp_path: Path) -> str:
    """Return the fingerprint that every spelling of the three rows must give."""
    lines = [
        ",".join(map(str, [DAYS[row], TICKERS[row], *(NUMBERS[name][row] for name in NUMBERS)]))
        for row in range(3)
    ]
    path = tmp_path / "prices.csv"
    path.write_text("\n".join([",".join(["date", "tic", *NUMBERS]), *lines]))
    return str(bc.Panel.from_csv(path).describe()["fingerprint"])


def stamps(unit: str, zone: str | None = None, clock: timezone = UTC, hour: int = 0) -> Any:  # noqa: ANN401
    """Make timestamps of `DAYS` at an hour of `clock`, without a zone or in the given one."""
    whens = [datetime(day.year, day.month, day.day, hour, tzinfo=clock) for day in DAYS]
    if zone is None:
        return pa.array([when.replace(tzinfo=None) for when in whens], pa.timestamp(unit))
    return pa.array(whens, pa.timestamp(unit, zone))


TEXTS = [str(day) for day in DAYS]
TOKYO = timezone(timedelta(hours=9))

DATES = {
    "string": lambda: pa.array(TEXTS),
    "large_string": lambda: pa.array(TEXTS, pa.large_string()),
    "string_view": lambda: pa.array(TEXTS, pa.string_view()),
    "dictionary": lambda: pa.array(TEXTS).dictionary_encode(),
    "dictionary of dates": lambda: pa.array(DAYS).dictionary_encode(),
    "int32": lambda: pa.array([20240102, 20240103, 20240103], pa.int32()),
    "uint64": lambda: pa.array([20240102, 20240103, 20240103], pa.uint64()),
    "date32": lambda: pa.array(DAYS, pa.date32()),
    "date64": lambda: pa.array(DAYS, pa.date64()),
    "timestamp[s]": lambda: stamps("s"),
    "timestamp[ms]": lambda: stamps("ms", hour=16),
    "timestamp[us]": lambda: stamps("us"),
    "timestamp[ns]": lambda: stamps("ns", hour=23),
    "timestamp[ns, UTC]": lambda: stamps("ns", "UTC"),
    "timestamp[us, +09:00]": lambda: stamps("us", "+09:00", TOKYO),
}


@pytest.mark.filterwarnings('ignore:column "date" has times of day')
@pytest.mark.parametrize("kind", DATES)
def test_a_day_may_be_stored_as(tmp_path: Path, fingerprint: str, kind: str) -> None:
    panel = bc.Panel.from_parquet(write(tmp_path, table(date=DATES[kind]())))
    assert panel.describe()["fingerprint"] == fingerprint, panel.dates


def test_a_day_may_be_an_old_timestamp_of_96_bits(tmp_path: Path, fingerprint: str) -> None:
    path = write(tmp_path, table(date=stamps("ns")), use_deprecated_int96_timestamps=True)
    assert bc.Panel.from_parquet(path).describe()["fingerprint"] == fingerprint


@pytest.mark.skipif(
    not Path("/usr/share/zoneinfo/Asia/Tokyo").exists(), reason="no time zone database"
)
@pytest.mark.parametrize(
    ("zone", "clock"),
    [("Asia/Tokyo", TOKYO), ("America/New_York", timezone(timedelta(hours=-5)))],
)
def test_midnight_in_a_named_zone_is_that_day(
    tmp_path: Path, fingerprint: str, zone: str, clock: timezone
) -> None:
    panel = bc.Panel.from_parquet(write(tmp_path, table(date=stamps("ns", zone, clock))))
    assert panel.describe()["fingerprint"] == fingerprint, panel.dates


@pytest.mark.parametrize("kind", ["string", "large_string", "string_view", "dictionary", "int64"])
def test_a_ticker_may_be_stored_as(tmp_path: Path, kind: str) -> None:
    if kind == "int64":
        tickers, names = pa.array([600519, 600519, 7]), ["600519", "7"]
    elif kind == "dictionary":
        tickers, names = pa.array(TICKERS).dictionary_encode(), ["A", "B"]
    else:
        tickers, names = pa.array(TICKERS, getattr(pa, kind)()), ["A", "B"]
    assert bc.Panel.from_parquet(write(tmp_path, table(tic=tickers))).tickers == names


NUMBER_TYPES = [
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    "float16",
    "float32",
    "float64",
    "decimal32(5, 1)",
    "decimal64(12, 2)",
    "decimal128(30, 4)",
    "decimal256(60, 4)",
    "dictionary",
]


@pytest.mark.parametrize("kind", NUMBER_TYPES)
def test_a_number_may_be_stored_as(tmp_path: Path, fingerprint: str, kind: str) -> None:
    numbers = NUMBERS["rsi"]
    if kind.startswith("decimal"):
        name, arguments = kind.rstrip(")").split("(")
        wanted = getattr(pa, name)(*map(int, arguments.split(",")))
        column = pa.array([Decimal(number) for number in numbers], wanted)
    elif kind == "dictionary":
        column = pa.array(numbers).dictionary_encode()
    else:
        column = pa.array(np.array(numbers, kind), getattr(pa, kind)())
    panel = bc.Panel.from_parquet(write(tmp_path, table(rsi=column)))
    assert panel.describe()["fingerprint"] == fingerprint


@pytest.mark.parametrize("codec", ["none", "snappy", "zstd", "lz4", "gzip"])
@pytest.mark.parametrize("pages", ["1.0", "2.0"])
def test_codecs_and_page_versions_do_not_matter(
    tmp_path: Path, fingerprint: str, codec: str, pages: str
) -> None:
    path = write(tmp_path, table(), compression=codec, data_page_version=pages, row_group_size=2)
    assert bc.Panel.from_parquet(path).describe()["fingerprint"] == fingerprint


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"flag": [True, False, True]}, ['"flag"']),
        ({"sector": ["x", "y", "z"]}, ['"sector"']),
        ({"tags": [[1], [2], [3]]}, ['"tags"']),
        ({"date": [1.5, 2.5, 3.5]}, ['"date"', "YYYYMMDD"]),
        ({"tic": [True, False, True]}, ['"tic"']),
        ({"rsi": [1.0, None, 2.0]}, ["1", '"rsi"', "null", 'nan = "mask"']),
        ({"close": [1.0, float("nan"), 2.0]}, ["1", '"close"', "NaN"]),
        ({"rsi": [1.0, float("inf"), 2.0]}, ["1", '"rsi"', "inf"]),
        ({"low": [0.0, 1.0, 2.0]}, ["0", '"low"', '"A"']),
        ({"date": [None] * 3}, ['"date"']),
        ({"date": ["2024-01-02", None, "2024-01-03"]}, ["1", '"date"', "null"]),
        ({"tic": ["A", "A", None]}, ["2", '"tic"']),
        ({"date": ["2024-01-02"] * 3}, ["0", "1", '"A"', "2024-01-02"]),
        ({"close": None, "Close": NUMBERS["close"]}, ['"close"', '"Close"', '"rsi"']),
    ],
)
def test_invalid_panels_are_refused_with_the_place(
    tmp_path: Path, content: dict[str, Any], words: list[str]
) -> None:
    with pytest.raises(bc.errors.PanelError) as error:
        bc.Panel.from_parquet(write(tmp_path, table(**content)))
    assert missing(error.value, ["prices.parquet", *words]) == []


def test_a_codec_that_is_not_built_in_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, table(), compression="brotli")
    with pytest.raises(bc.errors.PanelError, match=r"\bBROTLI\b.*\bwhich\b"):
        bc.Panel.from_parquet(path)


def test_a_frame_with_its_index_written_along(tmp_path: Path, fingerprint: str) -> None:
    """Pandas writes an index without a name as `__index_level_0__`: first days, then numbers."""
    metadata = {
        "index_columns": ["__index_level_0__"],
        "columns": [{"name": "rsi", "pandas_type": "float64", "numpy_type": "float64"}],
    }
    category = pa.array(TICKERS).dictionary_encode()
    content = table(date=None, tic=category, __index_level_0__=stamps("ns"))
    content = content.replace_schema_metadata({"pandas": json.dumps(metadata)})
    path = write(tmp_path, content)
    with pytest.raises(bc.errors.PanelError, match=r'"date".*\b__index_level_0__\b'):
        bc.Panel.from_parquet(path)
    panel = bc.Panel.from_parquet(path, columns={"__index_level_0__": "date"})
    assert panel.describe()["fingerprint"] == fingerprint
    numbered = table(date=stamps("ns"), __index_level_0__=[7, 8, 9])
    panel = bc.Panel.from_parquet(write(tmp_path, numbered))
    assert panel.describe()["fingerprint"] == fingerprint


THEIRS = ["Date", "Symbol", "Open", "High", "Low", "Close", "Volume"]
OURS = ["date", "tic", "open", "high", "low", "close", "volume"]


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_renames_serve_both_formats(tmp_path: Path, format: str) -> None:
    header = ",".join([*THEIRS, "sector", "rsi"])
    path = tmp_path / "prices.csv"
    path.write_text(f"{header}\n2024-01-02 00:00:00-05:00,A,1,2,1,2,0,Energy,5\n")
    load: Any = bc.Panel.from_csv
    if format == "parquet":
        columns = ["20240102", "A", 1, 2, 1, 2, 0, "Energy", 5]
        names = header.split(",")
        rows = {name: [value] for name, value in zip(names, columns, strict=True)}
        path, load = write(tmp_path, pa.table(rows)), bc.Panel.from_parquet
    renames = dict(zip(THEIRS, OURS, strict=True))
    panel = load(path, columns={**renames, "sector": None})
    assert panel.columns == [*OURS[2:], "rsi"]
    assert panel.dates == ["2024-01-02"]
    with pytest.raises(bc.errors.PanelError, match=r'"Dat".*"Date"'):
        load(path, columns={**renames, "Dat": "date"})
    with pytest.raises(bc.errors.PanelError, match=r'\b1\b.*\b2\b.*"date"'):
        load(path, columns={**renames, "Symbol": "date"})


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_a_row_with_a_nan_is_masked_where_that_is_asked_for(tmp_path: Path, format: str) -> None:
    load: Any
    if format == "csv":
        path, load = tmp_path / "prices.csv", bc.Panel.from_csv
        path.write_text(
            "date,tic,open,high,low,close,volume,rsi\n"
            "2024-01-02,A,1,2,1,2,0,\n2024-01-03,A,1,2,1,2,0,5\n2024-01-03,B,1,2,1,2,NaN,5\n"
            "2024-01-02,C,1,2,1,2,0,5\n"
        )
    else:
        load = bc.Panel.from_parquet
        days = [20240102, 20240103, 20240103, 20240102]
        numbers = {"open": 1.0, "high": 2.0, "low": 1.0, "close": 2.0}
        columns: dict[str, list[float | None]] = {
            name: [number] * 4 for name, number in numbers.items()
        }
        columns |= {"volume": [0.0, 0.0, float("nan"), 0.0], "rsi": [None, 5.0, 5.0, 5.0]}
        path = write(tmp_path, pa.table({"date": days, "tic": ["A", "A", "B", "C"]} | columns))
    with pytest.raises(bc.errors.PanelError, match=r'\b(2|0)\b.*"rsi"'):
        load(path)
    panel = load(path, nan="mask")
    assert panel.tickers == ["A", "C"]
    np.testing.assert_array_equal(panel.mask, [[False, True], [True, False]])
    with pytest.raises(ValueError, match=r'\bnan\b.*"drop".*"refuse".*"mask"'):
        load(path, nan="drop")


def test_describe_counts_what_there_is(tmp_path: Path, place: Path) -> None:
    days = [20240102, 20240103, 20240105, 20240103, 20240105]
    columns = {
        "date": days,
        "tic": ["A", "A", "A", "B", "VIX"],
        "open": [10.0, 11.0, 12.0, 20.0, 1.0],
        "high": [11.0, 19.0, 13.0, 21.5, 99.0],
        "low": [9.0, 11.0, 8.5, 20.0, 0.0],
        "close": [10.0, 11.0, 12.0, 21.0, 0.0],
        "volume": [0] * 5,
        "rsi": [1] * 5,
    }
    path = write(tmp_path, pa.table(columns))
    with bc.Panel.from_parquet(path, name="m", macro=["VIX"], dir=place) as panel:
        found = panel.describe()
        coverage = found["coverage"]
        assert len(found["fingerprint"]) == 64
        assert found == {
            "name": "m",
            "path": panel.path,
            "calendar": "days",
            "days": 3,
            "bars_per_year": 252.0,
            "first_date": "2024-01-02",
            "last_date": "2024-01-05",
            "tickers": ["A", "B", "VIX"],
            "macro_tickers": ["VIX"],
            "columns": ["open", "high", "low", "close", "volume", "rsi"],
            "indicators": ["rsi"],
            "rows": 5,
            "masked_rows": 4,
            "inconsistent_rows": 0,
            "min_price": 8.5,
            "max_price": 21.5,
            # Values as float64 and as float32, and a word of 64 bits of the mask per ticker.
            "data_bytes": 9 * 6 * 8 + 9 * 6 * 4 + 3 * 8,
            "fingerprint": found["fingerprint"],
            "coverage": coverage,
        }
        assert [ticker["ticker"] for ticker in coverage] == ["A", "B", "VIX"]
        assert coverage[1] == {
            "ticker": "B",
            "is_macro": False,
            "rows": 1,
            "first_day": 1,
            "last_day": 1,
            "first_date": "2024-01-03",
            "last_date": "2024-01-03",
            "missing_days": 0,
            "min_price": 20.0,
            "max_price": 21.5,
        }
        assert coverage[2]["is_macro"] is True
        assert "panel 'm', 3 tickers (1 macro), 3 days" in repr(panel)
    with pytest.raises(bc.ClosedError):
        panel.describe()


def test_a_gap_is_counted_as_missing_days(tmp_path: Path) -> None:
    columns = {"date": [20240102, 20240103, 20240104], "tic": ["A", "B", "A"]}
    numbers = {"open": 1, "high": 2, "low": 1, "close": 2, "volume": 0}
    columns |= {name: [number] * 3 for name, number in numbers.items()}
    coverage = bc.Panel.from_parquet(write(tmp_path, pa.table(columns))).describe()["coverage"]
    assert [(ticker["rows"], ticker["missing_days"]) for ticker in coverage] == [(2, 1), (1, 0)]


def test_the_stub_lists_the_keys_that_describe_gives(tmp_path: Path) -> None:
    stub = ast.parse((Path(bc.__file__).parent / "_native.pyi").read_text())
    keys = {
        made.name: {
            field.target.id
            for field in made.body
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        }
        for made in stub.body
        if isinstance(made, ast.ClassDef)
    }
    found = bc.Panel.from_parquet(write(tmp_path, table())).describe()
    assert set(found) == keys["_PanelSummary"]
    assert set(found["coverage"][0]) == keys["_Coverage"]


def test_cells_may_be_separated_by_something_else(tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    path.write_text("date;tic;open;high;low;close;volume\n2024-01-02;A;1;2;1;2;10\n")
    with pytest.raises(bc.errors.PanelError, match=r"separator=';'"):
        bc.Panel.from_csv(path)
    assert bc.Panel.from_csv(path, separator=";").tickers == ["A"]
    for wrong in ("", ";;", '"', "\n", "é"):
        with pytest.raises(bc.errors.ArgumentError, match=r"\bseparator\b"):
            bc.Panel.from_csv(path, separator=wrong)


def test_prices_that_contradict_one_another_warn_at_the_line_that_loads(tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    path.write_text("date,tic,open,high,low,close,volume\n2024-01-02,A,1,2,1,3,10\n")
    with pytest.warns(UserWarning, match=r"\b1\b") as warned:
        panel = bc.Panel.from_csv(path)
    assert warned[0].filename == __file__
    assert panel.describe()["inconsistent_rows"] == 1
    panel = bc.Panel.from_csv(path, macro=["A"])
    assert panel.describe()["inconsistent_rows"] == 0


def test_a_day_without_a_whole_row_stays_and_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    rows = [
        f"2024-01-{day:02},{tic},1,2,1,2,10,{'' if day in (1, 2, 9) else 50}"
        for day in range(1, 15)
        for tic in "AB"
    ]
    path.write_text("date,tic,open,high,low,close,volume,sma\n" + "\n".join(rows))
    panel = bc.Panel.from_csv(path, nan="mask")
    assert (panel.n_days, panel.describe()["masked_rows"]) == (14, 6)
    assert panel.mask[0].tolist() == [day not in (1, 2, 9) for day in range(1, 15)]
