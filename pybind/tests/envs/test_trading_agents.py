"""Several agents in one market without PettingZoo: the native class, and refused settings."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import backcast as bc
import numpy as np
import pytest
from backcast._native import SharedMarket
from backcast.envs import parallel_trading_env

SHORT: dict[str, Any] = {"warmup_ticks": 40, "max_ticks": 60}


def test_without_pettingzoo_an_error_names_what_to_install() -> None:
    code = """
import sys
sys.modules["pettingzoo"] = None
import backcast as bc, backcast.envs
try:
    backcast.envs.parallel_trading_env(2)
except bc.errors.MissingExtraError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert "backcast[pettingzoo]" in done.stdout
    assert "pip install 'backcast[pettingzoo]'" in done.stdout


def test_equal_seeds_give_equal_episodes() -> None:
    one, other = (SharedMarket({"a": {}, "b": {"actions": "target"}}, SHORT) for _ in range(2))
    assert str(one.reset(seed=3)) == str(other.reset(seed=3))
    for step in range(60):
        actions: dict[str, Any] = {"a": step % 3, "b": [np.sin(step)]}
        assert str(one.step(actions)) == str(other.step(actions))
    assert one.acting == []
    assert str(one.reset()) == str(other.reset())
    assert one.acting == ["a", "b"]


def test_agents_share_one_book() -> None:
    market = SharedMarket({"buyer": {}, "seller": {}}, SHORT)
    market.reset(seed=1)
    *_, infos = market.step({"buyer": 2, "seller": 0})
    assert (infos["buyer"]["position"], infos["seller"]["position"]) == (100, -100)
    assert infos["buyer"]["tick"] == infos["seller"]["tick"]


def test_each_agent_has_a_reward_of_its_own() -> None:
    class Counting:
        def __init__(self) -> None:
            self.calls = 0

        def __call__(self, _step: object) -> float:
            self.calls += 1
            return self.calls

    market = SharedMarket({"a": {}, "b": {}}, {"reward": Counting, **SHORT})
    market.reset(seed=1)
    for step in range(3):
        assert market.step({"a": 1, "b": 1})[1] == {"a": step + 1, "b": step + 1}


def test_each_agent_writes_to_a_lane_of_its_own() -> None:
    names = ["a", "b"]
    market = SharedMarket({name: {} for name in names}, SHORT)
    columns = {"obs": ("f4", len(market.features)), "action": "i8", "reward": "f8"}
    ring = bc.ReplayBuffer.create(None, columns, capacity=1_000, lanes=2)
    writers = {name: ring.writer(1) for name in names}
    for seed in range(2):
        obs, _ = market.reset(seed=seed)
        while market.acting:
            actions = dict.fromkeys(market.acting, 2)
            after, rewards, terminations, truncations, _ = market.step(actions)
            for name in after:
                writers[name].append(
                    obs=obs[name],
                    action=actions[name],
                    reward=rewards[name],
                    next_obs=after[name],
                    terminated=terminations[name],
                    truncated=truncations[name],
                )
            obs = after
    assert len(ring) == 2 * 2 * 60


@pytest.mark.parametrize(
    ("actions", "words"),
    [
        ({"a": 1}, r"'b'.*env\.agents.*'a'"),
        ({"a": 1, "b": 1, "c": 1}, "'c'.*'a'.*'b'"),
        ({"a": 1, "b": 9}, r"'b'.*\baction\b.*\b9\b"),
        ({"a": 1, "b": [1, 2]}, r"actions\['b'\]"),
    ],
    ids=["missing", "unknown", "out of range", "shape"],
)
def test_bad_actions_change_nothing(actions: dict[str, Any], words: str) -> None:
    market, twin = (SharedMarket({"a": {}, "b": {}}, SHORT) for _ in range(2))
    with pytest.raises(bc.errors.EnvError, match=r"\breset\b"):
        market.step({"a": 1, "b": 1})
    market.reset(seed=1)
    twin.reset(seed=1)
    with pytest.raises(bc.errors.EnvError, match=words):
        market.step(actions)
    good = {"a": 2, "b": 0}
    assert str(market.step(good)) == str(twin.step(good))


