"""Plain accounting of one agent in a trading environment: from fills and prices alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from backcast.envs import Fill

from market_model.ledger import CASH_PER_TICK, DAY_TICKS, PPM, closing, fee_of, round_up

TICK_SIZE = 0.01
UNIT = TICK_SIZE / CASH_PER_TICK
LEAST = 1e-4

Levels = list[tuple[int, int]]


@dataclass(slots=True)
class Prices:
    """Book of one symbol after a tick: bids, asks, and twice the mid-price, in price ticks."""

    bids: Levels
    asks: Levels
    twice_mid: int

    @classmethod
    def of(cls, book: tuple[Any, Any], before: int) -> Prices:
        """Read a book; the mid-price stays as `before` while a side is empty."""
        bids, asks = (
            [(round(price / TICK_SIZE), int(shares)) for price, shares in side.tolist()]
            for side in book
        )
        return cls(bids, asks, bids[0][0] + asks[0][0] if bids and asks else before)


@dataclass(slots=True)
class Accounting:
    """Cash in cash units, shares of each symbol, and what they are worth."""

    fees: dict[str, int]
    mark: str
    maintenance: float
    cash: int
    shares: list[int]
    prices: list[Prices]
    accrued: int = 0
    borrowing: int = 0
    paid: int = 0
    traded: int = 0
    count: int = 0
    start: float = field(init=False)
    last: float = field(init=False)

    def __post_init__(self) -> None:
        """Take the equity at the start."""
        self.start = self.last = self.equity(self.mark)

    def enter(self, fills: Sequence[Fill]) -> None:
        """Book the fills of a step, with fees by the rates of the market."""
        for fill in fills:
            notional = round(fill.price / TICK_SIZE) * abs(fill.shares) * CASH_PER_TICK
            fee = fee_of(notional, self.fees["maker_ppm" if fill.maker else "taker_ppm"])
            assert abs(fill.fee - fee * UNIT) < 1e-9, fill
            self.cash -= int(math.copysign(notional, fill.shares)) + fee
            self.shares[fill.symbol] += fill.shares
            self.paid += fee
            self.traded += notional
            self.count += 1

    def close_tick(self, prices: list[Prices]) -> None:
        """End a tick: borrowed shares cost their value at the new mid-prices."""
        self.prices = prices
        for held, price in zip(self.shares, prices, strict=True):
            value = max(0, -held) * price.twice_mid * CASH_PER_TICK // 2
            self.accrued += value * self.fees["borrow_ppm_per_day"]
        cost = round_up(self.accrued, PPM * DAY_TICKS) - self.borrowing
        self.borrowing += cost
        self.cash -= cost

    def at_mid(self) -> list[int]:
        """Return the value of each position at the mid-price."""
        pairs = zip(self.shares, self.prices, strict=True)
        return [held * price.twice_mid * CASH_PER_TICK // 2 for held, price in pairs]

    def equity(self, mark: str) -> float:
        """Return cash and positions in currency units."""
        values = self.at_mid()
        if mark == "liquidation":
            ppm = self.fees["taker_ppm"]
            values = [
                closing(held, doubled(price.bids if held > 0 else price.asks), price.twice_mid, ppm)
                for held, price in zip(self.shares, self.prices, strict=True)
            ]
        return (self.cash + sum(values)) * UNIT

    def reserved(self, orders: Iterable[tuple[int, int]]) -> int:
        """Return the cash that open orders, shares and price ticks of each, set aside for buys."""
        notionals = [price * shares * CASH_PER_TICK for shares, price in orders if shares > 0]
        return sum(value + max(0, fee_of(value, self.fees["maker_ppm"])) for value in notionals)

    def gross(self) -> float:
        """Return the values of all positions at the mid-price, long and short, in currency."""
        return sum(map(abs, self.at_mid())) * UNIT

    def judge(self) -> tuple[float, bool]:
        """Return the equity after a step, and whether there is a margin call."""
        equity = self.equity(self.mark)
        called = equity < self.maintenance * self.gross()
        return (self.equity("liquidation") if called else equity), called

    def reward(self, scale: str, before: float, after: float) -> float:
        """Return the reward of a step."""
        if scale == "currency":
            return after - before
        if scale == "initial_equity":
            return (after - before) / self.start
        least = LEAST * self.start
        return math.log(max(after, least)) - math.log(max(before, least))


@dataclass(slots=True)
class OrderLog:
    """Shares left of each order by its id, from commands, fills and refusals alone."""

    orders: dict[int, tuple[int, int, int]] = field(default_factory=dict)

    def send(self, symbol: int, command: Sequence[int], order: int) -> None:
        """Enter a command with the id in its row: symbol, signed shares left, and limit."""
        kind, price, shares, _ = command
        assert (order >= 0) == (kind in (1, 2)), (command, order)
        if order >= 0:
            assert order not in self.orders
            self.orders[order] = symbol, shares if kind == 1 else -shares, price

    def refuse(self, command: Sequence[int], order: int, refused: int) -> None:
        """Enter what a row says about a refusal of its command."""
        kind, _, _, named = command
        if refused < 0:
            return
        assert refused == (order if order >= 0 else named), (command, order, refused)
        assert kind in (1, 2, 3), command
        if order >= 0:
            del self.orders[order]

    def fill(self, fill: Fill) -> None:
        """Enter a fill, which has to fit its order."""
        symbol, left, limit = self.orders[fill.order]
        sign = 1 if left > 0 else -1
        assert symbol == fill.symbol
        assert 0 < fill.shares * sign <= left * sign, (fill, left)
        assert (round(fill.price / TICK_SIZE) - limit) * sign <= 0, (fill, limit)
        self.orders[fill.order] = symbol, left - fill.shares, limit

    def compare(self, rows: Iterable[tuple[int, Sequence[int]]]) -> None:
        """Compare with the open orders of each symbol, and forget those that have left."""
        known = self.orders
        self.orders = {order: known[order] for _, (order, *_) in rows if order >= 0}
        for symbol, (order, shares, price, _) in rows:
            assert order < 0 or known[order] == (symbol, shares, price), (order, known[order])


def doubled(levels: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return levels with twice their prices."""
    return [(2 * price, shares) for price, shares in levels]
