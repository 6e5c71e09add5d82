"""Training with Stable-Baselines3: share of the CPU time that its buffer takes, and Backcast's.

python benches/python/training.py [ROUNDS]

It needs the packages of requirements/adapters.txt. Each run is a whole `learn`, contenders take
turns, and PyTorch has one thread. The time in the buffer is that of its `add` and `sample`, and
includes reading the clock.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import adapters
import backcast.sb3
import gymnasium as gym
import numpy as np
import results
import torch
from gymnasium import spaces
from stable_baselines3 import DQN, SAC
from stable_baselines3.common import buffers

ROUNDS = 7
"""Runs of each contender."""


class Vectors(gym.Env[Any, Any]):
    """Random vectors of 17 numbers, for 6 actions; a step costs next to nothing."""

    observation_space = adapters.VECTORS
    action_space = adapters.ACTIONS

    def __init__(self) -> None:
        self._seen = np.random.default_rng(0).normal(size=(1001, 17)).astype("f4")
        self._at = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        self._at = 0
        return self._seen[0], {}

    def step(self, action: object) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Return the next vector; an episode ends after 1,000 steps."""
        self._at += 1
        return self._seen[self._at], 1.0, False, self._at == 1000, {}


class Stacks(gym.Env[Any, Any]):
    """Random stacks of four frames of 84 x 84, for 6 buttons; a step costs next to nothing."""

    observation_space = adapters.STACKS
    action_space = spaces.Discrete(6)

    def __init__(self) -> None:
        frames = np.random.default_rng(0).integers(1, 255, (201, 84, 84), dtype=np.uint8)
        self._padded = np.concatenate([np.zeros((3, 84, 84), np.uint8), frames])
        self._at = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        self._at = 0
        return self._padded[:4], {}

    def step(self, action: object) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Return the next stack; an episode ends after 200 steps."""
        self._at += 1
        end = self._at == 200
        return self._padded[self._at : self._at + 4], 1.0, False, end, {}


class Timed:
    """A function that adds up the CPU time of its calls."""

    def __init__(self, call: Callable[..., object]) -> None:
        self._call = call
        self.spent = 0.0

    def __call__(self, *args: object, **named: object) -> object:
        """Call the function, and add the CPU time that it took."""
        start = time.process_time()
        returned = self._call(*args, **named)
        self.spent += time.process_time() - start
        return returned


CONTENDERS: dict[str, type[Any]] = {
    "Stable-Baselines3": buffers.ReplayBuffer,
    "backcast.sb3": backcast.sb3.ReplayBuffer,
}


def sac(buffer: type[Any]) -> tuple[Any, int]:
    """Make SAC with SB3's defaults; return it with the number of steps of a run."""
    model = SAC(
        "MlpPolicy",
        Vectors(),
        buffer_size=10_000,
        replay_buffer_class=buffer,
        seed=0,
        device="cpu",
    )
    return model, 1_000


def dqn(buffer: type[Any]) -> tuple[Any, int]:
    """Make DQN with SB3's network for images; return it with the number of steps of a run."""
    own = {"frames": 4} if issubclass(buffer, backcast.sb3.ReplayBuffer) else {}
    model = DQN(
        "CnnPolicy",
        Stacks(),
        buffer_size=2_000,
        learning_starts=100,
        replay_buffer_class=buffer,
        replay_buffer_kwargs=own,
        seed=0,
        device="cpu",
    )
    return model, 1_000


def main() -> None:
    """Measure, print the results and write them to a file."""
    torch.set_num_threads(1)
    found = []
    for workload, make in (("SAC on vectors", sac), ("DQN on stacks of frames", dqn)):
        shares: dict[str, list[float]] = {name: [] for name in CONTENDERS}
        rates: dict[str, list[float]] = {name: [] for name in CONTENDERS}
        for _ in range(ROUNDS):
            for name, buffer in CONTENDERS.items():
                model, steps = make(buffer)
                own = model.replay_buffer
                own.add, own.sample = calls = Timed(own.add), Timed(own.sample)
                start = time.process_time()
                model.learn(steps)
                total = time.process_time() - start
                shares[name].append(100 * sum(call.spent for call in calls) / total)
                rates[name].append(steps / total)
        found += results.lines(workload, "CPU time in the buffer", "%", shares.items(), "main")
        found += results.lines(workload, "trained", "steps/s", rates.items(), "main")
    results.table(found)
    path = results.LATEST.with_name("training.jsonl")
    path.unlink(missing_ok=True)
    results.append(found, path)


if __name__ == "__main__":
    ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    main()
