"""The files of a snapshot, read by other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import backcast as bc
import numpy as np
import pytest
from saved_ring import append, flat, ring


def rows_of(buf: bc.ReplayBuffer) -> dict[str, np.ndarray[Any, Any]]:
    """Return all readable rows, lane by lane."""
    lanes = []
    for lane in range(buf.lanes):
        first, head = buf.lane_span(lane)
        rows = flat(buf.rows(lane, first, head - first))
        lanes.append({"lane": np.full(head - first, lane, np.uint32), **rows})
    return {name: np.concatenate([lane[name] for lane in lanes]) for name in lanes[0]}


@pytest.fixture
def saved(place: Path, tmp_path: Path) -> tuple[dict[str, np.ndarray[Any, Any]], list[str]]:
    """Save twice, which writes several files; return the rows and the files of the second save."""
    with ring(place, 60) as buf, buf.writer(2, "next_step") as writer:
        buf.snapshot("a", store=tmp_path)
        append(writer, 40, seed=3)
        buf.snapshot("b", store=tmp_path)
        listed = bc.list_snapshots("walk", store=tmp_path)
        return rows_of(buf), listed[-1]["files"]


def order(found: dict[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
    """Return rows in the order of lanes and sequence numbers."""
    by = np.lexsort((found["seq"], found["lane"]))
    return {name: values[by] for name, values in found.items()}


def check(found: dict[str, np.ndarray[Any, Any]], rows: dict[str, np.ndarray[Any, Any]]) -> None:
    """Assert that rows are equal to the bit, dtypes included."""
    assert list(found) == list(rows)
    for name, values in order(found).items():
        assert values.dtype == rows[name].dtype, name
        assert values.shape == rows[name].shape, name
        assert values.tobytes() == rows[name].tobytes(), name


def test_pyarrow_reads_the_rows(
    saved: tuple[dict[str, np.ndarray[Any, Any]], list[str]],
) -> None:
    pa = pytest.importorskip("pyarrow", reason="PyArrow is not installed")
    rows, files = saved
    assert len(files) > 1
    tables = []
    for file in files:
        with pa.memory_map(file) as mapped:
            tables.append(pa.ipc.open_file(mapped).read_all())
    table = pa.concat_tables(tables)
    table.validate(full=True)
    found = {}
    for name in table.column_names:
        column = table[name].combine_chunks()
        if isinstance(column, pa.ExtensionArray):
            found[name] = (
                column.to_numpy_ndarray()
                if column.type.value_type != pa.bool_()
                else (
                    column.storage.flatten()
                    .to_numpy(zero_copy_only=False)
                    .reshape(-1, *column.type.shape)
                )
            )
        else:
            found[name] = column.to_numpy(zero_copy_only=False)
    check(found, rows)


def test_polars_reads_the_rows(
    saved: tuple[dict[str, np.ndarray[Any, Any]], list[str]],
) -> None:
    pl = pytest.importorskip("polars", reason="Polars is not installed")
    rows, files = saved
    frame = pl.concat([pl.read_ipc(file) for file in files])
    found = {}
    for name in frame.columns:
        column = frame[name]
        if isinstance(column.dtype, pl.datatypes.BaseExtension):
            column = column.ext.storage()
        found[name] = np.asarray(column.to_numpy()).reshape(rows[name].shape)
    check(found, rows)


def test_duckdb_reads_the_rows(
    saved: tuple[dict[str, np.ndarray[Any, Any]], list[str]],
) -> None:
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")
    dataset = pytest.importorskip("pyarrow.dataset", reason="PyArrow is not installed")
    rows, files = saved
    rows = {name: values for name, values in rows.items() if values.dtype != np.float16}
    # DuckDB has no half floats. It scans the files through PyArrow, for which it downloads no
    # extension.
    walk = dataset.dataset(files, format="arrow").scanner(columns=list(rows))
    with duckdb.connect() as connection:
        connection.register("walk", walk)
        found = connection.sql("select * from walk order by lane, seq").fetchnumpy()
        for name, values in rows.items():
            column = found[name]
            if values.ndim > 1:
                column = np.asarray([np.asarray(row) for row in column])
            assert (
                np.asarray(column, values.dtype).reshape(values.shape).tobytes() == values.tobytes()
            )
        counted = (
            "select lane, count(*), max(seq) from walk where t > 0 group by lane order by lane"
        )
        expected = []
        for lane in np.unique(rows["lane"]):
            of = (rows["lane"] == lane) & (rows["t"] > 0)
            expected.append((int(lane), int(of.sum()), int(rows["seq"][of].max())))
        assert connection.sql(counted).fetchall() == expected
