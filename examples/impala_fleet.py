"""Four actors and a learner: IMPALA on CartPole, with V-trace over rows of older policies.

V-trace corrects for the age of the policy, and for several passes over a block, which Espeholt and
others (2018), https://arxiv.org/abs/1802.01561, do not make. Training ends at a mean return of 475.

    python examples/impala_fleet.py [SEED]
"""

from __future__ import annotations

import os
import sys

import backcast as bc
import gymnasium as gym
import numpy as np
import torch
from backcast.returns import vtrace
from torch import nn

ACTORS, LENGTH, PASSES, PARTS, SOLVED, MOST_BATCHES, RATE = 4, 128, 4, 4, 475, 200, 1e-3
ROW = {"obs": ("f4", (4,)), "action": "i8", "reward": "f4", "odds": "f4", "policy_version": "i8"}


def network(outputs: int) -> nn.Sequential:
    """Make a network of two hidden layers."""
    hidden = [nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh()]
    return nn.Sequential(*hidden, nn.Linear(64, outputs))


class Learner:
    """Policy network, value network and the optimiser."""

    def __init__(self) -> None:
        torch.set_num_threads(1)
        self.policy, self.value = network(2), network(1)
        self.adam = torch.optim.Adam([*self.policy.parameters(), *self.value.parameters()], RATE)

    def learn(self, block: bc.Batch, left: float) -> None:
        """Take the gradient steps of a block, at a rate in proportion to what is `left` to do."""
        self.adam.param_groups[0]["lr"] = RATE * left
        both, mask = torch.from_numpy(np.stack([block["obs"], block["next_obs"]])), block["mask"]
        action = torch.from_numpy(block["action"])[..., None]
        for _ in range(PASSES):
            with torch.no_grad():
                values, next_values = self.value(both).squeeze(-1).numpy()
                odds = self.policy(both[0]).softmax(-1).gather(-1, action).squeeze(-1).numpy()
            ratios = np.divide(odds, block["odds"], out=np.zeros_like(odds), where=mask)
            found = vtrace(block, values, next_values, ratios, gamma=0.99, lam=0.95)
            rows = [block["obs"], block["action"], found.targets, found.advantages / 10]
            columns = [torch.from_numpy(column[mask]) for column in rows]
            for part in torch.randperm(len(columns[0])).chunk(PARTS):
                obs, taken, goal, gain = (column[part] for column in columns)
                logs, error = self.policy(obs).log_softmax(1), self.value(obs).squeeze(1) - goal
                better = gain * logs.gather(1, taken[:, None]).squeeze(1)
                better = better - 0.01 * (logs.exp() * logs).sum(1)  # Reward entropy too.
                self.adam.zero_grad()
                (0.5 * error.pow(2) - better).mean().backward()
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
            (obs, _), ended = env.reset(seed=int(draw.integers(2**31))), False
            while not ended:
                params.pull(out=weights)
                odds = odds_of(policy, obs)
                action = int(draw.random() < odds[1])
                after, reward, terminated, truncated, _ = env.step(action)
                step = {"obs": obs, "action": action, "reward": reward, "odds": odds[action]}
                step |= {"next_obs": after, "policy_version": params.pulled}
                writer.append(**step, terminated=terminated, truncated=truncated)
                obs, ended = after, terminated or truncated


def main(seed: int) -> int:
    """Train until the policy solves the task or the batches run out; return the exit status."""
    torch.manual_seed(seed)
    learner, name, score, count = Learner(), f"impala-{os.getpid()}", 0.0, 0
    weights = learner.policy.state_dict()  # shares the network's memory, so it changes with it
    queue = bc.RateLimiter.queue(ACTORS * LENGTH)
    buf = bc.ReplayBuffer.create(name, ROW, capacity=16_384, lanes=ACTORS, limiter=queue)
    with buf, bc.Params.create(name, weights) as params:
        params.publish(weights)
        with bc.Fleet(act, ACTORS, args=(name,), seed=seed, buffer=buf) as fleet:
            sampler = buf.sampler(form=bc.Rollout(LENGTH, ACTORS), select=bc.Consume())
            while score < SOLVED and count < MOST_BATCHES:
                sampler.policy_version = params.version
                block, count = sampler.sample(None, at_most=ACTORS), count + 1
                learner.learn(block, 1 - (count - 1) / MOST_BATCHES)
                fleet.update(PASSES * PARTS, version=params.publish(weights))
                if count % 10 == 0:
                    score, age = test(learner.policy), block["policy_age"][block["mask"]].mean()
                    print(f"{count} blocks: return {score:.0f}, rows {age:.1f} versions old")
    return 0 if score >= SOLVED else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1))
