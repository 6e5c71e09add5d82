"""Learner of the trading world: predicts the next move of the price from the ring."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from backcast.demo.learner import BATCH, Learner
from backcast.demo.model import Network
from backcast.demo.trading.lesson import FEATURES, FUTURE, checksums, examples

if TYPE_CHECKING:
    from numpy.typing import NDArray

    import backcast as bc

    Array = NDArray[np.float64]

_HIDDEN = 16
_LEARNING_RATE = 2e-3
_WEIGHT_DECAY = 0.1


def fresh_network(seed: int) -> Network:
    """Make the network before it has learned anything."""
    return Network.fresh(
        FEATURES, _HIDDEN, 1, seed, learning_rate=_LEARNING_RATE, weight_decay=_WEIGHT_DECAY
    )


def torn(batch: Any) -> int:  # noqa: ANN401 - a Batch of the native module
    """Count the rows of a batch that do not match their checksum."""
    return int(np.count_nonzero(checksums(batch["obs"], batch["mid"]) != batch["checksum"]))


class TradingLearner(Learner):
    """Learns the next move of the price."""

    def __init__(self, ring: bc.ReplayBuffer, seed: int) -> None:
        super().__init__(fresh_network(seed), ring.sampler(seed=seed, future=FUTURE))

    def check(self, batch: Any) -> None:  # noqa: ANN401 - a Batch of the native module
        """Check every row."""
        self.tally.torn += torn(batch)
        self.tally.rows_checked += BATCH

    def examples(self, batch: Any) -> tuple[Array, Array]:  # noqa: ANN401
        """Return the rows whose window lies in one episode."""
        return examples(batch)
