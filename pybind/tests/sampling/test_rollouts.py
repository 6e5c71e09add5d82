"""Rollouts and batches of all that is new: blocks, returns over them, processes and errors."""

from __future__ import annotations

import multiprocessing as mp
from typing import Any

import backcast as bc
import numpy as np
import pytest
from backcast import returns
from backcast.errors import ArgumentTypeError, SampleError
from budgets import budget
from numpy.typing import NDArray

COLUMNS = {"obs": ("f8", (2,)), "reward": "f8", "discount": "f8"}
LANES = 3


def ring(name: str | None = None, *, capacity: int = 6_000) -> bc.ReplayBuffer:
    return bc.ReplayBuffer.create(name, COLUMNS, capacity=capacity, lanes=LANES)


def act(writer: bc.Writer, steps: int, seed: int = 0) -> None:
    """Append steps to all lanes; some end."""
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        ends = rng.random(LANES)
        writer.append(
            obs=rng.random((LANES, 2)),
            reward=rng.random(LANES),
            discount=rng.random(LANES),
            terminated=ends < 0.1,
            truncated=ends > 0.93,
            final_obs=rng.random((LANES, 2)),
        )


def writer_of(buf: bc.ReplayBuffer) -> bc.Writer:
    return buf.writer(lanes=LANES, autoreset_mode="same_step")


def rollouts(buf: bc.ReplayBuffer, length: int, lanes: int | None = None) -> bc.Sampler:
    return buf.sampler(form=bc.Rollout(length, lanes), select=bc.Consume())


def test_a_block_equals_the_transitions_that_its_index_names() -> None:
    with ring() as buf:
        with writer_of(buf) as writer:
            act(writer, 101)
            sampler = rollouts(buf, 40, 1)
            blocks = [sampler.sample(None, at_most=4), sampler.sample(None)]
            assert [block.index.shape for block in blocks] == [(40, 4), (40, 2)]
        # The writer is gone: the rest of each lane is a short column.
        blocks.append(sampler.sample(None, timeout=0))
        assert blocks[-1].mask is not None
        # A lane whose last step ended its episode has one transition more.
        assert set(blocks[-1].mask.sum(axis=0).tolist()) <= {20, 21}
        seen: list[int] = []
        for block in blocks:
            mask = block.mask
            assert mask is not None
            there = buf.gather(block.index[mask])
            # Nothing of a short column goes on after its last transition.
            last = mask & ~np.roll(mask, -1, axis=0)
            last[-1] = False
            cut = (last & ~block["terminated"])[mask]
            assert np.array_equal(block["truncated"][mask], there["truncated"] | cut)
            for key in ("obs", "next_obs", "reward", "terminated", "index"):
                assert np.array_equal(block[key][mask], there[key]), key
                assert block[key].flags.writeable
                assert np.all(block[key][~mask] == (-1 if key == "index" else 0))
            # Transitions of a column follow each other, but for final rows.
            steps, ends = np.diff(block.index, axis=0), block["terminated"] | block["truncated"]
            assert np.array_equal(steps[mask[1:]] == 2, ends[:-1][mask[1:]])
            seen += block.index[mask].tolist()
        assert len(seen) == len(set(seen)) == len(buf)
        with pytest.raises(bc.WaitTimeoutError):
            sampler.sample(None, timeout=0)
        assert sampler.sampled == len(buf)


def reference(block: bc.Batch, values: Any, after: Any, gamma: Any, lam: float) -> NDArray[Any]:  # noqa: ANN401
    """Compute GAE, place by place."""
    mask, advantages = block.mask, np.zeros(values.shape)
    assert mask is not None
    for column in range(values.shape[1]):
        last = 0.0
        for t in reversed(range(int(mask[:, column].sum()))):
            at = t, column
            discount = gamma[at] if isinstance(gamma, np.ndarray) else gamma
            terminated, truncated = block["terminated"][at], block["truncated"][at]
            last = 0.0 if terminated or truncated else last
            bootstrap = 0.0 if terminated else discount * after[at]
            last = block["reward"][at] + bootstrap - values[at] + discount * lam * last
            advantages[at] = last
    return advantages


