"""Files that `golden_files.py` wrote with earlier versions are read with the same content."""

from __future__ import annotations

import csv
import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import backcast as bc
import backcast.finrl as ff
import numpy as np
import pytest
from golden_files import Arrays, content, flat, play, transitions_env
from numpy.typing import NDArray

KEPT = Path(__file__).parents[1] / "golden" / "files"
VERSIONS = sorted(folder.name for folder in KEPT.iterdir())
SNAPSHOTS = {
    "plain@one": "plain@one",
    "plain@two": "plain@two",
    "dtypes@all": "dtypes",
    "lanes@all": "lanes",
}


@pytest.fixture(params=VERSIONS)
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Copy one version's files, since a store is locked while it is read."""
    return Path(shutil.copytree(KEPT / request.param, tmp_path / "files"))


def expected(files: Path, name: str) -> Arrays:
    with np.load(files / "expected" / f"{name}.npz") as arrays:
        return dict(arrays)


def same(found: Arrays, wanted: Arrays) -> None:
    """Compare the expected arrays; later versions may have more."""
    assert wanted
    for key, values in wanted.items():
        assert found[key].dtype == values.dtype, key
        np.testing.assert_array_equal(found[key], values, err_msg=key)


@pytest.mark.parametrize("snapshot", SNAPSHOTS)
def test_a_snapshot_is_loaded_opened_and_whole(files: Path, tmp_path: Path, snapshot: str) -> None:
    store, wanted = files / "store", expected(files, SNAPSHOTS[snapshot])
    assert bc.verify_snapshot(snapshot, store=store)["whole"]
    with bc.ReplayBuffer.load(snapshot, "again", store=store, dir=tmp_path) as buf:
        same(content(buf), wanted)
    with bc.ReplayBuffer.open_snapshot(snapshot, store=store, dir=tmp_path) as buf:
        same(content(buf), wanted)


def test_a_store_is_listed_and_goes_on(files: Path, tmp_path: Path) -> None:
    store = files / "store"
    found = {one["snapshot"]: one["rows"] for one in bc.list_snapshots(store=store)}
    assert found == {
        one: sum(head - first for key, (first, head) in spans(expected(files, name)))
        for one, name in SNAPSHOTS.items()
    }
    with bc.ReplayBuffer.load("plain@two", store=store, dir=tmp_path) as buf:
        assert buf.saved_state == {"generator": np.random.PCG64(5).state, "step": 90}
        before = buf.lane_span(0)[1]
        with warnings.catch_warnings(), buf.writer(1, autoreset_mode="next_step") as writer:
            # `play` gives rewards to steps after ends too, as in the files.
            warnings.simplefilter("ignore", bc.errors.WriterWarning)
            play(writer, {"obs": ("f4", (3,)), "action": "u1", "reward": "f4"}, 10, seed=1)
        assert buf.snapshot("three", store=store)["rows"] == before + 10
        rows = buf.rows(0, before, 10)
        assert rows["flags"][0] == 8
    with bc.ReplayBuffer.load("plain@three", "again", store=store, dir=tmp_path) as buf:
        same(flat(buf.rows(0, before, 10)), flat(rows))
        first, before_it = buf.lane_span(0)[0], expected(files, "plain@two")
        kept = before_it["lane 0/obs"][first - int(before_it["lane 0/span"][0]) :]
        np.testing.assert_array_equal(buf.rows(0, first, len(kept))["obs"], kept)


def spans(wanted: Arrays) -> list[tuple[str, tuple[int, int]]]:
    return [(key, (int(v[0]), int(v[1]))) for key, v in wanted.items() if key.endswith("/span")]


@pytest.mark.parametrize("name", ["plain", "windows", "rejecting", "returns"])
def test_a_samplers_state_draws_what_it_would_have_drawn(
    files: Path, tmp_path: Path, name: str
) -> None:
    alone = json.loads((files / "samplers.json").read_text())
    with bc.ReplayBuffer.load("lanes@all", store=files / "store", dir=tmp_path) as buf:
        assert buf.saved_state["samplers"] == alone
        with buf.sampler(state=alone[name]["state"]) as sampler:
            found = [sampler.sample(16).index.tolist() for _ in range(2)]
    assert found == alone[name]["index"]


