"""Learner process of the trading world: predicts the next move of the price from the ring."""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

import backcast as bc
from backcast.demo.learner import BATCH, Tally
from backcast.demo.model import Network
from backcast.demo.trading.lesson import FEATURES, FUTURE, checksums, examples

if TYPE_CHECKING:
    from backcast.demo.child import Link

_HIDDEN = 16
_LEARNING_RATE = 2e-3
_WEIGHT_DECAY = 0.1
_PROGRESS_SECONDS = 0.25


@dataclass(frozen=True)
class PupilSettings:
    """Settings of the learner: names and numbers, no handles."""

    ring: str
    seed: int


def fresh_network(seed: int) -> Network:
    """Make the network before it has learned anything."""
    return Network.fresh(
        FEATURES, _HIDDEN, 1, seed, learning_rate=_LEARNING_RATE, weight_decay=_WEIGHT_DECAY
    )


def torn(batch: Any) -> int:  # noqa: ANN401 - a Batch of the native module
    """Count the rows of a batch that do not match their checksum."""
    return int(np.count_nonzero(checksums(batch["obs"], batch["mid"]) != batch["checksum"]))


def study(settings: PupilSettings, link: Link) -> None:
    """Train until told to stop, then send the weights."""
    network, tally = fresh_network(settings.seed), Tally()
    with bc.ReplayBuffer.attach(settings.ring) as ring:
        link.send("ready", lanes=[])
        while len(ring) < BATCH and not link.stopped:
            try:
                ring.wait(BATCH, timeout=0.2)
            except bc.WaitTimeoutError:
                continue
        sampler = ring.sampler(seed=settings.seed, future=FUTURE)
        reported, batches_then = time.monotonic(), 0
        while not link.stopped:
            before = time.thread_time_ns()
            batch = sampler.sample(BATCH)
            tally.sample_cpu_ms.append((time.thread_time_ns() - before) * 1e-6)
            tally.torn += torn(batch)
            tally.rows_checked += BATCH
            seen, targets = examples(batch)
            if len(seen):
                tally.loss = network.learn(seen, targets).tolist()
            tally.batches += 1
            tally.age = float(np.median(batch.age))
            tally.lapped = sampler.lapped
            now = time.monotonic()
            if now - reported >= _PROGRESS_SECONDS:
                tally.batches_per_s = (tally.batches - batches_then) / (now - reported)
                reported, batches_then = now, tally.batches
                link.send("progress", **tally.report())
    link.send(
        "done",
        **tally.report(),
        sample_cpu_ms_median=median(tally.sample_cpu_ms) if tally.sample_cpu_ms else None,
        weights=network.weights(),
    )
