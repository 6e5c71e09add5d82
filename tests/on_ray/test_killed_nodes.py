"""Nodes that are killed over and over with Ray's own settings, and come back from a snapshot."""

from __future__ import annotations

import os
import statistics
import time
import warnings
from pathlib import Path

import backcast as bc
import pytest
from backcast.errors import ShardWarning
from backcast.ray import Shards
from conftest import KILLS, NODE, WATCHDOG_S, on, started
from storm import COLUMNS, LIMITS, TIMEOUT, Learner, Writes, await_counts, finished, reported

NODES = max(1, KILLS // 5)


def until_away(learner: Learner, number: int) -> None:
    """Wait until Ray says that the process of a shard ended with its node."""

    def is_away() -> bool:
        return "its actor died" in learner.sampler.stats()["shards"][number]["reason"]

    learner.until(is_away, f"Ray says that shard {number} ended")


@pytest.mark.filterwarnings("ignore::backcast.errors.WaitWarning")
def test_nodes_that_are_killed_come_back_with_their_snapshot(tmp_path: Path) -> None:
    # Other modules' clusters must not change when Ray notices a death.
    assert not [name for name in os.environ if name.startswith("RAY_health_check")]
    warnings.simplefilter("ignore", ShardWarning)
    with (
        started(3) as (cluster, nodes),
        Shards.create("falls", COLUMNS, capacity=50_000, label="shard", limiter=LIMITS) as shards,
    ):
        writers = [on(node, Writes).remote(shards) for node in nodes]
        runs = [of.run.remote() for of in writers]
        sampler = shards.sampler(seed=5, shard_timeout=TIMEOUT)
        numbers, before = [0, 1, 2], [0, 0, 0]
        gaps, back = list[float](), list[float]()
        with Learner(sampler) as learner:
            for kill in range(NODES):
                learner.until_draws(set(numbers))
                lost = kill % 3
                saved = shards.snapshot(f"s{kill}", store=tmp_path, timeout=WATCHDOG_S)
                learner.longest_s = 0.0
                cluster.remove_node(nodes[lost], allow_graceful=False)
                until_away(learner, lost)
                # The machine is gone, and its memory with it; its disk comes back.
                with bc.ReplayBuffer.attach(shards.rings[lost]) as ring:
                    ring.unlink()
                begin = time.monotonic()
                nodes[lost] = cluster.add_node(**NODE, labels={"shard": str(lost)})
                numbers[lost] += 3
                learner.until_draws({numbers[lost]})
                back.append(time.monotonic() - begin)
                gaps.append(learner.longest_s)
                shown = sampler.stats()["shards"][lost]
                assert (shown["snapshot"], shown["snapshot_problem"]) == (f"falls@s{kill}", None)
                told = shards.stats(timeout=WATCHDOG_S)["shards"][lost]
                assert told["snapshot"] == f"falls@s{kill}"
                assert told["rows_published"] >= saved["shards"][lost]["rows"] > 0
                # Survivors are counted exactly; the returned ring goes on where the count was.
                others = [number for number in range(3) if number != lost]
                ended = finished(
                    [writers[number] for number in others], [runs[number] for number in others]
                )
                for number, count in zip(others, ended, strict=True):
                    before[number] += count
                await_counts(learner, {number: before[number] for number in others})
                before[lost] = reported(sampler)[lost]
                for number in range(3):
                    writers[number] = on(nodes[number], Writes).remote(shards)
                    runs[number] = writers[number].run.remote()
            learner.until_draws(set(numbers))
            known = sampler.stats()["limiter"]
            finished(writers, runs)
        print(
            f"{NODES} nodes: longest gap {max(gaps):.2f} s of {TIMEOUT:g}, drawn again "
            f"{statistics.median(back):.1f} s after the node began to start; excess "
            f"{known['excess']}; {learner.batches} batches"
        )
        assert max(gaps) <= 1.5 * TIMEOUT
        shards.unlink()
