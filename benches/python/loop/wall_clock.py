"""Compare a fleet of two actors with two independent loops, by steps a second.

python -m loop.wall_clock [--rounds 7] [--seconds 5] [--png ratio.png]

A step of the environment is a millisecond of CPU time; a network of 64 units chooses actions. An
independent loop steps, appends, and learns from 32 items after every fourth step. Two processes
with such a loop run side by side. In the fleet, two actors step and append with the newest weights,
and a learner draws as many items for each transition, which a rate limiter enforces. Steps count
once all processes have warmed up. The fleet's ratio is recorded ten times a second.

On a machine of two cores that runs other programs too, three processes get a larger share than two.
So steps are also counted per second of the CPU time that all processes of a side use.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import time
from pathlib import Path
from typing import Any

import backcast as bc
import numpy as np
from numpy.typing import NDArray

Weights = dict[str, NDArray[np.float32]]
Record = list[tuple[float, float, float, float]]
SPAWN = multiprocessing.get_context("spawn")
STEP_S, OBS, ACTIONS, HIDDEN, BATCH, EVERY = 1e-3, 8, 4, 64, 32, 4
RATIO, MIN_SIZE = BATCH // EVERY, 256
COLUMNS = {"obs": ("f4", (OBS,)), "action": "i8", "reward": "f4"}
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class BusyEnv:
    """An environment whose step is a millisecond of CPU time."""

    def __init__(self, seed: int) -> None:
        self._draw = np.random.default_rng(seed)

    def reset(self) -> NDArray[np.float32]:
        """Return an observation."""
        return self._draw.standard_normal(OBS, np.float32)

    def step(self, action: int) -> tuple[NDArray[np.float32], float]:
        """Work, and return an observation and a reward."""
        end = time.thread_time() + STEP_S
        while time.thread_time() < end:
            pass
        obs = self.reset()
        return obs, float(obs[action])


class Network:
    """Network of one hidden layer that values actions."""

    def __init__(self, seed: int) -> None:
        draw = np.random.default_rng(seed)
        self.weights: Weights = {
            "inner": draw.normal(0, 0.3, (OBS, HIDDEN)).astype("f4"),
            "outer": draw.normal(0, 0.1, (HIDDEN, ACTIONS)).astype("f4"),
        }

    def act(self, obs: NDArray[np.float32]) -> int:
        """Return the best action."""
        inner = np.tanh(obs @ self.weights["inner"])
        return int(np.argmax(inner @ self.weights["outer"]))

    def learn(self, batch: bc.Batch) -> None:
        """Take a step towards the rewards."""
        obs, action = batch["obs"], batch["action"]
        inner = np.tanh(obs @ self.weights["inner"])
        values = inner @ self.weights["outer"]
        error = np.zeros_like(values)
        rows = np.arange(len(action))
        error[rows, action] = (values[rows, action] - batch["reward"]) / len(action)
        back = error @ self.weights["outer"].T * (1 - inner**2)
        self.weights["outer"] -= 0.01 * inner.T @ error
        self.weights["inner"] -= 0.01 * obs.T @ back


def alone(seed: int, ready: Any, counted: Any, seconds: float) -> None:  # noqa: ANN401
    """Act and learn in one process; report steps per second and CPU time, after the warm-up."""
    env, net = BusyEnv(seed), Network(seed)
    buf = bc.ReplayBuffer.create(None, COLUMNS, capacity=50_000)
    sampler, writer, obs, step = buf.sampler(seed=seed), buf.writer(), np.zeros(OBS, "f4"), 0
    end, first, cpu_s = float("inf"), 0, 0.0
    while (now := time.perf_counter()) < end:
        if step == 2 * MIN_SIZE:
            ready.wait()
            now = time.perf_counter()
            end, first, cpu_s = now + seconds, step, time.process_time()
        action = net.act(obs)
        after, reward = env.step(action)
        writer.append(
            obs=obs, action=action, reward=reward, terminated=False, truncated=step % 200 == 199,
            next_obs=after,
        )  # fmt: skip
        step += 1
        obs = env.reset() if step % 200 == 0 else after
        if step > MIN_SIZE and step % EVERY == 0:
            net.learn(sampler.sample(BATCH))
    counted.put(((step - first) / seconds, time.process_time() - cpu_s))


def act(context: bc.fleet.Context, name: str) -> None:
    """Act in a fleet, with the newest weights."""
    env, net, obs, step = BusyEnv(context.seed), Network(0), np.zeros(OBS, "f4"), 0
    with (
        bc.Params.attach(name) as params,
        bc.ReplayBuffer.attach(name, limiter=bc.RateLimiter(RATIO)) as buf,
        buf.writer() as writer,
    ):
        while not context.stopped:
            params.pull(out=net.weights)
            action = net.act(obs)
            after, reward = env.step(action)
            step += 1
            writer.append(
                obs=obs, action=action, reward=reward, terminated=False, truncated=step % 200 == 0,
                next_obs=after,
            )  # fmt: skip
            obs = env.reset() if step % 200 == 0 else after


def independent(seconds: float) -> tuple[float, float]:
    """Run two loops side by side; return their steps per second, and per second of CPU time."""
    ready, counted = SPAWN.Barrier(2), SPAWN.Queue()
    jobs = [SPAWN.Process(target=alone, args=(s, ready, counted, seconds)) for s in (1, 2)]
    for job in jobs:
        job.start()
    told = [counted.get() for _ in jobs]
    for job in jobs:
        job.join()
    rate, cpu_s = (float(sum(part)) for part in zip(*told, strict=True))
    return rate, rate * seconds / cpu_s


def cpu_of(pid: int) -> float:
    """Return the CPU time that a process has used, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def in_step(seconds: float) -> tuple[float, float, Record]:
    """Run a fleet; return its steps per second and per CPU second, and its ratio's record.

    An entry of the record has the time, the items that the samplers are behind (Reverb's ``diff``),
    and both ends of the error band.
    """
    name, net, updates = f"wall-{os.getpid()}", Network(0), 0
    limits = bc.RateLimiter(RATIO, min_size=MIN_SIZE)
    record: Record = []
    with (
        bc.ReplayBuffer.create(name, COLUMNS, capacity=50_000, lanes=2, limiter=limits) as buf,
        bc.Params.create(name, net.weights) as params,
    ):
        params.publish(net.weights)
        with bc.Fleet(act, 2, args=(name,), buffer=buf, progress=False) as fleet:
            sampler, start, first, noted, cpu_s = buf.sampler(seed=1), 0.0, 0, 0.0, 0.0
            pids = [os.getpid(), *(actor["pid"] or 0 for actor in fleet.stats()["actors"])]
            while not start or time.perf_counter() < start + seconds:
                net.learn(sampler.sample(BATCH))
                updates += 1
                if updates % 10 == 0:
                    fleet.update(version=params.publish(net.weights))
                now = time.perf_counter()
                if not start and len(buf) >= 4 * MIN_SIZE:
                    start, first = now, buf.stats()["rows_published"]
                    cpu_s = sum(map(cpu_of, pids))
                if now >= noted + 0.1:
                    noted = now
                    record.append((now, *distance(buf)))
            cpu_s = sum(map(cpu_of, pids)) - cpu_s
            # An episode of 200 transitions takes 201 rows.
            steps = (buf.stats()["rows_published"] - first) * 200 / 201
            return steps / seconds, steps / cpu_s, record


