"""Test episodes of the trading world, none of which an actor can have played."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from backcast.demo.trading.lesson import EPISODE_STEPS, MARKET, features, target_position
from backcast.envs import TradingEnv, TradingVectorEnv

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from backcast.demo.model import Network

    Array = NDArray[np.float64]

POLICIES = ("learned", "buy and hold", "random")
EPISODES = 64


@dataclass(frozen=True)
class Exam:
    """Returns of the test episodes by policy ``[EPISODES]``, and mean equity by step."""

    returns: dict[str, Array]
    equity: dict[str, list[float]]

    @property
    def margin(self) -> float:
        """Mean return of the learned policy over that of holding."""
        return float((self.returns["learned"] - self.returns["buy and hold"]).mean())

    @property
    def margin_error(self) -> float:
        """Standard error of the margin; both policies play the same episodes."""
        apart = self.returns["learned"] - self.returns["buy and hold"]
        return float(apart.std(ddof=1) / np.sqrt(len(apart)))


def examine(network: Network, seed: int, check: Callable[[], None]) -> Exam:
    """Let three policies play the same test episodes."""
    draw = np.random.default_rng(seed)

    def learned(obs: NDArray[np.float32]) -> Array:
        return target_position(network.predict(features(obs)))

    def held(obs: NDArray[np.float32]) -> Array:
        return np.ones(len(obs))

    def by_lot(obs: NDArray[np.float32]) -> Array:
        return draw.uniform(-1, 1, len(obs))

    returns, equity = {}, {}
    for name, policy in zip(POLICIES, (learned, held, by_lot), strict=True):
        check()
        returns[name], equity[name] = _play(policy, seed)
    return Exam(returns, equity)


def episode_picture(network: Network, seed: int) -> NDArray[np.uint8]:
    """Draw most of a test episode, with the trades of the learned policy."""
    env = TradingEnv(
        seed_space="test", max_episode_steps=EPISODE_STEPS, render_mode="rgb_array", **MARKET
    )
    obs, _ = env.reset(seed=seed)
    for _ in range(EPISODE_STEPS - 1):
        obs, *_ = env.step(target_position(network.predict(features(obs)[None])))
    picture = env.render()
    env.close()
    assert isinstance(picture, np.ndarray)
    return picture


def strongest_features(network: Network, seen: Array, names: list[str]) -> list[tuple[str, float]]:
    """Return the three features that the prediction follows most, with the correlations."""
    predicted = network.predict(seen)[:, 0]
    spread = seen.std(axis=0) * predicted.std()
    together = ((seen - seen.mean(axis=0)) * (predicted - predicted.mean())[:, None]).mean(axis=0)
    found = np.divide(together, spread, out=np.zeros_like(together), where=spread > 0)
    order = np.argsort(-np.abs(found))[:3]
    return [(names[at], float(found[at])) for at in order]


def _play(policy: Callable[[NDArray[np.float32]], Array], seed: int) -> tuple[Array, list[float]]:
    envs = TradingVectorEnv(
        EPISODES,
        autoreset_mode="disabled",
        seed_space="test",
        max_episode_steps=EPISODE_STEPS,
        **MARKET,
    )
    infos: dict[str, Any]
    obs, infos = envs.reset(seed=seed)
    start = infos["equity"]
    equity = [start]
    ended = np.zeros(EPISODES, bool)
    while not ended.any():
        obs, _, terminated, truncated, infos = envs.step(policy(obs)[:, None])
        equity.append(infos["equity"])
        ended = terminated | truncated
    envs.close()
    return equity[-1] / start - 1.0, np.mean(equity, axis=1).tolist()
