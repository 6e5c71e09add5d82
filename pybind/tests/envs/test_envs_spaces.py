"""Spaces as learners read them: every leaf has an axis, in every form of every environment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import backcast as bc
import backcast.envs
import backcast.finrl as ff
import gymnasium as gym
import pytest
from gymnasium import spaces

FORMS: list[dict[str, Any]] = [
    {},
    {"obs": "flat"},
    {"history": 3},
    {"history": 3, "macro_tickers": ["IDX"]},
    {"tickers": ["AAA"], "indicators": []},
]


def leaves(space: spaces.Space[Any], path: str) -> Iterator[tuple[str, spaces.Space[Any]]]:
    """Yield the spaces that hold numbers, each with its path."""
    if isinstance(space, spaces.Dict):
        for key, part in space.spaces.items():
            yield from leaves(part, f"{path}/{key}")
    elif isinstance(space, spaces.Tuple):
        for at, part in enumerate(space.spaces):
            yield from leaves(part, f"{path}/{at}")
    else:
        yield path, space


def check(space: spaces.Space[Any], path: str) -> None:
    """Refuse a leaf without an axis: learners take the length of the first for a layer's width."""
    for name, leaf in leaves(space, path):
        assert isinstance(leaf, spaces.Box), name
        assert len(leaf.shape) >= 1, f"{name} has shape {leaf.shape}"


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_every_leaf_of_every_registered_environment_has_an_axis(
    panel: bc.Panel, form: dict[str, Any]
) -> None:
    names = [name for name in gym.registry if name.startswith("backcast/")]
    assert backcast.envs.PortfolioEnv is not None
    assert names
    for name in names:
        env = gym.make(name, panel=panel, **form)
        check(env.observation_space, f"{name} observation")
        check(env.action_space, f"{name} action")
        obs, _ = env.reset(seed=1)
        assert obs in env.observation_space
        envs = gym.make_vec(name, 3, panel=panel, **form)
        assert envs.single_observation_space == env.observation_space
        assert envs.reset(seed=1)[0] in envs.observation_space
        check(envs.observation_space, f"{name} observations")


def test_every_leaf_of_the_wrapper_has_an_axis(panel: bc.Panel) -> None:
    envs = ff.VecFinRLWrapper(panel, 100, history_length=2, n_envs=3, macro_tickers=["IDX"])
    check(envs.single_observation_space, "observation")
    check(envs.single_action_space, "action")
