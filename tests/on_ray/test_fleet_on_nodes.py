"""Fleets and parameters on real processes of Ray: what lives, what returns, what ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import backcast as bc
import node_programs
import numpy as np
import pytest
from backcast.errors import ActorError
from backcast.ray import Shards
from nodes import LABEL, Nodes, nodes_of, until

COLUMNS = {"obs": "f4", "acted": "f4"}
NODES = 2


def weights(value: float) -> dict[str, np.ndarray]:
    return {"w": np.full(4, value, "f4")}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Nodes]:
    """Share one cluster: the last test ends a node and starts it again."""
    with nodes_of(NODES) as nodes:
        yield nodes


@pytest.fixture
def place() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="backcast-test-", dir="/dev/shm") as folder:
        yield folder


@pytest.fixture
def shards(cluster: Nodes, place: str) -> Iterator[Shards]:
    made = Shards.create(
        "walk", COLUMNS, capacity=2_000, label=LABEL, lanes=2, params=weights(0), dir=place
    )
    yield made
    if not made.closed:
        made.unlink()


def notes_of(folder: Path) -> dict[int, list[list[str]]]:
    """Return what the actors wrote down, by rank, oldest first."""
    found: dict[int, list[list[str]]] = {}
    for path in sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns):
        words = path.read_text().split()
        if len(words) == 6:
            found.setdefault(int(words[0]), []).append(words)
    return found


def alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


def test_actors_of_all_nodes_act_with_what_the_learner_publishes(
    shards: Shards, place: str, tmp_path: Path
) -> None:
    params = shards.params
    params.publish(weights(1))
    with shards.fleet(
        node_programs.act, 2, args=(shards, place, str(tmp_path)), seed=3, start_timeout=300
    ) as fleet:
        until(lambda: set(notes_of(tmp_path)) == set(range(4)))
        version = params.publish(weights(7))
        fleet.update(version=version)
        assert params.wait(timeout=240) == version
        until(lambda: {a["version"] for a in fleet.stats()["actors"]} == {version})
        told = {rank: of[0] for rank, of in notes_of(tmp_path).items()}
        assert {rank: (words[1], words[5]) for rank, words in told.items()} == {
            rank: ("4", f"walk-{rank // 2}") for rank in range(4)
        }
        assert len({words[3] for words in told.values()}) == 4
        for number, ring in enumerate(shards.rings):
            with bc.ReplayBuffer.attach(ring, dir=place) as buf:
                until(lambda buf=buf: 7.0 in buf.sample(256)["acted"])
                assert set(buf.sample(256)["obs"]) == {2.0 * number, 2.0 * number + 1}
        stats = shards.stats()
        assert stats["writers"] == 4
        assert stats["active"] == NODES
        # Two questions may follow each other faster than two rows.
        until(lambda: shards.stats()["rows_per_s"] > 0)
    assert all(not alive(int(words[4])) for words in told.values())
    shards.unlink()
    assert not list(Path(place).rglob("*.ring")) + list(Path(place).rglob("*.params"))


def test_the_error_of_an_actor_reaches_the_learner(shards: Shards) -> None:
    fleet = shards.fleet(node_programs.raise_on, args=(1,), start_timeout=300)
    words = r"actor 1 .*raised ValueError: no bananas"
    with pytest.raises(ActorError, match=words) as caught, fleet:
        threading.Event().wait(240)
    assert caught.value.rank == 1
    assert "shard 1 of 'walk'" in caught.value.__notes__[0]


def test_a_killed_actor_and_a_killed_shard_process_return(
    shards: Shards, place: str, tmp_path: Path
) -> None:
    params = shards.params
    params.publish(weights(1))
    with shards.fleet(
        node_programs.act, args=(shards, place, str(tmp_path)), start_timeout=300
    ) as fleet:
        until(lambda: len(notes_of(tmp_path)) == NODES)
        actors = {rank: int(of[0][4]) for rank, of in notes_of(tmp_path).items()}
        os.kill(actors[0], signal.SIGKILL)
        until(lambda: len(notes_of(tmp_path)[0]) == 2)
        # Without the shard's process, its node's actors go on.
        os.kill(shards.stats(timeout=240)["shards"][1]["pid"], signal.SIGKILL)
        published = params.publish(weights(2))
        with bc.ReplayBuffer.attach(shards.rings[1], dir=place) as buf:
            rows = buf.stats()["rows_published"]
            until(lambda: buf.stats()["rows_published"] > rows)
            until(lambda: params.stats()["nodes"][1]["version"] == published)
            until(lambda: 2.0 in buf.sample(256)["acted"])
        assert alive(actors[1])
        assert [a["restarts"] for a in fleet.stats()["actors"]] == [1, 0]


def test_actors_of_a_killed_fleet_process_end_and_start_again(
    shards: Shards, place: str, tmp_path: Path
) -> None:
    shards.params.publish(weights(1))
    with shards.fleet(
        node_programs.act, args=(shards, place, str(tmp_path)), start_timeout=300
    ) as fleet:
        until(lambda: len(notes_of(tmp_path)) == NODES)
        first = {rank: int(of[0][4]) for rank, of in notes_of(tmp_path).items()}
        # The parent of an actor is the process of its node's fleet.
        os.kill(int(Path(f"/proc/{first[1]}/stat").read_text().rpartition(")")[2].split()[1]), 9)
        until(lambda: not alive(first[1]))
        until(lambda: len(notes_of(tmp_path)[1]) == 2)
        until(lambda: fleet.stats()["running"] == NODES)
        before, after = notes_of(tmp_path)[1]
        assert before[3] != after[3], "another seed"
        assert alive(first[0]), "the other node goes on"
        assert fleet.stats()["actors"][1]["restarts"] == 1


def test_actors_end_with_a_killed_learner_and_shards_stay(
    cluster: Nodes, shards: Shards, place: str, tmp_path: Path
) -> None:
    program = Path(__file__).with_name("learner.py")
    learner = subprocess.Popen(
        [sys.executable, str(program), cluster.cluster.address, place, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert learner.stdout is not None
        assert learner.stdout.readline() == "running\n"
        pids = [int(words[4]) for of in notes_of(tmp_path).values() for words in of]
        assert len(pids) == NODES
        learner.kill()
        until(lambda: not any(map(alive, pids)))
    finally:
        learner.kill()
        learner.communicate(timeout=240)
    assert shards.stats(timeout=240)["active"] == NODES
    assert shards.stats(timeout=240)["rows_published"] > 0


def test_a_node_that_returns_gets_actors_and_the_newest_parameters(
    cluster: Nodes, shards: Shards, place: str, tmp_path: Path
) -> None:
    params = shards.params
    params.publish(weights(1))
    with shards.fleet(
        node_programs.act, args=(shards, place, str(tmp_path)), start_timeout=300
    ) as fleet:
        until(lambda: len(notes_of(tmp_path)) == NODES)
        cluster.remove("1")
        until(lambda: fleet.stats()["actors"][1]["state"] == "lost")
        assert fleet.stats()["actors"][0]["state"] == "running"
        newest = params.publish(weights(5))
        assert params.wait(timeout=240) == newest, "node 1 is no part of it"
        assert params.stats()["nodes"][1]["version"] is None
        pid = int(notes_of(tmp_path)[1][0][4])
        until(lambda: not alive(pid))
        cluster.add("1")
        until(lambda: fleet.stats()["running"] == NODES)
        until(lambda: params.stats()["nodes"][1]["version"] == newest)
        first, second = notes_of(tmp_path)[1]
        assert (first[3], second[2]) != (second[3], "0"), "another life with another seed"
        assert fleet.stats()["restarts"] == 1
