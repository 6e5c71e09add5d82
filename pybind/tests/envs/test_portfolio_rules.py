"""Portfolios against the plain reference of docs/concepts/portfolio-rules.md, step by step."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import backcast as bc
import numpy as np
import portfolio_reference as reference
import pytest
from backcast.envs import (
    DifferentialSharpe,
    Discrete,
    Drawdown,
    Excess,
    Margin,
    OrderLimit,
    PortfolioEnv,
    PortfolioVectorEnv,
    Weights,
)
from backcast.errors import ArgumentTypeError, EnvError
from backcast.evaluate import walk_forward
from gymnasium import spaces

TICKERS = 3


def made(
    path: Path, bars: int, *, minutes: bool, seed: int = 0, calm: float = 1.0
) -> tuple[bc.Panel, reference.Market]:
    """Make a panel with dividends and splits, of days or of minutes."""
    rng = np.random.default_rng(seed)
    shape = (bars, TICKERS)
    split = np.where(rng.random(shape) < 0.002, rng.choice([0.5, 2.0, 3.0], shape), 0.0)
    split[0] = 0
    moved = rng.normal(0, 0.01 * calm, shape) - np.log(np.where(split > 0, split, 1.0))
    pull = np.cumsum(moved, axis=0)
    # Splits would carry prices away; a slow pull brings them back.
    close = np.exp(pull - np.linspace(0, 1, bars)[:, None] * pull[-1]) * [20.0, 100.0, 300.0]
    volume = np.floor(np.exp(rng.normal(8, 1, shape)))
    dividend = np.where(rng.random(shape) < 0.02, 0.002 * close, 0.0)
    start = datetime(2000, 1, 3, 0, 0)
    step = timedelta(minutes=1) if minutes else timedelta(days=1)
    with open(path, "w") as file:
        print(
            f"{'timestamp' if minutes else 'date'},tic,open,high,low,close,volume,div,split",
            file=file,
        )
        for bar in range(bars):
            at = start + bar * step
            label = at.strftime("%Y-%m-%dT%H:%M:00Z") if minutes else at.strftime("%Y-%m-%d")
            for ticker in range(TICKERS):
                price = repr(float(close[bar, ticker]))
                rest = [volume, dividend, split]
                cells = ",".join(repr(float(column[bar, ticker])) for column in rest)
                print(f"{label},T{ticker},{price},{price},{price},{price},{cells}", file=file)
    panel = bc.Panel.from_csv(path)
    return panel, reference.Market(close, volume, dividend, split)


COSTS: dict[str, Any] = {
    "buy_cost_pct": 0.0002,
    "sell_cost_pct": 0.0003,
    "slippage_bps": 1.0,
    "slippage_per_share": 0.001,
}
MARGIN = Margin(initial=0.5, maintenance=0.35, borrow_rate=0.03, loan_rate=0.05)
CASES: dict[str, dict[str, Any]] = {
    "weights, short, margin, fractions": {
        "actions": Weights(leverage=2), "fractional": True, "margin": MARGIN, **COSTS,
    },
    "weights, short, margin, limits, impact": {
        "actions": Weights(leverage=1.9), "margin": MARGIN, "max_position": 0.8,
        "max_volume": 0.2, "impact_bps": 30.0, "fixed_fee": 0.01, **COSTS,
    },
    "weights, long, cash": {"actions": "weights", "fractional": True, **COSTS},
    "weights, long, whole, impact": {"actions": "weights", "impact_bps": 5.0, **COSTS},
    "shares, short, fractions": {
        "actions": "shares", "hmax": 200, "fractional": True, "margin": MARGIN, **COSTS,
        # Positions at the limit of the margin follow from all before: rounding errors add up.
        "max_episode_steps": 100,
    },
}  # fmt: skip


def rules_of(case: dict[str, Any], panel: bc.Panel) -> reference.Rules:
    """Word the settings of a case for the reference."""
    actions, margin = case["actions"], case.get("margin")
    return reference.Rules(
        weights=actions != "shares",
        leverage=actions.leverage if isinstance(actions, Weights) else 1.0,
        hmax=case.get("hmax", 15),
        fractional=case.get("fractional", False),
        margin=None
        if margin is None
        else (margin.initial, margin.maintenance, margin.borrow_rate, margin.loan_rate),
        max_position=case.get("max_position"),
        max_volume=case.get("max_volume"),
        buy=case["buy_cost_pct"],
        sell=case["sell_cost_pct"],
        fixed=case.get("fixed_fee", 0.0),
        slippage_bps=case["slippage_bps"],
        per_share=case["slippage_per_share"],
        impact_bps=case.get("impact_bps", 0.0),
        bars_per_year=panel.bars_per_year,
    )


def money_out_of_nothing(
    market: reference.Market,
    before: dict[str, Any],
    after: dict[str, Any],
    info: dict[str, Any],
) -> float:
    """Return the change of the cash that neither fills, costs, dividends nor splits explain.

    Reads only what the environment returned, and the market.
    """
    day = int(before["day"][0])
    close, ratio = market.close[day], market.split[day + 1]
    ratio = np.where(ratio > 0, ratio, 1.0)
    # A split pays in cash what is left of a whole unit.
    held = (before["shares"] + info["fills"]) * ratio
    rest = float(((held - after["shares"]) * close / ratio).sum())
    paid = sum(info["costs"].values()) - info["dividends"] - rest
    return float(after["cash"][0] - before["cash"][0] + (info["fills"] * close).sum() + paid)


@pytest.mark.parametrize("minutes", [False, True], ids=["days", "minutes"])
@pytest.mark.parametrize("name", CASES)
def test_ten_thousand_random_steps_equal_the_reference(
    tmp_path: Path, name: str, minutes: bool
) -> None:
    case = CASES[name]
    panel, market = made(tmp_path / "prices.csv", 10_400, minutes=minutes, calm=0.3)
    env = PortfolioEnv(
        panel,
        dividends="div",
        splits="split",
        failure_threshold=0,
        step_info=True,
        **{"max_episode_steps": 2_000, **case},
    )
    space = env.action_space
    assert isinstance(space, spaces.Box)
    low, high = space.low[0], space.high[0]
    action = np.zeros(TICKERS)
    rng = np.random.default_rng(1)
    rules, steps, seen = rules_of(case, panel), 0, dict.fromkeys(["short", "owed", "dividends"], 0)
    start, worst = 1, 0.0
    while steps < 10_000:
        obs, _ = env.reset(options={"start_day": start})
        twin = reference.Portfolio(rules, market, start, float(obs["cash"][0]), np.zeros(TICKERS))
        ended, scale = False, 1.0
        while not ended and steps < 10_000:
            # A part of the actions leaves positions as they are, so that margins are exhausted.
            action = rng.uniform(low, high, TICKERS) if rng.random() < 0.7 else action * 0.9
            equity = twin.value()
            before = obs
            obs, reward, terminated, truncated, info = env.step(action)
            expected, ruined = twin.step(action)
            # Rounding errors are those of the largest amounts that were added so far.
            scale = max(scale, abs(equity), abs(twin.cash))
            errors = [
                abs(obs["cash"][0] - twin.cash) / scale,
                *(np.abs(obs["shares"] - twin.units) * market.close[twin.day] / scale),
                abs(reward - expected),
                *(abs(info["costs"][kind] - twin.info[kind]) / scale for kind in info["costs"]),
                abs(info["dividends"] - twin.info["dividends"]) / scale,
                *(
                    np.abs(info["orders"] - twin.info["orders"])
                    * market.close[twin.day - 1]
                    / scale
                ),
                *(np.abs(info["fills"] - twin.info["fills"]) * market.close[twin.day - 1] / scale),
            ]
            errors.append(abs(money_out_of_nothing(market, before, obs, info)) / scale)
            worst = max(worst, *errors)
            assert worst <= 1e-12, (steps, errors)
            assert (terminated, info["liquidated"]) == (ruined, twin.info["liquidated"]), steps
            seen["short"] += bool((twin.units < 0).any())
            seen["owed"] += twin.cash < 0
            seen["dividends"] += twin.info["dividends"] != 0
            steps += 1
            ended = terminated or truncated
        start = twin.day if twin.day < 10_300 else 1
    assert seen["dividends"] > 100
    if "margin" in case:
        assert seen["short"] > 1_000


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_a_vector_equals_its_single_environments_with_infos(tmp_path: Path, mode: str) -> None:
    panel, _ = made(tmp_path / "prices.csv", 300, minutes=False)
    case = CASES["weights, short, margin, limits, impact"]
    given = {**case, "dividends": "div", "splits": "split", "step_info": True, "record": True}
    given |= {"max_episode_steps": 11, "reward": "differential_sharpe"}
    envs = PortfolioVectorEnv(panel, 9, autoreset_mode=mode, **given)
    ones = [PortfolioEnv(panel, **given) for _ in range(9)]
    envs.reset(seed=5)
    for at, one in enumerate(ones):
        one.reset(seed=5 + at)
    rng = np.random.default_rng(2)
    ended = np.zeros(9, bool)
    for _ in range(40):
        actions = rng.uniform(-1.9, 1.9, (9, TICKERS))
        obs, reward, terminated, truncated, infos = envs.step(actions)
        for at, one in enumerate(ones):
            if mode == "next_step" and ended[at]:
                one.reset()
                assert (reward[at], infos["_costs"][at]) == (0, False)
                assert (infos["orders"][at] == 0).all()
                continue
            single = one.step(actions[at])
            assert reward[at] == single[1]
            assert (terminated[at], truncated[at]) == single[2:4]
            for key in ("orders", "fills", "limits"):
                assert (infos[key][at] == single[4][key]).all()
                assert infos[f"_{key}"][at]
            for kind, cash in single[4]["costs"].items():
                assert infos["costs"][kind][at] == cash
                assert infos["costs"][f"_{kind}"][at]
            assert infos["dividends"][at] == single[4]["dividends"]
            if mode == "same_step" and (single[2] or single[3]):
                final = infos["final_obs"][at]
                assert (final["shares"] == single[0]["shares"]).all()
                last = infos["final_info"]
                for key in ("orders", "fills", "limits"):
                    assert (last[key][at] == single[4][key]).all()
                assert last["costs"]["fees"][at] == single[4]["costs"]["fees"]
                one.reset()
            else:
                assert (obs["shares"][at] == single[0]["shares"]).all()
        ended = terminated | truncated
    history = ones[0].history(before=True)
    assert history["shares"].dtype == np.int32
    assert (history["shares"] < 0).any()
    moved = history["bought"] - history["sold"]
    assert moved.shape == (11, TICKERS)


def test_discrete_actions_are_orders_of_their_choices(tmp_path: Path) -> None:
    panel, _ = made(tmp_path / "prices.csv", 60, minutes=False)
    given: dict[str, Any] = {"hmax": 40, "step_info": True}
    one = PortfolioEnv(panel, actions=Discrete((-1, -0.25, 0, 0.5)), **given)
    other = PortfolioEnv(panel, **given)
    for env in (one, other):
        env.reset(seed=3)
    rng = np.random.default_rng(3)
    for _ in range(12):
        action = rng.integers(0, 4, TICKERS)
        found = one.step(action)
        expected = other.step(np.array([-1, -0.25, 0, 0.5])[action])
        assert found[0]["cash"] == expected[0]["cash"]
        assert found[1] == expected[1]
        assert (found[4]["fills"] == expected[4]["fills"]).all()


NOTHING: Any = None


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"margin": Margin(initial=NOTHING)}, r"Margin.initial is None; give .*0\.5"),
        ({"margin": Margin(maintenance=NOTHING)}, "Margin.maintenance is None; give"),
        ({"margin": Margin(borrow_rate=NOTHING)}, "Margin.borrow_rate is None; give"),
        ({"margin": Margin(loan_rate=NOTHING)}, "Margin.loan_rate is None; give"),
        ({"actions": Weights(NOTHING)}, "Weights.leverage is None; give"),
        ({"reward": DifferentialSharpe(NOTHING)}, "DifferentialSharpe.rate is None; give"),
        ({"reward": Drawdown(NOTHING)}, "Drawdown.weight is None; give"),
        ({"reward": Excess(NOTHING)}, "Excess.ticker is None; give .*SPY"),
    ],
)
def test_options_without_a_value_are_refused(
    tmp_path: Path, settings: dict[str, Any], words: str
) -> None:
    panel, _ = made(tmp_path / "prices.csv", 60, minutes=False)
    with pytest.raises(ArgumentTypeError, match=words):
        PortfolioEnv(panel, **settings)


def test_the_word_of_an_excess_asks_for_its_ticker(tmp_path: Path) -> None:
    panel, _ = made(tmp_path / "prices.csv", 60, minutes=False)
    word: Any = "excess"
    with pytest.raises(EnvError, match=r'"excess", which needs a ticker.*Excess\("SPY"\)'):
        PortfolioEnv(panel, reward=word)


def test_orders_without_a_row_or_a_price_say_so(tmp_path: Path) -> None:
    panel, _ = made(tmp_path / "prices.csv", 60, minutes=False)
    tradable = np.ones((TICKERS, 60), np.bool_)
    tradable[0] = False
    env = PortfolioEnv(
        panel, tradable=tradable, slippage_per_share=1e6, margin=MARGIN, step_info=True
    )
    env.reset(seed=1)
    limits = env.step([1.0, -1.0, 0.0])[4]["limits"]
    assert limits.tolist() == [OrderLimit.LISTING, OrderLimit.PRICE, OrderLimit.NONE]


def weekly() -> bc.Panel:
    """Return a panel of a ticker with a row every day, and of one without rows on two days of 7."""
    dates = np.arange("2024-01-01", 70, dtype="datetime64[D]")
    there = np.arange(70) % 7 < 5
    frame = {
        "date": np.concatenate([dates, dates[there]]),
        "tic": np.repeat(["COIN", "STOCK"], [70, int(there.sum())]),
        "close": np.linspace(10, 20, 70 + int(there.sum())),
    }
    return bc.Panel.from_frame(frame, derive=["open", "high", "low", "volume"])


@pytest.mark.parametrize("actions", ["shares", "weights"])
@pytest.mark.parametrize("fractional", [False, True])
def test_orders_on_a_closed_day_say_so(
    actions: Literal["shares", "weights"], fractional: bool
) -> None:
    env = PortfolioEnv(weekly(), actions=actions, fractional=fractional, step_info=True)
    env.reset(options={"start_day": "2024-01-06"})
    info = env.step([0.5, 0.5])[4]
    assert info["limits"].tolist() == [OrderLimit.NONE, OrderLimit.LISTING]
    # Nothing is known of a price in this episode.
    assert (info["orders"][1] > 0) == (actions == "shares")


def test_days_of_a_fold_are_taken_and_others_say_what_they_are() -> None:
    panel = weekly()
    fold = walk_forward(panel, train=40, test=20)[0]
    assert str(PortfolioEnv(panel, days=fold.train)) == str(PortfolioEnv(panel, days=(0, 40)))
    with pytest.raises(EnvError, match="days has 2 ranges"):
        PortfolioEnv(panel, days=((0, 20), (40, 60)))
    with pytest.raises(EnvError, match=r"2030-01-01.*from 2024-01-01 to 2024-03-10"):
        PortfolioEnv(panel, days=("2030-01-01", None))
    env = PortfolioVectorEnv(panel, 2)
    for late in ("2030-01-01", ["2024-01-05", "2030-01-01"]):
        with pytest.raises(EnvError, match=r"2030-01-01.*from 2024-01-01 to 2024-03-10"):
            env.reset(options={"start_day": late})


def test_the_excess_over_a_ticker_begins_at_its_last_known_close() -> None:
    dates = np.arange("2024-01-01", 8, dtype="datetime64[D]")
    held, missing = np.full(8, 10.0), 3
    other = 100.0 * 1.1 ** np.arange(8)
    there = np.arange(8) != missing
    close = np.concatenate([held, other[there]])
    frame = {
        "date": np.concatenate([dates, dates[there]]),
        "tic": np.repeat(["AAA", "BBB"], [8, 7]),
        **{part: close for part in ("open", "high", "low", "close")},
        "volume": np.full(15, 1e6),
    }
    env = PortfolioEnv(bc.Panel.from_frame(frame), reward=Excess("BBB"))
    env.reset(options={"start_day": missing})
    rewards = [env.step([0, 0])[1] for _ in range(2)]
    # From the close of the day before the one without a row, then a day's return.
    assert rewards == pytest.approx([-2 * math.log(1.1), -math.log(1.1)])
