"""Rings for tests of tensors, and a stand-in for copies to a GPU that reads as late as it may."""

from __future__ import annotations

from typing import Any

import backcast as bc
import numpy as np
import torch
from backcast.torch import _tensors, _transfer


class DelayedCopy:
    """Copy that reads its batch when it is waited for, or after `polls` questions."""

    def __init__(self, owner: DelayedCopies, pairs: list[tuple[Any, Any]], polls: int) -> None:
        self.owner, self.pairs, self.polls = owner, pairs, polls
        self.reads: bool = False

    def is_done(self) -> bool:
        self.polls -= 1
        if self.polls < 0:
            self.finish()
        return self.reads

    def finish(self) -> None:
        if not self.reads:
            self.reads = True
            for source, target in self.pairs:
                target.copy_(source)
            self.owner.pending.remove(self)

    def hand_over(self, tensors: dict[str, Any]) -> None:
        self.owner.handed_over += 1
        if self.owner.reads_when_handed_over:
            self.finish()


class DelayedCopies:
    """Copies to the CPU that are under way until somebody waits for them.

    Tensors that were handed over are filled then too: a GPU's stream waits, and the host does not.
    With `reads_when_handed_over` the host may use them at once.
    """

    def __init__(self, *, polls: int = 3, reads_when_handed_over: bool = False) -> None:
        self.polls, self.reads_when_handed_over = polls, reads_when_handed_over
        self.pending: list[DelayedCopy] = []
        self.begun = self.handed_over = self.allocated = self.released = 0
        self.fails_after: int | None = None
        self.error: BaseException = RuntimeError("out of memory on the device")

    def allocate(self, size: int) -> _transfer.HostMemory:
        self.allocated += 1

        def release() -> None:
            assert not self.pending, "the page lock ends while copies are under way"
            self.released += 1

        return _transfer.HostMemory(_transfer.private_memory(size), release, None)

    def begin(self, values: dict[str, Any]) -> tuple[dict[str, Any], DelayedCopy]:
        pairs: list[tuple[Any, Any]] = []
        tensors = self._blank(_tensors.tensors_of(values), pairs)
        copy = DelayedCopy(self, pairs, self.polls)
        self.pending.append(copy)
        self.begun += 1
        if self.fails_after is not None and self.begun > self.fails_after:
            raise self.error
        return tensors, copy

    def drain(self) -> None:
        for copy in list(self.pending):
            copy.finish()

    def _blank(self, values: dict[str, Any], pairs: list[tuple[Any, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in values.items():
            if isinstance(value, dict):
                found[key] = self._blank(value, pairs)
            else:
                found[key] = torch.full_like(value, 1)
                pairs.append((value, found[key]))
        return found


def leaves(values: dict[str, Any], path: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            found |= leaves(value, f"{path}{key}/")
        else:
            found[path + key] = value
    return found


def assert_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Assert that tensors, or arrays, have the same bits under the same keys."""
    left, right = leaves(one), leaves(other)
    assert list(left) == list(right)
    for key in left:
        a, b = (_bits(each[key]) for each in (left, right))
        assert a[:2] == b[:2], key
        assert a[2] == b[2], key


def _bits(value: Any) -> tuple[str, tuple[int, ...], bytes]:
    if isinstance(value, torch.Tensor):
        kind = str(value.dtype).removeprefix("torch.")
        value = value.contiguous()
        if value.dtype == torch.bfloat16:
            value = value.view(torch.uint16)
        return kind, tuple(value.shape), value.numpy().tobytes()
    return str(value.dtype), value.shape, np.ascontiguousarray(value).tobytes()


def filled(rows: int = 400, name: str | None = None, **options: Any) -> bc.ReplayBuffer:
    """Return a ring of two lanes with images, vectors, goals and episodes of 9 and 13 steps."""
    columns = {
        "obs": {"image": ("u1", (3, 2)), "speed": ("f2", (2,))},
        "action": ("f4", (2,)),
        "day": "i8",
        "reward": "f4",
    }
    buf = bc.ReplayBuffer.create(name, columns, capacity=600, lanes=2, **options)
    fill(buf, rows)
    return buf


def fill(buf: bc.ReplayBuffer, rows: int, first: int = 0) -> None:
    draw = np.random.default_rng(first + 3)
    with buf.writer(2, autoreset_mode="same_step") as writer:
        for t in range(first, first + rows):
            image = np.full((2, 3, 2), t % 251, np.uint8)
            image[1] += 1
            ends = t % 9 == 8 or t % 13 == 12
            writer.append(
                obs={"image": image, "speed": draw.normal(size=(2, 2))},
                final_obs={"image": image + 3, "speed": image[:, 0] / 7} if ends else None,
                action=draw.normal(size=(2, 2)),
                day=[t, -t],
                reward=draw.normal(size=2),
                terminated=[t % 9 == 8, False],
                truncated=[False, t % 13 == 12],
            )
