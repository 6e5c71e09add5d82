"""Four actors and a learner: DQN on CartPole.

Actors append transitions to a ring and pull weights; the learner draws batches and publishes
weights. The ring's limiter keeps 32 draws for each transition. The program ends when the greedy
policy reaches a mean return of 475 in 20 episodes, the limit at which CartPole-v1 counts as solved,
or with status 1 after 40,000 updates.

    python examples/dqn_actors.py [SEED]

Deep Q-networks: Mnih and others (2015), https://doi.org/10.1038/nature14236, with the double
estimate of van Hasselt and others (2016), https://arxiv.org/abs/1509.06461.
"""

from __future__ import annotations

import os
import sys

import backcast as bc
import gymnasium as gym
import numpy as np
import torch

ACTORS, BATCH, GAMMA, SOLVED, MOST_UPDATES = 4, 128, 0.99, 475, 40_000
COLUMNS = {"obs": ("f4", (4,)), "action": "i8", "reward": "f4", "policy_version": "i8"}


def make_env() -> gym.Env:
    """Make the environment."""
    return gym.make("CartPole-v1")


def network() -> torch.nn.Sequential:
    """Make a network that values both actions."""
    layers = torch.nn.Linear(4, 128), torch.nn.ReLU(), torch.nn.Linear(128, 128), torch.nn.ReLU()
    return torch.nn.Sequential(*layers, torch.nn.Linear(128, 2))


def loss_of(net: torch.nn.Module, target: torch.nn.Module, batch: bc.Batch) -> torch.Tensor:
    """Return the error of the values of a batch's actions."""
    names = ("obs", "action", "reward", "next_obs", "terminated")
    obs, action, reward, next_obs, ended = (torch.from_numpy(batch[name]) for name in names)
    with torch.no_grad():
        best = net(next_obs).argmax(1, keepdim=True)
        ahead = target(next_obs).gather(1, best).squeeze(1)
        goal = reward + GAMMA * ahead * ~ended.bool()
    return torch.nn.functional.smooth_l1_loss(net(obs).gather(1, action[:, None]).squeeze(1), goal)


def greedy(net: torch.nn.Module, obs: np.ndarray) -> int:
    """Return the action of the highest value."""
    with torch.no_grad():
        return int(net(torch.from_numpy(obs)).argmax())


def test(net: torch.nn.Module, episodes: int = 20) -> float:
    """Return the mean return of the greedy policy."""
    env, total = make_env(), 0.0
    for episode in range(episodes):
        (obs, _), ended = env.reset(seed=10_000 + episode), False
        while not ended:
            obs, reward, terminated, truncated, _ = env.step(greedy(net, obs))
            total, ended = total + float(reward), terminated or truncated
    return total / episodes


def act(context: bc.fleet.Context, name: str) -> None:
    """Append episodes, each with the newest weights."""
    env, net, draw = make_env(), network(), np.random.default_rng(context.seed)
    epsilon = 0.4 ** (1 + 3 * context.rank / context.n)
    buf, params = bc.ReplayBuffer.attach(name, samples_per_insert=32), bc.Params.attach(name)
    with params, buf, buf.writer() as writer:
        while not context.stopped:
            params.pull(out=net.state_dict())
            (obs, _), ended, length, total = env.reset(seed=int(draw.integers(2**31))), False, 0, 0.0
            while not ended:
                action = draw.integers(2) if draw.random() < epsilon else greedy(net, obs)
                after, reward, terminated, truncated, _ = env.step(action)
                step = {"obs": obs, "action": action, "reward": reward, "next_obs": after}
                step["policy_version"] = params.pulled
                writer.append(**step, terminated=terminated, truncated=truncated)
                obs, ended, length = after, terminated or truncated, length + 1
                total += float(reward)
            context.report(return_=total, length=length, version=params.pulled)


def main(seed: int) -> int:
    """Learn until the policy is good."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    net, target, name = network(), network(), f"dqn-{os.getpid()}"
    target.load_state_dict(net.state_dict())
    adam, score, update = torch.optim.Adam(net.parameters(), lr=5e-4), 0.0, 0
    size = {"capacity": 50_000, "lanes": ACTORS, "min_size": 1_000}
    buf = bc.ReplayBuffer.create(name, COLUMNS, **size, samples_per_insert=32, error_buffer=2_048)
    with buf, bc.Params.create(name, net.state_dict()) as params:
        params.publish(net.state_dict())
        with bc.Fleet(act, ACTORS, args=(name,), seed=seed, buffer=buf) as fleet:
            sampler = buf.sampler(seed=seed)
            while score < SOLVED and update < MOST_UPDATES:
                batch, update = sampler.sample(BATCH), update + 1
                adam.zero_grad()
                loss_of(net, target, batch).backward()
                adam.step()
                for old, new in zip(target.parameters(), net.parameters(), strict=True):
                    old.data.lerp_(new.data, 0.005)
                version = params.publish(net.state_dict()) if update % 10 == 0 else None
                fleet.update(version=version)
                if update % 1_000 == 0:
                    score = test(net)
                    stale = params.version - float(batch["policy_version"].mean())
                    print(f"{update} updates: return {score:.0f}, rows {stale:.0f} versions old")
            seen = fleet.stats()
    ratio, age = seen["samples_per_insert"], seen["policy_age_versions"]
    print(f"{ratio:.1f} samples an insert, policy {age:.1f} versions old, {seen['restarts']} restarts")
    return 0 if score >= SOLVED else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1))
