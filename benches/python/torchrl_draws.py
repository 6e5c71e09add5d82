"""Draws of TensorDicts: TorchRL's buffer, the same buffer over a ring, and Backcast's sampler.

Needs TorchRL: ``.venv-adapters/bin/python benches/python/torchrl_draws.py``. Each round calls all
of them in turns; the figures are medians of CPU microseconds of the process.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import backcast as bc
import torch
from backcast.torchrl import Sampler, Storage
from tensordict import TensorDict
from torchrl.data import LazyTensorStorage, SliceSampler, TensorDictReplayBuffer

COUNT, EPISODE = 100_000, 1_000


def steps() -> TensorDict:
    """Return steps of vectors of 17 numbers with 6 actions, in episodes of a fixed length."""
    seen = torch.randn(COUNT + 1, 17)
    ends = (torch.arange(COUNT) % EPISODE == EPISODE - 1)[:, None]
    return TensorDict(
        {
            "observation": seen[:-1],
            "action": torch.randn(COUNT, 6),
            "next": {
                "observation": seen[1:],
                "reward": torch.randn(COUNT, 1),
                "done": ends,
                "terminated": ends,
                "truncated": torch.zeros_like(ends),
            },
        },
        [COUNT],
    )


def microseconds(call: Callable[[], object], times: int) -> float:
    """Return the CPU time of a call of the process, all threads included."""
    start = time.process_time()
    for _ in range(times):
        call()
    return (time.process_time() - start) / times * 1e6


def measure(title: str, calls: dict[str, Callable[[], object]], times: int, rounds: int) -> None:
    """Call all in turns, and print the medians and the ratios to the first."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        microseconds(call, times)
    for _ in range(rounds):
        for name, call in calls.items():
            found[name].append(microseconds(call, times))
    first = statistics.median(next(iter(found.values())))
    for name, of in found.items():
        middle = statistics.median(of)
        print(f"{title}: {name:28} {middle:9.1f} us  {first / middle:6.2f}x")


def main() -> None:
    """Print the figures."""
    torch.set_num_threads(1)
    data = steps()
    theirs = TensorDictReplayBuffer(storage=LazyTensorStorage(COUNT), batch_size=256)
    ours = TensorDictReplayBuffer(storage=Storage(COUNT), batch_size=256)
    for buffer in (theirs, ours):
        buffer.extend(data.clone())
    sampler = Sampler(ours.storage.ring, seed=1)
    n_step = Sampler(ours.storage.ring, seed=1, n_step=3, gamma=0.99)
    measure(
        "draw 256",
        {
            "TorchRL": theirs.sample,
            "TorchRL over a ring": ours.sample,
            "backcast.torchrl.Sampler": lambda: sampler.sample(256),
            "the same, 3-step returns": lambda: n_step.sample(256),
        },
        times=100,
        rounds=15,
    )
    slices = TensorDictReplayBuffer(
        storage=theirs.storage, sampler=SliceSampler(slice_len=80), batch_size=80 * 64
    )
    over_ring = TensorDictReplayBuffer(
        storage=ours.storage, sampler=SliceSampler(slice_len=80), batch_size=80 * 64
    )
    sequences = Sampler(
        ours.storage.ring, seed=1, form=bc.Sequence(80, stride=1), boundary="reject"
    )
    measure(
        "draw 64 x 80",
        {
            "TorchRL": slices.sample,
            "TorchRL over a ring": over_ring.sample,
            "backcast.torchrl.Sampler": lambda: sequences.sample(64),
        },
        times=5,
        rounds=7,
    )
    one = data[:1].clone()
    measure(
        "extend by 1",
        {
            "TorchRL": lambda: theirs.extend(one),
            "TorchRL over a ring": lambda: ours.extend(one),
        },
        times=50,
        rounds=7,
    )
    many = data[:1000].clone()
    measure(
        "extend by 1,000",
        {
            "TorchRL": lambda: theirs.extend(many),
            "TorchRL over a ring": lambda: ours.extend(many),
        },
        times=5,
        rounds=7,
    )


if __name__ == "__main__":
    main()