@pytest.mark.parametrize("length", [1, 3, 16, 50])
def test_returns_of_a_block_are_those_of_its_columns(length: int) -> None:
    rng = np.random.default_rng(length)
    with ring() as buf, writer_of(buf) as writer:
        act(writer, 111, seed=length)
        writer.close()
        block = rollouts(buf, length).sample(None)
        assert block.mask is not None
        values, after = rng.random((2, *block.mask.shape))
        gammas: list[Any] = [0.97, "discount"]
        for gamma in gammas:
            factor = block["discount"] if gamma == "discount" else 0.97
            found = returns.gae(block, values, after, gamma=gamma, lam=0.9)
            expected = reference(block, values, after, factor, 0.9)
            assert np.allclose(found.advantages, expected, rtol=0, atol=1e-12)
            targets = np.where(block.mask, expected + values, 0)
            assert np.allclose(found.returns, targets, rtol=0, atol=1e-12)
        # With ratios of 1, V-trace has the targets of GAE, and Retrace those of its mean values.
        ones = np.ones(values.shape)
        corrected = returns.vtrace(block, values, after, ones, gamma=0.97, lam=0.9)
        assert np.allclose(
            corrected.targets[block.mask],
            (reference(block, values, after, 0.97, 0.9) + values)[block.mask],
            rtol=0,
            atol=1e-12,
        )
        by_column = returns.retrace(block, values, after, ones, gamma=0.97)
        for column in range(values.shape[1]):
            one = {
                key: block[key][:, column][None] for key in ("reward", "terminated", "truncated")
            }
            one["mask"] = block.mask[:, column][None]
            rows = [array[:, column][None] for array in (values, after, ones)]
            alone = returns.retrace(one, *rows, gamma=0.97)
            assert np.allclose(by_column[:, column], alone[0], rtol=0, atol=1e-12)
        with pytest.raises(SampleError, match=r"\bnext_values\b.*\[T, N\]"):
            returns.lambda_returns(block, np.zeros((length, 999)), gamma=0.9, lam=0.9)


