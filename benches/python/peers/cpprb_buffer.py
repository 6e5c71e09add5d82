"""cpprb: `ReplayBuffer`, with `stack_compress` for frames, and `MPReplayBuffer`."""

from __future__ import annotations

import multiprocessing
from typing import Any, Final

import cpprb  # type: ignore[import-not-found,import-untyped,unused-ignore]
import numpy as np
from replay.workloads import BATCH, CAPACITY, EPISODE, MANY, SHAPE, STACK, Transition

from .data import COLUMNS, FRAMES, SHARED, Array, Row, episodes_of_frames

PACKAGES: Final = ("cpprb", "numpy")


def columns() -> dict[str, dict[str, Any]]:
    """Describe the columns of a transition as cpprb asks for them."""
    return {name: {"shape": shape or 1, "dtype": kind} for name, (shape, kind) in COLUMNS.items()}


class Transitions:
    """A `ReplayBuffer` with a column for next_obs."""

    def __init__(self, steps: list[Transition]) -> None:
        """Fill it, so that every page is there when it is timed."""
        self.buffer = cpprb.ReplayBuffer(CAPACITY, columns())
        for t in range(CAPACITY // MANY):
            self.append_many(steps[t % len(steps)])

    def append(self, rows: list[Row]) -> None:
        """Store transitions one by one."""
        add = self.buffer.add
        for obs, action, reward, next_obs, done in rows:
            add(obs=obs, action=action, reward=reward, next_obs=next_obs, done=done)

    def append_many(self, step: Transition) -> None:
        """Store a step of every environment."""
        self.buffer.add(**step._asdict())

    def sample(self) -> dict[str, Array]:
        """Draw a batch into new arrays."""
        batch: dict[str, Array] = self.buffer.sample(BATCH)
        return batch

    def pairs(self, batch: dict[str, Array]) -> tuple[Array, Array]:
        """Take obs and next_obs out of a batch."""
        return batch["obs"], batch["next_obs"]

    def close(self) -> None:
        """Give the memory back."""
        del self.buffer


class Frames:
    """A `ReplayBuffer` that takes whole stacks and stores only their new frames."""

    def __init__(self) -> None:
        """Fill it, stack by stack."""
        fields: dict[str, dict[str, Any]] = {
            "obs": {"shape": (*SHAPE, STACK), "dtype": np.uint8},
            "action": {"dtype": np.int32},
            "reward": {},
            "done": {"dtype": np.bool_},
        }
        self.buffer = cpprb.ReplayBuffer(FRAMES, fields, next_of="obs", stack_compress="obs")
        stack = np.zeros((*SHAPE, STACK + 1), np.uint8)
        for episode in episodes_of_frames(FRAMES):
            stack[:] = episode[0][..., None]
            for t in range(1, EPISODE):
                stack[..., :-1] = stack[..., 1:]
                stack[..., -1] = episode[t]
                obs, after = stack[..., :-1], stack[..., 1:]
                end = t == EPISODE - 1
                self.buffer.add(obs=obs, action=t % 4, reward=1.0, next_obs=after, done=end)
            self.buffer.on_episode_end()

    def sample(self) -> dict[str, Array]:
        """Draw a batch into new arrays."""
        batch: dict[str, Array] = self.buffer.sample(BATCH)
        return batch

    def pairs(self, batch: dict[str, Array]) -> tuple[Array, Array]:
        """Take stacks and next stacks out of a batch, frames on the second axis."""
        obs, after = (np.moveaxis(batch[name], -1, 1) for name in ("obs", "next_obs"))
        return obs, after

    def close(self) -> None:
        """Give the memory back."""
        del self.buffer


class SharedWriter:
    """The buffer in the writer's process."""

    def __init__(self, buffer: Any) -> None:  # noqa: ANN401 - cpprb has no types
        """Keep the buffer that the learner's process handed over."""
        self.buffer = buffer

    def append_many(self, step: Transition) -> None:
        """Store a step of every environment."""
        self.buffer.add(**step._asdict())

    def close(self) -> None:
        """Release the buffer."""
        del self.buffer


class Shared:
    """An `MPReplayBuffer`; `handle` is the buffer, which is handed to the writer's process."""

    writer = SharedWriter

    def __init__(self) -> None:
        """Make the buffer."""
        context = multiprocessing.get_context("spawn")
        self.handle: Any = cpprb.MPReplayBuffer(
            SHARED, columns(), ctx=context, backend="SharedMemory"
        )

    def sample(self) -> tuple[Array, Array]:
        """Draw a batch into new arrays."""
        batch = self.handle.sample(BATCH)
        return batch["obs"], batch["next_obs"]

    def close(self) -> None:
        """Give the memory back."""
        del self.handle
