"""Prices of a day change no observation or reward before it, unless a setting allows look-ahead.

A market is changed on one day only. Changing close, high, low, volume or an indicator of that day
changes no observation up to and including that day, and no reward before it. Changing its open
changes no observation or reward before that day. Settings that allow look-ahead do look ahead.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import backcast as bc
import backcast.finrl as ff
import numpy as np
import pytest
from backcast.envs import PortfolioVectorEnv
from finrl_market import COLUMNS, Market, market

DAY = 21
START = 15
SAFE: dict[str, dict[str, Any]] = {
    "defaults": {},
    "stop losses by close": {"stop_loss_tolerance": 0.99},
    "stop losses by low": {"stop_loss_tolerance": 0.99, "stop_loss_calculation": "low"},
    "uniform": {"bidding": "uniform", "stop_loss_tolerance": 0.99},
    "adverse": {"bidding": "adv_uniform", "slippage_bps": 5, "fixed_fee": 1.0},
    "two days of lag": {"indicator_lag": 2},
    "valued at the open by name": {"valuation": "open"},
    "history": {"history_length": 5},
}
UNSAFE: dict[str, tuple[dict[str, Any], str]] = {
    "indicators of the day": ({"indicator_lag": 0, "valuation": "open"}, "indicators"),
    "valued at the close": ({"valuation": "close"}, "total_asset"),
    "stop losses of the next day": (
        {"stop_loss_tolerance": 0.99, "stop_loss_day": "next"},
        "shares",
    ),
}


def changed(original: Market, column: str) -> Market:
    """Return a market with one column of every ticker changed on `DAY`."""
    other = copy.deepcopy(original)
    for rows in other.rows.values():
        row = rows[DAY]
        high, low, close = row[1:4]
        if column == "open":
            row[0] = (high + 2 * low) / 3
        elif column == "close":
            row[3] = low if close > low else high
        elif column == "high":
            row[1] = high * 1.3
        elif column == "low":
            row[2] = low * 0.7
        else:
            row[COLUMNS.index(column)] += 5
    return other


def episodes(path: Path, face: str, settings: dict[str, Any]) -> list[tuple[dict[str, Any], Any]]:
    """Step with fixed actions; return observations, each with the reward that came with it."""
    draw = np.random.default_rng(4)
    names: dict[str, Any] = {"macro_tickers": ["IDX"], "hmax": 60}
    start = {"start_day": START}
    actions = draw.uniform(-0.6, 1, (12, 3, 3))
    if face == "gymnasium":
        panel = bc.Panel.from_csv(path, macro=["IDX"])
        env = PortfolioVectorEnv(panel, 3, **names, **settings)
        seen = [(env.reset(seed=2, options=start)[0], np.zeros(3))]
        return seen + [env.step(action)[:2] for action in actions]
    many = ff.VecFastFinRL(
        path,
        3,
        return_format="vec",
        auto_reset=False,
        **{"stop_loss_tolerance": 0.0} | names | settings,
    )
    states = [many.reset(seed=2, options=start)] + [many.step(action) for action in actions]
    shown = ["day", "cash", "shares", "avg_buy_price", "total_asset", "open", "indicators"]
    shown += ["macro_open", "macro_indicators", "num_stop_loss", "n_trades", "episode_orders"]
    return [({key: state[key] for key in shown}, state["reward"]) for state in states]


def differences(
    tmp_path: Path, face: str, column: str, settings: dict[str, Any]
) -> list[tuple[int, str]]:
    """Return the days and names of values that differ between the original and a changed market."""
    original = market(40, ["AAA", "BBB", "CCC", "IDX"], seed=8)
    runs = []
    for name, of in [("one.csv", original), ("two.csv", changed(original, column))]:
        runs.append(episodes(of.write(tmp_path / name), face, settings))
    found = []
    for (here, reward), (there, other) in zip(*runs, strict=True):
        day = int(np.ravel(here["day"])[0])
        found += [(day, key) for key in here if not np.array_equal(here[key], there[key])]
        if not np.array_equal(reward, other):
            found.append((day, "reward"))
    return found


@pytest.mark.parametrize("face", ["gymnasium", "finrl"])
@pytest.mark.parametrize("case", SAFE)
@pytest.mark.parametrize("column", COLUMNS)
def test_a_day_changes_nothing_that_was_shown_before_it_could_be_known(
    tmp_path: Path, face: str, case: str, column: str
) -> None:
    found = differences(tmp_path, face, column, SAFE[case])
    for day, key in found:
        if column == "open":
            assert day >= DAY, (day, key)
        else:
            assert day > DAY or (day == DAY and key == "reward"), (day, key)
    if column in ("open", "close", "zeta"):
        assert found, "what is known later does show"


@pytest.mark.parametrize("case", UNSAFE)
def test_look_ahead_by_choice_is_look_ahead(tmp_path: Path, case: str) -> None:
    settings, key = UNSAFE[case]
    column = "zeta" if key == "indicators" else "close"
    assert (DAY, key) in differences(tmp_path, "finrl", column, settings)


@pytest.mark.parametrize("column", COLUMNS)
def test_windows_around_a_day_hold_nothing_of_it_but_the_open(tmp_path: Path, column: str) -> None:
    original = market(40, seed=8)
    windows = []
    for name, of in [("one.csv", original), ("two.csv", changed(original, column))]:
        env = ff.VecFastFinRL(of.write(tmp_path / name), 1)
        windows.append([env.get_market_window_numpy(["AAA"], day, 6)["AAA"] for day in range(40)])
    for day, (here, there) in enumerate(zip(*windows, strict=True)):
        same = all(np.array_equal(here[key], there[key]) for key in here)
        if column == "open":
            assert same == (day not in range(DAY, DAY + 7))
        elif day <= DAY:
            assert same, day
