"""Draws over nodes whose rings grow, against the logs of the test's own writers."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
import ray
from backcast.ray import Shards
from backcast.ray._heads import RemoteHeads
from backcast.ray._link import Link, ShardBlock
from conftest import IS_LONG, WATCHDOG_S, on
from numpy.typing import NDArray
from test_shard_draws import BINS, GROWTH, SIZES, Cut, EqualShares, count_batch, over_quantile
from test_shards import CASES, COLUMNS, Case, Log, priority_of

DRAWS = 100_000 if IS_LONG else 10_000
EVERY = 3
"""Batches between two growths."""
CAPACITY = 70_000


@ray.remote(num_cpus=0)
class Writes:
    """Appends to the ring of its node, without Ray."""

    def __init__(self, shards: Shards) -> None:
        self.ring = shards.local()
        self.writer = self.ring.writer(autoreset_mode="same_step")

    def extend(self, ends: NDArray[np.bool_]) -> None:
        numbers = np.arange(len(ends))[:, None]
        self.writer.extend(
            obs=numbers,
            reward=numbers.astype("f4"),
            terminated=ends[:, None],
            truncated=np.zeros_like(ends)[:, None],
            final_obs=numbers,
        )

    def close(self) -> None:
        self.writer.close()
        self.ring.close()


class Grown:
    """A shard's writer, the log of what it appended, and what each block was drawn from."""

    def __init__(self, number: int, writes: Any, case: Case) -> None:
        self.number, self.writes, self.case = number, writes, case
        self.log = Log(CAPACITY)
        self.dice = np.random.default_rng((7, number))
        self.prioritised = 0
        self.cuts: dict[int, tuple[ShardBlock, Cut]] = {}

    def grow(self, steps: int) -> Any:
        """Ask the writer for steps, of which about every eighth ends its episode."""
        ends = self.dice.random(steps) < 1 / 8
        self.log.append(ends.tolist())
        return self.writes.extend.remote(ends)

    def prioritise(self, sampler: Any) -> None:
        """Set the priorities of the new rows, and of the one that had no successor yet."""
        rows = np.arange(max(0, self.prioritised - 1), len(self.log.t))
        sampler.update_priorities(rows, np.full_like(rows, self.number), priority_of(rows))
        self.prioritised = len(self.log.t)

    def watch(self, link: Link) -> None:
        """Compare each block that comes with the log, and keep what it was drawn from."""
        receive = link._receive

        def kept(*given: Any) -> None:
            before = len(link.ready)
            receive(*given)
            # All rows of the log were there when the block was made, and no others.
            if len(link.ready) > before:
                block, rows = link.ready[-1], self.case.rows(self.log)
                q = priority_of(rows) if self.case.priorities else np.ones(len(rows))
                assert block.count == len(rows)
                self.cuts[id(block)] = block, (rows, q)

        link._receive = kept  # type: ignore[method-assign]


def settle(sampler: Any) -> None:
    """Wait until every block that was asked for has come."""
    end = time.monotonic() + WATCHDOG_S
    for link in sampler._links:
        while link._sent:
            assert time.monotonic() < end, "a block never came"
            link._sent[0].pending.wait(1.0)
            link.poll()


def ratio_on_ray(cluster: Any, case: Case, draws: int, heads_of: type[RemoteHeads]) -> float:
    """Return the statistic of draws over shards that grow before each batch."""
    _, nodes = cluster
    found, expected = np.zeros((3, BINS)), np.zeros((3, BINS))
    with Shards.create("grow", COLUMNS, capacity=CAPACITY, label="shard") as shards:
        try:
            writes = [on(node, Writes).remote(shards) for node in nodes]
            grown = [Grown(number, of, case) for number, of in enumerate(writes)]
            asked = [of.grow(size) for of, size in zip(grown, SIZES, strict=True)]
            ray.get(asked, timeout=WATCHDOG_S)
            # A shard that is left out would change the shares.
            sampler = shards.sampler(seed=11, shard_timeout=WATCHDOG_S, **case.options)
            sampler._heads = heads_of(sampler._links, seed=11, prefetch=2, clock=sampler._clock)
            for of, link in zip(grown, sampler._links, strict=True):
                of.watch(link)
            for batch in range(draws // 256):
                if batch % EVERY == 0:
                    settle(sampler)
                    asked = [of.grow(GROWTH[of.number]) for of in grown]
                    ray.get(asked, timeout=WATCHDOG_S)
                    if case.priorities:
                        for of in grown:
                            of.prioritise(sampler)
                count_batch(
                    sampler,
                    lambda block: grown[block.shard % 3].cuts[id(block)][1],
                    found,
                    expected,
                )
            assert sum(of["losses"] for of in sampler.stats()["shards"]) == 0
            sampler.close()
            ray.get([of.close.remote() for of in writes], timeout=WATCHDOG_S)
        finally:
            shards.unlink()
    return over_quantile(found, expected)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_draws_over_nodes_that_grow_are_those_of_one_ring(cluster: Any, case: Case) -> None:
    ratio = ratio_on_ray(cluster, case, DRAWS, RemoteHeads)
    print(f"{DRAWS} draws: {ratio:.2f} of the quantile of p = 0.001")
    assert ratio < 1


def test_equal_shares_of_nodes_are_found_out(cluster: Any) -> None:
    assert ratio_on_ray(cluster, CASES["uniform"], 5_000, EqualShares) > 1.5
