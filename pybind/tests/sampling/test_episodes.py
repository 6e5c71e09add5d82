"""Whole episodes: padded and ragged batches, their returns, memory, states, and what is refused."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import backcast as bc
import numpy as np
import pytest
from backcast import returns as returns_of
from backcast.errors import ArgumentTypeError, SampleError
from counted_ring import assert_equal, filled
from numpy.typing import NDArray
from waits import read_line

Layout = Literal["padded", "ragged"]
ENDS = 17
FIXED = bc.WholeEpisodes("padded", max_length=ENDS)


def uneven(capacity: int = 2_000, episodes: int = 24) -> bc.ReplayBuffer:
    """Return a ring of episodes of 1, 2, 3, ... transitions; ``reward`` numbers all transitions."""
    buf = bc.ReplayBuffer.create(None, {"obs": "f4", "reward": "f8"}, capacity=capacity)
    step = 0
    with buf.writer() as writer:
        for length in range(1, episodes + 1):
            for at in range(length):
                end = at == length - 1
                final = -length if end else None
                writer.append(
                    obs=step, reward=step, terminated=end, truncated=False, final_obs=final
                )
                step += 1
    return buf


def first_reward(length: NDArray[np.int64]) -> NDArray[np.int64]:
    return length * (length - 1) // 2


def test_padded_episodes_are_whole_masked_and_end_with_their_final_observation() -> None:
    batch = uneven().sampler(seed=7, form=bc.WholeEpisodes("padded")).sample(64)
    length, mask = batch["length"], batch["mask"]
    longest = length.max()
    assert batch["obs"].shape == batch["next_obs"].shape == mask.shape == (64, longest)
    assert length.dtype == np.int64
    assert batch.index.shape == batch.age.shape == (64,)
    places = np.arange(longest)
    np.testing.assert_array_equal(mask, places < length[:, None])
    expected = first_reward(length)[:, None] + places
    np.testing.assert_array_equal(batch["reward"], np.where(mask, expected, 0))
    np.testing.assert_array_equal(batch["obs"][mask], expected[mask])
    last = places == length[:, None] - 1
    np.testing.assert_array_equal(batch["next_obs"][last], -length)
    np.testing.assert_array_equal(batch["terminated"], last)
    np.testing.assert_array_equal(batch["next_obs"][mask & ~last], expected[mask & ~last] + 1)
    assert not batch["obs"].flags.writeable, "obs and next_obs share memory"


@pytest.mark.parametrize("copy", [False, True])
@pytest.mark.parametrize("limit", [None, 30])
def test_only_the_final_observation_lies_beyond_the_end_of_a_padded_episode(
    copy: bool, limit: int | None
) -> None:
    form = bc.WholeEpisodes("padded", max_length=limit)
    batch = uneven().sampler(seed=7, form=form, copy=copy).sample(64)
    length, mask = batch["length"], batch["mask"]
    expected = np.zeros(mask.shape)
    shorter = np.flatnonzero(length < mask.shape[1])
    assert len(shorter) > 0
    if not copy:
        expected[shorter, length[shorter]] = -length[shorter]
    np.testing.assert_array_equal(np.where(mask, 0, batch["obs"]), expected)
    for key in ("next_obs", "reward", "terminated", "truncated"):
        assert not batch[key][~mask].any(), key


def test_ragged_episodes_are_the_same_ones_in_a_row() -> None:
    buf = uneven()
    padded = buf.sampler(seed=7, form=bc.WholeEpisodes("padded")).sample(64)
    ragged = buf.sampler(seed=7, form=bc.WholeEpisodes("ragged")).sample(64)
    offsets = ragged["offsets"]
    np.testing.assert_array_equal(np.diff(offsets), padded["length"])
    assert offsets[0] == 0
    assert offsets[-1] == len(ragged["reward"]) == len(ragged.index)
    for key in ("obs", "next_obs", "reward", "terminated", "truncated"):
        np.testing.assert_array_equal(ragged[key], padded[key][padded.mask], err_msg=key)
    np.testing.assert_array_equal(ragged.index[offsets[:-1]], padded.index)
    ragged["obs"][:] = 0  # writable: `obs` and `next_obs` share no memory


def test_every_episode_is_drawn_alike_and_transitions_are_not() -> None:
    buf = uneven()

    def chi_square(lengths: NDArray[np.int64]) -> float:
        counts = np.bincount(lengths, minlength=25)[1:]
        return float(((counts - counts.mean()) ** 2 / counts.mean()).sum())

    # With 23 degrees of freedom chi-square exceeds 70 once in about 10**6 seeds.
    for seed in range(4):
        drawn = buf.sampler(seed=seed, form=bc.WholeEpisodes("padded")).sample(4_800)["length"]
        assert chi_square(drawn) < 70
    # Control: draws of single transitions find long episodes more often, and the test detects it.
    rewards = buf.sampler(seed=1).sample(4_800)["reward"]
    lengths = np.searchsorted(first_reward(np.arange(1, 26)), rewards, side="right")
    assert chi_square(lengths) > 700


def test_returns_of_padded_episodes_are_those_of_each_one() -> None:
    batch = uneven().sampler(seed=3, form=bc.WholeEpisodes("padded")).sample(20)
    values = np.cos(batch["reward"])
    next_values = np.sin(batch["reward"])
    gae = returns_of.gae(batch, values, next_values, gamma=0.9, lam=0.8)
    mixed = returns_of.lambda_returns(batch, next_values, gamma=0.9, lam=0.8)
    for item, length in enumerate(batch["length"]):
        advantage, target = 0.0, 0.0
        for at in reversed(range(length)):
            alive = at < length - 1
            reward, after = batch["reward"][item, at], next_values[item, at] * alive
            delta = reward + 0.9 * after - values[item, at]
            advantage = delta + 0.9 * 0.8 * advantage * alive
            target = reward + 0.9 * alive * (0.2 * after + 0.8 * target)
            np.testing.assert_allclose(gae.advantages[item, at], advantage, rtol=1e-9)
            np.testing.assert_allclose(mixed[item, at], target, rtol=1e-9)
        assert not gae.advantages[item, length:].any()
        assert not mixed[item, length:].any()


def test_fixed_memory_is_filled_again_and_drawn_ahead() -> None:
    buf = filled()
    sampler = buf.sampler(seed=5, form=FIXED)
    assert sampler.form == FIXED
    drawn = [sampler.sample(6) for _ in range(4)]
    assert drawn[0]["obs"]["x"].shape == (6, ENDS, 3)
    with buf.sampler(seed=5, form=FIXED).batches(6, prefetch=2, limit=4) as ahead:
        for one, two in zip(drawn, ahead, strict=True):
            assert_equal(one, two)
    again = buf.sampler(seed=5, form=FIXED)
    out = again.sample(6)
    assert again.sample(6, out=out) is out
    assert_equal(out, drawn[1])
    varying = buf.sampler(seed=5, form=bc.WholeEpisodes("padded"))
    for one in drawn:
        assert_equal(varying.sample(6), one)
    calls: list[Callable[[], object]] = [
        lambda: varying.sample(6, out=out),
        lambda: varying.batches(6),
        lambda: varying.batches(6, prefetch=0),
        lambda: varying.batches(6, reuse=True),
    ]
    for call in calls:
        with pytest.raises(SampleError, match=r'WholeEpisodes\(.*"padded".*\bmax_length\b'):
            call()
        varying.sample(6)  # the refused call left the sampler usable


def test_columns_copies_transforms_and_states() -> None:
    buf = filled()
    padded, ragged = bc.WholeEpisodes("padded"), bc.WholeEpisodes("ragged")
    some = buf.sampler(seed=5, form=ragged, columns=["action", "truncated"]).sample(5)
    assert set(some) == {"action", "truncated", "index", "age", "offsets"}
    apart = buf.sampler(seed=5, form=padded, copy=True).sample(5)
    apart["next_obs"]["n"][:] = 1
    assert_equal(apart["obs"], buf.sampler(seed=5, form=padded).sample(5)["obs"])

    def total(batch: bc.Batch) -> float:
        return float(batch["reward"].sum())

    summed: Any = buf.sampler(seed=5, form=ragged, transform=total).sample(5)
    assert summed == float(buf.sampler(seed=5, form=ragged).sample(5)["reward"].sum())
    for form in (ragged, padded, FIXED):
        first = buf.sampler(seed=9, form=form)
        first.sample(3)
        again = buf.sampler(state=first.state())
        assert again.form == first.form == form
        assert_equal(first.sample(3), again.sample(3))


@pytest.mark.parametrize("layout", ["padded", "ragged"])
def test_selectors_choose_among_whole_episodes(layout: Layout) -> None:
    buf, form = uneven(), bc.WholeEpisodes(layout)

    def lengths_of(batch: bc.Batch) -> list[int]:
        found = batch["length"] if layout == "padded" else np.diff(batch["offsets"])
        return [int(length) for length in found]

    assert lengths_of(buf.sampler(form=form, select="fifo").sample(5)) == [1, 2, 3, 4, 5]
    assert lengths_of(buf.sampler(form=form, select="lifo").sample(3)) == [24, 23, 22]
    epochs = [buf.sampler(form=form, select=bc.Epoch(table=layout)) for _ in range(2)]
    a_pass = [length for epoch in epochs for length in lengths_of(epoch.sample(12))]
    assert sorted(a_pass) == list(range(1, 25)) != a_pass
    queue = buf.sampler(form=form, select=bc.Consume(table=f"new-{layout}"))
    assert lengths_of(queue.sample(24)) == list(range(1, 25))
    with pytest.raises(bc.WaitTimeoutError):
        queue.sample(1, timeout=0)


@pytest.mark.parametrize("layout", ["padded", "ragged"])
def test_episodes_have_the_priority_of_their_first_transition(layout: Layout) -> None:
    buf, form = uneven(), bc.WholeEpisodes(layout)
    by_return = bc.Priority(alpha=1.0, eps=0.0, beta=1.0, table=layout)
    sampler = buf.sampler(seed=3, form=form, select=by_return)

    def firsts_and_priorities(batch: bc.Batch) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return first transitions of episodes, and as priorities their lengths modulo 3."""
        if layout == "padded":
            return batch.index, batch["length"] % 3
        return batch.index[batch["offsets"][:-1]], np.diff(batch["offsets"]) % 3

    batch = sampler.sample(400)
    first, priority = firsts_and_priorities(batch)
    assert (batch["weight"] == 1).all()
    assert sampler.update_priorities(first, priority) == 0
    with pytest.raises(SampleError, match="step 1"):
        sampler.update_priorities(first + 1, np.full(400, 9.0))
    batch = sampler.sample(3_000)
    _, priority = firsts_and_priorities(batch)
    # Eight episodes each have priority 0, which is never drawn, 1 and 2.
    np.testing.assert_allclose(batch["weight"], 1 / priority, rtol=1e-6)
    assert abs((priority == 2).mean() - 2 / 3) < 0.05
    state = sampler.state()
    again = buf.sampler(state=state)
    assert_equal(sampler.sample(4), again.sample(4))
    with pytest.raises(bc.BackcastError):
        buf.sampler(select=by_return)


