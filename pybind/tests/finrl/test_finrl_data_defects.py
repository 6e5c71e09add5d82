"""Regression tests of defects of FastFinRL in how it reads a market.

Each test would fail on the defect. Numbers are those of one list of FastFinRL's defects, which the
other files of defects share.
"""

from __future__ import annotations

from datetime import date
from pathlib import Path

import backcast as bc
import pytest
from finrl_defects import vec
from finrl_market import COLUMNS


def test_defect_14_empty_cells_of_a_csv_are_never_numbers(tmp_path: Path) -> None:
    rows = ["date,tic,open,high,low,close,volume,x"]
    rows += [f"2020-01-{day:02},AAA,{day},9,1,{day},100,{day}" for day in range(1, 9)]
    cut = rows.copy()
    cut[4] = "2020-01-04,AAA,4,9,1,,100,4"
    trailing = rows.copy()
    trailing[4] = "2020-01-04,AAA,4,9,1,4,100,"
    short = rows.copy()
    short[4] = "2020-01-04,AAA,4,9,1,4,100"
    path = tmp_path / "holes.csv"
    for lines, column in [(cut, "close"), (trailing, "x"), (short, "")]:
        path.write_text("\n".join(lines) + "\n")
        with pytest.raises(bc.errors.PanelError, match=rf"\b5\b.*\b{column}\b"):
            vec(path)
    others = [line.replace("AAA", "BBB") for line in rows[1:]]
    path.write_text("\n".join(trailing + others) + "\n")
    env = vec(path, panel_options={"nan": "mask"})
    assert env.get_market_window_numpy(["AAA"], 5, 3)["AAA"]["past_mask"].tolist() == [1, 0, 1]
    assert env.get_raw_value("AAA", 4, "x") == 5, "later rows stay where they are"
    path.write_text("\n".join(rows).replace("2020-01-", "2020-1-") + "\n")
    with pytest.raises(bc.errors.PanelError, match="date"):
        vec(path)


def test_defect_15_parquet_of_any_type_is_read_right_or_refused(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow", reason="PyArrow is not installed")
    parquet = pytest.importorskip("pyarrow.parquet", reason="PyArrow is not installed")
    days = 8
    table = {
        "date": arrow.array(
            [f"2020-01-{day:02}" for day in range(1, days + 1)], arrow.large_string()
        ),
        "tic": arrow.array(["AAA"] * days).dictionary_encode(),
        **{name: arrow.array(range(1, days + 1), arrow.int32()) for name in COLUMNS},
    }
    path = tmp_path / "market.parquet"
    parquet.write_table(arrow.table(table), path)
    env = vec(path)
    assert (env.get_all_tickers(), env.get_max_day()) == (["AAA"], days)
    assert env.get_raw_value("AAA", 2, "close") == 3
    # A null read as 0 would be refused as a price, but not as an indicator.
    for column in ("close", "zeta"):
        with_null = arrow.array([1, 2, None, 4, 5, 6, 7, 8], arrow.float64())
        parquet.write_table(arrow.table(table | {column: with_null}), path)
        with pytest.raises(bc.errors.PanelError, match=rf'\b2\b.*"{column}".*"null"'):
            vec(path)
        assert vec(path, panel_options={"nan": "mask"}).get_max_day() == days


@pytest.mark.parametrize("kind", ["date32", "timestamp", "dictionary", "int64"])
def test_defect_15_days_and_numbers_of_parquet_are_never_empty(tmp_path: Path, kind: str) -> None:
    arrow = pytest.importorskip("pyarrow", reason="PyArrow is not installed")
    parquet = pytest.importorskip("pyarrow.parquet", reason="PyArrow is not installed")
    days = [date(2020, 1, day) for day in range(1, 9)]
    dates = {
        "date32": arrow.array(days, arrow.date32()),
        "timestamp": arrow.array(days, arrow.date32()).cast(arrow.timestamp("us")),
        "dictionary": arrow.array([str(day) for day in days]).dictionary_encode(),
        "int64": arrow.array([int(day.strftime("%Y%m%d")) for day in days]),
    }
    numbers = arrow.array(range(1, 9), arrow.uint16())
    table = {"date": dates[kind], "tic": arrow.array(["AAA"] * 8, arrow.large_string())}
    table |= dict.fromkeys(COLUMNS, numbers)
    path = tmp_path / "market.parquet"
    parquet.write_table(arrow.table(table), path)
    env = vec(path)
    assert (env.get_all_tickers(), env.get_max_day()) == (["AAA"], 8)
    assert [env.get_raw_value("AAA", 6, key) for key in ("close", "zeta")] == [7, 7]
    parquet.write_table(arrow.table(table | {"zeta": arrow.array([True, False] * 4)}), path)
    with pytest.raises(bc.errors.PanelError, match='"zeta"'):
        vec(path)
