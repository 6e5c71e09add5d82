"""Spaces of every form of every environment: every Box has an axis, as learners expect."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import backcast as bc
import backcast.envs
import backcast.finrl as ff
import gymnasium as gym
import pytest
from gymnasium import spaces

PORTFOLIO: list[dict[str, Any]] = [
    {},
    {"obs": "flat"},
    {"history": 3},
    {"history": 3, "macro_tickers": ["IDX"]},
    {"tickers": ["AAA"], "indicators": []},
]
SHORT: dict[str, Any] = {"warmup_ticks": 20, "max_ticks": 30}
TRADING: list[dict[str, Any]] = [
    SHORT,
    {**SHORT, "features": "full", "private_features": False},
    {**SHORT, "actions": "discrete_limit"},
    {**SHORT, "actions": "target"},
    {**SHORT, "actions": "quotes", "market": {"symbols": 2}},
    {**SHORT, "market": {"symbols": 2}},
]
FORMS = [
    pytest.param(name, form, id=f"{name}-{form}")
    for name, forms in {
        "backcast/Portfolio-v0": PORTFOLIO,
        "backcast/Trading-v0": TRADING,
    }.items()
    for form in forms
]


def leaves(space: spaces.Space[Any], path: str) -> Iterator[tuple[str, spaces.Space[Any]]]:
    """Yield the spaces that are neither Dict nor Tuple, each with its path."""
    if isinstance(space, spaces.Dict):
        for key, part in space.spaces.items():
            yield from leaves(part, f"{path}/{key}")
    elif isinstance(space, spaces.Tuple):
        for at, part in enumerate(space.spaces):
            yield from leaves(part, f"{path}/{at}")
    else:
        yield path, space


def check(space: spaces.Space[Any], path: str) -> None:
    """Assert that every leaf is a Box with an axis, whose length learners take as a layer's width.

    Discrete actions are exempt: learners read the number of choices from their spaces.
    """
    for name, leaf in leaves(space, path):
        if "action" in name and isinstance(leaf, spaces.Discrete | spaces.MultiDiscrete):
            continue
        assert isinstance(leaf, spaces.Box), name
        assert len(leaf.shape) >= 1, f"{name} has shape {leaf.shape}"


def test_every_registered_environment_is_tried() -> None:
    assert backcast.envs.PortfolioEnv is not None
    names = {name for name in gym.registry if name.startswith("backcast/")}
    assert names == {str(form.values[0]) for form in FORMS}


@pytest.mark.parametrize(("name", "form"), FORMS)
def test_every_leaf_of_every_registered_environment_has_an_axis(
    panel: bc.Panel, name: str, form: dict[str, Any]
) -> None:
    given = {"panel": panel, **form} if name == "backcast/Portfolio-v0" else form
    env = gym.make(name, **given)
    check(env.observation_space, f"{name} observation")
    check(env.action_space, f"{name} action")
    obs, _ = env.reset(seed=1)
    assert obs in env.observation_space
    envs = gym.make_vec(name, 3, **given)
    assert envs.single_observation_space == env.observation_space
    assert envs.reset(seed=1)[0] in envs.observation_space
    assert envs.action_space.sample() in envs.action_space
    check(envs.observation_space, f"{name} observations")


def test_every_leaf_of_the_wrapper_has_an_axis(panel: bc.Panel) -> None:
    envs = ff.VecFinRLWrapper(panel, 100, history_length=2, n_envs=3, macro_tickers=["IDX"])
    check(envs.single_observation_space, "observation")
    check(envs.single_action_space, "action")
