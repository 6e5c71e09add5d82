"""Heads of shards elsewhere, which are replaced by their age in time and in draws."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from backcast._batch import Batch
from backcast._shards import BlockHeads, Drawn, _Head, gathered
from backcast.errors import BackcastError
from backcast.ray._link import Link, ShardBlock

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_AGE_S = 0.1
"""Seconds that a block is used at least."""
_MORE_DRAWS = 2
"""Draws that a block is used at least, beyond those that it was asked for ahead."""


class NothingError(BackcastError):
    """No shard has a block with anything to draw."""


class RemoteHeads(BlockHeads):
    """Heads of shards elsewhere, and draws over all of them.

    A head is dropped when it is both older than 100 ms and asked for several draws ago: by its
    time, and never by what it holds. So a slow learner does not wait for blocks that it asked for
    while it computed, and the rows of a shard that is drawn rarely are not those of long ago.

    Parameters
    ----------
    links : list of Link
        The shards.
    seed : int
        Seed of the choice of shards.
    prefetch : int
        Blocks that are asked for ahead.
    clock : callable
        Time in seconds.
    """

    def __init__(
        self, links: list[Link], *, seed: int, prefetch: int, clock: Callable[[], float]
    ) -> None:
        super().__init__([link.next for link in links], seed=seed, clock=clock)
        self._links, self._most_draws = links, prefetch + _MORE_DRAWS
        self.number = 0
        """Number of the next draw."""

    def draw(self, items: int) -> Drawn:
        """Draw items over all shards that answer.

        Raises
        ------
        NothingError
            If no shard has anything to draw.
        SampleError
            If 10,000 items in a row were rejected.
        """
        for link in self._links:
            if link.status == "lost":
                self._drop(link.number)
            link.drop_blocks(self._is_old)
        drawn = super().draw(items)
        self.number += 1
        return drawn

    def shares(self) -> list[float]:
        """Return the part of the draws that each shard has; equal parts while nothing is known."""
        masses = self._masses()
        total = float(masses.sum())
        if total <= 0:
            return [1 / len(masses)] * len(masses)
        return [float(mass) / total for mass in masses]

    def needs_block(self, number: int) -> bool:
        """Return whether a shard's head is to be replaced before the next draw."""
        return self._is_over(self._heads[number])

    def present(self) -> list[ShardBlock]:
        """Return the blocks that are heads."""
        heads = (head.block for head in self._heads if head is not None)
        return [block for block in heads if isinstance(block, ShardBlock)]

    def _picks(self, most: int) -> NDArray[np.int64]:
        if not self._masses().any():
            self._replace(self._is_over)
            if not self._masses().any():
                raise NothingError("no shard has anything to draw")
        return super()._picks(most)

    def _is_old(self, block: ShardBlock) -> bool:
        return (
            self._clock() - block.asked > MAX_AGE_S and self.number - block.draw > self._most_draws
        )

    def _is_over(self, head: _Head | None) -> bool:
        if head is None or head.left == 0 or head.block.mass <= 0:
            return True
        assert isinstance(head.block, ShardBlock)
        link = self._links[head.block.shard % len(self._links)]
        return head.block.shard != link.shard or self._is_old(head.block)

    def _drop(self, number: int) -> None:
        """Drop a head, and count the items that were not taken."""
        head, self._heads[number] = self._heads[number], None
        if head is not None:
            self._links[number].counts["dropped"] += head.left

    def _replace(self, is_over: Callable[[_Head | None], bool]) -> None:
        for k, head in enumerate(self._heads):
            if is_over(head):
                self._drop(k)
                block = self._links[k].next()
                # A block without items is that of a shard without rows.
                has_items = block is not None and len(block.q) > 0
                self._heads[k] = _Head(block, block.asked) if block and has_items else None


def assembled(drawn: Drawn, now_s: float) -> Batch:
    """Return drawn items as a batch of arrays of its own, with ``shard`` and ``cut_age``.

    Parameters
    ----------
    drawn : Drawn
        Items of blocks that came over the network.
    now_s : float
        Time from which the age of a block is counted.
    """
    parts: list[tuple[dict[str, Any], NDArray[np.int64], NDArray[np.int64]]] = []
    shard = np.empty(len(drawn.q), np.int64)
    age = np.empty(len(drawn.q), np.float32)
    runs: dict[int, tuple[ShardBlock, list[Any], list[Any]]] = {}
    for block, at, places in drawn.parts:
        assert isinstance(block, ShardBlock)
        _, ats, tos = runs.setdefault(id(block), (block, [], []))
        ats.append(at)
        tos.append(places)
    for block, ats, tos in runs.values():
        at, places = np.concatenate(ats), np.concatenate(tos)
        shard[places], age[places] = block.shard, now_s - block.asked
        parts.append((block.batch, at, places))
    made = Batch(gathered(parts, len(drawn.q)))
    made["shard"], made["cut_age"] = shard, age
    return made
