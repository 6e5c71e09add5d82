"""Two actors and a learner: recurrent Q-learning, as in R2D2, in a T-maze that needs memory.

The first observation tells the side of the goal; the corridor looks the same everywhere. Training
ends when the greedy policy finds the goal in 95 of 100 mazes: within two minutes on two cores,
1,500 to 3,500 updates; at 10,000 with status 1. A policy without memory finds half of the goals.
Kapturowski and others (2019, https://openreview.net/forum?id=r1lyTjAqYX) add a target network.

    python examples/r2d2_actors.py [SEED]
"""

from __future__ import annotations

import os
import sys
from typing import Any

import backcast as bc
import numpy as np
import torch
from torch.nn import ModuleDict as Net

ACTORS, BATCH, BURN_IN, LENGTH, CORRIDOR, SOLVED, MOST_UPDATES = 2, 64, 4, 16, 8, 95, 10_000
COLUMNS = {"obs": ("f4", (4,)), "action": "i8", "reward": "f4", "memory": ("f4", (32,))}
WINDOWS: dict[str, Any] = {"memory": "first", "*": LENGTH}
BY_TD = bc.Priority(alpha=0.9, beta=0.6)


class Maze:
    """A corridor and a fork, where a turn ends the episode. Actions: forward, left and right."""

    def __init__(self, draw: np.random.Generator) -> None:
        self.place, self.steps, self.side, self.ended = 0, 0, int(draw.integers(2)), False

    def obs(self) -> np.ndarray:
        """Return the side of the goal at the first step, whether this is the fork, and a 1."""
        first, left = self.steps == 0, self.side == 0
        return np.array([first and left, first and not left, self.place == CORRIDOR, 1], "f4")

    def step(self, action: int) -> dict[str, Any]:
        """Take a step; return its reward, next observation and end flags."""
        turned, self.steps = self.place == CORRIDOR and action > 0, self.steps + 1
        self.place = min(CORRIDOR, self.place + (action == 0))
        reward = (1.0 if action - 1 == self.side else -1.0) if turned else -0.02
        self.ended = turned or self.steps == 30
        ends = {"terminated": turned, "truncated": self.ended and not turned}
        return {"reward": reward, "next_obs": self.obs(), **ends}


def unroll(net: Net, batch: bc.Batch) -> torch.Tensor:
    """Return the values after the burn-in, `[B, 1 + LENGTH - BURN_IN, 3]`."""
    rows, values = np.concatenate([batch["obs"], batch["next_obs"][:, -1:]], 1), []
    obs, there, inner = (torch.tensor(part) for part in (rows, batch["mask"], batch["memory"]))
    for t in range(LENGTH + 1):
        inner = inner.detach() if t == BURN_IN else inner
        inner = torch.where(there[:, min(t, LENGTH - 1), None], net.cell(obs[:, t], inner), inner)
        values.append(net.head(inner))
    return torch.stack(values[BURN_IN:], 1)


def learn(net: Net, adam: torch.optim.Adam, batch: bc.Batch, sampler: bc.Sampler) -> None:
    """Take a gradient step on the transitions after the burn-in; set the windows' priorities."""
    names, values = ("action", "reward", "terminated", "mask"), unroll(net, batch)
    action, reward, ended, mask = (torch.tensor(batch[name][:, BURN_IN:]) for name in names)
    goal = reward + 0.97 * values[:, 1:].detach().max(2).values * ~ended.bool()
    error = values[:, :-1].gather(2, action[..., None]).squeeze(2) - goal
    adam.zero_grad()
    (torch.tensor(batch["weight"])[:, None] * mask * error**2).mean().backward()
    adam.step()
    sampler.update_priorities(batch.index, error.detach().abs(), mask=mask, eta=0.9)


def episode(net: Net, seed: int, epsilon: float = 0.0) -> list[dict[str, Any]]:
    """Run an episode; return its steps, each with the recurrent state before it."""
    maze, memory, steps = Maze(draw := np.random.default_rng(seed)), torch.zeros(1, 32), []
    while not maze.ended:
        obs, before = maze.obs(), memory[0].numpy()
        memory = net.cell(torch.from_numpy(obs)[None], memory).detach()
        action = int(draw.integers(3) if draw.random() < epsilon else net.head(memory).argmax())
        steps.append({"obs": obs, "memory": before, "action": action} | maze.step(action))
    return steps


def act(context: bc.fleet.Context, name: str, net: Net) -> None:
    """Append episodes, each played with the newest weights."""
    draw = np.random.default_rng(context.seed)
    buf, params = bc.ReplayBuffer.attach(name, limiter=bc.RateLimiter(8)), bc.Params.attach(name)
    with params, buf, buf.writer() as writer:
        while not context.stopped:
            params.pull(out=net.state_dict())
            steps = episode(net, int(draw.integers(2**31)), epsilon=0.3)
            for step in steps:
                writer.append(**step, params_version=params.pulled)
            context.report(steps[-1]["reward"], len(steps), params.pulled)


def main(seed: int) -> int:
    """Train until the policy solves the task or the updates run out; return the exit status."""
    torch.manual_seed(seed)
    net = Net({"cell": torch.nn.GRUCell(4, 32), "head": torch.nn.Linear(32, 3)})
    name, score, update = f"r2d2-{os.getpid()}", 0, 0
    adam, weights = torch.optim.Adam(net.parameters(), 2e-3), net.state_dict()
    how: dict[str, Any] = {"lanes": ACTORS, "limiter": bc.RateLimiter(8, min_size=1_000)}
    buf = bc.ReplayBuffer.create(name, COLUMNS | {"params_version": "i8"}, capacity=20_000, **how)
    with buf, bc.Params.create(name, weights) as params:
        params.publish(weights)
        with bc.Fleet(act, ACTORS, args=(name, net), seed=seed, buffer=buf) as fleet:
            sampler = buf.sampler(seed=seed, history=WINDOWS, select=BY_TD)
            while score < SOLVED and update < MOST_UPDATES:
                batch, update = sampler.sample(BATCH), update + 1
                learn(net, adam, batch, sampler)
                fleet.update(version=params.publish(weights) if update % 10 == 0 else None)
                if update % 250 == 0:
                    score = sum(episode(net, test)[-1]["reward"] > 0 for test in range(100))
                    age = params.version - batch["params_version"][:, -1].mean()
                    print(f"{update} updates: {score} of 100, rows {age:.0f} versions old")
    return 0 if score >= SOLVED else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1))
