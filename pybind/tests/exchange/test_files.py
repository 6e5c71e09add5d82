"""Rings exported to files that other programs read, and rings imported from files."""

from __future__ import annotations

import copy
import csv
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import backcast as bc
import gymnasium as gym
import numpy as np
import pytest
from backcast.errors import (
    ArgumentError,
    ArgumentTypeError,
    CorruptError,
    ExistsError,
    SchemaError,
    StorageError,
)

pa = pytest.importorskip("pyarrow", reason="PyArrow is not installed")
pq = pytest.importorskip("pyarrow.parquet", reason="PyArrow is not installed")

COLUMNS = {
    "obs": {"image": ("u1", (2, 3)), "speed": "f4"},
    "action": "i8",
    "reward": "f4",
    "half": ("f2", (2,)),
    "flag": "bool",
}


@pytest.fixture
def buf(tmp_path: Path) -> Iterator[bc.ReplayBuffer]:
    """Yield a ring of two lanes, each with a terminated, a truncated and a running episode."""
    made = bc.ReplayBuffer.create("walk", COLUMNS, capacity=200, lanes=2, dir=tmp_path)
    draw = np.random.default_rng(3)
    with made.writer(2, autoreset_mode="same_step") as writer:
        for step in range(17):
            obs = {"image": draw.integers(0, 255, (2, 2, 3)), "speed": draw.normal(size=2)}
            ends = {"terminated": step == 4, "truncated": step == 11}
            writer.append(
                obs=obs,
                action=draw.integers(0, 4, 2),
                reward=draw.normal(size=2),
                half=draw.normal(size=(2, 2)),
                flag=draw.random(2) < 0.5,
                **{name: np.full(2, end) for name, end in ends.items()},
                final_obs={name: values + 1 for name, values in obs.items()},
            )
    with made:
        yield made


def rows_of(buf: bc.ReplayBuffer, lane: int) -> dict[str, Any]:
    first, head = buf.lane_span(lane)
    return buf.rows(lane, first, head - first)


def flat(rows: dict[str, Any], under: str = "") -> dict[str, np.ndarray[Any, Any]]:
    found: dict[str, np.ndarray[Any, Any]] = {}
    for name, values in rows.items():
        nested = isinstance(values, dict)
        found |= flat(values, f"{under}{name}/") if nested else {f"{under}{name}": values}
    return found


def test_a_table_is_read_by_arrow_and_comes_back(buf: bc.ReplayBuffer, tmp_path: Path) -> None:
    path = tmp_path / "walk.parquet"
    report = buf.export(path)
    table = pq.read_table(path)
    assert report["rows"] == table.num_rows == 38
    assert report["bytes"] == path.stat().st_size
    assert table.schema.names[:5] == ["lane", "seq", "episode", "t", "flags"]
    lane = table["lane"].to_numpy()
    for number in range(2):
        expected = flat(rows_of(buf, number))
        part = table.filter(pa.array(lane == number))
        for name in table.schema.names[1:]:
            column = part[name].combine_chunks()
            if isinstance(column, pa.ExtensionArray):
                column = column.storage
            found = column.flatten() if pa.types.is_fixed_size_list(column.type) else column
            values = found.to_numpy(zero_copy_only=False)
            np.testing.assert_array_equal(values, expected[name].reshape(-1), err_msg=name)
    with bc.ReplayBuffer.from_file(path, "again", dir=tmp_path) as again:
        assert again.schema == buf.schema
        for number in range(2):
            for name, values in flat(rows_of(again, number)).items():
                np.testing.assert_array_equal(values, flat(rows_of(buf, number))[name])
        same = [ring.sampler(seed=5).sample(32) for ring in (buf, again)]
        np.testing.assert_array_equal(same[0].index, same[1].index)
        again.export(tmp_path / "twice.parquet")
    assert (tmp_path / "twice.parquet").read_bytes() == path.read_bytes()


