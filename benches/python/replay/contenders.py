"""The measured buffers, each with the same few methods.

A method that a contender lacks is not measured. A draw returns a complete batch of arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import backcast as bc
import numpy as np

from .workloads import (
    ACTION,
    BATCH,
    CAPACITY,
    EPISODE,
    FUTURE,
    HISTORY,
    MANY,
    OBS,
    STEP_OBS,
    Transition,
)

Batch = Mapping[str, Any]
Row = tuple[Any, Any, Any, Any, Any]
"""A transition, in the order of `Transition`; a plain tuple, which unpacks faster."""


class Backcast:
    """Named rings in shared memory: one of one lane, and one of `MANY` lanes."""

    name = "backcast"
    schema: Final = {"obs": ("f4", (OBS,)), "action": ("f4", (ACTION,)), "reward": "f4"}

    def __init__(self, steps: list[Transition]) -> None:
        """Fill a ring of `MANY` lanes and one of one lane, so that no page is new when timed."""
        self.one = bc.ReplayBuffer.create(
            "bench-w1-one", self.schema, capacity=CAPACITY // 4, exist="replace"
        )
        self.many = bc.ReplayBuffer.create(
            "bench-w1-many", self.schema, capacity=CAPACITY, lanes=MANY, exist="replace"
        )
        self.writer = self.one.writer()
        self.writers = self.many.writer(lanes=MANY, autoreset_mode="same_step")
        quiet, ends = np.zeros(MANY, bool), np.ones(MANY, bool)
        for t in range(CAPACITY // MANY):
            s = steps[t % len(steps)]
            end = t % EPISODE == EPISODE - 1
            self.writers.append(
                obs=s.obs,
                action=s.action,
                reward=s.reward,
                terminated=quiet,
                truncated=ends if end else quiet,
                final_obs=s.next_obs if end else None,
            )
        first: list[Row] = [
            (s.obs[0], s.action[0], s.reward[0], s.next_obs[0], s.done[0]) for s in steps
        ]
        for _ in range(self.one.capacity // len(first) + 1):
            self.append(first)
        self.sampler = self.many.sampler(seed=0)
        self.out = self.sampler.sample(BATCH)

    def append(self, steps: list[Row]) -> object:
        """Store transitions one by one."""
        append = self.writer.append
        for obs, action, reward, _, done in steps:
            append(obs=obs, action=action, reward=reward, terminated=done, truncated=False)
        return None

    def append_with_next(self, steps: list[Row]) -> object:
        """Store transitions one by one with next_obs: 336 bytes, which the writer compares."""
        append = self.writer.append
        for obs, action, reward, next_obs, done in steps:
            append(
                obs=obs,
                action=action,
                reward=reward,
                next_obs=next_obs,
                terminated=done,
                truncated=False,
            )
        return None

    def append_many(self, steps: Transition) -> object:
        """Store `MANY` transitions of as many environments."""
        return self.writers.append(
            obs=steps.obs,
            action=steps.action,
            reward=steps.reward,
            terminated=steps.done,
            truncated=steps.done,
        )

    def extend(self, steps: Transition) -> object:
        """Store `MANY` transitions of one environment."""
        return self.writer.extend(
            obs=steps.obs,
            action=steps.action,
            reward=steps.reward,
            terminated=steps.done,
            truncated=steps.done,
        )

    def sample(self) -> Batch:
        """Draw `BATCH` transitions into arrays that are the caller's to keep."""
        return self.sampler.sample(BATCH)

    def sample_again(self) -> Batch:
        """Draw into the arrays of the previous batch."""
        return self.sampler.sample(BATCH, out=self.out)

    def close(self) -> None:
        """Give the memory back."""
        for closable in (self.writer, self.writers, self.one, self.many):
            closable.close()


