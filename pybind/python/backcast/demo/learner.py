"""Learner process: samples rows, looks up their windows in the panel, checks and trains."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

import backcast as bc
from backcast.demo.lesson import FEATURES, FUTURE, HISTORY, TARGETS, examples
from backcast.demo.model import Network
from backcast.demo.rows import torn_next_rows, torn_rows

if TYPE_CHECKING:
    from backcast.demo.child import Link

BATCH = 256
_HIDDEN = 16
_LEARNING_RATE = 1e-3
_WEIGHT_DECAY = 1.0
# After this many batches one is drawn with windows, and every row in them is checked.
_WINDOWS_EVERY = 8
_PROGRESS_SECONDS = 0.25
# A step learns from about this many pairs of row and ticker, however many tickers there are.
_PAIRS = 1024
_FEWEST_ROWS = 8


@dataclass(frozen=True)
class LearnerSettings:
    """Settings of the learner: names and numbers, no handles."""

    ring: str
    panel: str
    first_test_day: int
    seed: int


@dataclass
class Tally:
    """Counters and measurements of the learner."""

    batches: int = 0
    batches_per_s: float = 0.0
    lapped: int = 0
    rows_checked: int = 0
    torn: int = 0
    age: float = 0.0
    loss: list[float] = field(default_factory=list)
    sample_cpu_ms: list[float] = field(default_factory=list)

    def check(self, batch: dict[str, Any]) -> None:
        """Check every row of a plain batch, and the observation after it."""
        self.torn += torn_rows(batch) + torn_next_rows(batch)
        self.rows_checked += 2 * len(batch["day"])

    def check_windows(self, batch: Any) -> None:  # noqa: ANN401 - a Batch of the native module
        """Check every row of history and future that is not masked."""
        future, mask, future_mask = batch["future"], batch.mask, batch.future_mask
        self.torn += torn_rows(batch, rank=2, mask=mask)
        self.torn += torn_rows(future, rank=2, mask=future_mask)
        self.rows_checked += int(mask.sum()) + int(future_mask.sum())

    def report(self) -> dict[str, Any]:
        """Return the numbers that the parent shows during the run."""
        return {
            "batches": self.batches,
            "batches_per_s": self.batches_per_s,
            "lapped": self.lapped,
            "rows_checked": self.rows_checked,
            "torn": self.torn,
            "age": self.age,
            "loss": self.loss,
        }


def learn(settings: LearnerSettings, link: Link) -> None:
    """Train until the parent stops it, then send the weights."""
    network = Network.fresh(
        FEATURES,
        _HIDDEN,
        len(TARGETS),
        settings.seed,
        learning_rate=_LEARNING_RATE,
        weight_decay=_WEIGHT_DECAY,
    )
    tally = Tally()
    with (
        bc.Panel.attach(settings.panel) as panel,
        bc.ReplayBuffer.attach(settings.ring) as ring,
    ):
        link.send("ready", lanes=[])
        while len(ring) < BATCH and not link.stopped:
            try:
                ring.wait(BATCH, timeout=0.2)
            except bc.WaitTimeoutError:
                continue
        sampler = ring.sampler(seed=settings.seed)
        windowed = ring.sampler(seed=settings.seed + 1, history=HISTORY, future=FUTURE)
        reported, batches_then = time.monotonic(), 0
        while not link.stopped:
            before = time.thread_time_ns()
            batch = sampler.sample(BATCH)
            tally.sample_cpu_ms.append((time.thread_time_ns() - before) * 1e-6)
            tally.check(batch)
            if tally.batches % _WINDOWS_EVERY == 0:
                tally.check_windows(windowed.sample(BATCH))

            rows = slice(max(_FEWEST_ROWS, _PAIRS // batch["tics"].shape[1]))
            day, tics = batch["day"][rows], batch["tics"][rows]
            lesson = examples(panel.windows(day, tics, HISTORY, FUTURE))
            # A target that reaches into the test days would leak them.
            features, targets = lesson.usable(day + FUTURE < settings.first_test_day)
            if len(features):
                tally.loss = network.learn(features, targets).tolist()
            tally.batches += 1
            tally.age = float(np.median(batch.age))

            tally.lapped = sampler.lapped + windowed.lapped
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
