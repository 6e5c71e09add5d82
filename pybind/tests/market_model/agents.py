"""Background agents of the model, one class per archetype."""

from __future__ import annotations

import math
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from market_model.book import BUY, SELL
from market_model.streams import Stream, mix
from market_model.tape import HORIZONS

if TYPE_CHECKING:
    from market_model.market import Market

SALT = 0x5851F42D4C957F2D
SLIP = 50
FARTHEST = 400
MAKER_LEVELS = 3
INDICATORS = ("mean_gap", "strength", "divergence", "band", "channel")
ARCHETYPES = ("maker", "noise", "value", "signal", "executor")


def whole(size: float, limit: int) -> int:
    """Round a drawn size to shares, at least 1 and at most `limit`."""
    return int(min(max(size, 1.0) + 0.5, float(limit)))


class Agent:
    """One agent: an account, a stream, and the settings of its archetype."""

    archetype = ""

    def __init__(self, market: Market, account: int, ordinal: int, seed: int) -> None:
        self.market, self.account = market, account
        population = market.config["population"]
        self.config: dict[str, Any] = population[self.archetype]
        self.limits: dict[str, int] = population["limits"]
        self.start: int = population["shares"]
        index = ARCHETYPES.index(self.archetype) << 48 | ordinal
        self.identity = mix(index ^ SALT)
        self.stream = Stream(seed, "agent", index)
        self.draw()

    def draw(self) -> None:
        """Draw the constants of the agent."""

    def first_wait(self) -> float:
        """Return the mean ticks before the first turn."""
        return float(self.config["wait"])

    def act(self) -> float:
        """Take a turn, and return the mean ticks until the next one."""
        raise NotImplementedError

    @property
    def position(self) -> int:
        """Shares held."""
        return self.market.ledger.accounts[self.account].position

    def across(self, side: int) -> int:
        """Return the best price of the other side, or the next whole tick while it is empty."""
        best = self.market.book.best(-side)
        if best is not None:
            return best
        mid = self.market.tape.mid
        return math.floor(mid) + 1 if side == BUY else math.ceil(mid) - 1

    def joined(self, side: int, *, better: bool) -> int:
        """Return the best price of the own side, or one tick better if that does not cross."""
        across = self.across(side)
        best = self.market.book.best(side)
        own = across - 2 * side if best is None else best
        improved = own + side * better
        return improved if side * (across - improved) > 0 else own

    def cross(self, side: int, quantity: int) -> None:
        """Send a marketable order, limited to fifty ticks beyond the other side's best price."""
        price = max(self.across(side) + side * SLIP, 1)
        self.market.submit(self.account, side, quantity, price, "marketable")

    def rest(self, side: int, quantity: int, price: int) -> None:
        """Send a limit order."""
        self.market.submit(self.account, side, quantity, price, "limit")

    def cancel(self) -> None:
        """Cancel all open orders."""
        self.market.cancel_all(self.account)


class Maker(Agent):
    """Quotes three levels on both sides."""

    archetype = "maker"
    quoted: tuple[int, int, int] | None = None

    def prices(self, middle: float, offset: float) -> tuple[int, int]:
        """Return the best quotes around a price."""
        config, tape = self.config, self.market.tape
        half = config["half_spread"] + config["spread_per_vol"] * tape.volatility()
        pushed = config["flow_shift"] * tape.flow + config["root_shift"] * tape.roots
        centre = middle - config["skew"] * (self.position - self.start) + pushed + offset
        return math.floor(centre - half), math.ceil(centre + half)

    def act(self) -> float:
        """Quote around the mid-price, without a latent order book."""
        self.cancel()
        book = self.market.book
        bid, ask = self.prices(self.market.tape.mid, self.stream.uniform(-0.5, 0.5))
        best_bid, best_ask = book.best(BUY), book.best(SELL)
        if best_ask is not None:
            bid = min(bid, best_ask - 1)
        if best_bid is not None:
            ask = max(ask, best_bid + 1)
        self.place(bid, ask, "post_only")
        return float(self.config["wait"])

    def place(self, bid: int, ask: int, kind: str) -> None:
        """Send all levels, the two sides in turn."""
        for level in range(MAKER_LEVELS):
            away = self.config["level_step"] * level
            size = whole(self.config["size"] * (1.0 + 0.5 * level), self.limits["order"])
            for side, price in ((BUY, math.floor(bid - away)), (SELL, math.ceil(ask + away))):
                self.market.submit(self.account, side, size, price, kind, pushes=False)

    def withdraw(self, middle: float, offset: float) -> None:
        """Cancel quotes that are stale or that traded."""
        wanted = (*self.prices(middle, offset), self.position)
        complete = len(self.market.ledger.accounts[self.account].open()) == 2 * MAKER_LEVELS
        if not complete or wanted != self.quoted:
            self.cancel()
            self.quoted = wanted

    def quote(self) -> None:
        """Quote anew after a withdrawal: take the orders that the quotes reach, then place them."""
        if self.market.ledger.accounts[self.account].open():
            return
        assert self.quoted is not None
        bid, ask, _ = self.quoted
        for side, price in ((BUY, bid), (SELL, ask)):
            others = self.market.book.orders(-side)
            better = takewhile(lambda o: side * (price - o.price) >= 0, others)  # noqa: B023
            if shares := min(sum(order.left for order in better), self.limits["order"]):
                self.market.submit(self.account, side, shares, price, "marketable", pushes=False)
        self.place(bid, ask, "limit")


