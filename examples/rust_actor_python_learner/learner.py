"""Actors in Rust and a learner in Python: Q-learning in a corridor of 8 cells.

The actors are `actor.rs`, run as a command by the fleet. A step back leads to the first cell, and
the last step forward has a reward of 1. It ends when all values of forward steps are within 0.01
of the true ones: on two cores within a few seconds, 100 to 1,000 updates. After 20,000 it gives
up, with status 1.

    cargo build --example rust_actor
    python examples/rust_actor_python_learner/learner.py [target/debug/examples/rust_actor]
"""

from __future__ import annotations

import os
import sys

import backcast as bc
import numpy as np

ACTORS, BATCH, CELLS, GAMMA, CLOSE, MOST_UPDATES = 2, 64, 8, 0.9, 0.01, 20_000
COLUMNS = {"obs": "i4", "action": "i4", "reward": "f4", "params_version": "i8"}
TRUTH = GAMMA ** np.arange(CELLS - 1, -1, -1)


def learn(values: np.ndarray, batch: bc.Batch) -> None:
    """Apply one Q-learning update for each transition."""
    ahead = values[batch["next_obs"]].max(1) * ~batch["terminated"].astype(bool)
    at = batch["obs"], batch["action"]
    error = batch["reward"] + GAMMA * ahead - values[at]
    np.add.at(values, at, 0.05 * error)


def main(actor: str) -> int:
    """Learn until the values are close to the true ones."""
    name, update, error, values = f"corridor-{os.getpid()}", 0, 1.0, np.zeros((CELLS, 2))
    limits = bc.RateLimiter(8, min_size=1_000)
    buf = bc.ReplayBuffer.create(name, COLUMNS, capacity=20_000, lanes=ACTORS, limiter=limits)
    with buf, bc.Params.create(name, {"q": values}) as params:
        params.publish({"q": values})
        with bc.Fleet([actor, name], ACTORS, seed=7, buffer=buf) as fleet:
            sampler = buf.sampler(seed=7)
            while error > CLOSE and update < MOST_UPDATES:
                batch, update = sampler.sample(BATCH), update + 1
                learn(values, batch)
                fleet.update(version=params.publish({"q": values}))
                error = float(np.abs(values[:, 1] - TRUTH).max())
                if update % 20 == 0 or error <= CLOSE:
                    age = params.version - batch["params_version"].mean()
                    print(f"{update} updates: error {error:.3f}, rows {age:.0f} versions old")
    return 0 if error <= CLOSE else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "target/debug/examples/rust_actor"))