class NumPy:
    """A hand-written buffer: private columns, a cursor, fancy indexing."""

    name = "NumPy ring"

    def __init__(self, steps: list[Transition]) -> None:
        """Fill all rows, so that no page is new when it is timed."""
        flat = [np.concatenate([column] * (CAPACITY // len(column))) for column in stacked(steps)]
        names = Transition._fields
        self.columns = {
            name: np.resize(column, (CAPACITY, *column.shape[1:]))
            for name, column in zip(names, flat, strict=True)
        }
        self.at = 0
        self.draws = np.random.default_rng(0)
        self.out = {
            name: np.empty((BATCH, *column.shape[1:]), column.dtype)
            for name, column in self.columns.items()
        }

    def append(self, steps: list[Row]) -> object:
        """Store transitions one by one."""
        obs, action, reward, next_obs, done = (self.columns[name] for name in Transition._fields)
        for step in steps:
            at = self.at
            obs[at], action[at], reward[at], next_obs[at], done[at] = step
            self.at = (at + 1) % CAPACITY
        return None

    def append_many(self, steps: Transition) -> object:
        """Store `MANY` transitions of as many environments."""
        at, end = self.at, self.at + MANY
        if end > CAPACITY:
            at, end = 0, MANY
        for name, rows in zip(Transition._fields, steps, strict=True):
            self.columns[name][at:end] = rows
        self.at = end % CAPACITY
        return None

    extend = append_many

    def sample(self) -> Batch:
        """Draw `BATCH` transitions into arrays that are the caller's to keep."""
        index = self.draws.integers(0, CAPACITY, BATCH)
        return {name: column[index] for name, column in self.columns.items()}

    def sample_again(self) -> Batch:
        """Draw into the arrays of the previous batch."""
        index = self.draws.integers(0, CAPACITY, BATCH)
        for name, column in self.columns.items():
            np.take(column, index, axis=0, out=self.out[name], mode="clip")
        return self.out

    def close(self) -> None:
        """Give the memory back."""
        self.columns.clear()


class Cpprb:
    """cpprb's ReplayBuffer, if it is installed."""

    name = "cpprb"

    def __init__(self, steps: list[Transition]) -> None:
        """Fill it."""
        import cpprb  # type: ignore[import-not-found,import-untyped,unused-ignore]

        columns: dict[str, dict[str, Any]] = {
            "obs": {"shape": OBS},
            "action": {"shape": ACTION},
            "reward": {},
            "next_obs": {"shape": OBS},
            "done": {"dtype": bool},
        }
        self.buffer = cpprb.ReplayBuffer(CAPACITY, columns)
        for t in range(CAPACITY // MANY):
            self.append_many(steps[t % len(steps)])

    def append(self, steps: list[Row]) -> object:
        """Store transitions one by one."""
        add = self.buffer.add
        for obs, action, reward, next_obs, done in steps:
            add(obs=obs, action=action, reward=reward, next_obs=next_obs, done=done)
        return None

    def append_many(self, steps: Transition) -> object:
        """Store `MANY` transitions."""
        return self.buffer.add(**steps._asdict())

    extend = append_many

    def sample(self) -> Batch:
        """Draw `BATCH` transitions into arrays that are the caller's to keep."""
        batch: Batch = self.buffer.sample(BATCH)
        return batch

    def close(self) -> None:
        """Give the memory back."""
        del self.buffer


def stacked(steps: list[Transition]) -> list[np.ndarray]:
    """Return the columns of all environments' steps, concatenated."""
    return [np.concatenate(column) for column in zip(*steps, strict=True)]


class BackcastWindows:
    """Observations of w3 in a named ring of one lane."""

    name = "backcast"

    def __init__(self, obs: np.ndarray) -> None:
        """Store episodes of `EPISODE` steps."""
        self.buf = bc.ReplayBuffer.create(
            "bench-w3", {"obs": ("f4", (STEP_OBS,))}, capacity=len(obs), exist="replace"
        )
        with self.buf.writer(autoreset_mode="same_step") as writer:
            for t, row in enumerate(obs):
                ends = t % EPISODE == EPISODE - 1
                final = row if ends else None
                writer.append(obs=row, terminated=False, truncated=ends, final_obs=final)
        self.sampler = self.buf.sampler(seed=0, history=HISTORY, future=FUTURE, boundary="reject")
        self.out = self.sampler.sample(BATCH)

    def sample(self) -> object:
        """Draw `BATCH` windows into arrays that are the caller's to keep."""
        return self.sampler.sample(BATCH)

    def sample_again(self) -> object:
        """Draw into the arrays of the previous batch."""
        return self.sampler.sample(BATCH, out=self.out)

    def close(self) -> None:
        """Give the memory back."""
        self.buf.close()


class NumPyWindows:
    """Observations of w3 in one array; gathers windows by fancy indexing or `np.take`."""

    name = "NumPy ring"

    def __init__(self, obs: np.ndarray) -> None:
        """Keep the observations."""
        self.obs = obs
        self.draws = np.random.default_rng(0)
        self.steps = np.arange(HISTORY + FUTURE)
        self.out = np.empty((BATCH, HISTORY + FUTURE, STEP_OBS), np.float32)

    def starts(self) -> np.ndarray:
        """Draw first rows of windows that lie within an episode."""
        episode = self.draws.integers(0, len(self.obs) // EPISODE, BATCH) * EPISODE
        return episode + self.draws.integers(0, EPISODE - HISTORY - FUTURE + 1, BATCH)

    def sample(self) -> object:
        """Draw `BATCH` windows into arrays that are the caller's to keep."""
        return self.obs[self.starts()[:, None] + self.steps]

    def sample_again(self) -> object:
        """Draw into the arrays of the previous batch."""
        index = self.starts()[:, None] + self.steps
        return np.take(self.obs, index, axis=0, out=self.out, mode="clip")

    def close(self) -> None:
        """Give the memory back."""
        del self.obs