def test_text_has_a_line_per_row(buf: bc.ReplayBuffer, tmp_path: Path) -> None:
    path = tmp_path / "walk.csv"
    buf.export(path)
    with path.open(newline="") as file:
        lines = list(csv.DictReader(file))
    rows = flat(rows_of(buf, 0))
    assert len(lines) == 38
    for at, line in enumerate(lines[: len(rows["seq"])]):
        assert int(line["flags"]) == rows["flags"][at]
        assert np.float32(line["obs/speed"]) == rows["obs/speed"][at]
        assert int(line["obs/image[1,2]"]) == rows["obs/image"][at, 1, 2]
        assert (line["flag"] == "true") == rows["flag"][at]


def test_a_dataset_is_loaded_by_minari(buf: bc.ReplayBuffer, tmp_path: Path) -> None:
    minari = pytest.importorskip("minari", reason="Minari is not installed")
    report = buf.export(tmp_path / "walk-v0")
    dataset = minari.MinariDataset(tmp_path / "walk-v0" / "data")
    # The last episode of each lane is running: its newest row is no step yet.
    assert (dataset.total_episodes, dataset.total_steps) == (report["episodes"], 32)
    assert isinstance(dataset.action_space, gym.spaces.Discrete)
    rows = flat(rows_of(buf, 0))
    first = next(iter(dataset.iterate_episodes()))
    np.testing.assert_array_equal(first.observations["image"], rows["obs/image"][:6])
    np.testing.assert_array_equal(first.observations["speed"], rows["obs/speed"][:6])
    np.testing.assert_array_equal(first.actions, rows["action"][:5])
    np.testing.assert_array_equal(first.rewards, rows["reward"][:5])
    assert first.terminations.tolist() == [False] * 4 + [True]
    np.testing.assert_array_equal(np.asarray(first.infos["flag"])[:5], rows["flag"][:5])
    ends = [episode.truncations[-1] for episode in dataset.iterate_episodes()]
    assert ends == [False, True, True] * 2


