"""Processes of shards that are killed over and over, while a learner draws: no row is lost."""

from __future__ import annotations

import statistics
import warnings
from typing import Any

import pytest
from backcast.errors import ShardWarning
from backcast.ray import Shards
from conftest import IS_LONG, KILLS, WATCHDOG_S, on
from storm import (
    COLUMNS,
    LIMITS,
    TIMEOUT,
    Bare,
    Learner,
    Writes,
    await_counts,
    finished,
    pid_of,
    seconds_until_back,
)

PROCESSES = KILLS if IS_LONG else 3


@pytest.mark.filterwarnings("ignore::backcast.errors.WaitWarning")
def test_processes_of_shards_that_are_killed_lose_no_rows(cluster: Any) -> None:
    _, nodes = cluster
    warnings.simplefilter("ignore", ShardWarning)
    with Shards.create("storm", COLUMNS, capacity=50_000, label="shard", limiter=LIMITS) as shards:
        writers = [on(node, Writes).remote(shards) for node in nodes]
        runs = [of.run.remote() for of in writers]
        bare = [on(node, Bare).remote() for node in nodes]
        generations = [of["generation"] for of in shards.stats(timeout=WATCHDOG_S)["shards"]]
        sampler = shards.sampler(seed=5, shard_timeout=TIMEOUT)
        ours, theirs, drawn = list[float](), list[float](), list[float]()
        with Learner(sampler) as learner:
            learner.until_draws({0, 1, 2})
            learner.longest_s = 0.0
            for kill in range(PROCESSES):
                number = kill % 3
                pair = [(shards._actors[number], ours), (bare[number], theirs)]
                # In turns, and in either order.
                for actor, seconds in pair[:: 1 if kill // 3 % 2 else -1]:
                    seconds.append(seconds_until_back(actor, pid_of(actor)))
                learner.seen = set()
                drawn.append(learner.until_draws({number}))
                print(f"kill {kill + 1}: {ours[-1]:.2f} s, bare {theirs[-1]:.2f} s", flush=True)
            counts = finished(writers, runs)
            await_counts(learner, dict(enumerate(counts)))
            known = sampler.stats()
        assert [of["losses"] for of in known["shards"]] == [0, 0, 0]
        told = shards.stats(timeout=WATCHDOG_S)["shards"]
        assert [of["generation"] for of in told] == generations
        assert [of["inserts"] for of in told] == counts
        # All rows that were appended are those that the rings published.
        assert [of["rows_published"] for of in told] == [count + 1 for count in counts]
        assert known["limiter"]["inserts"] == sum(counts)
        back, apart = statistics.median(ours), statistics.median(theirs)
        print(
            f"{PROCESSES} kills: back after {back:.2f} s, a bare actor after {apart:.2f} s, "
            f"{back / apart:.2f}; drawn again {statistics.median(drawn):.2f} s later; longest gap "
            f"{learner.longest_s:.2f} s of {TIMEOUT:g}; {learner.batches} batches"
        )
        assert learner.longest_s <= 1.5 * TIMEOUT
        if IS_LONG:
            assert back <= 1.5 * apart
        shards.unlink()
