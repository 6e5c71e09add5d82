"""Compare parameters with Ray's object store: a million float32 from a learner to an actor.

python -m loop.object_store [--rounds 7] [--seconds 0.5]

Needs Ray. "Alone", one process puts (publishes) eight arrays, gets (pulls) them, and copies them
into arrays of its own, as a network needs them. "Sent", another process gets and copies them, and
answers: Ray's actor returns from a call with the reference, Backcast's sends a byte through a pipe.
Ray and Backcast take turns.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import backcast as bc
import params as measured
import ray


class Actor:
    """An actor of Ray that copies weights into its own arrays."""

    def __init__(self) -> None:
        self._mine = measured.weights(0)

    def take(self, given: measured.Weights) -> int:
        """Copy the weights."""
        measured.copied(given, self._mine)
        return 1


def rate(call: Callable[[], object], seconds: float) -> float:
    """Return the mean microseconds of a call."""
    count, start = 0, time.perf_counter()
    while (passed := time.perf_counter() - start) < seconds or count < 5:
        call()
        count += 1
    return passed / count * 1e6


def measure(place: Path, rounds: int, seconds: float) -> dict[str, list[float]]:
    """Time Backcast and Ray, alone and with an actor, in turns."""
    given, mine = measured.weights(1), measured.weights(0)
    near, far = measured.SPAWN.Pipe()
    job = (place, "policy", far)
    with bc.Params.create("policy", given, dir=place) as params:
        other = measured.SPAWN.Process(target=measured.by_params, args=job, daemon=True)
        other.start()
        near.recv_bytes()
        actor = ray.remote(Actor).remote()
        private = bc.Params.create(None, given)

        def alone() -> None:
            private.publish(given)
            private.pull(mine)

        def ray_alone() -> None:
            measured.copied(ray.get(ray.put(given)), mine)

        def sent() -> None:
            params.publish(given)
            near.recv_bytes()

        def ray_sent() -> None:
            ray.get(actor.take.remote(ray.put(given)))

        calls = {"alone": alone, "Ray alone": ray_alone, "sent": sent, "Ray sent": ray_sent}
        runs: dict[str, list[float]] = {name: [] for name in calls}
        for call in calls.values():
            call()
        for _ in range(rounds):
            for name, call in calls.items():
                runs[name].append(rate(call, seconds))
        params.publish(measured.weights(-1))
        near.recv_bytes()
        other.join()
    return runs


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.5)
    options = parser.parse_args()
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        runs = measure(Path(folder), options.rounds, options.seconds)
    ray.shutdown()
    medians = {name: statistics.median(times) for name, times in runs.items()}
    line: dict[str, Any] = {f"{name}, us": round(of, 1) for name, of in medians.items()}
    line["alone"] = round(medians["Ray alone"] / medians["alone"], 2)
    line["sent"] = round(medians["Ray sent"] / medians["sent"], 2)
    print(json.dumps(line | {"ray": ray.__version__, "load": os.getloadavg()[0]}))


if __name__ == "__main__":
    main()