def test_a_dataset_that_minari_wrote_becomes_a_ring(tmp_path: Path) -> None:
    minari = pytest.importorskip("minari", reason="Minari is not installed")
    collector = pytest.importorskip("minari.data_collector", reason="Minari is not installed")
    draw = np.random.default_rng(0)
    spaces = {
        "observation_space": gym.spaces.Dict(
            {"x": gym.spaces.Box(-1, 1, (3,), np.float32), "n": gym.spaces.Discrete(5)}
        ),
        "action_space": gym.spaces.Box(-1, 1, (2,), np.float32),
    }
    episodes = []
    for number, steps in enumerate([4, 7]):
        episodes.append(
            collector.EpisodeBuffer(
                id=number,
                observations={
                    "x": draw.uniform(-1, 1, (steps + 1, 3)).astype(np.float32),
                    "n": draw.integers(0, 5, steps + 1),
                },
                actions=draw.uniform(-1, 1, (steps, 2)).astype(np.float32),
                rewards=list(draw.normal(size=steps)),
                terminations=[False] * (steps - 1) + [number == 0],
                truncations=[False] * (steps - 1) + [number == 1],
            )
        )
    storage = minari.dataset.minari_storage.MinariStorage.new(
        folder := _made(tmp_path / "theirs"), data_format="parquet", **spaces
    )
    storage.update_episodes(episodes)
    with bc.ReplayBuffer.from_file(folder, "theirs", "minari", dir=tmp_path) as ring:
        rows = ring.rows(0, 0, 13)
        assert len(ring) == 11
        wanted = np.concatenate([episode.observations["x"] for episode in episodes])
        np.testing.assert_array_equal(rows["obs"]["x"], wanted)
        np.testing.assert_array_equal(rows["action"][:4], episodes[0].actions)
        assert rows["flags"].tolist() == [0, 0, 0, 1, 4, 0, 0, 0, 0, 0, 0, 2, 4]


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_arrays_that_numpy_saved_become_a_ring(tmp_path: Path) -> None:
    draw = np.random.default_rng(1)
    steps: dict[str, Any] = {
        "observations": draw.normal(size=(10, 3)).astype(np.float32),
        "actions": draw.integers(0, 3, 10),
        "rewards": draw.normal(size=10),
        "terminals": np.arange(10) % 5 == 4,
        "next_observations": draw.normal(size=(10, 3)).astype(np.float32),
    }
    np.savez_compressed(tmp_path / "steps.npz", **steps)
    with bc.ReplayBuffer.from_file(tmp_path / "steps.npz", "steps", dir=tmp_path) as ring:
        assert len(ring) == 10
        assert ring.imported is not None
        # No two steps are consecutive, and only two ends are stored.
        assert (ring.imported["episodes"], ring.imported["episodes_cut"]) == (10, 8)
        lone = ring.gather(np.arange(0, 20, 2))
        np.testing.assert_array_equal(lone["obs"], steps["observations"])
        np.testing.assert_array_equal(lone["next_obs"], steps["next_observations"])
        assert lone["terminated"].tolist() == steps["terminals"].tolist()
        assert lone["truncated"].tolist() == (~steps["terminals"]).tolist()
    # Consecutive steps of two episodes.
    walk = draw.normal(size=(2, 6, 3)).astype(np.float32)
    steps["observations"] = walk[:, :-1].reshape(10, 3)
    steps["next_observations"] = walk[:, 1:].reshape(10, 3)
    np.savez_compressed(tmp_path / "steps.npz", **steps)
    with bc.ReplayBuffer.from_file(
        tmp_path / "steps.npz", "steps", dir=tmp_path, exist="replace"
    ) as ring:
        assert ring.imported is not None
        assert (ring.imported["episodes"], ring.imported["episodes_cut"]) == (2, 0)
        batch = ring.gather([0, 4, 6])
        np.testing.assert_array_equal(batch["obs"], steps["observations"][[0, 4, 5]])
        np.testing.assert_array_equal(batch["next_obs"][1], steps["next_observations"][4])
        assert batch["terminated"].tolist() == [False, True, False]


WRITTEN = '"parquet".*"csv".*"minari"'
READ = '"parquet".*"minari".*"npz"'


@pytest.mark.parametrize(
    ("name", "arguments", "error", "words"),
    [
        ("x", {"format": "xlsx"}, ArgumentError, rf"\bformat\b.*'xlsx'.*{WRITTEN}"),
        ("x", {"format": 7}, ArgumentTypeError, rf"\bformat\b.*\b7\b.*{WRITTEN}"),
        ("x.xlsx", {}, ArgumentError, rf"x.xlsx.*format={WRITTEN}"),
        ("x.npz", {}, ArgumentError, r"\bnpz\b"),
        ("no/folder/x.csv", {}, StorageError, r"x\.csv"),
        ("taken.csv", {}, ExistsError, r"taken\.csv"),
    ],
)
def test_impossible_exports_say_why(
    buf: bc.ReplayBuffer,
    tmp_path: Path,
    name: str,
    arguments: dict[str, Any],
    error: type[Exception],
    words: str,
) -> None:
    (tmp_path / "taken.csv").touch()
    before = sorted(tmp_path.iterdir())
    with pytest.raises(error, match=words):
        buf.export(tmp_path / name, **arguments)
    assert sorted(tmp_path.iterdir()) == before


