"""Learners that share the draws of one seed."""

from __future__ import annotations

import multiprocessing as mp
from typing import Any

import backcast as bc
import pytest
from waits import join


def ring(name: str | None = None) -> bc.ReplayBuffer:
    buf = bc.ReplayBuffer.create(name, {"obs": "f4"}, capacity=500)
    with buf.writer(autoreset_mode="next_step") as writer:
        for t in range(400):
            writer.append(obs=t, terminated=t % 9 == 0, truncated=False)
    return buf


def draw(name: str, learner: int, results: Any) -> None:  # noqa: ANN401
    """Draw five batches as one of four learners, in a process of its own."""
    sampler = bc.ReplayBuffer.attach(name).sampler(seed=7, share=(learner, 4))
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
        join(*learners)


def test_states_and_batches_drawn_ahead_keep_to_their_learner() -> None:
    buf = ring()
    alone = buf.sampler(seed=3)
    expected = [alone.sample(8).index.tolist() for _ in range(9)][1::3]
    sampler = buf.sampler(seed=3, share=(1, 3))
    assert sampler.share == (1, 3)
    first = next(iter(sampler.batches(8, prefetch=2)))
    assert first.index.tolist() == expected[0]
    state = sampler.state()
    assert (state["rank"], state["world_size"], state["batches"]) == (1, 3, 1)
    again = buf.sampler(state=state)
    assert again.share == (1, 3)
    assert alone.share == (0, 1)
    assert [again.sample(8).index.tolist() for _ in range(2)] == expected[1:]
    assert "rank" not in alone.state()


def test_learners_that_cannot_be_are_refused() -> None:
    buf = ring()
    mistakes = [
        ((4, 4), r"\brank\b.*\b4\b"),
        ((1, 1), r"\brank\b.*\b1\b"),
        ((0, 0), r"share\[1\].*\b0\b"),
        ((-1, 2), r"share\[0\].*-1\b"),
    ]
    for share, part in mistakes:
        with pytest.raises(bc.errors.SampleError, match=part):
            buf.sampler(seed=1, share=share)
    with pytest.raises(bc.errors.SampleError, match=r"\bstate\b"):
        buf.sampler(state=buf.sampler(seed=1).state(), share=(0, 2))
    assert buf.stats()["readers"] == []


@pytest.mark.parametrize("share", [1, (1,), (0, 1, 2), [0, 2], "02", {0: 2}])
def test_a_share_that_is_no_pair_is_refused(share: Any) -> None:  # noqa: ANN401
    with pytest.raises(bc.errors.ArgumentTypeError, match=r"\bshare\b.*\bworld_size\b"):
        ring().sampler(seed=1, share=share)


@pytest.mark.parametrize("share", [(0.5, 2), (True, 2), (0, "2"), (0, None)])
def test_numbers_of_another_type_in_a_share_are_refused(share: Any) -> None:  # noqa: ANN401
    with pytest.raises(bc.errors.ArgumentTypeError, match=r"share\[[01]\]"):
        ring().sampler(seed=1, share=share)


@pytest.mark.parametrize(
    "select", ["uniform", bc.Priority(), bc.Recency(9), "lane_strata", bc.LaneWeights([1])]
)
def test_learners_without_a_seed_would_share_nothing(select: Any) -> None:  # noqa: ANN401
    message = r"\bshare\b.*\b2\b.*\bseed\b"
    with pytest.raises(bc.errors.SampleError, match=message):
        ring().sampler(share=(1, 2), select=select)


@pytest.mark.parametrize("select", [bc.Epoch(), bc.Consume(), "fifo"])
def test_learners_need_no_seed_for_draws_that_are_not_random(select: Any) -> None:  # noqa: ANN401
    sampler = ring().sampler(share=(1, 2), select=select)
    assert sampler.sample(4).index.shape == (4,)
