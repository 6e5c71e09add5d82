"""Helpers that make environments, fill their buffers at random, and compare batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import backcast.finrl as ff
import numpy as np
from finrl_market import market

TICKERS = ["AAA", "BBB", "CCC", "DDD"]


def with_gaps(folder: Path) -> Path:
    """Write a market of 60 days, where CCC is listed on day 7 and AAA has no row on day 30."""
    made = market(60, [*TICKERS, "VIX"], late={"CCC": 7}, gaps=[("AAA", 30)])
    return made.write(folder / "market.csv")


def vec(path: Any, n_envs: int = 4, **settings: Any) -> ff.VecFastFinRL:  # noqa: ANN401
    """Make environments with two tickers each, whose states are arrays."""
    given: dict[str, Any] = {"return_format": "vec", "macro_tickers": ["VIX"], "num_tickers": 2}
    return ff.VecFastFinRL(path, n_envs, **(given | settings))


def collect(env: Any, buffer: Any, steps: int, seed: int = 1) -> list[tuple[Any, ...]]:  # noqa: ANN401
    """Step with random actions; return the added transitions."""
    draw = np.random.default_rng(seed)
    state = env.reset(seed=seed)
    added = []
    for _ in range(steps):
        actions = draw.uniform(-1, 1, (env.num_envs(), env.n_tickers()))
        after = env.step(actions)
        buffer.add(state, actions, after["reward"], after, after["done"])
        added.append((state, actions, after))
        state = after
    return added


def same(one: Any, other: Any) -> None:  # noqa: ANN401
    """Compare nested batches, tuples and lists alike."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key, value in one.items():
            same(value, other[key])
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for mine, theirs in zip(one, other, strict=True):
            same(mine, theirs)
    else:
        np.testing.assert_array_equal(one, other)


def filled(env: ff.VecFastFinRL) -> ff.VecReplayBuffer:
    """Return a buffer of capacity 200 that holds 20 steps of each environment."""
    made = ff.VecReplayBuffer(env, capacity=200)
    collect(env, made, 20)
    return made
