"""Hand-written ring: NumPy columns, a cursor and fancy indexing."""

from __future__ import annotations

from multiprocessing import shared_memory
from typing import Any, Final

import numpy as np
from replay.workloads import BATCH, CAPACITY, EPISODE, MANY, SHAPE, STACK, Transition

from .data import (
    COLUMNS,
    FRAMES,
    SHARED,
    WINDOW,
    Array,
    Row,
    episodes_of_frames,
    episodes_of_observations,
)

PACKAGES: Final = ("numpy",)


class Transitions:
    """A column for each part of a transition, next_obs among them."""

    def __init__(self, steps: list[Transition]) -> None:
        """Fill it, so that every page is there when it is timed."""
        self.columns: dict[str, Array] = {
            name: np.empty((CAPACITY, *shape), kind) for name, (shape, kind) in COLUMNS.items()
        }
        self.at = 0
        self.draws = np.random.default_rng(0)
        for t in range(CAPACITY // MANY):
            self.append_many(steps[t % len(steps)])

    def append(self, rows: list[Row]) -> None:
        """Store transitions one by one."""
        obs, action, reward, next_obs, done = self.columns.values()
        for row in rows:
            at = self.at
            obs[at], action[at], reward[at], next_obs[at], done[at] = row
            self.at = (at + 1) % CAPACITY

    def append_many(self, step: Transition) -> None:
        """Store a step of every environment."""
        at, end = self.at, self.at + MANY
        if end > CAPACITY:
            at, end = 0, MANY
        for column, rows in zip(self.columns.values(), step, strict=True):
            column[at:end] = rows
        self.at = end % CAPACITY

    def sample(self) -> dict[str, Array]:
        """Draw a batch into new arrays."""
        index = self.draws.integers(0, CAPACITY, BATCH)
        return {name: column[index] for name, column in self.columns.items()}

    def pairs(self, batch: dict[str, Array]) -> tuple[Array, Array]:
        """Take obs and next_obs out of a batch."""
        return batch["obs"], batch["next_obs"]

    def close(self) -> None:
        """Give the memory back."""
        self.columns.clear()


class Frames:
    """A frame per row; a stack is gathered by the indices of its rows."""

    def __init__(self) -> None:
        """Fill it."""
        self.frames = np.empty((FRAMES, *SHAPE), np.uint8)
        for at, episode in enumerate(episodes_of_frames(FRAMES)):
            self.frames[at * EPISODE : (at + 1) * EPISODE] = episode
        self.steps: dict[str, Array] = {
            "action": np.arange(FRAMES, dtype=np.int32) % 4,
            "reward": np.ones(FRAMES, np.float32),
            "done": np.arange(FRAMES) % EPISODE == EPISODE - 1,
        }
        self.draws = np.random.default_rng(0)
        self.window = np.arange(STACK + 1)

    def sample(self) -> dict[str, Array]:
        """Draw a batch out of episodes whose length is known, into new arrays."""
        episode = self.draws.integers(0, FRAMES // EPISODE, BATCH) * EPISODE
        first = episode + self.draws.integers(0, EPISODE - STACK, BATCH)
        index = first[:, None] + self.window
        both = self.frames[index]
        last = index[:, STACK - 1]
        steps = {name: column[last] for name, column in self.steps.items()}
        return {"obs": both[:, :-1], "next_obs": both[:, 1:], **steps}

    def pairs(self, batch: dict[str, Array]) -> tuple[Array, Array]:
        """Take stacks and next stacks out of a batch."""
        return batch["obs"], batch["next_obs"]

    def close(self) -> None:
        """Give the memory back."""
        del self.frames


class Windows:
    """A column of observations; a window is gathered by the indices of its rows."""

    def __init__(self) -> None:
        """Fill it."""
        self.obs = np.concatenate(list(episodes_of_observations(CAPACITY)))
        self.draws = np.random.default_rng(0)
        self.window = np.arange(WINDOW)

    def sample(self) -> Array:
        """Draw a batch out of episodes whose length is known, into a new array."""
        episode = self.draws.integers(0, CAPACITY // EPISODE, BATCH) * EPISODE
        first = episode + self.draws.integers(0, EPISODE - WINDOW + 1, BATCH)
        batch: Array = self.obs[first[:, None] + self.window]
        return batch

    def windows(self, batch: Array) -> Array:
        """Take the windows as they are."""
        return batch

    def close(self) -> None:
        """Give the memory back."""
        del self.obs


class SharedColumns:
    """Columns in shared memory and a cursor stored after the rows: no lock and no check."""

    def __init__(self, name: str | None) -> None:
        """Map the memory of this name, or create memory if there is no name."""
        # The cursor has a cache line of its own, and each column begins on one.
        sizes = [SHARED * np.dtype(kind).itemsize for _, kind in COLUMNS.values()]
        widths = [int(np.prod(shape, dtype=np.int64)) for shape, _ in COLUMNS.values()]
        starts = np.cumsum([64, *(a * b for a, b in zip(sizes, widths, strict=True))])
        self.memory = shared_memory.SharedMemory(
            name=name, create=name is None, size=int(starts[-1])
        )
        self.cursor: Array = np.ndarray((1,), np.int64, self.memory.buf)
        self.columns: dict[str, Array] = {
            column: np.ndarray((SHARED, *shape), kind, self.memory.buf, int(at))
            for (column, (shape, kind)), at in zip(COLUMNS.items(), starts, strict=False)
        }

    def append_many(self, step: Transition) -> None:
        """Store the rows, then the cursor."""
        end = int(self.cursor[0])
        at = end % SHARED
        for column, rows in zip(self.columns.values(), step, strict=True):
            column[at : at + MANY] = rows
        self.cursor[0] = end + MANY

    def close(self) -> None:
        """Unmap the memory."""
        del self.cursor, self.columns
        self.memory.close()


class Shared:
    """Shared columns that another process writes; `handle` names their memory."""

    writer = SharedColumns

    def __init__(self) -> None:
        """Create the columns."""
        self.shared = SharedColumns(None)
        self.handle: Any = self.shared.memory.name
        self.draws = np.random.default_rng(0)

    def sample(self) -> tuple[Array, Array]:
        """Draw a batch into new arrays."""
        index = self.draws.integers(0, min(int(self.shared.cursor[0]), SHARED), BATCH)
        batch = {name: column[index] for name, column in self.shared.columns.items()}
        return batch["obs"], batch["next_obs"]

    def close(self) -> None:
        """Remove the memory."""
        self.shared.close()
        self.shared.memory.unlink()
