"""Snapshots and statistics of several nodes, without Ray: whole or not at all, and resumed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import backcast as bc
import numpy as np
import pytest
from backcast.errors import (
    ArgumentError,
    CorruptError,
    ExistsError,
    NotFoundError,
    StorageError,
    WaitTimeoutError,
)
from backcast.ray import _manifest, _node_params, _snapshots, _stats
from backcast.ray._returning import Note
from backcast.ray._shard import Origin, Shard
from backcast.ray._spec import Place, Spec
from local_nodes import LocalCalls

NODES = 3
LIMITS = bc.RateLimiter(4, min_size=20, error_buffer=100)
COLUMNS = bc.Schema({"obs": ("f4", (2,)), "reward": "f8"})


class World:
    """Nodes of shards with rows, and a store for their snapshots."""

    def __init__(self, place: Path, store: Path, name: str = "walk", shared: bool = True) -> None:
        places = tuple(Place("shard", str(k)) for k in range(NODES))
        options = {"dir": str(place), "persistent": True, "lanes": 2}
        self.spec = Spec(name, places, COLUMNS, 400, LIMITS, options)
        self.store, self.shared = store, shared
        self.calls = LocalCalls(lambda k: Shard(self.spec, k, f"node-{k}"), NODES)
        self.labels = [self.spec.label(k) for k in range(NODES)]

    def start(self) -> World:
        for shard in self.calls.objects:
            shard.start("error")
        return self

    def fill(self, rows: int) -> None:
        for k, shard in enumerate(self.calls.objects):
            shard.ring.limiter.set_ceiling(None)
            with shard.ring.writer(timeout=10) as writer:
                for t in range(rows * (k + 1) + 1):
                    writer.append(obs=[k, t], reward=t, terminated=False, truncated=False)

    def save(self, label: str = "one", **options: Any) -> _manifest.Manifest:
        given = {
            "store": self.store,
            "state": None,
            "replace": False,
            "timeout_s": 30.0,
            "params_version": None,
            "note": lambda _: None,
        }
        return _snapshots.save(self.spec, self.calls, self.labels, label, **given | options)

    def parts(self) -> list[str]:
        return sorted(one["snapshot"] for one in bc.list_snapshots(store=self.store))

    def close(self) -> None:
        self.calls.down.clear()
        for shard in self.calls.objects:
            _node_params.remove(shard)
            if shard._ring is not None:
                shard.remove()
        self.calls.close()


@pytest.fixture
def world(place: Path, tmp_path: Path) -> Iterator[World]:
    made = World(place, tmp_path / "store").start()
    yield made
    made.close()


@pytest.fixture
def other(place: Path, tmp_path: Path) -> Iterator[World]:
    """Give nodes without rings, which load."""
    made = World(place, tmp_path / "store", "again")
    yield made
    made.close()


def test_a_snapshot_has_rows_counts_and_parameters_of_all_shards(
    world: World, other: World
) -> None:
    world.fill(30)
    for k, shard in enumerate(world.calls.objects):
        _node_params.create(shard, [("w", "f4", (2,))])
        _node_params.publish(shard, (1, "me"), 5 + k, [("w", "f4", (2,))], [np.full(2, k, "f4")])
        sampler = shard.ring.sampler(seed=1)
        sampler.sample(8)
        sampler.close()
    state = {"sampler": {"rng": 2**100}}
    saved = world.save(state=state, params_version=6)
    assert saved.snapshot == "walk@one"
    assert saved.params_version == 7, "a node may have a later one than the learner knows"
    assert [one["rows"] for one in saved.shards] == [31, 61, 91]
    assert [one["inserts"] for one in saved.shards] == [30, 60, 90]

    found = _manifest.read("walk", world.store)
    assert found == saved
    assert found.state == state
    spec = found.spec("again", other.spec.places)
    assert spec == other.spec
    assert spec.limiter == LIMITS
    _snapshots.places_for(found, NODES)
    parts, has_params = _snapshots.load(
        other.calls, other.labels, found, world.store, "error", 30.0
    )
    assert parts == [one["part"] for one in saved.shards]
    assert has_params
    for k, (old, new) in enumerate(zip(world.calls.objects, other.calls.objects, strict=True)):
        assert len(new.ring) == len(old.ring) == 30 * (k + 1)
        assert new.ring.limiter.inserts == 30 * (k + 1)
        assert new.ring.limiter.samples == 8
        assert new.ring.limiter.ceiling == 30 * (k + 1), "writers wait for a learner"
        assert new.ring.name == f"again-{k}"
        assert new.generation != old.generation
        rows = new.ring.rows(0, 0, 30 * (k + 1))
        np.testing.assert_array_equal(rows["reward"], np.arange(30.0 * (k + 1)))
        told = _node_params.look(new)
        assert told is not None
        assert told[1] == 5 + k
        assert _node_params.latest(new)[1][0].max() == k


def test_shards_without_parameters_have_none_after_a_load(world: World, other: World) -> None:
    world.fill(3)
    saved = world.save()
    assert saved.params_version is None
    _, has_params = _snapshots.load(other.calls, other.labels, saved, world.store, "error", 30.0)
    assert not has_params
    assert all(_node_params.look(shard) is None for shard in other.calls.objects)


def test_nothing_is_saved_if_a_node_does_not_answer(world: World) -> None:
    world.fill(3)
    world.calls.down.add(1)
    with pytest.raises(WaitTimeoutError, match=r"shard 1 of 'walk'.* does not answer"):
        world.save()
    with pytest.raises(NotFoundError, match="no snapshot `walk@one`"):
        _manifest.read("walk@one", world.store)
    assert world.parts() == []


def test_a_label_is_replaced_in_one_step(
    world: World, other: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.fill(3)
    first = world.save()
    with pytest.raises(ExistsError, match="replace=True"):
        world.save()
    world.fill(5)
    before = world.parts()

    def full(*_given: object) -> _manifest.Manifest:
        raise StorageError("no space is left")

    with monkeypatch.context() as patch:
        patch.setattr(_manifest, "write", full)
        with pytest.raises(StorageError):
            world.save(replace=True)
    assert world.parts() == before, "the parts of the failed one are gone"
    assert _manifest.read("walk@one", world.store) == first

    def refuse(_manifest: object) -> None:
        raise StorageError("the head node does not answer")

    with pytest.raises(StorageError, match="head node"):
        world.save(replace=True, note=refuse)
    assert set(before) < set(world.parts()), "nodes that return may look for the old ones"
    second = world.save(replace=True)
    for part in before:
        bc.remove_snapshot(part, store=world.store)
    assert world.parts() == sorted(one["part"] for one in second.shards)
    _snapshots.load(other.calls, other.labels, second, world.store, "error", 30.0)
    assert [len(shard.ring) for shard in other.calls.objects] == [8, 16, 24]


def test_the_newest_snapshot_of_a_name_is_found(world: World) -> None:
    world.fill(3)
    world.save("b")
    world.save("a")
    assert _manifest.read("walk", world.store).snapshot == "walk@a"
    with pytest.raises(NotFoundError, match="no snapshot `nothing`"):
        _manifest.read("nothing", world.store)


def test_a_state_that_is_no_json_is_refused_and_leaves_nothing(world: World) -> None:
    world.fill(3)
    with pytest.raises(ArgumentError, match="state is no JSON value"):
        world.save(state={"a": object()})
    assert world.parts() == []


@pytest.mark.parametrize("label", ["", "a/b", "a@b", "..", 3, "a b"])
def test_labels_that_are_no_names_are_refused(world: World, label: Any) -> None:
    with pytest.raises(ArgumentError, match="label is"):
        world.save(label)
    assert not world.store.exists()


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[:-20],
        lambda text: "[]",
        lambda text: text.replace('"version": 1', '"version": 2'),
        lambda text: text.replace("walk@one", "walk@two"),
        lambda text: json.dumps({**json.loads(text), "shards": []}),
        lambda text: json.dumps({**json.loads(text), "more": 1}),
    ],
)
def test_a_damaged_manifest_is_refused(world: World, change: Any) -> None:
    world.fill(3)
    world.save()
    path = _manifest.path_of("walk@one", world.store)
    path.write_text(change(path.read_text()))
    with pytest.raises(CorruptError, match="no manifest of shards"):
        _manifest.read("walk@one", world.store)


@pytest.mark.parametrize(
    "change", [{"columns": {"obs": ["f3", [2], "obs"]}}, {"limiter": [1]}, {"ring": 3}]
)
def test_a_manifest_that_describes_no_shards_is_refused(world: World, change: Any) -> None:
    world.fill(3)
    world.save()
    path = _manifest.path_of("walk@one", world.store)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(CorruptError, match="describes no shards"):
        _manifest.read("walk@one", world.store).spec("x", world.spec.places)


def test_a_part_that_no_node_can_read_is_named(world: World, other: World) -> None:
    world.fill(3)
    saved = world.save()
    bc.remove_snapshot(saved.shards[1]["part"], store=world.store)
    with pytest.raises(NotFoundError, match=saved.shards[1]["part"]):
        _snapshots.load(other.calls, other.labels, saved, world.store, "error", 30.0)
    assert all(shard._ring is None for shard in other.calls.objects), "nothing was loaded"


def test_another_number_of_nodes_is_refused(world: World) -> None:
    world.fill(3)
    with pytest.raises(ArgumentError, match="has 3 shards, and 2 nodes"):
        _snapshots.places_for(world.save(), 2)


ARRAYS: _node_params.Described = [("w", "f4", (2,))]


def lose(world: World, number: int) -> None:
    """Remove the ring and the parameters of a node, which ends."""
    world.calls.objects[number].ring.unlink()
    world.calls.objects[number].ring.close()
    _node_params.remove(world.calls.objects[number])


def returned(world: World, number: int, saved: _manifest.Manifest) -> Shard:
    """Start the process of a shard again, which finds what the cluster knows of snapshots."""
    world.calls.replace(number)
    shard: Shard = world.calls.objects[number]
    parts, generations = ([one[key] for one in saved.shards] for key in ("part", "generation"))
    note = Note(saved.snapshot, generations, parts, str(world.store))
    shard.newest_snapshot = lambda: note  # type: ignore[method-assign]
    shard.is_restarted = True
    return shard


def test_a_node_that_returns_without_its_ring_loads_its_part(world: World) -> None:
    world.fill(30)
    before = world.calls.objects[1]
    _node_params.create(before, ARRAYS)
    _node_params.publish(before, (1, "me"), 5, ARRAYS, [np.full(2, 7, "f4")])
    saved = world.save()
    world.fill(10)
    lose(world, 1)
    shard = returned(world, 1, saved)
    assert len(shard.ring) == 60, "those of the snapshot"
    assert shard.ring.name == world.spec.ring_name(1)
    assert shard.generation != before.generation
    counts = shard.counts()
    assert counts.inserts == counts.ceiling == 60, "writers wait"
    rows = shard.ring.rows(0, 0, 60)
    np.testing.assert_array_equal(rows["reward"], np.arange(60.0))
    assert _node_params.latest(shard)[0] == 5
    loaded = Origin("walk@one", source=before.generation)
    assert counts.origin == shard.origin == loaded
    shown, _ = _stats.merged(world.spec, world.calls, [], None, 30.0)
    assert [one["snapshot"] for one in shown["shards"]] == [None, "walk@one", None]
    assert [one["snapshot_problem"] for one in shown["shards"]] == [None] * 3
    # The next process finds that ring, and what was loaded into it.
    assert returned(world, 1, saved).counts().origin == loaded


def test_a_process_that_returns_to_its_ring_loads_nothing(world: World) -> None:
    world.fill(5)
    saved = world.save()
    world.fill(5)
    shard = returned(world, 2, saved)
    # A row of the first writer and one of the second complete no transition.
    assert len(shard.ring) == 30
    assert shard.generation == saved.shards[2]["generation"]
    assert shard.origin == Origin()


def test_parameters_of_a_node_that_returns_stay(world: World) -> None:
    world.fill(5)
    before = world.calls.objects[0]
    _node_params.create(before, ARRAYS)
    _node_params.publish(before, (1, "me"), 3, ARRAYS, [np.zeros(2, "f4")])
    saved = world.save()
    _node_params.publish(before, (1, "me"), 4, ARRAYS, [np.ones(2, "f4")])
    before.ring.unlink()
    before.ring.close()
    shard = returned(world, 0, saved)
    assert len(shard.ring) == 5
    assert _node_params.latest(shard)[0] == 4


def test_a_part_that_cannot_be_read_leaves_an_empty_ring_and_a_reason(world: World) -> None:
    world.fill(5)
    saved = world.save()
    bc.remove_snapshot(saved.shards[1]["part"], store=world.store)
    lose(world, 1)
    shard = returned(world, 1, saved)
    assert len(shard.ring) == 0
    assert shard.origin.snapshot is None
    assert "snapshot `walk@one`" in str(shard.origin.problem)
    assert saved.shards[1]["part"] in str(shard.origin.problem)


def test_without_a_word_of_the_cluster_no_empty_ring_is_made(world: World) -> None:
    world.fill(5)
    saved = world.save()
    lose(world, 1)
    shard = returned(world, 1, saved)
    known = shard.newest_snapshot

    def silent() -> Note:
        raise bc.errors.BackcastError("the head node does not say")

    shard.newest_snapshot = silent  # type: ignore[method-assign]
    with pytest.raises(bc.errors.BackcastError, match="does not say"):
        shard.counts()
    shard.newest_snapshot = known  # type: ignore[method-assign]
    assert len(shard.ring) == 10


@pytest.mark.parametrize(
    ("readable", "expected"),
    [
        ([{"a", "b", "c"}] * 3, ["a", "b", "c"]),
        ([{"b"}, {"c"}, {"a"}], ["b", "c", "a"]),
        ([{"a", "b"}, {"a"}, {"a", "b", "c"}], ["b", "a", "c"]),
        ([{"a"}, {"a"}, {"c"}], ["a", None, "c"]),
        ([set(), {"b"}, set()], [None, "b", None]),
    ],
)
def test_parts_are_given_to_nodes_that_read_them(
    readable: list[set[str]], expected: list[str | None]
) -> None:
    assert _snapshots.matched(readable, ["a", "b", "c"]) == expected


def test_statistics_are_summed_over_the_shards_that_answer(world: World) -> None:
    world.fill(10)
    shown, last = _stats.merged(world.spec, world.calls, [], None, 30.0)
    assert shown["transitions"] == 60
    assert shown["rows_published"] == 63
    assert shown["rows_per_s"] is None
    assert [shard["inserts"] for shard in shown["shards"]] == [10, 20, 30]
    assert [shard["status"] for shard in shown["shards"]] == ["active"] * 3
    assert shown["limiter"] is None
    world.fill(10)
    world.calls.down.add(0)
    shown, last = _stats.merged(world.spec, world.calls, [], last, 30.0)
    assert shown["transitions"] == 100
    assert shown["suspended"] == [0]
    assert shown["active"] == 2
    rates = [shard["rows_per_s"] for shard in shown["shards"]]
    assert rates[0] is None
    assert rates[2] / rates[1] == pytest.approx(31 / 21)
    assert shown["rows_per_s"] == pytest.approx(rates[1] + rates[2])


def test_statistics_leave_out_shards_that_have_no_ring(world: World) -> None:
    world.fill(10)
    world.calls.replace(1).ring.close()
    shown, _ = _stats.merged(world.spec, world.calls, [], None, 30.0)
    assert [shard["answers"] for shard in shown["shards"]] == [True, False, True]
    assert shown["transitions"] == 40
    world.calls.objects[1].start("attach")


def test_statistics_raise_what_a_shard_raises(world: World, monkeypatch: Any) -> None:
    world.fill(10)

    def damaged(*_given: object) -> None:
        raise CorruptError("the counters of lane 3 are damaged")

    monkeypatch.setattr(world.calls.objects[1], "call", damaged)
    with pytest.raises(CorruptError, match="lane 3"):
        _stats.merged(world.spec, world.calls, [], None, 30.0)


def test_what_a_sampler_knows_of_its_shards_is_shown(world: World) -> None:
    counts = {"inserts": 60, "samples": 240, "limit": 85, "ceilings": [20, 30, 35], "excess": 0}
    statuses = [{"status": "active"}, {"status": "lost"}, {"status": "suspended"}]
    sampler = {"batches": 3, "shards": statuses, "limiter": counts}
    shown, _ = _stats.merged(world.spec, world.calls, [sampler], None, 30.0)
    assert shown["limiter"] == counts
    assert (shown["active"], shown["lost"], shown["suspended"]) == (1, [1], [2])


def test_a_ring_that_was_lost_has_no_rate(world: World) -> None:
    world.fill(10)
    _, last = _stats.merged(world.spec, world.calls, [], None, 30.0)
    world.calls.objects[1].start("replace")
    shown, _ = _stats.merged(world.spec, world.calls, [], last, 30.0)
    assert shown["shards"][1]["rows_per_s"] is None
    assert shown["shards"][0]["rows_per_s"] == 0
