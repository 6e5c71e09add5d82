"""Signatures and names of FastFinRL's classes, and tickers named like keys of a window."""

from __future__ import annotations

import copy
import inspect
from pathlib import Path
from typing import Any

import backcast as bc
import backcast.finrl as ff
import numpy as np
import pytest
from backcast import envs
from finrl_buffers import same, vec, with_gaps
from finrl_market import market

SETTINGS = (
    "initial_amount=30000.0, failure_threshold=25000.0, hmax=15, buy_cost_pct=0.01, "
    "sell_cost_pct=0.01, stop_loss_tolerance=0.8, bidding='{}', stop_loss_calculation='close', "
    "initial_seed=0, tech_indicator_list=(), macro_tickers=(), "
)
BUFFER = "env, capacity=1000000, batch_size=256, seed=42, action_shape=None"
WINDOWS = {
    "sample": "batch_size=None, history_length=0, future_length=0",
    "sample_indices": "batch_size",
    "get": "index",
    "get_market_data": "index, h, future, next_state=False",
    **dict.fromkeys(["size", "capacity", "clear"], ""),
    **dict.fromkeys(["save", "load"], "path"),
}
PAGES: dict[type, dict[str, str]] = {
    ff.VecFinRLWrapper: {
        "__init__": "path, buffer_capacity, history_length=20, auto_add=True, batch_size=256, "
        f"n_envs=4, {SETTINGS.format('adv_uniform')}auto_reset=True, num_tickers=0, "
        "shuffle_tickers=True",
        "reset": "seed=None, options=None",
        "step": "action",
        "sample_actions": "",
        "sample_buffer": "batch_size=None, history_length=None, future_length=None",
    },
    ff.VecFastFinRL: {
        "__init__": f"csv_path, n_envs, {SETTINGS.format('default')}auto_reset=True, "
        "return_format='json', num_tickers=0, shuffle_tickers=False",
        "get_raw_value": "ticker, day, column",
        "set_auto_reset": "enabled",
        "set_return_format": "format",
        "step": "actions",
    },
    ff.FastFinRL: {
        "__init__": f"csv_path, {SETTINGS.format('default')}return_format='json', num_tickers=0, "
        "shuffle_tickers=False",
        "reset": "ticker_list=None, seed=None, shifted_start=0",
        "get_market_window_numpy": "ticker_list, day, h, future=0",
    },
    ff.VecReplayBuffer: {
        "__init__": BUFFER,
        "add": "states, actions, rewards, next_states, dones",
        **WINDOWS,
    },
    ff.ReplayBuffer: {
        "__init__": BUFFER,
        "add": "state, action, reward, next_state, done",
        **WINDOWS,
    },
    ff.TickerTokenizer: {
        "encode": "tic",
        "encode_batch": "tics",
        "decode": "token_id",
        "decode_batch": "token_ids",
        "save": "path",
        "load": "path",
    },
}
"""Arguments that calls take by position, with their defaults."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return with_gaps(tmp_path)


@pytest.mark.parametrize("made", PAGES)
def test_calls_take_what_programs_give_them(made: type) -> None:
    for name, takes in PAGES[made].items():
        parameters = inspect.signature(getattr(made, name)).parameters.values()
        by_position = [
            parameter.replace(annotation=inspect.Parameter.empty)
            for parameter in parameters
            if parameter.kind is parameter.POSITIONAL_OR_KEYWORD and parameter.name != "self"
        ]
        assert ", ".join(map(str, by_position)) == takes, name


def test_a_single_buffer_gives_transitions_of_its_own_class(path: Path) -> None:
    env = ff.FastFinRL(path, return_format="vec", macro_tickers=["VIX"])
    buffer = ff.ReplayBuffer(env, 10)
    state = env.reset(["AAA", "BBB"], seed=1)
    after = env.step([1.0, -1.0])
    buffer.add(state, [1.0, -1.0], after["reward"], after, after["done"])
    found = buffer.get(0)
    assert type(found) is ff.StoredTransition
    assert isinstance(found, ff.VecStoredTransition)
    assert (found.env_id, found.tickers, found.state_day) == (0, ["AAA", "BBB"], state["day"])
    many = ff.VecReplayBuffer(vec(path), 10)
    rows = vec(path)
    state, after = rows.reset(seed=1), rows.step(np.zeros((4, 2)))
    many.add(state, np.zeros((4, 2)), after["reward"], after, after["done"])
    assert type(many.get(3)) is ff.VecStoredTransition


@pytest.mark.parametrize("name", ["get_market_window", "get_market_window_flat"])
def test_names_without_a_counterpart_say_what_has_it(path: Path, name: str) -> None:
    for env in (ff.FastFinRL(path), vec(path)):
        assert not hasattr(env, name)
        with pytest.raises(AttributeError, match=rf"'{name}'; get_market_window_numpy\(\[ticker\]"):
            getattr(env, name)
        with pytest.raises(AttributeError, match=r"'nothing'"):
            getattr(env, "nothing")  # noqa: B009 - typed, it is no attribute
        copy.deepcopy(env).get_max_day()
    buffer: Any = ff.VecReplayBuffer(vec(path), 10)
    with pytest.raises(AttributeError, match=r"'add_transition'"):
        buffer.add_transition(0)
    assert not hasattr(buffer, "nothing")


@pytest.mark.parametrize("name", ["h", "future", "indicator_names"])
def test_tickers_that_are_called_as_parts_of_a_window_are_refused_there(
    tmp_path: Path, name: str
) -> None:
    env = vec(market(30, ["AAA", name]).write(tmp_path / "odd.csv"), macro_tickers=[])
    state = env.reset(seed=1)
    after = env.step(np.zeros((4, 2)))
    buffer = ff.VecReplayBuffer(env, 10)
    buffer.add(state, np.zeros((4, 2)), after["reward"], after, after["done"])
    says = rf"\bticker\b.*'{name}'"
    with pytest.raises(bc.errors.EnvError, match=says):
        env.get_market_window_numpy(["AAA", name], 9, 2, 1)
    with pytest.raises(bc.errors.EnvError, match=says):
        env.get_market_window_numpy([9, 9], [["AAA"], [name]], 2, 1)
    with pytest.raises(bc.errors.SampleError, match=says):
        buffer.get_market_data(0, 2, 1)
    assert list(env.get_market_window_numpy(["AAA"], 9, 2)) == [
        *["AAA", "indicator_names", "h", "future"]
    ]
    # Names are case-sensitive: `H` is not the key `h`.
    other = ff.FastFinRL(market(30, ["AAA", "H"]).write(tmp_path / "capital.csv"))
    window = other.get_market_window_numpy(["H"], 9, 2, 1)
    assert window["H"]["past_mask"].tolist() == [1, 1]
    assert window["h"] == 2


def test_a_reset_that_names_tickers_is_taken_where_they_are_drawn(path: Path) -> None:
    settings: dict[str, Any] = {"num_tickers": 2, "shuffle_tickers": True}
    env = ff.FastFinRL(path, macro_tickers=["VIX"], return_format="vec", **settings)
    assert env.reset(["CCC"], seed=4)["tickers"] == ["CCC"]
    assert env.reset()["tickers"] == ["CCC"], "left out: those of before"
    drawn = {tuple(env.reset([])["tickers"]) for _ in range(20)}
    assert len(drawn) > 2
    assert {len(tickers) for tickers in drawn} == {2}
    assert len({tuple(env.reset()["tickers"]) for _ in range(20)}) > 2
    # The vectorised class does the same.
    rows = vec(path, 2, shuffle_tickers=True)
    state = rows.reset([["CCC", "AAA"], []], seed=4)
    assert state["tickers"][0] == ["CCC", "AAA"]
    with pytest.raises(bc.errors.EnvError, match=r"\bticker_list\b"):
        ff.FastFinRL(path, num_tickers=2).reset([])


def test_a_state_shows_the_seed_of_the_next_random_numbers(path: Path) -> None:
    env = ff.FastFinRL(path, macro_tickers=["VIX"], initial_seed=9)
    assert env.reset()["seed"] == 9
    assert env.reset(["AAA"], seed=4)["seed"] == 4
    assert [env.reset()["seed"], env.reset(["BBB"])["seed"]] == [4, 4]
    drawn = env.reset(seed=-1)["seed"]
    assert env.reset()["seed"] == drawn > 0
    env.reset(["AAA", "BBB"])
    again = ff.FastFinRL(path, macro_tickers=["VIX"])
    same(again.reset(["BBB"], seed=drawn), env.reset(["BBB"], seed=drawn))
    with pytest.raises(bc.errors.EnvError, match=r"\bseed\b.*-2\b"):
        env.reset(seed=-2)
    assert env.reset()["seed"] == drawn


def test_stubs_have_what_is_taken(path: Path) -> None:
    # mypy checks these calls against the stubs: nothing is declared as Any.
    env = ff.VecFastFinRL(path, 2, days=[0, 40], return_format="vec", num_tickers=2)
    one, other = (env.reset(seeds=seeds)["day"] for seeds in ([1, None], np.array([1, 2])))
    assert one[0] == other[0]
    env.reset_indices([1], [None])
    env.reset_indices(np.array([0]), np.array([3]), options={"start_day": 20})
    single = ff.FastFinRL(path, days=[0, 40])
    assert single.reset(["AAA"], options={"start_day": np.int64(20)})["day"] == 20
    vector = envs.PortfolioVectorEnv(path, 2, days=[0, 40])
    days = [vector.reset(seed=seed)[0]["day"] for seed in (np.array([3, 4]), [3, 4], 3)]
    assert days[0].tolist() == days[1].tolist() == days[2].tolist()
    envs.PortfolioEnv(path, days=[0, 40])
    wrapper = ff.VecFinRLWrapper(path, 10, 5, n_envs=2)
    wrapper.reset(seed=np.array([1, 2]))
    wrapper.reset(seed=[1, None])
