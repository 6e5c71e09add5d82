"""A market of the model: one symbol, moved forward one tick at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from market_model.agents import Agent, Executor, Maker, Noise, Signal, Value
from market_model.auction import Auction
from market_model.book import BUY, SELL, Book, Order
from market_model.ledger import CASH_PER_TICK, Ledger, closing
from market_model.session import Session
from market_model.streams import Stream, key, mix
from market_model.tape import Tape
from market_model.value import ANALYST_TICKS, Fundamental, Opinion

ANY_PRICE = {BUY: 2**31 - 1, SELL: 1}


class Market:
    """Book, ledger, tape, hidden value and agents. Account 0 is the slot."""

    def __init__(
        self, config: dict[str, Any], seed: int, others: list[dict[str, Any]] | None = None
    ) -> None:
        self.config, self.now = config, 0
        population = config["population"]
        kinds = (Maker, Noise, Value, Signal, Executor)
        outside = [config["slots"][0]["account"], *(others or [])]
        inside = sum(population[kind.archetype]["count"] for kind in kinds)
        self.book = Book(config["book_levels"], config["initial_price"])
        self.ledger = Ledger(config, outside + [population] * inside)
        self.tape, self.auction = Tape(config), Auction()
        self.session = Session(config["session"])
        # Twice the mid-price and the orders of the book when a session emptied it.
        self.last_quotes: tuple[int, list[tuple[int, int, int, int]]] = (0, [])
        self.fundamental = Fundamental(config, seed)
        reveal = config["features"]["reveal_fundamental"]
        self.analyst = reveal and Opinion(reveal, ANALYST_TICKS, Stream(seed, "analyst"))
        latent = config["latent"]
        self.latent = latent if latent["depth"] else None
        self.consensus = Opinion(
            latent["error_sd"], latent["error_ticks"], Stream(seed, "consensus")
        )
        self.turn_key = key(seed, "turn", 0)
        self.agents: list[Agent] = []
        self.wake: list[float] = []
        for kind in kinds:
            for ordinal in range(population[kind.archetype]["count"]):
                agent = kind(self, len(outside) + len(self.agents), ordinal, seed)
                self.agents.append(agent)
                asleep = self.latent and kind is Maker
                self.wake.append(math.inf if asleep else agent.stream.wait(agent.first_wait()))

    def tick(self, requests: Callable[[], None] = lambda: None) -> None:
        """Move forward by one tick. `requests` sends the orders from outside."""
        self.now += 1
        self.ledger.now = self.now
        self.tape.begin()
        self.fundamental.step(self.now)
        requests()
        turns = mix(self.turn_key ^ self.now)
        due = [at for at, wake in enumerate(self.wake) if wake <= self.now]
        for at in sorted(due, key=lambda at: self.turn(turns, at)):
            agent = self.agents[at]
            mean = agent.act() / (self.tape.arousal() * self.session.activity(self.now))
            self.wake[at] = self.now + agent.stream.wait(max(mean, 1.0))
        if self.latent:
            self.quote(self.latent, mix(turns))
        if self.session.called(self.now):
            self.call()
        one = self.tape.last if self.waits() else None
        self.tape.end(one or self.book.best(BUY), one or self.book.best(SELL))
        if self.analyst:
            self.analyst.step()
        for order in self.book.follow(self.tape.mid, self.fundamental.value):
            self.dropped(order)
        if self.session.expires(self.now):
            self.last_quotes = (
                int(2 * self.tape.mid),
                [
                    (o.side, o.price, o.left, o.account)
                    for side in (BUY, SELL)
                    for o in self.book.orders(side)
                ],
            )
            for number in range(len(self.ledger.accounts)):
                self.cancel_all(number)
        self.ledger.mid = self.tape.mid
        self.ledger.charge_borrowing()

    def waits(self) -> bool:
        """Tell whether orders wait for an auction."""
        return self.session.auction(self.now)

    def call(self) -> None:
        """Hold the auction: the side with fewer shares trades all of them; the rest is dropped."""
        price = self.auction.price(self.tape.last)
        orders, ppm = self.auction.orders, self.config["fees"]["maker_ppm"]
        if price is not None:
            sums, given = self.auction.sums(price), self.auction.fills(price)
            for order, shares in zip(orders, given.values(), strict=True):
                if shares:
                    self.ledger.fill(order.account, order.side, price, shares, ppm)
            self.tape.cross(BUY if sums[BUY] >= sums[SELL] else SELL, min(sums.values()), price)
        for order in orders:
            self.dropped(order)
        self.auction = Auction()

    def turn(self, turns: int, at: int) -> tuple[int, int]:
        """Return the sort key of an agent's turn."""
        return mix(turns ^ self.agents[at].identity) >> 16, at

    def quote(self, latent: dict[str, float], draw: int) -> None:
        """Let all makers quote around the latent price, one after the other."""
        self.consensus.step()
        opinion = self.consensus.of(self.fundamental.value)
        price = opinion + displacement(latent, self.tape.consumed)
        self.tape.consumed -= self.tape.consumed / latent["recovery_ticks"]
        makers = [agent for agent in self.agents if isinstance(agent, Maker)]
        for number, maker in enumerate(makers):
            maker.withdraw(price, (number + 0.5) / len(makers) - 0.5)
        for turn in range(len(makers)):
            makers[((draw & 0xFFFF) % len(makers) + turn) % len(makers)].quote()

    def submit(
        self,
        number: int,
        side: int,
        quantity: int,
        price: int | None,
        kind: str,
        *,
        pushes: bool = True,
    ) -> None:
        """Send an order of an account: "limit", "marketable" or "post_only"."""
        account = self.ledger.accounts[number]
        limit = ANY_PRICE[side] if price is None else price
        if self.waits() and kind == "marketable" and side == BUY:
            limit = min(limit, self.book.low + self.book.width - 1)
        order = Order(number, side, limit, quantity, self.now)
        if limit < 1 or self.ledger.refuses(order, lambda: self.worst(order, kind)):
            account.totals["refused"] += 1
            return
        rests = kind != "marketable"
        crosses = kind == "post_only" and self.book.meets(side, limit)
        if (crosses and not self.waits()) or (rests and not self.book.holds(limit)):
            account.totals["refused"] += 1
            return
        if self.waits():
            account.opened(account.places.index(None), order)
            self.auction.orders.append(order)
            return
        place = account.places.index(None)
        trades, cancelled = self.book.match(order)
        for own in cancelled:
            self.dropped(own)
        fees = self.config["fees"]
        for resting, traded in trades:
            self.ledger.fill(resting.account, -side, resting.price, traded, fees["maker_ppm"])
            self.ledger.fill(number, side, resting.price, traded, fees["taker_ppm"])
            self.ledger.accounts[resting.account].shares[-side] -= traded
            if not resting.left:
                self.dropped(resting)
        if trades:
            self.tape.arrive(side, trades, pushes=pushes)
        if order.left and rests:
            self.book.rest(order)
            account.opened(place, order)

    def worst(self, order: Order, kind: str) -> int:
        """Return the highest price at which a buy may trade."""
        if kind != "marketable" or self.waits():
            return order.price
        left, worst = order.left, 0
        for ask in self.book.orders(SELL):
            if ask.price > order.price or left <= 0:
                break
            if ask.account != order.account:
                worst, left = ask.price, left - ask.left
        return worst

    def dropped(self, order: Order) -> None:
        """Tell its account that an order is no longer in the book."""
        self.ledger.accounts[order.account].dropped(order)

    def cancel(self, order: Order) -> None:
        """Cancel one order."""
        if self.waits():
            self.auction.orders.remove(order)
        else:
            self.book.remove(order)
        self.dropped(order)

    def cancel_all(self, number: int) -> None:
        """Cancel all open orders of an account."""
        for order in self.ledger.accounts[number].open():
            self.cancel(order)

    def tilt(self) -> float:
        """Return the bias by news of noise orders towards buying: P(buy) = (1 + bias) / 2."""
        return float(self.config["news"]["sentiment_tilt"] * self.fundamental.sentiment(self.now))

    def shown_value(self) -> float:
        """Return the fair value that features compare the price with."""
        if self.analyst:
            return float(self.analyst.of(self.fundamental.value))
        return self.tape.mean_price()

    def account(self, number: int = 0) -> dict[str, int]:
        """Return an account with its equity at the mid-price."""
        account = self.ledger.accounts[number]
        equity = account.cash + account.position * int(2 * self.tape.mid) * CASH_PER_TICK // 2
        state = {"cash": account.cash, "equity": equity, "position": account.position}
        liquidation = account.cash + self.closing(number)
        return state | {"liquidation": liquidation} | account.totals

    def closing(self, number: int = 0) -> int:
        """Return what closing the position of an account would bring, the taker fee paid."""
        position, ppm = self.ledger.accounts[number].position, self.ledger.fees["taker_ppm"]
        twice_mid, side = int(2 * self.tape.mid), BUY if position > 0 else SELL
        quotes = [(2 * o.price, o.left, o.account) for o in self.book.orders(side)]
        if self.book.best(BUY) is None and self.book.best(SELL) is None:
            before, orders = self.last_quotes
            moved = twice_mid - before
            quotes = [
                (max(2 * price + moved, 1), left, account)
                for at, price, left, account in orders
                if at == side
            ]
        others: dict[int, int] = {}
        for twice, left, account in quotes:
            if account != number:
                others[twice] = others.get(twice, 0) + left
        return closing(position, others.items(), twice_mid, ppm)


def displacement(latent: dict[str, float], consumed: float) -> float:
    """Return the ticks between opinion and latent price: |X| = depth * y + slope * y^2 / 2."""
    depth, size = latent["depth"], abs(consumed)
    root = math.sqrt(depth * depth + 2.0 * latent["slope"] * size)
    return math.copysign(2.0 * size / (depth + root), consumed)
