"""Learner: samples rows, looks up their windows in the panel, checks every one and trains."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

import backcast as bc
from backcast.demo.lesson import FEATURES, FUTURE, HISTORY, TARGETS, examples
from backcast.demo.model import Network
from backcast.demo.rows import torn_next_rows, torn_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

BATCH = 256
_HIDDEN = 16
_LEARNING_RATE = 1e-3
_WEIGHT_DECAY = 1.0
# After this many batches one is drawn with windows, and every row in them is checked.
_WINDOWS_EVERY = 8
# A step learns from about this many pairs of row and ticker, however many tickers there are.
_PAIRS = 1024
_FEWEST_ROWS = 8


@dataclass
class Tally:
    """Counters and measurements of the learner."""

    batches: int = 0
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

    @property
    def sample_cpu_ms_median(self) -> float | None:
        """Processor time of a draw; None before the first one."""
        return median(self.sample_cpu_ms) if self.sample_cpu_ms else None


class Learner(ABC):
    """A network, and the sampler whose rows it learns from."""

    def __init__(self, network: Network, sampler: bc.Sampler) -> None:
        self.network = network
        self.tally = Tally()
        self._sampler = sampler

    def step(self) -> None:
        """Draw a batch, check it, and learn from it."""
        tally = self.tally
        before = time.thread_time_ns()
        batch = self._sampler.sample(BATCH)
        tally.sample_cpu_ms.append((time.thread_time_ns() - before) * 1e-6)
        self.check(batch)
        features, targets = self.examples(batch)
        if len(features):
            tally.loss = self.network.learn(features, targets).tolist()
        tally.batches += 1
        tally.age = float(np.median(batch.age))
        tally.lapped = self.lapped()

    @abstractmethod
    def check(self, batch: Any) -> None:  # noqa: ANN401 - a Batch of the native module
        """Count the rows of a batch, and those that are torn."""

    @abstractmethod
    def examples(self, batch: Any) -> tuple[Array, Array]:  # noqa: ANN401
        """Return the features and targets of the rows to learn from."""

    def lapped(self) -> int:
        """Return the rows that writers overwrote while they were drawn."""
        return self._sampler.lapped


class PanelLearner(Learner):
    """Learns the next days of a share; every few batches it draws rows with windows as well."""

    def __init__(
        self, ring: bc.ReplayBuffer, panel: bc.Panel, first_test_day: int, seed: int
    ) -> None:
        network = Network.fresh(
            FEATURES,
            _HIDDEN,
            len(TARGETS),
            seed,
            learning_rate=_LEARNING_RATE,
            weight_decay=_WEIGHT_DECAY,
        )
        super().__init__(network, ring.sampler(seed=seed))
        self._windowed = ring.sampler(seed=seed + 1, history=HISTORY, future=FUTURE)
        self._panel = panel
        self._first_test_day = first_test_day

    def check(self, batch: Any) -> None:  # noqa: ANN401 - a Batch of the native module
        """Check every row and its next observation, and now and then whole windows."""
        self.tally.check(batch)
        if self.tally.batches % _WINDOWS_EVERY == 0:
            self.tally.check_windows(self._windowed.sample(BATCH))

    def examples(self, batch: Any) -> tuple[Array, Array]:  # noqa: ANN401
        """Look windows of the panel up for some of the rows."""
        rows = slice(max(_FEWEST_ROWS, _PAIRS // batch["tics"].shape[1]))
        day, tics = batch["day"][rows], batch["tics"][rows]
        lesson = examples(self._panel.windows(day, tics, HISTORY, FUTURE))
        # A target that reaches into the test days would leak them.
        return lesson.usable(day + FUTURE < self._first_test_day)

    def lapped(self) -> int:
        """Return the rows that writers overwrote while they were drawn."""
        return self._sampler.lapped + self._windowed.lapped
