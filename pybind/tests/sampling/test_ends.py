"""Draws at the end of an episode, a lane or the ring: cases that other buffers got wrong.

Most of them have the same names in the Rust tests, in `core/tests/it/sampling/`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import backcast as bc
import numpy as np
import pytest
from numpy.typing import NDArray

GOES, TERMINATES, TRUNCATES = (False, False), (True, False), (False, True)
COLUMNS = {"obs": "f8", "reward": "f8"}


class Actor:
    """Writer whose observations count 1, 2, 3, final ones included; rewards are a tenth of them."""

    def __init__(self, buf: bc.ReplayBuffer, writer: bc.Writer) -> None:
        self.buf, self.writer, self.count = buf, writer, 0

    def step(self, end: tuple[bool, bool] = GOES) -> None:
        """Write one step, and the final observation where it ends the episode."""
        self.count += 1
        self.writer.append(
            obs=self.count,
            reward=self.count / 10,
            terminated=end[0],
            truncated=end[1],
            final_obs=self.count + 1 if any(end) else None,
        )
        self.count += any(end)

    def episode(self, steps: int, end: tuple[bool, bool] = GOES) -> None:
        """Write steps of an episode, of which the last ends it as `end` says."""
        for _ in range(steps - 1):
            self.step()
        self.step(end)


@contextmanager
def actor(capacity: int) -> Iterator[Actor]:
    """Make a ring of one lane and its writer."""
    buf = bc.ReplayBuffer.create(None, COLUMNS, capacity=capacity)
    with buf.writer(autoreset_mode="same_step") as writer:
        yield Actor(buf, writer)


def same(array: NDArray[np.float64], expected: Any) -> None:  # noqa: ANN401 - lists of any depth
    """Compare all elements."""
    np.testing.assert_allclose(array, expected, rtol=1e-12, atol=0)


def test_a_truncated_transition_is_followed_by_its_own_final_observation() -> None:
    with actor(100) as a:
        a.episode(3, TRUNCATES)
        a.episode(2)
        batch = a.buf.sampler(seed=1).gather([2])
    same(batch["obs"], [3])
    same(batch["next_obs"], [4])  # and not 5, the first of the next episode
    assert (batch["terminated"].tolist(), batch["truncated"].tolist()) == ([False], [True])


@pytest.mark.parametrize("boundary", ["mask", "clamp"])
def test_a_ring_that_is_not_full_shows_nothing_that_was_never_written(boundary: Any) -> None:  # noqa: ANN401 - a literal
    with actor(1_000) as a:
        a.episode(3)
        sampler = a.buf.sampler(seed=1, history=4, future=4, boundary=boundary)
        batch = sampler.sample(200)
    assert batch.index.max() < 2
    arrays = (batch["obs"], batch["next_obs"], *(batch["future"][k] for k in ("obs", "next_obs")))
    for array in arrays:
        seen = set(np.unique(array).tolist())
        assert seen <= {0, 1, 2, 3}
        assert (0 in seen) == (boundary == "mask")


def test_windows_are_consecutive_rows_of_one_episode_after_every_wrap() -> None:
    with actor(50) as a:
        sampler = a.buf.sampler(seed=3, history=4, future=3, boundary="reject")
        for steps in (30, 9, 25, 7, 12, 48, 20, 31):
            a.episode(steps, TERMINATES)
            batch = sampler.sample(100)
            whole = np.concatenate([batch["obs"], batch["future"]["obs"]], axis=1)
            same(whole, whole[:, :1] + np.arange(7))
            assert batch["mask"].all()
            assert not batch["terminated"].any(), "an end has no future"


def test_drawing_goes_on_when_the_ring_is_exactly_full() -> None:
    with actor(8) as a:
        sampler = a.buf.sampler(seed=1, history=2)
        for step in range(1, 30):
            a.step()
            if step < 2:
                with pytest.raises(bc.errors.SampleError, match=r"\b1\b"):
                    sampler.sample(64)
                continue
            drawn = sorted(set(sampler.sample(64).index.tolist()))
            assert drawn == list(range(max(0, step - 8), step - 1)), f"after {step} rows"


def test_a_draw_leaves_the_callers_arrays_as_they_were() -> None:
    with actor(50) as a:
        a.episode(40)
        index = np.array([30, 2, 2, 17])
        kept = index.copy()
        sampler = a.buf.sampler(seed=1, history=3, n_step=2, gamma=0.5)
        batch = sampler.gather(index)
        assert batch.index is not index
        batch.index[:] = 0
        sampler.sample(4, out=batch)
        np.testing.assert_array_equal(index, kept)


@pytest.mark.parametrize("copy", [False, True])
def test_frame_stacks_repeat_the_first_and_the_last_observation_of_an_episode(copy: bool) -> None:
    with actor(100) as a:
        a.episode(3, TERMINATES)  # observations 1 2 3, final 4
        a.episode(3)  # 5 6 7, of which 7 has no successor yet
        sampler = a.buf.sampler(seed=1, history=3, future=3, boundary="clamp", copy=copy)
        batch = sampler.gather([0, 2, 4])
    same(batch["obs"], [[1, 1, 1], [1, 2, 3], [5, 5, 5]])
    same(batch["next_obs"], [[1, 1, 2], [2, 3, 4], [5, 5, 6]])
    same(batch["future"]["obs"], [[2, 3, 4], [4, 4, 4], [6, 7, 7]])
    same(batch["future"]["next_obs"], [[3, 4, 4], [4, 4, 4], [7, 7, 7]])
    same(batch["reward"], [[0, 0, 0.1], [0.1, 0.2, 0.3], [0, 0, 0.5]])
    assert batch["mask"].sum(1).tolist() == [1, 3, 1]
    assert batch["future_mask"].sum(1).tolist() == [2, 0, 1]


def test_frame_stacks_never_begin_in_the_middle_of_an_episode() -> None:
    with actor(20) as a:
        sampler = a.buf.sampler(seed=1, history=4, boundary="clamp")
        a.episode(30)  # rows 10 to 29 are left, of one endless episode
        drawn = sampler.sample(300)
        assert sorted(set(drawn.index.tolist())) == list(range(13, 29))
        same(drawn["obs"], drawn["obs"][:, -1:] + np.arange(-3, 1))
        with pytest.raises(bc.errors.SampleError, match=r'index\[0\] = 12\b.*boundary="clamp"'):
            sampler.gather([12])
        a.episode(2, TERMINATES)
        a.episode(12)
        # Rows 25 to 31 of the first episode and its FINAL row 32 are left. The second one begins
        # at row 33.
        drawn = sampler.sample(300)
        assert sorted(set(drawn.index.tolist())) == [*range(28, 32), *range(33, 44)]
        frames = drawn.index[:, None] + 1 + np.arange(-3, 1)
        same(drawn["obs"], np.maximum(frames, np.where(drawn.index >= 33, 34, 0)[:, None]))


def test_a_ring_without_a_known_history_says_so() -> None:
    with actor(6) as a:
        a.episode(12)
        sampler = a.buf.sampler(seed=1, history=5, boundary="clamp")
        assert set(sampler.sample(50).index.tolist()) == {10}
        a.episode(2, TERMINATES)
        a.episode(1)
        with pytest.raises(bc.errors.SampleError, match=r"\b5\b"):
            sampler.sample(1)


def test_a_return_ends_with_its_episode_and_bootstraps_only_where_that_was_truncated() -> None:
    with actor(100) as a:
        a.episode(4, TERMINATES)  # rows 0 to 3, observations 1 to 4, final 5
        a.episode(4, TRUNCATES)  # rows 5 to 8, observations 6 to 9, final 10
        sampler = a.buf.sampler(seed=1, n_step=3, gamma=0.5)
        batch = sampler.gather([0, 1, 2, 3, 5, 6, 7, 8])
        for final in (4, 9):
            with pytest.raises(bc.errors.SampleError, match=r"\bFINAL\b"):
                sampler.gather([final])
    r = np.arange(11) / 10
    same(
        batch["n_reward"],
        [
            *(r[1] + r[2] / 2 + r[3] / 4, r[2] + r[3] / 2 + r[4] / 4, r[3] + r[4] / 2, r[4]),
            *(r[6] + r[7] / 2 + r[8] / 4, r[7] + r[8] / 2 + r[9] / 4, r[8] + r[9] / 2, r[9]),
        ],
    )
    same(batch["n_discount"], [0.125, 0, 0, 0, 0.125, 0.125, 0.25, 0.5])
    same(batch["n_next_obs"], [4, 5, 5, 5, 9, 10, 10, 10])
    same(batch["next_obs"], [2, 3, 4, 5, 7, 8, 9, 10])  # as without returns


def test_the_newest_transitions_are_drawn_with_shorter_returns_and_grow_as_rows_come() -> None:
    with actor(100) as a:
        a.episode(3)
        sampler = a.buf.sampler(seed=1, n_step=3, gamma=0.5)
        batch = sampler.gather([0, 1])
        same(batch["n_discount"], [0.25, 0.5])
        same(batch["n_next_obs"], [3, 3])  # the newest observation there is
        assert set(sampler.sample(200).index.tolist()) == {0, 1}, "the newest are not left out"
        a.step()
        batch = sampler.gather([0, 1])
    same(batch["n_discount"], [0.125, 0.25])
    same(batch["n_next_obs"], [4, 4])


@pytest.mark.parametrize("how", ["died", "restarted"])
def test_a_return_stops_where_a_writer_died(how: str) -> None:
    with actor(100) as a:
        a.episode(3)
        if how == "died":
            a.writer.close()
            with a.buf.writer(autoreset_mode="same_step") as writer:
                Actor(a.buf, writer).episode(3)
        else:
            a.writer.restart()
            a.count = 0
            a.episode(3)
        sampler = a.buf.sampler(seed=1, history=2, future=2, n_step=3, gamma=0.5)
        batch = sampler.gather([0, 1, 3])
        with pytest.raises(bc.errors.SampleError, match=r"\bGAP\b"):
            sampler.gather([2])
    same(batch["n_discount"], [0.25, 0.5, 0.25])
    same(batch["n_next_obs"], [3, 3, 3])  # the new writer's count begins anew
    assert batch["mask"].tolist() == [[False, True], [True, True], [False, True]]
    assert batch["future_mask"].tolist() == [[True, False], [False, False], [True, False]]


def test_returns_stay_in_their_episode_after_the_ring_has_wrapped() -> None:
    with actor(41) as a:
        sampler = a.buf.sampler(seed=1, history=2, future=1, n_step=3, gamma=0.5)
        ends: dict[int, bool] = {}  # final observations, and whether they terminated
        for round_ in range(40):
            a.episode(1 + round_ % 7, TERMINATES if round_ % 2 == 0 else TRUNCATES)
            ends[a.count] = round_ % 2 == 0
            if round_ == 0:
                continue
            batch = sampler.sample(100)
            now = batch["obs"][:, -1]
            used = batch["n_next_obs"] - now
            assert set(used.tolist()) <= {1, 2, 3}
            terms = np.where(np.arange(3) < used[:, None], now[:, None] + np.arange(3), 0) / 10
            same(batch["n_reward"], terms @ [1, 0.5, 0.25])
            after = batch["n_next_obs"].tolist()
            done = np.array([ends.get(int(obs), False) for obs in after])
            same(batch["n_discount"], np.where(done, 0, 0.5**used))
            # A return of fewer than `n_step` rewards ends with its episode.
            assert all(int(obs) in ends for obs, k in zip(after, used, strict=True) if k < 3)
