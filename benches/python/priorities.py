"""Prioritised replay against cpprb and tianshou: draw, gather and set priorities, 1 M transitions.

    python priorities.py [--rows 1000000] [--batch 256] [--seconds 2] [--rounds 7] [--append 64]

Each contender holds the same transitions and does the same work: draw a batch by priority with its
importance weights, get the arrays of it, set its priorities. All take turns; of each the median of
all rounds counts, and the range is printed. Contenders that are not installed are left out.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import backcast as bc
import numpy as np

OBS = 84
ALPHA, BETA = 0.6, 0.4

Round = Callable[[], None]


def columns(rows: int, rng: np.random.Generator) -> dict[str, Any]:
    """Make random transitions of an episode without an end."""
    return {
        "obs": rng.random((rows + 1, OBS), dtype="f4"),
        "action": rng.random((rows, 6), dtype="f4"),
        "reward": rng.random(rows, dtype="f4"),
    }


def backcast_contender(data: dict[str, Any], batch: int, append: int, seed: int) -> Round:
    """Make a ring, and a round of work on it."""
    rows = len(data["reward"])
    schema = {"obs": ("f4", (OBS,)), "action": ("f4", (6,)), "reward": "f4"}
    buf = bc.ReplayBuffer.create(None, schema, capacity=rows + 1)
    lanes = max(append, 1)
    writer = buf.writer()
    no_ends = np.zeros((rows, 1), bool)
    writer.extend(
        obs=data["obs"][:rows, None],
        action=data["action"][:, None],
        reward=data["reward"][:, None],
        terminated=no_ends,
        truncated=no_ends,
    )
    more = {
        "obs": data["obs"][:lanes, None],
        "action": data["action"][:lanes, None],
        "reward": data["reward"][:lanes, None],
        "terminated": no_ends[:lanes],
        "truncated": no_ends[:lanes],
    }
    sampler = buf.sampler(seed=seed, priority=ALPHA, beta=BETA)
    rng = np.random.default_rng(seed)
    td = rng.random((64, batch)) * 2
    count = 0
    sampler.update_priorities(np.arange(0, rows - 1), rng.random(rows - 1) * 2)
    out = sampler.sample(batch)

    def work() -> None:
        nonlocal count
        if append:
            writer.extend(**more)
        sampler.sample(batch, out=out)
        sampler.update_priorities(out.index, td[count % 64])
        count += 1

    return work


def cpprb_contender(data: dict[str, Any], batch: int, append: int, seed: int) -> Round:
    """Make a buffer of cpprb, and a round of work on it."""
    import cpprb  # type: ignore[import-not-found,import-untyped,unused-ignore]

    rows = len(data["reward"])
    buf = cpprb.PrioritizedReplayBuffer(
        rows,
        {
            "obs": {"shape": OBS, "dtype": np.float32},
            "act": {"shape": 6, "dtype": np.float32},
            "rew": {"dtype": np.float32},
            "next_obs": {"shape": OBS, "dtype": np.float32},
            "done": {"dtype": np.float32},
        },
        alpha=ALPHA,
    )
    rng = np.random.default_rng(seed)

    def add(first: int, last: int) -> None:
        buf.add(
            obs=data["obs"][first:last],
            act=data["action"][first:last],
            rew=data["reward"][first:last],
            next_obs=data["obs"][first + 1 : last + 1],
            done=np.zeros(last - first, "f4"),
        )

    for first in range(0, rows, 10_000):
        add(first, min(first + 10_000, rows))
    for first in range(0, rows, 10_000):
        index = np.arange(first, min(first + 10_000, rows))
        buf.update_priorities(index, rng.random(len(index)) * 2)
    td = rng.random((64, batch)) * 2
    count = 0

    def work() -> None:
        nonlocal count
        if append:
            add(0, append)
        drawn = buf.sample(batch, beta=BETA)
        buf.update_priorities(drawn["indexes"], td[count % 64])
        count += 1

    return work


def tianshou_contender(data: dict[str, Any], batch: int, append: int, seed: int) -> Round:
    """Make a buffer of tianshou, and a round of work on it."""
    from tianshou import data as peer  # type: ignore[import-not-found,unused-ignore]

    rows = len(data["reward"])
    buf = peer.PrioritizedReplayBuffer(rows, alpha=ALPHA, beta=BETA)
    rng = np.random.default_rng(seed)
    step = peer.Batch(
        obs=data["obs"][0],
        act=data["action"][0],
        rew=0.0,
        terminated=False,
        truncated=False,
        obs_next=data["obs"][1],
    )
    buf.add(step)
    # Filled through its arrays: `add` would take a minute.
    buf._meta.obs[:] = data["obs"][:rows]
    buf._meta.obs_next[:] = data["obs"][1:]
    buf._meta.act[:] = data["action"]
    buf._meta.rew[:] = data["reward"]
    buf._size, buf._insertion_idx = rows, 0
    index = np.arange(rows)
    buf.update_weight(index, rng.random(rows) * 2)
    td = rng.random((64, batch)) * 2
    count = 0

    def work() -> None:
        nonlocal count
        for _ in range(append):
            buf.add(step)
        _, index = buf.sample(batch)
        buf.update_weight(index, td[count % 64])
        count += 1

    return work


CONTENDERS: dict[str, Callable[[dict[str, Any], int, int, int], Round]] = {
    "backcast": backcast_contender,
    "cpprb": cpprb_contender,
    "tianshou": tianshou_contender,
}


def main() -> None:
    """Run all contenders in turn and print rows per second."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--append", type=int, default=0)
    given = parser.parse_args()
    data = columns(given.rows, np.random.default_rng(0))
    works: dict[str, Round] = {}
    for name, contender in CONTENDERS.items():
        try:
            works[name] = contender(data, given.batch, given.append, 7)
        except ImportError as error:
            print(f"{name}: left out, {error}")
    rates: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(given.rounds):
        for name, work in works.items():
            batches, start = 0, time.perf_counter()
            while (elapsed := time.perf_counter() - start) < given.seconds:
                work()
                batches += 1
            rates[name].append(batches * given.batch / elapsed)
    ours = statistics.median(rates["backcast"])
    for name, measured in rates.items():
        median = statistics.median(measured)
        print(
            json.dumps(
                {
                    "contender": name,
                    "rows_per_s": round(median),
                    "range": [round(min(measured)), round(max(measured))],
                    "times": round(ours / median, 2),
                    "append": given.append,
                }
            )
        )


if __name__ == "__main__":
    main()
