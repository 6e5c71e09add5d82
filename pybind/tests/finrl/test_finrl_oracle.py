"""Compares every class with an independent implementation, on random markets and settings.

The first test compares that implementation, `finrl_oracle`, with recorded trajectories; the others
compare the classes with it. Seeds are fixed, so that a failing case fails again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import backcast.finrl as ff
import numpy as np
import pytest
from backcast.envs import PortfolioVectorEnv
from finrl_golden import GOLDEN, near, trajectories, trajectory_of
from finrl_made_up import MadeUp, compare, made_up, orders, rules_of
from finrl_oracle import Account, Prices, Rules, Twister

# Prices are drawn at random.
pytestmark = pytest.mark.filterwarnings("ignore:.*as after a split")

FLAGS = ("reward", "done", "terminal", "terminated", "truncated")


def begun(prices: Prices, rules: Rules, tickers: list[str], seed: int, shift: int = 0) -> Account:
    """Return a portfolio at the start of an episode, on the day that its seed draws."""
    account = Account(prices, rules, tickers, Twister(seed))
    account.reset(account.draw_day(shift=shift))
    return account


def drawn(plain: Iterable[int], poor: Iterable[int]) -> list[Any]:
    """Return cases with random settings, and cases (`poor`) that start below the threshold."""
    settled = {"initial_amount": 24_900.0, "failure_threshold": 25_000.0}
    cases = [pytest.param(seed, {}, id=f"{seed}") for seed in plain]
    return cases + [pytest.param(seed, settled, id=f"{seed}-poor") for seed in poor]


@pytest.mark.parametrize(("case", "name"), [*trajectories("vec"), *trajectories("single")])
def test_the_rules_written_down_are_those_recorded(case: str, name: str) -> None:
    recorded, prices = trajectory_of(case, name), Prices(GOLDEN / f"{case}.csv")
    single = recorded["kind"] == "single"
    rules = rules_of(recorded["config"], "same_always" if single else "next")
    lists = [recorded["tickers"]] if single else recorded["tickers"]
    seeds = [recorded["seed"]] if single else recorded["env_seeds"]
    names = list(rules.tech_indicator_list) or prices.indicators
    order = [names.index(name) for name in recorded.get("obs_indicator_names", names)]
    for at, tickers in enumerate(lists):
        seed = seeds[at]
        account = begun(prices, rules, tickers, seed, recorded.get("shifted_start", 0))
        for step in range(-1, recorded["steps"]):
            rows = recorded["reset_state"]
            if step >= 0:
                actions = recorded["actions"][step]
                account.step(actions if single else actions[at])
                rows = {key: values[step] for key, values in recorded["after_step"].items()}
            expected = rows if single else {key: values[at] for key, values in rows.items()}
            found = account.state()
            if recorded.get("auto_reset") and found["done"]:
                seed += 1
                account = begun(prices, rules, tickers, seed)
                found = account.state() | {"done": True}
            found["date"] = prices.dates[found["day"]]
            for key, value in expected.items():
                if key == "fills":
                    compare_fills(account, value)
                elif key == "date":
                    assert found[key] == value
                elif key.endswith("indicators"):
                    near(found[key][:, order], value, key)
                elif value is not None:
                    near(found[key], value, key)


def compare_fills(account: Account, fills: dict[str, dict[str, float]]) -> None:
    """Compare the totals of each ticker's fills."""
    assert account.fills.keys() == fills.keys()
    for tic, fill in account.fills.items():
        for key, value in fill.items():
            near(fills[tic][key], value, key)


def compare_metrics(found: dict[str, Any], at: int, account: Account, what: str) -> None:
    """Compare the metrics of an episode; ratios have a larger tolerance, for tiny variances."""
    for key, value in account.metrics().items():
        rtol = 1e-6 if key in ("sharpe", "sortino") else 1e-12
        np.testing.assert_allclose(found[key][at], value, rtol, 1e-9, err_msg=f"{key}, {what}")


def portfolios(of: MadeUp, seed: int, count: int = 3) -> tuple[list[Account], np.ndarray[Any, Any]]:
    """Return several portfolios with their own tickers in random order, and their seeds."""
    draw = np.random.default_rng(1_000 + seed)
    most = max(1, len(of.tickers) - int(draw.integers(0, 2)))
    lists = [[str(tic) for tic in draw.permutation(of.tickers)[:most]] for _ in range(count)]
    seeds = draw.integers(0, 2**40, count)
    return [
        Account(of.prices, of.rules, tickers, Twister(int(of_it)))
        for tickers, of_it in zip(lists, seeds, strict=True)
    ], seeds


