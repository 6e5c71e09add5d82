"""Contenders: Backcast's environments, a plain NumPy one, and memcpy of an observation."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import backcast as bc
import numpy as np
from backcast.envs import PortfolioEnv, PortfolioVectorEnv
from numpy.typing import NDArray

from .market import TICKERS, Columns

HMAX, FEE, CASH = 15, 0.01, 1e6
"""Largest order, fee, and cash that is enough to trade on every day of an episode."""
SETTINGS: dict[str, Any] = {"initial_amount": CASH, "failure_threshold": 0.0, "hmax": HMAX}


def actions(n: int) -> Iterator[NDArray[np.float32]]:
    """Repeat 64 drawn actions without end."""
    draw = np.random.default_rng(3)
    return itertools.cycle(list(draw.uniform(-1, 1, (64, n, TICKERS)).astype(np.float32)))


class Backcast:
    """Backcast's vector environment."""

    name = "backcast"

    def __init__(self, panel: bc.Panel, n: int, **settings: Any) -> None:  # noqa: ANN401
        self.env = PortfolioVectorEnv(panel, n, **SETTINGS, **settings)
        self.actions = actions(n)
        self.seen, _ = self.env.reset(seed=1)

    def step(self) -> object:
        """Trade a day."""
        self.seen, rewards, *_ = self.env.step(next(self.actions))
        return rewards

    def check(self) -> None:
        """Assert that a step moves days on, trades and shifts the history."""
        before = {key: np.array(value) for key, value in self.seen.items()}
        self.step()
        moved = self.seen["day"] == before["day"] + 1
        assert moved.any()
        assert (self.seen["shares"] != before["shares"]).any()
        if "history" in before:
            mine = self.seen["history"][moved], before["history"][moved]
            assert np.array_equal(mine[0][:, :, :-1], mine[1][:, :, 1:])


class BackcastSingle:
    """Backcast's single environment, which is reset in the step that ends an episode."""

    name = "backcast"

    def __init__(self, panel: bc.Panel) -> None:
        self.env = PortfolioEnv(panel, **SETTINGS)
        self.actions = actions(1)
        self.env.reset(seed=1)

    def step(self) -> object:
        """Trade a day."""
        obs, _, terminated, truncated, _ = self.env.step(next(self.actions)[0])
        if terminated or truncated:
            self.env.reset()
        return obs


class NumPy:
    """A batch in plain NumPy with the same money rules, except for the order of trades."""

    name = "numpy"

    def __init__(self, columns: Columns, n: int, history: int = 0) -> None:
        part = {name: values[:, :TICKERS] for name, values in columns.items()}
        self.open, self.close = part["open"], part["close"]
        self.shown = np.stack(list(part.values())[5:], axis=2)
        whole = np.stack([*columns.values()], axis=2).astype(np.float32)
        self.windows = np.lib.stride_tricks.sliding_window_view(whole, history or 1, axis=0)
        self.history = history
        self.actions = actions(n)
        draw = np.random.default_rng(1)
        self.day = draw.integers(history + 1, len(self.open) * 4 // 5, n)
        self.cash = np.full(n, CASH)
        self.shares = np.zeros((n, TICKERS))
        self.average = np.zeros((n, TICKERS))

    def step(self) -> object:
        """Trade a day."""
        wanted = np.trunc(next(self.actions) * HMAX)
        close = self.close[self.day]
        value = self.cash + (self.shares * close).sum(1)
        sold = np.minimum(np.maximum(-wanted, 0), self.shares)
        self.cash += (sold * close).sum(1) * (1 - FEE)
        bought = np.maximum(wanted, 0)
        cost = bought * close * (1 + FEE)
        # No loop over orders, for speed: purchases beyond the cash are dropped, last tickers first.
        fits = np.cumsum(cost, axis=1) <= self.cash[:, None]
        bought, cost = bought * fits, cost * fits
        self.cash -= cost.sum(1)
        held = self.shares - sold
        self.shares = held + bought
        paid = held * self.average + cost
        self.average = np.divide(paid, self.shares, out=np.zeros_like(paid), where=self.shares > 0)
        self.day += 1
        ended = self.day >= len(self.open) - 1
        if ended.any():
            self.day[ended] = self.history + 1
            self.cash[ended], self.shares[ended], self.average[ended] = CASH, 0, 0
        opening, close = self.open[self.day], self.close[self.day]
        after = self.cash + (self.shares * close).sum(1)
        obs = {
            "day": self.day.astype(np.int32),
            "cash": self.cash.copy(),
            "shares": self.shares.astype(np.int32),
            "avg_buy_price": self.average.copy(),
            "total_asset": self.cash + (self.shares * opening).sum(1),
            "open": opening,
            "indicators": self.shown[self.day - 1],
        }
        if self.history:
            # A copy gives the axes the order of Backcast's history: tickers, days, columns.
            obs["history"] = self.windows[self.day - self.history].swapaxes(2, 3).copy()
        return obs, np.log(after / value)


class Memcpy:
    """Copies arrays of the size of a step's observation into fresh ones."""

    name = "memcpy"

    def __init__(self, shown: dict[str, NDArray[Any]]) -> None:
        self.sources = [np.ascontiguousarray(values) for values in shown.values()]

    def step(self) -> object:
        """Copy."""
        return [source.copy() for source in self.sources]


class MemcpyNewest:
    """Copies the newest day of every history into an arena, and other arrays into reused ones."""

    name = "memcpy"

    def __init__(self, shown: dict[str, NDArray[Any]], days: int) -> None:
        whole = shown.pop("history")
        shown.pop("history_mask")
        n, rows, history, columns = whole.shape
        self.arena = np.zeros((n, history + days, rows, columns), np.float32)
        self.newest = np.ascontiguousarray(whole[:, :, -1])
        self.pairs = [(np.ascontiguousarray(v), np.empty_like(v)) for v in shown.values()]
        self.places = itertools.cycle(range(history, history + days))

    def step(self) -> object:
        """Copy."""
        self.arena[:, next(self.places)] = self.newest
        for source, target in self.pairs:
            np.copyto(target, source)
        return self.arena
