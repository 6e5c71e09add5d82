"""Contenders: Backcast's buffer of transitions, a NumPy one, and memcpy of its batches."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import backcast as bc
import backcast.finrl as ff
import numpy as np
from numpy.typing import NDArray

State = dict[str, Any]

CAPACITY: Final = 20_000
MANY: Final = 64
"""Transitions that one call adds."""
BATCH: Final = 256
HISTORY: Final = 20
FUTURE: Final = 5


class World:
    """Stands in for an environment: a market, and made-up states of portfolios in it."""

    def __init__(self, panel: bc.Panel) -> None:
        self.panel = panel
        self.macro = list(panel.macro)
        self.tickers = [name for name in panel.tickers if name not in self.macro]
        self.tokens = panel.tokens(self.tickers)
        self.steps = [self.step(seed) for seed in range(64)]

    def n_tickers(self) -> int:
        """Count the tickers of a portfolio."""
        return len(self.tickers)

    def get_macro_tickers(self) -> list[str]:
        """Name the tickers that are shown and never traded."""
        return self.macro

    def get_indicator_names(self) -> list[str]:
        """Name the indicators."""
        return list(self.panel.indicators)

    def step(self, seed: int) -> tuple[State, NDArray[np.float64], State]:
        """Make up a step of `MANY` portfolios: state, actions, next state."""
        draw = np.random.default_rng(seed)
        shape = (MANY, len(self.tickers))
        day = draw.integers(0, self.panel.n_days - 1, MANY).astype(np.int32)
        lists = [list(self.tickers) for _ in range(MANY)]

        def state(day: NDArray[np.int32]) -> State:
            return {
                "day": day,
                "cash": draw.uniform(0, 30_000, MANY),
                "shares": draw.integers(0, 50, shape).astype(np.int32),
                "avg_buy_price": draw.uniform(1, 100, shape),
                "reward": draw.normal(size=MANY),
                "done": np.zeros(MANY, bool),
                "terminal": np.zeros(MANY, bool),
                "tickers": lists,
            }

        return state(day), draw.uniform(-1, 1, shape), state(day + 1)


class Backcast:
    """Backcast's buffer, filled."""

    def __init__(self, world: World, threads: int = 1) -> None:
        self.buffer = ff.VecReplayBuffer(world, CAPACITY, threads=threads)
        self.steps = itertools.cycle(world.steps)
        for _ in range(CAPACITY // MANY + 1):
            self.add()
        self.outs: dict[str, Any] = {}

    def add(self) -> object:
        """Store `MANY` transitions."""
        state, actions, after = next(self.steps)
        self.buffer.add(state, actions, after["reward"], after, after["done"])
        return None

    def fresh(self, layout: Any) -> Any:  # noqa: ANN401
        """Draw into new arrays."""
        return self.buffer.sample(BATCH, HISTORY, FUTURE, layout=layout)

    def again(self, layout: Any) -> Any:  # noqa: ANN401
        """Draw into the arrays of the previous batch."""
        out = self.outs.get(layout)
        self.outs[layout] = self.buffer.sample(BATCH, HISTORY, FUTURE, layout=layout, out=out)
        return self.outs[layout]

    def check(self) -> None:
        """Assert that a batch holds the market's rows, and that both layouts hold the same rows."""
        indices = np.arange(BATCH)
        asked: dict[str, Any] = {"history_length": HISTORY, "indices": indices}
        s, *_, mask, _ = self.buffer.sample(layout="batched", **asked)
        one = self.buffer.sample(**asked)[0]
        panel = self.buffer.panel
        for at, ticker in enumerate(s["tickers"][0]):
            np.testing.assert_array_equal(one[ticker]["ohlcv"], s["ohlcv"][:, at])
            day = int(s["day"][7])
            if day >= HISTORY:
                rows = panel.values[panel.tickers.index(ticker), day - HISTORY : day, :5]
                np.testing.assert_array_equal(s["ohlcv"][7, at], rows.astype(np.float32))
        assert mask["market"].any()


class NumPy:
    """A hand-written buffer: columns, a cursor, the market as an array and fancy indexing."""

    def __init__(self, world: World) -> None:
        self.market = world.panel.values.astype(np.float32)
        self.listed = world.panel.mask
        width = len(world.tickers)
        self.columns = {
            "day": np.zeros((CAPACITY, 2), np.int32),
            "cash": np.zeros((CAPACITY, 2), np.float32),
            "shares": np.zeros((CAPACITY, 2, width), np.int32),
            "avg_buy_price": np.zeros((CAPACITY, 2, width), np.float32),
            "action": np.zeros((CAPACITY, width), np.float32),
            "reward": np.zeros(CAPACITY, np.float32),
            "done": np.zeros(CAPACITY, bool),
        }
        every = [*world.tokens, *world.panel.tokens(world.macro)]
        self.rows = np.array(every) - 1
        self.steps = itertools.cycle(world.steps)
        self.at = 0
        self.draw = np.random.default_rng(0)
        for _ in range(CAPACITY // MANY + 1):
            self.add()
        days, cells = HISTORY + FUTURE + 2, (BATCH, len(every))
        self.out = np.empty((*cells, days, self.market.shape[2]), np.float32)
        self.mask = np.empty((*cells, days), bool)
        self.flat = self.market.reshape(-1, self.market.shape[2])

    def add(self) -> object:
        """Store `MANY` transitions; the names of tickers are left out."""
        state, actions, after = next(self.steps)
        if self.at + MANY > CAPACITY:
            self.at = 0
        to = slice(self.at, self.at + MANY)
        for side, of in enumerate((state, after)):
            for key in ("day", "cash", "shares", "avg_buy_price"):
                self.columns[key][to, side] = of[key]
        self.columns["action"][to] = actions
        self.columns["reward"][to] = after["reward"]
        self.columns["done"][to] = after["done"]
        self.at += MANY
        return None

    def sample(self) -> Mapping[str, Any]:
        """Draw, and gather the market windows with one `np.take` into the same memory."""
        index = self.draw.integers(0, CAPACITY, BATCH)
        batch: dict[str, Any] = {key: column[index] for key, column in self.columns.items()}
        days = batch["day"][:, :1] + np.arange(-HISTORY, FUTURE + 2)
        inside = (days >= 0) & (days < self.market.shape[1])
        days = np.where(inside, days, 0)
        at = self.rows[None, :, None] * self.market.shape[1] + days[:, None, :]
        np.take(self.flat, at, axis=0, out=self.out, mode="clip")
        np.take(self.listed.reshape(-1), at, out=self.mask, mode="clip")
        self.mask &= inside[:, None, :]
        self.out[~self.mask] = 0
        return batch | {"market": self.out, "mask": self.mask}


class Memcpy:
    """Copies as many bytes as the arenas of the buffer's batches have."""

    def __init__(self, batch: Any) -> None:  # noqa: ANN401
        arena, mask = batch[0]["ohlcv"].base, batch[5]["market"].base
        size = (arena.nbytes + mask.nbytes) // 8
        self.source = np.random.default_rng(1).random(size)
        self.out = np.empty_like(self.source)
        self.helper = ThreadPoolExecutor(1)

    def copy(self) -> object:
        """Copy."""
        np.copyto(self.out, self.source)
        return self.out

    def copy_in_two(self) -> object:
        """Copy one half in this thread and the other in a second one: bandwidth of two threads."""
        half = len(self.out) // 2
        other = self.helper.submit(np.copyto, self.out[half:], self.source[half:])
        np.copyto(self.out[:half], self.source[:half])
        other.result()
        return self.out