def test_an_error_for_each_transition_of_ragged_episodes_sets_no_priority() -> None:
    buf = uneven()
    sampler = buf.sampler(seed=7, form=bc.WholeEpisodes("ragged"), select=bc.Priority())
    batch = sampler.sample(8)
    with pytest.raises(SampleError, match=r"index\[\d+\].* step 1 "):
        sampler.update_priorities(batch.index, np.full(len(batch.index), 50.0))
    assert set(sampler.sample(64)["weight"].tolist()) == {1.0}, "nothing was set"
    firsts = batch.index[batch["offsets"][:-1]]
    assert sampler.update_priorities(firsts, np.full(len(firsts), 50.0)) == 0


def test_what_does_not_go_with_episodes_is_refused_with_a_remedy() -> None:
    buf = filled()
    refused: list[tuple[dict[str, Any], str]] = [
        ({"history": 4}, "history"),
        ({"future": 4}, "future"),
        ({"n_step": 3, "gamma": 0.9}, "n-step"),
        ({"boundary": "clamp"}, "boundary"),
    ]
    for settings, part in refused:
        with pytest.raises(SampleError, match=rf"\b{part}\b.*\bform\b"):
            buf.sampler(form=bc.WholeEpisodes("padded"), **settings)
    selectors: list[tuple[Any, str]] = [
        (bc.Largest(), "priority"),
        (bc.Recency(5), "recency"),
        (bc.LaneWeights([1]), "lanes"),
        ("lane_strata", "lane_strata"),
    ]
    for select, name in selectors:
        with pytest.raises(SampleError, match=rf"{name}\b.*\bselect\b.*\bSequence\b"):
            buf.sampler(form=bc.WholeEpisodes("padded"), select=select)
    with pytest.raises(SampleError, match=r"\bmax_length\b.*\b400\b.*\b1\b.*\b399\b"):
        buf.sampler(form=bc.WholeEpisodes("padded", max_length=400))
    with pytest.raises(SampleError, match=r"\bmax_length\b.*\b0\b.*\b1\b"):
        buf.sampler(form=bc.WholeEpisodes("padded", max_length=0))
    bad: Any = "packed"
    with pytest.raises(SampleError, match=r'\blayout\b.*"packed".*"padded".*"ragged"'):
        buf.sampler(form=bc.WholeEpisodes(bad))
    others: list[Any] = ["padded", bc.WholeEpisodes, bc.Epoch(), 3]
    for other in others:
        with pytest.raises(ArgumentTypeError, match=r"\bform\b.*bc\.WholeEpisodes\(\)"):
            buf.sampler(form=other)
    sampler = buf.sampler(form=bc.WholeEpisodes("ragged"))
    with pytest.raises(SampleError, match=r"\bform\b"):
        sampler.gather(sampler.sample(2).index)
    with pytest.raises(SampleError, match=r"\bstate\b"):
        buf.sampler(state=sampler.state(), form=bc.WholeEpisodes("ragged"))
    empty = bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=50)
    with pytest.raises(SampleError, match=r"\b0\b"):
        empty.sampler(form=bc.WholeEpisodes("padded")).sample(2)
    assert sampler.sample(2)["offsets"].shape == (3,)


