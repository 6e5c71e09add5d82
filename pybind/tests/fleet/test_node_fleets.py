"""A fleet over several nodes, without Ray: ranks, seeds, restarts, errors, merged statistics."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import backcast as bc
import node_actors
import numpy as np
import pytest
from backcast.errors import (
    ActorError,
    ActorTimeoutError,
    ArgumentError,
    ArgumentTypeError,
    FleetError,
    RestartLimitError,
    WriterWarning,
)
from backcast.fleet._environment import RING, seed_of
from backcast.ray import _node_supervisor
from backcast.ray._fleet import ShardFleet
from backcast.ray._node_fleet import NodeFleet, NodeView, Phase, SentReport, _processes_of
from backcast.ray._node_supervisor import NodeReports, NodeSupervisor, failure_from
from backcast.ray._spec import Place, Spec
from local_nodes import LocalCalls
from waits import WATCHDOG_S, until, until_interrupted

NODES, EACH = 2, 2


class LocalShards:
    """Stand-in for shards, with a ring for each node in this process."""

    def __init__(self, place: Path, nodes: int = NODES, lanes: int = EACH) -> None:
        places = tuple(Place("shard", str(k)) for k in range(nodes))
        ring: dict[str, Any] = {"dir": str(place), "lanes": lanes}
        self._spec = Spec("walk", places, bc.Schema({"obs": "f4"}), 100, None, ring)
        self._params: Any = None
        self.name, self.closed, self._samplers = "walk", False, ()
        self.rings = [
            bc.ReplayBuffer.create(
                self._spec.ring_name(k), self._spec.columns, capacity=100 * lanes, **ring
            )
            for k in range(nodes)
        ]

    def __len__(self) -> int:
        return len(self._spec.places)

    def _opened(self) -> None:
        assert not self.closed

    def close(self) -> None:
        for ring in self.rings:
            ring.close()


class LocalFleet(ShardFleet):
    """A fleet whose nodes are in this process."""

    calls: LocalCalls

    def _new_processes(self) -> LocalCalls:
        self.calls = LocalCalls(lambda _: NodeFleet(), len(self._shards))
        return self.calls

    def kill_node(self, number: int) -> None:
        """End a node's process; a new one is in its place when this returns."""
        self.calls.down.add(number)
        self.calls.replace(number).stop()
        self.calls.down.discard(number)

    def _end(self) -> None:
        super()._end()
        if hasattr(self, "calls"):
            for node in self.calls.objects:
                node.stop()
            self.calls.close()


@pytest.fixture
def shards(place: Path) -> Iterator[LocalShards]:
    made = LocalShards(place)
    yield made
    made.close()


def fleet_of(shards: Any, actor: Any, n: int = EACH, **options: Any) -> LocalFleet:
    given: dict[str, Any] = {
        "args": (),
        "seed": 7,
        "restart": "signal",
        "max_deaths": 5,
        "name": None,
        "env": None,
        "start_timeout": 50.0,
        "report_timeout": None,
        "stop_timeout": 5.0,
        "progress": False,
    }
    return LocalFleet(shards, actor, n, **given | options)


def notes(folder: Path) -> dict[int, list[list[str]]]:
    """Return what the actors wrote down, by rank, oldest first."""
    found: dict[int, list[list[str]]] = {}
    for path in sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns):
        words = path.read_text().split()
        if len(words) == 6:
            found.setdefault(int(words[0]), []).append(words)
    return found


