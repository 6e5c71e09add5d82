"""Measure how fast weights come from a learner to its actors: a million float32, in 8 arrays.

python benches/python/params.py [--rounds 7] [--seconds 0.3] [--quick]

A pull takes turns with a `memcpy` of the same bytes. Both copy what was written just before, out of
three buffers that are written in turn. A pull that finds nothing new is timed beside an empty
method. CPU time of a publish is measured while no process pulls, and while another one pulls
without a pause. Then every actor process gets each version and answers with a byte. Versions come
through `Params`, or as pickled arrays through a `multiprocessing.Queue` for each actor.
"""

from __future__ import annotations

import argparse
import multiprocessing
import pickle
import tempfile
import time
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Any

import backcast as bc
import numpy as np
import results
from numpy.typing import NDArray
from replay.rounds import read_options, repeats_of

Weights = dict[str, NDArray[np.float32]]
SPAWN = multiprocessing.get_context("spawn")
SHAPES = {
    "0/weight": (512, 900),
    "0/bias": (512,),
    "1/weight": (512, 512),
    "1/bias": (512,),
    "2/weight": (480, 512),
    "2/bias": (480,),
    "head/weight": (0,),
    "head/bias": (24,),
}
FLOATS = 1_000_000
ACTORS = (1, 4)


def weights(value: float) -> Weights:
    """Make a million float32 in eight arrays of a network."""
    shapes: dict[str, tuple[int, ...]] = dict(SHAPES)
    shapes["head/weight"] = (FLOATS - sum(int(np.prod(of)) for of in SHAPES.values()),)
    return {name: np.full(shape, value, "f4") for name, shape in shapes.items()}


def copied(source: Weights, target: Weights) -> None:
    """Copy every array."""
    for name, array in source.items():
        np.copyto(target[name], array)


def measured_pulls(rounds: int, seconds: float) -> list[dict[str, Any]]:
    """Time pulls and copies of weights that were written just before."""
    mine, blocks = weights(1), [weights(0) for _ in range(3)]
    flat = [np.zeros(FLOATS, "f4") for _ in range(3)]
    one, out, flat_out = np.ones(FLOATS, "f4"), weights(0), np.zeros(FLOATS, "f4")
    with bc.Params.create(None, mine) as params:
        turn = 0

        def next_block() -> int:
            nonlocal turn
            turn = (turn + 1) % 3
            return turn

        steps: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
            "backcast, pull": (partial(params.publish, mine), partial(params.pull, out)),
            "memcpy, one array": (
                lambda: np.copyto(flat[next_block()], one),
                lambda: np.copyto(flat_out, flat[turn]),
            ),
            "memcpy, array by array": (
                lambda: copied(mine, blocks[next_block()]),
                lambda: copied(blocks[turn], out),
            ),
        }
        runs: dict[str, list[float]] = {name: [] for name in steps}
        for _ in range(rounds):
            for name, (write, read) in steps.items():
                times: list[int] = []
                end = time.perf_counter() + seconds
                while time.perf_counter() < end or len(times) < 10:
                    write()
                    start = time.perf_counter_ns()
                    read()
                    times.append(time.perf_counter_ns() - start)
                # The median of a round leaves out pulls that another program interrupted.
                runs[name].append(float(np.median(times)) / 1e3)
    return results.lines("weights of 4 MB", "pull a version", "us", runs.items(), "main")


class Empty:
    """An object whose method does nothing."""

    def pull(self) -> None:
        """Do nothing."""


def measured_nothing(rounds: int, seconds: float) -> list[dict[str, Any]]:
    """Time pulls that find nothing new."""
    with bc.Params.create(None, weights(0)) as params:
        params.publish(weights(1))
        params.pull()
        calls: dict[str, Callable[[], object]] = {
            "backcast, pull": params.pull,
            "an empty method": Empty().pull,
        }
        runs: dict[str, list[float]] = {name: [] for name in calls}
        repeats = {name: repeats_of(call, seconds) for name, call in calls.items()}
        for _ in range(rounds):
            for name, call in calls.items():
                start = time.perf_counter_ns()
                for _ in range(repeats[name]):
                    call()
                runs[name].append((time.perf_counter_ns() - start) / repeats[name])
    return results.lines("weights of 4 MB", "pull, nothing new", "ns", runs.items(), "main")


def pulling(place: Path, ours: Connection) -> None:
    """Pull without a pause from one message to the next, and send the number of new versions."""
    with bc.Params.attach("policy", dir=place) as params:
        ours.send(0)
        while ours.recv():
            pulled = 0
            while not ours.poll():
                pulled += params.pull() is not None
            ours.recv()
            ours.send(pulled)