def test_an_episode_whose_writer_went_away_is_never_drawn() -> None:
    buf = bc.ReplayBuffer.create(None, {"obs": "f4", "reward": "f8"}, capacity=500)
    for life in range(6):
        with buf.writer() as writer:
            for step in range(4):
                end = step == 3
                writer.append(
                    obs=step,
                    reward=life,
                    terminated=end,
                    truncated=False,
                    final_obs=4 if end else None,
                )
            writer.append(obs=0, reward=100, terminated=False, truncated=False)
    lengths = buf.sampler(seed=1, form=bc.WholeEpisodes("padded")).sample(200)
    # The first row of each later writer is a GAP after an episode that did not end, so that the
    # episode there may be the rest of a cut one.
    assert set(lengths["reward"][lengths.mask]) == {0}
    tidy = bc.ReplayBuffer.create(None, {"obs": "f4", "reward": "f8"}, capacity=500)
    for life in range(6):
        with tidy.writer() as writer:
            writer.append(obs=0, reward=life, terminated=True, truncated=False, final_obs=1)
    drawn = tidy.sampler(seed=1, form=bc.WholeEpisodes("ragged")).sample(200)["reward"]
    assert set(drawn) == set(range(6))


WRITE = """
import sys
import backcast as bc
buf = bc.ReplayBuffer.attach("pong")
step = 0
with buf.writer() as writer:
    while True:
        for at in range(17):
            end = at == 16
            writer.append(
                obs=[step, step + 1],
                reward=step,
                terminated=end,
                truncated=False,
                final_obs=[step + 1, step + 2] if end else None,
            )
            step += 1
        if step == 17 * 100:
            print("ready", flush=True)
"""


