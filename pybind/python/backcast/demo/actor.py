"""Actor process: steps environments with a random policy and appends the transitions.

It is given names and numbers only, attaches to the panel and the ring by name, and owns as many
lanes as it has environments. Its death, even by SIGKILL, stops no other process.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

import backcast as bc
from backcast.demo.rows import checksums, obs_sums
from backcast.envs import PortfolioVectorEnv

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from backcast.fleet import Context

AutoresetMode: TypeAlias = Literal["next_step", "same_step", "disabled"]

MAX_EPISODE_STEPS = 250
# Share of the last action that carries over: actions wander instead of flickering.
_INERTIA = 0.9


@dataclass(frozen=True)
class ActorSettings:
    """Settings of an actor: names and numbers, no handles."""

    ring: str
    panel: str
    envs: int
    tickers: tuple[str, ...]
    days: tuple[int, int]


def autoreset_mode(rank: int) -> AutoresetMode:
    """Return the mode of an actor: one after the other."""
    return "same_step" if rank % 2 else "next_step"


def observation(obs: dict[str, Any], tokens: NDArray[np.int32]) -> dict[str, Any]:
    """Take the observation columns of the ring's rows from the environment's observation."""
    return {
        "day": np.asarray(obs["day"], np.int32)[..., 0],
        "tics": np.broadcast_to(tokens, np.shape(obs["shares"])),
        "portfolio": {
            "cash": np.asarray(obs["cash"], np.float64)[..., 0],
            "shares": np.asarray(obs["shares"], np.int32),
            "avg_buy_price": np.asarray(obs["avg_buy_price"], np.float64),
        },
    }


def final_observation(
    finals: NDArray[np.object_], here: dict[str, Any], tokens: NDArray[np.int32]
) -> dict[str, Any]:
    """Turn Gymnasium's object array of final observations into columns; other rows are unread."""
    ended = [row for row, final in enumerate(finals) if final is not None]
    merged = {name: np.array(here[name]) for name in ("day", "cash", "shares", "avg_buy_price")}
    for row in ended:
        for name, values in merged.items():
            values[row] = finals[row][name]
    final = observation(merged, tokens)
    final["checksum"] = obs_sums(final) << np.uint64(32)
    return final


class Policy:
    """Random actions in [-1, 1] from an autoregression of order one."""

    def __init__(self, shape: tuple[int, int], seed: int) -> None:
        self._draw = np.random.default_rng(seed)
        self._actions = self._draw.uniform(-1.0, 1.0, shape).astype(np.float32)

    def __call__(self) -> NDArray[np.float32]:
        """Return the next actions, a fresh array."""
        push = self._draw.standard_normal(self._actions.shape, np.float32)
        self._actions = np.clip(_INERTIA * self._actions + (1.0 - _INERTIA) * 4.0 * push, -1, 1)
        return self._actions


def act(context: Context, settings: ActorSettings) -> None:
    """Run until the fleet stops."""
    mode = autoreset_mode(context.rank)
    with (
        bc.Panel.attach(settings.panel) as panel,
        bc.ReplayBuffer.attach(settings.ring) as ring,
        ring.writer(lanes=settings.envs, autoreset_mode=mode) as writer,
    ):
        env = PortfolioVectorEnv(
            panel,
            settings.envs,
            tickers=list(settings.tickers),
            days=settings.days,
            max_episode_steps=MAX_EPISODE_STEPS,
            autoreset_mode=mode,
        )
        tokens = np.asarray(env.tokens, np.int32)
        policy = Policy((settings.envs, len(settings.tickers)), context.seed)
        obs, _ = env.reset(seed=context.seed)
        while not context.stopped:
            row = observation(obs, tokens)
            action = policy()
            obs, rewards, terminated, truncated, infos = env.step(action)
            row |= {"action": action, "reward": np.asarray(rewards, np.float32)}
            row["checksum"] = checksums(row)
            if "final_obs" in infos:
                row["final_obs"] = final_observation(infos["final_obs"], obs, tokens)
            writer.append(**row, terminated=terminated, truncated=truncated)
        env.close()
