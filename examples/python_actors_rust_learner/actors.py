"""Actors in Python and a learner in Rust: Q-learning in a corridor of 8 cells.

The learner is `learner.rs`. A step back leads to the first cell, and the last step forward has a
reward of 1. The learner ends when all values of forward steps are within 0.01 of the true ones: on
two cores within a few seconds, 100 to 1,000 updates. After 20,000 the status is 1.

    cargo build --example rust_q_learner
    python examples/python_actors_rust_learner/actors.py [target/debug/examples/rust_q_learner]
"""

from __future__ import annotations

import os
import subprocess
import sys

import backcast as bc
import numpy as np

ACTORS, CELLS = 2, 8
COLUMNS = {"obs": "i4", "action": "i4", "reward": "f4", "params_version": "i8"}


def act(context: bc.fleet.Context, name: str) -> None:
    """Append steps by the newest values; one step of five is drawn."""
    draw, values, cell, length = np.random.default_rng(context.seed), np.zeros((CELLS, 2)), 0, 0
    buf, params = bc.ReplayBuffer.attach(name), bc.Params.attach(name)
    with params, buf, buf.writer() as writer:
        while not context.stopped:
            params.pull(out={"q": values})
            back, forward = values[cell]
            random = back == forward or draw.random() < 0.2
            action = int(draw.integers(2) if random else forward > back)
            goal, length = action == 1 and cell == CELLS - 1, length + 1
            after = min(cell + 1, CELLS - 1) if action else 0
            step = {"obs": cell, "action": action, "reward": goal, "next_obs": after}
            step |= {"params_version": params.pulled, "terminated": goal, "truncated": False}
            writer.append(**step)
            cell = after
            if goal:
                context.report(1.0, length, params.pulled)
                cell = length = 0


def main(learner: str) -> int:
    """Run the actors for as long as the learner runs."""
    name = f"corridor-{os.getpid()}"
    limits = bc.RateLimiter(8, min_size=1_000)
    buf = bc.ReplayBuffer.create(name, COLUMNS, capacity=20_000, lanes=ACTORS, limiter=limits)
    params = bc.Params.create(name, {"q": np.zeros((CELLS, 2))})
    with buf, params, bc.Fleet(act, ACTORS, args=(name,), seed=7, buffer=buf):
        return subprocess.run([learner, name]).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "target/debug/examples/rust_q_learner"))
