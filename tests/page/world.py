"""Rings for the page: a fleet whose learner is limited, candles, images, a draw that waits."""

from __future__ import annotations

import threading
from contextlib import ExitStack, suppress
from itertools import pairwise

import backcast as bc
import numpy as np

STEP = {"obs": ("f4", (4,)), "action": "i4", "reward": "f4"}
BAR = {"obs": dict.fromkeys(("open", "high", "low", "close"), "f4"), "action": "f4"}
IMAGE = {"obs": ("u1", (84, 84)), "reward": "f4"}


def act(context: bc.fleet.ActorContext, ring: str, policy: str) -> None:
    """Write episodes of a random walk, at most 500 rows a second."""
    rng = np.random.default_rng(context.seed)
    params, turn = bc.Params.attach(policy), threading.Event()
    with bc.ReplayBuffer.attach(ring) as buf, buf.writer() as writer:
        while not context.stopped:
            obs, total = np.zeros(4, "f4"), 0.0
            for t in range(50):
                next_obs = (0.9 * obs + rng.normal(size=4)).astype("f4")
                step = {"obs": obs, "next_obs": next_obs, "action": rng.integers(2)}
                reward = float(rng.normal(1))
                writer.append(**step, reward=reward, terminated=t == 49, truncated=False)
                obs, total = next_obs, total + reward
                turn.wait(0.002)
            params.pull()
            context.report(return_=total, length=50, version=params.pulled)


def fill(bars: bc.ReplayBuffer, images: bc.ReplayBuffer) -> None:
    """Write candles, and a ball that moves."""
    rng = np.random.default_rng(1)
    closes = 100 + np.cumsum(rng.normal(size=302))
    prices = [
        {"open": a, "close": b, "high": max(a, b) + 0.4, "low": min(a, b) - 0.4}
        for a, b in pairwise(closes)
    ]
    with bars.writer() as writer:
        for t in range(300):
            step = {
                "obs": prices[t],
                "next_obs": prices[t + 1],
                "action": rng.choice([-1, 0, 0, 1]),
            }
            writer.append(**step, terminated=False, truncated=t == 299)
    y, x = np.mgrid[:84, :84]
    balls = [(np.hypot(x - 10 - 3 * t % 64, y - 40) < 9) * 230 + 15 for t in range(100)]
    with images.writer() as writer:
        for t in range(99):
            step = {"obs": balls[t], "next_obs": balls[t + 1], "reward": t % 3}
            writer.append(**step, terminated=t % 40 == 39, truncated=False)
            if t % 40 == 39:
                writer.restart()


def wait_for_rows(ring: bc.ReplayBuffer) -> None:
    """Draw from a ring whose limiter never allows it."""
    with ring.sampler(seed=2) as sampler, suppress(bc.BackcastError):
        sampler.sample(32, timeout=3_600)


def main() -> None:
    """Learn until a signal arrives."""
    with ExitStack() as stack:
        weights = {"w": np.zeros((64, 64), "f4")}
        policy = stack.enter_context(bc.Params.create("policy", weights))
        limits = bc.RateLimiter(samples_per_insert=8, min_size=200, error_buffer=2_000)
        make = {
            "walk": {"schema": STEP, "capacity": 20_000, "lanes": 4, "limiter": limits},
            "bars": {"schema": BAR, "capacity": 1_000},
            "images": {"schema": IMAGE, "capacity": 500},
            "waiting": {"schema": STEP, "capacity": 1_000, "limiter": bc.RateLimiter(4, 500)},
        }
        rings = {
            name: stack.enter_context(bc.ReplayBuffer.create(name, **options))
            for name, options in make.items()
        }
        fill(rings["bars"], rings["images"])
        threading.Thread(target=wait_for_rows, args=(rings["waiting"],), daemon=True).start()
        walk, rng = rings["walk"], np.random.default_rng(3)
        fleet = stack.enter_context(bc.Fleet(act, n=4, args=("walk", "policy"), buffer=walk))
        sampler = walk.sampler(seed=7, select=bc.Priority(alpha=0.6))
        print("ready", flush=True)
        for update in range(1, 1_000_000):
            batch = sampler.sample(256)
            sampler.update_priorities(batch["index"], rng.gamma(1.5, size=256))
            published = update % 20 == 0
            fleet.update(samples=256, version=policy.publish(weights) if published else None)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
