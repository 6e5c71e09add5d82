"""Background agents of a market as typed settings. Defaults are those of the preset ``normal``."""

from __future__ import annotations

import dataclasses

from backcast._calls import explained
from backcast._native import scaled_population
from backcast.sim._settings import Settings, default


@dataclasses.dataclass(slots=True, kw_only=True)
class Limits(Settings):
    """Limits of one account, in shares.

    Parameters
    ----------
    long : int
        Largest long position, open buys included.
    short : int
        Largest short position, open sells included.
    order : int
        Largest single order.
    """

    long: int = default("population.limits.long")
    short: int = default("population.limits.short")
    order: int = default("population.limits.order")


@dataclasses.dataclass(slots=True, kw_only=True)
class Makers(Settings):
    """Makers cancel and requote both sides around a price.

    The price is that of the :class:`Latent` order book, or the last mid-price if that is off. It is
    shifted by inventory and recent orders.

    Parameters
    ----------
    count : int
        Makers of one symbol.
    wait : float
        Mean ticks between requotes around the mid-price. Around the latent price makers requote at
        the end of every tick.
    half_spread : float
        Half-spread while the price does not move, in price ticks.
    spread_per_vol : float
        Half-spread, in price ticks, per price tick of short-term volatility.
    skew : float
        Shift against inventory, in price ticks per share.
    flow_shift : float
        Shift with recent signed flow, in price ticks per share.
    root_shift : float
        Shift with recent signed orders, in price ticks per square root of an order's shares.
    level_step : float
        Distance between the levels of a quote, in price ticks.
    size : float
        Shares at the first level; each further level has half of ``size`` more.
    """

    count: int = default("population.maker.count")
    wait: float = default("population.maker.wait")
    half_spread: float = default("population.maker.half_spread")
    spread_per_vol: float = default("population.maker.spread_per_vol")
    skew: float = default("population.maker.skew")
    flow_shift: float = default("population.maker.flow_shift")
    root_shift: float = default("population.maker.root_shift")
    level_step: float = default("population.maker.level_step")
    size: float = default("population.maker.size")


@dataclasses.dataclass(slots=True, kw_only=True)
class NoiseTraders(Settings):
    """Noise traders draw market orders, limit orders and cancels.

    Parameters
    ----------
    count : int
        Noise traders of one symbol.
    wait : float
        Mean ticks between actions.
    market : float
        Probability of a market order.
    cancel : float
        Probability of a cancel.
    size : float
        Median size of an order, in shares.
    size_sigma : float
        Sigma of the logarithm of the size.
    depth_exponent : float
        Tail exponent of the distance of limit orders from the best price of the other side.
    life : int
        Longest life of a limit order, in ticks.
    """

    count: int = default("population.noise.count")
    wait: float = default("population.noise.wait")
    market: float = default("population.noise.market")
    cancel: float = default("population.noise.cancel")
    size: float = default("population.noise.size")
    size_sigma: float = default("population.noise.size_sigma")
    depth_exponent: float = default("population.noise.depth_exponent")
    life: int = default("population.noise.life")


@dataclasses.dataclass(slots=True, kw_only=True)
class ValueTraders(Settings):
    """Value traders trade towards a valuation of their own.

    Parameters
    ----------
    count : int
        Value traders of one symbol.
    wait : float
        Mean ticks between actions.
    strength : float
        Shares of target position at a gap of one per cent.
    error_sd : float
        Standard deviation of the relative error of a valuation.
    error_ticks : float
        Mean ticks between renewals of the error.
    learning : float
        Weight of the market price in the valuation, from 0 to below 1.
    slice : float
        Largest order, in shares.
    aggressive : float
        Gap in per cent from which an order crosses the spread.
    """

    count: int = default("population.value.count")
    wait: float = default("population.value.wait")
    strength: float = default("population.value.strength")
    error_sd: float = default("population.value.error_sd")
    error_ticks: float = default("population.value.error_ticks")
    learning: float = default("population.value.learning")
    slice: float = default("population.value.slice")
    aggressive: float = default("population.value.aggressive")


