"""Several agents in one market, with PettingZoo's own tests of environments."""

from __future__ import annotations

import copy
import pickle
import warnings
from functools import partial
from typing import Any

import backcast as bc
import numpy as np
import pytest
from backcast.envs import TradingEnv, parallel_trading_env

pytest.importorskip(
    "pettingzoo", reason="PettingZoo is not installed: pip install -r requirements/adapters.txt"
)

from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test, seed_test
from pettingzoo.test.state_test import test_parallel_env as state_test
from pettingzoo.utils.conversions import parallel_to_aec

SHORT: dict[str, Any] = {"warmup_ticks": 40, "max_ticks": 60}
POOR: dict[str, Any] = {"bankruptcy_equity": 99_990.0, "order_size": 500}
KINDS: dict[str, Any] = {
    "equal agents": {"agents": 3, **SHORT},
    "one agent": {"agents": 1, **SHORT},
    "agents that go bankrupt": {"agents": 4, **SHORT, **POOR},
    "other schemes": {
        "agents": {"maker": {"actions": "quotes"}, "taker": {}, "slow": {"latency_ticks": 3}},
        **SHORT,
    },
}
KIND = pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))


@KIND
def test_pettingzoo_finds_nothing_not_even_a_warning(kind: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parallel_api_test(parallel_trading_env(**kind), num_cycles=200)
        parallel_seed_test(partial(parallel_trading_env, **kind), num_cycles=100)
        env = parallel_trading_env(**kind)
        env.reset(seed=1)
        state_test(env)


def test_agents_that_take_turns_pass_as_well() -> None:
    # Warnings are no errors here: PettingZoo's own wrapper warns about its attributes.
    api_test(parallel_to_aec(parallel_trading_env(3, **SHORT)), num_cycles=100)
    seed_test(lambda: parallel_to_aec(parallel_trading_env(3, **SHORT)), num_cycles=100)


def test_one_agent_equals_the_single_environment() -> None:
    env, single = parallel_trading_env(1, **SHORT), TradingEnv(**SHORT)
    observations, infos = env.reset(seed=5)
    obs, info = single.reset(seed=5)
    for step in range(60):
        assert np.array_equal(observations["agent_0"], obs)
        assert str(infos["agent_0"]) == str(info)
        observations, rewards, terminations, truncations, infos = env.step({"agent_0": step % 3})
        obs, reward, terminated, truncated, info = single.step(step % 3)
        assert rewards == {"agent_0": reward}
        assert (terminations["agent_0"], truncations["agent_0"]) == (terminated, truncated)
    assert truncations["agent_0"]
    assert env.agents == []


def test_a_bankrupt_agent_leaves_and_the_others_go_on() -> None:
    agents: Any = {"rich": {"initial_cash": 1e6}, "poor": {}}
    env = parallel_trading_env(agents, max_ticks=400, warmup_ticks=40, **POOR)
    env.reset(seed=1)
    step = 0
    while "poor" in env.agents:
        observations, rewards, terminations, truncations, infos = env.step(
            {"rich": 1, "poor": 2 * (step % 2)}
        )
        step += 1
    assert terminations == {"rich": False, "poor": True}
    assert truncations == {"rich": False, "poor": False}
    assert infos["poor"]["metrics"]["length"] == step
    assert "metrics" not in infos["rich"]
    assert env.agents == ["rich"]
    assert env.possible_agents == ["rich", "poor"]
    with pytest.raises(bc.errors.EnvError, match="'poor'"):
        env.step({"rich": 1, "poor": 1})
    while env.agents:
        observations, rewards, *_ = env.step({"rich": 1})
    assert list(observations) == list(rewards) == ["rich"]
    with pytest.raises(bc.errors.EnvError, match=r"reset\(\)"):
        env.step({})
    env.reset()
    assert env.agents == ["rich", "poor"]


def test_copies_keep_the_state_and_pickles_the_settings() -> None:
    env = parallel_trading_env(2, **SHORT)
    env.reset(seed=3)
    env.step(dict.fromkeys(env.agents, 2))
    twin = copy.deepcopy(env)
    actions = {"agent_0": 0, "agent_1": 2}
    assert str(env.step(actions)) == str(twin.step(actions))
    again = pickle.loads(pickle.dumps(env))
    assert str(again.reset(seed=4)) == str(env.reset(seed=4))


def test_pictures_are_of_one_agent_each() -> None:
    env = parallel_trading_env(2, render_mode="rgb_array", **SHORT)
    with pytest.raises(bc.errors.EnvError, match=r"\breset\b"):
        env.render()
    env.reset(seed=3)
    for _ in range(20):
        env.step({"agent_0": 2, "agent_1": 0})
    first, second = env.render("agent_0"), env.render("agent_1")
    assert first.shape == (480, 640, 3)
    assert np.array_equal(env.render(), first)
    assert not np.array_equal(first, second)
    with pytest.raises(bc.errors.EnvError, match=r"'agent_2'.*'agent_0'.*'agent_1'"):
        env.render("agent_2")
    assert "position" in parallel_text()
    assert parallel_trading_env(2, **SHORT).render() is None


def parallel_text() -> str:
    """Render a step of an episode as text."""
    text = parallel_trading_env(2, render_mode="ansi", **SHORT)
    text.reset(seed=3)
    text.step({"agent_0": 2, "agent_1": 0})
    return str(text.render("agent_1"))


def test_spaces_state_and_book_are_those_of_the_agents() -> None:
    env = parallel_trading_env({"a": {"actions": "target"}, "b": {}}, **SHORT)
    assert env.action_space("a").shape == (1,)
    assert env.action_space("b").n == 3
    observations, _ = env.reset(seed=1)
    assert np.array_equal(env.state(), np.concatenate([observations["a"], observations["b"]]))
    assert env.book(levels=3)[0].shape == (3, 2)
    assert set(env.metrics_so_far()) == {"a", "b"}
    with pytest.raises(bc.errors.EnvError, match="'c'"):
        env.observation_space("c")
    env.close()
    with pytest.raises(bc.ClosedError):
        env.step({"a": 0.0, "b": 1})
