"""Draws over shards that wait or fail, beside calls of other threads."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any, TypeAlias

import backcast as bc
import numpy as np
import pytest
from backcast.errors import ClosedError, ExistsError, SampleError
from backcast.ray._sampler import ShardSampler
from local_shards import append, sampler_of, spec_of, started, until

COLUMNS = {"obs": "f4", "reward": "f4"}
LIMITS = bc.RateLimiter(1, min_size=10, error_buffer=(-30, 30))
Waiting: TypeAlias = tuple[ShardSampler, threading.Thread, list[BaseException]]


def test_what_was_admitted_for_a_draw_that_failed_counts_for_the_next() -> None:
    with started(spec_of(2, COLUMNS, 10_000, LIMITS), ceiling=20) as shards:
        for shard in shards:
            append(shard.ring, range(100))
            # No transition is left, and the inserts stay counted.
            shard.ring.clear()
        sampler = sampler_of(shards)
        for _ in range(5):
            with pytest.raises(SampleError, match="none of the 2 shards"):
                sampler.sample(8)
        assert sampler.stats()["limiter"]["samples"] == 8
        assert sampler.state()["admitted"] == 8
        # The headroom moves within some draws.
        until(lambda: _tried(sampler) or append(shards[0].ring, range(5)) == 5)
        sampler.sample(8, timeout=0)
        assert sampler.stats()["limiter"]["samples"] == 8
        sampler.close()


def test_a_sampler_that_one_shard_refuses_is_closed_at_the_others() -> None:
    with started(spec_of(2, COLUMNS, 1_000)) as shards:
        with shards[1].ring.sampler(select=bc.Priority(alpha=0.9)):
            pass
        with pytest.raises(ExistsError):
            sampler_of(shards, select=bc.Priority(alpha=0.6))
        assert [len(shard._open) for shard in shards] == [0, 0]


def _tried(sampler: ShardSampler) -> bool:
    """Draw from shards without rows."""
    with contextlib.suppress(SampleError):
        sampler.sample(8)
    return False
