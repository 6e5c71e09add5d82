"""Shards in this process: rings, the actors' plain class, and calls that are done at once."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import backcast as bc
from backcast.ray._sampler import ShardSampler
from backcast.ray._shard import Shard
from backcast.ray._spec import Place, Spec
from backcast.ray._transport import LocalTransport, Transport

_NUMBERS = count()


def spec_of(
    shards: int,
    columns: dict[str, Any],
    capacity: int,
    limiter: bc.RateLimiter | None = None,
    **ring: Any,  # noqa: ANN401
) -> Spec:
    """Return shards of a new name, with labels 0, 1 and so on."""
    places = tuple(Place("shard", str(number)) for number in range(shards))
    name = f"local-{os.getpid()}-{next(_NUMBERS)}"
    return Spec(name, places, bc.Schema(columns), capacity, limiter, ring)


@contextmanager
def started(spec: Spec, ceiling: int = 0) -> Iterator[list[Shard]]:
    """Start the shards; remove their rings at the end."""
    shards = [Shard(spec, number, f"node-{number}") for number in range(len(spec.places))]
    try:
        for shard in shards:
            shard.start("error", ceiling)
        yield shards
    finally:
        for shard in shards:
            shard.remove()


def sampler_of(
    shards: list[Any],
    *,
    seed: int | None = 1,
    shard_timeout: float = 1.0,
    prefetch: int = 2,
    state: dict[str, Any] | None = None,
    transport: Callable[[Any], Transport] = LocalTransport,
    are_removed: Callable[[], bool] = lambda: False,
    clock: Callable[[], float] | None = None,
    sleep: Callable[[float], None] | None = None,
    **options: Any,  # noqa: ANN401
) -> ShardSampler:
    """Return a sampler that has opened."""
    times: dict[str, Any] = {} if clock is None else {"clock": clock}
    if sleep is not None:
        times["sleep"] = sleep
    sampler = ShardSampler(
        shards[0].spec,
        [transport(shard) for shard in shards],
        options,
        seed=seed,
        shard_timeout=shard_timeout,
        prefetch=prefetch,
        state=state,
        are_removed=are_removed,
        **times,
    )
    sampler.open(5.0)
    return sampler


def append(ring: bc.ReplayBuffer, rewards: range) -> int:
    """Append steps until the limiter holds the writer back; return the steps appended."""
    with ring.writer(timeout=0) as writer:
        for step, reward in enumerate(rewards):
            try:
                writer.append(obs=0, reward=reward, terminated=False, truncated=False)
            except bc.RateLimitTimeoutError:
                return step
    return len(rewards)


def in_thread(call: Any, errors: list[BaseException]) -> threading.Thread:  # noqa: ANN401
    """Run a call in a thread, and keep what it raises."""

    def run() -> None:
        try:
            call()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread
