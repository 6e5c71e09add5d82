"""Measure a writer process and a learner process that run at once, and count torn rows.

PYTHONPATH=benches/python python -m replay.two_processes [--rounds 7] [--seconds 0.5]

The writer stores `MANY` transitions of w1 per call; the learner, this process, draws batches of
`BATCH`. The first float of an observation is the number of its row, and that of next_obs the number
of the next row. Where the two disagree, the row is torn: half overwritten while it was read. The
ring is small, so that the writer overwrites it often. Contenders: Backcast; hand-written columns in
`multiprocessing.shared_memory` with a cursor; cpprb's MPReplayBuffer, if it is installed.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import shared_memory
from multiprocessing.sharedctypes import Synchronized
from typing import Any

import backcast as bc
import numpy as np
import results

from .contenders import Backcast
from .workloads import ACTION, BATCH, MANY, OBS, Transition, transitions

ROWS = 16 * 1024


class SharedBackcast:
    """A named ring, one lane per environment."""

    def __init__(self, name: str, create: bool) -> None:
        """Attach in the writer; create in the learner."""
        schema = Backcast.schema
        if create:
            self.buf = bc.ReplayBuffer.create(
                name, schema, capacity=ROWS, lanes=MANY, exist="replace"
            )
            self.sampler = self.buf.sampler(seed=0)
            self.writer: bc.Writer | None = None
        else:
            self.buf = bc.ReplayBuffer.attach(name)
            self.writer = self.buf.writer(lanes=MANY, autoreset_mode="next_step")
            self.quiet = np.zeros(MANY, bool)

    def append_many(self, steps: Transition) -> object:
        """Store a step of every lane."""
        assert self.writer is not None, "only the writer's process appends"
        return self.writer.append(
            obs=steps.obs,
            action=steps.action,
            reward=steps.reward,
            terminated=self.quiet,
            truncated=self.quiet,
        )

    def sample(self) -> tuple[np.ndarray, np.ndarray]:
        """Draw a batch."""
        batch = self.sampler.sample(BATCH)
        return batch["obs"], batch["next_obs"]

    def close(self) -> None:
        """Close the handles; the ring is removed with the last one."""
        if self.writer is not None:
            self.writer.close()
        self.buf.close()


class SharedColumns:
    """Columns in shared memory and a cursor that is stored after the rows: no lock, no check."""

    def __init__(self, name: str, create: bool) -> None:
        """Map the same memory in both processes."""
        row = np.dtype([("obs", "f4", OBS), ("action", "f4", ACTION), ("reward", "f4")])
        row = np.dtype([*row.descr, ("next_obs", "f4", (OBS,))])
        size = 8 + ROWS * row.itemsize
        self.memory = shared_memory.SharedMemory(name=name, create=create, size=size)
        self.cursor: np.ndarray = np.ndarray((1,), np.int64, self.memory.buf)
        self.columns: dict[str, np.ndarray] = {}
        at = 8
        for key in row.names or ():
            kind, shape = row[key].base, row[key].shape
            self.columns[key] = np.ndarray((ROWS, *shape), kind, self.memory.buf, at)
            at += self.columns[key].nbytes
        self.draws = np.random.default_rng(0)
        self.create = create

    def append_many(self, steps: Transition) -> object:
        """Store the rows, then the cursor."""
        end = int(self.cursor[0])
        at = end % ROWS
        for key, column in self.columns.items():
            column[at : at + MANY] = getattr(steps, key)
        self.cursor[0] = end + MANY
        return None

    def sample(self) -> tuple[np.ndarray, np.ndarray]:
        """Draw a batch."""
        index = self.draws.integers(0, min(int(self.cursor[0]), ROWS), BATCH)
        batch = {key: column[index] for key, column in self.columns.items()}
        return batch["obs"], batch["next_obs"]

    def close(self) -> None:
        """Unmap the memory; the learner also removes it."""
        del self.cursor, self.columns
        self.memory.close()
        if self.create:
            self.memory.unlink()


class SharedCpprb:
    """cpprb's buffer for several processes, which the learner hands to the writer at its start."""

    def __init__(self, buffer: object = None) -> None:
        """Take the learner's buffer, or make it."""
        if buffer is not None:
            self.buffer: Any = buffer
            return
        import cpprb  # type: ignore[import-not-found,import-untyped,unused-ignore]

        columns: dict[str, dict[str, Any]] = {
            "obs": {"shape": OBS, "dtype": np.float32},
            "action": {"shape": ACTION, "dtype": np.float32},
            "reward": {"dtype": np.float32},
            "next_obs": {"shape": OBS, "dtype": np.float32},
        }
        context = multiprocessing.get_context("spawn")
        self.buffer = cpprb.MPReplayBuffer(ROWS, columns, ctx=context, backend="SharedMemory")

    def append_many(self, steps: Transition) -> object:
        """Store the rows."""
        fields = steps._asdict()
        del fields["done"]
        return self.buffer.add(**fields)

    def sample(self) -> tuple[np.ndarray, np.ndarray]:
        """Draw a batch."""
        batch = self.buffer.sample(BATCH)
        return batch["obs"], batch["next_obs"]

    def close(self) -> None:
        """Give the memory back."""
        del self.buffer


