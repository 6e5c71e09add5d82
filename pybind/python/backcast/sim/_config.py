"""Settings of a market as typed objects. Their defaults are those of the preset ``normal``."""

from __future__ import annotations

import dataclasses
from typing import Literal

from backcast._calls import explained
from backcast._native import check_market, market_preset
from backcast.sim._population import Limits, Population
from backcast.sim._settings import Settings, default, normal

Matching = Literal["continuous", "call_auction", "call_auction_pro_rata"]


@dataclasses.dataclass(slots=True, kw_only=True)
class Account(Settings):
    """Endowment and limits of one account.

    Parameters
    ----------
    cash : int
        Cash at the start, in cash units.
    shares : int
        Shares of every symbol at the start; negative starts short.
    limits : Limits
        Limits on orders and positions.
    """

    cash: int = default("slots.0.account.cash")
    shares: int = default("slots.0.account.shares")
    limits: Limits = dataclasses.field(
        default_factory=lambda: Limits.of(normal("slots.0.account.limits"))
    )


@dataclasses.dataclass(slots=True, kw_only=True)
class Slot(Settings):
    """A slot for orders from outside the market, such as those of an environment's agent.

    Parameters
    ----------
    account : Account
        Endowment and limits.
    latency_ticks : int
        Ticks between sending an order and its arrival. 0 arrives at the start of the next tick.
    initial_margin_ppm : int
        Equity that positions and open orders need at least, as a fraction of their value in parts
        per million. 0 asks for none.
    """

    account: Account = dataclasses.field(default_factory=Account)
    latency_ticks: int = default("slots.0.latency_ticks")
    initial_margin_ppm: int = default("slots.0.initial_margin_ppm")


@dataclasses.dataclass(slots=True, kw_only=True)
class Fees(Settings):
    """Fees and borrowing costs, in parts per million: 1 basis point is 100.

    Parameters
    ----------
    maker_ppm : int
        Fee on the value of a resting order that trades; negative pays a rebate.
    taker_ppm : int
        Fee on the value of an incoming order that trades.
    borrow_ppm_per_day : int
        Cost of a borrowed share per day, on its value.
    """

    maker_ppm: int = default("fees.maker_ppm")
    taker_ppm: int = default("fees.taker_ppm")
    borrow_ppm_per_day: int = default("fees.borrow_ppm_per_day")


@dataclasses.dataclass(slots=True, kw_only=True)
class Features(Settings):
    """Settings of the features that observations show.

    Parameters
    ----------
    candle_ticks : int
        Ticks of one candle.
    reveal_fundamental : float, optional
        Standard deviation of the error, in the logarithm, with which the fundamental is shown. None
        shows the volume-weighted mean price in its place.
    """

    candle_ticks: int = default("features.candle_ticks")
    reveal_fundamental: float | None = default("features.reveal_fundamental")


@dataclasses.dataclass(slots=True, kw_only=True)
class Fundamental(Settings):
    """Hidden value of a share: a random walk with two-scale volatility and jumps.

    Parameters
    ----------
    volatility : float
        Root mean square of the logarithm's random-walk change in one tick.
    fast_ticks : float
        Mean-reversion time of the fast part of log-volatility, in ticks.
    fast_sd : float
        Stationary standard deviation of the fast part.
    slow_ticks : float
        Mean-reversion time of the slow part of log-volatility, in ticks.
    slow_sd : float
        Stationary standard deviation of the slow part.
    jumps_per_day : float
        Expected jumps per day.
    jump_sd : float
        Standard deviation of one jump of the logarithm.
    drift_per_day : float
        Drift of the logarithm per day.
    reversion_per_day : float
        Rate per day at which the logarithm returns to its start; 0 for a pure random walk.
    common : float
        Correlation between the values of two symbols, 0 to 1: the share of the random walk's
        variance, and of a night's, that all symbols have in common.
    """

    volatility: float = default("fundamental.volatility")
    fast_ticks: float = default("fundamental.fast_ticks")
    fast_sd: float = default("fundamental.fast_sd")
    slow_ticks: float = default("fundamental.slow_ticks")
    slow_sd: float = default("fundamental.slow_sd")
    jumps_per_day: float = default("fundamental.jumps_per_day")
    jump_sd: float = default("fundamental.jump_sd")
    drift_per_day: float = default("fundamental.drift_per_day")
    reversion_per_day: float = default("fundamental.reversion_per_day")
    common: float = default("fundamental.common")


