"""Four actors and a learner: PPO on CartPole, each row drawn once.

The ring is a queue: actors wait when they are a block ahead, so rows are a version or two old.
Training ends when the greedy policy has a mean return of 475 in 20 episodes: on two cores within a
minute, 10 to 25 blocks. After 100 blocks it stops with status 1. PPO without an entropy bonus:
Schulman and others (2017), https://arxiv.org/abs/1707.06347.

    python examples/ppo_fleet.py [SEED]
"""

from __future__ import annotations

import os
import sys

import backcast as bc
import gymnasium as gym
import numpy as np
import torch
from backcast.returns import gae
from torch import nn

ACTORS, LENGTH, EPOCHS, PARTS, SOLVED, MOST_BATCHES = 4, 256, 6, 8, 475, 100
ROW = {"obs": ("f4", (4,)), "action": "i8", "reward": "f4", "odds": "f4", "policy_version": "i8"}


def network(outputs: int) -> nn.Sequential:
    """Make a network of one hidden layer."""
    return nn.Sequential(nn.Linear(4, 128), nn.Tanh(), nn.Linear(128, outputs))


class Learner:
    """Policy network, value network and the optimiser."""

    def __init__(self) -> None:
        torch.set_num_threads(1)
        self.policy, self.value = network(2), network(1)
        self.adam = torch.optim.Adam([*self.policy.parameters(), *self.value.parameters()], 1e-3)

    def learn(self, block: bc.Batch) -> None:
        """Take the gradient steps of a block: several epochs of minibatches."""
        both = torch.from_numpy(np.stack([block["obs"], block["next_obs"]]))
        values = self.value(both).squeeze(-1).detach().numpy()
        found = [*gae(block, *values, gamma=0.99, lam=0.95), block["obs"], block["action"]]
        columns = (torch.from_numpy(array[block.mask]) for array in [*found, block["odds"]])
        gain, goal, obs, action, odds = columns
        gain = (gain - gain.mean()) / (gain.std() + 1e-8)
        parts = [part for _ in range(EPOCHS) for part in torch.randperm(len(obs)).chunk(PARTS)]
        for part in parts:
            logs = self.policy(obs[part]).log_softmax(1)
            ratio = logs.gather(1, action[part, None]).squeeze(1).exp() / odds[part]
            clipped = torch.minimum(ratio * gain[part], ratio.clamp(0.8, 1.2) * gain[part])
            error = (self.value(obs[part]).squeeze(1) - goal[part]).pow(2)
            self.adam.zero_grad()
            (0.5 * error - clipped).mean().backward()
            self.adam.step()


def odds_of(policy: nn.Module, obs: np.ndarray) -> torch.Tensor:
    """Return the probabilities of both actions."""
    return policy(torch.from_numpy(obs)).softmax(0).detach()


def test(policy: nn.Module) -> float:
    """Return the mean return of the greedy policy over 20 episodes; every step is rewarded 1."""
    env, steps = gym.make("CartPole-v1"), 0
    for seed in range(20):
        (obs, _), ended = env.reset(seed=10_000 + seed), False
        while not ended:
            obs, _, terminated, truncated, _ = env.step(int(odds_of(policy, obs).argmax()))
            steps, ended = steps + 1, terminated or truncated
    return steps / 20


def act(context: bc.fleet.Context, name: str) -> None:
    """Append episodes, each step chosen with the newest weights."""
    env, policy, draw = gym.make("CartPole-v1"), network(2), np.random.default_rng(context.seed)
    weights = policy.state_dict()
    buf, params = bc.ReplayBuffer.attach(name), bc.Params.attach(name)
    with params, buf, buf.writer() as writer:
        while not context.stopped:
            (obs, _), ended, length = env.reset(seed=int(draw.integers(2**31))), False, 0
            while not ended:
                params.pull(out=weights)
                odds = odds_of(policy, obs)
                action = int(draw.random() < odds[1])
                after, reward, terminated, truncated, _ = env.step(action)
                step = {"obs": obs, "action": action, "reward": reward, "odds": odds[action]}
                step |= {"next_obs": after, "policy_version": params.pulled}
                writer.append(**step, terminated=terminated, truncated=truncated)
                obs, ended, length = after, terminated or truncated, length + 1
            context.report(return_=length, length=length, version=params.pulled)


def main(seed: int) -> int:
    """Train until the policy solves the task or the batches run out; return the exit status."""
    torch.manual_seed(seed)
    learner, name, score, count = Learner(), f"ppo-{os.getpid()}", 0.0, 0
    weights = learner.policy.state_dict()  # shares the network's memory, so it changes with it
    queue = bc.RateLimiter.queue(ACTORS * LENGTH)
    buf = bc.ReplayBuffer.create(name, ROW, capacity=16_384, lanes=ACTORS, limiter=queue)
    with buf, bc.Params.create(name, weights) as params:
        params.publish(weights)
        with bc.Fleet(act, ACTORS, args=(name,), seed=seed, buffer=buf) as fleet:
            sampler = buf.sampler(form=bc.Rollout(LENGTH, ACTORS), select=bc.Consume())
            while score < SOLVED and count < MOST_BATCHES:
                sampler.policy_version = params.version
                block, count = sampler.sample(None), count + 1
                age = block["policy_age"][block["mask"]].mean()
                learner.learn(block)
                fleet.update(EPOCHS * PARTS, version=params.publish(weights))
                if count % 5 == 0:
                    score = test(learner.policy)
                    print(f"{count} blocks: return {score:.0f}, rows {age:.1f} versions old")
            print(f"{fleet.stats()['samples_per_insert']:.2f} samples an insert")
    return 0 if score >= SOLVED else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1))
