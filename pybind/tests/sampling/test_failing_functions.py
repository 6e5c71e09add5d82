"""Exceptions in the caller's functions: the next call draws the batch again, and no row is lost."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import backcast as bc
import numpy as np
import pytest
from numpy.typing import NDArray

BATCH, COUNT = 10, 6
SELECTORS: dict[str, dict[str, Any]] = {
    "uniform": {},
    "windows": {"history": 3, "boundary": "reject", "n_step": 2, "gamma": 0.9},
    "priority": {"select": bc.Priority(alpha=0.6, beta=(0.4, 9))},
    "function": {"select": bc.Priority(alpha=0.6, beta=lambda batch: min(1.0, 0.1 * batch))},
    "largest": {"select": bc.Largest(alpha=0.6)},
    "fifo": {"select": "fifo"},
    "recency": {"select": bc.Recency(9)},
    "lane_strata": {"select": "lane_strata"},
    "epoch": {"select": bc.Epoch(table="epoch")},
    "consume": {"select": bc.Consume(table="consume")},
    "shuffled": {"select": bc.Consume(shuffle=True, table="shuffled")},
}
WAYS = ["sample", "out", "ahead-0", "ahead-3", "cycle-0", "cycle-3"]


def ring(limiter: bc.RateLimiter | None = None) -> bc.ReplayBuffer:
    """Return a ring of 100 transitions in two lanes."""
    columns = {"obs": "f4", "reward": "f4"}
    buf = bc.ReplayBuffer.create(None, columns, capacity=1_000, lanes=2, limiter=limiter)
    with buf.writer(lanes=2, autoreset_mode="next_step") as writer:
        for t in range(51):
            quiet = np.zeros(2, bool)
            obs = np.array([t, 100 + t], np.float32)
            writer.append(obs=obs, reward=obs, terminated=quiet, truncated=quiet)
    return buf


class Failing:
    """Transform that changes the batch, and then fails in its second, third and sixth call."""

    def __init__(self, fail: Callable[[], Any]) -> None:
        self.calls = 0
        self._fail = fail

    def __call__(self, batch: bc.Batch) -> object:
        self.calls += 1
        batch["reward"][:] += 1
        return self._fail() if self.calls in (2, 3, 6) else batch


def wrong() -> None:
    raise ValueError("the transform is wrong")


def interrupted() -> None:
    signal.raise_signal(signal.SIGINT)


def nothing() -> None:
    return None


def draws(
    sampler: bc.Sampler, way: str, limit: int | None = None
) -> tuple[Callable[[], bc.Batch], Callable[[], None]]:
    """Return a function that draws the next batch, and one that ends the draws."""
    if way == "sample":
        return lambda: sampler.sample(BATCH), lambda: None
    if way == "out":
        out = sampler.gather(5 + np.arange(BATCH))
        return lambda: sampler.sample(BATCH, out=out), lambda: None
    kind, prefetch = way.split("-")
    ahead = sampler.batches(BATCH, int(prefetch), reuse=kind == "cycle", limit=limit)
    return lambda: next(ahead), ahead.close


def indices(next_batch: Callable[[], bc.Batch]) -> Iterator[tuple[Any, Any, Any] | None]:
    """Yield the rows and values of each batch up to the end, or None for a draw that failed."""
    for _ in range(20):
        try:
            batch = next_batch()
        except StopIteration:
            return
        except (ValueError, KeyboardInterrupt, bc.errors.SampleError):
            yield None
        else:
            weight = batch.get("weight", np.zeros(BATCH))
            yield batch.index.copy(), batch["reward"].copy(), weight.copy()


@pytest.mark.parametrize("fail", [wrong, interrupted, nothing])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("settings", SELECTORS.values(), ids=SELECTORS)
def test_a_batch_whose_transform_fails_is_drawn_again(
    settings: dict[str, Any], way: str, fail: Callable[[], Any]
) -> None:
    if settings is SELECTORS["function"] and "-" in way:
        pytest.skip("a function beta cannot be called ahead")
    select: Any = settings.get("select")
    claims = isinstance(select, bc.Epoch | bc.Consume)
    plain: dict[str, Any] = settings | (
        {"select": replace(select, table="plain")} if claims else {}
    )
    buf = ring()
    with buf.sampler(seed=7, **plain) as sampler:
        expected = [sampler.sample(BATCH) for _ in range(COUNT)]
    transform = Failing(fail)
    sampler = buf.sampler(seed=7, transform=transform, **settings)
    next_batch, end = draws(sampler, way)
    transform.calls = 0
    got: list[tuple[Any, Any, Any]] = []
    failed = 0
    for found in indices(next_batch):
        failed += found is None
        got += [found] if found is not None else []
        assert sampler.state()["batches"] == len(got)
        if len(got) == COUNT:
            break
    assert failed == 3
    end()
    for batch, (index, reward, weight) in zip(expected, got, strict=True):
        np.testing.assert_array_equal(index, batch.index)
        np.testing.assert_array_equal(reward, batch["reward"] + 1)
        np.testing.assert_array_equal(weight, batch.get("weight", np.zeros(BATCH)))
    tables = {table["name"]: table["drawn"] for table in buf.stats()["claims"]}
    if claims:
        assert tables[select.table] == BATCH * COUNT


@pytest.mark.parametrize("way", ["ahead-0", "ahead-3", "cycle-3"])
def test_a_limit_counts_the_batches_that_were_returned(way: str) -> None:
    buf = ring()
    with buf.sampler(seed=7) as plain:
        expected = [plain.sample(BATCH).index for _ in range(4)]
    # Counted from 0, batch 1 fails twice, and batch 3, the last one, fails once.
    next_batch, _ = draws(buf.sampler(seed=7, transform=Failing(wrong)), way, limit=4)
    got = [found[0] for found in indices(next_batch) if found is not None]
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("way", WAYS)
def test_the_rate_limiter_counts_a_batch_once(way: str) -> None:
    buf = ring(bc.RateLimiter(min_size=1))
    transform = Failing(wrong)
    next_batch, end = draws(buf.sampler(seed=7, transform=transform), way)
    transform.calls = 0
    found = indices(next_batch)
    assert [next(found) is None for _ in range(6)] == [False, True, True, False, False, True]
    end()
    assert buf.limiter is not None
    assert buf.stats()["limiter"]["samples"] == 3 * BATCH


def test_rows_that_were_claimed_for_a_failing_batch_are_kept_for_the_next_call() -> None:
    buf = ring()
    transform = Failing(wrong)
    sampler = buf.sampler(select=bc.Consume(), transform=transform)
    other = buf.sampler(select=bc.Consume())
    first = sampler.sample(BATCH)
    with pytest.raises(ValueError, match="is wrong"):
        sampler.sample(BATCH)
    between = other.sample(BATCH)
    with pytest.raises(ValueError, match="is wrong"):
        sampler.sample(BATCH)
    again = sampler.sample(BATCH, timeout=1)
    rows = np.concatenate([batch["obs"] for batch in (first, again, between)])
    expected = np.arange(15).repeat(2) + [0, 100] * 15
    assert rows.tolist() == expected.tolist()


@pytest.mark.parametrize("way", ["sample", "ahead-0", "ahead-2"])
def test_a_batch_whose_rewards_fail_is_drawn_again(way: str) -> None:
    columns = {"obs": {"achieved_goal": "f4", "desired_goal": "f4"}, "reward": "f4"}
    buf = bc.ReplayBuffer.create(None, columns, capacity=100)
    with buf.writer() as writer:
        for t in range(50):
            goals = {"achieved_goal": t, "desired_goal": -1}
            writer.append(obs=goals, reward=-1, terminated=False, truncated=False)
    calls = []

    def reward(achieved: NDArray[Any], desired: NDArray[Any], info: object) -> NDArray[Any]:
        calls.append(info)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return np.asarray(achieved == desired, np.float32)

    def by(function: Callable[..., NDArray[Any]]) -> bc.Sampler:
        return buf.sampler(seed=3, hindsight=bc.Hindsight(function, k=1))

    plain = by(lambda achieved, desired, info: np.asarray(achieved == desired, np.float32))
    expected = [plain.sample(BATCH) for _ in range(3)]
    next_batch, _ = draws(by(reward), way)
    got = [next_batch()]
    with pytest.raises(KeyboardInterrupt):
        next_batch()
    got += [next_batch(), next_batch()]
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_array_equal(one.index, other.index)
        np.testing.assert_array_equal(one["reward"], other["reward"])


def test_a_transform_that_closes_its_sampler_keeps_the_error() -> None:
    buf = ring()
    samplers: list[bc.Sampler] = []

    def closing(batch: bc.Batch) -> bc.Batch:
        samplers[0].close()
        raise ValueError("closed")

    samplers.append(buf.sampler(seed=7, transform=closing))
    with pytest.raises(ValueError, match="closed"):
        samplers[0].sample(BATCH)
    with pytest.raises(bc.ClosedError):
        samplers[0].sample(BATCH)
