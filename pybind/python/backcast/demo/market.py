"""Task of the demo: hold a position in a simulated market, short, flat or long."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from backcast.envs import TradingEnv, TradingVectorEnv

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Policy = Callable[[NDArray[np.float32]], NDArray[np.int64]]

ACTIONS = 3
LONG = 2
EPISODE_STEPS = 300
MINUTES = 50
"""Length of an episode: a step is ten ticks, a tick is a second."""
TEST_EPISODES = 64
# Each episode has a market of its own, which opened a moment ago. Equity is at the mid-price.
MARKET: dict[str, Any] = {
    "preset": "teaching",
    "actions": "discrete_target",
    "frame_skip": 10,
    "max_episode_steps": EPISODE_STEPS,
    "warmup_ticks": 100,
    "warm_snapshots": 0,
    "mark": "mid",
    "reward_options": {"scale": "log_return"},
}
# Test episodes come from a seed space of their own, so no actor can have played one.
_TEST: dict[str, Any] = MARKET | {"seed_space": "test"}
# Runs of different seeds have different ones.
_FIRST_TEST = 1_000


@dataclass(frozen=True)
class Exam:
    """Results of a policy in the test episodes, which are the same for every policy."""

    returns: NDArray[np.float64]
    gains: NDArray[np.float64]
    """Gain of the equity since the start, ``[steps + 1, episodes]``."""

    def above(self, other: Exam | None = None) -> tuple[float, float]:
        """Return the mean return, or the mean margin over another policy, and its error."""
        margin = self.returns - (0.0 if other is None else other.returns)
        return float(margin.mean()), float(margin.std(ddof=1) / np.sqrt(len(margin)))


def hold(obs: NDArray[np.float32]) -> NDArray[np.int64]:
    """Be long all the time: the baseline."""
    return np.full(len(obs), LONG)


def examine(policy: Policy, seed: int) -> Exam:
    """Let a policy play the test episodes."""
    threads = os.cpu_count() or 1
    envs = TradingVectorEnv(TEST_EPISODES, autoreset_mode="disabled", threads=threads, **_TEST)
    infos: dict[str, Any]
    obs, infos = envs.reset(seed=TEST_EPISODES * (_FIRST_TEST + seed))
    equity = [infos["equity"]]
    for _ in range(EPISODE_STEPS):
        obs, _, _, _, infos = envs.step(policy(obs))
        equity.append(infos["equity"])
    envs.close()
    return Exam(infos["metrics"]["return"], np.array(equity) / equity[0] - 1.0)


def episode_picture(policy: Policy, seed: int) -> Any:  # noqa: ANN401 - pixels, or text
    """Play most of the first test episode, and let the environment draw it."""
    env = TradingEnv(render_mode="rgb_array", **_TEST)
    obs, _ = env.reset(seed=TEST_EPISODES * (_FIRST_TEST + seed))
    for _ in range(EPISODE_STEPS - 1):
        obs, *_ = env.step(policy(obs[None])[0])
    picture = env.render()
    env.close()
    return picture
