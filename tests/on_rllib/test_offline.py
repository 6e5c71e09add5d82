"""RLlib's offline data reads what a ring exports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import backcast as bc
import gymnasium as gym
import numpy as np
import pytest
from backcast.errors import ArgumentError, ExistsError
from backcast.rllib import EpisodeReplayBuffer, export_offline
from conftest import Env
from ray.rllib.algorithms.bc import BCConfig
from ray.rllib.offline.offline_data import OfflineData
from ray.rllib.offline.offline_prelearner import OfflinePreLearner


def box(size: int) -> gym.Space[Any]:
    return gym.spaces.Box(-100, 100, (size,), np.float32)


def test_rllib_reads_the_transitions_that_were_added(cluster: None, tmp_path: Path) -> None:
    buffer = EpisodeReplayBuffer(1_000, lanes=2)
    for env in (Env(0, 5), Env(1, 4, truncates=True)):
        buffer.add(env.fragments(20))
    path = tmp_path / "transitions.parquet"
    assert buffer.ring is not None
    assert export_offline(buffer.ring, path) == len(buffer) == 40
    config = (
        BCConfig()
        .environment(observation_space=box(3), action_space=box(1))
        .offline_data(input_=[str(path)])
    )
    # RLlib's own reader, and its own step from rows to episodes.
    [rows] = OfflineData(config).data.iter_batches(batch_size=40)
    reader = object.__new__(OfflinePreLearner)
    reader.config = config
    episodes = reader._map_to_episodes(rows)["episodes"]
    assert len(episodes) == 40
    assert len({episode.id_ for episode in episodes}) == 9
    seen = set()
    for episode in episodes:
        number, _, t = obs = tuple(episode.get_observations(0).tolist())
        seen.add(obs)
        assert episode.get_observations(1).tolist() == [*obs[:2], t + 1]
        assert episode.get_observations(0).dtype == np.float32
        assert episode.get_actions(0).tolist() == [t]
        assert episode.get_rewards(0) == t + 1
        last = t == (4 if number == 0 else 3)
        assert episode.is_terminated == (last and number == 0)
        assert episode.is_truncated == (last and number == 1)
    assert len(seen) == 40


def test_rings_that_rllib_cannot_read_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "transitions.parquet"
    columns = {"obs": {"eye": "u1"}, "action": "f4", "reward": "f4"}
    with (
        bc.ReplayBuffer.create(None, columns, capacity=10) as ring,
        pytest.raises(ArgumentError, match="only obs/eye"),
    ):
        export_offline(ring, path)
    columns = {"obs": "f4", "action": "f4", "reward": "f4"}
    with bc.ReplayBuffer.create(None, columns, capacity=10) as ring:
        with pytest.raises(ArgumentError, match="nothing to write"):
            export_offline(ring, path)
        with ring.writer() as writer:
            for t in range(3):
                writer.append(
                    obs=t, action=t, reward=t, terminated=t == 2, truncated=False, final_obs=9
                )
        assert export_offline(ring, path) == 3
        with pytest.raises(ExistsError):
            export_offline(ring, path)
        assert export_offline(ring, path, overwrite=True) == 3
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
