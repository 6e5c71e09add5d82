"""Panels from tables in memory: equal to their CSV bit for bit, whatever holds the columns."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import backcast as bc
import numpy as np
import pytest
from backcast.errors import ArgumentError, ArgumentTypeError, PanelError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow", reason="PyArrow is not installed")

DAYS = ["2024-01-03", "2024-01-02", "2024-01-03"]
ROWS: dict[str, Any] = {
    "date": DAYS,
    "tic": ["A", "A", "B"],
    "open": [10.5, 10.0, 20.0],
    "high": [12.0, 11.0, 22.0],
    "low": [10.0, 9.5, 19.0],
    "close": [11.5, 10.5, 21.0],
    "volume": [1200.0, 1000.0, 0.0],
    "rsi": [61.0, 50.0, 3.0],
}
DERIVED: tuple[Literal["open", "high", "low", "volume"], ...] = ("open", "high", "low", "volume")


def fingerprint(panel: bc.Panel) -> str:
    return str(panel.describe()["fingerprint"])


def from_csv(path: Path, rows: dict[str, Any]) -> bc.Panel:
    lines = zip(*rows.values(), strict=True)
    path.write_text("\n".join(",".join(map(str, line)) for line in [tuple(rows), *lines]))
    return bc.Panel.from_csv(path)


class Stream:
    """Nothing but the Arrow PyCapsule interface."""

    def __init__(self, table: Any) -> None:  # noqa: ANN401
        self.table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:  # noqa: ANN401
        return self.table.__arrow_c_stream__(requested_schema)


class Labels:
    """Index or columns of a `Frame`."""

    def __init__(self, levels: dict[str | None, list[Any]]) -> None:
        self.names, self.levels = list(levels), [*levels.values()]
        self.nlevels = len(levels)

    def __iter__(self) -> Any:  # noqa: ANN401
        return iter(zip(*self.levels, strict=True) if self.nlevels > 1 else self.levels[0])

    def __len__(self) -> int:
        return len(self.levels[0])

    def get_level_values(self, level: int) -> Cells:
        return Cells(self.levels[level])


class Cells:
    def __init__(self, cells: Any) -> None:  # noqa: ANN401
        self.cells = cells

    def to_numpy(self, dtype: Any = None, na_value: Any = None) -> Any:  # noqa: ANN401
        return np.asarray(self.cells, dtype=dtype)


class Frame:
    """The part of a frame of pandas that `Panel.from_frame` uses, without PyArrow."""

    def __init__(self, index: Labels, columns: Labels, cells: list[Any]) -> None:
        self.index, self.columns, self.cells = index, columns, cells

    def __len__(self) -> int:
        return len(self.index)

    @property
    def iloc(self) -> Frame:
        return self

    def __getitem__(self, place: tuple[slice, int]) -> Cells:
        return Cells(self.cells[place[1]])

    def __arrow_c_stream__(self, _requested: Any = None) -> Any:  # noqa: ANN401
        raise ImportError("pandas needs PyArrow for this")


def as_pandas(rows: dict[str, Any]) -> Frame:
    index = Labels({"date": np.array(rows["date"], dtype="datetime64[ns]")})  # type: ignore[dict-item]
    names = [name for name in rows if name != "date"]
    return Frame(index, Labels({None: names}), [rows[name] for name in names])


def as_polars(rows: dict[str, Any]) -> Any:  # noqa: ANN401
    return pytest.importorskip("polars", reason="polars is not installed").DataFrame(rows)


def as_duckdb(rows: dict[str, Any]) -> Any:  # noqa: ANN401
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")
    table = pa.table(rows)
    return duckdb.from_arrow(table).to_arrow_table()


def as_records(rows: dict[str, Any]) -> Any:  # noqa: ANN401
    columns = {name: np.asarray(cells) for name, cells in rows.items()}
    records = np.empty(
        len(next(iter(columns.values()))), [(name, of.dtype) for name, of in columns.items()]
    )
    for name, of in columns.items():
        records[name] = of
    return records


FORMS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "dict of lists": dict,
    "dict of arrays": lambda rows: {name: np.asarray(cells) for name, cells in rows.items()},
    "structured array": as_records,
    "PyArrow table": pa.table,
    "PyArrow reader": lambda rows: pa.table(rows).to_reader(max_chunksize=2),
    "any stream": lambda rows: Stream(pa.table(rows)),
    "polars": as_polars,
    "DuckDB": as_duckdb,
    "pandas without PyArrow": as_pandas,
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_panel_of_the_csv(tmp_path: Path, form: str) -> None:
    expected = from_csv(tmp_path / "prices.csv", ROWS)
    panel = bc.Panel.from_frame(FORMS[form](ROWS))
    assert fingerprint(panel) == fingerprint(expected), panel
    assert panel.values.tobytes() == expected.values.tobytes()


NUMBERS = st.floats(0.01, 1e6)


# Random days do not tell how many a year has.
@pytest.mark.filterwarnings("ignore:the calendar of:UserWarning")
@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.integers(0, 40), st.sampled_from("ABC")), min_size=1, unique=True),
    st.data(),
)
def test_random_tables_are_equal_in_csv_arrays_and_streams(
    tmp_path: Path, keys: list[tuple[int, str]], data: st.DataObject
) -> None:
    price = np.array(data.draw(st.lists(NUMBERS, min_size=len(keys), max_size=len(keys))))
    days = np.array([day for day, _ in keys]).astype("datetime64[D]")
    rows = {"date": days, "tic": [ticker for _, ticker in keys], "open": price}
    rows |= {"high": price * 2, "low": price / 2, "close": price * 1.5, "volume": price * 0}
    text = rows | {"date": [str(day) for day in days]}
    panels = [
        from_csv(tmp_path / "prices.csv", text),
        bc.Panel.from_frame(rows),
        bc.Panel.from_frame(pa.table({name: pa.array(cells) for name, cells in rows.items()})),
    ]
    assert len({fingerprint(panel) for panel in panels}) == 1
    assert len({panel.values.tobytes() for panel in panels}) == 1


DATES: dict[str, Any] = {
    "datetime64[D]": np.array(DAYS, dtype="datetime64[D]"),
    "datetime64[ns]": np.array(DAYS, dtype="datetime64[ns]"),
    "datetime64[h]": np.array(DAYS, dtype="datetime64[h]"),
    "dates": [dt.date.fromisoformat(day) for day in DAYS],
    "datetimes": [dt.datetime.fromisoformat(day) for day in DAYS],
    "midnights of New York": [dt.datetime.fromisoformat(f"{day}T00:00-05:00") for day in DAYS],
    "integers": [20240103, 20240102, 20240103],
    "text": np.array(DAYS),
}


@pytest.mark.parametrize("kind", DATES)
def test_a_day_may_be_given_as(tmp_path: Path, kind: str) -> None:
    panel = bc.Panel.from_frame(ROWS | {"date": DATES[kind]})
    assert fingerprint(panel) == fingerprint(from_csv(tmp_path / "prices.csv", ROWS))


def test_known_names_may_be_written_in_another_case(tmp_path: Path) -> None:
    expected = fingerprint(from_csv(tmp_path / "prices.csv", ROWS))
    known = {"tic": "Symbol"}
    rows = {known.get(name, name if name == "rsi" else name.title()): ROWS[name] for name in ROWS}
    assert fingerprint(bc.Panel.from_frame(rows)) == expected
    renamed = {"Day" if name == "date" else name: cells for name, cells in ROWS.items()}
    assert fingerprint(bc.Panel.from_frame(renamed, columns={"Day": "date"})) == expected


def wide(first_level: str) -> Frame:
    """Make a frame like that of `yfinance.download`, in which B begins a day later."""
    nan = np.nan
    cells = {
        ("Close", "A"): [10.5, 11.5],
        ("Close", "B"): [nan, 21.0],
        ("High", "A"): [11.0, 12.0],
        ("High", "B"): [nan, 22.0],
        ("Low", "A"): [9.5, 10.0],
        ("Low", "B"): [nan, 19.0],
        ("Open", "A"): [10.0, 10.5],
        ("Open", "B"): [nan, 20.0],
        ("Volume", "A"): [1000, 1200],
        ("Volume", "B"): [nan, 0.0],
    }
    labels = [label if first_level == "Price" else label[::-1] for label in cells]
    columns = {"Price": [a for a, _ in labels], "Ticker": [b for _, b in labels]}
    index = Labels({"Date": np.array(["2024-01-02", "2024-01-03"], dtype="datetime64[ns]")})  # type: ignore[dict-item]
    return Frame(index, Labels(columns), list(cells.values()))  # type: ignore[arg-type]


@pytest.mark.parametrize("first_level", ["Price", "Ticker"])
def test_a_wide_frame_has_no_row_where_all_cells_are_missing(
    tmp_path: Path, first_level: str
) -> None:
    rows = {name: cells for name, cells in ROWS.items() if name != "rsi"}
    panel = bc.Panel.from_frame(wide(first_level))
    assert fingerprint(panel) == fingerprint(from_csv(tmp_path / "prices.csv", rows))


def test_a_wide_frame_of_closes_needs_the_name_of_its_field() -> None:
    both = wide("Price")
    closes = Frame(
        both.index,
        Labels({"Price": ["Close", "Close"], "Ticker": ["A", "B"]}),
        [[10.5, 11.5], [20.0, 21.0]],
    )
    panel = bc.Panel.from_frame(closes, derive=["high", "low", "volume", "open"])
    assert panel.tickers == ["A", "B"]
    bare = Frame(both.index, Labels({"Ticker": ["A", "B"]}), closes.cells)
    with pytest.raises(PanelError) as raised:
        bc.Panel.from_frame(bare)
    assert all(word in str(raised.value) for word in ('df[["Close"]]', "concat", "`derive`"))


def test_row_numbers_of_pandas_are_no_indicator(tmp_path: Path) -> None:
    numbered = ROWS | {"index": [0, 1, 2], "level_0": [7, 8, 9]}
    panel = bc.Panel.from_frame(numbered)
    assert panel.indicators == ["rsi"]
    assert fingerprint(panel) == fingerprint(from_csv(tmp_path / "prices.csv", numbered))
    kept = bc.Panel.from_frame(numbered, columns={"index": "rank"})
    assert kept.indicators == ["rsi", "rank"]
    # An index that holds the days is named.
    days = {"index" if name == "date" else name: cells for name, cells in ROWS.items()}
    with pytest.raises(PanelError, match=r'\{"index": "date"\}'):
        bc.Panel.from_frame(days)
    renamed = bc.Panel.from_frame(days, columns={"index": "date"})
    assert fingerprint(renamed) == fingerprint(bc.Panel.from_frame(ROWS))


def test_a_dataset_is_read_with_the_columns_of_its_folders(tmp_path: Path) -> None:
    dataset = pytest.importorskip("pyarrow.dataset", reason="PyArrow is not installed")
    table = pa.table(ROWS | {"year": [2024] * 3})
    folder = tmp_path / "run=1"
    dataset.write_dataset(
        table,
        folder,
        format="parquet",
        partitioning=["tic", "year"],
        partitioning_flavor="hive",
    )
    parts = dataset.dataset(folder, partitioning="hive")
    expected = fingerprint(bc.Panel.from_frame(ROWS))
    for frame in (parts, parts.scanner()):
        panel = bc.Panel.from_frame(frame, columns={"year": None})
        assert fingerprint(panel) == expected
    assert bc.Panel.from_frame(parts).indicators == ["rsi", "year"]
    with pytest.raises(PanelError, match=r"tic=.*partitioning=.hive"):
        bc.Panel.from_frame(dataset.dataset(folder))
    with pytest.raises(PanelError, match=r"partitioning=.hive"):
        bc.Panel.from_parquet(folder)
    # A folder around all files is no part of the dataset.
    one = dataset.dataset(folder / "tic=B")
    assert bc.Panel.from_frame(one, ticker="C").tickers == ["C"]


def test_a_wide_frame_whose_row_lacks_one_cell_is_refused_or_masked() -> None:
    frame = wide("Price")
    frame.cells[2] = [np.nan, 12.0]
    with pytest.raises(PanelError, match="High"):
        bc.Panel.from_frame(frame)
    assert bc.Panel.from_frame(frame, nan="mask").mask.tolist() == [[False, True], [False, True]]


def test_closes_alone_make_bars_that_know_no_later_price() -> None:
    rows = {"date": sorted({*DAYS, "2024-01-04"}), "close": [10.0, 12.0, 11.0]}
    panel = bc.Panel.from_frame(rows, ticker="BTC", derive=DERIVED)
    assert panel.tickers == ["BTC"]
    assert panel.mask.tolist() == [[False, True, True]]
    assert panel.values[0, 1:].tolist() == [[10, 12, 10, 12, 0], [12, 12, 11, 11, 0]]
    windows = panel.windows([2], [[1]], 1, 0)
    # The open of the day is the close before it, which the history shows too.
    assert windows["open"].item() == windows["history"][0, 0, 0, 3] == 12


def test_missing_numbers_of_every_kind_are_missing() -> None:
    for cells in (
        [61.0, None, 3.0],
        np.array([61.0, np.nan, 3.0]),
        np.ma.masked_array([61.0, 0.0, 3.0], mask=[False, True, False]),
    ):
        with pytest.raises(PanelError, match="row 1 "):
            bc.Panel.from_frame(ROWS | {"rsi": cells})
        assert bc.Panel.from_frame(ROWS | {"rsi": cells}, nan="mask").mask.sum() == 2


REFUSED: dict[str, tuple[Any, dict[str, Any], type[Exception], tuple[str, ...]]] = {
    "no table": (3, {}, ArgumentTypeError, ("int", "dict of columns")),
    "a series": (pa.chunked_array([[1.0]]), {}, PanelError, ("frame",)),
    "no columns": ({}, {}, PanelError, ("'date'",)),
    "two lengths": (ROWS | {"rsi": [1.0]}, {}, PanelError, ("'rsi'", "1", "3")),
    "two axes": (ROWS | {"rsi": [[1.0]] * 3}, {}, PanelError, ("'rsi'", "(3, 1)")),
    "booleans": (ROWS | {"rsi": [True] * 3}, {}, PanelError, ("'rsi'", "booleans")),
    "objects": (ROWS | {"rsi": [{}, 1, 2]}, {}, PanelError, ("'rsi'", "dict")),
    "durations": (ROWS | {"rsi": np.zeros(3, "m8[s]")}, {}, PanelError, ("'rsi'", "timedelta64")),
    "infinity": (ROWS | {"rsi": [1, np.inf, 1]}, {}, PanelError, ("row 1", "'rsi'")),
    "price": (ROWS | {"low": [10, -9.5, 19]}, {}, PanelError, ("row 1", "'low'", "-9.5")),
    "no day": (ROWS | {"date": np.array(["NaT"] * 3, "M8[D]")}, {}, PanelError, ("row 0",)),
    "twice": (ROWS | {"date": [DAYS[0]] * 3}, {}, PanelError, ("row 0", "row 1", "'A'")),
    "no tickers": ({k: v for k, v in ROWS.items() if k != "tic"}, {}, PanelError, ("'tic'",)),
    "two tickers": (ROWS, {"ticker": "A"}, PanelError, ("'tic'", "'A'")),
    "derived": (ROWS, {"derive": ["volume"]}, PanelError, ("'volume'",)),
    "derive": (ROWS, {"derive": ["close"]}, ArgumentError, ("'close'", "'volume'")),
    "derive is text": (ROWS, {"derive": "volume"}, ArgumentTypeError, ("'volume'",)),
    "ticker is a number": (ROWS, {"ticker": 3}, ArgumentTypeError, ("ticker", "3")),
}


@pytest.mark.parametrize("case", REFUSED)
def test_frames_that_make_no_panel_are_refused_with_what_is_wrong(case: str) -> None:
    frame, options, error, words = REFUSED[case]
    with pytest.raises(error) as raised:
        bc.Panel.from_frame(frame, **options)
    said = str(raised.value).replace('"', "'")
    assert all(word in said for word in words), said


def test_a_lazy_frame_says_to_collect_it() -> None:
    polars = pytest.importorskip("polars", reason="polars is not installed")
    with pytest.raises(ArgumentTypeError, match="collect"):
        bc.Panel.from_frame(polars.DataFrame(ROWS).lazy())


def test_a_stream_is_read_once_and_its_failure_is_an_error() -> None:
    batches = pa.table(ROWS).to_batches()

    def failing() -> Any:  # noqa: ANN401
        yield batches[0]
        raise RuntimeError("the source is gone")

    reader = pa.RecordBatchReader.from_batches(batches[0].schema, failing())
    with pytest.raises(PanelError, match="gone"):
        bc.Panel.from_frame(reader)
    spent = pa.table(ROWS).to_reader()
    bc.Panel.from_frame(spent)
    with pytest.raises((PanelError, pa.ArrowInvalid)):
        bc.Panel.from_frame(spent)