@dataclasses.dataclass(slots=True, kw_only=True)
class News(Settings):
    """News: shocks to the fundamental with a sentiment that fades linearly.

    Parameters
    ----------
    symbol_per_day : float
        Expected events of one symbol per day.
    market_per_day : float
        Expected events per day that concern all symbols.
    shock_sd : float
        Standard deviation of the permanent change of the logarithm.
    rumour_share : float
        Fraction of the events of one symbol that do not change the value.
    life_ticks : float
        Mean life of an event, in ticks.
    sentiment_tilt : float
        Bias of noise orders towards buying at a sentiment of 1, and towards selling at -1; 0 to 1.
    """

    symbol_per_day: float = default("news.symbol_per_day")
    market_per_day: float = default("news.market_per_day")
    shock_sd: float = default("news.shock_sd")
    rumour_share: float = default("news.rumour_share")
    life_ticks: float = default("news.life_ticks")
    sentiment_tilt: float = default("news.sentiment_tilt")


@dataclasses.dataclass(slots=True, kw_only=True)
class Arousal(Settings):
    """Effect of recent price moves on how often background agents act.

    The rate at which agents wake up is multiplied by ``floor + fast * x + slow * y``, at most by
    ``ceiling``. ``x`` and ``y`` are a fast and a slow decaying mean of absolute changes of the
    mid-price in one tick, divided by ``typical``.

    Parameters
    ----------
    floor : float
        Factor while the price does not move.
    fast : float
        Weight of the fast mean.
    slow : float
        Weight of the slow mean.
    fast_ticks : float
        Time constant of the fast mean, in ticks.
    slow_ticks : float
        Time constant of the slow mean, in ticks.
    typical : float
        Change of the mid-price in one tick, in price ticks, that counts as 1.
    ceiling : float
        Largest factor.
    """

    floor: float = default("arousal.floor")
    fast: float = default("arousal.fast")
    slow: float = default("arousal.slow")
    fast_ticks: float = default("arousal.fast_ticks")
    slow_ticks: float = default("arousal.slow_ticks")
    typical: float = default("arousal.typical")
    ceiling: float = default("arousal.ceiling")


@dataclasses.dataclass(slots=True, kw_only=True)
class Latent(Settings):
    """Latent order book, which sets the price around which makers quote at the end of every tick.

    Makers share an opinion of the value. Orders that trade on arrival consume shares of the latent
    order book, and so displace the price from the opinion. At ``y`` price ticks from the opinion
    the latent order book has ``depth + slope * y`` shares in one price tick.

    Parameters
    ----------
    depth : float
        Shares in one price tick at the opinion. 0 turns the latent order book off: makers quote
        around the last mid-price, and requote when they wake up.
    slope : float
        Growth of the shares in one price tick with the distance in price ticks.
    recovery_ticks : float
        Ticks in which the consumed shares fall to 1/e.
    error_sd : float
        Standard deviation of the opinion's error, in the logarithm.
    error_ticks : float
        Time constant of the error, in ticks.
    """

    depth: float = default("latent.depth")
    slope: float = default("latent.slope")
    recovery_ticks: float = default("latent.recovery_ticks")
    error_sd: float = default("latent.error_sd")
    error_ticks: float = default("latent.error_ticks")


