"""Gymnasium environments, and a collector that steps environments into a ring.

Importing this package registers ``backcast/Portfolio-v0`` and ``backcast/Trading-v0``:

>>> import gymnasium as gym
>>> import backcast.envs
>>> env = gym.make("backcast/Portfolio-v0", panel="prices.csv")  # doctest: +SKIP
>>> envs = gym.make_vec("backcast/Portfolio-v0", 64, panel="prices.csv")  # doctest: +SKIP
>>> market = gym.make("backcast/Trading-v0", preset="teaching")
>>> markets = gym.make_vec("backcast/Trading-v0", 64, preset="teaching")

It needs Gymnasium (``pip install backcast[gymnasium]``); ``import backcast`` alone does not.
:func:`parallel_trading_env`, several agents in one market, needs PettingZoo as well.
"""

from backcast._native import EpisodeState, RewardInput
from backcast.envs._fill import Fill
from backcast.errors import MissingExtraError

try:
    from backcast.envs._agents import parallel_trading_env
    from backcast.envs._collector import Collector
    from backcast.envs._portfolio_rules import (
        DifferentialSharpe,
        Discrete,
        Drawdown,
        Excess,
        Margin,
        OrderLimit,
        PortfolioStep,
        Weights,
    )
    from backcast.envs._portfolio_settings import PortfolioSettings
    from backcast.envs._registration import make
    from backcast.envs._replay_env import ReplayEnv
    from backcast.envs._single import PortfolioEnv
    from backcast.envs._trading import TradingFeature
    from backcast.envs._trading_env import TradingEnv, TradingVectorEnv
    from backcast.envs._trading_settings import AgentSettings, TradingSettings
    from backcast.envs._vector import PortfolioVectorEnv
except ImportError as _error:
    if _error.name is None or _error.name.partition(".")[0] != "gymnasium":
        raise
    raise MissingExtraError(
        "backcast.envs builds on Gymnasium, which is not installed; "
        "run `pip install 'backcast[gymnasium]'`"
    ) from _error

__all__ = [
    "AgentSettings",
    "Collector",
    "DifferentialSharpe",
    "Discrete",
    "Drawdown",
    "EpisodeState",
    "Excess",
    "Fill",
    "Margin",
    "OrderLimit",
    "PortfolioEnv",
    "PortfolioSettings",
    "PortfolioStep",
    "PortfolioVectorEnv",
    "ReplayEnv",
    "RewardInput",
    "TradingEnv",
    "TradingFeature",
    "TradingSettings",
    "TradingVectorEnv",
    "Weights",
    "make",
    "parallel_trading_env",
]
