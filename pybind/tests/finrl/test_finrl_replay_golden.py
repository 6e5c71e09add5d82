"""Compares buffers with recorded ones: slots and batches bit for bit, market data to 1e-12.

Two faults of the recorded buffer are not reproduced. On days without a row it shows another row's
numbers with mask 1; here such a place is zero and masked. Its names of indicators are in another
order than the values; here both have one order.
"""

from __future__ import annotations

from typing import Any

import backcast.finrl as ff
import numpy as np
import pytest
from finrl_golden import CASES, golden, near, trajectory_of, vec_env

BUFFERS = [(case, at) for case in CASES for at in range(len(golden(case)["buffers"]))]


def filled(case: str, recorded: dict[str, Any], **settings: Any) -> ff.VecReplayBuffer:  # noqa: ANN401
    """Return a buffer with the recorded transitions, in order."""
    trajectory = trajectory_of(case, recorded["trajectory"])
    env = vec_env(case, trajectory, n_envs=len(trajectory["tickers"]))
    env.reset(trajectory["tickers"], trajectory["env_seeds"])
    buffer = ff.VecReplayBuffer(
        env,
        capacity=recorded["capacity"],
        action_shape=tuple(recorded["action_shape"]),
        **settings,
    )
    steps = trajectory["after_step"]
    states = [trajectory["reset_state"]]
    states += [{key: steps[key][at] for key in steps} for at in range(trajectory["steps"])]
    arrays = [
        {
            "day": np.array(state["day"], np.int32),
            "cash": np.array(state["cash"]),
            "shares": np.array(state["shares"], np.int32),
            "avg_buy_price": np.array(state["avg_buy_price"]),
            "terminal": np.array(state["terminal"]),
            "tickers": trajectory["tickers"],
        }
        for state in states
    ]
    for at, actions in enumerate(recorded["actions_added"]):
        after = states[at + 1]
        given = np.array(actions).reshape(-1, *recorded["action_shape"])
        buffer.add(arrays[at], given, np.array(after["reward"]), arrays[at + 1], after["done"])
    return buffer


def exact(found: Any, recorded: Any) -> None:  # noqa: ANN401
    """Compare arrays of 32-bit numbers and booleans for equality."""
    found = np.asarray(found)
    assert found.dtype in (np.float32, np.int32, np.bool_)
    np.testing.assert_array_equal(found.astype(float), np.asarray(recorded, float))


@pytest.mark.parametrize(("case", "at"), BUFFERS)
def test_slots_hold_what_recorded_slots_held(case: str, at: int) -> None:
    recorded = golden(case)["buffers"][at]
    buffer = filled(case, recorded)
    assert buffer.size() == recorded["size"] == len(buffer)
    assert buffer.capacity() == recorded["capacity"]
    for slot, expected in enumerate(recorded["transitions"]):
        found = buffer.get(slot)
        assert {key: getattr(found, key) for key in expected} == expected


@pytest.mark.parametrize(("case", "at"), BUFFERS)
def test_market_data_is_what_was_recorded_but_for_missing_rows(case: str, at: int) -> None:
    recorded = golden(case)["buffers"][at]
    gaps = {(ticker, day) for ticker, day in golden(case)["gaps"]}
    buffer = filled(case, recorded)
    for data in recorded["market_data"]:
        asked = {key: data[key] for key in ("index", "h", "future", "next_state")}
        found = buffer.get_market_data(**asked)
        assert found["indicator_names"] == data["indicator_names"]
        for ticker, expected in data["tickers"].items():
            for key, values in expected.items():
                part = key.split("_")[0]
                days = np.atleast_1d(expected[f"{part}_day" + "s" * (part != "current")])
                sound = [n for n, day in enumerate(days) if (ticker, int(day)) not in gaps]
                ours, theirs = np.atleast_1d(found[ticker][key]), np.atleast_1d(values)
                if part == "current":
                    near(ours if sound else [], theirs if sound else [], key)
                else:
                    near(ours[sound], theirs[sound], key)