@dataclasses.dataclass(slots=True, kw_only=True)
class SignalTraders(Settings):
    """Signal traders follow or fade an indicator at a horizon of their own.

    Parameters
    ----------
    count : int
        Signal traders of one symbol.
    wait : float
        Mean ticks between actions.
    horizon_low : float
        Shortest horizon in ticks.
    horizon_high : float
        Longest horizon in ticks.
    followers : float
        Fraction of the traders that follow the indicator; the others fade it.
    threshold : float
        Strength of a signal, in standard deviations, below which a trader wants no position.
    inventory : float
        Largest position, in shares.
    size : float
        Largest order, in shares.
    """

    count: int = default("population.signal.count")
    wait: float = default("population.signal.wait")
    horizon_low: float = default("population.signal.horizon_low")
    horizon_high: float = default("population.signal.horizon_high")
    followers: float = default("population.signal.followers")
    threshold: float = default("population.signal.threshold")
    inventory: float = default("population.signal.inventory")
    size: float = default("population.signal.size")


@dataclasses.dataclass(slots=True, kw_only=True)
class Executors(Settings):
    """Executors work Pareto-distributed parent orders in slices.

    Parameters
    ----------
    count : int
        Executors of one symbol.
    wait : float
        Mean ticks between slices.
    idle : float
        Mean ticks between two parent orders.
    parent_minimum : float
        Smallest parent order, in shares.
    parent_exponent : float
        Tail exponent of the size of parent orders.
    parent_maximum : float
        Largest parent order, in shares.
    slice : float
        Median size of a slice, in shares.
    aggressive : float
        Fraction of the slices that cross the spread; the others join the touch.
    """

    count: int = default("population.executor.count")
    wait: float = default("population.executor.wait")
    idle: float = default("population.executor.idle")
    parent_minimum: float = default("population.executor.parent_minimum")
    parent_exponent: float = default("population.executor.parent_exponent")
    parent_maximum: float = default("population.executor.parent_maximum")
    slice: float = default("population.executor.slice")
    aggressive: float = default("population.executor.aggressive")


@dataclasses.dataclass(slots=True, kw_only=True)
class Population(Settings):
    """Background agents of one symbol.

    Parameters
    ----------
    maker : Makers
        Agents that quote both sides.
    noise : NoiseTraders
        Agents that trade at random.
    value : ValueTraders
        Agents that trade towards a valuation.
    signal : SignalTraders
        Agents that follow or fade an indicator.
    executor : Executors
        Agents that work large orders.
    cash : int
        Cash of one agent at the start, in cash units.
    shares : int
        Shares of one agent at the start.
    limits : Limits
        Limits of one agent.
    """

    maker: Makers = dataclasses.field(default_factory=Makers)
    noise: NoiseTraders = dataclasses.field(default_factory=NoiseTraders)
    value: ValueTraders = dataclasses.field(default_factory=ValueTraders)
    signal: SignalTraders = dataclasses.field(default_factory=SignalTraders)
    executor: Executors = dataclasses.field(default_factory=Executors)
    cash: int = default("population.cash")
    shares: int = default("population.shares")
    limits: Limits = dataclasses.field(default_factory=Limits)

    @explained
    def scaled(self, total: int) -> Population:
        """Return a population of another size in nearly the same proportions.

        Every archetype that had an agent keeps at least one. Together, makers quote about as many
        shares as before. Each of the other agents acts less often if there are more of them, so
        that the market stays about as active.

        Parameters
        ----------
        total : int
            Agents of one symbol, about: rounding and the minimum of one can change it.

        Returns
        -------
        Population

        Raises
        ------
        SimError
            If the number is out of range.
        """
        return Population.of(scaled_population(self.to_dict(), total))
