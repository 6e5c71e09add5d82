"""A simulated market and its model: both get the same orders and are compared each tick."""

from __future__ import annotations

from typing import Any

import numpy as np
from backcast import sim

from market_model import features
from market_model.book import BUY, SELL
from market_model.market import Market

Call = tuple[int, int, int | None, str] | None


def drawn(draw: np.random.Generator, mid: float, *, largest: int, reach: int) -> list[Call]:
    """Draw up to two orders near a price. None cancels all open orders."""
    calls: list[Call] = [None] if draw.random() < 0.1 else []
    for _ in range(int(draw.integers(0, 3))):
        side = BUY if draw.random() < 0.5 else SELL
        quantity = int(draw.integers(1, largest + 1))
        # One price in ten is drawn from a wider range.
        spread = reach if draw.random() < 0.1 else 12
        price = max(1, int(mid) - side * int(draw.integers(-spread // 3, spread)))
        kind = ("limit", "marketable", "post_only")[int(draw.integers(3))]
        at_any = kind == "marketable" and draw.random() < 0.5
        calls.append((side, quantity, None if at_any else price, kind))
    return calls


class Trader:
    """Agent in Python that sends random orders, and records them and what its floor showed."""

    def __init__(self, seed: list[int], largest: int) -> None:
        self.draw, self.largest = np.random.default_rng(seed), largest
        self.shown: tuple[Any, ...] = ()
        self.calls: list[Call] = []

    def act(self, floor: sim.Floor) -> int:
        """Record what the floor shows, and send the next orders."""
        touch = (floor.best_bid(), floor.best_ask())
        self.shown = (floor.mid(), *touch, floor.position(), floor.cash)
        self.calls = []
        for call in drawn(self.draw, floor.mid(), largest=self.largest, reach=40):
            if call is None:
                floor.cancel_all()
                self.calls.append(None)
                continue
            # A floor takes only market orders and limit orders, which may rest.
            side, quantity, price, _ = call
            (floor.buy if side == BUY else floor.sell)(quantity, price)
            kind = "marketable" if price is None else "limit"
            self.calls.append((side, quantity, price, kind))
        return 1


class Pair:
    """A market with a slot and traders, and its model."""

    def __init__(
        self, config: sim.MarketConfig, seed: int, accounts: list[dict[str, Any]], largest: int
    ) -> None:
        self.draw, self.largest = np.random.default_rng(seed), largest
        self.traders = [Trader([seed, at], largest) for at in range(len(accounts))]
        pairs = list(zip(self.traders, accounts, strict=True))
        self.real = sim.Market(config, seed=seed, agents=pairs)
        self.model = Market(self.real.config, seed, accounts)
        self.seen = features.Indicators([])

    def run(self, ticks: int) -> None:
        """Move both forward, and compare them after every tick."""
        for _ in range(ticks):
            calls = drawn(self.draw, self.model.tape.mid, largest=self.largest, reach=200)
            for call in calls:
                if call is None:
                    self.real.cancel_all()
                    continue
                side, quantity, price, kind = call
                name: Any = kind
                self.real.send("buy" if side == BUY else "sell", quantity, price, kind=name)
            record = self.real.record(1)
            self.model.tick(lambda calls=calls: self.replay(calls))  # type: ignore[misc]
            self.compare(record)
        self.real.check()

    def replay(self, calls: list[Call]) -> None:
        """Send the orders of the slot, then those of the traders, to the model."""
        self.send(0, calls)
        for number, trader in enumerate(self.traders, 1):
            model = self.model
            account = model.ledger.accounts[number]
            touch = (model.book.best(BUY), model.book.best(SELL))
            shown = (model.tape.mid, *touch, account.position, account.cash)
            assert trader.shown == shown, (model.now, number)
            self.send(number, trader.calls)

    def send(self, number: int, calls: list[Call]) -> None:
        """Send orders of one account to the model."""
        for call in calls:
            if call is None:
                self.model.cancel_all(number)
            else:
                self.model.submit(number, *call)

    def compare(self, record: dict[str, dict[str, Any]]) -> None:
        """Compare prices, trades, candles, book, account and features of the last tick."""
        real, model, tape = self.real, self.model, self.model.tape
        now = real.now
        prices = {name: values[..., -1].item() for name, values in record["ticks"].items()}
        assert prices == {
            "tick": model.now,
            "mid": tape.mid,
            "bid": model.book.best(BUY) or 0,
            "ask": model.book.best(SELL) or 0,
            "last": tape.last,
            "volume": tape.tick.volume,
            "fundamental": model.fundamental.value,
        }
        trades = record["trades"]
        rows = list(zip(trades["side"], trades["quantity"], trades["price"], strict=True))
        assert rows == [(side, n, total / n) for side, n, total in tape.tick.trades], now
        book = real.book(levels=model.book.width)
        for side, name in ((BUY, "bids"), (SELL, "asks")):
            assert [tuple(level) for level in book[name].tolist()] == model.book.depth(side), now
        account = real.account()
        account["position"] = account.pop("positions").item()
        assert account == model.account() | {"in_flight": 0}, now
        if record["candles"]["tick"].size:
            closed = [values[..., -1].item() for name, values in record["candles"].items()]
            candle = tape.candles[-1]
            wanted = [candle.open, candle.high, candle.low, candle.close, candle.volume]
            assert sorted(closed) == sorted([*wanted, now]), now
            self.seen = features.Indicators(tape.candles)
        self.compare_features()

    def compare_features(self) -> None:
        """Compare both sets of features."""
        for name, observe in (("full", features.full), ("normalised", features.normalised)):
            which: Any = name
            seen, wanted = self.real.observe(which), observe(self.model, self.seen)
            far = np.flatnonzero(np.abs(seen - wanted) > 1e-7 + 1e-6 * np.abs(wanted))
            if far.size:
                names = self.real.feature_names(which)
                differ = {names[at]: (seen[at], wanted[at]) for at in far}
                raise AssertionError(f"tick {self.real.now}, shown and wanted: {differ}")
