"""Accounts of the model: cash, shares, fees, borrowing, and the checks of an order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from market_model.book import BUY, SELL, Order

CASH_PER_TICK = 100
DAY_TICKS = 23_400
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
    # Initial margin asked, and borrowing costs in parts of a cash unit, before they are rounded up.
    margin_ppm: int = 0
    accrued: int = 0
    # Tick, side, price and shares of the last fill.
    last: tuple[int, int, int, int] | None = None
    totals: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(
            ("realised", "fees", "borrowing", "bought", "sold", "fills", "refused"), 0
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


def closing(position: int, levels: Iterable[tuple[int, int]], twice_mid: int, ppm: int) -> int:
    """Return what closing a position brings, the taker fee paid on each price.

    `levels` are twice the prices, and shares, that would take it, from the touch outwards. Shares
    beyond the last of them count at its price, or at the mid-price if there is none.
    """
    side = BUY if position > 0 else SELL
    left, last = abs(position), twice_mid
    parts = []
    for twice, shares in levels:
        last = twice
        parts.append((min(left, shares), last))
        left -= parts[-1][0]
        if not left:
            break
    values = [shares * twice * CASH_PER_TICK // 2 for shares, twice in [*parts, (left, last)]]
    return sum(side * value - fee_of(value, ppm) for value in values)


def round_up(value: int, divisor: int) -> int:
    """Return a quotient, rounded up."""
    return -(-value // divisor)


class Ledger:
    """All accounts of a market with one symbol."""

    def __init__(self, config: dict[str, Any], accounts: list[dict[str, Any]]) -> None:
        self.fees, self.lendable, self.now = config["fees"], config["lendable_shares"], 0
        self.largest_ppm = max(0, self.fees["maker_ppm"], self.fees["taker_ppm"])
        self.accounts = [Account(a["cash"], a["shares"], a["limits"]) for a in accounts]
        self.accounts[0].margin_ppm = config["slots"][0]["initial_margin_ppm"]
        self.mid = float(config["initial_price"])
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
            if needed > account.cash - self.reserved(account):
                return True
            return self.beyond_margin(account, order)
        if account.shares[SELL] + order.left - account.position > account.limits["short"]:
            return True
        if self.beyond_margin(account, order):
            return True
        more = account.borrowed(order.left) - account.borrowed()
        if not more or not self.scarce:
            return False
        left: int = self.lendable - sum(each.borrowed() for each in self.accounts)
        return more > max(0, left)

    def beyond_margin(self, account: Account, order: Order) -> bool:
        """Tell whether the equity does not cover the position that an order could lead to."""
        if not account.margin_ppm:
            return False
        share = int(2 * self.mid) * CASH_PER_TICK // 2
        equity = max(0, account.cash + account.position * share)
        covered = equity * PPM // account.margin_ppm // share
        if order.side == SELL:
            return account.shares[SELL] + order.left - account.position > covered
        could_be_short = account.shares[SELL] > account.position
        return could_be_short and account.position + account.shares[BUY] + order.left > covered

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

    def charge_borrowing(self) -> None:
        """Charge every short position for one tick: the sum accrued is rounded up."""
        for account in self.accounts:
            value = max(0, -account.position) * int(2 * self.mid) * CASH_PER_TICK // 2
            account.accrued += value * self.fees["borrow_ppm_per_day"]
            cost = round_up(account.accrued, PPM * DAY_TICKS) - account.totals["borrowing"]
            account.totals["borrowing"] += cost
            account.cash -= cost
