"""Learners that share the draws of one seed."""

from __future__ import annotations

import multiprocessing as mp
from typing import Any

import backcast as bc
import numpy as np
import pytest


def ring(name: str | None = None) -> bc.ReplayBuffer:
    buf = bc.ReplayBuffer.create(name, {"obs": "f4"}, capacity=500)
    with buf.writer(autoreset_mode="next_step") as writer:
        for t in range(400):
            writer.append(obs=t, terminated=t % 9 == 0, truncated=False)
    return buf


def draw(name: str, learner: int, results: Any) -> None:  # noqa: ANN401
    """Draw five batches as one of four learners, in a process of its own."""
    sampler = bc.ReplayBuffer.attach(name).sampler(seed=7, rank=learner, world_size=4)
    results.put((learner, [sampler.sample(16).index.tolist() for _ in range(5)]))


def test_four_processes_draw_together_what_one_draws_alone() -> None:
    with ring("shared-draws") as buf:
        sampler = buf.sampler(seed=7)
        alone = [sampler.sample(16).index.tolist() for _ in range(20)]
        context = mp.get_context("spawn")
        results = context.Queue()
        learners = [
            context.Process(target=draw, args=("shared-draws", number, results))
            for number in range(4)
        ]
        for process in learners:
            process.start()
        for _ in learners:
            learner, batches = results.get(timeout=60)
            assert batches == alone[learner::4]
        for process in learners:
            process.join()


def test_states_and_batches_drawn_ahead_keep_to_their_learner() -> None:
    buf = ring()
    alone = buf.sampler(seed=3)
    expected = [alone.sample(8).index.tolist() for _ in range(9)][1::3]
    sampler = buf.sampler(seed=3, rank=1, world_size=3)
    assert (sampler.rank, sampler.world_size) == (1, 3)
    first = next(iter(sampler.batches(8, prefetch=2)))
    assert first.index.tolist() == expected[0]
    state = sampler.state()
    assert (state["rank"], state["world_size"], state["batches"]) == (1, 3, 1)
    again = buf.sampler(state=state)
    assert (again.rank, again.world_size) == (1, 3)
    assert [again.sample(8).index.tolist() for _ in range(2)] == expected[1:]
    assert "rank" not in alone.state()


def test_learners_that_cannot_be_are_refused() -> None:
    buf = ring()
    mistakes: list[tuple[dict[str, Any], str]] = [
        ({"rank": 4, "world_size": 4}, "rank is 4 of world_size 4"),
        ({"rank": 1}, "rank is 1 of world_size 1"),
        ({"world_size": 0}, "world_size is 0"),
        ({"rank": -1, "world_size": 2}, "rank is -1"),
    ]
    for given, part in mistakes:
        with pytest.raises(bc.SampleError, match=part):
            buf.sampler(seed=1, **given)
    with pytest.raises(bc.SampleError, match="world_size too"):
        buf.sampler(state=buf.sampler(seed=1).state(), world_size=2)
    assert np.unique(buf.sample(4).index).size


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"priority": 0.6},
        {"selector": "recency", "half_life": 9},
        {"selector": "lane_strata"},
        {"selector": "lane_weights", "lane_weights": [1]},
    ],
)
def test_learners_without_a_seed_would_share_nothing(given: dict[str, Any]) -> None:
    message = "world_size is 2, and seed is left out: .*; give all ranks the same seed, such as"
    with pytest.raises(bc.SampleError, match=message):
        ring().sampler(rank=1, world_size=2, **given)


@pytest.mark.parametrize("selector", ["epoch", "consume", "fifo"])
def test_learners_need_no_seed_for_draws_that_are_not_random(selector: Any) -> None:  # noqa: ANN401
    sampler = ring().sampler(rank=1, world_size=2, selector=selector)
    assert sampler.sample(4).index.shape == (4,)