Shared = SharedBackcast | SharedColumns | SharedCpprb
CLASSES: dict[str, Callable[[str, bool], Shared]] = {
    "backcast": SharedBackcast,
    "shared columns": SharedColumns,
}


def write(kind: str, where: object, written: Synchronized[int], stop: Synchronized[bool]) -> None:
    """Store steps until told to stop; runs in the writer's process."""
    buffer: Shared = SharedCpprb(where) if kind == "cpprb" else CLASSES[kind](str(where), False)
    steps = transitions(250, (MANY,))
    while not stop.value:
        for step in steps:
            buffer.append_many(step)
            written.value += MANY
            if stop.value:
                break
    buffer.close()


@contextmanager
def running(kind: str) -> Iterator[tuple[Shared, Synchronized[int]]]:
    """Make a buffer, and start a writer process that fills and overwrites it."""
    context = multiprocessing.get_context("spawn")
    written, stop = context.Value("q", 0, lock=False), context.Value("b", False, lock=False)
    name = f"bench-w5-{time.time_ns()}"
    buffer: Shared = SharedCpprb() if kind == "cpprb" else CLASSES[kind](name, True)
    where = buffer.buffer if isinstance(buffer, SharedCpprb) else name
    writer = context.Process(target=write, args=(kind, where, written, stop))
    writer.start()
    try:
        while written.value < 2 * ROWS:
            if not writer.is_alive():
                raise RuntimeError(f"the writer of {kind} ended: {writer.exitcode}")
        yield buffer, written
    finally:
        stop.value = True
        writer.join(10)
        if writer.is_alive():
            writer.kill()
            writer.join()
        buffer.close()


def measure(kind: str, seconds: float) -> tuple[float, float, int]:
    """Return rows per second of writer and learner, and torn rows, for a new buffer."""
    with running(kind) as (buffer, written):
        batches, torn = 0, 0
        start, before = time.perf_counter(), written.value
        while time.perf_counter() - start < seconds:
            obs, after = buffer.sample()
            here, there = obs.reshape(BATCH, -1)[:, 0], after.reshape(BATCH, -1)[:, 0]
            # The steps begin again with number 0, which is no tear.
            torn += int(((there != here + 1) & (there != 0)).sum())
            batches += 1
        passed = time.perf_counter() - start
        return (written.value - before) / passed, batches * BATCH / passed, torn


def main() -> None:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(prog="python -m replay.two_processes")
    parser.add_argument("--rounds", type=int, default=7, help="rounds (default 7)")
    parser.add_argument("--seconds", type=float, default=0.5, help="of a round of one contender")
    parser.add_argument("--quick", action="store_true", help="2 short rounds, nothing kept")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds = 2, 0.2
    kinds = [*CLASSES, *(["cpprb"] if results.version("cpprb") else [])]
    figures: dict[str, list[tuple[float, float, int]]] = {kind: [] for kind in kinds}
    for _ in range(options.rounds):
        for kind in kinds:
            figures[kind].append(measure(kind, options.seconds))
    entries = []
    for at, metric in enumerate(["written", "sampled"]):
        runs = [(kind, [figure[at] for figure in of]) for kind, of in figures.items()]
        entries += results.lines("w5 two processes", metric, "rows/s", runs, "main")
    for entry in entries:
        entry["torn"] = sum(figure[2] for figure in figures[entry["contender"]])
    results.table(entries)
    torn = {entry["contender"]: entry["torn"] for entry in entries}
    print("\ntorn rows:", ", ".join(f"{kind} {rows}" for kind, rows in torn.items()))
    if not options.quick:
        results.append(entries)
    if torn["backcast"]:
        sys.exit("rows came torn out of a ring")


if __name__ == "__main__":
    main()
