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
from local_shards import append, sampler_of, spec_of, started

COLUMNS = {"obs": "f4", "reward": "f4"}
LIMITS = bc.RateLimiter(1, min_size=10, error_buffer=(-30, 30))
Waiting: TypeAlias = tuple[ShardSampler, threading.Thread, list[BaseException]]


def test_a_sampler_that_one_shard_refuses_is_closed_at_the_others() -> None:
    with started(spec_of(2, COLUMNS, 1_000)) as shards:
        with shards[1].ring.sampler(select=bc.Priority(alpha=0.9)):
            pass
        with pytest.raises(ExistsError):
            sampler_of(shards, select=bc.Priority(alpha=0.6))
        assert [len(shard._open) for shard in shards] == [0, 0]
