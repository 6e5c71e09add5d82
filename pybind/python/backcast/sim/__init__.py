"""Simulated markets: an order book with background agents, built from a configuration.

>>> from backcast import sim
>>> config = sim.MarketConfig.preset("normal")
>>> config.fees.taker_ppm = 0
>>> config.population = config.population.scaled(50)
>>> market = sim.Market(config, seed=7)
>>> market.step(300)
>>> record = market.record(60)
>>> record["ticks"]["mid"].shape, record["candles"]["close"].shape
((1, 60), (1, 15))

One tick is one second. Prices are whole numbers of price ticks. Cash is in cash units: one price
tick of one share is 100. :class:`backcast.envs.TradingEnv` puts an agent into such a market.

:class:`History` reads the order book that an exchange recorded, and :class:`Replay` lets an agent
trade against it: :class:`backcast.envs.ReplayEnv`.
"""

from backcast._native import Floor, History, Market, Replay
from backcast.sim._config import (
    Account,
    Arousal,
    Features,
    Fees,
    Fundamental,
    Latent,
    MarketConfig,
    News,
    Session,
    Slot,
)
from backcast.sim._population import (
    Executors,
    Limits,
    Makers,
    NoiseTraders,
    Population,
    SignalTraders,
    ValueTraders,
)

__all__ = [
    "Account",
    "Arousal",
    "Executors",
    "Features",
    "Fees",
    "Floor",
    "Fundamental",
    "History",
    "Latent",
    "Limits",
    "Makers",
    "Market",
    "MarketConfig",
    "News",
    "NoiseTraders",
    "Population",
    "Replay",
    "Session",
    "SignalTraders",
    "Slot",
    "ValueTraders",
]
