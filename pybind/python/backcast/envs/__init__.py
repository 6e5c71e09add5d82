"""Gymnasium environments, and a collector that steps environments into a ring.

Importing this package registers ``backcast/Portfolio-v0``:

>>> import gymnasium as gym
>>> import backcast.envs
>>> env = gym.make("backcast/Portfolio-v0", panel="prices.csv")  # doctest: +SKIP
>>> envs = gym.make_vec("backcast/Portfolio-v0", 64, panel="prices.csv")  # doctest: +SKIP

It needs Gymnasium (``pip install backcast[gymnasium]``); ``import backcast`` alone does not.
"""

from backcast._errors import MissingExtraError

try:
    from backcast.envs._collector import Collector
    from backcast.envs._registration import make
    from backcast.envs._single import PortfolioEnv
    from backcast.envs._vector import PortfolioVectorEnv
except ImportError as _error:
    if _error.name is None or _error.name.partition(".")[0] != "gymnasium":
        raise
    raise MissingExtraError(
        "backcast.envs builds on Gymnasium, which is not installed; "
        "run `pip install 'backcast[gymnasium]'`"
    ) from _error

__all__ = ["Collector", "PortfolioEnv", "PortfolioVectorEnv", "make"]
