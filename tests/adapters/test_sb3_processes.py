"""A learner of Stable-Baselines3, and an actor process of its ring, killed and started again."""

from __future__ import annotations

import os
import select
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import backcast as bc
import gymnasium as gym
import numpy as np
import pytest

sb3 = pytest.importorskip(
    "stable_baselines3",
    reason="Stable-Baselines3 is not installed: pip install -r requirements/adapters.txt",
)

import backcast.cleanrl as cleanrl  # noqa: E402
import backcast.sb3 as ours  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

ACTOR = """
import backcast as bc
import gymnasium as gym

envs = gym.make_vec("CartPole-v1", 2, vectorization_mode="sync")
obs, _ = envs.reset(seed=1)
with bc.ReplayBuffer.attach("shared").writer(env=envs) as writer:
    print("writing", flush=True)
    while True:
        actions = envs.action_space.sample()
        following, reward, terminated, truncated, _ = envs.step(actions)
        # A mark that no reward of the learner's has.
        writer.append(
            obs=obs, next_obs=following, action=actions, reward=reward * 2,
            terminated=terminated, truncated=truncated,
        )
        obs = following
"""


def start(program: Path, place: Path) -> subprocess.Popen[str]:
    """Start the actor as a shell would, and wait until it writes."""
    command = f"exec {shlex.quote(sys.executable)} {shlex.quote(str(program))}"
    env = os.environ | {"BACKCAST_DIR": str(place), "PYTHONPATH": os.pathsep.join(sys.path)}
    actor = subprocess.Popen(["sh", "-c", command], env=env, stdout=subprocess.PIPE, text=True)
    assert actor.stdout is not None
    assert select.select([actor.stdout], [], [], 60)[0], "it prints nothing"
    assert actor.stdout.readline() == "writing\n"
    return actor


def test_a_learner_trains_while_an_actor_is_killed_and_started_again(
    place: Path, tmp_path: Path
) -> None:
    program = tmp_path / "actor.py"
    program.write_text(ACTOR)
    model = sb3.DQN(
        "MlpPolicy",
        gym.make("CartPole-v1"),
        replay_buffer_class=ours.ReplayBuffer,
        replay_buffer_kwargs={"name": "shared", "lanes": 3, "dir": place, "seed": 1},
        buffer_size=30_000,
        learning_starts=10,
        train_freq=1,
        policy_kwargs={"net_arch": [16]},
        seed=0,
        device="cpu",
    )
    ring = model.replay_buffer.ring
    for round_ in range(3):
        actor = start(program, place)
        try:
            ring.wait(rows_published=ring.stats()["rows_published"] + 500, timeout=60)
            model.learn(200, reset_num_timesteps=False)
            # One batch has transitions of the learner and of the actor.
            rewards = model.replay_buffer.sample(2000).rewards.unique().tolist()
            assert set(rewards) == {1.0, 2.0}, round_
        finally:
            actor.kill()
            actor.communicate(timeout=60)
        samples = model.replay_buffer.sample(500)
        assert not samples.observations.isnan().any()
        # A step of the pole moves the cart by its speed: no transition leads across a kill.
        moved = samples.next_observations[:, 0] - samples.observations[:, 0]
        assert np.allclose(moved, 0.02 * samples.observations[:, 1], atol=1e-5)
    assert model._n_updates >= 580
    lanes = [lane["generation"] for lane in ring.stats()["lane_stats"]]
    assert sorted(lanes) == [1, 3, 3]
    assert len(ring) > 2000
    assert bc.list_objects(dir=place)[0]["name"] == "shared"
    ring.unlink()


@pytest.mark.parametrize("buffer", ["sb3", "cleanrl"])
def test_a_buffer_joins_a_ring_with_a_limiter_and_follows_it(place: Path, buffer: str) -> None:
    env = gym.make("CartPole-v1")
    limits = bc.RateLimiter(4.0, min_size=20, error_buffer=40)
    schema = bc.Schema.from_spaces(env.observation_space, env.action_space)
    ring = bc.ReplayBuffer.create("limited", schema, capacity=1_000, limiter=limits, dir=place)
    options: dict[str, Any] = {"name": "limited", "dir": place, "seed": 1}
    spaces = (env.observation_space, env.action_space)
    if buffer == "sb3":
        joined = ours.ReplayBuffer(1_000, *spaces, "cpu", **options)
    else:
        mode = "disabled"
        joined = cleanrl.ReplayBuffer(1_000, *spaces, "cpu", autoreset_mode=mode, **options)
    assert joined.ring.limiter is not None
    assert joined.ring.limiter.limits == ring.limiter.limits
    with ring.writer() as writer:
        obs, _ = env.reset(seed=1)
        for _ in range(31):
            action = env.action_space.sample()
            following, reward, terminated, truncated, _ = env.step(action)
            step = {"obs": obs, "next_obs": following, "action": action, "reward": reward}
            writer.append(**step, terminated=terminated, truncated=truncated)
            obs = env.reset()[0] if terminated or truncated else following
    assert len(joined.sample(64).actions) == 64
    assert ring.limiter.samples == 64, "draws of the buffer count"
    ring.unlink()