@pytest.mark.parametrize(("case", "at"), BUFFERS)
def test_batches_are_those_recorded_in_both_layouts(case: str, at: int) -> None:
    recorded = golden(case)["buffers"][at]
    gaps = {(ticker, day) for ticker, day in golden(case)["gaps"]}
    buffer = filled(case, recorded, threads=2)
    for sample in recorded["samples"]:
        h, future, indices = sample["history"], sample["future"], sample["indices"]
        asked: dict[str, Any] = {"history_length": h, "future_length": future, "indices": indices}
        batched = buffer.sample(layout="batched", **asked)
        s, action, reward, s_next, done, mask, mask_next = batched
        exact(action, sample["action"])
        exact(reward, sample["reward"])
        exact(done[:, None], sample["done"])
        for side, state, masks in [("state", s, mask), ("next_state", s_next, mask_next)]:
            expected = sample[side]
            assert state["tickers"] == expected["tickers"]
            assert state["macro_tickers"] == expected["macro_tickers"]
            assert state["indicator_names"] == sample["window_indicator_names"]
            for key, values in expected["portfolio"].items():
                exact(state["portfolio"][key], values)
            if "env_ids" in expected:
                exact(state["env_ids"], expected["env_ids"])
            assert ("ohlcv" in state) == ("ohlcv" in expected)
            if "ohlcv" not in expected:
                continue
            names = np.array(expected["tickers"])
            macro = np.broadcast_to(
                expected["macro_tickers"], (len(indices), len(s["macro_tickers"]))
            )
            for ours, theirs, of in [
                (state, expected, names),
                (state["macro"], expected["macro"], macro),
            ]:
                for key, first in [("", -h), ("future_", 1)]:
                    if f"{key}ohlcv" not in theirs:
                        assert f"{key}ohlcv" not in ours
                        continue
                    length = h if first < 0 else future
                    days = state["day"][:, None, None] + np.arange(first, first + length)
                    tickers = np.broadcast_to(of[:, :, None], (*of.shape, length))
                    days = np.broadcast_to(days, tickers.shape)
                    gap = np.array(
                        [(t, int(d)) in gaps for t, d in zip(tickers.flat, days.flat, strict=True)]
                    ).reshape(tickers.shape)
                    for part in ("ohlcv", "indicators", "mask"):
                        found = ours[f"{key}{part}"]
                        exact(found[~gap], np.array(theirs[f"{key}{part}"])[~gap])
                        assert not found[gap].any()
            exact(masks["market"], state["mask"])
            exact(masks["macro"], state["macro"]["mask"])

        by_ticker = buffer.sample(**asked)
        compare_layouts(by_ticker, batched)


def compare_layouts(by_ticker: Any, batched: Any) -> None:  # noqa: ANN401
    """Compare every array of one layout with its place in the other."""
    for part in (1, 2, 4):
        np.testing.assert_array_equal(by_ticker[part], batched[part])
    for side, masks in [(0, 5), (3, 6)]:
        one, all_ = by_ticker[side], batched[side]
        lists = np.array(all_["tickers"])
        assert one["unique_tickers"] == sorted(set(lists.flat))
        for ticker in one["unique_tickers"]:
            sample, place = np.nonzero(lists == ticker)
            absent = np.setdiff1d(np.arange(len(lists)), sample)
            for key, values in one[ticker].items():
                if key in all_:
                    np.testing.assert_array_equal(values[sample], all_[key][sample, place])
                else:
                    assert key in ("ohlcv", "indicators"), "of a history of no days"
                    assert values.shape[1] == 0
                assert not values[absent].any()
            mask = by_ticker[masks][ticker]
            np.testing.assert_array_equal(mask[sample], batched[masks]["market"][sample, place])
        for at, ticker in enumerate(one["macro_tickers"]):
            for key, values in one["macro"][ticker].items():
                if key in all_["macro"]:
                    np.testing.assert_array_equal(values, all_["macro"][key][:, at])
            np.testing.assert_array_equal(
                by_ticker[masks]["macro"][ticker], batched[masks]["macro"][:, at]
            )
