"""Prioritised replay against cpprb and tianshou: draw, gather and set priorities, 1 M transitions.

    python priorities.py [--rows 1000000] [--batch 256] [--seconds 2] [--rounds 7] [--append 64]
    python priorities.py --two-processes
    python priorities.py --tables [--append 64]

Each contender holds the same transitions and does the same work: draw a batch by priority with its
importance weights, get its arrays, and set its priorities. With `--append N` it appends N rows
before each draw. Contenders take turns; the median and the range over all rounds are printed.
Contenders that are not installed are left out.

With `--two-processes` no peer is measured: two processes share the priorities of one ring, in turns
with two processes that have a ring each. With `--tables` settings of our own tables are compared.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing as mp
import statistics
import time
from collections.abc import Callable
from functools import partial
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from typing import Any

import backcast as bc
import numpy as np

OBS = 84
ALPHA, BETA = 0.6, 0.4
SELECT = bc.Priority(alpha=ALPHA, beta=BETA)

Round = Callable[[], None]


def columns(rows: int, rng: np.random.Generator) -> dict[str, Any]:
    """Make random transitions of an episode without an end."""
    return {
        "obs": rng.random((rows + 1, OBS), dtype="f4"),
        "action": rng.random((rows, 6), dtype="f4"),
        "reward": rng.random(rows, dtype="f4"),
    }


def filled(data: dict[str, Any], name: str | None) -> tuple[bc.ReplayBuffer, bc.Writer]:
    """Make a full ring."""
    rows = len(data["reward"])
    schema = {"obs": ("f4", (OBS,)), "action": ("f4", (6,)), "reward": "f4"}
    buf = bc.ReplayBuffer.create(name, schema, capacity=rows + 1)
    writer = buf.writer()
    no_ends = np.zeros((rows, 1), bool)
    writer.extend(
        obs=data["obs"][:rows, None],
        action=data["action"][:, None],
        reward=data["reward"][:, None],
        terminated=no_ends,
        truncated=no_ends,
    )
    return buf, writer


def prioritised(
    buf: bc.ReplayBuffer, rows: int, batch: int, seed: int, select: bc.Priority = SELECT
) -> Round:
    """Set the priorities of a ring's rows; return a function that does a round of work on it."""
    sampler = buf.sampler(seed=seed, select=select)
    rng = np.random.default_rng(seed)
    td = rng.random((64, batch)) * 2
    count = 0
    sampler.update_priorities(np.arange(0, rows - 1), rng.random(rows - 1) * 2)
    out = sampler.sample(batch)

    def work() -> None:
        nonlocal count
        sampler.sample(batch, out=out)
        sampler.update_priorities(out.index, td[count % 64])
        count += 1

    return work


def backcast_contender(
    data: dict[str, Any], batch: int, append: int, seed: int, select: bc.Priority = SELECT
) -> Round:
    """Make a ring; return a function that does a round of work on it."""
    buf, writer = filled(data, None)
    work = prioritised(buf, len(data["reward"]), batch, seed, select)
    if not append:
        return work
    no_ends = np.zeros((append, 1), bool)
    more = {
        "obs": data["obs"][:append, None],
        "action": data["action"][:append, None],
        "reward": data["reward"][:append, None],
        "terminated": no_ends,
        "truncated": no_ends,
    }

    def with_new_rows() -> None:
        writer.extend(**more)
        work()

    return with_new_rows


