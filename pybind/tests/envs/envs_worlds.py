"""Environments with nested, flat and tuple observations, and comparisons of their results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

MODES = list(AutoresetMode)
WORDS: dict[AutoresetMode, Literal["next_step", "same_step", "disabled"]] = {
    AutoresetMode.NEXT_STEP: "next_step",
    AutoresetMode.SAME_STEP: "same_step",
    AutoresetMode.DISABLED: "disabled",
}


def same(one: Any, other: Any) -> bool:  # noqa: ANN401
    """Tell whether two results are equal in type, dtype, shape and every bit."""
    if isinstance(one, dict):
        return (
            isinstance(other, dict)
            and one.keys() == other.keys()
            and all(same(value, other[key]) for key, value in one.items())
        )
    if isinstance(one, tuple | list):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, np.ndarray):
        if not (isinstance(other, np.ndarray) and one.dtype == other.dtype):
            return False
        if one.dtype == object:
            return same(one.tolist(), other.tolist())
        return one.shape == other.shape and one.tobytes() == other.tobytes()
    return type(one) is type(other) and bool(one == other)


def but_metrics(result: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a result without `metrics` in its infos, which Gymnasium may put in `final_info`."""
    *rest, infos = result
    return (*rest, {key: value for key, value in infos.items() if key.lstrip("_") != "metrics"})


def row_of(batch: Any, at: int) -> Any:  # noqa: ANN401
    """Return one environment's observation out of that of many."""
    if isinstance(batch, dict):
        return {key: row_of(part, at) for key, part in batch.items()}
    if isinstance(batch, tuple):
        return tuple(row_of(part, at) for part in batch)
    return batch[at, ...]


class Walk(gym.Env[Any, Any]):
    """Walk of random length with nested observations; ends terminated if that is even."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012
    observation_space = spaces.Dict(
        {
            "clock": spaces.Discrete(1000, start=-5),
            "where": spaces.Dict(
                {
                    "at": spaces.Box(-np.inf, np.inf, (2,), np.float32),
                    "seen": spaces.MultiBinary(3),
                }
            ),
            "pair": spaces.Tuple(
                (spaces.Box(0, 255, (2, 2), np.uint8), spaces.MultiDiscrete([7, 9]))
            ),
        }
    )
    action_space = spaces.Discrete(3, start=-1)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.clock = -5
        self.length = int(self.np_random.integers(1, 6))
        self.at = np.zeros(2, np.float32)
        return self._see(), {"length": self.length}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:  # noqa: ANN401
        assert self.action_space.contains(np.int64(action))
        self.clock += 1
        self.at = self.at + np.float32(action) + self.np_random.random(2, np.float32)
        over = self.clock == self.length - 5
        terminated = over and self.length % 2 == 0
        reward = float(self.at.sum())
        return self._see(), reward, terminated, over and not terminated, {"clock": self.clock}

    def _see(self) -> dict[str, Any]:
        draw = self.np_random
        return {
            "clock": np.int64(self.clock),
            "pair": (draw.integers(0, 256, (2, 2), np.uint8), draw.integers(0, 7, 2)),
            "where": {"at": self.at.copy(), "seen": draw.integers(0, 2, 3, np.int8)},
        }


class FlatWalk(gym.ObservationWrapper[Any, Any, Any]):
    """Walk whose observation is one Box."""

    def __init__(self) -> None:
        super().__init__(Walk())
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def observation(self, observation: Any) -> Any:  # noqa: ANN401
        return observation["where"]["at"].copy()


class TupleWalk(gym.ObservationWrapper[Any, Any, Any]):
    """Walk whose observation is a tuple of three dicts: as many as the tests have lanes."""

    def __init__(self) -> None:
        super().__init__(Walk())
        part = spaces.Dict({"at": spaces.Box(-np.inf, np.inf, (), np.float32)})
        self.observation_space = spaces.Tuple([part] * 3)

    def observation(self, observation: Any) -> Any:  # noqa: ANN401
        x, y = observation["where"]["at"]
        return tuple({"at": np.array(value)} for value in (x, y, x + y))


def at_walk(obs: Any) -> Any:  # noqa: ANN401
    """Choose an action from the observation alone, for one environment or many."""
    if isinstance(obs, tuple):
        obs = np.stack([obs[0]["at"], obs[1]["at"]], axis=-1)
    where = obs["where"]["at"] if isinstance(obs, dict) else obs
    actions = np.floor(where.sum(axis=-1) * 1000).astype(np.int64) % 3 - 1
    return actions if actions.ndim else int(actions)


Transition = tuple[Any, Any, float, bool, bool, Any]


def plain_loop(
    make: Callable[[], gym.Env[Any, Any]],
    policy: Callable[[Any], Any],
    seed: int,
    transitions: int,
) -> list[Transition]:
    """Step one environment as the first page of Gymnasium's documentation does."""
    env = make()
    done: list[Transition] = []
    obs, _ = env.reset(seed=seed)
    while len(done) < transitions:
        action = policy(obs)
        after, reward, terminated, truncated, _ = env.step(action)
        done.append((obs, action, float(reward), terminated, truncated, after))
        obs = env.reset()[0] if terminated or truncated else after
    return done
