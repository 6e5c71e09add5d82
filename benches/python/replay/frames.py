"""w2: stacks of frames and the stack after each, and the buffers that they are drawn from.

Every contender stores a frame once. Backcast and NumPy get one frame a step. cpprb gets the whole
stack, which its caller makes, and stores the new frame of it (`stack_compress`). A draw returns a
batch of arrays: stacks, the stacks after them, actions, rewards and ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import backcast as bc
import numpy as np
import numpy.typing as npt

from .workloads import BATCH, EPISODE, FRAMES, SHAPE, STACK, Frame, numbers

Batch = Mapping[str, Any]


class Backcast:
    """A named ring of one lane, drawn as windows of four frames."""

    name = "backcast"

    def __init__(self) -> None:
        """Make it."""
        schema = {"obs": ("u1", SHAPE), "action": "i4", "reward": "f4"}
        self.buf = bc.ReplayBuffer.create("bench-w2", schema, capacity=FRAMES, exist="replace")
        self.writer = self.buf.writer(autoreset_mode="same_step")
        self.steps = 0

    def append(self, frame: Frame) -> object:
        """Store a step."""
        end = self.steps % EPISODE == EPISODE - 1
        self.steps += 1
        return self.writer.append(
            obs=frame,
            action=self.steps % 4,
            reward=1.0,
            terminated=False,
            truncated=end,
            final_obs=frame if end else None,
        )

    def filled(self) -> None:
        """Make the sampler, once the ring is full."""
        self.sampler = self.buf.sampler(seed=0, history=STACK, boundary="reject")
        self.out = self.sampler.sample(BATCH)

    def sample(self) -> Batch:
        """Draw `BATCH` stacks into arrays that are the caller's to keep."""
        return self.sampler.sample(BATCH)

    def sample_again(self) -> Batch:
        """Draw into the arrays of the previous batch."""
        return self.sampler.sample(BATCH, out=self.out)

    def check(self) -> None:
        """Assert that the frames of drawn stacks follow one another."""
        batch = self.sample()
        stacks, after = numbers(batch["obs"]), numbers(batch["next_obs"])
        assert (np.diff(stacks, axis=1) == 1).all(), "frames of a stack follow one another"
        # The newest frame of `after` is not checked: at an end it repeats the one before.
        assert (after[:, :-1] == stacks[:, 1:]).all(), (
            "a stack's frames but the first are in the next"
        )

    def close(self) -> None:
        """Give the memory back."""
        self.writer.close()
        self.buf.close()


class NumPy:
    """A hand-written buffer: private columns, a cursor, and windows by fancy indexing."""

    name = "NumPy ring"

    def __init__(self) -> None:
        """Allocate the columns. Filling them touches every page before anything is timed."""
        self.columns: dict[str, npt.NDArray[Any]] = {
            "obs": np.empty((FRAMES, *SHAPE), np.uint8),
            "action": np.empty(FRAMES, np.int32),
            "reward": np.empty(FRAMES, np.float32),
            "done": np.empty(FRAMES, bool),
        }
        self.steps = 0
        self.draws = np.random.default_rng(0)
        self.window = np.arange(STACK + 1)

    def append(self, frame: Frame) -> object:
        """Store a step."""
        at = self.steps % FRAMES
        self.columns["obs"][at] = frame
        self.columns["action"][at] = at % 4
        self.columns["reward"][at] = 1.0
        self.columns["done"][at] = at % EPISODE == EPISODE - 1
        self.steps += 1
        return None

    def filled(self) -> None:
        """Allocate the arrays of `sample_again`."""
        self.frames = np.empty((BATCH, STACK + 1, *SHAPE), np.uint8)
        self.steps_out = {
            name: np.empty((BATCH, STACK), self.columns[name].dtype)
            for name in ("action", "reward", "done")
        }

    def first(self) -> npt.NDArray[np.int64]:
        """Draw first rows of windows that lie within an episode."""
        episode = self.draws.integers(0, FRAMES // EPISODE, BATCH) * EPISODE
        return episode + self.draws.integers(0, EPISODE - STACK, BATCH)

    def sample(self) -> Batch:
        """Draw `BATCH` stacks into arrays that are the caller's to keep."""
        index = self.first()[:, None] + self.window
        both = self.columns["obs"][index]
        steps = {name: self.columns[name][index[:, :-1]] for name in self.steps_out}
        return {"obs": both[:, :-1], "next_obs": both[:, 1:], **steps}

    def sample_again(self) -> Batch:
        """Draw into the arrays of the previous batch."""
        index = self.first()[:, None] + self.window
        np.take(self.columns["obs"], index, axis=0, out=self.frames, mode="clip")
        for name, out in self.steps_out.items():
            np.take(self.columns[name], index[:, :-1], axis=0, out=out, mode="clip")
        return {"obs": self.frames[:, :-1], "next_obs": self.frames[:, 1:], **self.steps_out}

    def check(self) -> None:
        """Assert that the frames of drawn stacks follow one another."""
        batch = self.sample()
        assert (np.diff(numbers(batch["obs"]), axis=1) == 1).all(), "frames follow one another"

    def close(self) -> None:
        """Give the memory back."""
        self.columns.clear()


class Cpprb:
    """cpprb's ReplayBuffer, if it is installed."""

    name = "cpprb"

    def __init__(self) -> None:
        """Make it."""
        import cpprb  # type: ignore[import-not-found,import-untyped,unused-ignore]

        columns: dict[str, dict[str, Any]] = {
            "obs": {"shape": (*SHAPE, STACK), "dtype": np.uint8},
            "action": {"dtype": np.int32},
            "reward": {},
            "done": {"dtype": bool},
        }
        self.buffer = cpprb.ReplayBuffer(FRAMES, columns, next_of="obs", stack_compress="obs")
        self.stack = np.zeros((*SHAPE, STACK + 1), np.uint8)
        self.steps = 0

    def append(self, frame: Frame) -> object:
        """Store a step with the stacks before and after it."""
        stack, step = self.stack, self.steps % EPISODE
        self.steps += 1
        if step == 0:
            stack[:] = frame[..., None]
            return None
        stack[..., :-1] = stack[..., 1:]
        stack[..., -1] = frame
        end = step == EPISODE - 1
        obs, after = stack[..., :-1], stack[..., 1:]
        self.buffer.add(obs=obs, action=step % 4, reward=1.0, next_obs=after, done=end)
        if end:
            self.buffer.on_episode_end()
        return None

    def filled(self) -> None:
        """Do nothing; the buffer needs no preparation."""

    def sample(self) -> Batch:
        """Draw `BATCH` stacks into arrays that are the caller's to keep."""
        batch: Batch = self.buffer.sample(BATCH)
        return batch

    def check(self) -> None:
        """Assert that the frames of drawn stacks follow one another."""
        stacks = np.moveaxis(np.asarray(self.sample()["obs"]), -1, 1)
        # An episode begins with its first frame four times.
        assert (np.diff(numbers(stacks).astype(int), axis=1) <= 1).all(), (
            "frames follow one another"
        )

    def close(self) -> None:
        """Give the memory back."""
        del self.buffer
