"""Accounts of the model: cash, shares, fees, borrowing, and the checks of an order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from market_model.book import BUY, SELL, Order

CASH_PER_TICK = 100
DAY_TICKS = 23_400
BORROW_TICKS = 60
PPM = 1_000_000
PLACES = 8


@dataclass(slots=True)
class Account:
    """Cash in cash units, a position, open orders in eight places, and totals."""

    cash: int
    position: int
    limits: dict[str, int]
    places: list[Order | None] = field(default_factory=lambda: [None] * PLACES)
    # Shares in open orders, by side.
    shares: dict[int, int] = field(default_factory=lambda: {BUY: 0, SELL: 0})
    cost: int = 0
    # Tick, side, price and shares of the last fill.
    last: tuple[int, int, int, int] | None = None
    totals: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(
            ("realised", "fees", "bought", "sold", "fills", "refused"), 0
        )
    )

    def open(self) -> list[Order]:
        """Return the open orders in the sequence of their places."""
        return [order for order in self.places if order is not None]

    def opened(self, place: int, order: Order) -> None:
        """Add an order that rests now."""
        self.places[place] = order
        self.shares[order.side] += order.left

    def dropped(self, order: Order) -> None:
        """Free the place of an order that is no longer in the book."""
        self.places[self.places.index(order)] = None
        self.shares[order.side] -= order.left

    def borrowed(self, more: int = 0) -> int:
        """Return the shares short if all open sells and `more` shares traded, but no open buy."""
        return max(0, self.shares[SELL] + more - self.position)


def fee_of(notional: int, ppm: int) -> int:
    """Return the fee on a notional, rounded towards zero, as a rebate is too."""
    size = notional * abs(ppm) // PPM
    return size if ppm >= 0 else -size


def round_up(value: int, divisor: int) -> int:
    """Return a quotient, rounded up."""
    return -(-value // divisor)


class Ledger:
    """All accounts of a market with one symbol."""

    def __init__(self, config: dict[str, Any], accounts: list[dict[str, Any]]) -> None:
        self.fees, self.lendable, self.now = config["fees"], config["lendable_shares"], 0
        self.largest_ppm = max(0, self.fees["maker_ppm"], self.fees["taker_ppm"])
        self.accounts = [Account(a["cash"], a["shares"], a["limits"]) for a in accounts]
        for account in self.accounts:
            account.cost = abs(account.position) * config["initial_price"] * CASH_PER_TICK
        # The lender cannot run out if its shares cover the short limits of all accounts.
        self.scarce: bool = sum(a["limits"]["short"] for a in accounts) > self.lendable

    def reserved(self, account: Account) -> int:
        """Return the cash that the open buys of an account need, as resting orders."""
        bids = [o.price * o.left * CASH_PER_TICK for o in account.open() if o.side == BUY]
        return sum(bid + max(0, fee_of(bid, self.fees["maker_ppm"])) for bid in bids)

    def refuses(self, order: Order, worst: Callable[[], int]) -> bool:
        """Tell whether an order may not enter. `worst` gives the highest price of a buy."""
        account = self.accounts[order.account]
        if order.left > account.limits["order"] or None not in account.places:
            return True
        if order.side == BUY:
            if account.position + account.shares[BUY] + order.left > account.limits["long"]:
                return True
            notional = worst() * order.left * CASH_PER_TICK
            needed = notional + fee_of(notional, self.largest_ppm)
            return needed > account.cash - self.reserved(account)
        if account.shares[SELL] + order.left - account.position > account.limits["short"]:
            return True
        more = account.borrowed(order.left) - account.borrowed()
        if not more or not self.scarce:
            return False
        left: int = self.lendable - sum(each.borrowed() for each in self.accounts)
        return more > max(0, left)

    def fill(self, number: int, side: int, price: int, quantity: int, ppm: int) -> None:
        """Book one fill: cash, fee, shares, and the profit against the mean cost."""
        account, totals = self.accounts[number], self.accounts[number].totals
        fee = fee_of(price * quantity * CASH_PER_TICK, ppm)
        account.cash -= side * price * quantity * CASH_PER_TICK + fee
        totals["fees"] += fee
        totals["fills"] += 1
        totals["bought" if side == BUY else "sold"] += quantity
        held = abs(account.position)
        closed = min(quantity, held) if account.position * side < 0 else 0
        if closed:
            released = account.cost * closed // held
            account.cost -= released
            totals["realised"] += -side * (price * closed * CASH_PER_TICK - released)
        account.cost += price * (quantity - closed) * CASH_PER_TICK
        account.position += side * quantity
        account.last = (self.now, side, price, quantity)

    def charge_borrowing(self, mid: float) -> None:
        """Charge every short position for the last 60 ticks, each rounded up to a cash unit."""
        for account in self.accounts:
            value = max(0, -account.position) * int(mid) * CASH_PER_TICK
            cost = value * self.fees["borrow_ppm_per_day"] * BORROW_TICKS
            account.cash -= round_up(cost, PPM * DAY_TICKS)