def start(account: Account, day: int) -> None:
    """Begin on the day that an environment drew, and assert that the account draws the same."""
    assert day == account.draw_day()
    account.reset(day)


@pytest.mark.filterwarnings("ignore:failure_threshold is", "ignore:one share", "ignore:a hold")
@pytest.mark.parametrize("auto_reset", [False, True])
@pytest.mark.parametrize(("seed", "settled"), drawn(range(24), range(24, 30)))
def test_many_portfolios_do_what_the_rules_say(
    seed: int, settled: dict[str, Any], auto_reset: bool, tmp_path: Path
) -> None:
    of = made_up(seed, tmp_path, **settled)
    draw = np.random.default_rng(2_000 + seed)
    accounts, seeds = portfolios(of, seed)
    settings = of.settings() | {"auto_reset": auto_reset, "generator": "mt19937"}
    env = ff.VecFastFinRL(of.path, len(accounts), return_format="vec", **settings)
    state = env.reset([account.tickers for account in accounts], seeds)
    for account, day in zip(accounts, state["day"], strict=True):
        start(account, int(day))
    for step in range(30):
        for at, account in enumerate(accounts):
            expected = account.state()
            shown = {key: state[key][at] for key in expected if key in state}
            compare(shown, expected, f"seed {seed}, step {step}, portfolio {at}")
        if not auto_reset and any(account.truncated for account in accounts):
            break
        actions = [orders(draw, len(account.tickers)) for account in accounts]
        state = env.step(np.array(actions))
        for at, (account, wanted) in enumerate(zip(accounts, actions, strict=True)):
            account.step(wanted)
            if auto_reset and (account.terminated or account.truncated):
                arrived, last = account.state(), state["final_obs"]
                shown = {key: state[key][at] for key in FLAGS}
                shown |= {key: last[key][at] for key in last if key in arrived}
                what = f"seed {seed}, step {step}, the end of portfolio {at}"
                compare(shown, {key: arrived[key] for key in shown}, what)
                compare_metrics(state["metrics"], at, account, what)
                start(account, int(state["day"][at]))
                for key in ("reward", "terminated", "truncated"):
                    setattr(account, key, arrived[key])


@pytest.mark.filterwarnings("ignore:failure_threshold is", "ignore:one share", "ignore:a hold")
@pytest.mark.parametrize(("seed", "settled"), drawn(range(100, 124), range(124, 130)))
def test_one_portfolio_does_what_the_rules_say(
    seed: int, settled: dict[str, Any], tmp_path: Path
) -> None:
    of = made_up(seed, tmp_path, **settled)
    draw = np.random.default_rng(2_000 + seed)
    [account], [of_it] = portfolios(of, seed, 1)
    settings = of.settings() | {"generator": "mt19937"}
    env = ff.FastFinRL(of.path, return_format="json" if seed % 2 else "vec", **settings)
    shift = seed % 3
    state = env.reset(account.tickers, int(of_it), shift)
    account.reset(account.draw_day(shift=shift))
    while True:
        expected, at = account.state(), f"seed {seed}, day {account.day}"
        info = ("num_stop_loss", "n_trades", "loss_cut_amount")
        compare(state["info"], {key: expected.pop(key) for key in info}, at)
        del expected["episode_orders"]
        compare(flat(state) if seed % 2 else state, expected, at)
        assert (state["date"], state["day_idx"]) == (of.prices.dates[account.day], account.day)
        compare_fills(account, state["debug"])
        if account.day == len(of.prices.dates) - 1 or account.truncated:
            break
        wanted = orders(draw, len(account.tickers))
        state = env.step(wanted)
        account.step(wanted)


