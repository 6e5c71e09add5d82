"""Rings of shards that are made, found, cleared, resized and removed, beside samplers."""

from __future__ import annotations

from collections.abc import Iterator

import backcast as bc
import numpy as np
import pytest
from backcast.errors import ExistsError, LappedError, SampleError
from backcast.ray._shard import Exist, Shard, generation_of
from backcast.ray._spec import Spec
from local_shards import append, sampler_of, spec_of, started

COLUMNS = {"obs": "f4", "reward": "f4"}
LIMITS = bc.RateLimiter(1, min_size=10, error_buffer=(-30, 30))


@pytest.fixture
def earlier() -> Iterator[Spec]:
    """Make a ring of an earlier run, with 50 rows, which has the name of a shard."""
    spec = spec_of(1, COLUMNS, 1_000)
    with bc.ReplayBuffer.create(spec.ring_name(0), COLUMNS, capacity=1_000) as ring:
        append(ring, range(51))
        yield spec
        ring.unlink()


@pytest.mark.parametrize("exist", ["error", "attach"])
def test_shards_that_fail_to_start_leave_the_rings_that_they_found(
    earlier: Spec, exist: Exist
) -> None:
    shard = Shard(earlier, 0, "node-0")
    if exist == "error":
        with pytest.raises(ExistsError):
            shard.start("error")
    else:
        shard.start("attach")
    # As `Shards.create` and `load` do when any shard has failed.
    shard.discard()
    with bc.ReplayBuffer.attach(earlier.ring_name(0)) as ring:
        assert len(ring) == 50


@pytest.mark.parametrize("exist", ["error", "attach", "replace"])
def test_shards_that_fail_to_start_remove_the_rings_that_they_made(exist: Exist) -> None:
    shard = Shard(spec_of(1, COLUMNS, 100), 0, "node-0")
    shard.start(exist)
    name = shard.spec.ring_name(0)
    shard.discard()
    with pytest.raises(bc.NotFoundError):
        bc.ReplayBuffer.attach(name)
