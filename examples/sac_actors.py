"""Two actors and a learner: soft actor-critic (https://arxiv.org/abs/1812.05905) on Pendulum.

Ends at a mean return of -200, after 2,000 to 6,000 updates, a minute or two. Gives up at 20,000.
"""

from __future__ import annotations

import os
import sys

import backcast as bc
import gymnasium as gym
import torch
from torch import Tensor, nn

ACTORS, BATCH, GAMMA, SOLVED, MOST_UPDATES, RATIO = 2, 128, 0.99, -200, 20_000, 64
COLUMNS = {"obs": ("f4", (3,)), "action": ("f4", (1,)), "reward": "f4", "params_version": "i8"}


def network(inputs: int, outputs: int) -> nn.Sequential:
    """Make a network of two hidden layers."""
    layers = nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU()
    return nn.Sequential(*layers, nn.Linear(64, outputs))


def chosen(policy: nn.Module, obs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return drawn actions in -1 to 1, the logarithm of their density, and mean actions."""
    mean, spread = policy(obs).chunk(2, dim=-1)
    drawn = (normal := torch.distributions.Normal(mean, spread.clamp(-5, 2).exp())).rsample()
    density = normal.log_prob(drawn) - torch.log(1 - drawn.tanh() ** 2 + 1e-6)
    return drawn.tanh(), density.sum(-1), mean.tanh()


class Learner:
    """Policy, two critics with target networks, temperature and the optimiser."""

    def __init__(self) -> None:
        torch.set_num_threads(1)
        self.policy, self.heat = network(3, 2), torch.zeros(1, requires_grad=True)
        self.critics, self.targets = (nn.ModuleList([network(4, 1), network(4, 1)]) for _ in (0, 1))
        self.targets.load_state_dict(self.critics.state_dict())
        self.groups = [*self.policy.parameters()], [*self.critics.parameters()], [self.heat]
        self.adam = torch.optim.Adam([weight for group in self.groups for weight in group], 1e-3)

    def values(self, nets: nn.ModuleList, obs: Tensor, action: Tensor) -> Tensor:
        """Return the values of all critics, `[2, B]`."""
        return torch.stack([net(torch.cat([obs, action], 1)).squeeze(1) for net in nets])

    def learn(self, batch: bc.Batch) -> None:
        """Take a gradient step of policy, critics and temperature; move the target networks."""
        names = "obs", "action", "reward", "next_obs", "terminated"
        obs, action, reward, after, ended = (torch.from_numpy(batch[name]) for name in names)
        heat = self.heat.detach().exp()
        with torch.no_grad():
            ahead, density, _ = chosen(self.policy, after)
            value = self.values(self.targets, after, ahead).min(0).values - heat * density
            goal = reward / 10 + GAMMA * value * ~ended.bool()
        error = ((self.values(self.critics, obs, action) - goal) ** 2).mean()
        drawn, density, _ = chosen(self.policy, obs)
        gain = (heat * density - self.values(self.critics, obs, drawn).min(0).values).mean()
        warmth = -(self.heat * (density.detach() - 1).mean())
        self.adam.zero_grad()
        for group, loss in zip(self.groups, (gain, error, warmth), strict=True):
            loss.backward(inputs=group)
        self.adam.step()
        for old, new in zip(self.targets.parameters(), self.critics.parameters(), strict=True):
            old.data.lerp_(new.data, 0.01)


def play(net: nn.Module, env: gym.Env, seed: int, writer: bc.Writer | None, version: int) -> float:
    """Return the return of an episode: of drawn actions into a ring, or of mean actions."""
    (obs, _), ended, total = env.reset(seed=seed), False, 0.0
    while not ended:
        action = chosen(net, torch.from_numpy(obs))[0 if writer else 2].detach().numpy()
        after, reward, terminated, truncated, _ = env.step(2 * action)
        if writer:
            step = {"obs": obs, "action": action, "reward": reward, "params_version": version}
            writer.append(**step, next_obs=after, terminated=terminated, truncated=truncated)
        obs, ended, total = after, terminated or truncated, total + float(reward)
    return total


def act(context: bc.fleet.Context, name: str) -> None:
    """Append episodes, each played with the newest weights."""
    env, policy = gym.make("Pendulum-v1"), network(3, 2)
    torch.manual_seed(context.seed)
    limits = bc.RateLimiter(RATIO)
    buf, params = bc.ReplayBuffer.attach(name, limiter=limits), bc.Params.attach(name)
    with params, buf, buf.writer() as writer:
        while not context.stopped:
            params.pull(out=policy.state_dict())
            total = play(policy, env, int(torch.randint(2**31, ())), writer, params.pulled)
            context.report(return_=total, length=200, version=params.pulled)


def main(seed: int) -> int:
    """Train until the policy solves the task or the updates run out; return the exit status."""
    torch.manual_seed(seed)
    learner, name, score, update = Learner(), f"sac-{os.getpid()}", -2_000.0, 0
    limits = bc.RateLimiter(RATIO, min_size=1_000)
    buf = bc.ReplayBuffer.create(name, COLUMNS, capacity=50_000, lanes=ACTORS, limiter=limits)
    weights = learner.policy.state_dict()  # shares the network's memory, so it changes with it
    with buf, bc.Params.create(name, weights) as params:
        params.publish(weights)
        with bc.Fleet(act, ACTORS, args=(name,), seed=seed, buffer=buf) as fleet:
            sampler, env = buf.sampler(seed=seed), gym.make("Pendulum-v1")
            while score < SOLVED and update < MOST_UPDATES:
                batch, update = sampler.sample(BATCH), update + 1
                learner.learn(batch)
                fleet.update(version=params.publish(weights) if update % 10 == 0 else None)
                if update % 1_000 == 0:
                    score = sum(play(learner.policy, env, i, None, 0) for i in range(10)) / 10
                    stale = params.version - float(batch["params_version"].mean())
                    print(f"{update} updates: return {score:.0f}, rows {stale:.0f} versions old")
            print(f"{fleet.stats()['samples_per_insert']:.1f} samples an insert")
    return 0 if score >= SOLVED else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1))
