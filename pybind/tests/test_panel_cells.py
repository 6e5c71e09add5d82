"""Cells of tables in memory that make no panel: refused, and never read as something else."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable
from typing import Any, Literal

import backcast as bc
import numpy as np
import pytest
from backcast.errors import PanelError

DAYS = ["2024-01-02", "2024-01-03", "2024-01-04"]
CLOSES = [10.0, 11.0, 12.0]
DERIVED: tuple[Literal["open", "high", "low", "volume"], ...] = ("open", "high", "low", "volume")
POLICIES: tuple[Literal["refuse", "mask"], ...] = ("refuse", "mask")
UNITS = ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns")


def panel_of(frame: Any, nan: Literal["refuse", "mask"] = "refuse") -> bc.Panel:  # noqa: ANN401
    return bc.Panel.from_frame(frame, derive=DERIVED, nan=nan)


def load(*, nan: Literal["refuse", "mask"] = "refuse", **columns: Any) -> bc.Panel:  # noqa: ANN401
    return panel_of({"date": DAYS, "tic": ["A"] * 3, "close": CLOSES} | columns, nan)


def objects(*cells: Any) -> np.ndarray[Any, Any]:  # noqa: ANN401
    array = np.empty(len(cells), object)
    array[:] = cells
    return array


def masked(cells: Any, *rows: int) -> np.ma.MaskedArray[Any, Any]:  # noqa: ANN401
    array = np.asarray(cells)
    return np.ma.masked_array(array, mask=[row in rows for row in range(len(array))])


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("order", ["<", ">"])
def test_dates_of_either_byte_order_are_the_same_days(unit: str, order: str) -> None:
    days = np.array(["2021-01-01", "2022-01-01", "2023-01-01"], f"M8[{unit}]")
    expected = days.astype("M8[D]").astype(str).tolist()
    assert load(date=days.astype(f"{order}M8[{unit}]")).dates == expected
    # Every second cell of an array is no contiguous memory.
    spaced = np.repeat(days.astype(f"{order}M8[{unit}]"), 2)[::2]
    assert load(date=spaced).dates == expected


@pytest.mark.parametrize("unit", UNITS[:6])
@pytest.mark.parametrize("count", [2**62, -(2**62) + 5, 2**55 + 1, 2**63 - 1])
def test_dates_beyond_the_range_of_numpy_are_refused_with_their_row(unit: str, count: int) -> None:
    days = np.array(DAYS, f"M8[{unit}]")
    days.view(np.int64)[1] = count
    with pytest.raises(PanelError, match="row 1 "):
        load(date=days)


def test_a_day_that_wraps_to_a_day_of_the_calendar_is_refused() -> None:
    hours = np.array(DAYS, "M8[h]")
    # 3600 of them are 2**68 s more, which 64 bits do not hold.
    hours.view(np.int64)[2] += 2**60
    seconds = hours.astype("M8[s]")
    assert str(seconds[2]) == "2024-01-04T00:00:00"
    with pytest.raises(PanelError, match="row 2 "):
        load(date=hours)


NO_NUMBERS: dict[str, Any] = {
    "text of a number": objects("1.5", 2.0, 3.0),
    "text of a NaN": objects("nan", 2.0, 3.0),
    "text beside a missing cell": objects("1.5", None, 3.0),
    "bytes": objects(b"1.5", b"2.0", b"3.0"),
    "booleans": objects(True, True, True),
    "a boolean among numbers": objects(True, 2, 3),
    "a boolean of NumPy": objects(np.True_, 2.0, 3.0),
    "complex numbers": objects(np.complex128(1 + 1j), 2.0, 3.0),
    "masked booleans": masked([True, True, True], 1),
    "masked durations": masked(np.ones(3, "m8[ns]"), 1),
    "masked complex numbers": masked([1j, 2j, 3j], 1),
}


@pytest.mark.parametrize("case", NO_NUMBERS)
def test_objects_that_are_no_numbers_are_refused(case: str) -> None:
    for nan in POLICIES:
        with pytest.raises(PanelError, match="rsi"):
            load(rsi=NO_NUMBERS[case], nan=nan)


def test_objects_that_are_numbers_are_read_as_such() -> None:
    cells = objects(decimal.Decimal("1.5"), np.float32(2.5), 3)
    assert load(rsi=cells).values[0, 1:, 5].tolist() == [2.5, 3.0]
    assert load(rsi=objects(1, np.int64(2), 3)).values[0, 1:, 5].tolist() == [2.0, 3.0]
    assert load(rsi=objects(1, np.nan, 3), nan="mask").mask.tolist() == [[False, False, True]]


WHOLE: dict[str, Callable[[], dict[str, Any]]] = {
    "text": lambda: {"date": masked(DAYS), "tic": masked(["A"] * 3)},
    "bytes": lambda: {"date": masked(np.array(DAYS, "S")), "tic": np.array(["A"] * 3, "S")},
    "days": lambda: {"date": masked(np.array(DAYS, "M8[D]"))},
    "instants": lambda: {"date": masked(np.array(DAYS, ">M8[ns]"))},
    "objects": lambda: {"date": masked(objects(*map(dt.date.fromisoformat, DAYS)))},
    "numbers": lambda: {"close": masked(np.array(CLOSES, np.int32))},
    "floats": lambda: {"close": masked(np.array(CLOSES, ">f4"))},
}


@pytest.mark.parametrize("case", WHOLE)
def test_masked_arrays_without_a_masked_cell_are_read_as_their_cells(case: str) -> None:
    found = load(**WHOLE[case]())
    assert found.describe()["fingerprint"] == load().describe()["fingerprint"]
    numbers = load(tic=masked([7, 7, 7]))
    assert numbers.tickers == ["7"]


@pytest.mark.parametrize("dtype", ["M8[D]", ">M8[s]", "U10", "S10", "O"])
def test_a_masked_date_is_a_missing_one(dtype: str) -> None:
    with pytest.raises(PanelError, match="row 1 "):
        load(date=masked(np.array(DAYS, dtype), 1))


@pytest.mark.parametrize("dtype", [">f4", "i8", "u2", "O"])
def test_a_masked_number_is_a_missing_one(dtype: str) -> None:
    rsi = masked(np.array([1, 2, 3], dtype), 1)
    assert load(rsi=rsi, nan="mask").mask.tolist() == [[False, False, True]]
    with pytest.raises(PanelError, match="row 1 "):
        load(rsi=rsi)


NO_TEXT: dict[str, Any] = {
    "bytes beyond ASCII": np.array([b"A", b"\xff", b"A"]),
    "masked bytes beyond ASCII": masked(np.array([b"A", b"\xff", b"A"]), 0),
    "a lone surrogate": np.array(["A", "\ud800", "A"]),
    "masked records": masked(np.zeros(3, [("a", "i8"), ("b", "f8")]), 1),
}


@pytest.mark.parametrize("case", NO_TEXT)
def test_cells_that_are_no_text_are_refused_with_their_column(case: str) -> None:
    with pytest.raises(PanelError, match="tic"):
        load(tic=NO_TEXT[case])


class Answers:
    """An object whose `__arrow_c_stream__` returns what it was given."""

    def __init__(self, answer: Any) -> None:  # noqa: ANN401
        self.answer = answer

    def __arrow_c_stream__(self, _requested: Any = None) -> Any:  # noqa: ANN401
        return self.answer


def test_an_object_that_gives_no_arrow_stream_is_refused() -> None:
    for answer in (None, [], [("close", "float", CLOSES)], vars(dt)["datetime_CAPI"]):
        with pytest.raises(PanelError, match="frame"):
            panel_of(Answers(answer))


def test_null_rows_of_a_stream_are_refused() -> None:
    pa = pytest.importorskip("pyarrow", reason="PyArrow is not installed")
    columns = [pa.array(DAYS), pa.array(["A"] * 3), pa.array(CLOSES)]
    names = ["date", "tic", "close"]

    def rows(*null: int) -> Any:  # noqa: ANN401
        mask = pa.array([row in null for row in range(3)])
        return pa.StructArray.from_arrays(columns, names=names, mask=mask)

    whole = panel_of(pa.chunked_array([rows()]))
    assert whole.describe()["fingerprint"] == load().describe()["fingerprint"]
    # Null rows outside a slice are no rows of it.
    assert panel_of(pa.chunked_array([rows(0).slice(1)])).dates == DAYS[1:]
    refused = ([rows(1)], [rows(1).slice(1)], [rows().slice(0, 1), rows(2).slice(1)])
    for chunks in refused:
        for nan in POLICIES:
            with pytest.raises(PanelError, match="null"):
                panel_of(pa.chunked_array(chunks), nan)
