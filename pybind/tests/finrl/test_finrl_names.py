"""Names of FastFinRL's classes, and tickers whose names are something else as well."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import backcast as bc
import backcast.finrl as ff
import numpy as np
import pytest
from backcast import envs
from finrl_buffers import same, vec, with_gaps
from finrl_market import market


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return with_gaps(tmp_path)


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
        with pytest.raises(AttributeError, match=r"no attribute 'nothing'$"):
            getattr(env, "nothing")  # noqa: B009 - typed, it is no attribute
        copy.deepcopy(env).get_max_day()
    buffer: Any = ff.VecReplayBuffer(vec(path), 10)
    with pytest.raises(AttributeError, match=r"'add_transition'; add\(...\) adds"):
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
    says = f"a ticker is called '{name}', as a part of the window is; leave it out, and take its"
    with pytest.raises(bc.EnvError, match=says):
        env.get_market_window_numpy(["AAA", name], 9, 2, 1)
    with pytest.raises(bc.EnvError, match=says):
        env.get_market_window_numpy([9, 9], [["AAA"], [name]], 2, 1)
    with pytest.raises(bc.SampleError, match=says):
        buffer.get_market_data(0, 2, 1)
    assert list(env.get_market_window_numpy(["AAA"], 9, 2)) == [
        *["AAA", "indicator_names", "h", "future"]
    ]
    # A capital letter is another ticker.
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
    # As the other class has it.
    rows = vec(path, 2, shuffle_tickers=True)
    state = rows.reset([["CCC", "AAA"], []], seed=4)
    assert state["tickers"][0] == ["CCC", "AAA"]
    with pytest.raises(bc.EnvError, match="ticker_list is empty; name at least one"):
        ff.FastFinRL(path, num_tickers=2).reset([])


def test_a_state_shows_the_seed_that_random_numbers_go_on_from(path: Path) -> None:
    env = ff.FastFinRL(path, macro_tickers=["VIX"], initial_seed=9)
    assert env.reset()["seed"] == 9
    assert env.reset(["AAA"], seed=4)["seed"] == 4
    assert [env.reset()["seed"], env.reset(["BBB"])["seed"]] == [4, 4]
    drawn = env.reset(seed=-1)["seed"]
    assert env.reset()["seed"] == drawn > 0
    env.reset(["AAA", "BBB"])
    again = ff.FastFinRL(path, macro_tickers=["VIX"])
    same(again.reset(["BBB"], seed=drawn), env.reset(["BBB"], seed=drawn))
    with pytest.raises(bc.EnvError, match="seed is -2"):
        env.reset(seed=-2)
    assert env.reset()["seed"] == drawn


def test_stubs_have_what_is_taken(path: Path) -> None:
    # Types are checked here as well: nothing is declared as Any.
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
