"""Costs of shards on Ray: appends beside a shard, batches and parameters over simulated nodes.

    PYTHONPATH=pybind/python .venv-ray/bin/python benches/python/ray_nodes.py

CPU time, since the nodes of one machine share its processors. Needs the environment of
`make test-ray`. Prints one line of JSON.
"""

from __future__ import annotations

import importlib
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "on_ray"))

import backcast as bc
import numpy as np

nodes: Any = importlib.import_module("nodes")

ROWS, ROUNDS, BATCHES, NODES = 20_000, 9, 100, 2
COLUMNS = {"obs": ("f4", (17,)), "action": ("f4", (6,)), "reward": "f4"}
OBS, ACTION = np.zeros(17, "f4"), np.zeros(6, "f4")


def append(ring: bc.ReplayBuffer) -> float:
    """Return the CPU time of an append, in nanoseconds."""
    with ring.writer() as writer:
        began = time.process_time_ns()
        for _ in range(ROWS):
            writer.append(obs=OBS, action=ACTION, reward=0, terminated=False, truncated=False)
        return (time.process_time_ns() - began) / ROWS


def main() -> None:
    """Measure, and print."""
    from backcast.ray import Shards

    found: dict[str, object] = {}
    with nodes.nodes_of(NODES):
        weights = {"w": np.zeros(2_500_000, "f4")}
        shards = Shards.create(
            f"bench-{os.getpid()}", COLUMNS, capacity=100_000, label=nodes.LABEL, params=weights
        )
        with shards, bc.ReplayBuffer.create(None, COLUMNS, capacity=100_000) as alone:
            rings = [bc.ReplayBuffer.attach(name) for name in shards.rings]
            turns = [(append(alone), append(rings[0])) for _ in range(ROUNDS)]
            ratios = sorted(beside / apart for apart, beside in turns)
            found["append_ns"] = [statistics.median(turn) for turn in zip(*turns, strict=True)]
            found["append_ratio"] = [ratios[0], statistics.median(ratios), ratios[-1]]
            for ring in rings[1:]:
                append(ring)
            sampler = shards.sampler(seed=1)
            sampler.sample(256)
            before = sum(shard["bytes"] for shard in sampler.stats()["shards"])
            began, wall = time.process_time(), time.perf_counter()
            for _ in range(BATCHES):
                batch = sampler.sample(256)
            found["batch_cpu_ms"] = 1e3 * (time.process_time() - began) / BATCHES
            found["batch_ms"] = 1e3 * (time.perf_counter() - wall) / BATCHES
            after = sum(shard["bytes"] for shard in sampler.stats()["shards"])
            found["batch_bytes"] = (after - before) / BATCHES
            found["batch_array_bytes"] = sum(array.nbytes for array in batch.values())
            sampler.close()
            params = shards.params
            params.publish(weights)
            params.wait(timeout=60)
            times, cpu = [], []
            for _ in range(ROUNDS):
                wall, began = time.perf_counter(), time.process_time()
                params.publish(weights)
                cpu.append(1e3 * (time.process_time() - began))
                params.wait(timeout=60)
                times.append(1e3 * (time.perf_counter() - wall))
            found["publish_10mb_ms"] = [min(times), statistics.median(times)]
            found["publish_10mb_call_cpu_ms"] = statistics.median(cpu)
            for ring in rings:
                ring.close()
            shards.unlink()
    found["load"] = os.getloadavg()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
