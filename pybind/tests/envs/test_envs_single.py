"""PortfolioEnv: Gymnasium's checker, and equality with rows of the vector environment."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import backcast as bc
import gymnasium as gym
import numpy as np
import pytest
from backcast.envs import PortfolioEnv, PortfolioVectorEnv, TradingEnv, TradingVectorEnv
from envs_worlds import row_of, same
from facts import missing
from gymnasium.utils.env_checker import check_env


@pytest.mark.parametrize("form", ["dict", "flat"])
def test_gymnasiums_checker_finds_nothing_not_even_a_warning(panel_file: Path, form: str) -> None:
    env = gym.make("backcast/Portfolio-v0", panel=panel_file, obs=form)
    check_env(env.unwrapped)


def test_made_by_hand_it_has_no_spec_and_that_is_all_the_checker_warns_of(
    panel: bc.Panel,
) -> None:
    with pytest.warns(UserWarning, match="not having a spec") as warned:
        check_env(PortfolioEnv(panel))
    assert len(warned) == 1


def test_print_shows_more_of_an_environment_than_its_class(panel: bc.Panel) -> None:
    made: list[Any] = [
        PortfolioEnv(panel),
        PortfolioVectorEnv(panel, 2),
        TradingEnv(max_ticks=9),
        TradingVectorEnv(2, max_ticks=9),
    ]
    for env in made:
        assert str(env) == repr(env)
        assert str(env).startswith(f"<backcast.envs.{type(env).__name__}: ")


@pytest.mark.parametrize("form", ["dict", "flat"])
def test_it_is_a_row_of_the_vector_environment_bit_for_bit(panel: bc.Panel, form: Any) -> None:  # noqa: ANN401
    settings: dict[str, Any] = {"obs": form, "max_episode_steps": 9, "hmax": 300}
    batch = PortfolioVectorEnv(panel, 3, autoreset_mode="disabled", **settings)
    singles = [PortfolioEnv(panel, **settings) for _ in range(3)]
    here = batch.reset(seed=40)[0]
    rows = [env.reset(seed=40 + at)[0] for at, env in enumerate(singles)]
    ends = 0
    for _ in range(80):
        for at, row in enumerate(rows):
            assert same(row_of(here, at), row)
        actions = batch.action_space.sample()
        here, rewards, terminated, truncated, infos = batch.step(actions)
        for at, env in enumerate(singles):
            row, *outcome, info = env.step(actions[at])
            assert same(outcome, [rewards[at].item(), terminated[at].item(), truncated[at].item()])
            assert list(info) == (["metrics"] if terminated[at] or truncated[at] else [])
            for name, value in info.get("metrics", {}).items():
                assert infos["metrics"][name][at] == value
                assert infos["metrics"][f"_{name}"][at]
            rows[at] = row
        ended = terminated | truncated
        if ended.any():
            ends += ended.sum()
            here = batch.reset(options={"reset_mask": ended})[0]
            for over in np.flatnonzero(ended):
                rows[over] = singles[over].reset()[0]
    assert ends > 6


def test_flags_are_bools_the_reward_is_a_float_and_numbers_are_arrays(panel: bc.Panel) -> None:
    # Stable-Baselines3's checker requires these, Gymnasium's does not.
    env = PortfolioEnv(panel)
    obs, info = env.reset(seed=1)
    assert info == {}
    assert type(obs["cash"]) is np.ndarray
    assert obs["cash"].shape == obs["day"].shape == obs["total_asset"].shape == (1,)
    assert (obs["indicators"].shape, obs["day"].dtype) == ((2, 2), np.int32)
    _, reward, terminated, truncated, _ = env.step(env.action_space.sample())
    assert (type(reward), type(terminated), type(truncated)) == (float, bool, bool)
    flat = PortfolioEnv(panel, obs="flat")
    space = flat.observation_space
    assert isinstance(space, gym.spaces.Box)
    assert space.shape == flat.reset()[0].shape
    assert space.dtype == np.float32
    assert len(flat.action_space.shape or ()) == 1


def test_a_numpy_integer_is_a_seed(panel: bc.Panel) -> None:
    env = PortfolioEnv(panel)
    one, two = env.reset(seed=np.int64(3)), env.reset(seed=3)  # type: ignore[arg-type]
    assert same(one, two)
    assert env.np_random_seed == 3


def test_after_an_end_only_a_reset_goes_on(panel: bc.Panel) -> None:
    env = PortfolioEnv(panel, max_episode_steps=1)
    env.reset(seed=1)
    assert env.step(np.zeros(2))[3] is True
    # The error names `reset()` alone: a single environment has no autoreset mode and no mask.
    with pytest.raises(bc.errors.EnvError, match=r"reset\(\)"):
        env.step(np.zeros(2))
    assert env.reset(options={"start_day": 7})[0]["day"] == 7


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda env: env.step([0.5, np.nan]), ['"BBB"', "NaN", "[-1, 1]"]),
        (lambda env: env.step([[0.5, 0.5]]), ["(1, 2)", "(2,)"]),
        (lambda env: env.reset(seed=[1]), ["seed", "[1]"]),
        (lambda env: env.reset(seed=-1), ["seed", "-1"]),
        (lambda env: env.reset(options={"reset_mask": np.ones(1, bool)}), ["'reset_mask'"]),
        (lambda env: env.reset(options={"start_day": 60}), ["`start_day`", "60"]),
        (lambda env: env.reset(options={"start_day": -1}), ["start_day", "-1", "0"]),
    ],
)
def test_calls_that_cannot_be_change_nothing(panel: bc.Panel, call: Any, words: list[str]) -> None:  # noqa: ANN401
    env = PortfolioEnv(panel)
    env.reset(seed=1)
    twin = copy.deepcopy(env)
    with pytest.raises((bc.errors.EnvError, bc.errors.ArgumentTypeError)) as error:
        call(env)
    assert missing(error.value, words) == []
    assert same(env.step(np.ones(2)), twin.step(np.ones(2)))
    assert same(env.reset(), twin.reset())


@pytest.mark.parametrize(
    "call",
    [
        lambda env: env.step([0.5, 0.5]),
        lambda env: env.history(),
        lambda env: env.metrics_so_far(),
    ],
)
def test_before_the_first_reset_there_is_nothing_to_say(panel: bc.Panel, call: Any) -> None:  # noqa: ANN401
    env = PortfolioEnv(panel, record=True)
    with pytest.raises(bc.errors.EnvError, match=r"\breset\b"):
        call(env)


def test_copies_keep_the_state_and_pickles_the_settings(panel_file: Path) -> None:
    env = PortfolioEnv(panel_file, obs="flat", hmax=2, panel_options={"macro": ["IDX"]})
    env.reset(seed=1)
    twin = copy.deepcopy(env)
    assert same(env.step(np.ones(2)), twin.step(np.ones(2)))
    again = pickle.loads(pickle.dumps(env))
    assert same(again.reset(seed=2), env.reset(seed=2))
    assert same(again.step(np.ones(2)), env.step(np.ones(2)))
    env.close()
    env.close()
    with pytest.raises(bc.ClosedError):
        env.reset()


def test_wrappers_of_single_environments_work(panel: bc.Panel) -> None:
    wrapped: Any = gym.wrappers.TimeLimit(PortfolioEnv(panel), 4)
    wrapped = gym.wrappers.NormalizeReward(gym.wrappers.FlattenObservation(wrapped))
    env: Any = gym.wrappers.RecordEpisodeStatistics(gym.wrappers.ClipAction(wrapped))
    obs, _ = env.reset(seed=1)
    for step in range(4):
        assert obs in env.observation_space
        obs, _, terminated, truncated, info = env.step(np.full(2, 5.0, np.float32))
        assert (terminated, truncated) == (False, step == 3)
    assert info["episode"]["l"] == 4
