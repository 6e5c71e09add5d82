"""Independent implementation of the trading rules: plain, slow, one portfolio at a time.

It uses no code of the library. It follows FastFinRL, and the documentation pages where the classes
go beyond FastFinRL: fees, days that are not tradable, missing rows.
"""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

OHLCV = ("open", "high", "low", "close", "volume")


def days_a_year(dates: Sequence[str]) -> float:
    """Return the days of a year of a market, by its typical week."""
    days = [date.fromisoformat(day).toordinal() for day in sorted(dates)]
    steps = [after - day for day, after in pairwise(days)]
    step = sorted(steps)[len(steps) // 2] if steps else 1
    span = days[-1] - days[0]
    weeks = (span + step) // 7
    if step > 1 and weeks >= 2:
        part = 365.25 / step
        close = [year for year in (52, 12, 4, 1) if abs(part / year - 1) < 0.05]
        return close[0] if close else len(steps) / span * 365.25
    if weeks == 0 or (weeks < 2 and any(other > 1 for other in steps)):
        return 252.0
    counts = Counter((day - days[0]) // 7 for day in days)
    typical = sorted(counts[week] for week in range(weeks))[weeks // 2]
    if typical == 0:
        return len(steps) / span * 365.25
    closes = 2 * sum(other > 1 for other in steps) >= weeks
    return typical * (252 / 5 if closes else 365 / 7)


class Prices:
    """Prices of a CSV file, by ticker and day."""

    def __init__(self, path: Path) -> None:
        with path.open() as file:
            read = list(csv.DictReader(file))
        self.dates = sorted({row["date"] for row in read})
        self.indicators = [name for name in read[0] if name not in ("date", "tic", *OHLCV)]
        self.rows: dict[tuple[str, int], dict[str, float]] = {}
        for row in read:
            day = self.dates.index(row["date"])
            numbers = {name: float(row[name]) for name in (*OHLCV, *self.indicators)}
            self.rows[row["tic"], day] = numbers
        self.tickers = sorted({tic for tic, _ in self.rows})

    def at(self, tic: str, day: int, name: str) -> float:
        """Return a number of a row, or 0 where there is no row."""
        return self.rows[tic, day][name] if (tic, day) in self.rows else 0.0

    def worth(self, tic: str, day: int, name: str) -> float:
        """Return the value of a share; where there is no row, its last close."""
        if (tic, day) in self.rows:
            return self.rows[tic, day][name]
        while day >= 0 and (tic, day) not in self.rows:
            day -= 1
        return self.at(tic, day, "close")

    def last(self, tic: str) -> int:
        """Return the day of a ticker's last row."""
        return max(day for of, day in self.rows if of == tic)

    def first(self, tic: str) -> int:
        """Return the day on which a ticker is listed."""
        return min(day for of, day in self.rows if of == tic)


class Twister:
    """Mersenne Twister, seeded and drawn from as in the recorded environment."""

    def __init__(self, seed: int) -> None:
        self.bits = np.random.MT19937()
        self.bits._legacy_seeding(seed % 2**32)

    def word(self) -> int:
        return int(self.bits.random_raw())

    def below(self, n: int) -> int:
        """Draw an integer below n."""
        product = self.word() * n
        while product % 2**32 < (2**32 - n) % n:
            product = self.word() * n
        return product >> 32

    def real(self, low: float, high: float) -> float:
        """Draw a number between two bounds."""
        first = self.word()
        return (first + self.word() * 2.0**32) / 2.0**64 * (high - low) + low


@dataclass(frozen=True)
class Rules:
    """Settings, with the names of the classes' arguments."""

    initial_amount: float = 30_000.0
    failure_threshold: float = 25_000.0
    hmax: int = 15
    buy_cost_pct: float = 0.01
    sell_cost_pct: float = 0.01
    stop_loss_tolerance: float = 0.8
    bidding: str = "default"
    stop_loss_calculation: str = "close"
    stop_loss_day: str = "same"
    indicator_lag: int = 1
    valuation: str | None = None
    days: tuple[int, int] | None = None
    max_episode_steps: int | None = None
    ticker_costs: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    fixed_fee: float = 0.0
    slippage_bps: float = 0.0
    tradable: Mapping[str, Sequence[bool]] = field(default_factory=dict)
    delisting: str = "settle"
    initial_shares: Mapping[str, int] = field(default_factory=dict)
    tech_indicator_list: Sequence[str] = ()
    macro_tickers: Sequence[str] = ()


class Account:
    """One portfolio: its holdings, and its counters."""

    def __init__(
        self, prices: Prices, rules: Rules, tickers: Sequence[str], draw: Twister | None = None
    ) -> None:
        self.prices, self.rules, self.tickers, self.draw = prices, rules, list(tickers), draw

    def start_days(self, history: int = 0, shift: int = 0) -> tuple[range, set[int]]:
        """Return the range from which a first day is drawn, and the days that are accepted.

        On an accepted day, and on the day whose indicators it shows, every traded ticker has a row;
        macro tickers are listed. If some of these days also have all rows of the history before,
        only those are accepted. If the tickers have no such day in common, a row of one ticker is
        enough. A shift then counts from the first day on which all of them have been listed.
        """
        rules, rows, lag = self.rules, self.prices.rows, self.rules.indicator_lag
        begin, end = rules.days or (0, len(self.prices.dates))
        low = max(self.prices.first(tic) for tic in self.tickers) + lag
        low = max([begin, low, *map(self.prices.first, rules.macro_tickers)])
        days = range(low, begin + int(0.8 * (end - begin)))
        good = {
            day
            for day in days
            if all((tic, at) in rows for tic in self.tickers for at in (day, day - lag))
        }
        long = {
            day
            for day in good
            if all(
                (tic, at) in rows
                for tic in [*self.tickers, *rules.macro_tickers]
                for at in range(day - history, day)
            )
        }
        if good:
            return days[shift:], long or good
        held = [self.prices.first(tic) for tic in self.tickers if rules.initial_shares.get(tic)]
        first = low + shift if shift else max(begin, lag)
        days = range(max([first, *held]), days.stop)

        def some(history: int, macros: bool) -> set[int]:
            return {
                day
                for day in days
                if not macros or all(day >= self.prices.first(tic) for tic in rules.macro_tickers)
                if any(
                    all((tic, at) in rows for at in (day - lag, *range(day - history, day + 1)))
                    for tic in self.tickers
                )
            }

        return days, some(history, True) or some(history, False) or some(0, True) or some(0, False)

    def draw_day(self, history: int = 0, shift: int = 0) -> int:
        """Draw first days until one is accepted."""
        assert self.draw is not None
        days, good = self.start_days(history, shift)
        assert good.intersection(days)
        while (day := days[self.draw.below(len(days))]) not in good:
            pass
        return day

    def reset(self, day: int) -> None:
        """Begin an episode."""
        self.day, self.cash, self.steps = day, self.rules.initial_amount, 0
        self.shares = {tic: self.rules.initial_shares.get(tic, 0) for tic in self.tickers}
        self.average = {
            tic: self.prices.at(tic, day, "open") if held else 0.0
            for tic, held in self.shares.items()
        }
        self.stop_losses, self.orders, self.reward = 0, 0, 0.0
        self.terminated = self.truncated = False
        self.traded, self.raised, self.fills = 0, 0.0, dict[str, dict[str, float]]()
        self.values, self.costs, self.turnover = [self.value("close")], 0.0, 0.0

    def value(self, price: str) -> float:
        """Return the value of cash and holdings."""
        total = self.cash
        for tic in self.tickers:
            if self.shares[tic] > 0:
                total += self.shares[tic] * self.prices.worth(tic, self.day, price)
        return total

    def step(self, actions: Sequence[float]) -> None:
        """Trade one day."""
        begin = self.value("close")
        self.traded, self.raised, self.fills = 0, 0.0, {}
        held = dict(self.shares)
        asked = {
            tic: int(float(action) * self.rules.hmax)
            for tic, action in zip(self.tickers, actions, strict=True)
        }
        largest_first = sorted(self.tickers, key=lambda tic: -abs(asked[tic]))
        for tic in largest_first:
            if asked[tic] < 0:
                self.sell(tic, -asked[tic])
        for tic in largest_first:
            if asked[tic] > 0:
                self.buy(tic, asked[tic])
        if self.rules.stop_loss_day in ("same", "same_always"):
            # The low of the day may precede a purchase, so purchased tickers are not sold by it.
            spared = self.rules.stop_loss_calculation == "low"
            spared = spared and self.rules.stop_loss_day == "same"
            self.stop_loss({tic for tic in held if spared and self.shares[tic] > held[tic]})
        self.settle()
        self.day += 1
        self.steps += 1
        if self.rules.stop_loss_day == "next":
            self.stop_loss(set())
        end = self.value("close")
        self.reward = math.log(end / begin) if begin > 0 else 0.0
        last = len(self.prices.dates) if self.rules.days is None else self.rules.days[1]
        self.truncated = self.day >= last - 1 or self.steps == self.rules.max_episode_steps
        self.terminated = end <= self.rules.failure_threshold
        self.values.append(end)

    def settle(self) -> None:
        """Turn holdings of tickers whose last row is today into cash, without counting an order."""
        last_day = len(self.prices.dates) - 1
        for tic in self.tickers:
            leaves = self.day == self.prices.last(tic) < last_day
            if self.rules.delisting == "settle" and leaves and self.shares[tic] > 0:
                close = self.prices.at(tic, self.day, "close")
                self.cash += close * self.shares[tic]
                self.fill(tic, close, 0.0, -self.shares[tic])
                self.shares[tic], self.average[tic] = 0, 0.0

    def stop_loss(self, bought: set[str]) -> None:
        """Sell holdings whose price is below the tolerated fraction of their average price."""
        for tic in self.tickers:
            if self.shares[tic] == 0 or tic in bought or not self.trades(tic):
                continue
            price = self.prices.at(tic, self.day, self.rules.stop_loss_calculation)
            if price < self.average[tic] * self.rules.stop_loss_tolerance:
                self.raised += self.sell(tic, self.shares[tic])
                self.stop_losses += self.shares[tic] == 0

    def trades(self, tic: str) -> bool:
        """Return whether a ticker has a row today and may be traded."""
        allowed = self.rules.tradable.get(tic)
        return (tic, self.day) in self.prices.rows and (allowed is None or allowed[self.day])

    def price(self, tic: str, selling: bool) -> float:
        """Return the price of an order, before slippage."""
        row = self.prices.rows[tic, self.day]
        low, high = row["low"], row["high"]
        if self.rules.bidding == "adv_uniform" and selling:
            high = min(row["open"], row["close"])
        elif self.rules.bidding == "adv_uniform":
            low = max(row["open"], row["close"])
        if self.rules.bidding == "default":
            price = row["close"]
        else:
            assert self.draw is not None
            price = self.draw.real(low, high)
        return price

    def sell(self, tic: str, asked: int) -> float:
        """Fill a sale, and return its proceeds; skip a sale whose fee cannot be paid."""
        if self.shares[tic] == 0 or not self.trades(tic):
            return 0.0
        count = min(asked, self.shares[tic])
        quote = self.price(tic, selling=True)
        price = quote * (1 - self.rules.slippage_bps / 10_000)
        fee = self.rules.ticker_costs.get(tic, (0.0, self.rules.sell_cost_pct))[1]
        brought = price * count * (1 - fee) - self.rules.fixed_fee
        if self.cash + brought < 0:
            return 0.0
        self.cash += brought
        self.shares[tic] -= count
        if self.shares[tic] == 0:
            self.average[tic] = 0.0
        self.note(tic, quote, price, fee, -count)
        return brought

    def buy(self, tic: str, asked: int) -> None:
        """Fill a purchase, limited by the cash."""
        if not self.trades(tic):
            return
        quote = self.price(tic, selling=False)
        price = quote * (1 + self.rules.slippage_bps / 10_000)
        if price <= 0:
            return
        fee = self.rules.ticker_costs.get(tic, (self.rules.buy_cost_pct, 0.0))[0]
        count = min(asked, int((self.cash - self.rules.fixed_fee) / (price * (1 + fee))))
        if count <= 0:
            return
        spent = price * count * (1 + fee) + self.rules.fixed_fee
        held = self.shares[tic]
        self.cash -= spent
        self.average[tic] = (held * self.average[tic] + spent) / (held + count)
        self.shares[tic] = held + count
        self.note(tic, quote, price, fee, count)

    def note(self, tic: str, quote: float, price: float, fee: float, quantity: int) -> None:
        """Add an order to the counters."""
        cost = price * abs(quantity) * fee + self.rules.fixed_fee
        self.orders += 1
        self.traded += abs(quantity)
        self.costs += cost + abs(price - quote) * abs(quantity)
        self.turnover += price * abs(quantity)
        self.fill(tic, price, cost, quantity)

    def fill(self, tic: str, price: float, cost: float, quantity: int) -> None:
        """Add a fill to the totals of a ticker in this step."""
        before = self.fills.get(tic, {"cost": 0.0, "quantity": 0})
        self.fills[tic] = {
            "fill_price": price,
            "cost": before["cost"] + cost,
            "quantity": before["quantity"] + quantity,
        }

    def metrics(self) -> dict[str, float]:
        """Return the metrics of the episode."""
        values = np.array(self.values)
        returns = values[1:] / values[:-1] - 1
        spread = returns.std(ddof=1) if len(returns) > 1 else 0.0
        falls = np.sqrt(np.mean(np.minimum(returns, 0) ** 2))
        year = math.sqrt(days_a_year(self.prices.dates))
        return {
            "return": values[-1] / values[0] - 1,
            "sharpe": returns.mean() / spread * year if spread > 0 else 0.0,
            "sortino": returns.mean() / falls * year if falls > 0 else 0.0,
            "max_drawdown": np.max(1 - values / np.maximum.accumulate(values)),
            "turnover": self.turnover / values[0],
            "costs": self.costs,
            "trades": self.orders,
            "stop_losses": self.stop_losses,
            "final_value": values[-1],
            "length": self.steps,
        }

    def state(self) -> dict[str, Any]:
        """Return the state and the counters of an environment."""
        rules, prices, day = self.rules, self.prices, self.day
        names = list(rules.tech_indicator_list) or prices.indicators
        valuation = rules.valuation or ("open" if rules.indicator_lag else "close")
        shown = {
            f"{part}{key}": np.array(values, float).reshape(shape)
            for part, tickers in [("", self.tickers), ("macro_", list(rules.macro_tickers))]
            for key, values, shape in [
                ("open", [prices.at(tic, day, "open") for tic in tickers], -1),
                (
                    "indicators",
                    [
                        prices.at(tic, day - rules.indicator_lag, name)
                        for tic in tickers
                        for name in names
                    ],
                    (len(tickers), len(names)),
                ),
            ]
        }
        return shown | {
            "day": day,
            "cash": self.cash,
            "shares": [self.shares[tic] for tic in self.tickers],
            "avg_buy_price": [self.average[tic] for tic in self.tickers],
            "total_asset": self.value(valuation),
            "reward": self.reward,
            "done": self.terminated or self.truncated,
            "terminal": self.truncated,
            "terminated": self.terminated,
            "truncated": self.truncated,
            "num_stop_loss": self.stop_losses,
            "episode_orders": self.orders,
            "n_trades": self.traded,
            "loss_cut_amount": self.raised,
        }
