"""Backcast: named rings in shared memory."""

from __future__ import annotations

import os
import time
from typing import Any, Final, Literal

import backcast as bc
import numpy as np
from replay.workloads import (
    ACTION,
    BATCH,
    CAPACITY,
    EPISODE,
    FUTURE,
    HISTORY,
    MANY,
    OBS,
    SHAPE,
    STACK,
    STEP_OBS,
    Transition,
)

from .data import FRAMES, SHARED, Array, Row, episodes_of_frames, episodes_of_observations

PACKAGES: Final = ("backcast", "numpy")
AutoresetMode = Literal["disabled", "same_step"]
SCHEMA: Final = {"obs": ("f4", (OBS,)), "action": ("f4", (ACTION,)), "reward": "f4"}


def unused_name(of: str) -> str:
    """Name a ring that no other run uses."""
    return f"bench-peers-{of}-{os.getpid()}-{time.time_ns()}"


class Transitions:
    """A ring of `MANY` lanes for a vector environment, and rings of one lane for a single one."""

    def __init__(self, steps: list[Transition]) -> None:
        """Fill all rings, so that every page is there when they are timed."""
        self.many = bc.ReplayBuffer.create(
            unused_name("many"), SCHEMA, capacity=CAPACITY, lanes=MANY
        )
        self.writers = self.many.writer(lanes=MANY, autoreset_mode="same_step")
        self.quiet, ends = np.zeros(MANY, bool), np.ones(MANY, bool)
        for t in range(CAPACITY // MANY):
            step = steps[t % len(steps)]
            end = t % EPISODE == EPISODE - 1
            self.writers.append(
                obs=step.obs,
                action=step.action,
                reward=step.reward,
                terminated=self.quiet,
                truncated=ends if end else self.quiet,
                final_obs=step.next_obs if end else None,
            )
        self.sampler = self.many.sampler(seed=0)
        flat = Transition(*(np.stack(column)[:, 0] for column in zip(*steps, strict=True)))
        self.with_next = OneLane("disabled", flat)
        self.without_next = OneLane("same_step", flat)

    def append(self, rows: list[Row]) -> None:
        """Store transitions one by one, each with its next_obs."""
        append = self.with_next.writer.append
        for obs, action, reward, next_obs, done in rows:
            append(
                obs=obs,
                action=action,
                reward=reward,
                next_obs=next_obs,
                terminated=done,
                truncated=False,
            )

    def append_without_next(self, rows: list[Row]) -> None:
        """Store transitions one by one; only the last of an episode has its next observation."""
        append = self.without_next.writer.append
        for obs, action, reward, next_obs, done in rows:
            append(
                obs=obs,
                action=action,
                reward=reward,
                terminated=done,
                truncated=False,
                final_obs=next_obs if done else None,
            )

    def append_many(self, step: Transition) -> None:
        """Store a step of every environment without next_obs."""
        self.writers.append(
            obs=step.obs,
            action=step.action,
            reward=step.reward,
            terminated=self.quiet,
            truncated=step.done,
        )

    def append_many_with_next(self, step: Transition) -> None:
        """Store a step of every environment with its next_obs."""
        self.writers.append(
            obs=step.obs,
            action=step.action,
            reward=step.reward,
            next_obs=step.next_obs,
            terminated=self.quiet,
            truncated=step.done,
        )

    def sample(self) -> Any:  # noqa: ANN401 - batches differ between contenders
        """Draw a batch into arrays that are the caller's to keep."""
        return self.sampler.sample(BATCH)

    def pairs(self, batch: Any) -> tuple[Array, Array]:  # noqa: ANN401
        """Take obs and next_obs out of a batch."""
        return batch["obs"], batch["next_obs"]

    def close(self) -> None:
        """Remove the rings."""
        self.writers.close()
        self.many.unlink()
        self.many.close()
        self.with_next.close()
        self.without_next.close()


class OneLane:
    """A ring of one lane, and its writer."""

    def __init__(self, mode: AutoresetMode, steps: Transition) -> None:
        """Fill the ring with these steps, repeatedly."""
        self.buf = bc.ReplayBuffer.create(unused_name("one"), SCHEMA, capacity=CAPACITY // 4)
        self.writer = self.buf.writer(autoreset_mode=mode)
        quiet = np.zeros(len(steps.reward), bool)
        for _ in range(self.buf.capacity // len(quiet) + 1):
            self.writer.extend(
                obs=steps.obs,
                action=steps.action,
                reward=steps.reward,
                terminated=quiet,
                truncated=quiet,
            )

    def close(self) -> None:
        """Remove the ring."""
        self.writer.close()
        self.buf.unlink()
        self.buf.close()


class Frames:
    """A ring of single frames, drawn as histories of `STACK`."""

    def __init__(self) -> None:
        """Fill it, frame by frame."""
        schema = {"obs": ("u1", SHAPE), "action": "i4", "reward": "f4"}
        self.buf = bc.ReplayBuffer.create(unused_name("frames"), schema, capacity=FRAMES)
        with self.buf.writer(autoreset_mode="same_step") as writer:
            for episode in episodes_of_frames(FRAMES):
                for t, frame in enumerate(episode):
                    end = t == EPISODE - 1
                    writer.append(
                        obs=frame,
                        action=t % 4,
                        reward=1.0,
                        terminated=False,
                        truncated=end,
                        final_obs=frame if end else None,
                    )
        self.sampler = self.buf.sampler(seed=0, history=STACK, boundary="reject")

    def sample(self) -> Any:  # noqa: ANN401 - batches differ between contenders
        """Draw a batch into arrays that are the caller's to keep."""
        return self.sampler.sample(BATCH)

    def pairs(self, batch: Any) -> tuple[Array, Array]:  # noqa: ANN401
        """Take stacks and next stacks out of a batch."""
        return batch["obs"], batch["next_obs"]

    def close(self) -> None:
        """Remove the ring."""
        self.buf.unlink()
        self.buf.close()


class Windows:
    """A ring of observations, drawn as windows of 20 + 5."""

    def __init__(self) -> None:
        """Fill it, an episode at a time."""
        schema = {"obs": ("f4", (STEP_OBS,))}
        self.buf = bc.ReplayBuffer.create(unused_name("windows"), schema, capacity=CAPACITY)
        ends, quiet = np.arange(EPISODE) == EPISODE - 1, np.zeros(EPISODE, bool)
        with self.buf.writer() as writer:
            for episode in episodes_of_observations(CAPACITY):
                after = np.concatenate([episode[1:], episode[-1:]])
                writer.extend(obs=episode, next_obs=after, terminated=ends, truncated=quiet)
        self.sampler = self.buf.sampler(seed=0, history=HISTORY, future=FUTURE, boundary="reject")

    def sample(self) -> Any:  # noqa: ANN401 - batches differ between contenders
        """Draw a batch into arrays that are the caller's to keep."""
        return self.sampler.sample(BATCH)

    def windows(self, batch: Any) -> Array:  # noqa: ANN401
        """Join the two parts of each window."""
        return np.concatenate([batch["obs"], batch["future"]["obs"]], axis=1)

    def close(self) -> None:
        """Remove the ring."""
        self.buf.unlink()
        self.buf.close()


class SharedWriter:
    """The writer of a ring, in another process."""

    def __init__(self, name: str) -> None:
        """Attach by name."""
        self.buf = bc.ReplayBuffer.attach(name)
        self.writer = self.buf.writer(lanes=MANY, autoreset_mode="same_step")
        self.quiet = np.zeros(MANY, bool)

    def append_many(self, step: Transition) -> None:
        """Store a step of every environment."""
        self.writer.append(
            obs=step.obs,
            action=step.action,
            reward=step.reward,
            terminated=self.quiet,
            truncated=step.done,
        )

    def close(self) -> None:
        """Close the writer and the ring."""
        self.writer.close()
        self.buf.close()


class Shared:
    """A ring that another process writes; `handle` is its name."""

    writer = SharedWriter

    def __init__(self) -> None:
        """Create the ring."""
        self.handle = unused_name("shared")
        self.buf = bc.ReplayBuffer.create(self.handle, SCHEMA, capacity=SHARED, lanes=MANY)
        self.sampler = self.buf.sampler(seed=0)

    def sample(self) -> tuple[Array, Array]:
        """Draw a batch."""
        batch = self.sampler.sample(BATCH)
        return batch["obs"], batch["next_obs"]

    def close(self) -> None:
        """Remove the ring."""
        self.buf.unlink()
        self.buf.close()
