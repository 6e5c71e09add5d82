"""Trading days of the model: their pattern, and when orders wait for an auction."""

from __future__ import annotations

import math
from typing import Any


class Session:
    """Days of one length. Ticks count from 1."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.ticks: int = config["ticks"]
        self.u_shape: float = config["u_shape"]
        self.auction_ticks: int = config["auction_ticks"]
        self.overnight_sd: float = config["overnight_sd"]
        self.on = bool(self.u_shape or self.auction_ticks or self.overnight_sd)

    def time(self, now: int) -> int:
        """Return the ticks since the open, without this one."""
        return (now - 1) % self.ticks

    def opens(self, now: int) -> bool:
        """Tell whether a night lies before a tick."""
        return self.on and now > 1 and self.time(now) == 0

    def auction(self, now: int) -> bool:
        """Tell whether orders wait for an auction."""
        middle = range(self.auction_ticks, self.ticks - self.auction_ticks)
        return self.on and self.time(now) not in middle

    def called(self, now: int) -> bool:
        """Tell whether the auction is held at the end of a tick."""
        return self.auction(now) and self.time(now) in (self.auction_ticks - 1, self.ticks - 1)

    def expires(self, now: int) -> bool:
        """Tell whether the orders in the book are cancelled at the end of a tick."""
        return self.on and self.time(now) == self.ticks - self.auction_ticks - 1

    def activity(self, now: int) -> float:
        """Return the factor on wake rates."""
        x = (2 * self.time(now) + 1) / self.ticks - 1.0
        return 1.0 + self.u_shape * (3.0 * x * x - 1.0) if self.on else 1.0

    def volatility(self, now: int) -> float:
        """Return the factor on the standard deviation of the random walk."""
        return self.activity(now) / math.sqrt(1.0 + 0.8 * self.u_shape * self.u_shape)
