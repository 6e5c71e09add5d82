"""Shards that do not answer, die, and come back: what a sampler does, with a clock of its own."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import backcast as bc
import numpy as np
import pytest
from backcast._shards import Drawn
from backcast.errors import CorruptError, LappedError, SampleError, ShardWarning, WaitTimeoutError
from backcast.ray._sampler import ShardSampler
from backcast.ray._shard import BlockRequest, Origin, Shard
from local_shards import spec_of, started
from unreliable_shards import COLUMNS, TIMEOUT, Cluster, lose, rounds, shards_of


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with started(spec_of(3, COLUMNS, 1_000)) as shards:
        made = Cluster(shards)
        for number in range(3):
            made.append(number, 101)
        yield made
        for writer in made.writers:
            writer.close()


def longest_draw(cluster: Cluster, sampler: ShardSampler) -> float:
    """Draw some times, and return the seconds that the longest draw took."""
    longest = 0.0
    for _ in range(20):
        before = cluster.clock.now
        sampler.sample(64)
        longest = max(longest, cluster.clock.now - before)
    return longest


def until_left_out(sampler: ShardSampler, number: int) -> None:
    """Draw until the blocks that had come are used up, and a warning says that no more come."""
    for _ in range(10):
        sampler.sample(64)
        if sampler.stats()["shards"][number]["status"] != "active":
            return
    pytest.fail("never left out")


def test_a_shard_that_hangs_is_left_out_and_comes_back(cluster: Cluster) -> None:
    sampler = cluster.sampler()
    assert shards_of(sampler.sample(64)) == {0, 1, 2}
    cluster.ways[1].become("hangs")
    begin = cluster.clock.now
    with pytest.warns(ShardWarning, match="shard 1 .*suspended: no answer for 1 s") as warned:
        longest = longest_draw(cluster, sampler)
    # The line that draws.
    drew = longest_draw.__code__.co_firstlineno + 5
    assert [(of.filename, of.lineno) for of in warned] == [(__file__, drew)]
    assert longest <= TIMEOUT
    assert cluster.clock.now - begin <= 1.1 * TIMEOUT
    assert shards_of(sampler.sample(64)) == {0, 2}
    seen = sampler.stats()["shards"][1]
    assert (seen["status"], seen["suspensions"], seen["losses"]) == ("suspended", 1, 0)
    cluster.ways[1].become("well")
    assert shards_of(sampler.sample(256)) == {0, 1, 2}
    assert sampler.stats()["shards"][1]["status"] == "active"


def test_items_that_came_were_drawn_or_dropped_or_wait(cluster: Cluster) -> None:
    sampler = cluster.sampler()
    heads = sampler._heads._heads

    def dropped(drawn: int) -> list[int]:
        shards = sampler.stats()["shards"]
        ready = [block for link in sampler._links for block in link.ready]
        waiting = sum(of.left for of in heads if of) + sum(len(block.q) for block in ready)
        found: list[int] = [of["dropped"] for of in shards]
        assert sum(of["items"] for of in shards) == drawn + sum(found) + waiting
        return found

    rounds(cluster, sampler, 10, 64)
    assert dropped(640) == [0, 0, 0], "without pauses nothing is"
    # All heads and blocks ahead are too old, once they were asked for some draws ago.
    for _ in range(6):
        cluster.clock.now += 1
        sampler.sample(2)
    old = dropped(652)
    assert min(old) > 0
    rounds(cluster, sampler, 5, 64)
    cluster.ways[1].become("gone")
    # Blocks ahead of the loss go with the rows.
    sampler._links[1].ask_block(sampler._key, 8, 0)
    with pytest.warns(ShardWarning, match="its node is gone"):
        sampler.sample(64)
    assert dropped(652 + 6 * 64)[1] > old[1]


def test_a_shard_left_out_gives_no_mass(cluster: Cluster) -> None:
    sampler = cluster.sampler()
    cluster.ways[2].become("hangs")
    with pytest.warns(ShardWarning):
        until_left_out(sampler, 2)
    found = np.bincount(sampler.sample(20_000)["shard"], minlength=3)
    assert found[2] == 0
    assert abs(found[0] - 10_000) < 5 * 71


def test_an_actor_that_is_started_again_loses_no_rows(cluster: Cluster) -> None:
    sampler = cluster.sampler()
    batch = sampler.sample(64)
    shard = cluster.shards[0]
    cluster.ways[0].become("away")
    with pytest.warns(ShardWarning, match="its actor died"):
        until_left_out(sampler, 0)
    # The actor knows no sampler any more, and attaches to the ring.
    again = Shard(shard.spec, 0, "node-0")
    again.start("attach")
    assert again.generation == shard.generation
    cluster.ways[0].shard = again
    cluster.ways[0].become("well")
    cluster.clock.now += TIMEOUT
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(4):
            after = sampler.sample(256)
    assert shards_of(after) == {0, 1, 2}
    rows = sampler.gather(batch.index, batch["shard"])
    assert (rows["reward"] == batch["reward"]).all()
    seen = sampler.stats()["shards"][0]
    assert (seen["suspensions"], seen["losses"], seen["opens"]) == (1, 0, 2)


def test_a_node_that_is_gone_comes_back_with_a_new_ring(cluster: Cluster) -> None:
    sampler = cluster.sampler(select=bc.Priority(alpha=1.0))
    batch = sampler.sample(256)
    mine = batch["shard"] == 2
    cluster.ways[2].become("gone")
    with pytest.warns(ShardWarning, match="lost: its node is gone"):
        rounds(cluster, sampler, 3, 256)
    # Blocks that came ahead are dropped: their rows are gone.
    assert shards_of(sampler.sample(64)) == {0, 1}
    again = Shard(cluster.shards[2].spec, 2, "node-9")
    again.start("replace")
    with again.ring.writer() as writer:
        for step in range(51):
            writer.append(obs=9, reward=step, terminated=False, truncated=False)
    cluster.ways[2].shard = again
    cluster.ways[2].become("well")
    cluster.clock.now += TIMEOUT
    with pytest.warns(ShardWarning, match="lost its rows"):
        after = rounds(cluster, sampler, 4, 256)
    assert shards_of(after) == {0, 1, 5}
    assert (after["obs"][after["shard"] == 5] == 9).all()
    # Indices of the lost ring mean nothing in the new one.
    sampler.update_priorities(batch.index, batch["shard"], np.full(256, 7.0))
    assert sampler.stats()["shards"][2]["stale_priorities"] == mine.sum()
    assert again.ring.stats()["tables"][0]["updated"] == 0
    with pytest.raises(LappedError, match="shard 2"):
        sampler.gather(batch.index, batch["shard"])
    rows = sampler.gather(batch.index, batch["shard"], missing="mask")
    assert (rows["found"] == ~mine).all()
    again.ring.unlink()
    cluster.shards[2] = again


@pytest.mark.parametrize(
    ("origin", "words"),
    [
        (Origin(), "is back with a new ring"),
        (Origin("run@one"), "is back with those of snapshot `run@one`"),
        (
            Origin(problem="snapshot `run@one`: there is no part"),
            "with an empty ring: it could not load snapshot `run@one`: there is no part",
        ),
    ],
)
def test_the_learner_hears_what_a_node_came_back_with(
    cluster: Cluster, origin: Origin, words: str
) -> None:
    sampler = cluster.sampler()
    sampler.sample(64)
    lose(cluster, 2)
    cluster.shards[2].origin = origin
    with pytest.warns(ShardWarning, match=words):
        rounds(cluster, sampler, 4, 256)
    shown = [(of["snapshot"], of["snapshot_problem"]) for of in sampler.stats()["shards"]]
    assert shown == [(None, None), (None, None), (origin.snapshot, origin.problem)]


def test_blocks_that_came_ahead_of_a_loss_are_dropped_with_the_rows(cluster: Cluster) -> None:
    sampler = cluster.sampler()
    sampler.sample(8)
    link = sampler._links[2]
    link.poll()
    assert link.ready
    cluster.ways[2].become("gone")
    link.ask_block(sampler._key, 8, 0)
    with pytest.warns(ShardWarning, match="lost: its node is gone"):
        batch = sampler.sample(64)
    assert shards_of(batch) == {0, 1}
    assert not link.ready
    # It knows that the shard, should it come back, has no sampler.
    cluster.ways[2].become("well")
    cluster.clock.now += TIMEOUT
    opens = link.counts["opens"]
    assert shards_of(rounds(cluster, sampler, 2, 64)) == {0, 1, 2}
    assert link.counts["opens"] == opens + 1


@pytest.mark.parametrize("losses", [1, 2])
def test_a_sampler_that_goes_on_tells_rows_of_lost_rings_from_new_ones(
    cluster: Cluster, losses: int
) -> None:
    sampler = cluster.sampler(select=bc.Priority(alpha=1.0))
    before = sampler.sample(256)
    if losses == 2:
        lose(cluster, 2)
        with pytest.warns(ShardWarning, match="lost its rows"):
            before = rounds(cluster, sampler, 6, 256)
        assert shards_of(before) == {0, 1, 5}
    state = json.loads(json.dumps(sampler.state()))
    sampler.close()
    # The last one is lost while no sampler looks.
    lose(cluster, 2)
    again = cluster.sampler(select=bc.Priority(alpha=1.0), state=state)
    after = again.sample(256)
    assert shards_of(after) == {0, 1, 2 + 3 * losses}
    assert again.stats()["shards"][2]["losses"] == losses
    mine = before["shard"] == 2 + 3 * (losses - 1)
    rows = again.gather(before.index, before["shard"], missing="mask")
    assert (rows["found"] == ~mine).all()
    again.update_priorities(before.index, before["shard"], np.full(256, 7.0))
    assert again.stats()["shards"][2]["stale_priorities"] == mine.sum()


def test_a_sampler_that_goes_on_keeps_the_numbers_of_shards_that_are_silent(
    cluster: Cluster,
) -> None:
    lose(cluster, 2)
    sampler = cluster.sampler()
    lose(cluster, 2)
    with pytest.warns(ShardWarning, match="lost its rows"):
        before = rounds(cluster, sampler, 6, 256)
    state = sampler.state()
    cluster.ways[2].become("away")
    with pytest.warns(ShardWarning, match="its actor died"):
        again = cluster.sampler(state=state)
    cluster.ways[2].become("well")
    assert again.state()["rings"] == state["rings"]
    cluster.clock.now += TIMEOUT
    assert shards_of(rounds(cluster, again, 4, 256)) == {0, 1, 5}
    rows = again.gather(before.index, before["shard"])
    assert (rows["reward"] == before["reward"]).all()


def test_without_any_shard_a_draw_waits_and_names_them(cluster: Cluster) -> None:
    sampler = cluster.sampler()
    sampler.sample(64)
    for way in cluster.ways:
        way.become("hangs")
    with pytest.warns(ShardWarning), pytest.raises(WaitTimeoutError) as raised:
        rounds(cluster, sampler, 10, 64, timeout=3)
    assert all(f"shard {number} of" in str(raised.value) for number in range(3))
    cluster.ways[1].become("well")
    assert shards_of(sampler.sample(64, timeout=3)) == {1}


def test_all_shards_that_stop_at_once_cost_one_timeout(cluster: Cluster) -> None:
    sampler = cluster.sampler(prefetch=0)
    sampler.sample(64)
    for way in cluster.ways[:2]:
        way.become("hangs")
    begin = cluster.clock.now
    with pytest.warns(ShardWarning):
        rounds(cluster, sampler, 3, 256)
    assert shards_of(sampler.sample(64)) == {2}
    assert cluster.clock.now - begin <= 1.05 * TIMEOUT


def test_a_sampler_opens_while_a_shard_is_gone(cluster: Cluster) -> None:
    cluster.ways[0].become("gone")
    with pytest.warns(ShardWarning, match="shard 0"):
        sampler = cluster.sampler()
    assert shards_of(sampler.sample(64)) == {1, 2}
    for way in cluster.ways:
        way.become("hangs")
    with pytest.raises(WaitTimeoutError, match="no shard answered"):
        cluster.sampler()


def test_what_a_shard_refuses_is_raised(cluster: Cluster) -> None:
    sampler = cluster.sampler(select=bc.Priority(alpha=1.0))
    sampler.sample(32)
    cluster.shards[0].ring.remove_table("priority", force=True)
    with pytest.raises(bc.NotFoundError):
        rounds(cluster, sampler, 5, 32)


def until_raised(sampler: ShardSampler, error: type[Exception]) -> int:
    """Draw until an error is raised; return the items that were drawn before."""
    items = 0
    for _ in range(10):
        try:
            items += len(sampler.sample(32).index)
        except error:
            return items
    pytest.fail("nothing was raised")


def test_an_error_after_a_draw_is_raised_by_the_next_one_and_the_batch_is_kept() -> None:
    with started(spec_of(3, COLUMNS, 1_000, bc.RateLimiter(min_size=10))) as shards:
        cluster = Cluster(shards)
        for number in range(3):
            cluster.append(number, 101)
        # Without blocks ahead the shard raises during a draw, which goes on without it.
        sampler = cluster.sampler(select=bc.Priority(alpha=1.0), prefetch=0)
        items = len(sampler.sample(32).index)
        shards[0].ring.remove_table("priority", force=True)
        items += until_raised(sampler, bc.NotFoundError)
        assert items > 32
        state = sampler.state()
        assert state["batches"] == items // 32
        assert state["samples"] - state["admitted"] == items


def test_a_warning_that_is_an_error_leaves_the_batch_and_the_counts(cluster: Cluster) -> None:
    sampler = cluster.sampler()
    items = len(sampler.sample(64).index)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ShardWarning)
        made = sampler._batch

        def dies(drawn: Drawn) -> bc.Batch:
            # The answer comes between the draw and the blocks ahead.
            cluster.ways[1].become("away")
            sampler._links[1].ask_block("", 4, 0)
            return made(drawn)

        sampler._batch = dies  # type: ignore[method-assign]
        items += len(sampler.sample(64).index)
        sampler._batch = made  # type: ignore[method-assign]
        with pytest.raises(ShardWarning, match="its actor died"):
            sampler.sample(64)
    assert sampler.state()["batches"] == items // 64
    assert shards_of(rounds(cluster, sampler, 4, 64)) == {0, 2}


def test_a_beta_that_raises_keeps_what_was_admitted() -> None:
    def beta(number: int) -> float:
        if number == 1:
            raise ZeroDivisionError
        return 0.5

    with started(spec_of(3, COLUMNS, 1_000, bc.RateLimiter(min_size=10))) as shards:
        cluster = Cluster(shards)
        cluster.append(0, 101)
        sampler = cluster.sampler(select=bc.Priority(alpha=1.0, beta=beta))
        sampler.sample(8)
        with pytest.raises(ZeroDivisionError):
            sampler.sample(8)
        state = sampler.state()
        assert (state["samples"], state["admitted"], state["batches"]) == (16, 8, 1)


def test_what_became_of_an_update_is_looked_at_once(cluster: Cluster) -> None:
    sampler = cluster.sampler(select=bc.Priority(alpha=1.0))
    batch = sampler.sample(64)
    mine = batch["shard"] == 0
    cluster.ways[0].become("hangs")
    cluster.shards[0].ring.clear()
    sampler.update_priorities(batch.index[mine], batch["shard"][mine], np.ones(mine.sum()))
    link = sampler._links[0]
    # Blocks that came are taken before.
    link.poll()
    assert link.counts["stale_priorities"] == 0
    cluster.ways[0].become("well")
    waits = cluster.ways[0].waits
    link.poll()
    assert link.counts["stale_priorities"] == mine.sum()
    assert cluster.ways[0].waits - waits == 1


@pytest.mark.parametrize("method", ["update_priorities", "gather"])
def test_an_error_after_a_draw_is_raised_before_anything_is_sent(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    sampler = cluster.sampler(select=bc.Priority(alpha=1.0))
    made = sampler._batch

    def damaged(_request: BlockRequest) -> list[Any]:
        raise CorruptError("the table is damaged")

    with monkeypatch.context() as patched:

        def asks(drawn: Drawn) -> bc.Batch:
            patched.setattr(cluster.shards[1], "block", damaged)
            sampler._links[1].ask_block(sampler._key, 4, sampler._heads.number)
            return made(drawn)

        # The draw is whole: a block that was asked for ahead fails, whose answer is taken here.
        patched.setattr(sampler, "_batch", asks)
        batch = sampler.sample(256)
        assert shards_of(batch) == {0, 1, 2}
        assert sampler.stats()["batches"] == 1
        given = [batch.index, batch["shard"]]
        if method == "update_priorities":
            given.append(np.full(256, 7.0))
        with pytest.raises(CorruptError, match="damaged"):
            getattr(sampler, method)(*given)
    updated = [shard.ring.stats()["tables"][0]["updated"] for shard in cluster.shards]
    assert updated == [0, 0, 0]
    # It is raised once.
    getattr(sampler, method)(*given)
    updated = [shard.ring.stats()["tables"][0]["updated"] for shard in cluster.shards]
    assert all(count > 0 for count in updated) == (method == "update_priorities")


def test_options_that_blocks_refuse_are_refused_at_the_sampler(cluster: Cluster) -> None:
    refused: list[tuple[dict[str, Any], str]] = [
        ({"select": "fifo"}, "blocks do not go with the selector fifo"),
        ({"select": "lifo"}, "lifo"),
        ({"select": "lane_strata"}, "lane_strata"),
        ({"select": bc.Consume()}, "draws without replacement"),
        ({"select": bc.Epoch()}, "draws without replacement"),
        ({"select": bc.Largest()}, "largest"),
        ({"select": bc.Smallest()}, "smallest"),
        ({"select": bc.Recency(10)}, "recency"),
        ({"select": bc.Priority(stratified=True)}, "strata"),
        ({"select": bc.Priority(alpha=(0.4, 0.6, 100), table="other")}, "an alpha that changes"),
        ({"form": bc.WholeEpisodes("padded")}, "whole episodes"),
        ({"max_age": 10}, "max_age"),
        ({"select": bc.Priority(initial="held")}, "held"),
        ({"select": bc.Priority(by="rank")}, "rank"),
        ({"share": (0, 2)}, "share"),
        ({"learned": "online"}, "learned"),
    ]
    for options, words in refused:
        with pytest.raises(SampleError, match=words):
            cluster.sampler(**options)
    with pytest.raises(bc.errors.ArgumentError):
        cluster.sampler(hist=3)


def test_places_of_a_spec_are_named() -> None:
    spec = spec_of(2, COLUMNS, 10)
    assert spec.label(1) == f"shard 1 of '{spec.name}' on the node with label shard=1"
    assert replace(spec, name="x").ring_name(0) == "x-0"
