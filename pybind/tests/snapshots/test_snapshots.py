"""Snapshots from Python: saved, listed, loaded, opened, verified, removed and refused."""

from __future__ import annotations

import pickle
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import backcast as bc
import numpy as np
import pytest
from backcast.errors import (
    ArgumentError,
    ArgumentTypeError,
    BackcastError,
    CorruptError,
    ExistsError,
    NotFoundError,
    StorageError,
    WriterError,
)
from saved_ring import append, content, ring


@pytest.mark.parametrize("steps", [0, 1, 60, 500], ids=["empty", "one row", "some", "lapped"])
def test_every_dtype_and_episode_comes_back(place: Path, tmp_path: Path, steps: int) -> None:
    with ring(place, steps) as buf:
        report = buf.snapshot("a", store=tmp_path)
        assert (report["snapshot"], report["rows_lapped"]) == ("walk@a", 0)
        assert report["rows"] == report["rows_written"] == 2 * min(steps, 200)
        with bc.ReplayBuffer.load("walk@a", "again", store=tmp_path, dir=place) as again:
            assert content(again) == content(buf)
            assert len(again) == len(buf)
            assert not again.is_snapshot
            if steps > 1:
                drawn = [one.sampler(seed=3, history=4).sample(64) for one in (buf, again)]
                np.testing.assert_array_equal(drawn[0].index, drawn[1].index)
                np.testing.assert_array_equal(drawn[0]["reward"], drawn[1]["reward"])
                np.testing.assert_array_equal(drawn[0].mask, drawn[1].mask)


def test_priorities_and_rate_limits_come_back(place: Path, tmp_path: Path) -> None:
    limits = bc.RateLimiter(samples_per_insert=8, min_size=50, error_buffer=5_000)
    columns = {"obs": "f4", "reward": "f4"}
    with bc.ReplayBuffer.create("aim", columns, capacity=500, limiter=limits, dir=place) as buf:
        with buf.writer() as writer:
            for t in range(300):
                writer.append(obs=t, reward=t, terminated=False, truncated=False)
        sampler = buf.sampler(seed=1, select=bc.Priority(alpha=0.7, beta=0.5))
        batch = sampler.sample(64)
        sampler.update_priorities(batch.index, np.arange(64.0))
        buf.snapshot("a", store=tmp_path, state=sampler.state())
        seen = buf.stats()["limiter"]
        [saved] = bc.list_snapshots("aim", store=tmp_path)
        with bc.ReplayBuffer.load("aim@a", "again", store=tmp_path, dir=place) as again:
            counted = again.stats()["limiter"]
            assert {k: counted[k] for k in ("inserts", "samples")} == {
                k: seen[k] for k in ("inserts", "samples")
            }
            drawn = [one.sampler(state=saved["state"]).sample(64) for one in (buf, again)]
        assert set(drawn[0].index) != set(batch.index)
        np.testing.assert_array_equal(drawn[0].index, drawn[1].index)
        np.testing.assert_array_equal(drawn[0]["weight"], drawn[1]["weight"])
        assert len(np.unique(drawn[0]["weight"])) > 5


def test_a_writer_goes_on_with_a_new_episode_that_continues_nothing(
    place: Path, tmp_path: Path
) -> None:
    with ring(place, 10) as buf:
        buf.snapshot("a", store=tmp_path)
        last = buf.rows(0, 9, 1)["episode"][0]
    with bc.ReplayBuffer.load("walk", store=tmp_path, dir=place) as again:
        assert again.name == "walk"
        with again.writer(2, "next_step") as writer:
            append(writer, 3, seed=2)
        rows = again.rows(0, 10, 3)
        assert rows["episode"].tolist() == [last + 1] * 3
        assert rows["t"].tolist() == [0, 1, 2]
        assert rows["flags"].tolist() == [8, 0, 0]
        report = again.snapshot("b", store=tmp_path)
        assert report["rows"] == 26


