"""Selectors from Python: orders, weights, tables of claims, and states."""

from __future__ import annotations

import gc
import json
import os
from typing import Any

import backcast as bc
import numpy as np
import pytest
from waits import exit_code_of


@pytest.fixture
def buf() -> bc.ReplayBuffer:
    """Make a ring of two lanes with 100 transitions each."""
    buf = bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=1_000, lanes=2)
    quiet = np.zeros(2, bool)
    with buf.writer(lanes=2, autoreset_mode="next_step") as writer:
        for t in range(101):
            writer.append(obs=[t, t], terminated=quiet, truncated=quiet)
    return buf


def test_orders(buf: bc.ReplayBuffer) -> None:
    assert buf.sampler(select="fifo").sample(4)["obs"].tolist() == [0, 0, 1, 1]
    assert buf.sampler(select="lifo").sample(4)["obs"].tolist() == [99, 99, 98, 98]
    largest = buf.sampler(select=bc.Largest(alpha=1.0, eps=0.0))
    index = buf.sampler(select="fifo").sample(200).index
    assert largest.update_priorities(index, 1.0 + np.arange(200) % 7) == 0
    smallest = buf.sampler(select=bc.Smallest(alpha=1.0, eps=0.0))
    rank = {int(i): n % 7 for n, i in enumerate(index)}
    assert [rank[int(i)] for i in largest.sample(30).index] == [6] * 28 + [5] * 2
    assert [rank[int(i)] for i in smallest.sample(30).index] == [0] * 29 + [1]
    assert "weight" not in largest.sample(3)
    with pytest.raises(bc.errors.SampleError, match=r"\b200\b"):
        buf.sampler(select="lifo").sample(201)


def test_weights(buf: bc.ReplayBuffer) -> None:
    lanes = buf.sampler(seed=1, select=bc.LaneWeights([1, 3]))
    lane = lanes.sample(20_000).index >> 48
    # Four standard deviations.
    assert abs(lane.mean() - 0.75) < 4 * np.sqrt(0.75 * 0.25 / 20_000)
    strata = buf.sampler(seed=1, select="lane_strata").sample(64).index >> 48
    assert strata.sum() == 32
    age = buf.sampler(seed=1, select=bc.Recency(5)).sample(20_000)["obs"]
    assert abs((age >= 95).mean() - 0.5) < 4 * 0.5 / np.sqrt(20_000)


def test_tables(buf: bc.ReplayBuffer) -> None:
    samplers = [buf.sampler(select=bc.Epoch(seed=3, table="e")) for _ in range(3)]
    drawn = np.concatenate([samplers[n % 3].sample(10).index for n in range(40)])
    assert len(np.unique(drawn[:200])) == len(np.unique(drawn[200:])) == 200
    assert (np.sort(drawn[:200]) != drawn[:200]).any()
    queue = buf.sampler(select=bc.Consume(max_times_sampled=2))
    rows = [queue.sample(100)["obs"] for _ in range(4)]
    assert rows[0].tolist() == rows[2].tolist() == np.repeat(np.arange(50), 2).tolist()
    with pytest.raises(bc.WaitTimeoutError, match=r"\b1\b"):
        queue.sample(1, timeout=0.01)
    ahead = buf.sampler(select=bc.Consume(table="ahead"))
    with ahead.batches(20, prefetch=2, limit=5) as batches:
        first = [batch["obs"] for batch in batches]
    second = [ahead.sample(20)["obs"] for _ in range(5)]
    assert np.concatenate(first + second).tolist() == np.repeat(np.arange(100), 2).tolist()
    stats = {table["name"]: table for table in buf.stats()["claims"]}
    assert stats["e"]["selector"] == "epoch"
    assert (stats["e"]["drawn"], stats["e"]["left"], stats["e"]["passes"]) == (400, 0, 2)
    assert stats["consume"]["max_times_sampled"] == 2
    with pytest.raises(bc.ExistsError, match=r"\bmax_times_sampled\b.*\b2\b.*\b3\b"):
        buf.sampler(select=bc.Consume(max_times_sampled=3))


@pytest.mark.parametrize(
    "select",
    [
        None,
        bc.Priority(alpha=0.5),
        bc.Smallest(alpha=0.5, table="mine"),
        "lifo",
        bc.LaneWeights([0.5, 2.0]),
        bc.Epoch(),
        bc.Consume(table="queue"),
    ],
    ids=str,
)
def test_a_sampler_shows_its_selector_and_its_table(buf: bc.ReplayBuffer, select: Any) -> None:  # noqa: ANN401
    sampler = buf.sampler(seed=5, select=select)
    shown = repr("uniform" if select is None else select)
    for made in (sampler, buf.sampler(state=sampler.state())):
        assert repr(made.select) == shown
        assert f", select {shown}, seed 5, " in repr(made)
        assert "None" not in repr(made).replace("history None", "")


