"""DQN on CartPole in the shape of CleanRL's scripts, with a ring of Backcast.

python examples/cleanrl/dqn_ring.py [STEPS]
"""

from __future__ import annotations

import sys

import gymnasium as gym
import numpy as np
import torch
from backcast.cleanrl import ReplayBuffer
from gymnasium.vector import AutoresetMode

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
SEED, BATCH, START, GAMMA = 1, 128, 1_000, 0.99

torch.manual_seed(SEED)
draw = np.random.default_rng(SEED)
envs = gym.make_vec(
    "CartPole-v1",
    1,
    vectorization_mode="sync",
    wrappers=[gym.wrappers.RecordEpisodeStatistics],
    vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP},
)
obs_space, action_space = envs.single_observation_space, envs.single_action_space


def network() -> torch.nn.Sequential:
    """Make a network that values both actions."""
    layers = torch.nn.Linear(4, 120), torch.nn.ReLU(), torch.nn.Linear(120, 84), torch.nn.ReLU()
    return torch.nn.Sequential(*layers, torch.nn.Linear(84, 2))


q_network, target_network = network(), network()
target_network.load_state_dict(q_network.state_dict())
optimizer = torch.optim.Adam(q_network.parameters(), lr=2.5e-4)
rb = ReplayBuffer(10_000, obs_space, action_space, "cpu", env=envs)

returns: list[float] = []
obs, _ = envs.reset(seed=SEED)
for step in range(STEPS):
    epsilon = max(0.05, 1 - step / (STEPS / 2))
    if draw.random() < epsilon:
        actions = draw.integers(0, 2, envs.num_envs)
    else:
        with torch.no_grad():
            actions = q_network(torch.as_tensor(obs)).argmax(1).numpy()
    next_obs, rewards, terminations, truncations, infos = envs.step(actions)
    if "final_info" in infos:
        returns += [float(of) for of in infos["final_info"]["episode"]["r"]]

    rb.add(obs, next_obs, actions, rewards, terminations, infos)
    obs = next_obs

    if step > START and step % 10 == 0:
        data = rb.sample(BATCH)
        with torch.no_grad():
            best = target_network(data.next_observations).max(dim=1).values
            target = data.rewards.flatten() + GAMMA * best * (1 - data.dones.flatten())
        value = q_network(data.observations).gather(1, data.actions).squeeze()
        loss = torch.nn.functional.mse_loss(target, value)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if step % 500 == 0:
        target_network.load_state_dict(q_network.state_dict())

envs.close()
print(f"mean return of the last 20 episodes: {np.mean(returns[-20:]):.0f}")
