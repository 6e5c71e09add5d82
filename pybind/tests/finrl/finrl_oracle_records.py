"""Independent implementation of windows and buffers, written from their documentation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from finrl_oracle import OHLCV, Prices, Rules


def window(
    prices: Prices, rules: Rules, tickers: Sequence[str], day: int, h: int, future: int
) -> dict[str, Any]:
    """Return the days before and after a day; the day itself is in neither part.

    The future shows no day after the last one of `rules.days`.
    """
    last = rules.days[1] - 1 if rules.days else len(prices.dates) - 1
    names = list(rules.tech_indicator_list) or prices.indicators
    found: dict[str, Any] = {}
    for tic in tickers:
        lagged = day - rules.indicator_lag
        there = (tic, day) in prices.rows
        found[tic] = {
            "current_open": prices.at(tic, day, "open"),
            "current_indicators": np.array([prices.at(tic, lagged, name) for name in names]),
            "current_mask": int(there),
            "current_day": day if there else -1,
        }
        for part, days in [
            ("past", range(day - h, day)),
            ("future", range(day + 1, day + 1 + future)),
        ]:
            shown = [at if part == "past" or at <= last else -1 for at in days]
            listed = [(tic, at) in prices.rows for at in shown]
            found[tic] |= {
                f"{part}_ohlcv": table(prices, tic, shown, OHLCV),
                f"{part}_indicators": table(prices, tic, shown, names),
                f"{part}_mask": np.array(listed, int),
                f"{part}_days": np.where(listed, list(days), -1) if days else np.zeros(0),
            }
    return found | {"indicator_names": names, "h": h, "future": future}


def table(
    prices: Prices, tic: str, days: Sequence[int], names: Sequence[str]
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return values of a ticker by day and name."""
    rows = [[prices.at(tic, day, name) for name in names] for day in days]
    return np.array(rows, float).reshape(len(days), len(names))


class Records:
    """Buffer of added transitions; when it is full, a new one overwrites the oldest."""

    def __init__(self, prices: Prices, rules: Rules, capacity: int) -> None:
        self.prices, self.rules, self.capacity, self.added = prices, rules, capacity, 0
        self.slots: list[dict[str, Any]] = []

    def add(
        self,
        env_id: int,
        tickers: Sequence[str],
        before: Mapping[str, Any],
        action: Any,  # noqa: ANN401
        rewards: Sequence[float],
        after: Mapping[str, Any],
    ) -> None:
        """Store one transition."""
        stored = {
            "env_id": env_id,
            "tickers": list(tickers),
            "action": single(np.ravel(action)),
            "rewards": single(rewards),
            "done": bool(after["done"]),
            "terminal": bool(after["terminal"]),
        }
        for name, state in [("state", before), ("next_state", after)]:
            stored |= {
                f"{name}_day": int(state["day"]),
                f"{name}_cash": single([state["cash"]])[0],
                f"{name}_shares": [int(held) for held in state["shares"]],
                f"{name}_avg_buy_price": single(state["avg_buy_price"]),
            }
        if len(self.slots) < self.capacity:
            self.slots.append(stored)
        else:
            self.slots[self.added % self.capacity] = stored
        self.added += 1

    def side(self, indices: Sequence[int], name: str, h: int, future: int) -> dict[str, Any]:
        """Return the values of the states, or of the next states, of a batch."""
        parts: dict[str, list[Any]] = {}
        for index in indices:
            stored = self.slots[index]
            day, tickers = stored[f"{name}_day"], stored["tickers"]
            for key in ("cash", "shares", "avg_buy_price"):
                parts.setdefault(key, []).append(stored[f"{name}_{key}"])
            for where, of in [("", tickers), ("macro_", self.rules.macro_tickers)]:
                around = window(self.prices, self.rules, of, day, h, future)
                for there, key in [
                    ("past_ohlcv", "ohlcv"),
                    ("past_indicators", "indicators"),
                    ("past_mask", "mask"),
                    ("future_ohlcv", "future_ohlcv"),
                    ("future_indicators", "future_indicators"),
                    ("future_mask", "future_mask"),
                    ("current_open", "open"),
                    ("current_indicators", "current_indicators"),
                ]:
                    parts.setdefault(where + key, []).append([around[tic][there] for tic in of])
        return {key: np.array(values, np.float32) for key, values in parts.items()}


def single(values: Iterable[float]) -> list[float]:
    """Round to 32 bits."""
    return [float(np.float32(value)) for value in values]
