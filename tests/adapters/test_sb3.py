"""Registered environments under Stable-Baselines3: its checker, and PPO on their observations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import backcast.envs
import gymnasium as gym
import pytest

if TYPE_CHECKING:
    from pathlib import Path

sb3 = pytest.importorskip(
    "stable_baselines3",
    reason="Stable-Baselines3 is not installed: pip install -r requirements/adapters.txt",
)

FORMS: dict[str, list[dict[str, Any]]] = {
    "backcast/Portfolio-v0": [
        {},
        {"obs": "flat"},
        {"history": 4, "macro_tickers": ["IDX"]},
        {"history": 4, "macro_tickers": ["IDX"], "obs": "flat"},
    ],
    "backcast/Trading-v0": [
        {},
        {"preset": "teaching", "actions": "discrete_limit", "features": "full"},
        {"actions": "target", "frame_skip": 10},
        {
            "actions": "quotes",
            "reward": "risk_adjusted",
            "reward_options": {"drawdown_penalty": 0.5},
        },
    ],
}
"""Keywords to try each registered environment with."""

CASES = [
    pytest.param(name, form, id=f"{name}-{'-'.join(map(str, form)) or 'default'}")
    for name, forms in FORMS.items()
    for form in forms
]


def make(name: str, prices: Path, form: dict[str, Any]) -> gym.Env[Any, Any]:
    """Make an environment by its id, as users do."""
    if name == "backcast/Trading-v0":
        return gym.make(name, warmup_ticks=20, max_episode_steps=50, **form)
    return gym.make(name, panel=prices, panel_options={"macro": ["IDX"]}, **form)


def test_every_registered_environment_is_tried() -> None:
    assert backcast.envs.PortfolioEnv is not None
    assert {name for name in gym.registry if name.startswith("backcast/")} == set(FORMS)


@pytest.mark.parametrize(("name", "form"), CASES)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_its_checker_finds_nothing(name: str, form: dict[str, Any], prices: Path) -> None:
    from stable_baselines3.common.env_checker import check_env

    check_env(make(name, prices, form).unwrapped)


@pytest.mark.parametrize(("name", "form"), CASES)
def test_ppo_learns_on_the_observations(name: str, form: dict[str, Any], prices: Path) -> None:
    env = make(name, prices, form)
    nested = isinstance(env.observation_space, gym.spaces.Dict)
    policy = "MultiInputPolicy" if nested else "MlpPolicy"
    model = sb3.PPO(policy, env, n_steps=32, batch_size=16, n_epochs=1, device="cpu", seed=0)
    before = [weights.detach().clone() for weights in model.policy.parameters()]
    model.learn(64)
    assert model.num_timesteps == 64
    after = list(model.policy.parameters())
    assert any((old != new).any() for old, new in zip(before, after, strict=True))
    action, _ = model.predict(env.reset(seed=1)[0], deterministic=True)
    assert action in env.action_space
