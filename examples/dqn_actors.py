"""Four actors and a learner: DQN on CartPole.

The learner draws 32 items for each transition. Training ends at a mean return of 475 in 20 episodes
of the greedy policy, on two cores after a minute or two, or with status 1 after 40,000 updates.
Double deep Q-networks: van Hasselt and others (2016), https://arxiv.org/abs/1509.06461.

    python examples/dqn_actors.py [SEED]
"""

from __future__ import annotations

import os
import sys

import backcast as bc
import gymnasium as gym
import numpy as np
import torch

ACTORS, BATCH, GAMMA, SOLVED, MOST_UPDATES = 4, 128, 0.99, 475, 40_000
COLUMNS = {"obs": ("f4", (4,)), "action": "i8", "reward": "f4", "params_version": "i8"}


def make_env() -> gym.Env:
    """Make the environment, whose infos have the return and length of an ended episode."""
    return gym.wrappers.RecordEpisodeStatistics(gym.make("CartPole-v1"))


def network() -> torch.nn.Sequential:
    """Make a network that returns the values of both actions."""
    layers = torch.nn.Linear(4, 128), torch.nn.ReLU(), torch.nn.Linear(128, 128), torch.nn.ReLU()
    return torch.nn.Sequential(*layers, torch.nn.Linear(128, 2))


class Learner:
    """A Q-network, its target network, and the optimiser."""

    def __init__(self, seed: int) -> None:
        torch.set_num_threads(1)
        torch.manual_seed(seed)
        self.net, self.target = network(), network()
        self.target.load_state_dict(self.net.state_dict())
        self.adam = torch.optim.Adam(self.net.parameters(), lr=5e-4)

    def learn(self, batch: bc.Batch) -> None:
        """Take a gradient step towards the double-DQN targets; move the target network."""
        names = ("obs", "action", "reward", "next_obs", "terminated")
        obs, action, reward, next_obs, ended = (torch.from_numpy(batch[name]) for name in names)
        with torch.no_grad():
            ahead = self.target(next_obs).gather(1, self.net(next_obs).argmax(1, True)).squeeze(1)
            goal = reward + GAMMA * ahead * ~ended.bool()
        value = self.net(obs).gather(1, action[:, None]).squeeze(1)
        self.adam.zero_grad()
        torch.nn.functional.smooth_l1_loss(value, goal).backward()
        self.adam.step()
        for old, new in zip(self.target.parameters(), self.net.parameters(), strict=True):
            old.data.lerp_(new.data, 0.005)


def greedy(net: torch.nn.Module, obs: np.ndarray) -> int:
    """Return the action of the highest value."""
    return int(net(torch.from_numpy(obs)).argmax())


def test(net: torch.nn.Module) -> float:
    """Return the mean return of the greedy policy over 20 episodes."""
    env, total = make_env(), 0.0
    for seed in range(20):
        (obs, _), ended = env.reset(seed=10_000 + seed), False
        while not ended:
            obs, reward, terminated, truncated, _ = env.step(greedy(net, obs))
            total, ended = total + float(reward), terminated or truncated
    return total / 20


def act(context: bc.fleet.Context, name: str) -> None:
    """Append episodes, each played with the newest weights."""
    env, net, draw = make_env(), network(), np.random.default_rng(context.seed)
    epsilon = 0.4 ** (1 + 3 * context.rank / context.n)
    buf, params = bc.ReplayBuffer.attach(name), bc.Params.attach(name)
    with params, buf, buf.writer() as writer:
        while not context.stopped:
            params.pull(out=net.state_dict())
            (obs, _), ended = env.reset(seed=int(draw.integers(2**31))), False
            while not ended:
                action = draw.integers(2) if draw.random() < epsilon else greedy(net, obs)
                after, reward, terminated, truncated, info = env.step(action)
                step = {"obs": obs, "action": action, "reward": reward, "next_obs": after}
                ends = {"terminated": terminated, "truncated": truncated}
                writer.append(**step, **ends, params_version=params.pulled)
                obs, ended = after, terminated or truncated
            context.report(info["episode"]["r"], info["episode"]["l"], params.pulled)


def main(seed: int) -> int:
    """Train until the policy solves the task or the updates run out; return the exit status."""
    learner, name, score, update = Learner(seed), f"dqn-{os.getpid()}", 0.0, 0
    limit = bc.RateLimiter(32, min_size=1_000)
    weights = learner.net.state_dict()  # shares the network's memory, so it changes with it
    buf = bc.ReplayBuffer.create(name, COLUMNS, capacity=50_000, lanes=ACTORS, limiter=limit)
    params = bc.Params.create(name, weights)
    with buf, params:
        params.publish(weights)
        with bc.Fleet(act, ACTORS, args=(name,), seed=seed, buffer=buf) as fleet:
            sampler = buf.sampler(seed=seed)
            while score < SOLVED and update < MOST_UPDATES:
                batch, update = sampler.sample(BATCH), update + 1
                learner.learn(batch)
                fleet.update(version=params.publish(weights) if update % 10 == 0 else None)
                if update % 1_000 == 0:
                    score, age = test(learner.net), params.version - batch["params_version"].mean()
                    print(f"{update}: return {score:.0f}, rows {age:.0f} versions old")
            seen = fleet.stats()
        buf.unlink()
    print(f"{seen['samples_per_insert']:.1f} samples an insert, {seen['restarts']} restarts")
    return 0 if score >= SOLVED else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1))