def off_policy(
    block: bc.Batch, numbers: dict[str, NDArray[np.float64]], lam: float, clips: tuple[float, float]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return V-trace targets and Retrace targets of a block, transition by transition."""
    assert block.mask is not None
    values, after, ratios = (numbers[key] for key in ("values", "next_values", "ratios"))
    targets, action_values = np.zeros(values.shape), np.zeros(values.shape)
    rho, c = (np.minimum(clip, ratios) for clip in clips)
    for column in range(values.shape[1]):
        correction = trace = 0.0
        for t in reversed(range(int(block.mask[:, column].sum()))):
            at, discount = (t, column), block["discount"][t, column]
            if block["terminated"][at] or block["truncated"][at]:
                correction = trace = 0.0
            bootstrap = 0.0 if block["terminated"][at] else discount * after[at]
            error = block["reward"][at] + bootstrap - values[at]
            correction = rho[at] * error + discount * lam * c[at] * correction
            targets[at] = values[at] + correction
            trace = error + discount * trace
            action_values[at] = values[at] + trace
            trace *= lam * min(1.0, ratios[at])
    return targets, action_values


def test_returns_of_ten_thousand_rollouts_equal_float64_references() -> None:
    rng, columns, ends, cuts = np.random.default_rng(9), 0, 0, 0
    wanted = budget(10_000)
    while columns < wanted:
        length = int(rng.integers(8, 33))
        with ring(capacity=9_000) as buf:
            # Writers that close and come back cut episodes; the last one leaves a short column.
            for part in range(3):
                with writer_of(buf) as writer:
                    act(writer, int(rng.integers(5, 700)), seed=int(rng.integers(2**31)) + part)
            block = rollouts(buf, length).sample(None, timeout=0)
        assert block.mask is not None
        shape = block.mask.shape
        names = ("values", "next_values", "ratios")
        numbers = {name: rng.gamma(2.0, 0.6, shape) for name in names}
        values, after, ratios = (numbers[name] for name in names)
        found = returns.gae(block, values, after, gamma="discount", lam=0.93)
        advantages = reference(block, values, after, block["discount"], 0.93)
        np.testing.assert_allclose(found.advantages, advantages, rtol=0, atol=1e-12)
        options: dict[str, Any] = {"gamma": "discount", "lam": 0.87}
        corrected = returns.vtrace(
            block, values, after, ratios, rho_clip=1.2, c_clip=0.9, **options
        ).targets
        retraced = returns.retrace(block, values, after, ratios, **options)
        targets, action_values = off_policy(block, numbers, 0.87, (1.2, 0.9))
        np.testing.assert_allclose(corrected, targets, rtol=0, atol=1e-12)
        np.testing.assert_allclose(retraced, action_values, rtol=0, atol=1e-12)
        columns += shape[1]
        ends += int(block["terminated"].sum())
        cuts += int(block["truncated"].sum())
    assert ends > 0
    assert cuts > 0


def test_a_cut_counts_as_a_truncation() -> None:
    with bc.ReplayBuffer.create(None, COLUMNS, capacity=600) as buf:
        for _ in range(3):
            # The newest row of a writer that closes has no successor: its episode is cut there.
            with buf.writer() as writer:
                for t in range(6):
                    writer.append(
                        obs=[t, t], reward=1, discount=1, terminated=False, truncated=False
                    )
        block = rollouts(buf, 30).sample(None, timeout=0)
        assert block.mask is not None
        assert not block["terminated"].any()
        assert block.mask[:, 0].sum() == 15
        # The last one ends a short column, which nothing continues.
        assert np.flatnonzero(block["truncated"]).tolist() == [4, 9, 14]


def test_a_lane_whose_new_rows_are_all_too_old_is_not_awaited() -> None:
    columns = {"obs": "f4", "policy_version": "u4"}
    with bc.ReplayBuffer.create(None, columns, capacity=4_000, lanes=2) as buf:
        new, old = buf.writer(), buf.writer()
        end = {"terminated": False, "truncated": False}
        age = {"policy_age": 1}
        sampler = buf.sampler(form=bc.Rollout(16), select=bc.Consume(), max_age=age)
        for t in range(50):
            new.append(obs=t, policy_version=9, **end)
            old.append(obs=t, policy_version=0, **end)
        block = sampler.sample(None, timeout=0)
        assert block["obs"].shape == (16, 3)
        assert set((block.index >> 48).ravel().tolist()) == {0}
        # Once it acts with a young policy it is awaited again.
        for t in range(20):
            new.append(obs=t, policy_version=9, **end)
        for t in range(10):
            old.append(obs=t, policy_version=9, **end)
        with pytest.raises(bc.WaitTimeoutError):
            sampler.sample(None, timeout=0)
        for t in range(10):
            old.append(obs=t, policy_version=9, **end)
        block = sampler.sample(None, timeout=0)
        assert set((block.index >> 48).ravel().tolist()) == {0, 1}
        new.close()
        old.close()


def draw(name: str, results: Any) -> None:  # noqa: ANN401
    """Draw blocks until all that were announced are gone."""
    with bc.ReplayBuffer.attach(name) as buf, rollouts(buf, 20, 1) as sampler:
        rows: list[int] = []
        results.put("ready")
        for _ in range(10_000):
            try:
                block = sampler.sample(None, at_most=2, timeout=10)
            except bc.WaitTimeoutError:
                break
            assert block.mask is not None
            rows += block.index[block.mask].tolist()
            if (block["reward"][block.mask] == -1).any():
                break
        results.put(rows)


def test_two_processes_share_the_transitions() -> None:
    with ring("shared-rollouts", capacity=12_000) as buf:
        context = mp.get_context("spawn")
        results = context.Queue()
        learners = [
            context.Process(target=draw, args=("shared-rollouts", results)) for _ in range(2)
        ]
        for process in learners:
            process.start()
        assert [results.get(timeout=60) for _ in learners] == ["ready", "ready"]
        with writer_of(buf) as writer:
            act(writer, 900)
            # A last block for each learner: it ends them.
            for _ in range(200):
                writer.append(
                    obs=np.zeros((LANES, 2)),
                    reward=np.full(LANES, -1.0),
                    discount=np.zeros(LANES),
                    terminated=np.zeros(LANES, bool),
                    truncated=np.zeros(LANES, bool),
                )
            drawn = [results.get(timeout=60) for _ in learners]
        for process in learners:
            process.join(timeout=60)
        seen = [row for rows in drawn for row in rows]
        assert len(seen) == len(set(seen))
        rest = rollouts(buf, 20)
        for _ in range(10_000):
            try:
                block = rest.sample(None, timeout=0)
            except bc.WaitTimeoutError:
                break
            assert block.mask is not None
            seen += block.index[block.mask].tolist()
        assert len(seen) == len(set(seen)) == len(buf)


def test_a_lane_without_a_writer_is_not_awaited() -> None:
    with ring() as buf, buf.writer() as first:
        step: dict[str, Any] = {"obs": [0, 0], "reward": 0, "discount": 0}
        step |= {"terminated": False, "truncated": False}
        second = buf.writer()
        for _ in range(11):
            first.append(**step)
        for _ in range(4):
            second.append(**step)
        sampler = rollouts(buf, 10)
        with pytest.raises(bc.WaitTimeoutError, match=r"\b2\b.*\b1\b"):
            sampler.sample(None, timeout=0)
        second.close()
        block = sampler.sample(None, timeout=0)
        assert block.mask is not None
        assert block.mask.sum(axis=0).tolist() == [10, 3]
        # A number of lanes also waits for those that no writer has used.
        for _ in range(10):
            first.append(**step)
        with pytest.raises(bc.WaitTimeoutError):
            rollouts(buf, 10, LANES).sample(None, timeout=0)
        assert rollouts(buf, 10, 1).sample(None, timeout=0).index.shape == (10, 1)


@pytest.mark.parametrize("form", [None, bc.Sequence(4), bc.WholeEpisodes("padded", 20)])
def test_all_that_is_new_is_one_batch(form: Any) -> None:  # noqa: ANN401
    with ring() as buf, writer_of(buf) as writer:
        sampler = buf.sampler(form=form, select=bc.Consume())
        with pytest.raises(bc.BackcastError):
            sampler.sample(None, timeout=0)
        drawn: list[int] = []
        for round_ in range(4):
            act(writer, 30 + 9 * round_, seed=round_)
            sizes = []
            for _ in range(10_000):
                try:
                    batch = sampler.sample(None, at_most=25, timeout=0)
                except bc.WaitTimeoutError:
                    break
                sizes.append(len(batch.index))
                drawn += batch.index.tolist()
            assert all(size == 25 for size in sizes[:-1])
            assert 1 <= sizes[-1] <= 25
        assert len(drawn) == len(set(drawn)) == sampler.sampled
        if form is None:
            assert len(drawn) == len(buf)


def test_a_batch_that_a_transform_refuses_is_drawn_again() -> None:
    fail = [True]

    def change(batch: bc.Batch) -> bc.Batch:
        if fail.pop():
            raise RuntimeError("not now")
        return batch

    with ring() as buf, writer_of(buf) as writer:
        act(writer, 41)
        select = bc.Consume()
        sampler = buf.sampler(form=bc.Rollout(10), select=select, transform=change)
        with pytest.raises(RuntimeError, match="not now"):
            sampler.sample(None)
        fail.append(False)
        block = sampler.sample(None)
        assert block.index.shape == (10, 12)
        assert len(np.unique(block.index)) == 120


@pytest.mark.parametrize(
    "select",
    ["uniform", "fifo", "lifo", "lane_strata", bc.Priority(), bc.Largest(), bc.Recency(9)],
    ids=repr,
)
def test_other_selectors_are_refused_with_both_named(select: Any) -> None:  # noqa: ANN401
    with ring() as buf:
        with pytest.raises(SampleError, match=r"(?i)rollouts .*bc\.Consume"):
            buf.sampler(form=bc.Rollout(8), select=select)
        assert (buf.stats()["claims"], buf.stats()["tables"]) == ([], [])


def test_what_does_not_go_with_rollouts_or_new_rows_is_refused() -> None:
    with ring() as buf, writer_of(buf) as writer:
        act(writer, 50)
        settings: list[dict[str, Any]] = [
            {"history": 4},
            {"future": 2},
            {"n_step": 3, "gamma": 0.9},
            {"boundary": "reject"},
        ]
        for other in settings:
            with pytest.raises(SampleError, match=r"(?i)rollouts"):
                buf.sampler(form=bc.Rollout(8), select=bc.Consume(table="a"), **other)
        for form in (bc.Rollout(0), bc.Rollout(1_000), bc.Rollout(8, 0), bc.Rollout(8, 9)):
            with pytest.raises(SampleError):
                buf.sampler(form=form, select=bc.Consume(table="a"))
        sampler = rollouts(buf, 8)
        assert (sampler.form, buf.sampler(state=sampler.state()).form) == (bc.Rollout(8),) * 2
        block = sampler.sample(2)
        for call in (
            lambda: sampler.sample(2, out=block),
            lambda: sampler.sample(None, out=block),
            lambda: sampler.sample(2, at_most=3),
            lambda: sampler.sample(None, at_most=0),
            lambda: sampler.batches(2),
            lambda: sampler.gather(block.index.ravel()),
            lambda: buf.sampler(seed=1).sample(None),
            lambda: buf.sampler(select=bc.Epoch()).sample(None),
        ):
            with pytest.raises(SampleError):
                call()
        missing: Any = sampler
        with pytest.raises(ArgumentTypeError, match="batch_size"):
            missing.sample()