def cpprb_contender(data: dict[str, Any], batch: int, append: int, seed: int) -> Round:
    """Make a buffer of cpprb; return a function that does a round of work on it."""
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
    """Make a buffer of tianshou; return a function that does a round of work on it."""
    from tianshou import data as peer  # type: ignore[import-not-found,unused-ignore]

    rows = len(data["reward"])
    count = 0
    rng = np.random.default_rng(seed)
    td = rng.random((64, batch)) * 2
    lanes = max(append, 1)
    step = peer.Batch(
        obs=data["obs"][:lanes],
        act=data["action"][:lanes],
        rew=data["reward"][:lanes],
        terminated=np.zeros(lanes, bool),
        truncated=np.zeros(lanes, bool),
        obs_next=data["obs"][1 : lanes + 1],
    )
    if append:
        # Several rows in one call need a vector buffer of tianshou, with a part for each row.
        buf = peer.PrioritizedVectorReplayBuffer(rows, lanes, alpha=ALPHA, beta=BETA)
        for _ in range(rows // append):
            buf.add(step)
    else:
        buf = peer.PrioritizedReplayBuffer(rows, alpha=ALPHA, beta=BETA)
        buf.add(step[0])
        # Writes to the buffer's arrays, because `add` of single rows would take a minute.
        buf._meta.obs[:] = data["obs"][:rows]
        buf._meta.obs_next[:] = data["obs"][1:]
        buf._meta.act[:] = data["action"]
        buf._meta.rew[:] = data["reward"]
        buf._size, buf._insertion_idx = rows, 0
    index = np.arange(buf.maxsize)
    buf.update_weight(index, rng.random(len(index)) * 2)

    def work() -> None:
        nonlocal count
        if append:
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


# Settings of our own tables, the first of which the others are compared with.
TABLES: dict[str, Callable[[dict[str, Any], int, int, int], Round]] = {
    "backcast": backcast_contender,
    'backcast, initial="held"': partial(
        backcast_contender, select=bc.Priority(alpha=ALPHA, beta=BETA, initial="held")
    ),
    'backcast, alpha="table"': partial(
        backcast_contender, select=bc.Priority(alpha="table", beta=BETA)
    ),
}


def changes_of_alpha(data: dict[str, Any], rounds: int) -> list[float]:
    """Return the milliseconds that changes of the exponent of all rows take."""
    buf, writer = filled(data, None)
    rows = len(data["reward"])
    prioritised(buf, rows, 256, 7, bc.Priority(alpha="table", beta=BETA))
    sampler = buf.sampler(select=bc.Priority(alpha="table", beta=BETA))
    times = []
    for number in range(rounds):
        start = time.perf_counter()
        sampler.alpha = 0.5 + number / 100
        times.append(1e3 * (time.perf_counter() - start))
    writer.close()
    return times


def rate_of(work: Round, batch: int, seconds: float) -> float:
    """Repeat rounds of work for some seconds; return the rows drawn per second."""
    batches, start = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - start) < seconds:
        work()
        batches += 1
    return batches * batch / elapsed


Result = tuple[str, int, float]


def learner(
    number: int, names: list[str], given: argparse.Namespace, start: Barrier, results: Queue[Result]
) -> None:
    """Draw in turns from the ring that both processes share, and from the process's own ring."""
    bufs = {"one tree": bc.ReplayBuffer.attach(names[0])}
    bufs["two trees"] = bc.ReplayBuffer.attach(names[1 + number])
    works = {kind: prioritised(buf, given.rows, given.batch, number) for kind, buf in bufs.items()}
    for round_number in range(given.rounds):
        for kind, work in works.items():
            start.wait()
            results.put((kind, round_number, rate_of(work, given.batch, given.seconds)))


def two_processes(given: argparse.Namespace) -> None:
    """Print the rows per second of two processes that share a sum tree, and with a tree each."""
    data = columns(given.rows, np.random.default_rng(0))
    context = mp.get_context("spawn")
    names = [f"priorities-{number}" for number in range(3)]
    rings = [filled(data, name) for name in names]
    start, results = context.Barrier(2), context.Queue()
    learners = [
        context.Process(target=learner, args=(number, names, given, start, results))
        for number in range(2)
    ]
    for process in learners:
        process.start()
    sums: dict[str, list[float]] = {}
    for _ in range(2 * 2 * given.rounds):
        kind, round_number, rate = results.get()
        rounds = sums.setdefault(kind, [0.0] * given.rounds)
        rounds[round_number] += rate
    for process in learners:
        process.join()
    one, two = statistics.median(sums["one tree"]), statistics.median(sums["two trees"])
    for kind, rates in sums.items():
        shown = {"kind": kind, "rows_per_s": round(statistics.median(rates))}
        print(json.dumps({**shown, "range": [round(min(rates)), round(max(rates))]}))
    print(json.dumps({"one tree / two trees": round(one / two, 3)}))
    for buf, writer in rings:
        writer.close()
        buf.close()


def main() -> None:
    """Run all contenders in turn and print rows per second."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--append", type=int, default=0)
    parser.add_argument("--two-processes", action="store_true")
    parser.add_argument("--tables", action="store_true")
    given = parser.parse_args()
    if given.two_processes:
        two_processes(given)
        return
    data = columns(given.rows, np.random.default_rng(0))
    works: dict[str, Round] = {}
    for name, contender in (TABLES if given.tables else CONTENDERS).items():
        try:
            works[name] = contender(data, given.batch, given.append, 7)
        except ImportError as error:
            print(f"{name}: left out, {error}")
    rates: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(given.rounds):
        for name, work in works.items():
            rates[name].append(rate_of(work, given.batch, given.seconds))
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
    if given.tables:
        times = changes_of_alpha(data, given.rounds)
        shown = {"change of alpha, ms": round(statistics.median(times), 2)}
        print(json.dumps({**shown, "range": [round(min(times), 2), round(max(times), 2)]}))


if __name__ == "__main__":
    main()
