"""Hidden value of the model's share, its news, and the two opinions about it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from market_model.ledger import DAY_TICKS
from market_model.session import Session
from market_model.streams import Stream

VOLATILITY_TICKS = 16
MOST_NEWS = 8
ANALYST_TICKS = 300.0


@dataclass(frozen=True, slots=True)
class Event:
    """One news event."""

    since: int
    life: int
    sentiment: float
    magnitude: float

    def left(self, now: int) -> int:
        """Return the ticks until the event has faded."""
        return max(0, self.since + self.life - now)

    def faded(self, now: int) -> float:
        """Return the sentiment that is left of the event."""
        return self.sentiment * self.left(now) / self.life


class Newsroom:
    """Arrivals of news: of one symbol, or of the whole market."""

    def __init__(self, config: dict[str, Any], seed: int, *, market: bool) -> None:
        self.config, self.market = config, market
        self.stream = Stream(seed, "market_news" if market else "news")
        per_day = config["market_per_day" if market else "symbol_per_day"]
        self.mean = DAY_TICKS / per_day if per_day else math.inf
        self.next: float = self.stream.wait(self.mean) if per_day else math.inf

    def poll(self, now: int) -> tuple[Event, float] | None:
        """Return the event of a tick with its shock to the logarithm of the value."""
        if now < self.next:
            return None
        size = self.stream.normal()
        rumour = self.stream.chance(self.config["rumour_share"]) and not self.market
        life = int(min(max(self.stream.exponential(self.config["life_ticks"]), 1.0), 1e7))
        self.next = now + self.stream.wait(self.mean)
        event = Event(now, life, math.tanh(size), min(abs(size) / 3.0, 1.0))
        return event, 0.0 if rumour else size * self.config["shock_sd"]


class Fundamental:
    """Logarithm of the value, a random walk with two-scale volatility, jumps and news."""

    def __init__(self, config: dict[str, Any], seed: int) -> None:
        self.config = config["fundamental"]
        self.session = Session(config["session"])
        self.stream, self.shared = Stream(seed, "fundamental"), Stream(seed, "common")
        self.rooms = [Newsroom(config["news"], seed, market=market) for market in (False, True)]
        self.start = self.log = math.log(config["initial_price"])
        self.value = float(config["initial_price"])
        self.parts = {
            name: self.config[f"{name}_sd"] * self.stream.normal() for name in ("fast", "slow")
        }
        self.news: list[Event] = []

    def step(self, now: int) -> None:
        """Move to the next tick."""
        config, common = self.config, self.config["common"]
        walk = self.shared.normal() if common else 0.0
        if self.session.opens(now):
            night = self.shared.normal() if common else 0.0
            if self.session.overnight_sd:
                draw = mixed(common, self.stream.normal(), night)
                self.log += self.session.overnight_sd * draw
        if now % VOLATILITY_TICKS == 0:
            for name in self.parts:
                keep = math.exp(-VOLATILITY_TICKS / config[f"{name}_ticks"])
                noise = config[f"{name}_sd"] * math.sqrt(1.0 - keep * keep)
                self.parts[name] = self.parts[name] * keep + noise * self.stream.normal()
            if self.stream.chance(config["jumps_per_day"] * VOLATILITY_TICKS / DAY_TICKS):
                self.log += config["jump_sd"] * self.stream.normal()
        pull = config["drift_per_day"] + config["reversion_per_day"] * (self.start - self.log)
        sd = self.sd() * self.session.volatility(now)
        draw = mixed(common, self.stream.normal(), walk)
        self.set(self.log + (sd * draw + pull / DAY_TICKS))
        for room in self.rooms:
            if (news := room.poll(now)) is not None:
                self.set(self.log + news[1])
                self.news = [*self.live(now), news[0]][-MOST_NEWS:]

    def sd(self) -> float:
        """Return the standard deviation of one tick."""
        shift = self.config["fast_sd"] ** 2 + self.config["slow_sd"] ** 2
        exponent = self.parts["fast"] + self.parts["slow"] - shift
        return float(self.config["volatility"] * math.exp(exponent))

    def set(self, log: float) -> None:
        """Set the logarithm of the value, within the prices of a book."""
        self.log = min(max(log, 0.7), 18.0)
        self.value = math.exp(self.log)

    def live(self, now: int) -> list[Event]:
        """Return the events that have not faded, the oldest first."""
        return [event for event in self.news if event.left(now)]

    def sentiment(self, now: int) -> float:
        """Return the sum of all faded sentiments, within -1 and 1."""
        return min(max(sum(event.faded(now) for event in self.live(now)), -1.0), 1.0)


def mixed(common: float, own: float, shared: float) -> float:
    """Return a normal draw that has the share `common` of its variance in common with others."""
    return math.sqrt(1.0 - common) * own + math.sqrt(common) * shared


class Opinion:
    """Mean-reverting error of the log value: of the makers, or of the revealed fundamental."""

    def __init__(self, sd: float, ticks: float, stream: Stream) -> None:
        self.sd, self.keep, self.stream = sd, 1.0 - 1.0 / ticks, stream
        self.error = sd * stream.normal()

    def step(self) -> None:
        """Move to the next tick."""
        noise = self.sd * math.sqrt(1.0 - self.keep * self.keep)
        self.error = self.keep * self.error + noise * self.stream.normal()

    def of(self, value: float) -> float:
        """Return the value with the error."""
        return value * math.exp(self.error)
