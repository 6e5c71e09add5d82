"""Parameters on several nodes, without Ray: versions, nodes that miss some, and two learners."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import backcast as bc
import numpy as np
import pytest
from backcast.errors import (
    ArgumentError,
    ClosedError,
    InUseError,
    SchemaError,
    ShardWarning,
    SpaceError,
    WaitWarning,
)
from backcast.ray import _node_params, _params
from backcast.ray._node_calls import NodeDownError
from backcast.ray._shard import Shard
from backcast.ray._spec import Place, Spec
from local_nodes import LocalCalls
from waits import WATCHDOG_S, until

NODES = 3
LIKE = {"body": {"w": np.zeros((4, 2), "f4")}, "head": [np.zeros(3, "f8")]}


def weights(value: float) -> dict[str, Any]:
    return {"body": {"w": np.full((4, 2), value, "f4")}, "head": [np.full(3, float(value))]}


def refused(params: _params.ShardParams) -> bool:
    """Publish once more; return whether another learner has taken over."""
    reason = ""
    try:
        params.publish(weights(0))
    except InUseError as error:
        reason = str(error)
    return "published by another learner (process " in reason


def put(values: list[Any]) -> list[Any]:
    """Copy arrays, as the object store does."""
    return [value.copy() for value in values]


class World:
    """Nodes of shards 'walk', each with a shard object, and handles on their parameters."""

    def __init__(self, place: Path) -> None:
        places = tuple(Place("shard", str(k)) for k in range(NODES))
        options = {"dir": str(place), "persistent": True}
        self.spec = Spec("walk", places, bc.Schema({"obs": "f4"}), 100, None, options)
        self.calls = LocalCalls(lambda k: Shard(self.spec, k, f"node-{k}"), NODES)
        self.labels = [self.spec.label(k) for k in range(NODES)]
        self.handles: list[_params.ShardParams] = []

    def create(self) -> _params.ShardParams:
        own = bc.Params.create(None, LIKE)
        given = self.calls, self.labels, put
        self.handles.append(_params.created("walk", *given, own, 10.0))
        return self.handles[-1]

    def found(self, like: Any = None) -> _params.ShardParams:
        given = self.calls, self.labels, put
        self.handles.append(_params.found("walk", *given, like=like))
        return self.handles[-1]

    def attached(self, node: int) -> bc.Params:
        """Attach as an actor of the node does."""
        return bc.Params.attach(self.spec.ring_name(node), dir=self.spec.ring["dir"])

    def close(self) -> None:
        for handle in self.handles:
            handle.close()
        self.calls.down.clear()
        for shard in self.calls.objects:
            _node_params.remove(shard)
        self.calls.close()


@pytest.fixture
def world(place: Path) -> Iterator[World]:
    made = World(place)
    yield made
    made.close()


def test_actors_of_every_node_pull_the_same_versions(world: World) -> None:
    params = world.create()
    assert params.version == 0
    actors = [world.attached(node) for node in range(NODES)]
    assert [params.publish(weights(value)) for value in (1, 2)] == [1, 2]
    assert params.wait(timeout=30) == 2
    for actor in actors:
        assert actor.pull() == 2
        np.testing.assert_array_equal(actor.arrays["body"]["w"], np.full((4, 2), 2, "f4"))
        np.testing.assert_array_equal(actor.arrays["head"]["0"], np.full(3, 2.0))
        actor.close()
    assert params.publish(weights(3), version=10) == 10
    assert params.wait(10, timeout=30) == 10
    for node in range(NODES):
        assert world.calls.calls.count((node, "params.publish")) in {2, 3}, "1 may be passed over"
    told = params.stats()
    assert told["version"] == 10
    assert [(one["shard"], one["version"], one["error"]) for one in told["nodes"]] == [
        (node, 10, None) for node in range(NODES)
    ]


def test_published_arrays_may_change_after_the_call(world: World) -> None:
    params, mine = world.create(), weights(1)
    params.publish(mine)
    mine["body"]["w"][:] = 7
    params.wait(timeout=30)
    with world.attached(1) as actor:
        assert actor.latest()["body"]["w"].max() == 1
    assert params.latest()["head"][0].max() == 1


def test_a_node_that_missed_versions_gets_the_newest_alone(world: World) -> None:
    params = world.create()
    params.publish(weights(1))
    params.wait(timeout=30)
    world.calls.down.add(2)
    for value in (2, 3, 4):
        params.publish(weights(value))
    # Nodes that do not answer are no part of the wait.
    until(lambda: params.stats()["nodes"][2]["version"] is None)
    assert params.wait(timeout=30) == 4
    late = params.stats()["nodes"][2]
    assert late["error"] == "the node is down"
    assert late["behind_s"] >= 0
    before = world.calls.calls.count((2, "params.publish"))
    world.calls.down.clear()
    until(lambda: params.stats()["nodes"][2]["version"] == 4)
    assert params.stats()["nodes"][2]["behind_s"] is None
    assert world.calls.calls.count((2, "params.publish")) == before + 1
    with world.attached(2) as actor:
        assert actor.versions == [1, 4]


def test_a_shard_process_that_is_started_again_keeps_versions_and_claim(world: World) -> None:
    params = world.create()
    params.publish(weights(1))
    params.wait(timeout=30)
    with world.attached(0) as actor:
        old = world.calls.replace(0)
        # The kernel would release what a killed process held.
        old.state["params"][0].close()
        params.publish(weights(2))
        until(lambda: params.stats()["nodes"][0]["version"] == 2)
        assert actor.pull() == 2, "actors keep their handle"


def test_a_node_that_lost_its_parameters_gets_the_newest_without_a_publish(world: World) -> None:
    params = world.create()
    params.publish(weights(5))
    params.wait(timeout=30)
    _node_params.remove(world.calls.objects[1])
    world.calls.replace(1)
    until(lambda: world.calls.objects[1].state.get("params") is not None)
    until(lambda: params.stats()["nodes"][1]["version"] == 1)
    with world.attached(1) as actor:
        assert actor.latest()["body"]["w"].max() == 5


def lose(world: World, node: int) -> None:
    """End a node with its parameters; another process is in its place."""
    _node_params.remove(world.calls.objects[node])
    world.calls.replace(node)


def test_a_handle_that_was_found_sends_its_version_to_a_node_that_lost_it(world: World) -> None:
    first = world.create()
    first.publish(weights(5), version=7)
    first.wait(timeout=30)
    first.close()
    second = world.found()
    lose(world, 1)
    second.follow()
    until(lambda: _node_params.look(world.calls.objects[1]) is not None)
    assert second.wait(timeout=30) == 7
    lose(world, 2)
    until(lambda: _node_params.look(world.calls.objects[2]) is not None)
    assert second.wait(timeout=30) == 7
    for node in range(NODES):
        with world.attached(node) as actor:
            assert actor.version == 7
            assert actor.latest()["body"]["w"].max() == 5


def test_a_handle_that_sends_what_it_found_takes_nothing_over(world: World) -> None:
    first = world.create()
    first.publish(weights(1))
    first.wait(timeout=30)
    second = world.found()
    lose(world, 1)
    assert second.wait(timeout=30) == 1
    assert first.publish(weights(2)) == 2
    assert first.wait(timeout=30) == 2
    # A later learner is not disturbed either, and the handle knows that node by its answer.
    lose(world, 2)
    third = world.found()
    assert third._nodes[2].version is None
    third._nodes[2].version = 0
    arrays = third._arrays
    values = [np.zeros((4, 2), "f4"), np.zeros(3)]
    _node_params.publish(world.calls.objects[2], (9, "later"), 9, arrays, values)
    assert third.wait(timeout=30) == 2
    until(lambda: third.stats()["nodes"][2]["version"] == 9)


VALUES = [np.zeros((4, 2), "f4"), np.zeros(3)]


def later_learner(world: World, node: int, version: int, like: _params.ShardParams) -> None:
    """Publish to one node as a learner does that began later."""
    _node_params.publish(world.calls.objects[node], (9, "later"), version, like._arrays, VALUES)


def test_a_found_version_is_not_sent_again_once_a_later_learner_has_a_smaller_one(
    world: World,
) -> None:
    first = world.create()
    first.publish(weights(1), version=60)
    first.wait(timeout=30)
    first.close()
    lose(world, 2)
    second = world.found()
    assert second.version == 60
    # It could not reach the nodes with version 60.
    later_learner(world, 2, 51, second)
    second._nodes[2].version = 0
    before = len(world.calls.calls)
    second.follow()
    until(lambda: second.stats()["nodes"][2]["version"] == 51)
    # Each node is asked again after that, whatever it answered.
    seen = len(world.calls.calls)
    until(lambda: {node for node, _ in world.calls.calls[seen:]} == set(range(NODES)))
    after = world.calls.calls[before:]
    assert after.count((2, "params.publish")) == 1
    assert [node["behind_s"] for node in second.stats()["nodes"]] == [None] * NODES
    # The node keeps what the later learner gave it.
    assert _node_params.look(world.calls.objects[2])[1:] == (51, (9, "later"))  # type: ignore[index]


def test_weights_of_the_later_learner_are_found_though_their_version_is_smaller(
    world: World,
) -> None:
    first = world.create()
    first.publish(weights(1), version=60)
    first.wait(timeout=30)
    first.close()
    for node in (0, 2):
        lose(world, node)
        later_learner(world, node, 51 - node, first)
    lose(world, 0)
    second = world.found()
    assert second.version == 49
    assert second.latest()["body"]["w"].max() == 0, "weights of the later learner"
    second.follow()
    until(lambda: _node_params.look(world.calls.objects[0]) is not None)
    assert second.wait(timeout=30) == 49
    told = [_node_params.look(shard) for shard in world.calls.objects]
    claim = (9, "later")
    assert [one and one[1:] for one in told] == [(49, claim), (60, (1, told[1][2][1])), (49, claim)]  # type: ignore[index]
    # Numbers go on above those of all nodes.
    with pytest.raises(ArgumentError, match="version is 55, and a node has 60"):
        second.publish(weights(3), version=55)
    assert second.publish(weights(3)) == 61
    assert second.wait(timeout=30) == 61


def test_a_node_that_returns_before_the_first_version_gets_parameters(world: World) -> None:
    params = world.create()
    params.follow()
    lose(world, 1)
    until(lambda: _node_params.look(world.calls.objects[1]) is not None)
    with world.attached(1) as actor:
        assert actor.version == 0
        params.publish(weights(3))
        params.wait(timeout=30)
        assert actor.latest()["body"]["w"].max() == 3


def test_parameters_that_are_there_are_not_made_again(world: World) -> None:
    params = world.create()
    params.publish(weights(3))
    params.wait(timeout=30)
    assert _node_params.ensure(world.calls.objects[0], params._arrays) == 1
    assert _node_params.ensure(world.calls.replace(0), params._arrays) == 1


def test_arrays_are_put_from_where_they_were_published(world: World) -> None:
    params, places = world.create(), list[tuple[int, bool]]()

    def noted(values: list[Any]) -> list[Any]:
        places.extend((value.ctypes.data, value.flags.owndata) for value in values)
        return put(values)

    params._put = noted
    params.publish(weights(1))
    with params._own.view() as view:
        inside = [view["body"]["w"], view["head"]["0"]]
        assert places == [(array.ctypes.data, False) for array in inside]
    # No version stays pinned.
    for value in range(5):
        params.publish(weights(value))


def test_a_learner_that_attaches_goes_on_from_the_newest_version(world: World) -> None:
    first = world.create()
    first.publish(weights(1))
    first.publish(weights(2))
    first.wait(timeout=30)
    second = world.found()
    assert second.version == 2
    assert second.latest()["head"]["0"].max() == 2
    assert [node["version"] for node in second.stats()["nodes"]] == [2, 2, 2]
    assert second.publish({"body": {"w": np.ones((4, 2), "f4")}, "head": {"0": np.ones(3)}}) == 3
    second.wait(timeout=30)
    # The refusal of the first one's publish comes to its next call.
    until(lambda: refused(first))
    for node in range(NODES):
        with world.attached(node) as actor:
            assert actor.version == 3, "the first learner's versions are refused"


def test_versions_go_on_above_those_of_a_node_that_did_not_answer(world: World) -> None:
    first = world.create()
    first.publish(weights(1), version=50)
    first.wait(timeout=30)
    first.close()
    # Node 1 alone has version 60.
    held, claim = world.calls.objects[1].state["params"]
    held.publish([np.zeros((4, 2), "f4"), np.zeros(3)], 60)
    world.calls.down.add(1)
    second = world.found(like=LIKE)
    assert second.version == 50
    assert second.publish(weights(2)) == 51
    world.calls.down.clear()
    until(lambda: second.stats()["nodes"][1]["version"] == 60)
    with pytest.raises(ArgumentError, match="version is 55, and a node has 60"):
        second.publish(weights(3), version=55)
    assert second.publish(weights(3)) == 61
    assert second.wait(timeout=30) == 61
    assert claim < world.calls.objects[1].state["params"][1]


def test_parameters_of_nodes_that_do_not_answer_are_not_said_to_be_missing(world: World) -> None:
    world.calls.down.add(1)
    with pytest.raises(bc.WaitTimeoutError, match=r"shard 1 of 'walk'.* did not say within 10"):
        world.found()
    world.calls.down.clear()
    with pytest.raises(bc.NotFoundError, match="no node of shards 'walk' has parameters"):
        world.found()


def test_a_fleet_goes_on_without_parameters_of_a_node_that_does_not_answer(world: World) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert _params.sought(world.found) is None
    world.calls.down.add(1)
    with pytest.warns(
        ShardWarning, match=r"shard 1 of 'walk'.*Nodes that return get no parameters until"
    ):
        assert _params.sought(world.found) is None
    world.calls.down.clear()
    world.create().publish(weights(1))
    assert world.handles[0].wait(timeout=30) == 1
    world.calls.down.add(1)
    found = _params.sought(world.found)
    assert found is not None
    assert found.version == 1


def test_a_node_that_does_not_send_what_it_has_is_named(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.create().publish(weights(1))
    world.handles[0].wait(timeout=30)
    world.handles[0].close()

    def down(*_given: object) -> None:
        raise NodeDownError("the node went down meanwhile")

    monkeypatch.setattr(_node_params, "latest", down)
    with pytest.warns(ShardWarning, match=r"shard \d of 'walk'.* did not send its parameters"):
        assert _params.sought(world.found) is None


def test_a_structure_is_given_back(world: World) -> None:
    world.create().publish(weights(1))
    assert isinstance(world.found(like=LIKE).latest()["head"], list)
    with pytest.raises(SchemaError, match="like has `other` more"):
        world.found(like={**LIKE, "other": np.zeros(1)})


def test_wrong_arrays_are_refused_before_anything_is_sent(world: World) -> None:
    params = world.create()
    with pytest.raises(SchemaError, match=r"`body/w` has shape \[2, 4\]"):
        params.publish({"body": {"w": np.zeros((2, 4), "f4")}, "head": [np.zeros(3)]})
    with pytest.raises(SchemaError, match="lacks `head/0`"):
        params.publish({"body": {"w": np.zeros((4, 2), "f4")}})
    assert params.publish(weights(1)) == 1
    with pytest.raises(ArgumentError, match="version"):
        params.publish(weights(1), version=1)
    params.close()
    with pytest.raises(ClosedError, match="attach to the shards again"):
        params.publish(weights(1))
    with pytest.raises(ClosedError):
        params.wait(timeout=1)
    sent = [call for call in world.calls.calls if call[1] == "params.publish"]
    assert len(sent) == NODES


def test_the_last_version_arrives_though_the_handle_is_closed_right_after(world: World) -> None:
    params = world.create()
    with params:
        params.publish(weights(3))
    for node in range(NODES):
        with world.attached(node) as actor:
            assert actor.version == 1


def test_the_last_version_arrives_behind_a_call_that_is_under_way_at_the_close(
    world: World,
) -> None:
    params, begun, go_on = world.create(), threading.Event(), threading.Event()
    shard = world.calls.objects[0]
    call = shard.call

    def held(*given: Any) -> Any:
        if not begun.is_set():
            begun.set()
            assert go_on.wait(WATCHDOG_S)
        return call(*given)

    shard.call = held
    params.publish(weights(1))
    assert begun.wait(WATCHDOG_S)
    params.publish(weights(2))
    closing = threading.Thread(target=params.close)
    closing.start()
    until(lambda: params._stopping)
    go_on.set()
    closing.join(WATCHDOG_S)
    with world.attached(0) as actor:
        assert actor.version == 2


def test_a_node_that_is_behind_once_more_is_warned_of_once_more(world: World) -> None:
    params = world.create()
    node = params._nodes[0]
    node.warned = True
    params.publish(weights(1))
    params.wait(timeout=30)
    until(lambda: not node.warned)


def test_a_full_object_store_is_a_space_error(world: World) -> None:
    class ObjectStoreFullError(Exception):
        pass

    def refuse(_values: object) -> object:
        raise ObjectStoreFullError("no room")

    params = world.create()
    params._put = refuse
    with pytest.raises(SpaceError, match="no room for 56 bytes"):
        params.publish(weights(1))
    params._put = put
    assert params.publish(weights(2)) == 2
    assert params.wait(timeout=30) == 2


def test_a_node_whose_views_hold_all_slots_is_behind_and_says_why(world: World) -> None:
    params = world.create()
    params.publish(weights(1))
    params.wait(timeout=30)
    with world.attached(0) as actor, actor.view():
        params.publish(weights(2))
        params.wait(timeout=30)
        with actor.view():
            params.publish(weights(3))
            params.wait(timeout=30)
            params.publish(weights(4))
            until(lambda: params.stats()["nodes"][0]["error"] is not None)
            late = params.stats()["nodes"][0]
            assert "views" in late["error"]
            assert late["version"] == 3
            params._nodes[0].behind_s = time.monotonic() - 11
            with pytest.warns(WaitWarning, match="shard 0 of 'walk'.* lacks the newest parameters"):
                params.publish(weights(5))
    assert params.wait(timeout=30) == 5


def test_waits_end_with_the_shards_that_are_late(world: World) -> None:
    params = world.create()
    world.calls.down.update(range(NODES))
    params.publish(weights(1))
    with pytest.raises(bc.WaitTimeoutError, match="version 1 has not come to every shard"):
        params.wait(timeout=0.05)
    world.calls.down.clear()
    assert params.wait(timeout=30) == 1
    assert threading.active_count() < 100
