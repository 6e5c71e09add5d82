"""Agents of a shared market that are terminated while others go on."""

from __future__ import annotations

from typing import Any

import numpy as np
from backcast import sim
from backcast._native import SharedMarket

SYMBOLS, STEPS = 2, 30
HOLD, BUY, BID, CANCEL = 1, 2, 4, 5


def books_of(seed: int, third: int, bankruptcy_equity: float) -> tuple[list[list[Any]], int | None]:
    """Return the books after each step, and the step that terminated the agent.

    The agent bids in every symbol, then buys at the market. In its third step, if it has one, it
    makes the same choice in every symbol, and holds from then on.
    """
    config = sim.MarketConfig.preset("normal")
    config.symbols = SYMBOLS
    agents = {
        "leaver": {"actions": "discrete_limit", "initial_cash": 50_001},
        "stayer": {"actions": "discrete_limit", "initial_cash": 1_000_000},
    }
    common = {"market": config, "warmup_ticks": 40, "max_ticks": 200}
    market = SharedMarket(agents, common | {"bankruptcy_equity": bankruptcy_equity})
    market.reset(seed=seed)
    books: list[list[Any]] = []
    last = None
    for step, choice in enumerate([BID, BUY, third, *[HOLD] * (STEPS - 3)]):
        chosen = {"leaver": choice, "stayer": HOLD}
        actions = {name: np.full(SYMBOLS, chosen[name]) for name in market.acting}
        if market.step(actions)[2].get("leaver"):
            last = step
        books.append([market.book(symbol, 16) for symbol in range(SYMBOLS)])
    return books, last


def differing(one: list[list[Any]], other: list[list[Any]]) -> list[tuple[int, int]]:
    """Return the steps and symbols after which two books differ."""
    return [
        (step, symbol)
        for step in range(STEPS)
        for symbol in range(SYMBOLS)
        if str(one[step][symbol]) != str(other[step][symbol])
    ]


def test_open_orders_of_a_terminated_agent_are_cancelled_as_by_itself() -> None:
    compared, shown = 0, set()
    for seed in range(12):
        left, last = books_of(seed, HOLD, bankruptcy_equity=50_000)
        if last == 1:
            cancelled, _ = books_of(seed, CANCEL, bankruptcy_equity=0)
            rests, never = books_of(seed, HOLD, bankruptcy_equity=0)
            assert never is None
            assert differing(left, cancelled) == []
            shown |= {symbol for _, symbol in differing(left, rests)}
            compared += 1
    # Orders that are not cancelled show in the books of every symbol.
    assert compared > 3
    assert shown == set(range(SYMBOLS))
