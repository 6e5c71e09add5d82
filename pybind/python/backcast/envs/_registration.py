"""Gymnasium ids of the environments, and a creator for frameworks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gymnasium.envs.registration import register, registry

from backcast._calls import explained
from backcast.envs._single import PortfolioEnv
from backcast.envs._trading_env import TradingEnv, TradingVectorEnv
from backcast.envs._vector import PortfolioVectorEnv
from backcast.errors import ArgumentTypeError

PORTFOLIO = "backcast/Portfolio-v0"
TRADING = "backcast/Trading-v0"

# Gymnasium warns when an id is registered twice, as a reload of this module would.
for _id, _single, _vector in (
    (PORTFOLIO, "PortfolioEnv", "PortfolioVectorEnv"),
    (TRADING, "TradingEnv", "TradingVectorEnv"),
):
    if _id not in registry:
        register(
            id=_id,
            entry_point=f"backcast.envs:{_single}",
            vector_entry_point=f"backcast.envs:{_vector}",
        )

Made = PortfolioEnv | PortfolioVectorEnv | TradingEnv | TradingVectorEnv


@explained
def make(env_config: Mapping[str, Any]) -> Made:
    """Make an environment from a configuration, as RLlib's registries ask.

    Parameters
    ----------
    env_config : mapping
        Keywords of :class:`PortfolioEnv`, or without a ``"panel"`` those of :class:`TradingEnv`.
        With ``"num_envs"`` those of :class:`PortfolioVectorEnv` and :class:`TradingVectorEnv`.

    Returns
    -------
    PortfolioEnv, PortfolioVectorEnv, TradingEnv or TradingVectorEnv

    Raises
    ------
    EnvError, ArgumentError, NotFoundError, PanelError
        See the constructors.

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
    many = "num_envs" in settings
    if "panel" in settings:
        return PortfolioVectorEnv(**settings) if many else PortfolioEnv(**settings)
    return TradingVectorEnv(**settings) if many else TradingEnv(**settings)