def test_lanes_with_a_weight_that_hold_nothing_are_named() -> None:
    buf = bc.ReplayBuffer.create(None, {"obs": "i8"}, capacity=300, lanes=3)
    sampler = buf.sampler(seed=1, select=bc.LaneWeights([0, 2, 1]))
    with pytest.raises(bc.errors.SampleError, match=r"\b0\b"):
        sampler.sample(4)
    with buf.writer(1) as writer:
        for t in range(12):
            writer.append(obs=t, terminated=False, truncated=False)
        with pytest.raises(bc.errors.SampleError, match=r"\b1, 2\b.*\b0\b"):
            sampler.sample(4)
        with buf.writer(1) as other:
            for t in range(2):
                other.append(obs=100 + t, terminated=False, truncated=False)
            assert set(sampler.sample(4)["obs"]) == {100}


def test_rows_of_lanes_with_a_weight_may_start_no_transition() -> None:
    buf = bc.ReplayBuffer.create(None, {"obs": "i8"}, capacity=300, lanes=2)
    with buf.writer(2, "disabled") as writer:
        for t in range(4):
            writer.append(obs=[t, t], terminated=[False] * 2, truncated=[False] * 2)
            writer.restart([False, True])
    sampler = buf.sampler(seed=1, select=bc.LaneWeights([0, 1]))
    with pytest.raises(bc.errors.SampleError, match=r"\b0\b.*\b1\b"):
        sampler.sample(4)


@pytest.mark.parametrize(
    "select", [bc.Priority(), bc.Priority(stratified=True), bc.Largest(), bc.Smallest()], ids=repr
)
def test_a_ring_at_rest_without_a_window_that_fits_says_so(
    buf: bc.ReplayBuffer,
    select: Any,  # noqa: ANN401
) -> None:
    for options, words in (
        ({"history": 102, "boundary": "reject"}, r"\b100\b"),
        ({"form": bc.Sequence(102)}, r"\b102\b.*\b100\b"),
    ):
        sampler = buf.sampler(select=select, **options)
        with pytest.raises(bc.errors.SampleError, match=words):
            sampler.sample(1)
        buf.remove_table("priority", force=True)


def test_windows_that_hardly_have_a_priority_are_not_found(buf: bc.ReplayBuffer) -> None:
    sampler = buf.sampler(seed=1, history=100, boundary="reject", select=bc.Priority(alpha=1))
    index = buf.sampler(select="fifo").sample(200).index
    fits = buf.sampler(history=100, boundary="reject", select="fifo").sample(2).index
    sampler.update_priorities(index, np.where(np.isin(index, fits), 0.0, 6e4))
    with pytest.raises(bc.errors.SampleError, match=r'\b10000\b.*boundary="mask"'):
        sampler.sample(1)
    sampler.update_priorities(fits, [6e4, 6e4])
    assert set(sampler.sample(9).index) <= set(fits)


@pytest.mark.parametrize(
    "select",
    ["lifo", bc.Recency(7.5), bc.LaneWeights([0.5, 2]), "lane_strata", bc.Largest(alpha=0.5)],
)
def test_states_continue(buf: bc.ReplayBuffer, select: Any) -> None:  # noqa: ANN401
    sampler = buf.sampler(seed=5, select=select)
    sampler.sample(9)
    state = json.loads(json.dumps(sampler.state()))
    assert (buf.sampler(state=state).sample(9).index == sampler.sample(9).index).all()


@pytest.mark.parametrize(
    ("select", "message"),
    [
        (bc.Recency(-1), r"\bhalf_life\b.*-1\b"),
        (bc.Recency(float("nan")), r"\bhalf_life\b.*\bNaN\b"),
        (bc.LaneWeights([1]), r"\b1\b.*\b2\b"),
        (bc.LaneWeights([1, -1]), r"\b1\b.*-1\b"),
        (bc.LaneWeights([0, 0]), r"\b0\b"),
        (bc.Consume(max_times_sampled=0), r"\bmax_times_sampled\b.*\b0\b"),
        (bc.Consume(max_times_sampled=-1), r"\bmax_times_sampled\b.*-1\b"),
        (bc.Consume(max_times_sampled=2**32), r"\bmax_times_sampled\b.*\b4294967296\b"),
        (bc.Consume(seed=-1), r"\bseed\b.*-1\b"),
        (bc.Epoch(seed=-1), r"\bseed\b.*-1\b"),
    ],
    ids=str,
)
def test_bad_settings_are_refused(buf: bc.ReplayBuffer, select: Any, message: str) -> None:  # noqa: ANN401
    with pytest.raises(bc.errors.SampleError, match=message):
        buf.sampler(select=select)
    assert buf.stats()["claims"] == []


def drawn_ahead(buf: bc.ReplayBuffer, left: int) -> None:
    """Wait until the thread has claimed all but ``left`` rows."""
    while buf.stats()["claims"][0]["left"] > left:
        os.sched_yield()


