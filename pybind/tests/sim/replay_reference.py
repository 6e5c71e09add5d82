"""A recorded market and an agent against it in plain Python: lists, searched from the front.

Written from docs/concepts/replay.md, without a look at the Rust code.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

EMPTY = 9_999_999_999
SUBMIT, CANCEL, DELETE, EXECUTE, HIDDEN, CROSS, HALT = range(1, 8)


@dataclass
class Recorded:
    """A recorded order."""

    id: int
    side: int
    price: int
    shares: int
    taken: int = 0


@dataclass
class Message:
    """A line of a message file."""

    time: int
    kind: int
    id: int
    shares: int
    price: int
    side: int

    def line(self) -> str:
        """Write the line, with time to the nanosecond."""
        seconds, nanos = divmod(self.time, 10**9)
        cells = self.kind, self.id, self.shares, self.price, self.side
        return f"{seconds}.{nanos:09},{','.join(map(str, cells))}"


@dataclass
class Exchange:
    """Orders of a market, oldest first."""

    orders: list[Recorded] = field(default_factory=list)

    def levels(self, side: int) -> list[tuple[int, int]]:
        """List the prices of a side with their shares, best first."""
        prices = sorted({o.price for o in self.orders if o.side == side}, reverse=side == 1)
        return [
            (price, sum(o.shares for o in self.orders if (o.side, o.price) == (side, price)))
            for price in prices
        ]

    def row(self, levels: int) -> list[int]:
        """Return a line of an order book file."""
        asks, bids = self.levels(-1), self.levels(1)
        cells: list[int] = []
        for at in range(levels):
            cells += asks[at] if at < len(asks) else (EMPTY, 0)
            cells += bids[at] if at < len(bids) else (-EMPTY, 0)
        return cells

    def apply(self, message: Message) -> None:
        """Apply a message."""
        if message.kind == SUBMIT:
            order = Recorded(message.id, message.side, message.price, message.shares)
            self.orders.append(order)
        elif message.kind in (CANCEL, DELETE, EXECUTE):
            order = next(o for o in self.orders if o.id == message.id)
            order.shares -= message.shares
            order.taken = min(order.taken, order.shares)
            self.orders = [o for o in self.orders if o.shares]


def draw_day(seed: int, count: int, halts: bool = True) -> list[Message]:
    """Draw a day of messages that begins with an empty book."""
    draw, exchange = random.Random(seed), Exchange()
    messages: list[Message] = []
    time, next_id, halted = 34_200 * 10**9, 1, False
    while len(messages) < count:
        time += draw.choice([0, 1, 1_000, 10**6, 3 * 10**8])
        choice = draw.random()
        side = draw.choice([1, -1])
        best = {s: exchange.levels(s)[0][0] for s in (1, -1) if exchange.levels(s)}
        crossed = len(best) == 2 and best[1] >= best[-1]
        if halted and draw.random() < 0.2:
            # Trading resumes only once the sides do not cross.
            if crossed:
                order = next(o for o in exchange.orders if o.price == best[1] and o.side == 1)
                message = Message(time, DELETE, order.id, order.shares, order.price, 1)
            else:
                halted = False
                message = Message(time, HALT, 0, 0, 1, -1)
        elif len(exchange.orders) < 6 or choice < 0.45:
            price = 1_000_000 - side * 100 * draw.randrange(-3, 9)
            # The sides of a recorded book do not cross while it trades.
            if -side in best and not halted:
                price = min(price, best[-1] - 100) if side == 1 else max(price, best[1] + 100)
            message = Message(time, SUBMIT, next_id, draw.randrange(1, 60), price, side)
            next_id += 1
        elif choice < 0.7:
            order = draw.choice(exchange.orders)
            part = draw.randrange(1, order.shares + 1)
            kind = DELETE if part == order.shares else CANCEL
            message = Message(time, kind, order.id, part, order.price, order.side)
        elif choice < 0.9 and not halted:
            order = next(o for o in exchange.orders if o.price == best[o.side])
            part = draw.randrange(1, order.shares + 1)
            message = Message(time, EXECUTE, order.id, part, order.price, order.side)
        elif choice < 0.96 and not halted:
            price = 1_000_000 + 50 * draw.randrange(-8, 9)
            kind = HIDDEN if draw.random() < 0.8 else CROSS
            # Crosses have negative ids, -1 at the open and -2 at the close.
            number = 0 if kind == HIDDEN else -1
            message = Message(time, kind, number, draw.randrange(1, 40), price, side)
        elif halts and not halted and choice > 0.985:
            halted = True
            message = Message(time, HALT, 0, 0, -1, -1)
        else:
            continue
        exchange.apply(message)
        messages.append(message)
    return messages


def write_day(folder: Path, messages: list[Message], levels: int, before: int) -> tuple[Path, Path]:
    """Write both files as a reader of `levels` levels gets them, without the first messages.

    Messages that change nothing that the levels show are left out, but those of trades and halts.
    """
    exchange = Exchange()
    lines: list[str] = []
    rows: list[str] = []
    for at, message in enumerate(messages):
        shown = exchange.row(levels)
        exchange.apply(message)
        told = message.kind in (HIDDEN, CROSS, HALT) or exchange.row(levels) != shown
        if at >= before and told:
            lines.append(message.line())
            rows.append(",".join(map(str, exchange.row(levels))))
    paths = folder / "messages.csv", folder / "book.csv"
    for path, text in zip(paths, (lines, rows), strict=True):
        path.write_text("\n".join(text) + "\n")
    return paths


@dataclass
class Own:
    """An order of the agent."""

    id: int
    side: int
    price: int
    shares: int
    seen: int
    """Id of the last order that was recorded before."""


class Agent:
    """An agent against a recorded day, without latency, fees and limits."""

    def __init__(self, messages: list[Message]) -> None:
        self.exchange, self.messages, self.at = Exchange(), messages, 0
        self.own: list[Own] = []
        self.fills: list[tuple[int, int, int, int, int]] = []
        self.cash = self.position = self.seen = self.next_id = 0
        self.halted = False
        self.mark = 0.0
        """Price of a position, 0 before any."""

    def ahead(self, own: Own) -> int:
        """Count the recorded shares in front of an order at its price."""
        return sum(
            o.shares
            for o in self.exchange.orders
            if (o.side, o.price) == (own.side, own.price) and o.id <= own.seen
        )

    def _fill(self, own: Own, price: int, shares: int, maker: int) -> None:
        own.shares -= shares
        self.cash -= own.side * price * shares
        self.position += own.side * shares
        self.fills.append((own.id, own.side, price, shares, maker))

    def _sorted(self) -> list[Own]:
        return sorted(self.own, key=lambda own: (-own.side, -own.side * own.price, own.id))

    def run(self, until: int) -> None:
        """Apply all messages at or before a time."""
        self.fills = []
        while self.at < len(self.messages) and self.messages[self.at].time <= until:
            self._meet(self.messages[self.at])
            self.at += 1

    def _meet(self, message: Message) -> None:
        side, price, left = message.side, message.price, message.shares
        self.exchange.apply(message)
        bids, asks = self.exchange.levels(1), self.exchange.levels(-1)
        if message.kind == HALT:
            self.halted = price != 1
        for own in self._sorted():
            beyond = own.side * (own.price - price) > 0
            here = (own.side, own.price) == (side, price)
            first = self.ahead(own) == 0
            if message.kind == EXECUTE:
                behind = here and first and message.id > own.seen
                gets = (own.side == side and beyond) or behind
            elif message.kind == HIDDEN:
                gets = beyond or (here and first)
            elif message.kind == SUBMIT:
                gets = own.side != side and (beyond or own.price == price) and not self.halted
            else:
                gets = False
            shares = min(left, own.shares) if gets else 0
            if shares:
                left -= shares
                self._fill(own, own.price, shares, 1)
                if message.kind == SUBMIT:
                    self.exchange.orders[-1].taken += shares
        if message.kind == HALT and not self.halted:
            for own in self._sorted():
                self._resume(own)
        if message.kind == SUBMIT:
            self.seen = message.id
        self.own = [own for own in self.own if own.shares]
        if bids and asks:
            self.mark = (bids[0][0] + asks[0][0]) / 2
        elif message.kind in (EXECUTE, HIDDEN, CROSS):
            self.mark = price

    def _resume(self, own: Own) -> None:
        """Trade a resting order with recorded orders of the other side, the best price first."""
        for price, _ in self.exchange.levels(-own.side):
            if own.side * (own.price - price) < 0:
                return
            left = own.shares
            for order in self.exchange.orders:
                if (order.side, order.price) == (-own.side, price):
                    shares = min(left, order.shares - order.taken)
                    order.taken += shares
                    left -= shares
            if left < own.shares:
                self._fill(own, own.price, own.shares - left, 1)

    def order(self, side: int, shares: int, price: int | None) -> None:
        """Send an order; without a price what does not trade is dropped."""
        number, self.next_id = self.next_id, self.next_id + 1
        if self.halted or not self.mark:
            return
        new = Own(number, side, price or 0, shares, self.seen)
        # One queue of all orders of the other side: by price, then by time. Where an order of the
        # agent stands is known from the last recorded order that came before it.
        queue: list[tuple[tuple[int, int, int, int], Recorded | Own]] = [
            ((side * o.price, o.id, 0, 0), o) for o in self.exchange.orders if o.side != side
        ]
        queue += [((side * o.price, o.seen, 1, o.id), o) for o in self.own if o.side != side]
        traded: dict[int, int] = {}
        left = shares
        for _, met in sorted(queue, key=lambda entry: entry[0]):
            if not left or (price is not None and side * (price - met.price) < 0):
                break
            if isinstance(met, Own):
                self.own.remove(met)
                continue
            part = min(left, met.shares - met.taken)
            met.taken += part
            left -= part
            traded[met.price] = traded.get(met.price, 0) + part
        for at, part in traded.items():
            if part:
                self._fill(new, at, part, 0)
        if price is not None and new.shares:
            self.own.append(new)

    def cancel(self, number: int) -> None:
        """Cancel an order."""
        self.next_id += 1
        self.own = [own for own in self.own if own.id != number]