@dataclasses.dataclass(slots=True, kw_only=True)
class Session(Settings):
    """Trading days: their pattern, their auctions, and the nights between them.

    A day is a session of ``ticks`` ticks, at whose end all open orders are cancelled. The market
    never closes while the other settings are 0, which is the default; another ``ticks`` than the
    default is refused then.

    Parameters
    ----------
    ticks : int
        Ticks from the open to the close.
    u_shape : float
        Depth of the U over a day, 0 to 0.9. Agents act ``1 + 2 * u_shape`` times as often at the
        open and at the close, and ``1 - u_shape`` times as often in the middle; volatility has the
        same shape. The mean rate and the mean variance stay.
    auction_ticks : int
        Ticks of each auction, at open and close, less than half of ``ticks``. Orders wait for one
        common price. What does not trade is dropped. 0 if ``matching`` is a call auction, in which
        every tick is one.
    overnight_sd : float
        Standard deviation of the change of the value's logarithm over a night.

    Examples
    --------
    >>> from backcast import sim
    >>> config = sim.MarketConfig.preset("normal")
    >>> config.session = sim.Session(u_shape=0.4, auction_ticks=300, overnight_sd=0.01)
    >>> config.check()
    """

    ticks: int = default("session.ticks")
    u_shape: float = default("session.u_shape")
    auction_ticks: int = default("session.auction_ticks")
    overnight_sd: float = default("session.overnight_sd")


@dataclasses.dataclass(slots=True, kw_only=True)
class MarketConfig(Settings):
    """A market: symbols, agents, news, fees, and slots for orders from outside.

    Parameters
    ----------
    symbols : int
        Symbols, 1 to 64, each with a book, a fundamental and agents of its own.
    initial_price : int
        Price of every symbol at the start, in price ticks.
    tick_size : float
        Currency units in one price tick.
    book_levels : int
        Price levels of a book's window. Orders outside it are refused.
    book_orders : int
        Maximum number of resting orders in a book.
    matching : {"continuous", "call_auction", "call_auction_pro_rata"}
        A continuous double auction, or one call auction at the end of every tick. A call auction
        fills better prices first and divides among equal prices in proportion, or with
        ``"call_auction_pro_rata"`` among all orders that its price satisfies.
    fundamental : Fundamental
        Hidden value of a share.
    news : News
        Arrival and strength of news.
    arousal : Arousal
        Effect of price moves on how often agents act.
    latent : Latent
        Price around which makers quote.
    session : Session
        Pattern of a trading day, its auctions, and the nights.
    population : Population
        Background agents of every symbol.
    fees : Fees
        Fees and borrowing costs.
    lendable_shares : int
        Maximum shares of a symbol that all accounts together may be short, open sells included.
    slots : list of Slot
        Slots for orders from outside. An environment replaces the first ones by the accounts of its
        agents.
    features : Features
        Settings of the features.

    Examples
    --------
    >>> from backcast import sim
    >>> config = sim.MarketConfig.preset("calm")
    >>> config.symbols, config.population.maker.count = 2, 6
    >>> config.check()
    """

    symbols: int = default("symbols")
    initial_price: int = default("initial_price")
    tick_size: float = default("tick_size")
    book_levels: int = default("book_levels")
    book_orders: int = default("book_orders")
    matching: Matching = dataclasses.field(default_factory=lambda: normal("matching"))
    fundamental: Fundamental = dataclasses.field(default_factory=Fundamental)
    news: News = dataclasses.field(default_factory=News)
    arousal: Arousal = dataclasses.field(default_factory=Arousal)
    latent: Latent = dataclasses.field(default_factory=Latent)
    session: Session = dataclasses.field(default_factory=Session)
    population: Population = dataclasses.field(default_factory=Population)
    fees: Fees = dataclasses.field(default_factory=Fees)
    lendable_shares: int = default("lendable_shares")
    slots: list[Slot] = dataclasses.field(default_factory=lambda: [Slot()])
    features: Features = dataclasses.field(default_factory=Features)

    @staticmethod
    @explained
    def preset(name: str) -> MarketConfig:
        """Return the settings of a preset, to be changed.

        Parameters
        ----------
        name : str
            "calm", "normal", "stressed", "flash" or "teaching".

        Returns
        -------
        MarketConfig

        Raises
        ------
        SimError
            If there is no such preset.
        """
        return MarketConfig.of(market_preset(name))

    def check(self) -> None:
        """Refuse settings from which no market can be built, without building one.

        Raises
        ------
        SimError
            If no market can be built. The message names the setting, its value and the limits.
        """
        check_market(self.to_dict())
