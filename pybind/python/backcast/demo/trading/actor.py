"""Actor process of the trading world: a wandering position in simulated markets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import backcast as bc
from backcast.demo.actor import autoreset_mode
from backcast.demo.trading.lesson import EPISODE_STEPS, MARKET, checksums
from backcast.envs import Collector, TradingVectorEnv

if TYPE_CHECKING:
    from backcast.fleet import Context

# Probability that an agent changes its target in a step.
_CHANGE = 0.1


@dataclass(frozen=True)
class TraderSettings:
    """Settings of an actor: names and numbers, no handles."""

    ring: str
    envs: int


def trade(context: Context, settings: TraderSettings) -> None:
    """Run until the fleet stops."""
    mode = autoreset_mode(context.rank)
    with (
        bc.ReplayBuffer.attach(settings.ring) as ring,
        ring.writer(lanes=settings.envs, autoreset_mode=mode) as writer,
    ):
        envs = TradingVectorEnv(
            settings.envs,
            autoreset_mode=mode,
            max_episode_steps=EPISODE_STEPS,
            **MARKET,
        )
        collector = Collector(envs, writer)
        draw = np.random.default_rng(context.seed)
        positions = draw.uniform(-1, 1, (settings.envs, 1)).astype(np.float32)
        infos: dict[str, Any]
        obs, infos = collector.reset(seed=context.seed)
        while not context.stopped:
            mid = infos["mid_price"]
            changes = draw.random(settings.envs) < _CHANGE
            positions = positions.copy()
            positions[changes] = draw.uniform(-1, 1, (int(changes.sum()), 1))
            more = {"mid": mid, "checksum": checksums(obs, mid)}
            obs, _, _, _, infos = collector.step(positions, **more)
        envs.close()
