"""Auction of the model: all orders that wait trade at one price."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby, pairwise

from market_model.book import BUY, SELL, Order


@dataclass(slots=True)
class Auction:
    """Orders that wait, in the order of their arrival."""

    orders: list[Order] = field(default_factory=list)

    def sums(self, price: int) -> dict[int, int]:
        """Return the shares of each side that would trade at a price."""
        return {
            side: sum(o.left for o in self.orders if o.side == side and o.side * o.price >= p)
            for side, p in ((BUY, price), (SELL, -price))
        }

    def price(self, last: int) -> int | None:
        """Return the price with the most shares: ties by imbalance, distance from `last`, price."""
        limits = sorted({order.price for order in self.orders})
        between = [
            min(max(last, low + 1), high - 1) for low, high in pairwise(limits) if high - low > 1
        ]

        def rank(price: int) -> tuple[int, int, int, int]:
            buy, sell = self.sums(price).values()
            return -min(buy, sell), abs(buy - sell), abs(price - last), price

        best = min([*limits, *between], key=rank, default=None)
        return best if best is not None and rank(best)[0] else None

    def fills(self, price: int) -> dict[int, int]:
        """Return the shares that each order gets, by its number: better prices first."""
        given = dict.fromkeys(range(len(self.orders)), 0)
        for side in (BUY, SELL):
            left = min(self.sums(price).values())
            for group in self.groups(side, price):
                give = min(left, sum(group.values()))
                left -= give
                given |= divided(give, group)
        return given

    def groups(self, side: int, price: int) -> Iterator[dict[int, int]]:
        """Yield the shares of the orders of a side that a price satisfies, price by price."""
        satisfied = [
            (-side * order.price, at)
            for at, order in enumerate(self.orders)
            if order.side == side and side * (order.price - price) >= 0
        ]
        for _, group in groupby(sorted(satisfied), key=lambda each: each[0]):
            yield {at: self.orders[at].left for _, at in group}


def divided(shares: int, wanted: dict[int, int]) -> dict[int, int]:
    """Divide shares in proportion; the largest remainders get those that are left, one each."""
    total = sum(wanted.values())
    parts = {at: divmod(left * shares, total) for at, left in wanted.items()}
    rest = shares - sum(whole for whole, _ in parts.values())
    lucky = sorted(parts, key=lambda at: (-parts[at][1], at))[:rest]
    return {at: whole + (at in lucky) for at, (whole, _) in parts.items()}
