"""PPO of Stable-Baselines3 on simulated markets: no gain on `normal`, a large one on `teaching`.

Each seed trains on episodes of the seed space "train" and plays its greedy policy in episodes of
the space "test". Episodes begin from settled markets, the default. Returns are fractions of the
initial equity, all positions closed at the end.

The short form trains one seed on each market. With `BACKCAST_PPO=full` three seeds train on
`normal` and five on `teaching`, for fifteen times as many steps.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

sb3 = pytest.importorskip(
    "stable_baselines3",
    reason="Stable-Baselines3 is not installed: pip install -r requirements/adapters.txt",
)
torch = pytest.importorskip(
    "torch", reason="PyTorch is not installed: pip install -r requirements/adapters.txt"
)

import backcast.sb3 as ours  # noqa: E402
from backcast.envs import TradingVectorEnv  # noqa: E402
from stable_baselines3.common.vec_env import VecNormalize  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Policy = Callable[[NDArray[np.float32]], NDArray[np.int64]]

FULL = os.environ.get("BACKCAST_PPO") == "full"
STEPS = 614_400 if FULL else 40_960
"""Training steps of each seed, the same on both markets."""
ENVS, EPISODES, EPISODE_STEPS = 32, 256, 300
# Few shares leave out an agent's own impact, which makes a gain easier to find. Holding is compared
# at the default limit, as in `examples/ppo_trading.py`, whose margin this is.
FEW, MARGIN = 20, 0.01
FLAT, LONG = 1, 2


@dataclass(frozen=True)
class Task:
    """Market by the name of its preset, and the largest position in shares."""

    preset: str
    shares: int

    def envs(self, count: int, **options: Any) -> TradingVectorEnv:
        settings: dict[str, Any] = {
            "preset": self.preset,
            "actions": "discrete_target",
            "frame_skip": 10,
            "max_episode_steps": EPISODE_STEPS,
            "long_limit": self.shares,
            "short_limit": self.shares,
            "order_limit": self.shares,
        }
        return TradingVectorEnv(count, **settings, **options)

    def train(self, seed: int) -> Policy:
        """Train a policy; return its greedy form."""
        torch.set_num_threads(1)
        env = VecNormalize(
            ours.VecEnv(self.envs(ENVS, autoreset_mode="same_step")), gamma=0.99, clip_obs=5
        )
        model = sb3.PPO(
            "MlpPolicy",
            env,
            n_steps=64,
            batch_size=512,
            n_epochs=4,
            learning_rate=lambda left: 1e-3 * left,
            ent_coef=0.003,
            seed=seed,
            device="cpu",
        )
        model.learn(STEPS)
        assert model.num_timesteps == STEPS

        def greedy(obs: NDArray[np.float32]) -> NDArray[np.int64]:
            return np.asarray(model.predict(env.normalize_obs(obs), deterministic=True)[0])

        return greedy

    def play(self, policy: Policy, seed: int) -> NDArray[np.float64]:
        """Return the returns of a policy in test episodes, which differ from seed to seed."""
        # Episodes that begin from one snapshot share its mispricing: their returns correlate, and
        # the standard error of the mean would be too small.
        envs = self.envs(EPISODES, autoreset_mode="disabled", seed_space="test", warm_snapshots=0)
        obs, _ = envs.reset(seed=1_000 * seed)
        for _ in range(EPISODE_STEPS):
            obs, _, terminated, truncated, infos = envs.step(policy(obs))
        assert (truncated & ~terminated).all()
        returns: NDArray[np.float64] = infos["metrics"]["return"]
        envs.close()
        return returns


def constant(action: int) -> Policy:
    """Return the policy of always the same action."""
    return lambda obs: np.full(len(obs), action)


def in_errors(returns: NDArray[np.float64]) -> float:
    """Return the mean in standard errors; 0 if nothing was ever gained or lost."""
    error = returns.std(ddof=1) / np.sqrt(len(returns))
    print(f"{returns.mean():+.6f} +- {error:.6f}")
    return float(returns.mean() / error) if error > 0 else 0.0


@pytest.mark.parametrize("seed", range(1, 4 if FULL else 2))
def test_ppo_does_not_beat_staying_flat_on_the_normal_market(seed: int) -> None:
    market = Task("normal", FEW)
    assert in_errors(market.play(market.train(seed), seed)) <= 3


def test_the_same_agent_finds_what_the_teaching_market_offers() -> None:
    market = Task("teaching", FEW)
    assert not market.play(constant(FLAT), 1).any()
    learned = market.play(market.train(1), 1)
    assert in_errors(learned) > 3
    assert in_errors(learned - market.play(constant(LONG), 1)) > 3


@pytest.mark.skipif(not FULL, reason="trains for minutes: set BACKCAST_PPO=full")
def test_ppo_beats_holding_by_the_margin_on_the_teaching_market() -> None:
    market, better = Task("teaching", 1_000), 0
    for seed in range(1, 6):
        margins = market.play(market.train(seed), seed) - market.play(constant(LONG), seed)
        in_errors(margins)
        better += margins.mean() > MARGIN
    assert better >= 4
