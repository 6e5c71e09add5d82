"""One stored transition, of many environments or of one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class VecStoredTransition:
    """A transition as the buffer stores it: a copy, the caller's own.

    Parameters
    ----------
    env_id : int
        Number of the environment in the batch.
    state_day, next_state_day : int
        Days of the market.
    tickers : list of str
        Tickers of the portfolio, ``T``.
    state_cash, next_state_cash : float
        Currency units.
    state_shares, next_state_shares : list of int
        Per ticker.
    state_avg_buy_price, next_state_avg_buy_price : list of float
        Per share with fees, 0 without shares.
    action : list of float
        Flat, in C order.
    rewards : list of float
        One per objective.
    done : bool
        The episode was over.
    terminal : bool
        It was over because the data or ``max_episode_steps`` ended: ``truncated``.
    terminated : bool
        It was over because the portfolio fell to the threshold: no value follows.
    truncated : bool
        It was over because the data or ``max_episode_steps`` ended: the next state has a value.
        Both can be true.
    """

    env_id: int
    state_day: int
    next_state_day: int
    tickers: list[str]
    state_cash: float
    next_state_cash: float
    state_shares: list[int]
    next_state_shares: list[int]
    state_avg_buy_price: list[float]
    next_state_avg_buy_price: list[float]
    action: list[float]
    rewards: list[float]
    done: bool
    terminal: bool
    terminated: bool
    truncated: bool


@dataclass
class StoredTransition(VecStoredTransition):
    """A transition as the buffer of a single environment stores it: a copy, the caller's own.

    Parameters
    ----------
    env_id : int
        0, except in a shared buffer to which a vector of environments adds too.
    state_day, next_state_day : int
        Days of the market.
    tickers : list of str
        Tickers of the portfolio, ``T``.
    state_cash, next_state_cash : float
        Currency units.
    state_shares, next_state_shares : list of int
        Per ticker.
    state_avg_buy_price, next_state_avg_buy_price : list of float
        Per share with fees, 0 without shares.
    action : list of float
        Flat, in C order.
    rewards : list of float
        One per objective.
    done : bool
        The episode was over.
    terminal : bool
        It was over because the data or ``max_episode_steps`` ended: ``truncated``.
    terminated : bool
        It was over because the portfolio fell to the threshold: no value follows.
    truncated : bool
        It was over because the data or ``max_episode_steps`` ended: the next state has a value.
        Both can be true.
    """
