"""A writer process beside the learner; the writer pauses while other contenders have their turn."""

from __future__ import annotations

import itertools
import multiprocessing
import time
from importlib import import_module
from multiprocessing.sharedctypes import Synchronized
from typing import Any, Final, NamedTuple

from replay.workloads import BATCH, MANY

from .buffers import Shared, SharedWriter
from .data import SHARED, several, torn

PAUSED: Final = 0
RUNNING: Final = 1
STOPPED: Final = 2
NAP_S: Final = 0.0005
PATIENCE_S: Final = 120.0


class Turn(NamedTuple):
    """Counts of both processes in a turn."""

    written: float
    """Transitions per second."""
    drawn: float
    """Transitions per second."""
    torn: int
    """Rows drawn half overwritten."""


def write(
    module: str,
    handle: object,
    written: Synchronized[int],
    told: Synchronized[int],
    idle: Synchronized[bool],
) -> None:
    """Store steps until told to stop; runs in the writer's process."""
    buffer: SharedWriter = import_module(module).Shared.writer(handle)
    for step in itertools.cycle(several()):
        while told.value == PAUSED:
            idle.value = True
            time.sleep(NAP_S)
        if told.value == STOPPED:
            break
        idle.value = False
        buffer.append_many(step)
        written.value += MANY
    buffer.close()


class TwoProcesses:
    """A buffer and its writer's process."""

    def __init__(self, module: str) -> None:
        """Make the buffer, and have the writer fill it."""
        self.buffer: Shared = import_module(module).Shared()
        context = multiprocessing.get_context("spawn")
        self.written: Any = context.Value("q", 0, lock=False)
        self.told: Any = context.Value("b", RUNNING, lock=False)
        self.idle: Any = context.Value("b", False, lock=False)
        self.process = context.Process(
            target=write,
            args=(module, self.buffer.handle, self.written, self.told, self.idle),
            daemon=True,
        )
        self.process.start()
        self.wait_until_written(SHARED)
        self.pause()

    def wait_until_written(self, rows: int) -> None:
        """Wait until the writer has stored this many rows."""
        end = time.monotonic() + PATIENCE_S
        while self.written.value < rows:
            self.check_writer(end)

    def pause(self) -> None:
        """Pause the writer and wait until it is idle."""
        self.told.value = PAUSED
        end = time.monotonic() + PATIENCE_S
        while not self.idle.value:
            self.check_writer(end)

    def check_writer(self, end: float) -> None:
        """Sleep for a moment. Fail if the writer died, or the time `end` has passed."""
        if not self.process.is_alive():
            raise RuntimeError(f"the writer's process ended with {self.process.exitcode}")
        if time.monotonic() > end:
            raise RuntimeError(f"the writer's process did nothing for {PATIENCE_S:.0f} s")
        time.sleep(NAP_S)

    def turn(self, seconds: float) -> Turn:
        """Draw batches for a number of seconds while the writer writes."""
        self.told.value = RUNNING
        self.wait_until_written(self.written.value + MANY)
        self.buffer.sample()
        batches, rows_torn = 0, 0
        start, before = time.perf_counter(), self.written.value
        while time.perf_counter() - start < seconds:
            rows_torn += torn(*self.buffer.sample())
            batches += 1
        passed, written = time.perf_counter() - start, self.written.value - before
        self.pause()
        return Turn(written / passed, batches * BATCH / passed, rows_torn)

    def close(self) -> None:
        """End the writer and remove the buffer."""
        self.told.value = STOPPED
        self.process.join(10)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.buffer.close()