# After 18 batches `Consume` has claimed the last rows ahead; there is no further pass to claim.
@pytest.mark.parametrize(
    ("select", "batches"),
    [
        (bc.Consume(table="back"), 3),
        (bc.Consume(table="back"), 18),
        (bc.Epoch(table="back"), 3),
    ],
    ids=["consume-3", "consume-18", "epoch-3"],
)
def test_rows_claimed_ahead_go_back_at_a_close(
    buf: bc.ReplayBuffer, select: bc.Consume | bc.Epoch, batches: int
) -> None:
    total = 200

    def make() -> bc.Sampler:
        return buf.sampler(select=select)

    def claimed() -> int:
        [table] = buf.stats()["claims"]
        return total - int(table["left"])

    sampler = make()
    ahead = sampler.batches(10, prefetch=3)
    drawn = [next(ahead).index.copy() for _ in range(batches)]
    drawn_ahead(buf, max(0, total - 10 * (batches + 3)))
    ahead.close()
    state = sampler.state()
    assert claimed() > 10 * batches
    sampler.close()
    assert claimed() == 10 * batches
    with buf.sampler(state=state) as again:
        drawn += [again.sample(5, timeout=1).index for _ in range((total - 10 * batches) // 5)]
    assert len(np.unique(np.concatenate(drawn))) == total
    [table] = buf.stats()["claims"]
    assert table["drawn"] == total


def test_a_close_loses_what_was_claimed_ahead_if_another_sampler_claimed_later(
    buf: bc.ReplayBuffer,
) -> None:
    one, other = (buf.sampler(select=bc.Consume()) for _ in range(2))
    with one.batches(10, prefetch=3, limit=10) as ahead:
        first = next(ahead).index.copy()
        drawn_ahead(buf, 160)
    between = other.sample(10).index
    one.close()
    rest = [other.sample(10, timeout=1).index for _ in range(15)]
    drawn = np.concatenate([first, between, *rest])
    assert len(np.unique(drawn)) == len(drawn) == 170
    with pytest.raises(bc.WaitTimeoutError):
        other.sample(1, timeout=0)


def test_a_close_after_a_wait_gives_back_what_the_wait_claimed(buf: bc.ReplayBuffer) -> None:
    with buf.sampler(select=bc.Consume()) as sampler:
        sampler.sample(150)
        with pytest.raises(bc.WaitTimeoutError):
            sampler.sample(80, timeout=0)
    with buf.sampler(select=bc.Consume()) as again:
        assert (
            again.sample(50, timeout=1)["obs"].tolist() == np.repeat(np.arange(75, 100), 2).tolist()
        )


def test_a_queue_says_what_is_left_and_what_writers_overwrote() -> None:
    buf = bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=10)

    def counts() -> tuple[int, int]:
        [table] = buf.stats()["claims"]
        return table["left"], table["overwritten"]

    with buf.writer() as writer:
        for t in range(8):
            writer.append(obs=t, terminated=False, truncated=False)
        queue = buf.sampler(select=bc.Consume())
        assert counts() == (7, 0), "rows that no draw has had yet"
        assert queue.sample(3)["obs"].tolist() == [0, 1, 2]
        assert counts() == (4, 0)
        for t in range(8, 40):
            writer.append(obs=t, terminated=False, truncated=False)
        assert counts()[1] == 23, "no draw has met them yet, and no pass can have them any more"
        assert queue.sample(2)["obs"].tolist() == [30, 31]
        assert counts() == (7, 27), "rows 3 to 29 are lost"


def test_blocks_of_rollouts_say_what_is_left_and_what_writers_overwrote() -> None:
    buf = bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=12)
    learner = buf.sampler(form=bc.Rollout(4), select=bc.Consume())
    with buf.writer() as writer:
        for t in range(9):
            writer.append(obs=t, terminated=False, truncated=False)
        [table] = buf.stats()["claims"]
        assert (table["left"], table["overwritten"]) == (8, 0)
        assert learner.sample(1)["obs"][:, 0].tolist() == [0, 1, 2, 3]
        [table] = buf.stats()["claims"]
        assert (table["left"], table["overwritten"]) == (4, 0)
        for t in range(9, 30):
            writer.append(obs=t, terminated=False, truncated=False)
        assert learner.sample(1)["obs"][:, 0].tolist() == [18, 19, 20, 21]
        [table] = buf.stats()["claims"]
        assert (table["left"], table["overwritten"]) == (7, 14)


def test_a_forked_child_gives_back_nothing(buf: bc.ReplayBuffer) -> None:
    sampler = buf.sampler(select=bc.Consume())
    ahead = sampler.batches(10, prefetch=3)
    next(ahead)
    drawn_ahead(buf, 160)
    ahead.close()
    left = buf.stats()["claims"][0]["left"]
    child = os.fork()
    if child == 0:
        del ahead, sampler
        gc.collect()
        os._exit(0)
    assert exit_code_of(child) == 0
    assert buf.stats()["claims"][0]["left"] == left