@pytest.mark.parametrize(
    ("made", "error", "words"),
    [
        ({"agents": 0}, bc.errors.EnvError, r"\bagents\b.*\b0\b.*\b1\b.*\b4096\b"),
        ({"agents": {}}, bc.errors.EnvError, r"\bagents\b"),
        ({"agents": "two"}, bc.errors.ArgumentTypeError, r"\bagents\b.*'two'"),
        (
            {"agents": {"a": {"order_sise": 3}}},
            bc.errors.ArgumentTypeError,
            "`order_size`",
        ),
        (
            {"agents": {"a": {"allow_short": False, "short_limit": 5}, "b": {}}},
            bc.errors.EnvError,
            "agent 'a': short_limit is 5, and allow_short=False",
        ),
        ({"allow_short": False, "short_limit": 5}, bc.errors.EnvError, "^short_limit is 5, and"),
        (
            {"agents": {"a": {"actions": "quotes"}, "b": {"max_offset": 5}}},
            bc.errors.EnvError,
            "^agent 'b': max_offset is 5",
        ),
        ({"max_offset": 5}, bc.errors.EnvError, "^max_offset is 5"),
        ({"preset": "stresed"}, bc.errors.EnvError, "stresed"),
        ({"frame_skp": 2}, bc.errors.ArgumentTypeError, "`frame_skip`"),
        (
            {"agents": {"first": {"initial_margin": 0.4}}},
            bc.errors.ArgumentTypeError,
            r"'first'.*\binitial_margin=0\.4",
        ),
    ],
    ids=[
        "none",
        "empty",
        "text",
        "typo of an agent",
        "limit of an agent",
        "limit",
        "unused by an agent",
        "unused",
        "no preset",
        "typo",
        "shared setting",
    ],
)
def test_bad_settings_are_refused(made: dict[str, Any], error: type, words: str) -> None:
    if "preset" in made:
        pytest.importorskip("pettingzoo", reason="PettingZoo is not installed")
    with pytest.raises(error, match=words):
        parallel_trading_env(**made)


def test_a_common_limit_is_for_the_agents_that_may_sell_short() -> None:
    made: dict[str, Any] = {"agents": {"a": {"allow_short": True}, "b": {}}, "render_mode": "?"}
    # An error about the render mode shows that the settings, which are checked first, are valid.
    with pytest.raises(bc.errors.EnvError, match="render_mode"):
        parallel_trading_env(**made, allow_short=False, short_limit=5)


def test_each_common_setting_is_for_the_agents_that_use_it() -> None:
    own: dict[str, Any] = {"a": {"actions": "quotes"}, "b": {"actions": "limit_orders"}}
    with pytest.raises(bc.errors.EnvError, match="render_mode"):
        parallel_trading_env(own, max_offset=5, commands=2, order_size=9, render_mode="?")
    with pytest.raises(bc.errors.EnvError, match=r"^max_slippage is 5"):
        parallel_trading_env(own, max_offset=5, max_slippage=5, render_mode="?")


def test_settings_name_the_agent_that_they_are_of() -> None:
    with pytest.raises(bc.errors.EnvError, match=r"'b'.*\border_size\b.*\b0\b"):
        SharedMarket({"a": {}, "b": {"order_size": 0}}, SHORT)
    with pytest.raises(bc.errors.EnvError, match=r"'b'.*`order_size`.*\b2000\b"):
        SharedMarket({"a": {}, "b": {"order_size": 2_000}}, SHORT)


def test_a_reset_ignores_options_of_others_and_refuses_misspelt_ones() -> None:
    market = SharedMarket({"a": {}}, SHORT)
    assert str(market.reset(seed=1, options={"options": 1})) == str(market.reset(seed=1))
    with pytest.raises(bc.errors.EnvError, match='"episode_seed"'):
        market.reset(options={"episode_sed": 1})
