"""A learner and writers that go on while processes and nodes are killed over and over."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any, Self

import backcast as bc
import ray
from backcast.errors import ClosedError
from backcast.ray import Shards
from conftest import WATCHDOG_S
from ray.exceptions import RayError

COLUMNS = {"obs": ("f4", (8,)), "reward": "f4"}
LIMITS = bc.RateLimiter(4, min_size=300, error_buffer=2_000)
TIMEOUT = 4.0
PAUSE_S = 0.02


@ray.remote(num_cpus=0, max_concurrency=2)
class Writes:
    """Appends to the ring of its node while the limiter allows it."""

    def __init__(self, shards: Shards) -> None:
        self.ring, self.stopped = shards.local(), threading.Event()

    def run(self) -> int:
        """Append until `stop`, and return the steps appended."""
        step = 0
        with self.ring, self.ring.writer(timeout=0.2) as writer:
            while not self.stopped.is_set():
                try:
                    writer.append(obs=[step] * 8, reward=step, terminated=False, truncated=False)
                    step += 1
                except bc.RateLimitTimeoutError:
                    continue
        return step

    def stop(self) -> None:
        self.stopped.set()


@ray.remote(num_cpus=0, max_restarts=-1)
class Bare:
    """An actor that Ray starts again, with nothing to do."""

    def pid(self) -> int:
        return os.getpid()


class Learner:
    """Draws in a thread, and keeps the longest draw and the shards of the last batch."""

    def __init__(self, sampler: Any) -> None:
        self.sampler, self.longest_s, self.batches = sampler, 0.0, 0
        self.seen: set[int] = set()
        self.error: BaseException | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            while not self._stopped.wait(PAUSE_S):
                begin = time.monotonic()
                batch = self.sampler.sample(64, timeout=WATCHDOG_S)
                self.longest_s = max(self.longest_s, time.monotonic() - begin)
                self.seen = set(batch["shard"].tolist())
                self.batches += 1
        except ClosedError:
            # The last draw may wait for writers that were stopped.
            assert self._stopped.is_set()
        except BaseException as error:
            self.error = error

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._stopped.set()
        self.sampler.close()
        self._thread.join(WATCHDOG_S)
        assert not self._thread.is_alive(), "the learner hangs"

    def until(self, is_so: Any, what: str) -> float:
        """Wait until something is so, and return the seconds that it took."""
        begin = time.monotonic()
        while not is_so():
            assert self.error is None, f"{what}: {self.error!r}"
            assert time.monotonic() - begin < WATCHDOG_S, f"in vain: {what}"
            time.sleep(0.01)
        seconds = time.monotonic() - begin
        print(f"{what}: after {seconds:.1f} s", flush=True)
        return seconds

    def until_draws(self, wanted: set[int]) -> float:
        return self.until(lambda: wanted <= self.seen, f"draws of shards {wanted}")


def pid_of(actor: Any) -> int:
    pid: int = ray.get(actor.__ray_call__.remote(lambda _: os.getpid()), timeout=WATCHDOG_S)
    return pid


def seconds_until_back(actor: Any, killed: int) -> float:
    """Kill the process of an actor; return the seconds until another one answers."""
    begin = time.monotonic()
    os.kill(killed, signal.SIGKILL)
    while time.monotonic() - begin < WATCHDOG_S:
        try:
            if pid_of(actor) != killed:
                return time.monotonic() - begin
        except RayError:
            # Not started again yet.
            continue
    raise AssertionError("the actor never came back")


def finished(writers: list[Any], runs: list[Any]) -> list[int]:
    """Stop writers, and return the transitions that each made: a first row completes none."""
    ray.get([of.stop.remote() for of in writers], timeout=WATCHDOG_S)
    return [steps - 1 for steps in ray.get(runs, timeout=WATCHDOG_S)]


def reported(sampler: Any) -> list[int]:
    """Return the inserts of each shard, as far as the learner knows."""
    return [share.inserts for share in sampler._limits.ceilings.shares]


def await_counts(learner: Learner, wanted: dict[int, int]) -> None:
    """Wait until the learner counts exactly what the writers of these shards appended."""

    def known() -> dict[int, int]:
        counts = reported(learner.sampler)
        return {number: counts[number] for number in wanted}

    try:
        learner.until(lambda: known() == wanted, "counts")
    except AssertionError as error:
        raise AssertionError(f"{known()} instead of {wanted}") from error
