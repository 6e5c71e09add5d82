"""Rings of shards that are made, found, cleared, resized and removed, beside samplers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import backcast as bc
import numpy as np
import pytest
from backcast.errors import ExistsError, LappedError, SampleError
from backcast.ray._shard import _MOST_OPEN, BlockRequest, Exist, Shard, generation_of
from backcast.ray._spec import Spec
from local_shards import append, in_thread, sampler_of, spec_of, started
from waits import WATCHDOG_S, until

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
    # Removes as `Shards.create` and `load` do when a shard has failed.
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


@pytest.mark.parametrize("method", ["stats.look", "counts", "block", "remove"])
def test_a_shard_that_is_being_made_makes_no_ring_for_others(method: str) -> None:
    shard = Shard(spec_of(1, COLUMNS, 1_000), 0, "node-0")
    name = shard.spec.ring_name(0)
    calls: dict[str, Callable[[], Any]] = {
        "stats.look": lambda: shard.call("stats.look"),
        "counts": shard.counts,
        "block": lambda: shard.block(BlockRequest("key", 1, 1, 0.0, None, "")),
    }
    assert shard.describe() == shard.spec
    if method == "remove":
        shard.remove()
    else:
        with pytest.raises(bc.NotFoundError, match=r"has no ring yet; wait until Shards\.create"):
            calls[method]()
    with pytest.raises(bc.NotFoundError):
        bc.ReplayBuffer.attach(name)
    # The call that makes it goes on as if nobody had asked.
    shard.start("error")
    assert shard.describe() == shard.spec
    shard.remove()


def test_a_shard_that_is_started_again_finds_its_ring_at_any_call(earlier: Spec) -> None:
    again = Shard(earlier, 0, "node-0")
    again.is_restarted = True
    assert again.counts().generation == generation_of(again.ring)
    assert len(again.ring) == 50
    assert not again.is_made


def test_a_shard_that_is_started_again_is_removed_with_its_ring(earlier: Spec) -> None:
    again = Shard(earlier, 0, "node-0")
    again.is_restarted = True
    again.remove()
    with pytest.raises(bc.NotFoundError):
        bc.ReplayBuffer.attach(earlier.ring_name(0))


def test_writers_that_wait_for_a_learner_go_on_when_the_shard_is_removed() -> None:
    shard = Shard(spec_of(1, COLUMNS, 10_000, LIMITS), 0, "node-0")
    shard.start("error", 20)
    ring = bc.ReplayBuffer.attach(shard.spec.ring_name(0), on_unlinked="ignore")
    errors: list[BaseException] = []

    def write() -> None:
        with ring.writer() as writer:
            for step in range(100):
                writer.append(obs=0, reward=step, terminated=False, truncated=False)

    thread = in_thread(write, errors)
    until(shard._waits)
    shard.remove()
    thread.join(WATCHDOG_S)
    assert not thread.is_alive()
    assert not errors
    assert len(ring) == 99
    ring.close()


def test_writers_that_a_killed_learner_left_waiting_go_on_with_the_next_one() -> None:
    with started(spec_of(1, COLUMNS, 10_000, LIMITS), ceiling=20) as [shard]:
        # The first one ends without a word to the shard.
        sampler_of([shard])
        assert append(shard.ring, range(100)) < 100
        before = shard.counts().inserts or 0
        with sampler_of([shard], seed=2) as sampler:
            sampler.sample(16)
            sampler.sample(16)
        assert append(shard.ring, range(100)) >= 16
        assert (shard.counts().inserts or 0) > before


@pytest.mark.parametrize(
    "options",
    [
        {"select": bc.Priority(alpha=(0.4, 0.6, 100))},
        {"select": bc.Priority(alpha=0.5, stratified=True)},
        {"select": bc.Priority(alpha=0.5), "form": bc.WholeEpisodes("padded")},
        {"select": bc.Priority(alpha=0.5), "max_age": 10},
    ],
)
def test_options_that_are_refused_leave_no_table(options: dict[str, Any]) -> None:
    with started(spec_of(2, COLUMNS, 1_000)) as shards:
        append(shards[0].ring, range(50))
        with pytest.raises(SampleError):
            sampler_of(shards, **options)
        for shard in shards:
            assert shard.ring.stats()["tables"] == []
        with sampler_of(shards, select=bc.Priority(alpha=0.6)) as sampler:
            sampler.sample(8)


def test_a_table_that_was_there_stays_when_options_are_refused() -> None:
    with started(spec_of(1, COLUMNS, 1_000)) as [shard]:
        append(shard.ring, range(50))
        with shard.ring.sampler(select=bc.Priority(alpha=0.6)):
            pass
        with pytest.raises(SampleError):
            sampler_of([shard], select=bc.Priority(alpha=0.6, stratified=True))
        assert len(shard.ring.stats()["tables"]) == 1


def test_rows_of_a_cleared_shard_are_not_drawn_for_long() -> None:
    now = [100.0]
    with started(spec_of(2, COLUMNS, 1_000)) as shards:
        for number, shard in enumerate(shards):
            append(shard.ring, range(1_000 * number, 1_000 * number + 101))
        sampler = sampler_of(shards, select=bc.Priority(alpha=1.0), clock=lambda: now[0])
        before = sampler.sample(64)
        mine = before["shard"] == 0
        shards[0].ring.clear()
        sampler.update_priorities(before.index, before["shard"], np.full(64, 2.0))
        # Blocks ahead and in use: two that were asked for ahead, and two draws more.
        for _ in range(6):
            now[0] += 0.2
            batch = sampler.sample(64)
        assert set(batch["shard"].tolist()) == {1}
        assert sampler.stats()["shards"][0]["stale_priorities"] == mine.sum()
        with pytest.raises(LappedError):
            sampler.gather(before.index, before["shard"])
        found = sampler.gather(before.index, before["shard"], missing="mask")["found"]
        assert (found == ~mine).all()
        # The ring goes on, and its rows have other indices.
        append(shards[0].ring, range(500, 551))
        for _ in range(6):
            now[0] += 0.2
            batch = sampler.sample(64)
        assert set(batch["shard"].tolist()) == {0, 1}
        assert (batch["reward"][batch["shard"] == 0] >= 500).all()
        assert not np.isin(batch.index[batch["shard"] == 0], before.index[mine]).any()


def test_a_shard_that_is_resized_stays_the_same_ring() -> None:
    now = [100.0]
    with started(spec_of(2, COLUMNS, 200)) as shards:
        for shard in shards:
            append(shard.ring, range(201))
        sampler = sampler_of(shards, seed=3, clock=lambda: now[0])
        before = sampler.sample(64)
        shards[0].ring.resize(1_000)
        append(shards[0].ring, range(201, 801))
        assert generation_of(shards[0].ring) == shards[0].generation
        for _ in range(6):
            now[0] += 0.2
            sampler.sample(64)
        batch = sampler.sample(8_000)
        # One ring of both would have 799 and 200 transitions.
        share = len(shards[0].ring) / (len(shards[0].ring) + 200)
        assert share > 0.75
        assert abs((batch["shard"] == 0).mean() - share) < 5 * np.sqrt(share * (1 - share) / 8_000)
        assert sampler.stats()["shards"][0]["losses"] == 0
        rows = sampler.gather(before.index, before["shard"], missing="mask")
        kept = rows["found"]
        assert kept[before["shard"] == 0].all()
        assert (rows["reward"][kept] == before["reward"][kept]).all()


def test_samplers_that_killed_learners_left_do_not_add_up() -> None:
    with started(spec_of(2, COLUMNS, 1_000)) as shards:
        for shard in shards:
            append(shard.ring, range(101))
        kept = sampler_of(shards, select=bc.Priority(alpha=1.0))
        abandoned = [sampler_of(shards) for _ in range(3 * _MOST_OPEN // 2)]
        assert [len(shard._open) for shard in shards] == [_MOST_OPEN] * 2
        # One that was closed for others opens again, and draws from all shards.
        for _ in range(8):
            batch = kept.sample(64)
        assert set(batch["shard"].tolist()) == {0, 1}
        assert kept.stats()["shards"][0]["opens"] == 2
        # The one that draws is not the next to be closed.
        abandoned += [sampler_of(shards) for _ in range(_MOST_OPEN // 2)]
        kept.sample(64)
        assert kept.stats()["shards"][0]["opens"] == 2