def test_failed_imports_leave_no_ring(buf: bc.ReplayBuffer, tmp_path: Path) -> None:
    path = tmp_path / "walk.parquet"
    buf.export(path)
    whole = path.read_bytes()
    rings = len(bc.list_objects(dir=tmp_path))
    for bytes_, error in [
        (whole[:-10], CorruptError),
        (b"", CorruptError),
        (whole[: len(whole) // 2] + whole[len(whole) // 2 + 1 :], CorruptError),
    ]:
        path.write_bytes(bytes_)
        with pytest.raises(error, match=r"walk\.parquet"):
            bc.ReplayBuffer.from_file(path, "new", dir=tmp_path)
    path.write_bytes(whole)
    with pytest.raises(ExistsError, match="`walk`"):
        bc.ReplayBuffer.from_file(path, "walk", dir=tmp_path)
    with pytest.raises(ArgumentError, match=rf"\bformat\b.*'xlsx'.*{READ}"):
        bc.ReplayBuffer.from_file(path, "new", "xlsx", dir=tmp_path)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=rf"x.xlsx.*format={READ}"):
        bc.ReplayBuffer.from_file(tmp_path / "x.xlsx", "new", dir=tmp_path)
    with pytest.raises(ArgumentError, match=r"\bcapacity\b.*\b3\b"):
        bc.ReplayBuffer.from_file(path, "new", capacity=3, dir=tmp_path)
    with pytest.raises(StorageError, match=r"nowhere\.npz"):
        bc.ReplayBuffer.from_file(tmp_path / "nowhere.npz", "new", dir=tmp_path)
    plain = pa.table({"x": [1.0]})
    pq.write_table(plain, tmp_path / "plain.parquet")
    with pytest.raises(CorruptError, match=r"plain\.parquet"):
        bc.ReplayBuffer.from_file(tmp_path / "plain.parquet", "new", dir=tmp_path)
    assert len(bc.list_objects(dir=tmp_path)) == rings


KILLED = """
import os, signal, sys
import backcast as bc

def progress(done, total):
    if done > 40 << 20:
        os.kill(os.getpid(), signal.SIGKILL)

bc.ReplayBuffer.attach("wide", dir=sys.argv[1]).export(sys.argv[2], progress=progress)
"""


def wide_ring(folder: Path) -> bc.ReplayBuffer:
    """Make a ring with some 80 MiB of rows, which compress well."""
    columns = {"obs": ("f8", (512,)), "action": "i4", "reward": "f4"}
    wide = bc.ReplayBuffer.create("wide", columns, capacity=21_000, dir=folder)
    obs = np.random.default_rng(1).integers(0, 100, 512).astype("f8")
    with wide.writer(autoreset_mode="same_step") as writer:
        for step in range(20_000):
            writer.append(
                obs=obs,
                action=step,
                reward=step,
                terminated=False,
                truncated=step % 4000 == 3999,
                final_obs=obs + 1,
            )
    return wide


@pytest.mark.parametrize("name", ["wide.parquet", "wide.csv", "wide"])
def test_a_killed_export_leaves_a_folder_that_the_next_one_removes(
    name: str, tmp_path: Path
) -> None:
    with wide_ring(tmp_path) as wide:
        (tmp_path / "whole").mkdir()
        whole, cut = tmp_path / "whole" / name, tmp_path / name
        wide.export(whole)
        killed = subprocess.run(
            [sys.executable, "-c", KILLED, str(tmp_path), str(cut)], check=False, timeout=60
        )
        assert killed.returncode == -signal.SIGKILL
        left = cut.with_name(f"{name}.backcast-partial")
        assert left.is_dir()
        assert not cut.exists()
        wide.export(cut)
        files = [path.relative_to(whole) for path in [whole, *whole.rglob("*")] if path.is_file()]
        assert files
        assert all((cut / path).read_bytes() == (whole / path).read_bytes() for path in files)
        assert not left.exists()


def test_a_table_that_changed_on_disk_is_refused_by_its_row_group(tmp_path: Path) -> None:
    path = tmp_path / "wide.parquet"
    with wide_ring(tmp_path) as wide:
        wide.export(path)
        whole = path.read_bytes()
        footer = pq.read_metadata(path)
        assert footer.num_row_groups == 3
        for group in range(footer.num_row_groups):
            for column in ("episode", "action", "obs"):
                chunks = [footer.row_group(group).column(at) for at in range(footer.num_columns)]
                chunk = next(
                    chunk for chunk in chunks if chunk.path_in_schema.split(".")[0] == column
                )
                start = chunk.dictionary_page_offset or chunk.data_page_offset
                changed = bytearray(whole)
                changed[start + chunk.total_compressed_size * 2 // 3] ^= 8
                path.write_bytes(changed)
                with pytest.raises(CorruptError, match=rf"wide\.parquet.*\b{group}\b"):
                    bc.ReplayBuffer.from_file(path, "new", dir=tmp_path)
        assert [entry["name"] for entry in bc.list_objects(dir=tmp_path)] == ["wide"]
        path.write_bytes(whole)
        with bc.ReplayBuffer.from_file(path, "new", dir=tmp_path) as again:
            assert again.lane_span(0) == wide.lane_span(0)


def test_a_table_that_arrow_wrote_again_is_read_with_what_was_changed(
    buf: bc.ReplayBuffer, tmp_path: Path
) -> None:
    path = tmp_path / "walk.parquet"
    buf.export(path)
    table = pq.read_table(path)
    at = table.schema.get_field_index("reward")
    twice = pa.array(table["reward"].to_numpy() * 2, pa.float32())
    words = pq.read_metadata(path).metadata
    words = {key: words[key] for key in (b"backcast", b"backcast.hash")}
    table = table.set_column(at, table.schema.field(at), twice).replace_schema_metadata(words)
    pq.write_table(table, path, row_group_size=7)
    with bc.ReplayBuffer.from_file(path, "again", dir=tmp_path) as again:
        for lane in range(2):
            rows, theirs = rows_of(buf, lane), rows_of(again, lane)
            np.testing.assert_array_equal(theirs["reward"], rows["reward"] * 2)
            np.testing.assert_array_equal(theirs["obs"]["image"], rows["obs"]["image"])


KILLED_IMPORT = """
import os, signal, sys
import backcast as bc

def progress(done, total):
    if done > 70 << 20:
        os.kill(os.getpid(), signal.SIGKILL)

bc.ReplayBuffer.from_file(sys.argv[2], "in", dir=sys.argv[1], progress=progress)
"""


@pytest.mark.parametrize("name", ["wide.parquet", "wide"])
def test_a_killed_import_is_collected_and_can_be_repeated(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    with wide_ring(tmp_path) as wide:
        wide.export(path)
        killed = subprocess.run(
            [sys.executable, "-c", KILLED_IMPORT, str(tmp_path), str(path)], check=False, timeout=60
        )
        assert killed.returncode == -signal.SIGKILL
        left = [entry for entry in bc.list_objects(dir=tmp_path) if entry["building"]]
        assert [entry["held"] for entry in left] == [False]
        bc.collect_garbage(dir=tmp_path)
        assert [entry["name"] for entry in bc.list_objects(dir=tmp_path)] == ["wide"]
        with bc.ReplayBuffer.from_file(path, "in", dir=tmp_path) as again:
            read = again.imported
            assert read == report_of(rows=20_005, episodes=5 if name == "wide" else None)
            assert read is not None
            read.clear()
            assert again.imported, "every call returns its own copy"
            assert copy.copy(again).imported == again.imported
            first, head = again.lane_span(0)
            for at in range(first, head, 5_000):
                rows = [ring.rows(0, at, min(5_000, head - at)) for ring in (wide, again)]
                for column, values in flat(rows[0]).items():
                    np.testing.assert_array_equal(flat(rows[1])[column], values, err_msg=column)


def report_of(**changes: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the report of an import of `walk.parquet`, with changes."""
    told = {"rows": 38, "episodes": None, "rows_without_successor": 0}
    told |= {"episodes_cut": 0, "rows_before_gap": 0}
    return told | changes


def test_a_stopped_import_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "wide.parquet"
    stop = ValueError("enough")

    def stopped(done: int, total: int) -> None:
        if done > 70 << 20:
            raise stop

    with wide_ring(tmp_path) as wide:
        wide.export(path)
        with pytest.raises(ValueError, match="enough"):
            bc.ReplayBuffer.from_file(path, "in", dir=tmp_path, progress=stopped)
        assert [entry["name"] for entry in bc.list_objects(dir=tmp_path)] == ["wide"]
        with bc.ReplayBuffer.from_file(path, "in", dir=tmp_path, capacity=30_000) as again:
            told = report_of(rows=20_005)
            assert again.imported == told
        assert again.imported == told, "a closed buffer still tells"
        assert wide.imported is None


def test_an_import_tells_what_it_read(buf: bc.ReplayBuffer, tmp_path: Path) -> None:
    path = tmp_path / "walk.parquet"
    buf.export(path)
    with bc.ReplayBuffer.from_file(path, "again", dir=tmp_path) as again:
        assert again.imported == report_of()
        with bc.ReplayBuffer.attach("again", dir=tmp_path) as attached:
            assert attached.imported is None
    np.savez(
        tmp_path / "steps.npz",
        obs=np.zeros((10, 3)),
        reward=np.zeros(10),
        terminated=np.arange(10) == 4,
    )
    with bc.ReplayBuffer.from_file(tmp_path / "steps.npz", "steps", dir=tmp_path) as steps:
        read = {"rows": 11, "episodes": 2, "rows_without_successor": 1}
        assert steps.imported == report_of(**read)


def test_a_ring_half_way_to_another_size_comes_back_from_its_table(tmp_path: Path) -> None:
    path = tmp_path / "half.parquet"
    columns = {"obs": ("f4", (64,)), "reward": "f4"}
    with bc.ReplayBuffer.create("half", columns, capacity=200, lanes=2, dir=tmp_path) as buf:
        writers = [buf.writer(), buf.writer()]

        def extend(writer: bc.Writer, rows: int) -> None:
            ends = np.zeros(rows, bool)
            obs = np.arange(rows * 64, dtype=np.float32).reshape(rows, 64)
            writer.extend(obs=obs, reward=np.zeros(rows), terminated=ends, truncated=ends)

        for writer in writers:
            extend(writer, 50)
        # The second writer writes nothing more: its lane stays as short as it was.
        assert buf.resize(20_000, timeout=0)["lanes_waiting"] == [0, 1]
        extend(writers[0], 500)
        buf.export(path)
        spans = [buf.lane_span(0), buf.lane_span(1)]
        assert spans == [(0, 550), (0, 50)]
        with bc.ReplayBuffer.from_file(path, "again", dir=tmp_path) as again:
            assert [again.lane_span(0), again.lane_span(1)] == spans
            np.testing.assert_array_equal(rows_of(again, 0)["obs"], rows_of(buf, 0)["obs"])
        words = r"\bcapacity\b.*\b1000\b.*\b1100\b"
        with pytest.raises(ArgumentError, match=words):
            bc.ReplayBuffer.from_file(path, "less", capacity=1000, dir=tmp_path)
        with bc.ReplayBuffer.from_file(path, "asked", capacity=1100, dir=tmp_path) as asked:
            assert asked.lane_span(0) == (0, 550)
        for writer in writers:
            writer.close()


@pytest.mark.parametrize(
    ("dtype", "values", "odd"),
    [
        ("u8", [1, 2**63 - 2, 7], None),
        ("u8", [1, 2**63 - 1, 7], 2**63 - 1),
        ("u8", [1, 2**64 - 1, 7], 2**64 - 1),
        ("i8", [3, -(2**63), 4], -(2**63)),
        ("i8", [-(2**62), 0, 2**62], 2**62),
        ("i8", [-(2**62), 0, 2**62 - 2], None),
    ],
)
@pytest.mark.parametrize("column", ["obs", "action"])
def test_integers_that_no_space_of_minari_holds_are_refused(
    tmp_path: Path, dtype: str, values: list[int], odd: int | None, column: str
) -> None:
    columns = {"obs": "i4", "action": "i4", "reward": "f4", "far": "u8"} | {column: dtype}
    with bc.ReplayBuffer.create(None, columns, capacity=100) as buf:
        with buf.writer() as writer:
            for value in [*values, 0]:
                given = {"obs": 0, "action": 0, "far": 2**64 - 1} | {column: value}
                writer.append(**given, reward=1, terminated=False, truncated=False)
        folder = tmp_path / "far-v0"
        if odd is not None:
            words = rf"`{column}`.*{odd}.*\b{2**63 - 1}\b"
            with pytest.raises(SchemaError, match=words):
                buf.export(folder)
            assert list(tmp_path.iterdir()) == []
            return
        buf.export(folder)
        with bc.ReplayBuffer.from_file(folder, "again", dir=tmp_path) as again:
            assert again.rows(0, 0, 4)[column].tolist() == [*values, 0]


def test_a_space_of_choices_has_the_final_observation_too(tmp_path: Path) -> None:
    columns = {"obs": "i4", "action": "i4", "reward": "f4"}
    with bc.ReplayBuffer.create(None, columns, capacity=100) as buf:
        with buf.writer(autoreset_mode="same_step") as writer:
            writer.append(obs=3, action=1, reward=1, terminated=True, truncated=False, final_obs=15)
        buf.export(tmp_path / "walk-v0")
    words = json.loads((tmp_path / "walk-v0" / "data" / "metadata.json").read_text())
    space = json.loads(words["observation_space"])
    assert (space["start"], space["n"]) == (0, 16)
    assert json.loads(words["action_space"])["n"] == 2


def test_an_import_stopped_by_its_progress_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "wide.parquet"
    with wide_ring(tmp_path) as wide:
        wide.export(path)

    def stop(done: int, total: int) -> None:
        if done > 40 << 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bc.ReplayBuffer.from_file(path, "in", dir=tmp_path, progress=stop)
    assert bc.list_objects(dir=tmp_path) == []
    assert bc.collect_garbage(dir=tmp_path) == []


def test_of_two_imports_to_a_name_the_first_to_end_has_it(
    buf: bc.ReplayBuffer, tmp_path: Path
) -> None:
    path = tmp_path / "walk.parquet"
    buf.export(path)
    rings: list[bc.ReplayBuffer] = []

    def second(done: int, total: int) -> None:
        if not rings:
            rings.append(bc.ReplayBuffer.from_file(path, "in", dir=tmp_path))

    with pytest.raises(ExistsError, match="`in`"):
        bc.ReplayBuffer.from_file(path, "in", dir=tmp_path, progress=second)
    with rings[0] as ring:
        assert len(ring) == len(buf)
    assert [entry["name"] for entry in bc.list_objects(dir=tmp_path)] == ["walk"]


def test_a_file_is_not_joined_to_a_ring_that_is_there(buf: bc.ReplayBuffer, tmp_path: Path) -> None:
    path = tmp_path / "walk.parquet"
    buf.export(path)
    join: Any = "attach"
    with pytest.raises(ArgumentError, match=r"'attach'.*ReplayBuffer\.attach"):
        bc.ReplayBuffer.from_file(path, "walk", exist=join, dir=tmp_path)
    with pytest.raises(ExistsError, match=r"exist=\"replace\""):
        bc.ReplayBuffer.from_file(path, "walk", dir=tmp_path)
    with pytest.raises(ArgumentError, match="'attach'"):
        bc.ReplayBuffer.from_file(path, "other", exist=join, dir=tmp_path)
    assert [found["name"] for found in bc.list_objects(tmp_path)] == ["walk"]
