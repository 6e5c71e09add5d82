"""Quickstart: one process writes transitions, another samples windows of them, by name."""

import multiprocessing
import os

import backcast as bc
import numpy as np

NAME = f"quickstart-{os.getpid()}"
COLUMNS = {"obs": ("f4", (8,)), "action": "i4", "reward": "f4"}
EPISODES, STEPS = 20, 100


def write(name: str) -> None:
    """Attach by name and append episodes, as an environment worker would."""
    rng = np.random.default_rng(0)
    with bc.ReplayBuffer.attach(name) as buf, buf.writer() as writer:
        obs = rng.normal(size=8)
        for step in range(1, EPISODES * STEPS + 1):
            next_obs, end = rng.normal(size=8), step % STEPS == 0
            writer.append(obs=obs, action=step % 4, reward=obs[0], next_obs=next_obs,
                          terminated=end, truncated=False)  # fmt: skip
            obs = rng.normal(size=8) if end else next_obs


if __name__ == "__main__":
    with bc.ReplayBuffer.create(NAME, COLUMNS, capacity=10_000) as buf:
        try:
            worker = multiprocessing.get_context("spawn").Process(target=write, args=(NAME,))
            worker.start()
            buf.wait(min_size=1000, timeout=30)
            batch = buf.sampler(seed=7, history=20, future=5).sample(256)
            print("obs", batch["obs"].shape, "next_obs", batch["next_obs"].shape)
            print("mask", batch["mask"].shape, "future reward", batch["future"]["reward"].shape)
            worker.join()
            print(f"{len(buf)} transitions, {buf!r}")
        finally:
            buf.unlink()
