"""Buffers of `backcast.sb3` beside Stable-Baselines3's own: CPU time of draws and additions.

python benches/python/adapters.py [ROUNDS]

It needs the packages of requirements/adapters.txt. Contenders take turns in one process, in which
PyTorch has one thread. A figure is the median over rounds. Samples are tensors.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import backcast.sb3
import numpy as np
import results
import torch
from gymnasium import spaces
from stable_baselines3.common import buffers

VECTORS = spaces.Box(-np.inf, np.inf, (17,), np.float32)
ACTIONS = spaces.Box(-1, 1, (6,), np.float32)
STACKS = spaces.Box(0, 255, (4, 84, 84), np.uint8)
BUTTONS = spaces.Discrete(6)
NESTED = spaces.Dict({"a": VECTORS, "b": VECTORS})
EPISODE = 200
ROUNDS = 7
"""Rounds of each measurement."""
SECONDS = 0.25
"""Approximate CPU time of a round."""

Buffer = Any
Obs = Any
Steps = Callable[[int], tuple[Any, ...]]


def vector_steps(envs: int, nested: bool = False) -> Steps:
    """Return a function that makes step `t` of vectors, from numbers that are drawn once."""
    draw = np.random.default_rng(0)
    obs = draw.normal(size=(1001, envs, 17)).astype("f4")
    action = draw.uniform(-1, 1, (1000, envs, 6)).astype("f4")
    reward = draw.normal(size=(1000, envs)).astype("f4")

    def seen(at: int) -> Obs:
        return {"a": obs[at], "b": obs[at]} if nested else obs[at]

    def step(t: int) -> tuple[Any, ...]:
        at, end = t % 1000, t % EPISODE == EPISODE - 1
        infos = [{"TimeLimit.truncated": end}] * envs
        after = seen(1000 if end else at + 1)
        return seen(at), after, action[at], reward[at], np.full(envs, end), infos

    return step


def stack_steps() -> Steps:
    """Return a function that makes step `t` of stacks of four frames, padded with zeros."""
    frames = np.random.default_rng(0).integers(1, 255, (EPISODE + 1, 84, 84), dtype=np.uint8)
    padded = np.concatenate([np.zeros((3, 84, 84), np.uint8), frames])

    def step(t: int) -> tuple[Any, ...]:
        at, end = t % EPISODE, t % EPISODE == EPISODE - 1
        infos = [{"TimeLimit.truncated": end}]
        return (
            padded[None, at : at + 4],
            padded[None, at + 1 : at + 5],
            np.array([t % 6]),
            np.array([1.0], np.float32),
            np.array([end]),
            infos,
        )

    return step


def per_second(call: Callable[[], object], times: int) -> float:
    """Call `times` times; return calls per second of CPU time."""
    start = time.process_time()
    for _ in range(times):
        call()
    return times / (time.process_time() - start)


def compare(
    workload: str, metric: str, each: int, calls: dict[str, Callable[[], object]]
) -> list[dict[str, Any]]:
    """Let contenders take turns; figures are transitions per second of CPU time."""
    times = {}
    for name, call in calls.items():
        call()
        times[name] = max(3, round(SECONDS * per_second(call, 5)))
    runs: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            runs[name].append(each * per_second(call, times[name]))
    return results.lines(workload, metric, "transitions/s", runs.items(), "main")


def both(
    kind: str,
    size: int,
    obs: spaces.Space[Any],
    action: spaces.Space[Any],
    envs: int,
    **own: float,
) -> dict[str, Buffer]:
    """Make SB3's buffer and Backcast's. `own` are `n_steps`, `gamma` and options of Backcast's."""
    options: dict[str, Any] = {"device": "cpu", "n_envs": envs}
    options |= {key: own.pop(key) for key in ("n_steps", "gamma") if key in own}
    return {
        "Stable-Baselines3": getattr(buffers, kind)(size, obs, action, **options),
        "backcast.sb3": getattr(backcast.sb3, kind)(size, obs, action, seed=0, **options, **own),
    }


def fill(pair: dict[str, Buffer], steps: Steps, count: int) -> None:
    """Add the same steps to both."""
    for t in range(count):
        for buffer in pair.values():
            buffer.add(*steps(t))


def adding(buffer: Buffer, steps: Steps) -> Callable[[], object]:
    """Return a call that adds the next step of an episode that is made once and repeated."""
    ready = [steps(t) for t in range(EPISODE)]
    at = 0

    def call() -> None:
        nonlocal at
        buffer.add(*ready[at])
        at = (at + 1) % EPISODE

    return call


def sampling(pair: dict[str, Buffer], batch: int) -> dict[str, Callable[[], object]]:
    """Return calls that draw a batch from each buffer."""
    return {name: partial(buffer.sample, batch) for name, buffer in pair.items()}


def main() -> None:
    """Measure, print the results and write them to a file."""
    torch.set_num_threads(1)
    found = []
    flat = "vectors, 17 numbers and 6 actions"
    pair = both("ReplayBuffer", 1_000_000, VECTORS, ACTIONS, 1)
    fill(pair, vector_steps(1), 300_000)
    found += compare(flat, "draw 256", 256, sampling(pair, 256))
    calls = {name: adding(buffer, vector_steps(1)) for name, buffer in pair.items()}
    found += compare(flat, "add one", 1, calls)
    pair = both("ReplayBuffer", 1_000_000, VECTORS, ACTIONS, 16)
    calls = {name: adding(buffer, vector_steps(16)) for name, buffer in pair.items()}
    found += compare(flat, "add 16", 16, calls)
    pair = both("NStepReplayBuffer", 300_000, VECTORS, ACTIONS, 1, n_steps=3, gamma=0.99)
    fill(pair, vector_steps(1), 300_000)
    found += compare(flat, "draw 256, returns of 3 steps", 256, sampling(pair, 256))
    pair = both("DictReplayBuffer", 300_000, NESTED, ACTIONS, 1)
    fill(pair, vector_steps(1, nested=True), 300_000)
    found += compare("dicts of two such vectors", "draw 256", 256, sampling(pair, 256))
    pictures = "stacks of 4 frames of 84 x 84"
    pair = both("ReplayBuffer", 30_000, STACKS, BUTTONS, 1, frames=4)
    fill(pair, stack_steps(), 30_000)
    for batch in (32, 256):
        found += compare(pictures, f"draw {batch}", batch, sampling(pair, batch))
    calls = {name: adding(buffer, stack_steps()) for name, buffer in pair.items()}
    found += compare(pictures, "add one", 1, calls)
    memory = {
        "Stable-Baselines3": pair["Stable-Baselines3"].observations.nbytes * 2.0,
        "backcast.sb3": float(pair["backcast.sb3"].ring.stats()["bytes_allocated"]),
    }
    runs = [(name, [size / 2**20] * ROUNDS) for name, size in memory.items()]
    found += results.lines(pictures, "30,000 stacks in memory", "MiB", runs, "main")
    results.table(found)
    path = results.LATEST.with_name("adapters.jsonl")
    path.unlink(missing_ok=True)
    results.append(found, path)


if __name__ == "__main__":
    ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    main()
