"""An actor or the learner of `compose.yaml`: Q-learning on CartPole in separate processes.

The learner is linear in random Fourier features, so NumPy is enough. Each process may start first,
and any may be killed and started again.

    python cartpole.py actor | learner [--updates N]
"""

from __future__ import annotations

import argparse
import os

import backcast as bc
import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

NAME, FEATURES, GAMMA, BATCH = "cartpole", 512, 0.99, 256
COLUMNS = {"obs": ("f4", (4,)), "action": "i8", "reward": "f4"}
# Velocities are larger than positions and angles; frequencies of one seed are the same everywhere.
_DRAW = np.random.default_rng(1)
FREQUENCIES = _DRAW.normal(size=(4, FEATURES)) * np.array([[0.5], [0.5], [5], [0.5]])
PHASES = _DRAW.uniform(0, 2 * np.pi, FEATURES)


def features(obs: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return the cosines that the values are linear in (Rahimi and Recht, 2007)."""
    seen: NDArray[np.floating] = np.cos(obs @ FREQUENCIES + PHASES) * np.sqrt(2 / FEATURES)
    return seen


def connect() -> tuple[bc.ReplayBuffer, bc.Params]:
    """Create the ring and the weights, or attach to those of another process."""
    limit = bc.RateLimiter(32, min_size=1_000)
    daemon = bc.Client.connect()
    ring = bc.ReplayBuffer.create(
        NAME, COLUMNS, capacity=50_000, lanes=8, exist="attach", limiter=limit, daemon=daemon
    )
    weights = {"q": np.zeros((FEATURES, 2))}
    return ring, bc.Params.create(NAME, weights, exist="attach", persistent=True)


def act(ring: bc.ReplayBuffer, params: bc.Params) -> None:
    """Append episodes, each played with the newest weights and one random action in ten."""
    env, draw = gym.make("CartPole-v1"), np.random.default_rng()
    with ring.writer() as writer:
        while True:
            params.pull()
            (obs, _), ended = env.reset(seed=int(draw.integers(2**31))), False
            while not ended:
                values = features(obs) @ params.arrays["q"]
                action = int(draw.integers(2) if draw.random() < 0.1 else values.argmax())
                after, reward, terminated, truncated, _ = env.step(action)
                step = {"obs": obs, "action": action, "reward": reward, "next_obs": after}
                writer.append(**step, terminated=terminated, truncated=truncated)
                obs, ended = after, terminated or truncated


def learn(ring: bc.ReplayBuffer, params: bc.Params, updates: int) -> None:
    """Step towards the Q-learning targets and publish; print the length of episodes."""
    q = params.latest()["q"].copy() if params.version else np.zeros((FEATURES, 2))
    target, rows = q.copy(), np.arange(BATCH)
    for update, batch in enumerate(ring.sampler().batches(BATCH)):
        if update == updates:
            break
        ahead = (features(batch["next_obs"]) @ target).max(1) * ~batch["terminated"].astype(bool)
        seen = features(batch["obs"])
        error = batch["reward"] + GAMMA * ahead - (seen @ q)[rows, batch["action"]]
        np.add.at(q.T, batch["action"], 0.5 * error[:, None] * seen / BATCH * 2)
        target += 0.01 * (q - target)
        if update % 10 == 0:
            params.publish({"q": q})
        if update % 1_000 == 0:
            ends = max(1e-9, float(batch["terminated"].mean()))
            print(f"update {update}: about {1 / ends:.0f} steps an episode", flush=True)


def main() -> None:
    """Run what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("role", choices=("actor", "learner"))
    parser.add_argument("--updates", type=int, default=100_000, help="updates of the learner")
    given = parser.parse_args()
    ring, params = connect()
    with ring, params:
        print(f"{given.role} {os.getpid()}", flush=True)
        act(ring, params) if given.role == "actor" else learn(ring, params, given.updates)


if __name__ == "__main__":
    main()
