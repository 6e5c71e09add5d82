"""Shards in this process that hang, die or are gone as a test says, with a clock of its own."""

from __future__ import annotations

from typing import Any

import backcast as bc
from backcast.ray._sampler import ShardSampler
from backcast.ray._shard import Shard
from backcast.ray._transport import AwayError, GoneError, LocalTransport
from local_shards import sampler_of

COLUMNS = {"obs": "f4", "reward": "f4"}
TIMEOUT = 1.0


class Clock:
    """Time that passes only where something waits."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Late:
    """An answer that comes when its shard goes on."""

    def __init__(self, of: Unreliable, method: str, given: tuple[Any, ...]) -> None:
        self.of, self.method, self.given = of, method, given
        self.made: Any = None
        of.calls.append(self)
        of.work()

    def wait(self, seconds: float) -> bool:
        self.of.waits += 1
        if self.made is None and seconds > 0:
            self.of.clock.now += seconds
        return self.made is not None

    def result(self) -> list[Any]:
        found: list[Any] = self.made.result()
        return found


class Failed:
    """An answer that never comes."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def result(self) -> list[Any]:
        raise self.error


class Unreliable:
    """Calls to a shard that hangs, dies or is gone."""

    def __init__(self, shard: Shard, clock: Clock) -> None:
        self.shard, self.clock = shard, clock
        self.state, self.waits = "well", 0
        self.calls: list[Late] = []

    def ask(self, method: str, *given: Any, parts: int = 1) -> Late:  # noqa: ANN401
        return Late(self, method, given)

    def work(self) -> None:
        """Do the calls that wait, in order, unless the shard hangs."""
        while self.calls and self.state != "hangs":
            call = self.calls.pop(0)
            if self.state == "away":
                call.made = Failed(AwayError("restarting"))
            elif self.state == "gone":
                call.made = Failed(GoneError("dead"))
            else:
                call.made = LocalTransport(self.shard).ask(call.method, *call.given)

    def become(self, state: str) -> None:
        self.state = state
        self.work()


class Cluster:
    """Three shards of 100 transitions each, and calls to them that fail as the test says."""

    def __init__(self, shards: list[Shard]) -> None:
        self.shards, self.clock = shards, Clock()
        self.ways = [Unreliable(shard, self.clock) for shard in shards]
        self.writers = [shard.ring.writer(timeout=0) for shard in shards]

    def append(self, number: int, steps: int) -> int:
        """Append until the limiter holds the writer back; return the steps appended."""
        for step in range(steps):
            try:
                self.writers[number].append(
                    obs=number, reward=step, terminated=False, truncated=False
                )
            except bc.RateLimitTimeoutError:
                return step
        return steps

    def sampler(self, **options: Any) -> ShardSampler:  # noqa: ANN401
        ways = {shard.number: way for shard, way in zip(self.shards, self.ways, strict=True)}
        return sampler_of(
            self.shards,
            shard_timeout=TIMEOUT,
            transport=lambda shard: ways[shard.number],
            clock=self.clock,
            sleep=self.clock.sleep,
            **options,
        )


def shards_of(batch: bc.Batch) -> set[int]:
    return set(batch["shard"].tolist())


def rounds(
    cluster: Cluster,
    sampler: ShardSampler,
    times: int,
    items: int,
    writers: tuple[int, ...] = (),
    timeout: float | None = None,
) -> bc.Batch:
    """Append all that the limiter allows and draw, some times; return the last batch."""
    for _ in range(times):
        for number in writers:
            cluster.append(number, 1_000)
        batch = sampler.sample(items, timeout=timeout)
        if writers:
            cluster.clock.now += 0.05
    return batch


def lose(cluster: Cluster, number: int) -> None:
    """Put an empty ring in the place of a shard's, as a node does that comes back."""
    lost = cluster.shards[number]
    cluster.writers[number].close()
    again = Shard(lost.spec, number, "node-9")
    again.start("replace")
    cluster.writers[number] = again.ring.writer(timeout=0)
    cluster.append(number, 51)
    lost.ring.close()
    cluster.shards[number] = cluster.ways[number].shard = again