def test_rows_of_earlier_snapshots_are_not_written_again(place: Path, tmp_path: Path) -> None:
    with ring(place, 100) as buf, buf.writer(2, "next_step") as writer:
        first = buf.snapshot("a", store=tmp_path)
        append(writer, 3, seed=2)
        second = buf.snapshot("b", store=tmp_path)
        third = buf.snapshot("c", store=tmp_path)
        assert first["rows_written"] == 200
        assert (second["rows"], second["rows_written"]) == (206, 6)
        assert (third["rows_written"], third["bytes_written"], third["files_written"]) == (0, 0, 0)
        listed = bc.list_snapshots(store=tmp_path)
        assert [one["snapshot"] for one in listed] == ["walk@a", "walk@b", "walk@c"]
        assert [one["rows"] for one in listed] == [200, 206, 206]
        assert listed[1]["lanes"] == [(0, 103), (0, 103)]
        assert listed[0]["columns"] == buf.stats()["columns"]
        assert all(Path(file).is_file() for one in listed for file in one["files"])
        assert bc.list_snapshots("walk", store=tmp_path) == listed
        assert bc.list_snapshots("other", store=tmp_path) == []
        assert bc.verify_snapshot("walk", store=tmp_path)["whole"]
        gone = bc.remove_snapshot("walk@a", store=tmp_path)
        assert gone == {"removed": ["walk@a"], "bytes_freed": 0}, "all of it is in the others"
        with bc.ReplayBuffer.open_snapshot("walk@c", store=tmp_path, dir=place) as last:
            assert {**content(last), "lane_capacity": 200} == content(buf)
        assert bc.remove_snapshot("walk", store=tmp_path)["bytes_freed"] > 0
        assert bc.list_snapshots(store=tmp_path) == []


def test_a_label_is_replaced_when_the_new_snapshot_is_whole(place: Path, tmp_path: Path) -> None:
    with ring(place, 20) as buf, buf.writer(2, "next_step") as writer:
        buf.snapshot("latest", store=tmp_path)
        append(writer, 5, seed=2)
        with pytest.raises(ExistsError, match="`walk@latest`"):
            buf.snapshot("latest", store=tmp_path)
        assert buf.snapshot("latest", store=tmp_path, replace=True)["rows"] == 50
        assert [one["rows"] for one in bc.list_snapshots("walk", store=tmp_path)] == [50]


def test_an_open_snapshot_is_read_only_and_stays_as_it_was(place: Path, tmp_path: Path) -> None:
    with ring(place, 100) as buf:
        before = content(buf)
        buf.snapshot("a", store=tmp_path, state={"step": 7})
        with bc.ReplayBuffer.open_snapshot("walk@a", store=tmp_path, dir=place) as opened:
            with buf.writer(2, "next_step") as writer:
                append(writer, 300, seed=2)
            assert content(opened) == before
            assert repr(opened).startswith("<backcast.ReplayBuffer: snapshot 'walk@a', ")
            assert opened.is_snapshot
            assert opened.saved_state == {"step": 7}
            with pytest.raises(WriterError, match="walk@a"):
                opened.writer()
            with opened.lease(0, 0, 100) as rows:
                np.testing.assert_array_equal(rows["reward"], opened.rows(0, 0, 100)["reward"])
            # Other handles, by name, by path and by pickle, map the same memory.
            others = [
                bc.ReplayBuffer.attach("walk@a", store=tmp_path, dir=place),
                bc.ReplayBuffer.open_snapshot(tmp_path / "walk@a", dir=place),
                bc.ReplayBuffer.open_snapshot(str(tmp_path / "walk"), dir=place),
                pickle.loads(pickle.dumps(opened)),
            ]
            for other in others:
                with other:
                    assert (other.path, other.saved_state) == (opened.path, {"step": 7})
                    assert content(other) == before
            pickled = pickle.dumps(opened)
        assert not [one for one in bc.list_objects(dir=place) if one["held"] and "@" in one["name"]]
        with pickle.loads(pickled) as reopened:
            assert content(reopened) == before


def test_a_snapshot_that_left_the_store_is_still_joined_by_who_can_see_it(
    place: Path, tmp_path: Path
) -> None:
    with ring(place, 10) as buf:
        buf.snapshot("a", store=tmp_path)
        with bc.ReplayBuffer.attach("walk@a", store=tmp_path, dir=place) as opened:
            bc.remove_snapshot("walk@a", store=tmp_path)
            with bc.ReplayBuffer.attach("walk@a", store=tmp_path, dir=place) as other:
                assert content(other) == content(opened)
        with pytest.raises(NotFoundError, match="walk@a"):
            bc.ReplayBuffer.attach("walk@a", store=tmp_path, dir=place)


@pytest.mark.parametrize("in_store", [True, False])
def test_a_snapshot_attached_by_label_keeps_what_it_does_once_it_is_removed(
    place: Path, tmp_path: Path, in_store: bool
) -> None:
    with ring(place, 10) as buf:
        buf.snapshot("a", store=tmp_path)
        with bc.ReplayBuffer.open_snapshot("walk@a", store=tmp_path, dir=place) as opened:
            if not in_store:
                bc.remove_snapshot("walk@a", store=tmp_path)
            strict = bc.ReplayBuffer.attach(
                "walk@a", store=tmp_path, dir=place, on_unlinked="error"
            )
            handles = [strict, strict.__copy__()]
            if in_store:
                handles.append(pickle.loads(pickle.dumps(strict)))
            assert len(opened.sample(4)["reward"]) == len(strict.sample(4)["reward"]) == 4
            bc.remove_object("walk@a", force=True, dir=place)
            for handle in handles:
                with pytest.raises(NotFoundError, match="walk@a"):
                    handle.sample(4)
                handle.close()


