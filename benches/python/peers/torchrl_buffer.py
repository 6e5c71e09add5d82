"""TorchRL: `TensorDictReplayBuffer` over `LazyTensorStorage`, over files where it is shared."""

from __future__ import annotations

import shutil
import tempfile
from typing import Any, Final

import torch  # type: ignore[import-not-found,unused-ignore]
from replay.workloads import BATCH, CAPACITY, EPISODE, MANY, STACK, Transition
from tensordict import TensorDict  # type: ignore[import-not-found,unused-ignore]
from torchrl.data import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
    LazyMemmapStorage,
    LazyTensorStorage,
    SliceSampler,
    TensorDictReplayBuffer,
)

from .data import (
    FRAMES,
    SHARED,
    WINDOW,
    Array,
    Row,
    episodes_of_frames,
    episodes_of_observations,
    several,
)

PACKAGES: Final = ("torchrl", "tensordict", "torch", "numpy")

torch.set_num_threads(1)


def of_row(row: Row) -> Any:  # noqa: ANN401 - TorchRL is not there when types are checked
    """Make one transition. This is timed, because callers have to convert arrays of NumPy."""
    obs, action, reward, next_obs, done = row
    after = {
        "observation": torch.from_numpy(next_obs),
        "reward": torch.tensor([reward]),
        "done": torch.tensor([done]),
    }
    return TensorDict(
        {
            "observation": torch.from_numpy(obs),
            "action": torch.from_numpy(action),
            "next": TensorDict(after, batch_size=[]),
        },
        batch_size=[],
    )


def of_step(step: Transition) -> Any:  # noqa: ANN401
    """Make `MANY` transitions."""
    obs, action, reward, next_obs, done = (torch.from_numpy(column) for column in step)
    after = {"observation": next_obs, "reward": reward[:, None], "done": done[:, None]}
    return TensorDict(
        {
            "observation": obs,
            "action": action,
            "next": TensorDict(after, batch_size=[MANY]),
        },
        batch_size=[MANY],
    )


def ends() -> Any:  # noqa: ANN401
    """Make the flags of an episode."""
    done = torch.zeros(EPISODE, 1, dtype=torch.bool)
    done[-1] = True
    return done


def slices(storage: Any, length: int) -> Any:  # noqa: ANN401
    """Make a buffer that draws consecutive steps of one episode.

    The sampler caches the ends of episodes, because no row changes later.
    """
    sampler = SliceSampler(
        slice_len=length, end_key=("next", "done"), cache_values=True, strict_length=True
    )
    return TensorDictReplayBuffer(storage=storage, sampler=sampler, batch_size=BATCH * length)


class Transitions:
    """A buffer in memory, drawn from by `RandomSampler`."""

    def __init__(self, steps: list[Transition]) -> None:
        """Fill it, so that every page is there when it is timed."""
        self.buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(CAPACITY), batch_size=BATCH)
        for t in range(CAPACITY // MANY):
            self.append_many(steps[t % len(steps)])

    def append(self, rows: list[Row]) -> None:
        """Store transitions one by one."""
        add = self.buffer.add
        for row in rows:
            add(of_row(row))

    def append_many(self, step: Transition) -> None:
        """Store a step of every environment."""
        self.buffer.extend(of_step(step))

    def sample(self) -> Any:  # noqa: ANN401
        """Draw a batch into new tensors."""
        return self.buffer.sample()

    def pairs(self, batch: Any) -> tuple[Array, Array]:  # noqa: ANN401
        """Take obs and next_obs out of a batch."""
        return batch["observation"].numpy(), batch["next", "observation"].numpy()

    def close(self) -> None:
        """Give the memory back."""
        del self.buffer


class Frames:
    """A buffer of single frames, drawn as slices of `STACK` + 1."""

    def __init__(self) -> None:
        """Fill it, an episode at a time."""
        self.buffer = slices(LazyTensorStorage(FRAMES), STACK + 1)
        for episode in episodes_of_frames(FRAMES):
            after = {"reward": torch.ones(EPISODE, 1), "done": ends()}
            steps = {
                "pixels": torch.from_numpy(episode),
                "action": torch.arange(EPISODE, dtype=torch.int32) % 4,
                "next": TensorDict(after, batch_size=[EPISODE]),
            }
            self.buffer.extend(TensorDict(steps, batch_size=[EPISODE]))

    def sample(self) -> Any:  # noqa: ANN401
        """Draw a batch into new tensors."""
        return self.buffer.sample()

    def pairs(self, batch: Any) -> tuple[Array, Array]:  # noqa: ANN401
        """Take stacks and next stacks, which overlap, out of a batch."""
        both = batch["pixels"].numpy().reshape(BATCH, STACK + 1, *batch["pixels"].shape[1:])
        return both[:, :-1], both[:, 1:]

    def close(self) -> None:
        """Give the memory back."""
        del self.buffer


class Windows:
    """A buffer of observations, drawn as slices."""

    def __init__(self) -> None:
        """Fill it, an episode at a time."""
        self.buffer = slices(LazyTensorStorage(CAPACITY), WINDOW)
        for episode in episodes_of_observations(CAPACITY):
            after = TensorDict({"done": ends()}, batch_size=[EPISODE])
            steps = {"observation": torch.from_numpy(episode), "next": after}
            self.buffer.extend(TensorDict(steps, batch_size=[EPISODE]))

    def sample(self) -> Any:  # noqa: ANN401
        """Draw a batch into new tensors."""
        return self.buffer.sample()

    def windows(self, batch: Any) -> Array:  # noqa: ANN401
        """Cut the slices apart."""
        obs = batch["observation"]
        windows: Array = obs.numpy().reshape(BATCH, WINDOW, *obs.shape[1:])
        return windows

    def close(self) -> None:
        """Give the memory back."""
        del self.buffer


class SharedWriter:
    """The buffer in the writer's process."""

    def __init__(self, buffer: Any) -> None:  # noqa: ANN401
        """Keep the buffer that the learner's process handed over."""
        self.buffer = buffer

    def append_many(self, step: Transition) -> None:
        """Store a step of every environment."""
        self.buffer.extend(of_step(step))

    def close(self) -> None:
        """Release the buffer."""
        del self.buffer


class Shared:
    """A shared buffer in memory-mapped files; `handle` is the buffer itself."""

    writer = SharedWriter

    def __init__(self) -> None:
        """Make the buffer. It can be handed over only once something is stored."""
        self.folder = tempfile.mkdtemp(prefix="bench-peers-", dir="/dev/shm")
        storage = LazyMemmapStorage(SHARED, scratch_dir=self.folder, existsok=True)
        self.handle = TensorDictReplayBuffer(storage=storage, batch_size=BATCH, shared=True)
        self.handle.extend(of_step(several()[0]))

    def sample(self) -> tuple[Array, Array]:
        """Draw a batch into new tensors."""
        batch = self.handle.sample()
        return batch["observation"].numpy(), batch["next", "observation"].numpy()

    def close(self) -> None:
        """Remove the files."""
        del self.handle
        shutil.rmtree(self.folder, ignore_errors=True)
