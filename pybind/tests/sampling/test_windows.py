"""Returns and windows from Python, against sums and slices of the written rows."""

from __future__ import annotations

from typing import Any

import backcast as bc
import numpy as np
import pytest
from counted_ring import COLUMNS, filled, write

ENDS = 17


def test_returns_are_the_sums_of_the_rewards_that_were_written() -> None:
    buf, gamma = filled(steps=200, ends=ENDS), 0.9
    batch = buf.sampler(seed=1, n_step=4, gamma=gamma).sample(500)
    step = batch["action"].astype(int)
    newest = 199  # without a successor yet, it is no transition: no return has its reward
    left = np.minimum(ENDS - step % ENDS, newest - step)
    used = np.minimum(4, left)
    rewards = np.where(np.arange(4) < used[:, None], (step[:, None] + np.arange(4)) / 8, 0)
    np.testing.assert_allclose(batch["n_reward"], rewards @ gamma ** np.arange(4), rtol=1e-6)
    ended = (step % ENDS + used == ENDS) & (step // ENDS % 2 == 0)
    np.testing.assert_allclose(
        batch["n_discount"], np.where(ended, 0, gamma**used), rtol=1e-6, atol=0
    )
    np.testing.assert_array_equal(batch["n_next_obs"]["n"], step + used)
    np.testing.assert_array_equal(batch["n_next_obs"]["x"][:, 0], step + used)
    assert batch["n_reward"].dtype == batch["n_discount"].dtype == np.float32
    assert (used < 4).any()
    assert step.max() == newest - 1, "the newest transition is drawn"


def test_returns_change_no_other_array() -> None:
    buf = filled()
    plain = buf.sampler(seed=2, history=3, future=2).sample(64)
    summed = buf.sampler(seed=2, history=3, future=2, n_step=5, gamma=0.9).sample(64)
    for key in ("index", "age", "action", "reward", "mask", "terminated"):
        np.testing.assert_array_equal(plain[key], summed[key])
    np.testing.assert_array_equal(plain["next_obs"]["x"], summed["next_obs"]["x"])
    assert set(summed) - set(plain) == {"n_reward", "n_discount", "n_next_obs"}


def test_whole_windows_are_full_and_all_of_them_are_drawn() -> None:
    buf = filled(steps=200, ends=ENDS)
    sampler = buf.sampler(seed=3, history=10, future=5, boundary="reject")
    batch = sampler.sample(2_000)
    assert batch.mask is not None
    assert batch.future_mask is not None
    assert batch.mask.all()
    assert batch.future_mask.all()
    drawn = batch["action"][:, -1]
    expected = [s for s in range(200) if 9 <= s % ENDS < ENDS - 5 and s + 5 < 199]
    assert sorted(set(drawn.tolist())) == expected
    np.testing.assert_array_equal(batch["obs"]["n"], drawn[:, None] + np.arange(-9, 1))
    np.testing.assert_array_equal(batch["future"]["obs"]["n"], drawn[:, None] + np.arange(1, 6))
    with pytest.raises(bc.errors.SampleError, match=r"\b18\b.*\b17\b"):
        buf.sampler(history=18, boundary="reject").sample(1)


@pytest.mark.parametrize("copy", [False, True])
def test_clamped_windows_are_frame_stacks(copy: bool) -> None:
    buf = filled(steps=200, ends=ENDS)
    sampler = buf.sampler(seed=4, history=6, boundary="clamp", copy=copy)
    batch = sampler.sample(300)
    step = batch["action"][:, -1]
    first = step - step % ENDS
    frames = np.maximum(step[:, None] + np.arange(-5, 1), first[:, None])
    np.testing.assert_array_equal(batch["obs"]["n"], frames)
    np.testing.assert_array_equal(
        batch["next_obs"]["n"], np.maximum(step[:, None] + np.arange(-4, 2), first[:, None])
    )
    np.testing.assert_array_equal(batch.mask, step[:, None] + np.arange(-5, 1) >= first[:, None])
    np.testing.assert_array_equal(batch["action"], np.where(batch["mask"], frames, 0))


def test_a_sampler_says_what_it_draws() -> None:
    sampler = filled().sampler(seed=1, n_step=3, gamma=0.5, boundary="clamp")
    assert (sampler.n_step, sampler.gamma, sampler.boundary) == (3, 0.5, "clamp")
    assert "n_step 3, gamma 0.5, boundary clamp, select 'uniform', seed 1" in repr(sampler)
    plain = filled().sampler()
    assert (plain.n_step, plain.gamma, plain.boundary) == (None, None, "mask")


def test_a_buffers_own_draws_take_the_same_settings() -> None:
    buf = filled()
    keywords: dict[str, Any] = {"n_step": 3, "gamma": 0.5, "boundary": "reject"}
    batch = buf.sample(16, history=4, **keywords)
    assert batch.mask is not None
    assert batch.mask.all()
    assert batch["n_reward"].shape == (16,)


def test_returns_need_a_reward_of_one_number() -> None:
    columns = {**COLUMNS, "reward": ("f4", (2,))}
    buf = bc.ReplayBuffer.create(None, columns, capacity=10)
    with pytest.raises(bc.errors.SampleError, match=r"\bf4\b.*\bf8\b.*f4\[2\]"):
        buf.sampler(n_step=3, gamma=0.5)


def test_drawing_goes_on_while_the_ring_laps() -> None:
    buf = bc.ReplayBuffer.create(None, COLUMNS, capacity=60)
    sampler = buf.sampler(seed=5, history=5, future=2, n_step=3, gamma=0.9, boundary="reject")
    for _ in range(30):
        write(buf, 23, ends=11)
        batch = sampler.sample(50)
        np.testing.assert_array_equal(np.diff(batch["obs"]["n"], axis=1), 1)
        np.testing.assert_array_equal(batch["obs"]["n"][:, -1] + 1, batch["next_obs"]["n"][:, -1])
