"""Draws of TensorDicts: TorchRL's buffer, the same buffer over a ring, and Backcast's sampler.

Needs TorchRL: ``.venv-adapters/bin/python benches/python/torchrl_draws.py``. Each round calls all
of them in turns; the figures are medians of CPU microseconds of the process.
"""

from __future__ import annotations

import backcast as bc
import torch
from backcast.torchrl import Sampler, Storage
from in_turns import measure
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
