"""Actor process: plays with the newest weights, explores a little, and appends every step.

It is given names and numbers only, attaches to the ring and the weights by name, and owns as many
lanes as it has markets. Its death, even by SIGKILL, stops no other process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import backcast as bc
from backcast.demo.agent import Network
from backcast.demo.market import ACTIONS, EPISODE_STEPS, MARKET
from backcast.envs import Collector, TradingVectorEnv

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from backcast.fleet import Context

# A market changes between exploring and the policy every ten steps on average, and explores for a
# fifth of the time: one action alone shows little of what a position earns.
_CHANGE, _EXPLORE = 0.1, 0.2


def checksums(obs: NDArray[np.float32]) -> NDArray[np.uint64]:
    """Sum the bits of each observation, by which the learner notices a torn row."""
    return np.asarray(obs.view(np.uint32).sum(axis=-1, dtype=np.uint64))


def act(context: Context, name: str, markets: int) -> None:
    """Run until the fleet stops."""
    draw = np.random.default_rng(context.seed)
    envs = TradingVectorEnv(markets, autoreset_mode="same_step", **MARKET)
    network = Network(len(envs.features))
    explored = np.full(markets, -1)
    with (
        bc.Params.attach(name) as params,
        bc.ReplayBuffer.attach(name) as ring,
        ring.writer(env=envs) as writer,
    ):
        collector = Collector(envs, writer)
        infos: dict[str, Any]
        obs, infos = collector.reset(seed=context.seed)
        while not context.stopped:
            params.pull(out=network.weights)
            anew = draw.integers(ACTIONS, size=markets)
            anew[draw.random(markets) >= _EXPLORE] = -1
            explored = np.where(draw.random(markets) < _CHANGE, anew, explored)
            actions = np.where(explored < 0, network.best(obs), explored)
            obs, _, terminated, truncated, infos = collector.step(actions, checksum=checksums(obs))
            ended = terminated | truncated
            for return_ in infos["metrics"]["return"][ended] if ended.any() else ():
                context.report(100 * return_, EPISODE_STEPS, params.pulled)
    envs.close()
