"""Collect CartPole into a ring in each autoreset mode; a learner would sample it by name."""

import os
from typing import Literal

import backcast as bc
import gymnasium as gym
from backcast.envs import Collector
from gymnasium.vector import AutoresetMode

ENVS, STEPS = 8, 500
Mode = Literal["next_step", "same_step", "disabled"]
MODES: list[Mode] = ["next_step", "same_step", "disabled"]


def collect(mode: Mode) -> None:
    """Balance poles by a simple rule, draw a batch of the ring, and print what it holds."""
    envs = gym.make_vec(
        "CartPole-v1",
        ENVS,
        vectorization_mode="sync",
        vector_kwargs={"autoreset_mode": AutoresetMode[mode.upper()]},
        wrappers=[gym.wrappers.TimeAwareObservation],
    )
    # Columns `obs`, `action` and `reward`, in the dtypes and shapes of the environment.
    schema = bc.Schema.from_spaces(envs.single_observation_space, envs.single_action_space)
    name = f"poles-{os.getpid()}"
    with bc.ReplayBuffer.create(name, schema, capacity=100_000, lanes=ENVS) as buf:
        try:
            with buf.writer(env=envs) as writer:
                collector = Collector(envs, writer)
                collector.reset(seed=7)
                # Push to the side that the pole leans to: the third number of `obs` is its angle.
                collector.run(lambda obs: (obs[:, 2] > 0).astype(int), STEPS)
                collector.finish()
            batch = buf.sampler(seed=7, history=4).sample(256)
            ends = batch["terminated"][:, -1].mean() + batch["truncated"][:, -1].mean()
            print(f"{mode:9}: {len(buf)} transitions; {ends:.1%} of a batch end an episode")
            # Time, the last number, grows by 1 from `obs` to `next_obs`, also where episodes end.
            step = batch["next_obs"][:, -1, -1] - batch["obs"][:, -1, -1]
            assert (step == 1).all()
        finally:
            buf.unlink()
            envs.close()


if __name__ == "__main__":
    for mode in MODES:
        collect(mode)
