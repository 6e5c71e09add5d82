"""Gymnasium ids of the environments, and a creator for frameworks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gymnasium.envs.registration import register, registry

from backcast import ArgumentTypeError
from backcast._calls import explained
from backcast.envs._single import PortfolioEnv
from backcast.envs._vector import PortfolioVectorEnv

PORTFOLIO = "backcast/Portfolio-v0"

# Gymnasium warns when an id is registered twice, as a reload of this module would.
if PORTFOLIO not in registry:
    register(
        id=PORTFOLIO,
        entry_point="backcast.envs:PortfolioEnv",
        vector_entry_point="backcast.envs:PortfolioVectorEnv",
    )


@explained
def make(env_config: Mapping[str, Any]) -> PortfolioEnv | PortfolioVectorEnv:
    """Make a portfolio environment from a configuration, as RLlib's registries ask.

    Parameters
    ----------
    env_config : mapping
        Keywords of :class:`PortfolioEnv`, or with ``"num_envs"`` those of
        :class:`PortfolioVectorEnv`.

    Returns
    -------
    PortfolioEnv or PortfolioVectorEnv

    Raises
    ------
    EnvError, ArgumentError, NotFoundError, PanelError
        As from the constructors.

    Examples
    --------
    >>> from ray import tune  # doctest: +SKIP
    >>> tune.register_env("portfolio", backcast.envs.make)  # doctest: +SKIP
    """
    if not isinstance(env_config, Mapping):
        raise ArgumentTypeError(
            f'env_config is {env_config!r}; give a dict of keywords, {{"panel": "prices.csv"}}'
        )
    settings = dict(env_config)
    return PortfolioVectorEnv(**settings) if "num_envs" in settings else PortfolioEnv(**settings)