def flat(state: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a nested state under the keys of the flat form."""
    holdings = state["portfolio"]["holdings"].values()
    found: dict[str, Any] = state | state["portfolio"]
    for key in ("shares", "avg_buy_price"):
        found[key] = [held[key] for held in holdings]
    for prefix, market in [("", state["market"]), ("macro_", state.get("macro", {}))]:
        found[f"{prefix}open"] = [shown["open"] for shown in market.values()]
        found[f"{prefix}indicators"] = [
            [*shown["indicators"].values()] for shown in market.values()
        ]
    return found


@pytest.mark.filterwarnings("ignore:one share", "ignore:a hold")
@pytest.mark.parametrize("mode", ["next_step", "same_step", "disabled"])
@pytest.mark.parametrize("seed", range(200, 207))
def test_gymnasium_environments_do_what_the_rules_say(seed: int, mode: str, tmp_path: Path) -> None:
    of = made_up(seed, tmp_path, bidding="default")
    draw = np.random.default_rng(2_000 + seed)
    accounts, _ = portfolios(of, seed)
    accounts = [Account(of.prices, of.rules, accounts[0].tickers) for _ in accounts]
    h = int(draw.integers(0, 6))
    env = PortfolioVectorEnv(
        of.path,
        len(accounts),
        tickers=accounts[0].tickers,
        autoreset_mode=mode,
        history=h,
        panel_options={"macro": list(of.rules.macro_tickers)},
        indicators=list(of.rules.tech_indicator_list) or None,
        **of.settings("tech_indicator_list"),
    )
    obs, _ = env.reset(seed=seed)
    for account, day in zip(accounts, obs["day"][:, 0].tolist(), strict=True):
        assert day in account.start_days(h)[1]
        account.reset(int(day))
    ended = np.zeros(len(accounts), bool)
    for step in range(30):
        for at, account in enumerate(accounts):
            compare_obs(obs, at, account, h, f"seed {seed}, step {step}, portfolio {at}")
        if mode == "disabled" and ended.any():
            obs, _ = env.reset(options={"reset_mask": ended})
            for at in np.flatnonzero(ended).tolist():
                accounts[at].reset(int(obs["day"][at, 0]))
            ended[:] = False
        actions = np.array([orders(draw, len(account.tickers)) for account in accounts])
        if step % 2:
            actions = actions.astype(np.float32)
        obs, rewards, terminated, truncated, infos = env.step(actions)
        for at, account in enumerate(accounts):
            if ended[at] and mode == "next_step":
                account.reset(int(obs["day"][at, 0]))
                account.truncated = False
            else:
                account.step(actions[at].tolist())
            near(rewards[at], account.reward, "reward")
            assert (terminated[at], truncated[at]) == (account.terminated, account.truncated)
            if terminated[at] or truncated[at]:
                compare_metrics(infos["metrics"], at, account, f"seed {seed}, portfolio {at}")
                if mode == "same_step":
                    last = {key: [value] for key, value in infos["final_obs"][at].items()}
                    compare_obs(last, 0, account, h, f"seed {seed}, step {step}, an end")
                    account.reset(int(obs["day"][at, 0]))
        ended = terminated | truncated


def compare_obs(obs: dict[str, Any], at: int, account: Account, h: int, what: str) -> None:
    """Compare an observation, its days of history included."""
    expected = account.state()
    shown = {key: obs[key][at] for key in expected if key in obs}
    compare(shown, {key: expected[key] for key in expected if key in shown}, what)
    assert {"day", "cash", "shares", "avg_buy_price", "total_asset", "open"} <= shown.keys()
    if h:
        rows, columns = account.prices.rows, ("open", "high", "low", "close", "volume")
        names = [*columns, *account.prices.indicators]
        for place, tic in enumerate([*account.tickers, *account.rules.macro_tickers]):
            days = range(account.day - h, account.day)
            there = [(tic, day) in rows for day in days]
            values = [[account.prices.at(tic, day, name) for name in names] for day in days]
            np.testing.assert_array_equal(obs["history_mask"][at][place], there, what)
            shown_days = obs["history"][at][place]
            np.testing.assert_array_equal(shown_days, np.array(values, np.float32), what)


def test_the_cases_above_meet_what_they_were_made_for(tmp_path: Path) -> None:
    met: Counter[str] = Counter()
    for seed in range(24):
        of = made_up(seed, tmp_path)
        draw = np.random.default_rng(2_000 + seed)
        [account], _ = portfolios(of, seed, 1)
        account.reset(account.draw_day())
        while not account.truncated:
            before, wanted = dict(account.shares), orders(draw, len(account.tickers))
            account.step(wanted)
            asked = {tic: int(a * of.rules.hmax) for tic, a in zip(before, wanted, strict=True)}
            met["a stop loss"] += account.raised > 0
            met["no way out"] += any(
                (tic, account.day) not in of.prices.rows for tic, held in before.items() if held
            )
            bought = {tic: fill["quantity"] for tic, fill in account.fills.items()}
            met["too little cash"] += any(
                0 < bought.get(tic, 0) < asked[tic] for tic in account.tickers
            )
            sizes = [abs(count) for count in asked.values() if count]
            met["equal orders"] += len(sizes) > len(set(sizes))
            met["a failure"] += account.terminated
            met["a gain"] += account.reward > 0
    assert all(met[what] > 20 for what in met), met
    assert len(met) == 6
