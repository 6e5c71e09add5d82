"""Compares stacks of frames in our replay buffers with those of Stable-Baselines3's own."""

from __future__ import annotations

from typing import Any

import backcast as bc
import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

pytest.importorskip(
    "stable_baselines3",
    reason="Stable-Baselines3 is not installed: pip install -r requirements/adapters.txt",
)
torch = pytest.importorskip(
    "torch", reason="PyTorch is not installed: pip install -r requirements/adapters.txt"
)

import backcast.sb3 as ours  # noqa: E402
from stable_baselines3.common import buffers as theirs  # noqa: E402
from stable_baselines3.common.vec_env import (  # noqa: E402
    DummyVecEnv,
    VecFrameStack,
    VecTransposeImage,
)
from test_sb3_buffers import DISCRETE, assert_same_samples, both_sampled  # noqa: E402

FRAME = (12, 10, 1)


class Pictures(gym.Env[Any, Any]):
    """Environment whose pictures are all different, with episodes of several lengths."""

    observation_space = spaces.Box(0, 255, FRAME, np.uint8)
    action_space = spaces.Discrete(3)

    def __init__(self, number: int = 0) -> None:
        self.draw = np.random.default_rng(number)
        self.left = 0

    def picture(self) -> Any:
        return self.draw.integers(1, 255, FRAME, np.uint8)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.left = int(self.draw.integers(1, 12))
        return self.picture(), {}

    def step(self, action: Any) -> Any:
        self.left -= 1
        over, limit = self.left == 0, self.draw.random() < 0.05
        return self.picture(), float(self.draw.normal()), over, limit, {}


def stacked(envs: int, padding: str = "zero") -> Any:
    if padding == "reset":
        stack = gym.wrappers.FrameStackObservation
        return DummyVecEnv([lambda at=at: stack(Pictures(at), 4) for at in range(envs)])
    made = DummyVecEnv([lambda number=number: Pictures(number) for number in range(envs)])
    return VecTransposeImage(VecFrameStack(made, 4))


@pytest.mark.parametrize("kind", ["ReplayBuffer", "NStepReplayBuffer"])
@pytest.mark.parametrize("sampling", ["ring", "sb3"])
@pytest.mark.parametrize("padding", ["zero", "reset"])
def test_stacks_of_frames_are_theirs_and_each_frame_is_stored_once(
    kind: str, sampling: str, padding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = stacked(2, padding)
    size = 120
    # The ring wraps: stacks whose first frames were overwritten are not drawn.
    own = {"capacity": 150, "seed": 3} if sampling == "ring" else {}
    common = {"device": "cpu", "n_envs": 2}
    one = getattr(theirs, kind)(2 * size, env.observation_space, env.action_space, **common)
    other = getattr(ours, kind)(
        2 * size,
        env.observation_space,
        env.action_space,
        **common,
        frames=4,
        padding=padding,
        sampling=sampling,
        **own,
    )
    assert other.ring.schema.columns["obs"][1] in (FRAME, FRAME[:2])
    obs = env.reset()
    laps = 1 if sampling == "ring" else 4
    for _ in range(laps * size - 1):
        action = np.array([env.action_space.sample() for _ in range(2)])
        following, reward, done, infos = env.step(action)
        last = following.copy()
        for at in np.flatnonzero(done):
            last[at] = infos[at]["terminal_observation"]
        step = obs.copy(), last, action, reward, done, infos
        one.add(*step)
        other.add(*step)
        obs = following
    if sampling == "sb3":
        for seed in range(5):
            assert_same_samples(*both_sampled(one, other, seed=seed))
        return
    # The newest frame of a stack identifies the transition.
    place = {
        bytes(one.observations[at, lane, -1]): (at, lane)
        for at in range(size - 1)
        for lane in range(2)
    }
    assert other.ring.lane_span(0)[0] > 0, "the ring has not gone round"
    samples = other.sample(2000)
    found = [place[bytes(obs[-1].numpy())] for obs in samples.observations]
    at, lanes = np.array(found).T
    early = at + getattr(one, "n_steps", 1) < one.pos
    monkeypatch.setattr(np.random, "randint", lambda *_, **__: lanes)
    expected = one._get_samples(at)
    assert len(set(found)) > 50
    for name in expected._fields:
        first, second = getattr(expected, name), getattr(samples, name)
        if first is not None:
            assert torch.equal(first[early], second[early]), name


def test_stacks_that_do_not_shift_or_begin_elsewhere_are_refused() -> None:
    space = spaces.Box(0, 255, (4, 3, 3), np.uint8)
    zero = [{}]
    full = np.arange(1, 37, dtype=np.uint8).reshape(1, 4, 3, 3)
    start = full * np.array([0, 0, 0, 1], np.uint8).reshape(1, 4, 1, 1)
    again = np.repeat(full[:, -1:], 4, axis=1)
    no = np.zeros(1, bool)

    def shift(stack: Any) -> Any:
        return np.concatenate([stack[:, 1:], stack[:, -1:] + 1], axis=1)

    def add(buffer: Any, obs: Any, following: Any) -> None:
        buffer.add(obs, following, np.zeros(1, int), np.zeros(1), no, zero)

    for padding, right, wrong in [("zero", start, again), ("reset", again, start)]:
        make = {"device": "cpu", "frames": 4, "padding": padding}
        buffer = ours.ReplayBuffer(50, space, DISCRETE, **make)
        with pytest.raises(bc.errors.ArgumentError, match="padding="):
            add(buffer, wrong, shift(wrong))
        with pytest.raises(bc.errors.ArgumentError, match="VecFrameStack"):
            add(buffer, right, full)
        assert buffer.ring.stats()["rows_published"] == 0
        add(buffer, right, shift(right))
        add(buffer, shift(right), shift(shift(right)))
        # A stack from the middle of another episode is refused: its older frames are not stored.
        with pytest.raises(bc.errors.ArgumentError, match=r"\breset\b"):
            add(buffer, full, shift(full))
        add(buffer, right, shift(right))
        assert len(buffer.ring) == 2


def test_30_000_stacked_frames_take_less_than_a_third_of_their_memory() -> None:
    space = spaces.Box(0, 255, (4, 84, 84), np.uint8)
    # Pages become resident when they are written, so allocated sizes are compared.
    one = theirs.ReplayBuffer(30_000, space, DISCRETE, device="cpu")
    other = ours.ReplayBuffer(30_000, space, DISCRETE, device="cpu", frames=4)
    names = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")
    its = sum(getattr(one, name).nbytes for name in names)
    own = other.ring.stats()["bytes_allocated"] + other._stored._index.nbytes
    print(f"30,000 stacks of 4 x 84 x 84: {own / 2**20:.0f} MiB, theirs {its / 2**20:.0f} MiB")
    assert own <= 0.3 * its
