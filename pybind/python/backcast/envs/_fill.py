"""One fill of an agent's order in a simulated market."""

from __future__ import annotations

from dataclasses import dataclass


# Not frozen: a step makes a few, and a frozen one takes longer to make.
@dataclass(slots=True)
class Fill:
    """One fill of an agent's order, as ``info["fill_records"]`` and rewards show it.

    Parameters
    ----------
    tick : int
        Tick of the trade.
    symbol : int
        Symbol.
    shares : int
        Shares; negative if they were sold.
    price : float
        Price in currency units.
    fee : float
        Fee in currency units; negative is a rebate.
    maker : bool
        True if the order was resting, and for all fills of a call auction.
    order : int, default -1
        Id of the order. With ``actions="limit_orders"`` that of ``info["order_ids"]``; with other
        actions a number that tells the orders of an episode apart.
    """

    tick: int
    symbol: int
    shares: int
    price: float
    fee: float
    maker: bool
    order: int = -1