def measured_publishes(place: Path, rounds: int, seconds: float) -> list[dict[str, Any]]:
    """Measure the CPU time of publishes beside no puller and beside one."""
    mine, theirs = SPAWN.Pipe()
    runs: dict[str, list[float]] = {"no puller": [], "one puller": []}
    with bc.Params.create("policy", weights(0), dir=place) as params:
        other = SPAWN.Process(target=pulling, args=(place, theirs), daemon=True)
        other.start()
        mine.recv()
        given, pulled = weights(1), 0
        for _ in range(rounds):
            for name, of in runs.items():
                if name == "one puller":
                    mine.send(True)
                count, end, start = 0, time.perf_counter() + seconds, time.process_time()
                while time.perf_counter() < end:
                    params.publish(given)
                    count += 1
                of.append((time.process_time() - start) / count * 1e6)
                if name == "one puller":
                    mine.send(True)
                    pulled += mine.recv()
        mine.send(False)
        other.join()
        stats = params.stats()
    assert pulled > 0, "the other process pulls"
    print(f"{pulled} pulls, {stats['retries']} retries, {stats['refused']} publishes refused")
    return results.lines("weights of 4 MB", "publish, CPU time", "us", runs.items(), "main")


def by_params(place: Path, name: str, ours: Connection) -> None:
    """Run an actor that gets each version of the weights through `Params`."""
    out = weights(0)
    with bc.Params.attach(name, dir=place) as params:
        ours.send_bytes(b"k")
        version = 0
        while out["0/bias"][0] >= 0:
            version = params.wait(version + 1)
            params.pull(out)
            ours.send_bytes(b"k")


def by_queue(queue: Queue[bytes], ours: Connection) -> None:
    """Run an actor that gets each version of the weights through a queue."""
    out = weights(0)
    ours.send_bytes(b"k")
    while out["0/bias"][0] >= 0:
        copied(pickle.loads(queue.get()), out)
        ours.send_bytes(b"k")


def measured_ways(place: Path, actors: int, rounds: int, seconds: float) -> list[dict[str, Any]]:
    """Measure the time until every actor has a version; both ways take turns."""
    queues: list[Queue[bytes]] = [SPAWN.Queue() for _ in range(actors)]
    params = bc.Params.create("ways", weights(0), dir=place)
    ends: dict[str, list[Connection]] = {"backcast": [], "pickle through a Queue": []}
    processes = []
    for way, mine in ends.items():
        for queue in queues:
            near, far = SPAWN.Pipe()
            job: Any = (by_params, (place, "ways", far))
            if way != "backcast":
                job = (by_queue, (queue, far))
            processes.append(SPAWN.Process(target=job[0], args=job[1], daemon=True))
            processes[-1].start()
            mine.append(near)
    for near in (end for mine in ends.values() for end in mine):
        near.recv_bytes()

    def send(way: str, given: Weights) -> None:
        if way == "backcast":
            params.publish(given)
        else:
            block = pickle.dumps(given, protocol=pickle.HIGHEST_PROTOCOL)
            for queue in queues:
                queue.put(block)
        for near in ends[way]:
            near.recv_bytes()

    given = weights(1)
    runs: dict[str, list[float]] = {way: [] for way in ends}
    for _ in range(rounds):
        for way, of in runs.items():
            count, start = 0, time.perf_counter()
            while (passed := time.perf_counter() - start) < seconds or count < 3:
                send(way, given)
                count += 1
            of.append(passed / count * 1e6)
    for way in ends:
        send(way, weights(-1))
    for process in processes:
        process.join()
    params.close()
    metric = f"until {actors} actors have it" if actors > 1 else "until an actor has it"
    return results.lines("weights of 4 MB", metric, "us", runs.items(), "main")


def main() -> None:
    """Measure, print the results and write them to a file."""
    parser = argparse.ArgumentParser(prog="params.py", description=__doc__.splitlines()[0])
    options = read_options(parser, seconds=0.3)
    rounds, seconds = options.rounds, options.seconds
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as folder:
        entries = measured_pulls(rounds, seconds)
        entries += measured_nothing(rounds, seconds)
        entries += measured_publishes(Path(folder), rounds, seconds)
        for actors in ACTORS:
            entries += measured_ways(Path(folder), actors, rounds, seconds)
    results.table(entries)
    if not options.quick:
        path = results.LATEST.with_name("params.jsonl")
        path.unlink(missing_ok=True)
        results.append(entries, path)


if __name__ == "__main__":
    main()
