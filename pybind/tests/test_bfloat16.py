"""Columns of bfloat16: with `ml_dtypes`, and as bits without it."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path
from typing import Any

import backcast as bc
import numpy as np
import pytest
from backcast.errors import AppendError, BackcastError, ExistsError, SampleError, SchemaError

COLUMNS: dict[str, Any] = {
    "obs": ("f4", (2,)),
    "action": "i4",
    "reward": "f4",
    "state": ("bfloat16", (3,)),
}
# Float32 values that bfloat16 holds exactly, with infinities and a negative zero.
VALUES = np.array([[0.5 * t, -1.0 - t, 2.0**t] for t in range(12)], "f4")
VALUES[3] = [np.inf, -0.0, -np.inf]


def bits(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return (np.ascontiguousarray(values, "f4").view("u4") >> 16).astype("u2")


def filled(place: Path, states: Any) -> bc.ReplayBuffer:  # noqa: ANN401
    place.mkdir(exist_ok=True)
    buf = bc.ReplayBuffer.create("walk", COLUMNS, capacity=100, dir=place)
    with buf.writer() as writer:
        for t, state in enumerate(states):
            writer.append(
                obs=[t, 0], action=t, reward=1, state=state, terminated=False, truncated=False
            )
    return buf


def state_bits(buf: bc.ReplayBuffer) -> np.ndarray[Any, Any]:
    first, head = buf.lane_span(0)
    rows = buf.rows(0, first, head - first)
    found: np.ndarray[Any, Any] = rows["state"].view("u2")
    return found


def test_bits_go_in_and_out_of_every_reader(tmp_path: Path) -> None:
    with filled(tmp_path, bits(VALUES)) as buf:
        assert buf.schema.columns["state"] == ("bfloat16", (3,), "obs")
        assert (
            buf.schema.row_bytes
            - bc.Schema(
                {name: column for name, column in COLUMNS.items() if name != "state"}
            ).row_bytes
            == 6
        )
        found = state_bits(buf)
        assert found.shape == (12, 3)
        np.testing.assert_array_equal(found, bits(VALUES))
        sampler = buf.sampler(seed=3)
        batch = sampler.sample(16)
        for item, index in enumerate(batch["index"]):
            np.testing.assert_array_equal(batch["state"][item].view("u2"), found[index % 2**48])
        again = sampler.gather(batch["index"])
        assert again["state"].tobytes() == batch["state"].tobytes()
        drawn = buf.sampler(seed=3, copy=True).sample(16)
        mine: dict[str, Any] = {"state": np.zeros(drawn["state"].shape, "u2")}
        buf.sampler(seed=3, copy=True).sample(16, out=mine)
        np.testing.assert_array_equal(mine["state"], drawn["state"].view("u2"))
        with buf.lease(0, 0, 10) as rows:
            np.testing.assert_array_equal(rows["state"].view("u2"), found[:10])


def test_many_steps_and_rows_in_place_take_bits() -> None:
    with bc.ReplayBuffer.create(None, {"obs": "bfloat16"}, capacity=40) as buf:
        ends = np.zeros(5, bool)
        with buf.writer() as writer:
            writer.extend(obs=bits(VALUES[:5, 0]), terminated=ends, truncated=ends)
            with writer.reserve() as row:
                row["obs"].view("u2")[...] = 0x3F80
            with writer.reserve() as row:
                row["obs"] = np.uint16(0x4000)
        rows = buf.rows(0, 0, 7)["obs"].view("u2")
        np.testing.assert_array_equal(rows, [*bits(VALUES[:5, 0]), 0x3F80, 0x4000])


def test_a_column_of_another_type_is_another_ring(tmp_path: Path) -> None:
    with filled(tmp_path, bits(VALUES)):
        other = {**COLUMNS, "state": ("u2", (3,))}
        with pytest.raises(ExistsError, match="bfloat16"):
            bc.ReplayBuffer.create("walk", other, capacity=100, dir=tmp_path, exist="attach")


def test_files_keep_the_bits(tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet", reason="PyArrow is not installed")
    with filled(tmp_path, bits(VALUES)) as buf:
        expected = state_bits(buf)
        buf.export(tmp_path / "walk.parquet")
        column = pq.read_table(tmp_path / "walk.parquet")["state"].combine_chunks()
        column = getattr(column, "storage", column)
        assert str(column.type.value_type) == "uint16"
        np.testing.assert_array_equal(column.flatten().to_numpy(), expected.reshape(-1))
        with bc.ReplayBuffer.from_file(tmp_path / "walk.parquet", "again", dir=tmp_path) as again:
            assert again.schema == buf.schema
            np.testing.assert_array_equal(state_bits(again), expected)
        buf.export(tmp_path / "walk.csv")
        with (tmp_path / "walk.csv").open(newline="") as file:
            lines = list(csv.DictReader(file))
        found = [[float(line[f"state[{at}]"]) for at in range(3)] for line in lines]
        np.testing.assert_array_equal(bits(np.array(found, "f4")), expected)
        with pytest.raises(SchemaError, match=r"`state`.*\bbfloat16\b"):
            buf.export(tmp_path / "walk-v0")
        assert not (tmp_path / "walk-v0").exists()
        buf.snapshot("now", store=tmp_path / "saved")
        with bc.ReplayBuffer.load(
            "walk@now", "loaded", store=tmp_path / "saved", dir=tmp_path
        ) as loaded:
            assert loaded.schema == buf.schema
            np.testing.assert_array_equal(state_bits(loaded), expected)


def test_arrays_of_two_bytes_without_a_meaning_are_refused_with_a_way_out(tmp_path: Path) -> None:
    path = tmp_path / "steps.npz"
    steps: dict[str, Any] = {"actions": np.zeros(4, "i4"), "rewards": np.zeros(4, "f4")}
    state = bits(VALUES[:4])
    np.savez(path, observations=state.view("V2"), terminals=np.zeros(4, bool), **steps)
    with pytest.raises(BackcastError, match=r"V2.*view\(\"u2\"\)"):
        bc.ReplayBuffer.from_file(path, "steps", dir=tmp_path)
    np.savez(path, observations=state, terminals=np.array([0, 0, 0, 1], bool), **steps)
    with bc.ReplayBuffer.from_file(path, "steps", dir=tmp_path) as buf:
        assert buf.schema.columns["obs"][0] == "u2"


def test_numbers_are_rounded_where_ml_dtypes_is_installed(tmp_path: Path) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
    bfloat16 = np.dtype(ml_dtypes.bfloat16)
    assert bc.Schema({"obs": bfloat16}) == bc.Schema({"obs": "bfloat16"})
    assert bc.Schema({"obs": ml_dtypes.bfloat16}) == bc.Schema({"obs": "bfloat16"})
    odd = np.array([0.1, 1.001, 3e38], "f4")
    for number, given in enumerate(
        [odd, odd.astype("f8"), odd.astype(bfloat16), odd.tolist(), odd.astype(bfloat16).view("u2")]
    ):
        with filled(tmp_path / str(number), [given] * 2) as buf:
            found = buf.rows(0, 0, 2)["state"]
            assert found.dtype == bfloat16
            assert found.tobytes() == np.stack([odd.astype(bfloat16)] * 2).tobytes()
            batch = buf.sampler(seed=1).sample(4)
            assert batch["state"].dtype == bfloat16
    with pytest.raises(AppendError, match=r"\bbfloat16\b"):
        filled(tmp_path, [[1.0, 3.4e38, 0.0]])
    with pytest.raises(AppendError, match=r"<U1.*\bbfloat16\b"):
        filled(tmp_path / "text", [["a", "b", "c"]])
    with pytest.raises(AppendError, match=r"\|V2.*\bbfloat16\b.*view\(\"u2\"\)"):
        filled(tmp_path / "void", [odd.astype(bfloat16).view("V2")])


@pytest.mark.parametrize("code", ["bool", "u1", "u2", "i4", "f2", "f4", "f8"])
def test_bfloat16_for_a_column_of_another_type_is_refused_with_the_conversion(code: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
    given = np.array([1, 0], ml_dtypes.bfloat16)
    with (
        bc.ReplayBuffer.create(None, {"obs": (code, (2,))}, capacity=10) as buf,
        buf.writer() as writer,
    ):
        with pytest.raises(AppendError) as raised:
            writer.append(obs=given, terminated=False, truncated=False)
        said = str(raised.value)
        assert "bfloat16" in said
        assert f'array.astype("{code}")' in said
        assert ('array.view("u2")' in said) == (code == "u2")
        writer.append(obs=given.astype(code), terminated=False, truncated=False)


def test_arrays_to_fill_name_bfloat16_and_what_serves_for_it(tmp_path: Path) -> None:
    with filled(tmp_path, bits(VALUES)) as buf:
        mine: dict[str, Any] = {"state": np.zeros((4, 3), "f4")}
        with pytest.raises(SampleError, match=r"\bfloat32\b.*\b4\b.*\b3\b.*\bbfloat16\b"):
            buf.sampler(seed=3, copy=True).sample(4, out=mine)
    with (
        bc.Params.create(None, {"w": np.zeros(3, "f4"), "b": np.zeros(3, "i8")}) as params,
        pytest.raises(SchemaError, match=r"`b`.*\bfloat32\b.*\bint64\b.*array\.astype\(\"i8\""),
    ):
        params.publish({"w": np.zeros(3, "f4"), "b": np.zeros(3, "f4")})


WITHOUT = """
import sys
sys.modules["ml_dtypes"] = None
import numpy as np, backcast as bc
with bc.ReplayBuffer.create(None, {"obs": ("bfloat16", (2,))}, capacity=10) as buf:
    with buf.writer() as writer:
        writer.append(obs=np.array([0x3f80, 0x4000], "u2"), terminated=False, truncated=False)
        for given in ([1.0, 2.0], np.zeros(2, "f4"), [1, 2]):
            try:
                writer.append(obs=given, terminated=False, truncated=False)
            except bc.errors.AppendError as error:
                print(error)
    rows = buf.rows(0, 0, 1)["obs"]
    print(rows.dtype, rows.tolist())
"""


def test_without_ml_dtypes_rows_are_bits_and_numbers_are_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True, timeout=60
    )
    *refused, shown = done.stdout.splitlines()
    assert shown == "uint16 [[16256, 16384]]"
    assert len(refused) == 3
    for line, got in zip(refused, ("float64", "float32", "int64"), strict=True):
        assert f"got {got} values where bfloat16 is wanted" in line
        assert '.view("u4") >> 16).astype("u2")' in line
        assert "uint16" in line
        assert "ml_dtypes" in line
