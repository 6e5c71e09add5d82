"""Order book of the model: price-time priority in a window of prices."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

BUY, SELL = 1, -1
HIGHEST_LOW = 90_000_000


@dataclass(eq=False, slots=True)
class Order:
    """One order: `left` shares at `price`, entered in tick `born`."""

    account: int
    side: int
    price: int
    left: int
    born: int


class Trade(NamedTuple):
    """Shares traded with a resting order, at its price."""

    resting: Order
    quantity: int


class Book:
    """Resting orders by side and price, the oldest first at each price."""

    def __init__(self, levels: int, centre: int) -> None:
        self.width = levels
        self.levels: dict[int, dict[int, list[Order]]] = {BUY: {}, SELL: {}}
        # Prices of each side as `-side * price`, so that the best price is the first one.
        self.keys: dict[int, list[int]] = {BUY: [], SELL: []}
        self.low = self.low_for(centre)

    def low_for(self, centre: int) -> int:
        """Return the lowest price of a window around a price."""
        return min(max(centre - self.width // 2, 1), HIGHEST_LOW)

    def holds(self, price: int) -> bool:
        """Tell whether a price is in the window."""
        return self.low <= price < self.low + self.width

    def best(self, side: int) -> int | None:
        """Return the best price of a side, or None if it is empty."""
        return -side * self.keys[side][0] if self.keys[side] else None

    def meets(self, side: int, price: int) -> bool:
        """Tell whether an order of `side` at `price` meets the other side."""
        other = self.best(-side)
        return other is not None and side * (price - other) >= 0

    def orders(self, side: int) -> Iterator[Order]:
        """Yield the orders of a side in the sequence in which they would trade."""
        for at in self.keys[side]:
            yield from self.levels[side][-side * at]

    def depth(self, side: int, levels: int | None = None) -> list[tuple[int, int]]:
        """Return price and shares of the best levels, from the touch outwards."""
        prices = [-side * at for at in self.keys[side][:levels]]
        return [(at, sum(order.left for order in self.levels[side][at])) for at in prices]

    def rest(self, order: Order) -> None:
        """Add an order behind all others of its price."""
        level = self.levels[order.side].setdefault(order.price, [])
        if not level:
            insort(self.keys[order.side], -order.side * order.price)
        level.append(order)

    def remove(self, order: Order) -> None:
        """Take an order out of the book."""
        level = self.levels[order.side][order.price]
        level.remove(order)
        if not level:
            del self.levels[order.side][order.price]
            keys = self.keys[order.side]
            del keys[bisect_left(keys, -order.side * order.price)]

    def match(self, order: Order) -> tuple[list[Trade], list[Order]]:
        """Trade an incoming order. Return its trades, and the own orders that it cancelled."""
        trades: list[Trade] = []
        cancelled: list[Order] = []
        while order.left and self.meets(order.side, order.price):
            resting = next(self.orders(-order.side))
            if resting.account == order.account:
                self.remove(resting)
                cancelled.append(resting)
                continue
            quantity = min(order.left, resting.left)
            order.left -= quantity
            resting.left -= quantity
            trades.append(Trade(resting, quantity))
            if not resting.left:
                self.remove(resting)
        return trades, cancelled

    def follow(self, mid: float, value: float) -> list[Order]:
        """Move the window if the price is in its outer quarters. Return the orders outside it.

        While a side is empty, the fundamental value counts in place of the price.
        """
        has_mid = self.best(BUY) is not None and self.best(SELL) is not None
        centre, edge = int(mid if has_mid else value), (self.width - 1) // 4
        if self.low + edge <= centre <= self.low + self.width - 1 - edge:
            return []
        self.low = self.low_for(centre)
        outside = [o for side in (BUY, SELL) for o in self.orders(side) if not self.holds(o.price)]
        for order in outside:
            self.remove(order)
        return outside
