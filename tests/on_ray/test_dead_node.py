"""A node that dies, with the settings of Ray that users have."""

from __future__ import annotations

import os
import time
import warnings
from typing import Any

import backcast as bc
import pytest
import ray
from backcast.errors import ShardWarning
from backcast.ray import Shards
from conftest import WATCHDOG_S, on, started

COLUMNS = {"obs": ("f4", (8,)), "reward": "f4"}
TIMEOUT = 4.0


@ray.remote(num_cpus=0)
def write_until_ended(shards: Shards, seconds: float) -> int:
    """Append while the limiter allows it, and return the steps appended."""
    step, end = 0, time.monotonic() + seconds
    with shards.local() as ring, ring.writer(timeout=0.2) as writer:
        while time.monotonic() < end:
            try:
                writer.append(obs=[step] * 8, reward=step, terminated=False, truncated=False)
                step += 1
            except bc.RateLimitTimeoutError:
                continue
    return step


def draws(sampler: Any, seconds: float) -> tuple[float, set[int]]:
    """Draw for some seconds; return the longest draw and the shards of the last one."""
    longest, end = 0.0, time.monotonic() + seconds
    while time.monotonic() < end:
        begin = time.monotonic()
        batch = sampler.sample(64, timeout=WATCHDOG_S)
        longest = max(longest, time.monotonic() - begin)
    return longest, set(batch["shard"].tolist())


def reported(sampler: Any) -> list[int]:
    """Return the inserts of each shard, as far as the learner knows."""
    return [share.inserts for share in sampler._limits.ceilings.shares]


# A loaded machine starts the writers' processes in a minute, for which the first draw waits.
@pytest.mark.filterwarnings("ignore::backcast.errors.WaitWarning")
def test_a_node_that_dies_holds_the_learner_up_for_one_timeout() -> None:
    # Other modules' clusters must not change when Ray notices a death.
    assert not [name for name in os.environ if name.startswith("RAY_health_check")]
    limits = bc.RateLimiter(4, min_size=300, error_buffer=2_000)
    with (
        started(3) as (cluster, nodes),
        Shards.create("dies", COLUMNS, capacity=20_000, label="shard", limiter=limits) as shards,
    ):
        writers = [on(node, write_until_ended).remote(shards, 60.0) for node in nodes]
        sampler = shards.sampler(seed=5, shard_timeout=TIMEOUT)
        seen, end = set[int](), time.monotonic() + WATCHDOG_S
        with warnings.catch_warnings():
            # A node that starts processes may not answer for seconds.
            warnings.simplefilter("ignore", ShardWarning)
            while seen != {0, 1, 2} and time.monotonic() < end:
                seen = set(sampler.sample(64, timeout=WATCHDOG_S)["shard"].tolist())
        assert seen == {0, 1, 2}
        cluster.remove_node(nodes[0], allow_graceful=False)
        with pytest.warns(ShardWarning, match="shard 0 .*on the node with label shard=0"):
            longest, last = draws(sampler, 12.0)
        print(f"longest gap {longest:.2f} s")
        assert longest <= 1.5 * TIMEOUT
        assert last == {1, 2}
        steps = ray.get(writers[1:], timeout=WATCHDOG_S)
        # A first row completes no transition. Counts come with the answers to later draws.
        wanted = [number - 1 for number in steps]
        shares, end = reported(sampler), time.monotonic() + WATCHDOG_S
        while shares[1:] != wanted and time.monotonic() < end:
            sampler.sample(1, timeout=WATCHDOG_S)
            shares = reported(sampler)
        assert shares[1:] == wanted
        known = sampler.stats()["limiter"]
        assert known["inserts"] == sum(shares)
        assert known["inserts"] <= known["limit"] + 1
        sampler.close()
        shards.unlink()
