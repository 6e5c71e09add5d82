"""Ray in this machine, on its loopback interface alone, and fragments of episodes."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

# Ray reads them when it is imported.
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"

import numpy as np
import pytest
import ray
from ray.rllib.env.single_agent_episode import SingleAgentEpisode


@pytest.fixture(scope="session", autouse=True)
def place() -> Iterator[Path]:
    """Keep the rings of the test run in a folder of its own, and remove it."""
    path = Path(tempfile.mkdtemp(prefix="backcast-test-", dir="/dev/shm"))
    os.environ["BACKCAST_DIR"] = str(path)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="module")
def cluster(place: Path) -> Iterator[None]:
    """Start Ray for the algorithms of a module, and end it."""
    ray.init(
        "local",
        num_cpus=2,
        include_dashboard=False,
        _node_ip_address="127.0.0.1",
        log_to_driver=False,
        logging_level="ERROR",
        object_store_memory=80_000_000,
    )
    try:
        yield
    finally:
        ray.shutdown()


class Env:
    """An environment whose observations count its steps, and are different in all environments.

    Observation ``[number, episode, t]``, action ``[t]``, reward ``t + 1``.
    """

    def __init__(self, number: int, length: int, *, truncates: bool = False) -> None:
        self.number, self.length, self.truncates = number, length, truncates
        self.episode, self.t, self.id = 0, 0, f"{number}-0"

    def _obs(self, t: int) -> np.ndarray:
        return np.asarray([self.number, self.episode, t], np.float32)

    def fragments(self, steps: int, *, arrays: bool = True) -> list[SingleAgentEpisode]:
        """Return the fragments of so many steps, as a runner sends them."""
        made = []
        while steps:
            count = min(steps, self.length - self.t)
            ends = self.t + count == self.length
            lookback = min(1, self.t)
            times = range(self.t - lookback, self.t + count)
            fragment = SingleAgentEpisode(
                self.id,
                observations=[self._obs(t) for t in (*times, self.t + count)],
                actions=[np.asarray([t], np.float32) for t in times],
                rewards=[float(t + 1) for t in times],
                terminated=ends and not self.truncates,
                truncated=ends and self.truncates,
                t_started=self.t,
                len_lookback_buffer=lookback,
            )
            made.append(fragment.to_numpy() if arrays else fragment)
            steps -= count
            self.t += count
            if ends:
                self.episode += 1
                self.t, self.id = 0, f"{self.number}-{self.episode}"
        return made
