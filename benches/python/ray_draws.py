"""Draws over three simulated nodes of Ray, against plain calls of actors and raw bytes.

    PYTHONPATH=pybind/python .venv-ray/bin/python benches/python/ray_draws.py

Rows of 4 kB: observations of 512 float32, twice in a batch. Seven rounds call all contenders in
turns; figures are medians, of the clock where several processes work and of CPU time for appends.
Needs the environment of `make test-ray`; with TorchRL in it, its `RayReplayBuffer` is measured too.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import backcast as bc
import numpy as np
from backcast.ray._link import PART_BYTES
from in_turns import measure
from numpy.typing import NDArray

if TYPE_CHECKING:
    from backcast.ray import Shards, ShardSampler

_ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [
    str(_ROOT / folder) for folder in ("tests/on_ray", "pybind/tests/sampling", "pybind/tests")
]

# Sets what Ray reads when it is imported.
nodes: Any = importlib.import_module("nodes")
ray: Any = nodes.ray

NODES, BATCH, ROUNDS, TIMES = 3, 256, 7, 40
OBS = 512
COLUMNS = {"obs": ("f4", (OBS,)), "reward": "f4"}
STEPS, CAPACITY = 4_000, 5_000
APPENDS = 4_000
THIRDS = (86, 85, 85)
WIRE_BATCHES = 400
MANY, WARM_DRAWS, MANY_DRAWS = (10, 100, 1_000), 20, 60
OWN = ("shard", "cut_age", "weight")
"""Arrays of a batch that do not come over the network."""


class Plain:
    """An actor as one writes it without Backcast's shards: it draws from the ring of its node."""

    def __init__(self, ring: str) -> None:
        self.sampler = bc.ReplayBuffer.attach(ring).sampler(seed=1)
        self.chunks: list[NDArray[np.uint8]] = []

    def sample(self, items: int) -> dict[str, NDArray[Any]]:
        """Return a batch, as one object."""
        return dict(self.sampler.sample(items))

    def keep(self, nbytes: int, parts: int) -> None:
        """Make the bytes that `raw` returns."""
        whole = np.zeros(nbytes, np.uint8)
        self.chunks = np.array_split(whole, parts)

    def nothing(self) -> None:
        """Do nothing."""

    def raw(self) -> NDArray[np.uint8] | list[NDArray[np.uint8]]:
        """Return them, without drawing anything."""
        return self.chunks if len(self.chunks) > 1 else self.chunks[0]


def fill(ring: bc.ReplayBuffer) -> None:
    """Append rows, whatever they hold."""
    with ring.writer() as writer:
        for step in range(STEPS + 1):
            writer.append(
                obs=np.full(OBS, step, "f4"), reward=step, terminated=False, truncated=False
            )


@contextmanager
def cluster() -> Iterator[tuple[Shards, list[Any], list[str]]]:
    """Start three nodes with a full shard and a plain actor each; yield their ids too."""
    from backcast.ray import Shards
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    with nodes.nodes_of(NODES) as started:
        name = f"bench-{os.getpid()}"
        shards = Shards.create(name, COLUMNS, capacity=CAPACITY, label=nodes.LABEL)
        try:
            for ring in shards.rings:
                with bc.ReplayBuffer.attach(ring) as attached:
                    fill(attached)
            plain, ids = [], [started.by_value[str(k)].node_id for k in range(NODES)]
            for node, ring in zip(ids, shards.rings, strict=True):
                place = NodeAffinitySchedulingStrategy(node, soft=False)
                options = ray.remote(Plain).options(num_cpus=0, scheduling_strategy=place)
                plain.append(options.remote(ring))
            yield shards, plain, ids
        finally:
            shards.unlink()


def in_order(plain: list[Any]) -> None:
    """Draw a third of the rows from each actor, one after the other."""
    for actor, items in zip(plain, THIRDS, strict=True):
        ray.get(actor.sample.remote(items))


