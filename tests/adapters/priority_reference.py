"""Reference of prioritised draws in NumPy: every leaf in one array, and the generator's numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

ONE = 1 << 24
MASK = (1 << 64) - 1


def philox(counter: list[int], key: list[int]) -> list[int]:
    """Compute Philox 4x32-10 (Salmon et al., SC11)."""
    low = 0xFFFFFFFF
    for _ in range(10):
        first, second = counter[0] * 0xD2511F53, counter[2] * 0xCD9E8D57
        counter = [
            second >> 32 ^ counter[1] ^ key[0],
            second & low,
            first >> 32 ^ counter[3] ^ key[1],
            first & low,
        ]
        key = [key[0] + 0x9E3779B9 & low, key[1] + 0xBB67AE85 & low]
    return counter


def below(bound: int, seed: int, batch: int, item: int) -> int:
    """Return the number of an item's first attempt, uniform below `bound` (Lemire, 2019)."""
    words = philox([batch & 0xFFFFFFFF, batch >> 32, item // 2, 0], [seed & 0xFFFFFFFF, seed >> 32])
    bits = words[0] << 32 | words[1] if item % 2 == 0 else words[2] << 32 | words[3]
    product = bits * bound
    assert product & MASK >= (1 << 64) % bound, "rejected: choose another seed of the test"
    return product >> 64


def beta_of(select: Any, batch: int) -> float:
    """Return the exponent of the weights for a batch; `beta` is a pair."""
    first, batches = select.beta
    return float(first + (1 - first) * min(1.0, batch / batches))


class Rows:
    """Leaves of the rows of a ring, in integers, as its samplers draw by them."""

    def __init__(self, ring: Any, select: Any) -> None:
        self.ring, self.select = ring, select
        self.transitions: set[int] = set()
        self.leaves: dict[int, int] = {}
        self.entered: dict[int, int] = {}
        self.largest, self.batch = ONE, 0

    def added(self, index: Any) -> None:
        self.transitions |= set(index.tolist())

    def enter(self) -> None:
        """Give leaves to rows that have a successor; forget those that are overwritten."""
        for at in list(self.leaves):
            if at & (1 << 48) - 1 < self.ring.lane_span(at >> 48)[0]:
                del self.leaves[at]
        initial = self.largest
        if self.select.initial == "held":
            initial = max(self.leaves.values(), default=ONE)
        for lane in range(self.ring.lanes):
            _, end = self.ring.lane_span(lane)
            for seq in range(self.entered.get(lane, 0), end - 1):
                index = lane << 48 | seq
                if index in self.transitions:
                    self.leaves[index] = initial
            self.entered[lane] = end - 1

    def drawn(self, items: int, seed: int | None) -> tuple[Any, Any]:
        """Return the indices and weights of a batch.

        Without a seed, it is the number that the buffer is about to draw.
        """
        self.enter()
        if seed is None:
            state = np.random.get_state()
            seed = int(np.random.randint(0, 2**31))
            np.random.set_state(state)
        # Leaves stand by lane, then by row modulo the leaves of a lane.
        each = -(-self.ring.stats()["lane_capacity"] // 8) * 8
        place = {at: (at >> 48, (at & (1 << 48) - 1) % each) for at in self.leaves}
        order = sorted(self.leaves, key=place.__getitem__)
        leaves = np.array([self.leaves[at] for at in order], np.int64)
        sums = leaves.cumsum()
        total = int(sums[-1])
        numbers = []
        for item in range(items):
            first, length = 0, total
            if self.select.stratified:
                first = total * item // items
                length = total * (item + 1) // items - first
            numbers.append(first + below(length, seed, self.batch, item))
        chosen = np.searchsorted(sums, numbers, side="right")
        beta = beta_of(self.select, self.batch)
        self.batch += 1
        weights = (leaves[chosen].min() / leaves[chosen]) ** beta
        return np.array(order)[chosen], weights

    def updated(self, indices: Any, priorities: Any) -> None:
        for index, priority in zip(indices.tolist(), priorities, strict=True):
            power = (priority + self.select.eps) ** self.select.alpha
            self.leaves[index] = max(1, int(power * ONE + 0.5))
            self.largest = max(self.largest, self.leaves[index])


class Places:
    """Powers of the transitions that were added, by their numbers, as `sampling="sb3"` draws."""

    def __init__(self, buffer: Any, select: Any) -> None:
        self.buffer, self.select = buffer, select
        self.powers: dict[int, float] = {}
        self.largest, self.batch, self.count = 1.0, 0, 0

    def added(self, _: Any) -> None:
        lanes = self.buffer.n_envs
        for number in range(self.count, self.count + lanes):
            self.powers.pop(number - self.buffer.buffer_size * lanes, None)
        initial = self.largest
        if self.select.initial == "held":
            initial = max(self.powers.values(), default=1.0)
        for _ in range(lanes):
            self.powers[self.count] = initial
            self.count += 1

    def drawn(self, items: int, _: int | None) -> tuple[Any, Any]:
        """Return the numbers and weights of a batch."""
        state = np.random.get_state()
        numbers = np.random.random_sample(items)
        np.random.set_state(state)
        if self.select.stratified:
            numbers = (np.arange(items) + numbers) / items
        size = self.buffer.buffer_size * self.buffer.n_envs
        order = sorted(self.powers, key=lambda number: number % size)
        powers = np.array([self.powers[number] for number in order])
        sums = powers.cumsum()
        chosen = np.searchsorted(sums / sums[-1], numbers, side="right")
        beta = beta_of(self.select, self.batch)
        self.batch += 1
        # The importance weights of the paper, divided by the largest of the batch.
        weights = (len(powers) * powers[chosen] / sums[-1]) ** -beta
        return np.array(order)[chosen], weights / weights.max()

    def updated(self, indices: Any, priorities: Any) -> None:
        for number, priority in zip(indices.tolist(), priorities, strict=True):
            power = max((priority + self.select.eps) ** self.select.alpha, 2.0**-24)
            self.powers[number] = power
            self.largest = max(self.largest, power)