def distance(buf: bc.ReplayBuffer) -> tuple[float, float, float]:
    """Return how many items the samplers are behind, and the limits of that."""
    stats = buf.stats()["limiter"]
    return stats["inserts"] * RATIO - stats["samples"], *stats["error_band"]


def plot(record: Record, path: Path) -> None:
    """Draw the record and the band."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    seconds = [entry[0] - record[0][0] for entry in record]
    figure, axes = plt.subplots(figsize=(8, 3))
    axes.plot(seconds, [entry[1] for entry in record], label="inserts x ratio - samples")
    axes.axhspan(record[0][2], record[0][3], alpha=0.15, label="error band")
    axes.set_xlabel("seconds")
    axes.set_ylabel("items")
    axes.legend(loc="lower right")
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    """Run both in turns, and print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--png", type=Path)
    options = parser.parse_args()
    os.environ.update(ONE_THREAD)
    ratios: dict[str, list[float]] = {"wall clock": [], "CPU time": []}
    record: Record = []
    for _ in range(options.rounds):
        loops = independent(options.seconds)
        *fleet, record = in_step(options.seconds)
        for ratio, ours, theirs in zip(ratios.values(), fleet, loops, strict=True):
            ratio.append(ours / theirs)
        line = {"loops": [round(value) for value in loops], "fleet": [round(v) for v in fleet]}
        behind = [entry[1] for entry in record]
        inside = sum(low <= items <= high for _, items, low, high in record)
        within = {"records": len(record), "inside": inside, "least": min(behind)}
        within |= {"most": max(behind), "load": os.getloadavg()[0]}
        print(json.dumps({**line, **within, "band": record[0][2:]}), flush=True)
    # The load of the machine differs between rounds, so ratios are computed within a round.
    for name, of in ratios.items():
        values = statistics.median(of), min(of), max(of)
        print(name, *(f"{value:.3f}" for value in values))
    if options.png:
        plot(record, options.png)


if __name__ == "__main__":
    main()
