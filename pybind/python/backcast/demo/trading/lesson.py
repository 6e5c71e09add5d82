"""Lesson of the trading world: the move of the price over the next steps, given the market.

A row has the observation, the mid-price at that moment, and a checksum of both. The target is the
log return of the mid-price over the future window. Only rows whose window lies in one episode
count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

MARKET: dict[str, Any] = {"preset": "teaching", "actions": "target", "frame_skip": 10}
# Every episode has a new market, which opened a moment ago.
MARKET |= {"warmup_ticks": 100, "warm_snapshots": 0}
EPISODE_STEPS = 300
# Features of the market; those of the agent itself come after them.
FEATURES = 40
FUTURE = 20
# Typical move of the price over the future window, so that the network sees numbers near one.
_MOVE = 0.003
# Features are clipped here: most lie within one.
_MOST = 4.0


def checksums(obs: NDArray[np.float32], mid: Array) -> NDArray[np.uint64]:
    """Sum the words of a row modulo 2^64."""
    words = np.asarray(obs, np.float32).view(np.uint32).sum(axis=-1, dtype=np.uint64)
    return np.asarray(words + np.asarray(mid, np.float64).view(np.uint64))


def features(obs: NDArray[np.float32]) -> Array:
    """Return the features that the learner uses, ``[..., FEATURES]``."""
    return np.clip(np.asarray(obs[..., :FEATURES], np.float64), -_MOST, _MOST)


def examples(batch: Any) -> tuple[Array, Array]:  # noqa: ANN401 - a Batch of the native module
    """Return features ``[n, FEATURES]`` and targets ``[n, 1]`` of the rows with a whole window."""
    whole = np.asarray(batch.future_mask[:, -1])
    now, then = batch["mid"][whole], batch["future"]["mid"][whole, -1]
    return features(batch["obs"][whole]), (np.log(then / now) / _MOVE)[:, None]


def target_position(predicted: Array) -> Array:
    """Turn predictions ``[n, 1]`` into positions in [-1, 1], full from half a typical move on."""
    return np.clip(2.0 * predicted[:, 0], -1.0, 1.0)
