"""Compares windows, buffers and the wrapper with an independent implementation.

The expected content comes from portfolios of ``finrl_oracle``, which trade the same actions as the
environments.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import backcast.finrl as ff
import numpy as np
import pytest
from finrl_golden import CASES, GOLDEN, golden, near
from finrl_made_up import MadeUp, made_up, orders, rules_of
from finrl_oracle import Account, Prices
from finrl_oracle_records import Records, window

# Prices are drawn at random.
pytestmark = pytest.mark.filterwarnings("ignore:.*as after a split")

PARTS = ["ohlcv", "indicators", "mask", "open", "current_indicators"]
FUTURE = ["future_ohlcv", "future_indicators", "future_mask"]


@pytest.mark.parametrize("case", CASES)
def test_the_windows_written_down_are_those_recorded(case: str) -> None:
    recorded, prices = golden(case), Prices(GOLDEN / f"{case}.csv")
    gaps = {(ticker, day) for ticker, day in recorded["gaps"]}
    rules = rules_of(recorded["config"], "next")
    for data in recorded["windows"]:
        day, h, future = data["day"], data["h"], data["future"]
        found = window(prices, rules, [*data["tickers"]], day, h, future)
        assert found["indicator_names"] == data["indicator_names"]
        for tic, expected in data["tickers"].items():
            for part, first, count in [("past", day - h, h), ("future", day + 1, future)]:
                sound = [at for at in range(count) if (tic, first + at) not in gaps]
                for key in ("ohlcv", "indicators", "mask", "days"):
                    ours, theirs = (of[f"{part}_{key}"] for of in (found[tic], expected))
                    near(np.asarray(ours)[sound].ravel(), np.asarray(theirs)[sound].ravel(), key)
            if (tic, day) not in gaps:
                for key in ("open", "indicators", "mask", "day"):
                    near(found[tic][f"current_{key}"], expected[f"current_{key}"], key)


@pytest.mark.parametrize("seed", range(300, 308))
def test_windows_hold_the_days_that_they_should(seed: int, tmp_path: Path) -> None:
    of = made_up(seed, tmp_path)
    draw, last = np.random.default_rng(seed), len(of.prices.dates) - 1
    envs = [ff.FastFinRL(of.path, **of.settings()), ff.VecFastFinRL(of.path, 2, **of.settings())]
    for day in {0, 1, last - 1, last, *draw.integers(0, last + 1, 4).tolist()}:
        h, future = draw.integers(0, 12, 2).tolist()
        for env in envs:
            found = env.get_market_window_numpy(of.prices.tickers, day, h, future)
            same_window(found, window(of.prices, of.rules, of.prices.tickers, day, h, future))


def same_window(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """Compare two windows, number by number."""
    assert found.keys() == expected.keys()
    for key, part in expected.items():
        if isinstance(part, dict):
            for name, values in part.items():
                np.testing.assert_array_equal(found[key][name], values, f"{name} of {key}")
                if np.ndim(values) == 1 and name.endswith(("mask", "days")):
                    assert found[key][name].dtype == np.int32
        else:
            assert found[key] == part


def filled(
    of: MadeUp, seed: int, width: int, objectives: int
) -> tuple[ff.VecReplayBuffer, Records, list[Account]]:
    """Trade and add every step to a buffer; return it with the expected records and accounts."""
    draw = np.random.default_rng(seed)
    most = max(1, len(of.tickers) - 1)
    accounts = [
        Account(of.prices, of.rules, [str(tic) for tic in draw.permutation(of.tickers)[:most]])
        for _ in range(3)
    ]
    settings = of.settings() | {"return_format": "json" if seed % 2 else "vec"}
    env = ff.VecFastFinRL(of.path, len(accounts), **settings)
    capacity = int(draw.integers(5, 120))
    shape = (most,) if width == 1 else (most, width)
    buffer = ff.VecReplayBuffer(
        env, capacity, action_shape=None if width == 1 else shape, threads=1 + seed % 2
    )
    records = Records(of.prices, of.rules, capacity)
    state = env.reset([account.tickers for account in accounts], seed=seed)
    for account, day in zip(accounts, days_of(state), strict=True):
        account.reset(day)
    for _ in range(30):
        before = [account.state() for account in accounts]
        actions = np.array([orders(draw, most * width) for _ in accounts]).reshape(-1, *shape)
        taken = actions if width == 1 else actions[..., 0]
        after = env.step(taken)
        for account, wanted in zip(accounts, taken, strict=True):
            account.step(wanted.tolist())
        arrived = [account.state() for account in accounts]
        rewards = np.array(
            [[float(part["reward"]) * (n + 1) for n in range(objectives)] for part in arrived]
        )
        dones = [part["done"] for part in arrived]
        buffer.add(state, actions, rewards[:, 0] if objectives == 1 else rewards, after, dones)
        for at, account in enumerate(accounts):
            records.add(at, account.tickers, before[at], actions[at], rewards[at], arrived[at])
            if dones[at]:
                account.reset(days_of(after)[at])
        state = after
    return buffer, records, accounts


def days_of(state: Any) -> list[int]:  # noqa: ANN401
    """Read the days of a state in either form."""
    days = state["day"] if isinstance(state, dict) else [row["day"] for row in state]
    return [int(day) for day in days]


@pytest.mark.parametrize(("width", "objectives"), [(1, 1), (2, 3)])
@pytest.mark.parametrize("seed", range(400, 408))
def test_buffers_hold_what_was_added_and_batches_say_so(
    seed: int, width: int, objectives: int, tmp_path: Path
) -> None:
    of = made_up(seed, tmp_path, bidding="default")
    buffer, records, _ = filled(of, seed, width, objectives)
    assert buffer.size() == len(records.slots) == min(buffer.capacity(), records.added)
    for slot, expected in enumerate(records.slots):
        found = buffer.get(slot)
        assert {key: getattr(found, key) for key in expected} == expected
    draw, names = np.random.default_rng(seed), list(of.rules.tech_indicator_list)
    for slot in draw.integers(0, buffer.size(), 3).tolist():
        h, future = draw.integers(0, 9, 2).tolist()
        for name in ("state", "next_state"):
            stored = records.slots[slot]
            day, tickers = stored[f"{name}_day"], stored["tickers"]
            same_window(
                buffer.get_market_data(slot, h, future, name == "next_state"),
                window(of.prices, of.rules, tickers, day, h, future),
            )
    for h, future in [(0, 0), (7, 0), (0, 4), (5, 3), (60, 60)]:
        indices = draw.integers(0, buffer.size(), 12).tolist()
        batched = buffer.sample(None, h, future, layout="batched", indices=indices)
        by_ticker = buffer.sample(None, h, future, indices=indices)
        slots = [records.slots[at] for at in indices]
        for s, action, reward, s_next, done, mask, mask_next in (batched, by_ticker):
            same_bits(action.reshape(12, -1), [slot["action"] for slot in slots])
            same_bits(reward, [slot["rewards"] for slot in slots])
            assert done.tolist() == [slot["done"] for slot in slots]
            assert s["tickers"] == [slot["tickers"] for slot in slots]
            assert s["env_ids"].tolist() == [slot["env_id"] for slot in slots]
            assert s["indicator_names"] == (names or of.prices.indicators)
            for name, side, masks in [("state", s, mask), ("next_state", s_next, mask_next)]:
                expected = records.side(indices, name, h, future)
                for key in ("cash", "shares", "avg_buy_price"):
                    same_bits(side["portfolio"][key], expected[key])
                if "ohlcv" in side or "market" in masks:
                    same_batch(side, masks, expected, h, future)
                else:
                    same_tickers(side, masks, expected, slots, future)


def same_bits(found: Any, expected: Any) -> None:  # noqa: ANN401
    """Compare arrays of 32-bit numbers for equality."""
    assert np.asarray(found).dtype in (np.float32, np.int32)
    assert np.size(found) == np.size(expected)
    if np.size(expected) > 0:
        np.testing.assert_array_equal(found, np.asarray(expected, np.float32))


def same_batch(
    side: dict[str, Any], masks: dict[str, Any], expected: dict[str, Any], h: int, future: int
) -> None:
    """Compare the arrays of the batched layout."""
    for prefix, of in [("", side), ("macro_", side["macro"])]:
        for key in [*(PARTS if h else PARTS[3:]), *(FUTURE if future else [])]:
            same_bits(of[key], expected[prefix + key])
        assert ("ohlcv" in of, "future_ohlcv" in of) == (h > 0, future > 0)
    if h:
        same_bits(masks["market"], expected["mask"])
        same_bits(masks["macro"], expected["macro_mask"])


def same_tickers(
    side: dict[str, Any],
    masks: dict[str, Any],
    expected: dict[str, Any],
    slots: list[dict[str, Any]],
    future: int,
) -> None:
    """Compare the arrays of each ticker, which are zero in samples that do not trade it."""
    occurring = sorted({tic for slot in slots for tic in slot["tickers"]})
    assert side["unique_tickers"] == occurring
    keys = [key for key in [*PARTS, *(FUTURE if future else [])] if key != "mask"]
    for tic in occurring:
        places = [slot["tickers"].index(tic) if tic in slot["tickers"] else -1 for slot in slots]
        for key in [key for key in keys if key in side[tic]]:
            for at, place in enumerate(places):
                values = expected[key][at]
                same_bits(side[tic][key][at], values[place] if place >= 0 else 0 * values[0])
        for at, place in enumerate(places):
            values = expected["mask"][at]
            same_bits(masks[tic][at], values[place] if place >= 0 else 0 * values[0])
    for at, tic in enumerate(side["macro_tickers"]):
        for key in [key for key in keys if key in side["macro"][tic]]:
            same_bits(side["macro"][tic][key], expected[f"macro_{key}"][:, at])
        same_bits(masks["macro"][tic], expected["macro_mask"][:, at])


@pytest.mark.parametrize("seed", range(500, 506))
def test_a_buffer_of_one_environment_holds_what_was_added(seed: int, tmp_path: Path) -> None:
    of = made_up(seed, tmp_path, bidding="default")
    draw = np.random.default_rng(seed)
    tickers = [str(tic) for tic in draw.permutation(of.tickers)]
    env = ff.FastFinRL(of.path, return_format="json" if seed % 2 else "vec", **of.settings())
    account = Account(of.prices, of.rules, tickers)
    state = env.reset(tickers, seed)
    buffer, records = ff.ReplayBuffer(env, 17), Records(of.prices, of.rules, 17)
    account.reset(state["day"])
    while not account.truncated:
        before, wanted = account.state(), orders(draw, len(tickers))
        after = env.step(wanted)
        account.step(wanted)
        arrived = account.state()
        buffer.add(state, wanted, arrived["reward"], after, arrived["done"])
        records.add(0, tickers, before, wanted, [arrived["reward"]], arrived)
        state = after
    for slot, expected in enumerate(records.slots):
        found = buffer.get(slot)
        assert {key: getattr(found, key) for key in expected} == expected
    indices = draw.integers(0, buffer.size(), 9).tolist()
    s, _, _, s_next, _, mask, mask_next = buffer.sample(None, 6, 2, indices=indices)
    slots = [records.slots[at] for at in indices]
    same_tickers(s, mask, records.side(indices, "state", 6, 2), slots, 2)
    same_tickers(s_next, mask_next, records.side(indices, "next_state", 6, 2), slots, 2)


@pytest.mark.parametrize("mode", ["next_step", "same_step", "disabled"])
@pytest.mark.parametrize("seed", range(600, 606))
def test_the_wrapper_shows_and_stores_what_it_should(seed: int, mode: str, tmp_path: Path) -> None:
    of = made_up(seed, tmp_path, bidding="default")
    draw, h = np.random.default_rng(seed), 4
    env = ff.VecFinRLWrapper(
        of.path, 40, h, n_envs=2, shuffle_tickers=False, autoreset_mode=mode, **of.settings()
    )
    records = Records(of.prices, of.rules, 40)
    accounts = [Account(of.prices, of.rules, of.tickers) for _ in range(2)]
    obs, _ = env.reset(seed=seed)
    for at, account in enumerate(accounts):
        account.reset(shown_day(obs, at, account, h))
    ended = np.zeros(2, bool)
    for _ in range(30):
        for at, account in enumerate(accounts):
            same_shown(obs, at, account, h)
        if mode == "disabled" and ended.any():
            obs, _ = env.reset(options={"reset_mask": ended})
            for at in np.flatnonzero(ended).tolist():
                accounts[at].reset(shown_day(obs, at, accounts[at], h))
            ended[:] = False
        actions = np.array([orders(draw, 2 * len(of.tickers)) for _ in accounts])
        actions = actions.reshape(2, -1, 2)
        obs, rewards, terminated, truncated, infos = env.step(actions)
        for at, account in enumerate(accounts):
            if ended[at] and mode == "next_step":
                account.reset(shown_day(obs, at, account, h))
                assert rewards[at] == 0
                continue
            before = account.state()
            account.step(actions[at, :, 0].tolist())
            arrived = account.state()
            near(rewards[at], arrived["reward"], "reward")
            assert (terminated[at], truncated[at]) == (account.terminated, account.truncated)
            # Records the environment's own reward: near zero, its float32 may differ from that of
            # the account's reward, within the tolerance above.
            records.add(at, of.tickers, before, actions[at], [rewards[at]], arrived)
            if arrived["done"] and mode == "same_step":
                same_shown(batch_of(infos["final_obs"][at]), 0, account, h)
                account.reset(shown_day(obs, at, account, h))
        ended = terminated | truncated
    for slot, expected in enumerate(records.slots):
        found = env.buffer.get(slot)
        assert {key: getattr(found, key) for key in expected} == expected


def batch_of(obs: Any) -> Any:  # noqa: ANN401
    """Return the observation of one portfolio as a batch of one."""
    if isinstance(obs, dict):
        return {key: batch_of(part) for key, part in obs.items()}
    return np.asarray(obs)[None]


def shown_day(obs: dict[str, Any], at: int, account: Account, h: int) -> int:
    """Find the day of an observation by its values, among the days on which episodes may start."""
    for day in sorted(account.start_days(h)[1]):
        account.reset(day)
        expected = account.state()
        if all(
            np.array_equal(obs["market"][key][at], np.float32(expected[key]))
            for key in ("open", "indicators")
        ):
            return day
    raise AssertionError("an observation is of no day on which an episode may start")


def same_shown(obs: dict[str, Any], at: int, account: Account, h: int) -> None:
    """Compare a nested observation."""
    expected, tickers, macro = account.state(), account.tickers, account.rules.macro_tickers
    portfolio = obs["portfolio"]
    same_bits(portfolio["cash"][at], [expected["cash"]])
    for key in ("shares", "avg_buy_price"):
        same_bits(portfolio[key][at], expected[key])
    known = account.prices.tickers
    for kind, prefix, of in [("market", "", tickers), ("macro", "macro_", macro)]:
        around = window(account.prices, account.rules, of, account.day, h, 0)
        for key in ("open", "indicators"):
            same_bits(obs[kind][key][at], expected[prefix + key])
        for name, key in [("ohlcvs", "ohlcv"), ("indicators", "indicators"), ("masks", "mask")]:
            found = obs["hist"][kind][name][at]
            assert len(found) == len(of)
            for place, tic in enumerate(of):
                same_bits(found[place], around[tic][f"past_{key}"])
        tokens = [known.index(tic) + 1 for tic in of]
        assert obs["hist"][kind]["tickers"][at].tolist() == tokens
        assert obs["tics" if kind == "market" else "macro_tics"][at].tolist() == tokens