def test_the_store_is_where_the_environment_says(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BACKCAST_STORE", str(tmp_path / "kept"))
    monkeypatch.setenv("BACKCAST_DIR", str(place))
    with ring(place, 10) as buf:
        buf.snapshot("a")
    assert (tmp_path / "kept" / "walk" / "manifest-0").is_file()
    assert bc.list_snapshots()[0]["snapshot"] == "walk@a"
    with bc.ReplayBuffer.attach("walk@a") as opened:
        assert len(opened) > 0
    assert bc.verify_snapshot("walk@a")["snapshots"] == ["walk@a"]
    for name in ["BACKCAST_STORE", "XDG_DATA_HOME", "HOME"]:
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ArgumentError, match=r"\bBACKCAST_STORE\b"):
        bc.list_snapshots()


@pytest.mark.parametrize("how", ["cut", "flipped", "missing", "emptied"])
def test_a_damaged_file_makes_no_ring_and_is_named(place: Path, tmp_path: Path, how: str) -> None:
    with ring(place, 100) as buf:
        buf.snapshot("a", store=tmp_path)
        pixels = buf.rows(0, 30, 10)["obs"]["image"].tobytes()
    [path] = tmp_path.rglob("*.arrow")
    whole = path.read_bytes()
    at = whole.index(pixels) + 7
    match how:
        case "missing":
            path.unlink()
        case "flipped":
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        case _:
            path.write_bytes(whole[: -100 if how == "cut" else 0])
    calls: list[Callable[[], object]] = [
        lambda: bc.ReplayBuffer.load("walk@a", "new", store=tmp_path, dir=place),
        lambda: bc.ReplayBuffer.open_snapshot("walk@a", store=tmp_path, dir=place),
        lambda: bc.ReplayBuffer.attach("walk@a", store=tmp_path, dir=place),
    ]
    for call in calls:
        with pytest.raises(CorruptError, match=f"`walk@a`.*{path.name}"):
            call()
    assert bc.list_objects(dir=place) == []
    found = bc.verify_snapshot("walk@a", store=tmp_path)
    assert not found["whole"]
    assert all(path.name in damage for damage in found["damages"])
    if how == "flipped":
        assert "column `" in found["damages"][0]


def test_a_damaged_manifest_warns_and_the_other_one_is_used(place: Path, tmp_path: Path) -> None:
    with ring(place, 10) as buf:
        buf.snapshot("a", store=tmp_path)
        buf.snapshot("b", store=tmp_path)
    (tmp_path / "README").write_text("a file that is none of ours")
    newest = max((tmp_path / "walk").glob("manifest-*"), key=lambda path: path.stat().st_mtime_ns)
    shutil.copy(newest, tmp_path / "kept")
    newest.write_bytes(newest.read_bytes()[:-5])
    with pytest.warns(UserWarning, match=newest.name):
        assert [one["label"] for one in bc.list_snapshots(store=tmp_path)] == ["a"]
    shutil.copy(tmp_path / "kept", newest)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(bc.list_snapshots(store=tmp_path)) == 2
    for manifest in (tmp_path / "walk").glob("manifest-*"):
        manifest.write_bytes(b"x")
    with pytest.raises(CorruptError, match=r"\bmanifest\b"):
        bc.list_snapshots(store=tmp_path)


def test_a_name_that_another_snapshot_still_has_in_memory_is_refused(
    place: Path, tmp_path: Path
) -> None:
    with ring(place, 10) as buf, buf.writer(2, "next_step") as writer:
        buf.snapshot("latest", store=tmp_path)
        with bc.ReplayBuffer.open_snapshot("walk@latest", store=tmp_path, dir=place):
            append(writer, 5, seed=2)
            buf.snapshot("latest", store=tmp_path, replace=True)
            with pytest.raises(ExistsError, match="`walk@latest`"):
                bc.ReplayBuffer.open_snapshot("walk@latest", store=tmp_path, dir=place)
        with bc.ReplayBuffer.open_snapshot("walk@latest", store=tmp_path, dir=place) as opened:
            assert content(opened) == content(buf)


