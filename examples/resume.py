"""A learner that is killed in the middle of its run continues from its last snapshot.

The program starts a learner in another process, kills it (SIGKILL) between two snapshots, removes
what is left in shared memory, and starts it again. The learner loads ring, priorities, limiter,
weights and the sampler's position, and draws the same batches as before. The program fails unless
draws, and weights after them, are equal. The learner fits a linear function of random observations;
its error falls from 1 to below 0.1.

    python examples/resume.py
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any

import backcast as bc
import numpy as np

ROUNDS, UPDATES, KILL_AT, BATCH = 20, 50, (12, 30), 64
COLUMNS = {"obs": ("f4", (4,)), "reward": "f4", "params_version": "i8"}
TRUTH = np.array([0.5, -0.5, 1.0, 0.25])


def collect(writer: bc.Writer, number: int, version: int) -> None:
    """Append episode `number`, of 100 steps; equal numbers give equal episodes."""
    draw = np.random.default_rng(number)
    obs = draw.normal(size=4).astype("f4")
    for t in range(100):
        after = draw.normal(size=4).astype("f4")
        step = {"obs": obs, "reward": obs @ TRUTH, "params_version": version, "next_obs": after}
        writer.append(**step, terminated=t == 99, truncated=False)
        obs = after


def opened(store: str) -> tuple[bc.ReplayBuffer, bc.Sampler, bc.Params, int]:
    """Load the newest snapshot, or create all; return ring, sampler, weights and first round."""
    if bc.list_snapshots(store=store):
        buf = bc.ReplayBuffer.load("resume", store=store)
        state = buf.saved_state
        params = bc.Params.load("resume", "weights", store=store)
        return buf, buf.sampler(state=state["sampler"]), params, state["round"]
    limits = bc.RateLimiter(32, min_size=100, error_buffer=8_000)
    buf = bc.ReplayBuffer.create("resume", COLUMNS, capacity=10_000, limiter=limits)
    params = bc.Params.create("weights", {"w": np.zeros(4)})
    params.publish({"w": np.zeros(4)})
    return buf, buf.sampler(seed=7, select=bc.Priority(alpha=0.6, beta=0.4)), params, 0


def learn(store: str, log: str) -> None:
    """Learn in rounds of an episode, a snapshot and updates; log a line for each update."""
    buf, sampler, params, first = opened(store)
    weights = params.latest()["w"]
    with buf, params, open(log, "a") as lines:
        limiter = buf.limiter
        for number in range(first, ROUNDS):
            if number > first or not bc.list_snapshots(store=store):
                with buf.writer() as writer:
                    collect(writer, number, params.version)
                state = {"sampler": sampler.state(), "round": number}
                buf.snapshot(f"round-{number}", store=store, state=state, params=params)
            for update in range(UPDATES):
                batch = sampler.sample(BATCH)
                error = batch["obs"] @ weights - batch["reward"]
                weights -= 0.05 * (batch["weight"] * error) @ batch["obs"] / BATCH
                sampler.update_priorities(batch.index, np.abs(error))
                params.publish({"w": weights})
                drawn = zlib.crc32(batch["obs"].tobytes() + weights.tobytes())
                assert limiter is not None
                counts = limiter.inserts, limiter.samples
                age = params.version - float(batch["params_version"].mean())
                fields = number, update, drawn, counts, float(np.abs(error).mean()), age
                print(json.dumps(fields), file=lines, flush=True)


def lines_of(log: Path) -> list[list[Any]]:
    """Read the complete lines of the log."""
    text = log.read_text() if log.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def main() -> int:
    """Kill a learner, start it again, and compare the updates that both runs made."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        command = [sys.executable, __file__, "learn", str(Path(folder, "store")), str(log)]
        learner = subprocess.Popen(command)
        while tuple(lines_of(log)[-1:] and lines_of(log)[-1][:2]) < KILL_AT:
            assert learner.poll() is None, "the learner ended before it was killed"
        os.kill(learner.pid, signal.SIGKILL)
        learner.wait()
        before = lines_of(log)
        left = [one["name"] for one in bc.collect_garbage()]
        subprocess.run(command, check=True)
        after = lines_of(log)[len(before) :]
        known = {(number, update): rest for number, update, *rest in before}
        again = [(known[n, u], rest) for n, u, *rest in after if (n, u) in known]
    assert len(again) >= KILL_AT[1]
    for old, new in again:
        assert old == new, "draws, weights, versions and counts of the limiter are equal"
    error = np.mean([fields[4] for fields in after[-UPDATES:]])
    print(f"killed after {len(before)} updates, removed {left}")
    print(f"{len(again)} updates again with equal draws; then {len(after) - len(again)} more")
    print(f"mean error {error:.3f}, rows {after[-1][5]:.0f} versions old at the end")
    return 0 if error < 0.1 else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["learn"]:
        learn(*sys.argv[2:])
    else:
        sys.exit(main())
