"""Settings of the portfolio environments, the single and the vector one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Literal, TypeAlias, TypedDict

import numpy as np
from numpy.typing import ArrayLike

from backcast.envs._portfolio_rules import Actions, Margin, Reward

Day: TypeAlias = int | str | date | np.datetime64
_Days: TypeAlias = tuple[Day | None, Day | None]
Bidding = Literal["default", "deterministic", "uniform", "adv_uniform"]
StopLossPrice = Literal["close", "low"]
StopLossDay = Literal["same", "next", "same_always"]
Valuation = Literal["open", "close"]
Delisting = Literal["settle", "hold"]


class PortfolioSettings(TypedDict, total=False):
    """Settings of a portfolio environment, all of them keywords with a default.

    Attributes
    ----------
    max_episode_steps : int, optional
        Steps after which an episode is truncated; also if ``gym.make`` is called with it. A
        ``TimeLimit`` of your own is not seen: call ``metrics_so_far`` then.
    initial_amount : float, default 30000
        Cash at the start of an episode.
    failure_threshold : float, default 25000
        An episode is terminated when the portfolio, valued at the close, falls to this or below.
    actions : {"shares", "weights", "discrete"}, Weights or Discrete
        Numbers of an action, one for each ticker. ``"shares"``: from -1 to 1, an order of that
        fraction of `hmax`. ``"weights"``: the fractions of the equity to hold, which sum up to at
        most 1 and are scaled to that otherwise. ``"discrete"``: 0 sells `hmax` shares, 1 holds, 2
        buys.
    hmax : int, default 15
        Shares traded by an action of 1. Not used with weights.
    fractional : bool, default False
        Positions may be fractions of a share. Otherwise orders are cut to whole shares.
    margin : Margin, optional
        Allows short positions and loans, on these terms. By default nothing is sold that is not
        held, and cash is never below 0.
    max_position : float, optional
        Largest value of a position as a fraction of the equity at the close, before the orders.
        Orders that make a position smaller are not cut.
    max_volume : float, optional
        Largest order as a fraction of the volume of its bar, in ``(0, 1]``.
    buy_cost_pct, sell_cost_pct : float, default 0.01
        Fees as fractions of the value traded; 0.01 is one percent.
    ticker_costs : mapping of str to (float, float), optional
        Other fees of single tickers, ``{"AAA": (buy, sell)}``.
    fixed_fee : float, default 0
        Fee of every executed order, in cash, besides the fraction.
    slippage_bps : float, default 0
        Hundredths of a percent by which purchases cost more, and sales bring less, than the price:
        half a spread in basis points.
    slippage_per_share : float, default 0
        Cash by which a share costs more, or brings less, besides.
    impact_bps : float, default 0
        Hundredths of a percent by which an order of the whole volume of its bar moves its own
        price. It grows with the square root of the share of the volume.
    dividends, splits : str, optional
        Columns of the panel, whose days are ex-dates. A dividend is the cash that a share pays to
        its holder; short positions are charged. A split is the number of shares that one share
        becomes; 0 and 1 are none.
    bidding : {"default", "uniform", "adv_uniform"}
        Orders are filled at the close (also called "deterministic"); at a price drawn between low
        and high; or at one drawn to the trader's disadvantage, for sales from low to the lesser of
        open and close, for purchases from the greater of them to high.
    stop_loss_tolerance : float, default 0
        A holding is sold when its price falls below this fraction of the average price paid, fees
        included; 0: never.
    stop_loss_calculation : {"close", "low"}
        Price that is compared. The sale is filled like others. On the same day the low of a holding
        that was bought or added to is ignored, because it may precede the purchase.
    stop_loss_day : {"same", "next", "same_always"}
        When the price is compared. ``"same"``: right after the orders of a day. ``"next"``: on the
        next day before that day is observed, which is look-ahead, since cash and shares then depend
        on its close. ``"same_always"``: as ``"same"``, but also the low of a day of purchase.
    tickers : sequence of str, optional
        Tickers to trade, in the order of actions; all but macro tickers when left out. ``T`` of
        them.
    tradable : array_like of bool, shape (tickers, days) or (tickers,), optional
        Mask of the panel's tickers, macro ones included, and days that can be traded.
    delisting : {"settle", "hold"}
        Policy for a holding whose ticker has its last row before the panel ends. It is turned into
        cash at the close of that day, after the day's orders and without a fee. Or it is kept,
        cannot be sold, and is worth that close from then on.
    initial_shares : mapping of str to int, optional
        Shares held at the start of an episode, of tickers that are traded or may be drawn; their
        average price is the open of that day.
    indicators : sequence of str, optional
        Indicators to show, in this order, ``K`` of them; by default all of the panel's.
    macro_tickers : sequence of str, optional
        Macro tickers of the panel whose opens and indicators are shown, ``M`` of them.
    days : tuple, optional
        Days of the panel to use, half open; all when left out. Positions, or dates and times as
        ``panel.position`` takes them: ``("2015-01-01", "2020-01-01")``. None is the panel's edge.
        Also the ``train`` of a fold that has one range.
    indicator_lag : int, default 1
        Days by which the indicators are older than the open. 0 is look-ahead.
    valuation : {"open", "close"}, optional
        Price of its day at which an observation's ``total_asset`` values holdings. By default the
        open, or the close if `indicator_lag` is 0. The close is look-ahead.
    history : int, default 0
        Days before the current one to show, ``H``: every column of the panel.
    history_length : int, default 0
        Days before the first day of an episode on which every ticker has a row, where the data
        allow it. Values below `history` count as `history`.
    reward : str, DifferentialSharpe, Drawdown, Excess or callable
        Reward of a step: ``"log_return"`` (the default), ``"pnl"``, ``"differential_sharpe"``,
        ``"drawdown"``, one of these objects, or a function. It gets a :class:`PortfolioStep` once a
        step, for all portfolios, and returns ``N`` numbers.
    step_info : bool, default False
        Adds to infos, by portfolio and ticker, ``orders`` and ``fills`` in units and ``limits``,
        the rule that cut each order (:class:`OrderLimit`). By portfolio: ``costs`` by kind
        (``fees``, ``slippage``, ``impact``, ``borrow``, ``interest``), ``dividends`` and
        ``liquidated``.
    record : bool, default False
        Keep every step of an episode, and of the one before, for ``history``.
    """

    max_episode_steps: int | None
    initial_amount: float
    failure_threshold: float
    actions: Actions
    hmax: int
    fractional: bool
    margin: Margin | None
    max_position: float | None
    max_volume: float | None
    buy_cost_pct: float
    sell_cost_pct: float
    ticker_costs: Mapping[str, tuple[float, float]] | None
    fixed_fee: float
    slippage_bps: float
    slippage_per_share: float
    impact_bps: float
    dividends: str | None
    splits: str | None
    bidding: Bidding
    stop_loss_tolerance: float
    stop_loss_calculation: StopLossPrice
    stop_loss_day: StopLossDay
    tickers: Sequence[str] | None
    tradable: ArrayLike | None
    delisting: Delisting
    initial_shares: Mapping[str, int] | None
    indicators: Sequence[str] | None
    macro_tickers: Sequence[str]
    days: _Days | tuple[_Days, ...] | list[Day | None] | None
    indicator_lag: int
    valuation: Valuation | None
    history: int
    history_length: int
    reward: Reward
    step_info: bool
    record: bool