def test_a_private_ring_is_saved_under_a_name_that_is_given(tmp_path: Path, place: Path) -> None:
    with bc.ReplayBuffer.create(None, {"x": "f4"}, capacity=10) as buf:
        with buf.writer() as writer:
            writer.append(x=1, terminated=False, truncated=False)
        with pytest.raises(ArgumentError, match=r"\bname\b"):
            buf.snapshot("a", store=tmp_path)
        buf.snapshot("a", store=tmp_path, name="mine")
        with bc.ReplayBuffer.load("mine", store=tmp_path, dir=place) as again:
            assert again.rows(0, 0, 1)["x"] == [1]
            assert again.saved_state is None
        assert buf.saved_state is None
        assert not buf.is_snapshot


def test_the_persistent_ring_of_a_snapshot_outlives_its_handle(place: Path, tmp_path: Path) -> None:
    with ring(place, 10) as buf:
        buf.snapshot("a", store=tmp_path)
        with pytest.raises(ExistsError, match=r"`walk`.*exist=\"replace\""):
            bc.ReplayBuffer.load("walk@a", store=tmp_path, dir=place)
        replaced = bc.ReplayBuffer.load(
            "walk@a", store=tmp_path, dir=place, exist="replace", persistent=True
        )
        replaced.close()
    with bc.ReplayBuffer.attach("walk", dir=place) as again:
        assert len(again) > 0
        again.unlink()


def refused(**changes: object) -> Callable[[bc.ReplayBuffer, Path, Path], object]:
    """Return a call that saves with some arguments changed."""
    given: Any = changes
    return lambda buf, store, place: buf.snapshot(**{"label": "a", "store": store} | given)


def loading(**changes: object) -> Callable[[bc.ReplayBuffer, Path, Path], object]:
    """Return a call that loads with some arguments changed."""
    given: Any = changes
    return lambda buf, store, place: bc.ReplayBuffer.load(
        **{"snapshot": "walk@s", "name": "new", "store": store, "dir": place} | given
    )


@pytest.mark.parametrize(
    ("do", "error", "words"),
    [
        (refused(label="a/b"), ArgumentError, r"`a/b`.*\b1\b.*\b100\b"),
        (refused(label=""), ArgumentError, r"``.*\b100\b"),
        (refused(label="live"), ArgumentError, r"`live`"),
        (refused(label="before"), ArgumentError, r"`before`"),
        (refused(label="evicted"), ArgumentError, r"`evicted`"),
        (
            refused(label="auto-1"),
            ArgumentError,
            r"`auto-1`",
        ),
        (refused(label="s"), ExistsError, r"`--replace`"),
        (refused(label=7), ArgumentTypeError, r"\blabel\b.*\b7\b"),
        (refused(name="a@b"), ArgumentError, r"`a@b`"),
        (refused(store=3), ArgumentTypeError, r"\bstore\b.*\b3\b"),
        (refused(replace="no"), ArgumentTypeError, r"\breplace\b.*'no'.*\bTrue\b"),
        (refused(timeout=-1.0), ArgumentError, r"\btimeout\b.*-1\b"),
        (refused(progress=3), ArgumentTypeError, r"\bprogress\b.*\b3\b"),
        (refused(store="/dev/null/x"), StorageError, r"/dev/null"),
        (
            loading(snapshot="walk@t"),
            NotFoundError,
            r"`walk@t`.*`backcast ls`",
        ),
        (loading(snapshot="walk@epoch"), NotFoundError, r"`walk@epoch-1`"),
        (loading(snapshot="wolk"), NotFoundError, r"`walk`"),
        (loading(snapshot=".."), ArgumentError, r"\bsnapshot\b.*\"NAME@LABEL\""),
        (loading(snapshot=5), ArgumentTypeError, r"\bsnapshot\b.*\b5\b.*\"NAME@LABEL\""),
        (loading(snapshot="/x/walk@s"), ArgumentError, r"'/x/walk@s'.*\bstore\b"),
        (loading(name=5), ArgumentTypeError, r"\bname\b.*\b5\b"),
        (loading(exist="attach"), ArgumentError, r"\bexist\b.*'attach'.*\"error\""),
        (loading(exist="x"), ArgumentError, r"\bexist\b.*'x'"),
        (
            lambda buf, store, place: bc.ReplayBuffer.attach("walk", store=store, dir=place),
            ArgumentError,
            r"\bstore\b.*'walk'",
        ),
    ],
)
def test_refusals_say_why_and_change_nothing(
    place: Path,
    tmp_path: Path,
    do: Callable[[bc.ReplayBuffer, Path, Path], object],
    error: type[BackcastError],
    words: str,
) -> None:
    with ring(place, 10) as buf:
        buf.snapshot("s", store=tmp_path)
        buf.snapshot("epoch-1", store=tmp_path)
        before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        with pytest.raises(error, match=words) as raised:
            do(buf, tmp_path, place)
        assert type(raised.value) is error
        assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
        assert [one["name"] for one in bc.list_objects(dir=place)] == ["walk"]
