"""TradingVectorEnv: equal to single environments and Gymnasium's vectors; modes, masks, forks."""

from __future__ import annotations

import copy
import os
import pickle
import signal
from typing import Any

import backcast as bc
import gymnasium as gym
import numpy as np
import pytest
from backcast.envs import TradingEnv, TradingVectorEnv
from envs_worlds import MODES, WORDS, same
from gymnasium.vector import AutoresetMode
from waits import exit_code_of, killing

N = 5
SHORT: dict[str, Any] = {"warmup_ticks": 40, "frame_skip": 3, "max_ticks": 31}
SCHEMES = [
    "discrete",
    "discrete_limit",
    "discrete_target",
    "target",
    "order_size",
    "quotes",
    "limit_orders",
]


def run(envs: Any, steps: int, seed: int = 9) -> list[Any]:  # noqa: ANN401
    """Return the results of a reset and of steps with random actions."""
    envs.action_space.seed(4)
    shown = [envs.reset(seed=seed)]
    shown += [envs.step(envs.action_space.sample()) for _ in range(steps)]
    return shown


@pytest.mark.parametrize("scheme", SCHEMES)
def test_each_lane_is_a_single_environment_bit_for_bit(scheme: str) -> None:
    settings: dict[str, Any] = {**SHORT, "actions": scheme, "latency_ticks": 2}
    envs = TradingVectorEnv(N, autoreset_mode="disabled", **settings)
    singles = [TradingEnv(**settings) for _ in range(N)]
    here, infos = envs.reset(seed=40)
    rows = [env.reset(seed=40 + at) for at, env in enumerate(singles)]
    envs.action_space.seed(1)
    ends = 0
    for _ in range(25):
        for at, (row, info) in enumerate(rows):
            assert same(here[at], row)
            for name, value in info.items():
                if name != "metrics":
                    assert np.array_equal(infos[name][at], value), name
                    assert infos[f"_{name}"][at]
        actions = envs.action_space.sample()
        here, rewards, terminated, truncated, infos = envs.step(actions)
        for at, env in enumerate(singles):
            row, reward, *flags, info = env.step(actions[at])
            assert (reward, flags) == (rewards[at], [terminated[at], truncated[at]])
            for name, value in info.get("metrics", {}).items():
                assert infos["metrics"][name][at] == value
            rows[at] = (row, info)
        ended = terminated | truncated
        if ended.any():
            ends += ended.sum()
            here, infos = envs.reset(options={"reset_mask": ended})
            for over in np.flatnonzero(ended):
                rows[over] = singles[over].reset()
    assert ends == 2 * N


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_it_is_what_gymnasium_makes_of_single_ones(mode: AutoresetMode) -> None:
    native = TradingVectorEnv(N, autoreset_mode=mode, **SHORT)
    theirs = gym.vector.SyncVectorEnv(
        [lambda: TradingEnv(**SHORT) for _ in range(N)], autoreset_mode=mode
    )
    assert native.observation_space == theirs.observation_space
    assert native.action_space == theirs.action_space
    ends = 0
    for ours, other in zip(run(native, 30), run(theirs, 30), strict=True):
        *here, infos = ours
        *there, gathered = other
        assert same(here, there)
        ends += "metrics" in infos
        for name, value in gathered.items():
            if name == "final_info":
                # The action mask is for the next decision. An ended episode has none.
                value = {k: v for k, v in value.items() if k.lstrip("_") != "action_mask"}
                found = {k: v for k, v in infos["final_info"].items() if k in value}
                assert same(found, value)
            elif name.lstrip("_") != "metrics":
                assert same(infos[name], value), name
    assert ends > 1


@pytest.mark.parametrize("mode", MODES)
def test_seeds_and_threads_decide_nothing_but_the_episodes(mode: AutoresetMode) -> None:
    if mode is AutoresetMode.DISABLED:
        steps, threads = 10, [1, 3]
    else:
        steps, threads = 40, [1, 2, 3]
    runs = [
        run(TradingVectorEnv(7, autoreset_mode=WORDS[mode], threads=count, **SHORT), steps)
        for count in threads
    ]
    for other in runs[1:]:
        assert same(runs[0], other)
    different = run(TradingVectorEnv(7, autoreset_mode=mode, **SHORT), steps, seed=10)
    assert not same(runs[0][0][0], different[0][0])
    # Environment i of seed s is environment i + 1 of seed s - 1.
    assert same(runs[0][0][0][1:], different[0][0][:-1])


def test_same_step_keeps_the_last_observation_of_an_episode() -> None:
    envs = TradingVectorEnv(3, autoreset_mode="same_step", **SHORT)
    twin = TradingVectorEnv(3, autoreset_mode="disabled", **SHORT)
    run(envs, 10)
    run(twin, 10)
    actions = np.array([2, 0, 1])
    obs, _, _, truncated, infos = envs.step(actions)
    last, _, _, _, ended = twin.step(actions)
    assert truncated.all()
    assert infos["final_obs"].dtype == object
    for at, final in enumerate(infos["final_obs"]):
        assert same(final, last[at])
        assert infos["final_info"]["equity"][at] == ended["equity"][at]
    assert not np.array_equal(obs, last)
    assert infos["decisions"].tolist() == [0, 0, 0]
    assert infos["_final_obs"].all()
    assert infos["metrics"]["length"].tolist() == [11] * 3
    assert same(infos["final_info"]["metrics"], infos["metrics"])
    assert "final_obs" not in envs.step(actions)[4]