class Raw:
    """The bytes of a batch, in parts that Ray returns inline, from all actors side by side."""

    def __init__(self, plain: list[Any], nbytes: float, ahead: int) -> None:
        self.plain = plain
        self.parts = max(1, int(-(-nbytes // PART_BYTES)))
        ray.get([actor.keep.remote(int(nbytes), self.parts) for actor in plain])
        self.asked: list[list[Any]] = []
        for _ in range(ahead):
            self.ask()

    def ask(self) -> None:
        """Ask all actors for the bytes of a batch."""
        refs: list[Any] = []
        for actor in self.plain:
            called = actor.raw.options(num_returns=self.parts).remote()
            refs += called if self.parts > 1 else [called]
        self.asked.append(refs)

    def get(self) -> None:
        """Get the oldest that were asked for, and ask again."""
        self.ask()
        ray.get(self.asked.pop(0))


def bytes_of(sampler: ShardSampler) -> tuple[int, int, int]:
    """Return items and bytes that came, and items that were dropped with their heads."""
    shards = sampler.stats()["shards"]
    items, nbytes, dropped = (
        sum(of[key] for of in shards) for key in ("items", "bytes", "dropped")
    )
    return items, nbytes, dropped


def received() -> int:
    """Return the bytes that the loopback interface has carried."""
    for line in Path("/proc/net/dev").read_text().splitlines():
        name, _, counts = line.partition(":")
        if name.strip() == "lo":
            return int(counts.split()[0])
    return 0


def wire(shards: Shards) -> None:
    """Print the bytes that a draw without pauses takes, against those of the items that it uses."""
    with shards.sampler(seed=3) as sampler:
        batch = sampler.sample(BATCH)
        row = sum(array[:1].nbytes for name, array in batch.items() if name not in OWN)
        for _ in range(20):
            sampler.sample(BATCH)
        items, nbytes, dropped = bytes_of(sampler)
        before, began = received(), time.perf_counter()
        for _ in range(WIRE_BATCHES):
            sampler.sample(BATCH)
        carried, seconds = received() - before, time.perf_counter() - began
        more_items, more_bytes, more_dropped = bytes_of(sampler)
        before, began = received(), time.perf_counter()
        time.sleep(5)
        idle = (received() - before) / (time.perf_counter() - began) * seconds
    used = BATCH * WIRE_BATCHES
    lost = more_dropped - dropped
    print(
        f"bytes: of items that came / used {(more_bytes - nbytes) / (used * row):.4f}, "
        f"items that came {more_items - items}, used {used}, dropped {lost}; "
        f"on the loopback interface {(carried - idle) / (used * row):.4f}, of which "
        f"{idle / (used * row):.4f} more while idle",
        flush=True,
    )


def draws(shards: Shards, plain: list[Any]) -> None:
    """Print the times of draws."""
    clock = time.perf_counter
    with shards.sampler(seed=1) as two, shards.sampler(seed=2, prefetch=0) as none:
        batch = two.sample(BATCH)
        row = sum(array[:1].nbytes for name, array in batch.items() if name not in OWN)
        print(f"bytes of a row: {row}")
        sample = partial(two.sample, BATCH)
        measure(
            "draw",
            {"three plain calls in order": partial(in_order, plain), "two blocks ahead": sample},
            TIMES,
            ROUNDS,
            clock,
        )
        nbytes = BATCH * row / NODES
        bare, ahead = Raw(plain, nbytes, 0), Raw(plain, nbytes, 2)
        found = measure(
            "draw, against raw bytes",
            {
                "raw bytes, none ahead": bare.get,
                "no blocks ahead": partial(none.sample, BATCH),
                "raw bytes, two ahead": ahead.get,
                "two blocks ahead": sample,
            },
            TIMES,
            ROUNDS,
            clock,
        )
        pause = found["no blocks ahead"] / 1e6

        def learn(draw: Callable[[], object]) -> None:
            draw()
            time.sleep(pause)

        measure(
            f"draw and wait {pause * 1e3:.2f} ms",
            {
                "no blocks ahead": partial(learn, partial(none.sample, BATCH)),
                "two blocks ahead": partial(learn, sample),
            },
            TIMES,
            ROUNDS,
            clock,
        )


def cpu(shards: Shards, plain: list[Any]) -> None:
    """Print the CPU time of the learner's process for a call and for a draw."""
    with shards.sampler(seed=4) as two:
        measure(
            "CPU time of the learner",
            {
                "a call of each of three": lambda: ray.get([of.nothing.remote() for of in plain]),
                "a draw, two blocks ahead": partial(two.sample, BATCH),
            },
            TIMES,
            ROUNDS,
        )


def many() -> None:
    """Print the calls and the bytes of a draw over many shards, which are all in this process."""
    local: Any = importlib.import_module("local_shards")
    obs, action = np.zeros(17, "f4"), np.zeros(6, "f4")
    columns = {"obs": ("f4", (17,)), "action": ("f4", (6,)), "reward": "f4"}
    for count in MANY:
        with local.started(local.spec_of(count, columns, 64)) as started:
            for shard in started:
                with shard.ring.writer() as writer:
                    for _ in range(20):
                        writer.append(
                            obs=obs, action=action, reward=0, terminated=False, truncated=False
                        )
            known = [0, 0, 0]
            # A hundred draws in a second of a clock of its own.
            sampler = local.sampler_of(started, clock=partial(seconds, drawn := [0]))
            for draw in range(1, WARM_DRAWS + MANY_DRAWS + 1):
                drawn[0] = draw
                sampler.sample(BATCH)
                if draw == WARM_DRAWS:
                    known = [blocks_of(sampler), *bytes_of(sampler)[1:]]
            now = [blocks_of(sampler), *bytes_of(sampler)[1:]]
            calls, nbytes, dropped = (
                (new - old) / MANY_DRAWS for new, old in zip(now, known, strict=True)
            )
            print(
                f"{count} shards, a draw: {calls:.1f} blocks, {nbytes:,.0f} bytes, "
                f"{dropped:.0f} items dropped",
                flush=True,
            )
            sampler.close()


def seconds(drawn: list[int]) -> float:
    """Return the time of a clock that goes on by ten milliseconds with each draw."""
    return drawn[0] / 100


def blocks_of(sampler: ShardSampler) -> int:
    """Return the blocks that came."""
    return sum(of["blocks"] for of in sampler.stats()["shards"])


def appends(shards: Shards) -> None:
    """Print the CPU time of appends to a private ring, and to the ring of a shard."""
    from backcast.ray import Shards

    obs = np.zeros(17, "f4")
    columns = {"obs": ("f4", (17,)), "action": ("f4", (6,)), "reward": "f4"}
    action = np.zeros(6, "f4")
    beside = Shards.create(
        f"{shards.name}-small", columns, capacity=100_000, label=nodes.LABEL, lanes=2
    )
    try:
        with (
            bc.ReplayBuffer.create(None, columns, capacity=100_000) as alone,
            bc.ReplayBuffer.attach(beside.rings[0]) as ring,
            alone.writer() as first,
            ring.writer() as second,
        ):

            def append(writer: bc.Writer) -> None:
                for _ in range(APPENDS):
                    writer.append(
                        obs=obs, action=action, reward=0, terminated=False, truncated=False
                    )

            measure(
                f"append {APPENDS}, CPU time",
                {
                    "without Ray": partial(append, first),
                    "beside a shard's actor": partial(append, second),
                },
                5,
                3 * ROUNDS,
            )
    finally:
        beside.unlink()


def torchrl(shards: Shards, ids: list[str]) -> None:
    """Print the time of a draw from TorchRL's buffer, if it is installed.

    Its actor is on the learner's node, where they share memory, and on another one.
    """
    try:
        import torch
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
        from tensordict import TensorDict
        from torchrl.data import LazyTensorStorage, RayReplayBuffer
    except ImportError:
        print("TorchRL is not installed: its RayReplayBuffer is left out")
        return
    torch.set_num_threads(1)
    seen, ends = torch.zeros(STEPS, OBS), torch.zeros(STEPS, 1, dtype=torch.bool)
    following = {"observation": seen, "reward": torch.zeros(STEPS, 1)}
    following |= {"terminated": ends, "truncated": ends}
    rows = TensorDict({"observation": seen, "next": following}, [STEPS])
    theirs = [
        RayReplayBuffer(
            storage=partial(LazyTensorStorage, CAPACITY),
            batch_size=BATCH,
            remote_config={
                "num_cpus": 0,
                "scheduling_strategy": NodeAffinitySchedulingStrategy(node, soft=False),
            },
            transport="ray",
        )
        for node in ids[:2]
    ]
    try:
        for buffer in theirs:
            buffer.extend(rows)
        with shards.sampler(seed=1) as two, shards.sampler(seed=2, prefetch=0) as none:
            measure(
                "draw, against TorchRL",
                {
                    "RayReplayBuffer on the learner's node": theirs[0].sample,
                    "RayReplayBuffer on another node": theirs[1].sample,
                    "no blocks ahead": partial(none.sample, BATCH),
                    "two blocks ahead": partial(two.sample, BATCH),
                },
                TIMES,
                ROUNDS,
                time.perf_counter,
            )
    finally:
        for buffer in theirs:
            buffer.shutdown()


def main() -> None:
    """Print the figures."""
    print(f"load {os.getloadavg()[0]:.1f}", flush=True)
    many()
    with cluster() as (shards, plain, ids):
        draws(shards, plain)
        wire(shards)
        cpu(shards, plain)
        appends(shards)
        torchrl(shards, ids)
    print(f"load {os.getloadavg()[0]:.1f}", flush=True)


if __name__ == "__main__":
    main()
