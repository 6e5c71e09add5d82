"""Draws over shards that wait or fail, beside calls of other threads."""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Iterator
from typing import Any, TypeAlias

import backcast as bc
import numpy as np
import pytest
from backcast.errors import ClosedError, ExistsError, NotFoundError, SampleError, ShardWarning
from backcast.ray._sampler import ShardSampler
from backcast.ray._shard import Shard
from backcast.ray._stats import counts_of
from local_shards import append, in_thread, sampler_of, spec_of, started
from waits import WATCHDOG_S, until

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


@pytest.fixture
def waiting() -> Iterator[Waiting]:
    """Start a draw that waits for the limiter."""
    with started(spec_of(2, COLUMNS, 10_000, LIMITS), ceiling=20) as shards:
        append(shards[0].ring, range(15))
        sampler, errors = sampler_of(shards), list[BaseException]()
        thread = in_thread(lambda: sampler.sample(1_000), errors)
        until(lambda: sampler._limits.samples > 10)
        yield sampler, thread, errors
        sampler.close()
        thread.join(WATCHDOG_S)


def test_statistics_do_not_wait_for_a_draw(waiting: Waiting) -> None:
    sampler, thread, _ = waiting
    found: list[dict[str, Any]] = []
    errors: list[BaseException] = []
    asking = in_thread(lambda: found.append(sampler.stats()), errors)
    asking.join(10)
    assert thread.is_alive()
    assert not errors
    assert found[0]["limiter"]["inserts"] == 14


@pytest.mark.parametrize("limits", [bc.RateLimiter(min_size=10), LIMITS, None])
def test_a_fleet_shows_the_counts_of_the_sampler(limits: bc.RateLimiter | None) -> None:
    with started(spec_of(1, COLUMNS, 1_000, limits), ceiling=50) as shards:
        append(shards[0].ring, range(31))
        with sampler_of(shards) as sampler:
            sampler.sample(8)
            counts = sampler.stats()["limiter"]
            assert counts_of([sampler]) == counts
            if limits is not None:
                # Without an end of the inserts there is no limit of them.
                assert (counts["limit"] is None) == (limits is not LIMITS)
        assert counts_of([sampler]) is None


def test_a_close_ends_a_draw_that_waits(waiting: Waiting) -> None:
    sampler, thread, errors = waiting
    closing = in_thread(sampler.close, [])
    closing.join(10)
    thread.join(10)
    assert not closing.is_alive()
    assert not thread.is_alive()
    assert [type(error) for error in errors] == [ClosedError]


def test_a_mask_of_another_shape_is_refused() -> None:
    with started(spec_of(1, COLUMNS, 1_000)) as shards:
        append(shards[0].ring, range(101))
        with sampler_of(shards, select=bc.Priority(alpha=1.0)) as sampler:
            batch = sampler.sample(8)
            with pytest.raises(SampleError, match=r"mask has the shape \(3,\), but priority \(8"):
                sampler.update_priorities(
                    *(batch.index, batch["shard"], np.ones((8, 2))), mask=np.ones(3, np.bool_)
                )


@pytest.mark.parametrize("limiter", [None, LIMITS], ids=["", "limiter"])
def test_draws_from_shards_that_were_removed_end(limiter: bc.RateLimiter | None) -> None:
    spec = spec_of(2, COLUMNS, 1_000, limiter)
    shards = [Shard(spec, number, f"node-{number}") for number in range(2)]
    try:
        for shard in shards:
            shard.start("error", 1_000)
        append(shards[0].ring, range(101))
        sampler = sampler_of(shards, are_removed=lambda: True)
        sampler.sample(8)
        if limiter is not None:
            # The draws that follow wait for the limiter, and not for a shard.
            with pytest.raises(bc.RateLimitTimeoutError):
                [sampler.sample(8, timeout=0) for _ in range(100)]
    finally:
        for shard in shards:
            shard.remove()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ShardWarning)
        with pytest.raises(NotFoundError, match="were removed with unlink"):
            [sampler.sample(8, timeout=10) for _ in range(100)]
        with pytest.raises(NotFoundError, match="were removed with unlink"):
            sampler_of(shards, are_removed=lambda: True)