class Noise(Agent):
    """Trades, quotes and cancels at random."""

    archetype = "noise"

    def act(self) -> float:
        """Cancel, cross, or send a limit order."""
        config, stream, tape = self.config, self.stream, self.market.tape
        account = self.market.ledger.accounts[self.account]
        for order in [] if self.market.waits() else account.open():
            if self.market.now - order.born > config["life"]:
                self.market.cancel(order)
        action = stream.unit()
        if action < config["cancel"]:
            chosen = stream.bits() >> 32
            if orders := account.open():
                self.market.cancel(orders[chosen % len(orders)])
            return float(config["wait"])
        side = BUY if stream.chance(0.5 * (1.0 + self.market.tilt())) else SELL
        size = stream.log_normal(config["size"], config["size_sigma"])
        quantity = whole(size, self.limits["order"])
        if action < config["cancel"] + config["market"]:
            self.cross(side, quantity)
        else:
            away = (stream.pareto(1.0, config["depth_exponent"]) - 1.0) * (1.0 + tape.volatility())
            price = self.across(side) - side * (int(min(away, FARTHEST)) + 1)
            self.rest(side, quantity, price)
        return float(config["wait"])


class Value(Agent):
    """Trades towards a position that grows with the gap between its valuation and the price."""

    archetype = "value"

    def draw(self) -> None:
        """Draw the error of the valuation."""
        self.error = self.config["error_sd"] * self.stream.normal()

    def act(self) -> float:
        """Trade towards the target position."""
        config, stream, mid = self.config, self.stream, self.market.tape.mid
        if stream.chance(config["wait"] / config["error_ticks"]):
            self.draw()
        belief = self.market.fundamental.value * (1.0 + self.error)
        belief += config["learning"] * (mid - belief)
        gap = 100.0 * (belief - mid) / mid
        most = {side: 0.9 * self.limits[side] for side in ("long", "short")}
        target = min(max(config["strength"] * gap * abs(gap), -most["short"]), most["long"])
        wanted = target - self.position
        self.cancel()
        if abs(wanted) < 0.25 * config["slice"]:
            return float(config["wait"])
        side = BUY if wanted > 0 else SELL
        quantity = whole(min(abs(wanted), config["slice"]), self.limits["order"])
        if side * gap > config["aggressive"]:
            self.cross(side, quantity)
        else:
            self.rest(side, quantity, self.joined(side, better=stream.chance(0.5)))
        return float(config["wait"])


class Signal(Agent):
    """Follows or fades one indicator."""

    archetype = "signal"

    def draw(self) -> None:
        """Draw the horizon, the indicator and the direction."""
        config, stream = self.config, self.stream
        low, high = math.log(config["horizon_low"]), math.log(config["horizon_high"])
        wanted = math.exp(stream.uniform(low, high))
        self.horizon = min(
            range(len(HORIZONS)), key=lambda at: abs(math.log(HORIZONS[at] / wanted))
        )
        self.indicator = INDICATORS[stream.below(len(INDICATORS))]
        self.follows = stream.chance(config["followers"])

    def act(self) -> float:
        """Trade towards the target position."""
        config = self.config
        strength = self.market.tape.indicator(self.indicator, self.horizon)
        signed = strength if self.follows else -strength
        target = 0.0
        if abs(strength) >= config["threshold"]:
            part = min(max(0.5 * signed / config["threshold"], -1.0), 1.0)
            target = config["inventory"] * part
        wanted = target - self.position
        self.cancel()
        if abs(wanted) < 0.5 * config["size"]:
            return float(config["wait"])
        side = BUY if wanted > 0 else SELL
        quantity = whole(min(abs(wanted), config["size"]), self.limits["order"])
        if self.follows:
            self.cross(side, quantity)
        else:
            self.rest(side, quantity, self.joined(side, better=self.stream.chance(0.5)))
        return float(config["wait"])


class Executor(Agent):
    """Works parent orders in slices."""

    archetype = "executor"

    def draw(self) -> None:
        """Begin without a parent order."""
        self.target = self.start

    def first_wait(self) -> float:
        """Return the mean ticks before the first parent order."""
        return float(self.config["idle"])

    def act(self) -> float:
        """Draw a parent order if there is none, and send one slice."""
        config, stream, position = self.config, self.stream, self.position
        if self.target == position:
            size = stream.pareto(config["parent_minimum"], config["parent_exponent"])
            shares = whole(min(size, config["parent_maximum"]), 2**29)
            bias = 0.5 - 0.25 * position / config["parent_maximum"]
            side = BUY if stream.chance(min(max(bias, 0.05), 0.95)) else SELL
            wanted = position + side * shares
            self.target = min(max(wanted, -self.limits["short"]), self.limits["long"])
        left = self.target - position
        self.cancel()
        side = BUY if left > 0 else SELL
        size = min(stream.log_normal(config["slice"], 0.5), abs(left))
        quantity = whole(size, self.limits["order"])
        if stream.chance(config["aggressive"]):
            self.cross(side, quantity)
        else:
            self.rest(side, quantity, self.joined(side, better=False))
        return float(config["idle" if self.target == self.position else "wait"])