def test_a_mask_resets_some_and_leaves_the_others() -> None:
    envs = TradingVectorEnv(3, **SHORT)
    first, _ = envs.reset(seed=1)
    stepped = envs.step([2, 2, 2])[0]
    options = {"reset_mask": np.array([False, True, False])}
    obs, infos = envs.reset(seed=[None, 2, None], options=options)
    assert list(options) == ["reset_mask"]
    assert same(obs[[0, 2]], stepped[[0, 2]])
    assert same(obs[1], first[1])
    assert infos["decisions"].tolist() == [1, 0, 1]


def test_reset_options_choose_episode_and_endowment() -> None:
    envs = TradingVectorEnv(2, **SHORT)
    _, infos = envs.reset(seed=3, options={"shares": 50, "cash": 5_000.0})
    assert infos["position"].tolist() == [50, 50]
    _, again = envs.reset(options={"episode_seed": infos["episode_seed"][0]})
    assert again["episode_seed"][0] == infos["episode_seed"][0]
    assert again["position"].tolist() == [0, 0]
    odd = TradingVectorEnv(2, seed_space="test", **SHORT).reset(seed=3)[1]["episode_seed"]
    assert (odd % 2 == 1).all()
    assert (infos["episode_seed"] % 2 == 0).all()


def test_copy_false_fills_one_array_and_fresh_ones_share_nothing() -> None:
    fresh, reused = TradingVectorEnv(2, **SHORT), TradingVectorEnv(2, copy=False, **SHORT)
    obs, kept = fresh.reset(seed=1)[0], reused.reset(seed=1)[0]
    assert same(obs, kept)
    after, filled = fresh.step([2, 0])[0], reused.step([2, 0])[0]
    assert filled is kept
    assert same(after, kept)
    assert not np.shares_memory(obs, after)
    kept.flags.writeable = False
    with pytest.raises(bc.errors.EnvError, match="copy=True"):
        reused.step([1, 1])


def test_several_symbols_have_their_own_features_and_actions() -> None:
    config = bc.sim.MarketConfig.preset("normal")
    config.symbols = 3
    envs = TradingVectorEnv(2, market=config, features="full", **SHORT)
    assert envs.single_action_space == gym.spaces.MultiDiscrete([3, 3, 3])
    assert envs.single_observation_space.shape == (3 * (55 + 11),)
    assert {entry.symbol for entry in envs.features} == {0, 1, 2}
    obs, infos = envs.reset(seed=1)
    assert obs in envs.observation_space
    assert infos["action_mask"].shape == (2, 3, 3)
    assert envs.action_masks().shape == (2, 9)
    envs.step([[2, 1, 0], [1, 1, 1]])
    at = [entry.name for entry in envs.features].index("position")
    moved = envs.step([[1, 1, 1]] * 2)[0][0, at::11][:3]
    assert (np.sign(moved) == [1, 0, -1]).all()


def test_a_forked_child_steps_on_threads_of_its_own() -> None:
    envs = TradingVectorEnv(8, threads=3, **SHORT)
    envs.reset(seed=1)
    envs.step(np.ones(8, int))
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        done = 1
        try:
            shown = envs.step(np.full(8, 2))
            os.write(writer, np.concatenate([shown[0].ravel(), shown[1].astype("f4")]).tobytes())
            done = 0
        finally:
            os._exit(done)
    os.close(writer)
    shown = envs.step(np.full(8, 2))
    expected = np.concatenate([shown[0].ravel(), shown[1].astype("f4")]).tobytes()
    received = b""
    with killing(lambda: os.kill(child, signal.SIGKILL)):
        while part := os.read(reader, 1 << 16):
            received += part
    os.close(reader)
    assert exit_code_of(child) == 0
    assert received == expected


def test_copies_keep_the_state_and_pickles_the_settings() -> None:
    envs = TradingVectorEnv(3, preset="calm", autoreset_mode="same_step", **SHORT)
    run(envs, 5)
    twin = copy.deepcopy(envs)
    for _ in range(12):
        assert same(envs.step([0, 1, 2]), twin.step([0, 1, 2]))
    again = pickle.loads(pickle.dumps(envs))
    assert again.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    assert same(again.reset(seed=2), envs.reset(seed=2))
    envs.close()
    envs.close()
    with pytest.raises(bc.ClosedError):
        envs.reset()


def test_wrappers_of_gymnasium_take_it() -> None:
    envs: Any = gym.make_vec("backcast/Trading-v0", 3, **SHORT)
    envs = gym.wrappers.vector.RecordEpisodeStatistics(envs)
    envs = gym.wrappers.vector.NormalizeObservation(envs)
    envs.reset(seed=1)
    lengths = []
    for _ in range(30):
        infos = envs.step(envs.action_space.sample())[4]
        if "episode" in infos:
            lengths += infos["episode"]["l"][infos["_episode"]].tolist()
    assert lengths
    assert set(lengths) == {11}


@pytest.mark.parametrize("how", ["sync", "async"])
def test_every_vectorization_mode_steps_alike(how: str) -> None:
    env: Any = gym.make_vec("backcast/Trading-v0", 3, vectorization_mode=how, **SHORT)
    native = TradingVectorEnv(3, **SHORT)
    assert same(env.reset(seed=1)[0], native.reset(seed=1)[0])
    draw = np.random.default_rng(2)
    for _ in range(25):
        actions = draw.integers(0, 3, 3)
        *here, infos = env.step(actions)
        *there, ours = native.step(actions)
        assert same(here, there)
        for name in ("tick", "equity", "position", "action_mask", "episode_seed"):
            assert same(infos[name], ours[name]), name
    env.close()
