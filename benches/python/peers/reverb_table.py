"""Reverb: a table behind a server, `StructuredWriter`, and batches of a `TrajectoryDataset`."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from typing import Any, Final

import numpy as np
import reverb  # type: ignore[import-not-found,import-untyped,unused-ignore]
import tensorflow as tf  # type: ignore[import-not-found,import-untyped,unused-ignore]
from replay.workloads import BATCH, MANY, SHAPE, STACK, STEP_OBS, Transition
from reverb import structured_writer

from .data import (
    COLUMNS,
    FEWER,
    FRAMES,
    SHARED,
    WINDOW,
    Array,
    Row,
    episodes_of_frames,
    episodes_of_observations,
)

PACKAGES: Final = ("dm-reverb", "tensorflow", "numpy")
FLUSH: Final = MANY
"""Steps between two flushes, and the items that may be outstanding after one."""
AHEAD: Final = 4
"""Batches that are made ahead of the caller."""

Signature = Mapping[str, Any]
Pattern = Callable[[Any], dict[str, Any]]
TRANSITION: Final = {
    name: tf.TensorSpec(shape, tf.dtypes.as_dtype(kind)) for name, (shape, kind) in COLUMNS.items()
}


def newest(step: Any) -> dict[str, Any]:  # noqa: ANN401 - Reverb has no types
    """Select the newest step as an item."""
    return {name: step[name][-1] for name in TRANSITION}


def table(rows: int, signature: Signature) -> Any:  # noqa: ANN401
    """Make a table that is drawn from uniformly and forgets its oldest item."""
    return reverb.Table(
        "replay",
        sampler=reverb.selectors.Uniform(),
        remover=reverb.selectors.Fifo(),
        max_size=rows,
        rate_limiter=reverb.rate_limiters.MinSize(1),
        signature=signature,
    )


def batches(port: int) -> Any:  # noqa: ANN401
    """Return an iterator over batches of NumPy arrays, which draws `AHEAD` of them ahead."""
    items = reverb.TrajectoryDataset.from_table_signature(
        f"localhost:{port}", "replay", max_in_flight_samples_per_worker=2 * BATCH
    )
    return items.batch(BATCH, drop_remainder=True).prefetch(AHEAD).as_numpy_iterator()


class StepWriter:
    """A writer that makes an item of each step."""

    def __init__(self, port: int, steps: Signature, pattern: Pattern) -> None:
        """Connect; `steps` are the fields of a step, `pattern` selects the steps of an item."""
        self.client = reverb.Client(f"localhost:{port}")
        config = structured_writer.create_config(
            structured_writer.pattern_from_transform(steps, pattern), "replay", []
        )
        self.writer = self.client.structured_writer([config])
        self.count = 0

    def append(self, step: Mapping[str, Any]) -> None:
        """Store a step. Once in `FLUSH` steps, wait until at most as many items are outstanding."""
        self.writer.append(step)
        self.count += 1
        if self.count % FLUSH == 0:
            self.writer.flush(block_until_num_items=FLUSH)

    def end_episode(self) -> None:
        """End the episode, so that no item reaches beyond it."""
        self.writer.end_episode()


class Transitions:
    """An item per transition; sampling reaches the server, in this process, without a socket."""

    def __init__(self, steps: list[Transition]) -> None:
        """Fill it."""
        self.server = reverb.Server([table(FEWER, TRANSITION)])
        self.writer = StepWriter(self.server.port, TRANSITION, newest)
        for t in range(FEWER // MANY):
            self.append_many(steps[t % len(steps)])
        self.batches = batches(self.server.port)

    def append(self, rows: list[Row]) -> None:
        """Store transitions one by one."""
        append = self.writer.append
        for row in rows:
            append(dict(zip(TRANSITION, row, strict=True)))

    def append_many(self, step: Transition) -> None:
        """Store a step of every environment: there is no call for several."""
        self.append(list(zip(*step, strict=True)))

    def sample(self) -> Mapping[str, Array]:
        """Take the next batch."""
        data: Mapping[str, Array] = next(self.batches).data
        return data

    def pairs(self, batch: Mapping[str, Array]) -> tuple[Array, Array]:
        """Take obs and next_obs out of a batch."""
        return batch["obs"], batch["next_obs"]

    def close(self) -> None:
        """Stop the server."""
        del self.batches, self.writer
        self.server.stop()


class Frames:
    """An item per stack and next stack, which share the frames that are stored."""

    def __init__(self) -> None:
        """Fill it, an episode at a time."""
        spec = {
            "frame": tf.TensorSpec(SHAPE, tf.uint8),
            "action": tf.TensorSpec((), tf.int32),
            "reward": tf.TensorSpec((), tf.float32),
            "done": tf.TensorSpec((), tf.bool),
        }
        item = {**spec, "frame": tf.TensorSpec((STACK + 1, *SHAPE), tf.uint8)}
        self.server = reverb.Server([table(FRAMES, item)])
        writer = StepWriter(self.server.port, spec, stacks)
        for episode in episodes_of_frames(FRAMES):
            for t, frame in enumerate(episode):
                end = np.bool_(t == len(episode) - 1)
                action, reward = np.int32(t % 4), np.float32(1)
                writer.append({"frame": frame, "action": action, "reward": reward, "done": end})
            writer.end_episode()
        self.batches = batches(self.server.port)

    def sample(self) -> Mapping[str, Array]:
        """Take the next batch."""
        data: Mapping[str, Array] = next(self.batches).data
        return data

    def pairs(self, batch: Mapping[str, Array]) -> tuple[Array, Array]:
        """Take stacks and next stacks, which overlap, out of a batch."""
        return batch["frame"][:, :-1], batch["frame"][:, 1:]

    def close(self) -> None:
        """Stop the server."""
        del self.batches
        self.server.stop()


def stacks(step: Any) -> dict[str, Any]:  # noqa: ANN401
    """Select the last `STACK` + 1 frames as an item."""
    steps = {name: step[name][-2] for name in ("action", "reward", "done")}
    return {"frame": step["frame"][-(STACK + 1) :], **steps}


class Windows:
    """An item per window."""

    def __init__(self) -> None:
        """Fill it, an episode at a time."""
        item = {"obs": tf.TensorSpec((WINDOW, STEP_OBS), tf.float32)}
        self.server = reverb.Server([table(FEWER, item)])
        writer = StepWriter(
            self.server.port,
            {"obs": tf.TensorSpec((STEP_OBS,), tf.float32)},
            lambda step: {"obs": step["obs"][-WINDOW:]},
        )
        for episode in episodes_of_observations(FEWER):
            for obs in episode:
                writer.append({"obs": obs})
            writer.end_episode()
        self.batches = batches(self.server.port)

    def sample(self) -> Array:
        """Take the next batch."""
        obs: Array = next(self.batches).data["obs"]
        return obs

    def windows(self, batch: Array) -> Array:
        """Take the windows as they are."""
        return batch

    def close(self) -> None:
        """Stop the server."""
        del self.batches
        self.server.stop()


def serve(to: Connection) -> None:
    """Run a server until its process is ended."""
    server = reverb.Server([table(SHARED, TRANSITION)])
    to.send(server.port)
    server.wait()


class SharedWriter:
    """A writer in a process that is neither the server nor the learner."""

    def __init__(self, port: int) -> None:
        """Connect."""
        self.writer = StepWriter(port, TRANSITION, newest)

    def append_many(self, step: Transition) -> None:
        """Store a step of every environment: there is no call for several."""
        for row in zip(*step, strict=True):
            self.writer.append(dict(zip(TRANSITION, row, strict=True)))

    def close(self) -> None:
        """Disconnect."""
        del self.writer


class Shared:
    """A server process that another one writes to; `handle` is its port."""

    writer = SharedWriter

    def __init__(self) -> None:
        """Start the server."""
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe()
        self.server = context.Process(target=serve, args=(there,), daemon=True)
        self.server.start()
        self.handle: int = here.recv()
        self.batches: Any = None

    def sample(self) -> tuple[Array, Array]:
        """Take the next batch."""
        if self.batches is None:
            self.batches = batches(self.handle)
        data = next(self.batches).data
        return data["obs"], data["next_obs"]

    def close(self) -> None:
        """End the server."""
        self.batches = None
        self.server.kill()
        self.server.join()
