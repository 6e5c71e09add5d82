"""One rate limiter over shards that answer late, not at all, or with another ring."""

from __future__ import annotations

import contextlib
import warnings
from pathlib import Path

import backcast as bc
import pytest
from backcast.errors import InUseError, ShardWarning
from backcast.ray._limiter import Ceilings
from backcast.ray._shard import Origin, Shard
from backcast.ray._spec import Spec
from local_shards import spec_of, started
from unreliable_shards import COLUMNS, TIMEOUT, Cluster, lose, rounds

LIMITS = bc.RateLimiter(1, min_size=30, error_buffer=(-30, 30))


def limiter_of(shard: Shard) -> bc.types.Limiter:
    """Return the limiter of a shard's ring."""
    limiter = shard.ring.limiter
    assert limiter is not None
    return limiter


def inserts_of(*shards: Shard) -> int:
    """Return the inserts that the limiters of shards counted."""
    return sum(limiter_of(shard).inserts for shard in shards)


def limited() -> Spec:
    return spec_of(3, COLUMNS, 10_000, LIMITS)


def test_ceilings_are_compared_once_in_a_while_and_not_at_each_draw(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[int] = []
    target = Ceilings.target

    def counted(self: Ceilings, number: int) -> int:
        looks.append(number)
        return target(self, number)

    monkeypatch.setattr(Ceilings, "target", counted)
    with started(limited(), ceiling=300) as shards:
        cluster = Cluster(shards)
        for number in range(3):
            cluster.append(number, 201)
        sampler = cluster.sampler()
        rounds(cluster, sampler, 10, 8)
        # Not even once: no time has passed since the shards were told.
        looks.clear()
        rounds(cluster, sampler, 10, 8)
        assert looks == []
        cluster.clock.now += 1.0
        rounds(cluster, sampler, 10, 8)
        assert sorted(looks) == [0, 1, 2]
        sampler.close()


@pytest.mark.parametrize("prefetch", [0, 2])
def test_a_shard_has_its_ceiling_right_after_the_draw_that_raised_it(prefetch: int) -> None:
    with started(spec_of(1, COLUMNS, 10_000, LIMITS), ceiling=10) as shards:
        cluster = Cluster(shards)
        with cluster.sampler(prefetch=prefetch) as sampler:
            known = sampler._limits.ceilings
            assert known is not None
            rounds(cluster, sampler, 6, 16, writers=(0,))
            for _ in range(12):
                cluster.append(0, 1_000)
                cluster.clock.now += 1.0
                before = known.limit
                sampler.sample(16)
                assert known.limit == before + 16
                assert limiter_of(shards[0]).ceiling == known.target(0) == known.limit


def test_a_draw_that_waits_lets_writers_go_on_as_far_as_it_was_admitted() -> None:
    with started(spec_of(1, COLUMNS, 10_000, LIMITS), ceiling=10) as shards:
        cluster = Cluster(shards)
        with cluster.sampler() as sampler:
            for _ in range(4):
                total = cluster.append(0, 1_000)
            assert total < 1_000
            # Needs more inserts than the limit allows before any of its items counts.
            sleep, written = cluster.clock.sleep, list[int]()

            def writing(seconds: float) -> None:
                sleep(seconds)
                written.append(cluster.append(0, 1_000))

            sampler._sleep = writing
            sampler.sample(500, timeout=60)
            assert sum(written) > 400


def test_the_limiter_holds_writers_of_all_shards_together() -> None:
    with started(limited(), ceiling=10) as shards:
        cluster = Cluster(shards)
        sampler = cluster.sampler()
        total = 0
        for _ in range(60):
            # The first shard is written fast, the second slowly, the third hardly ever.
            total += cluster.append(0, 1_000) + cluster.append(1, 2)
            total += cluster.append(2, int(total % 5 == 0))
            try:
                sampler.sample(16, timeout=0)
            except bc.RateLimitTimeoutError:
                continue
            cluster.clock.now += 0.05
        known = sampler.stats()["limiter"]
        inserts = inserts_of(*shards)
        assert known["excess"] == 0
        assert inserts <= known["limit"]
        # The fast shard got what the slow ones left.
        assert known["samples"] > 300
        assert inserts_of(shards[0]) > 0.7 * inserts
        sampler.close()


def test_a_suspended_shard_adds_at_most_its_ceiling() -> None:
    with started(limited(), ceiling=10) as shards:
        cluster = Cluster(shards)
        sampler = cluster.sampler()
        rounds(cluster, sampler, 6, 16, writers=(0, 1, 2))
        cluster.ways[0].become("hangs")
        ceiling = limiter_of(shards[0]).ceiling
        assert ceiling is not None
        before = inserts_of(shards[0])
        with pytest.warns(ShardWarning):
            rounds(cluster, sampler, 30, 16, writers=(1, 2))
        cluster.append(0, 1_000)
        limit = sampler.stats()["limiter"]["limit"]
        inserts = inserts_of(*shards)
        assert limit is not None
        assert inserts <= limit + ceiling - before
        assert inserts_of(shards[0]) == ceiling
        cluster.ways[0].become("well")
        for _ in range(20):
            sampler.sample(16)
            for number in range(3):
                cluster.append(number, 1_000)
            cluster.clock.now += 0.05
        assert inserts_of(*shards) <= limit + 20 * 16 + 1
        sampler.close()


def test_a_new_ring_waits_for_the_learner_and_what_was_inserted_stays_counted() -> None:
    with started(limited(), ceiling=10) as shards:
        cluster = Cluster(shards)
        sampler = cluster.sampler()
        rounds(cluster, sampler, 6, 16, writers=(0, 1, 2))
        counted = sampler.stats()["limiter"]["inserts"]
        cluster.ways[2].become("gone")
        with pytest.warns(ShardWarning, match="lost: its node"):
            rounds(cluster, sampler, 6, 8, writers=(0,))
        again = Shard(shards[2].spec, 2, "node-9")
        again.start("replace")
        cluster.writers[2] = again.ring.writer(timeout=0)
        # No learner has told it yet what it may insert.
        assert cluster.append(2, 10) == 1  # a first row is no transition
        cluster.ways[2].shard = again
        cluster.ways[2].become("well")
        cluster.clock.now += TIMEOUT
        with pytest.warns(ShardWarning, match="lost its rows"):
            rounds(cluster, sampler, 20, 4, writers=(2,))
        known = sampler.stats()["limiter"]
        assert known["inserts"] >= counted
        assert known["excess"] == 0
        assert inserts_of(again) > 0
        sampler.close()
        shards[2].ring.close()
        shards[2] = again


@pytest.mark.parametrize("is_lost_again", [False, True])
def test_inserts_of_lost_rings_stay_counted_by_a_sampler_that_goes_on(is_lost_again: bool) -> None:
    with started(limited(), ceiling=10) as shards:
        cluster = Cluster(shards)
        sampler = cluster.sampler()
        rounds(cluster, sampler, 6, 16, writers=(0, 1, 2))
        lose(cluster, 2)
        with pytest.warns(ShardWarning, match="lost its rows"):
            rounds(cluster, sampler, 6, 16, writers=(0, 1, 2))
        state, known = sampler.state(), sampler.stats()["limiter"]
        assert known["inserts"] > inserts_of(*shards)
        sampler.close()
        if is_lost_again:
            lose(cluster, 2)
        with cluster.sampler(state=state) as again:
            assert again.stats()["limiter"]["inserts"] == known["inserts"]
            assert again.stats()["limiter"]["samples"] == state["samples"]
            # Draws go on at once, which would wait for the lost inserts otherwise.
            rounds(cluster, again, 6, 16, writers=(0, 1, 2), timeout=0)
            assert again.stats()["limiter"]["excess"] == 0


@pytest.mark.parametrize("is_lost_before", [False, True])
def test_inserts_of_a_loaded_ring_beyond_those_of_the_state_are_counted(
    is_lost_before: bool, tmp_path: Path
) -> None:
    with started(limited(), ceiling=10) as shards:
        cluster = Cluster(shards)
        with cluster.sampler() as sampler:
            rounds(cluster, sampler, 6, 16, writers=(0, 1, 2))
            if is_lost_before:
                lose(cluster, 2)
                with pytest.warns(ShardWarning, match="lost its rows"):
                    rounds(cluster, sampler, 6, 16, writers=(0, 1, 2))
            state = sampler.state()
            # The snapshot is of a later instant than the state.
            rounds(cluster, sampler, 6, 16, writers=(2,))
            known = sampler.stats()["limiter"]["inserts"]
        lost, store = shards[2], str(tmp_path)
        own, of_state = limiter_of(lost).inserts, state["rings"][2]
        assert own > of_state["inserts"] - of_state["offset"]
        cluster.writers[2].close()
        part = lost.call("snapshots.save", "later", store)["part"]
        lost.remove()
        shards[2] = cluster.ways[2].shard = Shard(lost.spec, 2, "node-9")
        shards[2].call("snapshots.load", part, store, "error")
        assert limiter_of(shards[2]).inserts == own
        with cluster.sampler(state=state) as again:
            assert again.stats()["limiter"]["inserts"] == known
            assert again.stats()["limiter"]["ceilings"][2] >= own


def test_an_older_part_loaded_after_a_second_loss_counts_no_insert_twice(tmp_path: Path) -> None:
    with started(limited(), ceiling=10) as shards:
        cluster, store = Cluster(shards), str(tmp_path)
        with cluster.sampler() as sampler:
            rounds(cluster, sampler, 6, 16, writers=(0, 1, 2))
            source = shards[2].generation
            part = shards[2].call("snapshots.save", "first", store)["part"]
            rounds(cluster, sampler, 6, 16, writers=(0, 1, 2))
            lose(cluster, 2)
            with pytest.warns(ShardWarning, match="is back with a new ring"):
                rounds(cluster, sampler, 6, 16, writers=(0, 1, 2))
            lost = shards[2]
            cluster.writers[2].close()
            lost.remove()
            shards[2] = cluster.ways[2].shard = Shard(lost.spec, 2, "node-9")
            shards[2].call("snapshots.load", part, store, "error")
            shards[2].origin = Origin("run@first", source=source)
            before = sampler.stats()["limiter"]["inserts"]
            with pytest.warns(ShardWarning, match="is back with those of snapshot"):
                rounds(cluster, sampler, 2, 16)
            assert sampler.stats()["limiter"]["inserts"] == before


def test_a_ceiling_that_is_meant_for_a_lost_ring_is_not_set() -> None:
    with started(limited(), ceiling=10) as shards:
        assert shards[0].counts("key", 500, "another").ceiling == 10
        assert shards[0].counts("key", 12, shards[0].generation).ceiling == 12


def test_samples_that_an_earlier_learner_drew_stay_counted() -> None:
    with started(limited(), ceiling=10) as shards:
        cluster = Cluster(shards)
        for number in range(3):
            cluster.append(number, 1_000)
        first = cluster.sampler()
        first.sample(30)
        second = cluster.sampler()
        assert second.stats()["limiter"]["samples"] >= 30
        with pytest.raises(InUseError, match="another sampler"):
            rounds(cluster, first, 30, 1, writers=(0,))
        state = second.state()
        third = cluster.sampler(state=state)
        assert third.stats()["limiter"]["samples"] == state["samples"]
        third.close()


def test_samples_of_a_shard_that_answers_late_stay_counted_once() -> None:
    with started(limited(), ceiling=10) as shards:
        cluster = Cluster(shards)
        for number in range(3):
            cluster.append(number, 1_000)
        with cluster.sampler() as first:
            first.sample(30)
        counted = [limiter_of(shard).samples for shard in shards]
        assert min(counted) > 0
        cluster.ways[1].become("hangs")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ShardWarning)
            second = cluster.sampler()
            assert second.stats()["limiter"]["samples"] == counted[0] + counted[2]
            cluster.ways[1].become("well")
        drawn = 0
        for _ in range(20):
            for number in range(3):
                cluster.append(number, 1_000)
            with contextlib.suppress(bc.RateLimitTimeoutError):
                drawn += len(second.sample(4, timeout=0.05).index)
        assert drawn > 0
        state = second.state()
        assert state["samples"] == sum(counted) + drawn + state["admitted"]
        second.close()


def test_a_draw_that_ended_early_keeps_what_was_admitted() -> None:
    with started(limited(), ceiling=10) as shards:
        cluster = Cluster(shards)
        for number in range(3):
            cluster.append(number, 1_000)
        sampler = cluster.sampler()
        with pytest.raises(bc.RateLimitTimeoutError, match="held a draw of 500"):
            sampler.sample(500, timeout=0.1)
        samples = sampler.stats()["limiter"]["samples"]
        assert sampler.state()["admitted"] == samples > 0
        sampler.sample(samples, timeout=0)
        assert sampler.stats()["limiter"]["samples"] == samples
        sampler.close()