def test_no_episode_is_torn_while_another_process_writes(
    place: Path, start: Callable[..., subprocess.Popen[str]]
) -> None:
    columns = {"obs": ("f8", (2,)), "reward": "f8"}
    settings: dict[str, Any] = {"capacity": 200, "dir": place, "lane_policy": "overwrite"}
    with bc.ReplayBuffer.create("pong", columns, **settings) as buf:
        child = start(WRITE)
        assert read_line(child) == "ready\n"
        buf.wait(min_size=100, timeout=60)
        words: tuple[Any, ...] = ("padded", "ragged")
        padded_sampler, ragged_sampler = (
            buf.sampler(seed=1, form=bc.WholeEpisodes(word)) for word in words
        )
        places = np.arange(ENDS)
        for _ in range(1_500):
            padded, ragged = padded_sampler.sample(32), ragged_sampler.sample(32)
            assert (padded["length"] == ENDS).all()
            for batch in (padded, ragged):
                steps = batch["reward"].reshape(32, ENDS)
                np.testing.assert_array_equal(steps, steps[:, :1] + places)
                for key, after in (("obs", 0), ("next_obs", 1)):
                    obs = batch[key].reshape(32, ENDS, 2)
                    np.testing.assert_array_equal(obs[..., 0], steps + after)
                    np.testing.assert_array_equal(obs[..., 1], steps + after + 1)
        for sampler in (padded_sampler, ragged_sampler):
            sampler.close()
        child.kill()
        child.communicate(timeout=60)
