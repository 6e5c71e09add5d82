"""Score of PPO and IMPALA with four actors on CartPole, beside PPO in one process.

python -m loop.on_policy_seeds ppo 1 2 3 4 5
python -m loop.on_policy_seeds impala 1 2 3 4 5
python -m loop.on_policy_seeds single 1 2 3 4 5

Needs torch and Gymnasium. The first two run ``examples/ppo_fleet.py`` and
``examples/impala_fleet.py``. The third is PPO with the settings of CleanRL's ``ppo.py``: four
environments in turn, rollouts of 128 steps, two hidden layers of 64, a rate of 2.5e-4 that falls to
0 over the run, four epochs of four minibatches. All have 102,400 steps, test the greedy policy
every 5,120 steps in 20 episodes, and stop at a mean return of 475. A result is a line of JSON.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
import time
from pathlib import Path

import gymnasium as gym
import numpy as np
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "examples"))

import impala_fleet
import ppo_fleet

STEPS, BETWEEN_TESTS, SOLVED = 102_400, 5_120, 475
ENVS, LENGTH, EPOCHS, PARTS = 4, 128, 4, 4
RATE, GAMMA, LAMBDA, CLIP, ENTROPY, LARGEST_NORM = 2.5e-4, 0.99, 0.95, 0.2, 0.01, 0.5


def network(outputs: int, scale: float) -> nn.Sequential:
    """Make a network with orthogonal weights, those of the last layer times `scale`."""
    sizes = [(4, 64, 2**0.5), (64, 64, 2**0.5), (64, outputs, scale)]
    layers: list[nn.Module] = []
    for inputs, width, gain in sizes:
        layer = nn.Linear(inputs, width)
        nn.init.orthogonal_(layer.weight, gain)
        nn.init.zeros_(layer.bias)
        layers += [layer, nn.Tanh()]
    return nn.Sequential(*layers[:-1])


class Single:
    """PPO in one process."""

    def __init__(self, seed: int) -> None:
        torch.manual_seed(seed)
        torch.set_num_threads(1)
        self.policy, self.value = network(2, 0.01), network(1, 1.0)
        self.weights = [*self.policy.parameters(), *self.value.parameters()]
        self.adam = torch.optim.Adam(self.weights, RATE, eps=1e-5)
        makers = [lambda: gym.make("CartPole-v1") for _ in range(ENVS)]
        mode = gym.vector.AutoresetMode.SAME_STEP
        self.envs = gym.vector.SyncVectorEnv(makers, autoreset_mode=mode)
        self.obs, _ = self.envs.reset(seed=seed)

    def rollout(self) -> list[torch.Tensor]:
        """Play; return observations, actions, their log-probabilities, advantages and values."""
        found: list[tuple[np.ndarray, ...]] = []
        for _ in range(LENGTH):
            with torch.no_grad():
                obs = torch.from_numpy(self.obs)
                logs, value = self.policy(obs).log_softmax(1), self.value(obs).squeeze(1)
                action = torch.multinomial(logs.exp(), 1)
            after, reward, terminated, truncated, _ = self.envs.step(action.squeeze(1).numpy())
            log = logs.gather(1, action).squeeze(1).numpy()
            ended = terminated | truncated
            found.append((self.obs, action.squeeze(1).numpy(), log, value.numpy(), reward, ended))
            self.obs = after
        obs, action, log, value, reward, ended = (
            np.stack(part) for part in zip(*found, strict=True)
        )
        with torch.no_grad():
            following = self.value(torch.from_numpy(self.obs)).squeeze(1).numpy()
        advantage, last = np.zeros_like(value), np.zeros(ENVS)
        for t in reversed(range(LENGTH)):
            error = reward[t] + GAMMA * following * ~ended[t] - value[t]
            last = error + GAMMA * LAMBDA * ~ended[t] * last
            advantage[t], following = last, value[t]
        columns = obs, action, log, advantage, value
        return [torch.from_numpy(column).flatten(0, 1) for column in columns]

    def learn(self, columns: list[torch.Tensor]) -> None:
        """Take the gradient steps of a rollout."""
        for part in [p for _ in range(EPOCHS) for p in torch.randperm(ENVS * LENGTH).chunk(PARTS)]:
            obs, action, log, gain, old = (column[part] for column in columns)
            logs, value = self.policy(obs).log_softmax(1), self.value(obs).squeeze(1)
            ratio = (logs.gather(1, action[:, None]).squeeze(1) - log).exp()
            goal = gain + old
            gain = (gain - gain.mean()) / (gain.std() + 1e-8)
            better = torch.minimum(ratio * gain, ratio.clamp(1 - CLIP, 1 + CLIP) * gain)
            near = old + (value - old).clamp(-CLIP, CLIP)
            error = torch.maximum((value - goal).pow(2), (near - goal).pow(2))
            entropy = -(logs.exp() * logs).sum(1)
            self.adam.zero_grad()
            (0.25 * error - better - ENTROPY * entropy).mean().backward()
            nn.utils.clip_grad_norm_(self.weights, LARGEST_NORM)
            self.adam.step()


def single(seed: int) -> tuple[int, float]:
    """Train in one process; return steps and score."""
    ppo, score, steps = Single(seed), 0.0, 0
    while steps < STEPS and score < SOLVED:
        ppo.adam.param_groups[0]["lr"] = RATE * (1 - steps / STEPS)
        ppo.learn(ppo.rollout())
        steps += ENVS * LENGTH
        if steps % BETWEEN_TESTS == 0:
            score = ppo_fleet.test(ppo.policy)
    return steps, score


def fleet(way: str, seed: int) -> tuple[int, float]:
    """Run an example; return steps and score."""
    example = {"ppo": ppo_fleet, "impala": impala_fleet}[way]
    block = example.ACTORS * example.LENGTH
    assert example.SOLVED == SOLVED
    assert example.MOST_BATCHES * block == STEPS
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        example.main(seed)
    count, score = re.findall(r"^(\d+) blocks: return (\d+)", said.getvalue(), re.MULTILINE)[-1]
    return int(count) * block, float(score)


def main(way: str, seeds: list[int]) -> None:
    """Run the seeds of one way."""
    for seed in seeds:
        start = time.perf_counter()
        steps, score = single(seed) if way == "single" else fleet(way, seed)
        line = {"way": way, "seed": seed, "steps": steps, "score": score}
        line |= {"seconds": round(time.perf_counter() - start), "load": os.getloadavg()[0]}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], [int(seed) for seed in sys.argv[2:]] or [1, 2, 3, 4, 5])