def test_ranks_and_seeds_go_on_from_node_to_node(shards: LocalShards, tmp_path: Path) -> None:
    with fleet_of(shards, node_actors.note, args=(shards, str(tmp_path))) as fleet:
        assert fleet.n == NODES * EACH
        assert isinstance(fleet, bc.Fleet)
        until(lambda: fleet.stats()["episodes"] == NODES * EACH)
        stats = fleet.stats()
    told = {rank: of[0] for rank, of in notes(tmp_path).items()}
    for rank in range(NODES * EACH):
        ring = f"walk-{rank // EACH}"
        seed = seed_of(7, rank, 0)
        assert told[rank][:5] == [str(rank), str(NODES * EACH), "0", str(seed), ring]
    assert stats["running"] == NODES * EACH
    assert [actor["rank"] for actor in stats["actors"]] == list(range(NODES * EACH))
    assert {actor["state"] for actor in fleet.stats()["actors"]} == {"stopped"}
    for node, written in enumerate(shards.rings):
        assert len(written) == EACH, f"the actors of node {node} wrote into its ring"


def test_statistics_are_those_of_all_nodes(shards: LocalShards, tmp_path: Path) -> None:
    with fleet_of(shards, node_actors.note, args=(shards, str(tmp_path))) as fleet:
        fleet.update(3, version=1)
        fleet.update(version=2)
        until(lambda: fleet.stats()["episodes"] == NODES * EACH)
        until(lambda: fleet.stats()["rows"] == 2 * NODES * EACH)
        stats = fleet.stats()
    assert stats["return_mean"] == np.mean(range(NODES * EACH))
    assert stats["length_mean"] == 10
    assert stats["updates"] == 4
    assert stats["policy_version"] == 2
    assert stats["numbers"]["speed"]["count"] == NODES * EACH
    assert stats["numbers"]["speed"]["mean"] == 1.5
    assert stats["missed_reports"] == 0
    assert [actor["episodes"] for actor in stats["actors"]] == [1] * NODES * EACH
    assert {actor["version"] for actor in stats["actors"]} == {1}


def test_a_fleet_whose_actors_return_is_waited_for(shards: LocalShards) -> None:
    written: list[tuple[dict[str, float], int]] = []
    with fleet_of(shards, "node_actors:count", args=(shards, 20)) as fleet:
        fleet.log_to(lambda numbers, step: written.append((numbers, step)))
        fleet.wait(timeout=50)
        assert {actor["state"] for actor in fleet.stats()["actors"]} == {"finished"}
    assert fleet.stats()["rows"] == 20 * NODES * EACH
    assert written[-1][0]["fleet/episodes"] == NODES * EACH


def test_an_actor_that_raises_ends_all_nodes_with_its_error(shards: LocalShards) -> None:
    last = NODES * EACH - 1
    with (
        pytest.raises(ActorError, match=rf"actor {last} .*raise_on\) raised ValueError") as caught,
        fleet_of(shards, node_actors.raise_on, args=(last,)) as fleet,
    ):
        fleet.wait(timeout=50)
    assert caught.value.rank == last
    assert "no bananas" in caught.value.actor_traceback
    assert f"shard {last // EACH} of 'walk'" in caught.value.__notes__[0]
    assert "raise_on" in caught.value.__notes__[0]


def test_the_error_interrupts_what_the_main_thread_waits_for(shards: LocalShards) -> None:
    with pytest.raises(ActorError), fleet_of(shards, node_actors.raise_on, args=(3,)):
        until_interrupted()


def test_deaths_of_one_actor_are_counted_on_its_node(shards: LocalShards) -> None:
    made = fleet_of(shards, node_actors.die_on, args=(2,), max_deaths=2)
    with pytest.raises(RestartLimitError, match=r"actor 2 .* died 2 times"), made as fleet:
        fleet.wait(timeout=50)


def test_a_killed_actor_is_restarted_by_its_node(shards: LocalShards, tmp_path: Path) -> None:
    with fleet_of(shards, node_actors.note, args=(shards, str(tmp_path))) as fleet:
        until(lambda: len(notes(tmp_path)) == NODES * EACH)
        os.kill(int(notes(tmp_path)[3][0][5]), signal.SIGKILL)
        until(lambda: len(notes(tmp_path)[3]) == 2)
        until(lambda: fleet.stats()["restarts"] == 1)
        assert fleet.stats()["actors"][3]["restarts"] == 1
    rank, _, life, seed, ring, _ = notes(tmp_path)[3][1]
    assert (rank, life, seed, ring) == ("3", "1", str(seed_of(7, 3, 1)), "walk-1")


