"""Shards on the nodes of a cluster: draws, writers in other processes, deaths."""

from __future__ import annotations

import math
import os
import signal
import time
import warnings
from pathlib import Path
from typing import Any

import backcast as bc
import numpy as np
import pytest
import ray
from backcast.errors import ShardWarning
from backcast.ray import Shards
from conftest import WATCHDOG_S, on

COLUMNS = {"obs": ("f4", (8,)), "reward": "f4"}
SIZES = (100, 1_000, 10_000)
DRAWS = 100_000


@ray.remote(num_cpus=0)
def write(shards: Shards, steps: int) -> tuple[str, str, int]:
    """Append steps on the node where this runs, without Ray."""
    with shards.local() as ring, ring.writer() as writer:
        for step in range(steps + 1):
            writer.append(obs=np.full(8, step), reward=step, terminated=False, truncated=False)
        return ray.get_runtime_context().get_node_id(), ring.name or "", len(ring)


def pid_of(actor: Any) -> int:
    pid: int = ray.get(actor.__ray_call__.remote(lambda _: os.getpid()), timeout=WATCHDOG_S)
    return pid


def test_draws_over_nodes_are_those_of_one_ring(cluster: Any) -> None:
    _, nodes = cluster
    with Shards.create("draws", COLUMNS, capacity=20_000, label="shard") as shards:
        waits = [
            on(node, write).remote(shards, size) for node, size in zip(nodes, SIZES, strict=True)
        ]
        wrote = ray.get(waits, timeout=WATCHDOG_S)
        # Every writer took the ring of its own node.
        assert [node for node, _, _ in wrote] == [node.node_id for node in nodes]
        assert [name for _, name, _ in wrote] == list(shards.rings)
        assert [length for _, _, length in wrote] == list(SIZES)
        found, items = np.zeros((3, 10)), 0
        budget = max(1, DRAWS // 256 // int(os.environ.get("BACKCAST_BUDGET", "1")))
        # A shard that is left out would change the shares.
        with shards.sampler(seed=7, shard_timeout=WATCHDOG_S) as sampler:
            for batch in sampler.batches(256, limit=budget, timeout=WATCHDOG_S):
                assert (batch["obs"][:, 0] == batch["reward"]).all()
                for k, size in enumerate(SIZES):
                    mine = batch["shard"] == k
                    bins = (batch["reward"][mine] * 10 / size).astype(int)
                    found[k] += np.bincount(bins, minlength=10)
                items += 256
            rows = sampler.gather(batch.index, batch["shard"], timeout=WATCHDOG_S)
            assert (rows["reward"] == batch["reward"]).all()
            assert sampler.stats()["batches"] == budget
        expected = np.repeat(np.asarray(SIZES) / sum(SIZES) * items / 10, 10).reshape(3, 10)
        enough = expected >= 5
        statistic = ((found - expected)[enough] ** 2 / expected[enough]).sum()
        degrees = int(enough.sum()) - 1
        ninth = 2 / (9 * degrees)
        assert statistic < degrees * (1 - ninth + 3.09 * math.sqrt(ninth)) ** 3
        shards.unlink()


def test_shards_are_found_by_name_and_errors_say_where_they_are(cluster: Any) -> None:
    made, _ = cluster
    with pytest.raises(bc.NotFoundError, match="no shards 'found'"):
        Shards.attach("found")
    shards = Shards.create("found", COLUMNS, capacity=100, label="shard")
    assert len(Shards.attach("found", timeout=WATCHDOG_S)) == 3
    with pytest.raises(bc.ExistsError, match="there are shards 'found'"):
        Shards.create("found", COLUMNS, capacity=100, label="shard")
    with pytest.raises(bc.ExistsError, match="capacity 100, not 200"):
        Shards.create("found", COLUMNS, capacity=200, label="shard", exist="attach")
    # The driver runs on the head, which has no such label.
    with pytest.raises(bc.NotFoundError, match="has no shard of 'found'"):
        shards.local()
    for wrong, words in (
        ({"label": "rack"}, "none has it"),
        ({"nodes": ["beef"]}, "node beef is not alive"),
        ({"nodes": [made.head_node.node_id] * 2}, "1 of them different"),
        ({"nodes": [], "label": "shard"}, "give one of them"),
        ({"label": "shard", "limiter": bc.RateLimiter(8, no_writer="pass")}, "no_writer"),
        ({"label": "shard", "daemon": 1}, "no option of shards"),
    ):
        with pytest.raises(bc.errors.ArgumentError, match=words):
            Shards.create("wrong", COLUMNS, capacity=100, **wrong)
    with pytest.raises(bc.errors.SchemaError, match="`shard`"):
        Shards.create("wrong", {"obs": "f4", "shard": "i4"}, capacity=100)
    shards.unlink()
    with pytest.raises(bc.ClosedError):
        shards.local()
    with pytest.raises(bc.NotFoundError):
        Shards.attach("found")


def test_refused_arguments_leave_the_shards_that_they_would_replace(cluster: Any) -> None:
    _, nodes = cluster
    with Shards.create("kept", COLUMNS, capacity=100, label="shard") as shards:
        ray.get(on(nodes[0], write).remote(shards, 20), timeout=WATCHDOG_S)
        wrong: list[tuple[dict[str, Any], str]] = [
            ({"capacity": 0}, "capacity is 0"),
            ({"capacity": "4 XB"}, "4 XB"),
            ({"lane": 2}, "did you mean `lanes`"),
            ({"lanes": 0}, "lanes is 0"),
            ({"limiter": 8}, "limiter is 8"),
            ({"limiter": bc.RateLimiter(8, min_size=1_000)}, "min_size of the limiter is 1000"),
            ({"exist": "replaces"}, "exist is 'replaces'"),
            ({"label": None, "nodes": nodes[0].node_id}, "nodes is '"),
        ]
        for given, words in wrong:
            with pytest.raises(bc.errors.ArgumentError, match=words):
                Shards.create(
                    "kept", COLUMNS, **{"capacity": 100, "label": "shard", "exist": "replace"}
                    | given,
                )  # fmt: skip
        with pytest.raises(bc.errors.ArgumentError, match="kept/x"):
            Shards.create("kept/x", COLUMNS, capacity=100, label="shard")
        with pytest.raises(bc.errors.ArgumentError, match="timeout is -1"):
            Shards.attach("kept", timeout=-1)
        told = shards.stats(timeout=WATCHDOG_S)["shards"]
        assert [of["transitions"] for of in told] == [20, 0, 0]
        shards.unlink()
        with pytest.raises(bc.errors.ClosedError, match="removed by this handle"):
            shards.sampler()


def test_a_damaged_snapshot_leaves_the_shards_that_it_would_replace(
    cluster: Any, tmp_path: Path
) -> None:
    _, nodes = cluster
    with Shards.create("whole", COLUMNS, capacity=100, label="shard") as shards:
        ray.get(on(nodes[0], write).remote(shards, 20), timeout=WATCHDOG_S)
        shards.snapshot("a", store=tmp_path, timeout=WATCHDOG_S)
        parts = [path for path in (tmp_path / "whole-0").rglob("*") if path.is_file()]
        part = max(parts, key=lambda path: path.stat().st_size)
        content = bytearray(part.read_bytes())
        content[len(content) // 2] ^= 0xFF
        part.write_bytes(content)
        with pytest.raises(bc.errors.CorruptError):
            Shards.load(
                "whole@a", store=tmp_path, label="shard", exist="replace", timeout=WATCHDOG_S
            )
        told = shards.stats(timeout=WATCHDOG_S)["shards"]
        assert [of["transitions"] for of in told] == [20, 0, 0]
        shards.unlink()


def test_an_unlink_by_another_handle_ends_draws(cluster: Any) -> None:
    _, nodes = cluster
    with Shards.create("gone", COLUMNS, capacity=100, label="shard") as shards:
        ray.get([on(node, write).remote(shards, 20) for node in nodes], timeout=WATCHDOG_S)
        with warnings.catch_warnings(), shards.sampler(seed=1) as sampler:
            warnings.simplefilter("ignore", ShardWarning)
            sampler.sample(8, timeout=WATCHDOG_S)
            Shards.attach("gone", timeout=WATCHDOG_S).unlink()
            with pytest.raises(bc.NotFoundError, match="removed with unlink"):
                [sampler.sample(8, timeout=WATCHDOG_S) for _ in range(10_000)]
            with pytest.raises(bc.NotFoundError, match="removed with unlink"):
                shards.sampler()


def test_a_killed_actor_loses_no_rows_and_comes_back(cluster: Any) -> None:
    _, nodes = cluster
    with Shards.create("killed", COLUMNS, capacity=5_000, label="shard") as shards:
        ray.get([on(node, write).remote(shards, 500) for node in nodes], timeout=WATCHDOG_S)
        sampler = shards.sampler(seed=3, prefetch=1)
        before = sampler.sample(256)
        killed = pid_of(shards._actors[1])
        os.kill(killed, signal.SIGKILL)
        seen: set[int] = set()
        end = time.monotonic() + WATCHDOG_S
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ShardWarning)
            while sampler.stats()["shards"][1]["status"] == "active":
                assert time.monotonic() < end, "never noticed"
                seen |= set(sampler.sample(64, timeout=WATCHDOG_S)["shard"].tolist())
            while sampler.stats()["shards"][1]["status"] != "active":
                assert time.monotonic() < end, "never back"
                sampler.sample(64, timeout=WATCHDOG_S)
        assert {0, 2} <= seen
        for _ in range(20):
            batch = sampler.sample(256, timeout=WATCHDOG_S)
            if (batch["shard"] == 1).any():
                break
        assert set(batch["shard"].tolist()) == {0, 1, 2}
        assert pid_of(shards._actors[1]) != killed
        # The ring is the same one, with all of its rows.
        rows = sampler.gather(before.index, before["shard"], timeout=WATCHDOG_S)
        assert (rows["reward"] == before["reward"]).all()
        assert sampler.stats()["shards"][1]["losses"] == 0
        with bc.ReplayBuffer.attach(shards.rings[1]) as ring:
            assert len(ring) == 500
        sampler.close()
        shards.unlink()


def test_calls_are_done_in_order_beside_functions_that_take_long(cluster: Any) -> None:
    with Shards.create("order", COLUMNS, capacity=100, label="shard") as shards:
        actor = shards._actors[0]
        with pytest.raises(ModuleNotFoundError):
            ray.get(actor.call.remote("nowhere.start"), timeout=WATCHDOG_S)
        counts = [actor.counts.remote() for _ in range(50)]
        generations = {of.generation for of in ray.get(counts, timeout=WATCHDOG_S)}
        assert len(generations) == 1
        shards.unlink()


def family(pid: int) -> set[int]:
    """Return a process and its descendants."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue
        parents[int(stat.parent.name)] = int(text.rpartition(")")[2].split()[1])
    found, size = {pid}, 0
    while len(found) > size:
        size = len(found)
        found |= {child for child, parent in parents.items() if parent in found}
    return found


def listening(pids: set[int]) -> set[str]:
    """Return the local addresses of their listening sockets, in hexadecimal."""
    inodes = set()
    for pid in pids:
        for link in Path(f"/proc/{pid}/fd").glob("*"):
            try:
                target = os.readlink(link)
            except OSError:
                continue
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            _, local, _, state, *rest = line.split()
            if state == "0A" and rest[5] in inodes:
                found.add(local.partition(":")[0])
    return found


def test_the_processes_of_the_tests_listen_on_loopback_alone(cluster: Any) -> None:
    found = listening(family(os.getpid()))
    assert found
    # 127.0.0.1, ::1 and the former in the notation of the latter.
    loopback = {
        "0100007F",
        "00000000000000000000000001000000",
        "0000000000000000FFFF00000100007F",
    }
    assert found <= loopback