@pytest.mark.parametrize("snapshot", ["kept@live", "kept@mine"])
def test_snapshots_of_a_daemon_are_loaded(files: Path, tmp_path: Path, snapshot: str) -> None:
    store = files / "daemon-store"
    assert bc.verify_snapshot(snapshot, store=store)["whole"]
    with bc.ReplayBuffer.load(snapshot, store=store, dir=tmp_path) as buf:
        same(content(buf), expected(files, "kept"))


@pytest.mark.parametrize("name", ["dtypes", "lanes"])
def test_an_exported_table_is_a_ring_again(files: Path, tmp_path: Path, name: str) -> None:
    with bc.ReplayBuffer.from_file(files / f"{name}.parquet", "again", dir=tmp_path) as buf:
        same(content(buf), expected(files, name))
        buf.export(tmp_path / "again.parquet")
    with bc.ReplayBuffer.from_file(tmp_path / "again.parquet", "twice", dir=tmp_path) as buf:
        same(content(buf), expected(files, name))


def test_an_exported_text_has_the_columns_that_one_of_today_has(
    files: Path, tmp_path: Path
) -> None:
    with bc.ReplayBuffer.load("lanes@all", store=files / "store", dir=tmp_path) as buf:
        buf.export(tmp_path / "lanes.csv")
    with (files / "lanes.csv").open() as old, (tmp_path / "lanes.csv").open() as new:
        before, now = list(csv.DictReader(old)), list(csv.DictReader(new))
    assert len(now) == len(before) > 0
    for one, other in zip(now, before, strict=True):
        assert {key: one[key] for key in other} == other


def test_an_exported_dataset_is_a_ring_again(files: Path, tmp_path: Path) -> None:
    wanted = expected(files, "plain@one")
    first, head = wanted["lane 0/span"]
    with bc.ReplayBuffer.from_file(files / "plain-v0", "again", dir=tmp_path) as buf:
        rows = flat(buf.rows(0, 0, int(head - first)))
    for key in ("episode", "t", "obs"):
        np.testing.assert_array_equal(rows[key], wanted[f"lane 0/{key}"], err_msg=key)
    # The newest row of the ring started no transition. The dataset has it as the final observation
    # of a truncated episode.
    for key in ("flags", "action", "reward"):
        steps = slice(None, -2 if key == "flags" else -1)
        values: NDArray[Any] = rows[key][steps]
        np.testing.assert_array_equal(values, wanted[f"lane 0/{key}"][steps], err_msg=key)
    assert rows["flags"][-2:].tolist() == [2, 4]


def test_plain_steps_are_a_ring(files: Path, tmp_path: Path) -> None:
    with np.load(files / "steps.npz") as arrays:
        steps = dict(arrays)
    with bc.ReplayBuffer.from_file(files / "steps.npz", "steps", dir=tmp_path) as buf:
        assert (len(buf), buf.lane_span(0)) == (50, (0, 55))
        every = np.array([episode * 11 + t for episode in range(5) for t in range(10)])
        batch = buf.gather(every)
    for key, name in (
        ("obs", "observations"),
        ("next_obs", "next_observations"),
        ("action", "actions"),
        ("reward", "rewards"),
        ("terminated", "terminals"),
    ):
        np.testing.assert_array_equal(batch[key], steps[name], err_msg=key)


@pytest.mark.parametrize("name", ["transitions", "objectives"])
def test_saved_transitions_are_drawn_as_they_would_have_been(files: Path, name: str) -> None:
    env = transitions_env(files)
    objectives = {"transitions": 1, "objectives": 3}[name]
    with ff.VecReplayBuffer(env, 40, n_objectives=objectives) as buffer:
        buffer.load(files / f"{name}.bct")
        assert buffer.size() == 40
        same(flat(buffer.sample(12, 3, 2)), expected(files, name))


def test_saved_tokens_are_the_same(files: Path) -> None:
    tokens = ff.TickerTokenizer()
    tokens.load(files / "tokens.json")
    assert tokens.tickers == ["AAPL", "MSFT", "BRK.B"]
    assert [tokens.decode(tokens.encode(tic)) for tic in tokens.tickers] == tokens.tickers
