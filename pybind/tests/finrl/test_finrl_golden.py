"""Replays recorded FastFinRL episodes, and compares every recorded number of every step.

Faults of the recorded environment that are not reproduced, and what happens instead:

- The step that ends an episode under automatic reset has reward 0 and no flag there; here it has
  the last reward and flag, and the final observation (see the tests of defects).
- The threshold of the vectorised class is always 25000; here it is ``failure_threshold``.
- Windows over missing rows hold another row's numbers with mask 1; here zeros with mask 0.
- Observed indicators are in alphabetical order; here in the order that windows have.
- Out-of-range actions trade beyond ``hmax``; here they are refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from finrl_golden import CASES, golden, near, single_env, trajectories, trajectory_of, vec_env

NUMBERS = [
    *["day", "cash", "shares", "avg_buy_price", "total_asset", "reward", "open", "macro_open"],
    *["num_stop_loss", "episode_orders"],
]


def compare(state: dict[str, Any], recorded: dict[str, Any], names: list[str]) -> None:
    """Compare a state with the one recorded after a reset or a step."""
    for key in NUMBERS:
        if key in recorded and key in state:
            near(state[key], recorded[key], key)
    order = [state["indicator_names"].index(name) for name in names]
    near(state["indicators"][..., order], recorded["indicators"], "indicators")
    near(state["macro_indicators"][..., order], recorded["macro_indicators"], "macro_indicators")


@pytest.mark.parametrize(("case", "name"), trajectories("vec"))
def test_a_recorded_trajectory_of_many_is_reproduced(case: str, name: str) -> None:
    recorded = trajectory_of(case, name)
    env = vec_env(case, recorded)
    state = env.reset(recorded["tickers"], recorded["env_seeds"])
    assert state["day"].tolist() == recorded["start_days"], "the same days are drawn"
    assert state["tickers"] == recorded["tickers"]
    compare(state, recorded["reset_state"], recorded["obs_indicator_names"])
    after = recorded["after_step"]
    seeds = np.array(recorded["env_seeds"])
    for step, actions in enumerate(recorded["actions"]):
        state = env.step(np.array(actions))
        assert state["done"].tolist() == after["done"][step]
        rows = {key: values[step] for key, values in after.items()}
        ended = np.flatnonzero(rows["done"])
        if recorded["auto_reset"] and ended.size:
            # FastFinRL begins the next episode with the seed plus one, and shows its first state.
            seeds[ended] += 1
            state = env.reset_indices(ended, seeds[ended]) | {"reward": rows["reward"]}
        else:
            assert state["terminal"].tolist() == rows["terminal"]
        compare(state, rows, recorded["obs_indicator_names"])
    assert step + 1 == recorded["steps"]


def draws_nothing(case: str, name: str) -> bool:
    """Return whether a trajectory follows from its start days, without random numbers."""
    recorded = trajectory_of(case, name)
    return not recorded["auto_reset"] and recorded["config"]["bidding"] == "default"


@pytest.mark.parametrize(
    ("case", "name"), [one for one in trajectories("vec") if draws_nothing(*one)]
)
def test_it_can_be_replayed_from_its_start_days_alone(case: str, name: str) -> None:
    recorded = trajectory_of(case, name)
    env = vec_env(case, recorded, generator="splitmix64")
    days = {"start_day": np.array(recorded["start_days"])}
    assert env.reset(tickers=recorded["tickers"], options=days)["day"].tolist() == [
        *recorded["start_days"]
    ]
    for actions in recorded["actions"]:
        state = env.step(np.array(actions))
    near(state["cash"], recorded["after_step"]["cash"][-1])
    near(state["total_asset"], recorded["after_step"]["total_asset"][-1])


@pytest.mark.parametrize(("case", "name"), trajectories("single"))
@pytest.mark.parametrize("form", ["json", "vec"])
def test_a_recorded_trajectory_of_one_is_reproduced(case: str, name: str, form: Any) -> None:  # noqa: ANN401
    recorded = trajectory_of(case, name)
    env = single_env(case, recorded, return_format=form)
    tickers = recorded["tickers"]
    state = env.reset(tickers, recorded["seed"], recorded["shifted_start"])
    assert state["day"] == recorded["start_day"]
    after = recorded["after_step"]
    for step in range(-1, recorded["steps"]):
        rows = recorded["reset_state"]
        if step >= 0:
            state = env.step(recorded["actions"][step])
            rows = {key: values[step] for key, values in after.items()}
            near(state["reward"], rows["reward"], "reward")
            assert state["debug"].keys() == rows["fills"].keys()
            for ticker, fill in rows["fills"].items():
                for key, value in fill.items():
                    near(state["debug"][ticker][key], value, key)
            for key in ("n_trades", "num_stop_loss", "loss_cut_amount"):
                near(state["info"][key], rows[key], key)
        for key in ("day", "date", "done", "terminal"):
            assert state[key] == rows[key], key
        if form == "json":
            holdings = state["portfolio"]["holdings"]
            assert list(holdings) == list(state["market"]) == tickers
            found = {
                "cash": state["portfolio"]["cash"],
                "total_asset": state["portfolio"]["total_asset"],
                "shares": [holdings[ticker]["shares"] for ticker in tickers],
                "avg_buy_price": [holdings[ticker]["avg_buy_price"] for ticker in tickers],
                "open": [state["market"][ticker]["open"] for ticker in tickers],
            }
        else:
            assert state["tickers"] == tickers
            found = state
        for key in ("cash", "total_asset", "shares", "avg_buy_price", "open"):
            if rows[key] is not None:
                near(found[key], rows[key], key)
    assert step + 1 == recorded["steps"]


@pytest.mark.parametrize("case", CASES)
def test_recorded_windows_are_reproduced_but_for_missing_rows(case: str) -> None:
    recorded = golden(case)
    gaps = {(ticker, day) for ticker, day in recorded["gaps"]}
    env = vec_env(case, {"config": recorded["config"]})
    compared = 0
    for window in recorded["windows"]:
        day, h, future = window["day"], window["h"], window["future"]
        names = list(window["tickers"])
        found = env.get_market_window_numpy(names, day, h, future)
        assert found["indicator_names"] == window["indicator_names"]
        assert (found["h"], found["future"]) == (h, future)
        many = env.get_market_window_numpy([day, day], [names, names[:1]], h, future)
        np.testing.assert_equal(many[0], found)
        for ticker, expected in window["tickers"].items():
            for part, days in [
                ("past", range(day - h, day)),
                ("future", range(day + 1, day + 1 + future)),
            ]:
                sound = [at for at, of in enumerate(days) if (ticker, of) not in gaps]
                for key in ("ohlcv", "indicators", "mask", "days"):
                    ours = np.asarray(found[ticker][f"{part}_{key}"])
                    theirs = np.asarray(expected[f"{part}_{key}"])
                    near(ours[sound].ravel(), theirs[sound].ravel(), key)
                    compared += ours[sound].size
                for at in set(range(len(days))) - set(sound):
                    assert found[ticker][f"{part}_mask"][at] == 0
                    assert not found[ticker][f"{part}_ohlcv"][at].any()
            if (ticker, day) not in gaps:
                for key in ("open", "indicators", "mask", "day"):
                    near(found[ticker][f"current_{key}"], expected[f"current_{key}"], key)
    assert compared > 100


def test_a_shared_seed_is_spread_over_environments_by_hashing_not_by_multiples() -> None:
    recorded = trajectory_of("s1_basic", "v_expand")
    env = vec_env("s1_basic", recorded)
    # In FastFinRL environment k has seed * (k + 1). Here only the first one has the seed itself.
    days = env.reset(recorded["tickers"], seed=recorded["expand_seed"])["day"].tolist()
    assert days[0] == recorded["start_days"][0]
    assert days != recorded["start_days"]