def test_a_node_that_returns_gets_its_actors_again_with_other_seeds(
    shards: LocalShards, tmp_path: Path
) -> None:
    with fleet_of(shards, node_actors.note, args=(shards, str(tmp_path))) as fleet:
        until(lambda: fleet.stats()["rows"] == 2 * NODES * EACH)
        fleet.kill_node(1)
        until(lambda: len(notes(tmp_path)[2]) == 2 and len(notes(tmp_path)[3]) == 2)
        until(lambda: fleet.stats()["running"] == NODES * EACH)
        until(lambda: fleet.stats()["rows"] == 3 * NODES * EACH)
        until(lambda: fleet.stats()["episodes"] == 6)
    told = notes(tmp_path)
    assert [len(told[rank]) for rank in range(4)] == [1, 1, 2, 2]
    seeds = [words[3] for of in told.values() for words in of]
    assert len(set(seeds)) == len(seeds)
    assert [told[2][1][2], told[2][1][3]] == ["1", str(seed_of(7, 2, 1, 1))]


def test_a_node_that_does_not_answer_is_shown_as_lost(
    shards: LocalShards, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with fleet_of(shards, node_actors.note, args=(shards, str(tmp_path))) as fleet:
        until(lambda: fleet.stats()["episodes"] == NODES * EACH)
        fleet.calls.down.add(0)
        until(lambda: fleet.stats()["actors"][0]["state"] == "lost")
        stats = fleet.stats()
        assert [actor["state"] for actor in stats["actors"]] == ["lost"] * 2 + ["running"] * 2
        assert stats["running"] == 2
        assert stats["actors"][0]["pid"] is None
        assert stats["rows"] == 2 * NODES * EACH, "its rows stay counted"
        fleet.calls.down.clear()
        until(lambda: fleet.stats()["running"] == NODES * EACH)
    assert "shard 0 of 'walk'" in capfd.readouterr().err


def test_reports_that_were_not_taken_are_sent_again(shards: LocalShards, tmp_path: Path) -> None:
    node = NodeFleet()
    assert node.view().phase == "idle"
    fleet = fleet_of(shards, node_actors.note, args=(shards, str(tmp_path)))
    node.start(fleet._order(0, (0, 0), 0))
    until(lambda: len(node.view().reports) == EACH)
    node.start(fleet._order(0, (0, 0), 0))
    assert [len(node.view(taken).reports) for taken in (0, 1, 1, 2)] == [2, 1, 1, 0]
    assert node.stop().phase == "stopped"
    assert node.view().failure is None


def view_of(phase: Phase, first: int, reports: int, rows: int) -> NodeView:
    """Return a view with reports from a number on, each of which returned its own number."""
    sent = [SentReport(0, float(k), 1, None, 0.0, None, None) for k in range(first, reports)]
    return NodeView(phase, 0, [], True, False, rows, sent, reports, 0, None)


class Overlapping:
    """A node that answers the view that is under way together with the stop."""

    def __init__(self, order: tuple[str, str]) -> None:
        self.order, self.waits = order, threading.Event()
        self.views = iter([view_of("idle", 0, 0, 0), view_of("running", 0, 2, 5)])
        self.under_way: dict[str, Any] = {}

    def send(self, _number: int, method: str, *_given: Any) -> Any:
        answer = None if method == "start" else view_of("stopped", 2, 5, 9)
        if method == "view":
            answer = next(self.views, None) or view_of("running", 2, 4, 7)
        call = method, answer
        if method == "stop" or (answer is not None and answer.rows == 7):
            self.under_way[method] = call
            self.waits.set()
        return call

    def ready(self, calls: Any, timeout_s: float) -> list[Any]:
        if "stop" in self.under_way:
            return [self.under_way[method] for method in self.order]
        found = [call for call in calls if call is not self.under_way.get("view")]
        if not found:
            threading.Event().wait(timeout_s)
        return found

    def answer(self, call: Any) -> Any:
        return call[1]

    def end(self, _number: int) -> None:
        """Do nothing: there is no process."""


@pytest.mark.parametrize("order", [("view", "stop"), ("stop", "view")])
def test_reports_of_a_view_beside_the_stop_are_counted_once(order: tuple[str, str]) -> None:
    reports, calls = NodeReports(), Overlapping(order)
    supervisor = NodeSupervisor(
        *(calls, ["shard 0"], 1, lambda *_: None, reports),  # type: ignore[arg-type]
        label="act",
        start_timeout_s=50.0,
        stop_timeout_s=5.0,
        on_failure=lambda _: None,
        insist=lambda: None,
        on_tick=lambda: None,
    )
    supervisor.start()
    assert calls.waits.wait(WATCHDOG_S)
    supervisor.stop()
    assert [report.return_ for report in reports.read()] == [0, 1, 2, 3, 4]
    assert reports.rows == 9


def test_reports_after_some_that_a_node_dropped_are_all_counted() -> None:
    reports = NodeReports()
    reports.add(view_of("running", 5, 8, 0), 3)
    assert [report.return_ for report in reports.read()] == [5, 6, 7]


def test_actors_of_a_node_wait_for_the_parameters_that_they_may_rely_on(
    shards: LocalShards, place: Path
) -> None:
    shards._params = type("Published", (), {"version": 5})()
    node, fleet = NodeFleet(), fleet_of(shards, node_actors.pulled, args=(shards,))
    node.start(fleet._order(1, (0, 0), 0))
    with bc.Params.create("walk-1", {"w": np.zeros(1)}, dir=place) as params:
        params.publish({"w": np.ones(1)}, version=4)
        assert node.view().phase == "starting"
        params.publish({"w": np.full(1, 5.0)}, version=5)
        until(lambda: len(node.view().reports) == EACH)
        assert {report.value for report in node.stop().reports} == {5.0}


def test_a_fleet_has_its_parameters_sent_to_nodes_that_return(
    shards: LocalShards, place: Path
) -> None:
    class Followed:
        version, follows = 5, 0

        def follow(self) -> None:
            self.follows += 1

    shards._params = Followed()
    with ExitStack() as stack:
        for node in range(NODES):
            params = bc.Params.create(f"walk-{node}", {"w": np.zeros(1)}, dir=place)
            stack.enter_context(params).publish({"w": np.ones(1)}, version=5)
        fleet = fleet_of(shards, node_actors.pulled, args=(shards,))
        assert shards._params.follows == 0
        with fleet:
            assert shards._params.follows == 1


def test_a_node_without_a_ring_fails_in_time(shards: LocalShards) -> None:
    shards.rings[1].close()
    node = NodeFleet()
    node.start(
        fleet_of(shards, node_actors.raise_on, args=(-1,), start_timeout=0.1)._order(1, (0, 0), 0)
    )
    until(lambda: node.view().phase == "failed")
    failure = node.view().failure
    assert failure is not None
    assert "has made no ring 'walk-1'" in failure.text
    error = failure_from(failure, "shard 1")
    assert isinstance(error, FleetError)
    assert error.__notes__ == ["on shard 1"]


def test_a_node_that_never_answers_ends_the_start_in_time(
    shards: LocalShards, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Silent(LocalFleet):
        def _new_processes(self) -> LocalCalls:
            calls = super()._new_processes()
            calls.down.add(0)
            return calls

    made = fleet_of(shards, node_actors.raise_on, args=(-1,), start_timeout=3.0)
    made.__class__ = Silent
    monkeypatch.setattr(_node_supervisor, "_PROCESS_S", 0.0)
    with pytest.raises(ActorTimeoutError, match="shard 0 of 'walk'"), made:
        pytest.fail("the fleet began")


def test_functions_of_the_main_module_are_sent_by_value(shards: LocalShards) -> None:
    scale = 3

    def local(context: bc.fleet.Context, name: str) -> None:
        context.report(return_=float(scale * context.rank))

    with fleet_of(shards, local, args=(shards,)) as fleet:
        fleet.wait(timeout=50)
    assert fleet.stats()["return_mean"] == scale * 1.5


def test_commands_get_the_name_of_their_ring(shards: LocalShards, tmp_path: Path) -> None:
    command = [
        "sh",
        "-c",
        f'echo "$0 $BACKCAST_FLEET_RANK" > {tmp_path}/$BACKCAST_FLEET_RANK',
        shards,
    ]
    with fleet_of(shards, command) as fleet:
        fleet.wait(timeout=50)
    found = sorted(path.read_text().strip() for path in tmp_path.iterdir())
    assert found == ["walk-0 0", "walk-0 1", "walk-1 2", "walk-1 3"]


def test_rings_with_fewer_lanes_than_actors_are_warned_of(place: Path) -> None:
    shards = LocalShards(place, lanes=1)
    made = fleet_of(shards, node_actors.raise_on, args=(-1,))
    with pytest.warns(WriterWarning, match="has 1 lane for 2 actors of its node"), made:
        assert made.n == NODES * EACH
    shards.close()


@pytest.mark.parametrize(
    ("actor", "options", "error", "message"),
    [
        (node_actors.note, {}, ArgumentTypeError, "called with a context and 0 args"),
        (node_actors.no_context, {}, ArgumentTypeError, "called with a context"),
        ("nowhere:act", {}, ArgumentError, "no module 'nowhere'"),
        (3, {}, ArgumentTypeError, "actor is 3"),
        ([], {}, ArgumentTypeError, "at least one str"),
        (["true"], {"args": (1,)}, ArgumentError, "the actor is a command"),
        (node_actors.raise_on, {"args": (threading.Lock(),)}, ArgumentError, r"args\[0\]"),
        (node_actors.raise_on, {"args": (1,), "seed": -1}, ArgumentError, "seed is -1"),
        (node_actors.raise_on, {"args": (1,), "restart": "maybe"}, ArgumentError, "restart is"),
    ],
)
def test_wrong_arguments_are_refused_by_the_learner(
    shards: LocalShards, actor: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(error, match=message):
            fleet_of(shards, actor, **options)


def test_shards_of_other_nodes_are_no_argument(shards: LocalShards) -> None:
    other = type("Other", (), {"_spec": Spec("x", (), shards._spec.columns, 1, None, {})})()
    with pytest.raises(ArgumentError, match="on other nodes"):
        fleet_of(shards, node_actors.count, args=(other, 1))


def test_seeds_are_those_of_one_machine_until_a_supervisor_is_replaced() -> None:
    assert seed_of(7, 3, 2, 0) == seed_of(7, 3, 2)
    found = {seed_of(7, rank, life, g) for rank in range(20) for life in range(5) for g in range(5)}
    assert len(found) == 500


def test_actors_of_a_fleet_that_is_named_like_a_part_of_another_are_not_its() -> None:
    # The second is of part 0 of a fleet "walk-1".
    names = ["walk-1-4", "walk-1-0-4", "walk-11-4"]
    started = [
        subprocess.Popen([sys.executable, "-c", "input()"], env={RING: name}, stdin=subprocess.PIPE)
        for name in names
    ]
    try:
        # A process has its environment once its program has begun.
        until(lambda: _processes_of("walk-1-0") == [started[1].pid])
        assert _processes_of("walk-1") == [started[0].pid]
    finally:
        for process in started:
            process.communicate(b"", timeout=60)
