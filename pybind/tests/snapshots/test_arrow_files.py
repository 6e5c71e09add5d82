"""The files of a snapshot are Arrow files, from which PyArrow reads the ring's rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import backcast as bc
import numpy as np
import pytest

pa = pytest.importorskip("pyarrow", reason="PyArrow is not installed")
compute = pytest.importorskip("pyarrow.compute", reason="PyArrow is not installed")
ipc = pytest.importorskip("pyarrow.ipc", reason="PyArrow is not installed")

COLUMNS = {
    "obs": {"pixels": ("u1", (2, 3)), "near": ("bool", (2,))},
    "action": "i4",
    "reward": "f8",
    "half": "f2",
    "safe": "bool",
}


def flat(rows: dict[str, Any], under: str = "") -> dict[str, np.ndarray[Any, Any]]:
    found: dict[str, np.ndarray[Any, Any]] = {}
    for name, values in rows.items():
        nested = isinstance(values, dict)
        found |= flat(values, f"{under}{name}/") if nested else {f"{under}{name}": values}
    return found


def test_pyarrow_reads_the_rows_of_the_ring(tmp_path: Path) -> None:
    draw = np.random.default_rng(3)
    made = bc.ReplayBuffer.create("pong", COLUMNS, capacity=400, lanes=2, dir=tmp_path)
    with made as buf, buf.writer(2, autoreset_mode="same_step") as writer:
        for step in range(150):
            obs = {"pixels": draw.integers(0, 255, (2, 2, 3)), "near": draw.random((2, 2)) < 0.5}
            writer.append(
                obs=obs,
                action=draw.integers(-9, 9, 2),
                reward=draw.normal(size=2),
                half=draw.normal(size=2),
                safe=draw.random(2) < 0.5,
                terminated=np.full(2, step % 7 == 6),
                truncated=np.zeros(2, bool),
                final_obs=obs,
            )
        buf.snapshot("a", store=tmp_path / "store")
        files = sorted((tmp_path / "store").rglob("*.arrow"))
        assert files
        table = pa.concat_tables(
            [ipc.open_file(pa.memory_map(str(file))).read_all() for file in files]
        )
        table.validate(full=True)
        for lane in range(2):
            first, head = buf.lane_span(lane)
            expected = flat(buf.rows(lane, first, head - first))
            part = table.filter(compute.equal(table["lane"], lane)).sort_by("seq")
            assert set(table.column_names) == {"lane", *expected}
            for name, values in expected.items():
                column = part[name].combine_chunks()
                assert column.null_count == 0
                if isinstance(column.type, pa.FixedShapeTensorType):
                    assert tuple(column.type.shape) == values.shape[1:]
                    column = column.storage.flatten()
                found = column.to_numpy(zero_copy_only=False)
                assert found.dtype == values.dtype, name
                np.testing.assert_array_equal(found, values.reshape(-1), err_msg=name)
