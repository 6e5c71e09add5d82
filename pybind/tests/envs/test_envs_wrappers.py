"""Gymnasium's wrappers and process pools around the portfolio environments."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import backcast as bc
import numpy as np
import pytest
from backcast.envs import PortfolioEnv, PortfolioVectorEnv
from envs_worlds import MODES, but_metrics, same
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode
from gymnasium.wrappers.vector import (
    DictInfoToList,
    FlattenObservation,
    NormalizeReward,
    RecordEpisodeStatistics,
)

N = 3


def made(panel: bc.Panel, mode: AutoresetMode, **settings: Any) -> PortfolioVectorEnv:  # noqa: ANN401
    return PortfolioVectorEnv(
        panel, N, autoreset_mode=mode, max_episode_steps=6, hmax=100, **settings
    )


def stepped(env: Any, steps: int) -> list[Any]:  # noqa: ANN401
    """Reset, then step with seeded actions; reset ended episodes if the environment does not."""
    draw = np.random.default_rng(6)
    seen = [env.reset(seed=3)]
    for _ in range(steps):
        # At the next reset, RecordEpisodeStatistics writes to masks that it has returned.
        seen.append(copy.deepcopy(env.step(draw.uniform(-1, 1, (N, 2)).astype(np.float32))))
        ended = seen[-1][2] | seen[-1][3]
        if env.metadata["autoreset_mode"] is AutoresetMode.DISABLED and ended.any():
            env.reset(options={"reset_mask": ended})
    return seen


@pytest.mark.parametrize("mode", MODES)
def test_episode_statistics_are_those_of_the_episodes(panel: bc.Panel, mode: AutoresetMode) -> None:
    env = RecordEpisodeStatistics(made(panel, mode))
    returns, counts = np.zeros(N), np.zeros(N, int)
    waiting = np.zeros(N, bool)
    ends = 0
    for _, rewards, terminated, truncated, infos in stepped(env, 40)[1:]:
        returns[~waiting] += rewards[~waiting]
        counts[~waiting] += 1
        ended = terminated | truncated
        assert ("episode" in infos) == ended.any()
        if ended.any():
            assert infos["_episode"].tolist() == ended.tolist()
            np.testing.assert_allclose(infos["episode"]["r"][ended], returns[ended], atol=1e-15)
            assert infos["episode"]["l"][ended].tolist() == counts[ended].tolist()
            ends += ended.sum()
        returns[ended], counts[ended] = 0, 0
        waiting = ended if mode is AutoresetMode.NEXT_STEP else np.zeros(N, bool)
    assert env.episode_count == ends > 10


def test_a_masked_reset_keeps_the_statistics_of_the_others(panel: bc.Panel) -> None:
    # Gymnasium's own vector environments remove the mask from the caller's dict, after which the
    # wrapper resets the counters of all.
    env = RecordEpisodeStatistics(made(panel, AutoresetMode.DISABLED))
    env.reset(seed=1)
    for _ in range(2):
        env.step(np.zeros((N, 2)))
    env.reset(options={"reset_mask": np.array([True, False, False])})
    assert env.episode_lengths.tolist() == [0, 2, 2]


@pytest.mark.parametrize("mode", MODES)
def test_rewards_are_normalised(panel: bc.Panel, mode: AutoresetMode) -> None:
    plain, env = stepped(made(panel, mode), 40), stepped(NormalizeReward(made(panel, mode)), 40)
    for (_, raw, *_), (_, scaled, *_) in zip(plain[1:], env[1:], strict=True):
        assert (np.sign(raw) == np.sign(scaled)).all()
    spread = np.std([step[1] for step in env[20:]])
    assert spread > 3 * np.std([step[1] for step in plain[20:]])


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED])
def test_flattened_by_gymnasium_or_in_rust_it_is_the_same(
    panel: bc.Panel, mode: AutoresetMode
) -> None:
    wrapped: Any = FlattenObservation(made(panel, mode))
    for theirs, ours in zip(
        stepped(wrapped, 30), stepped(made(panel, mode, obs="flat"), 30), strict=True
    ):
        np.testing.assert_array_equal(theirs[0].astype(np.float32), ours[0])
        assert same(theirs[1:], ours[1:])


def test_in_same_step_mode_flat_observations_do_what_gymnasiums_wrapper_does_not(
    panel: bc.Panel,
) -> None:
    # The wrapper refuses every vector environment in this mode: it would miss `final_obs`.
    with pytest.raises(ValueError, match="SAME_STEP"):
        FlattenObservation(made(panel, AutoresetMode.SAME_STEP))
    flat = made(panel, AutoresetMode.SAME_STEP, obs="flat")
    nested = made(panel, AutoresetMode.SAME_STEP).single_observation_space
    ends = 0
    for ours, theirs in zip(
        stepped(flat, 30), stepped(made(panel, AutoresetMode.SAME_STEP), 30), strict=True
    ):
        finals = theirs[-1].get("final_obs", [])
        for at, last in enumerate(finals):
            if last is not None:
                ends += 1
                wanted: Any = spaces.flatten(nested, last)
                np.testing.assert_array_equal(ours[-1]["final_obs"][at], wanted.astype(np.float32))
    assert ends > 10


@pytest.mark.parametrize("mode", MODES)
def test_infos_become_a_list(panel: bc.Panel, mode: AutoresetMode) -> None:
    env: Any = DictInfoToList(RecordEpisodeStatistics(made(panel, mode)))
    ends = 0
    for _, _, terminated, truncated, infos in stepped(env, 30)[1:]:
        ended = terminated | truncated
        assert [("episode" in info) for info in infos] == ended.tolist()
        if mode is AutoresetMode.SAME_STEP:
            assert [("final_obs" in info) for info in infos] == ended.tolist()
            for at in np.flatnonzero(ended):
                assert infos[at]["final_obs"] in env.single_observation_space
        ends += ended.sum()
    assert ends > 10


@pytest.mark.parametrize("start", ["fork", "spawn"])
@pytest.mark.parametrize("by", ["path", "name", "panel"])
def test_processes_step_single_environments_as_the_batch_does(
    panel_file: Path, place: Path, start: str, by: str
) -> None:
    shared = bc.Panel.from_csv(panel_file, name="shared", macro=["IDX"], dir=place)
    ways: dict[str, dict[str, Any]] = {
        "path": {"panel": panel_file, "panel_options": {"macro": ["IDX"]}},
        "name": {"panel": "shared", "panel_options": {"dir": place}},
        "panel": {"panel": shared},
    }
    settings: dict[str, Any] = {"max_episode_steps": 5, **ways[by]}
    mode = AutoresetMode.SAME_STEP
    pool: Any = AsyncVectorEnv(
        [lambda: PortfolioEnv(**settings)] * N, context=start, autoreset_mode=mode
    )
    batch = PortfolioVectorEnv(num_envs=N, autoreset_mode=mode, **settings)
    assert pool.observation_space == batch.observation_space
    for theirs, ours in zip(stepped(pool, 15), stepped(batch, 15), strict=True):
        assert same(but_metrics(theirs), but_metrics(ours))
    pool.close()
    batch.close()
    shared.close()
