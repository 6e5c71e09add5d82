"""Draws over several rings as if they were one.

A shard is a ring whose sampler answers with blocks: independent draws, and the mass that they were
drawn from. The block of a shard that items are taken from is its head. For each item
:class:`BlockHeads` chooses a shard in proportion to the masses of the heads, and takes the next
item of its head. A head that is empty is replaced by the shard's next block, with its own mass.

So every draw has exactly the probability ``q / sum of masses`` over the rows that the heads were
drawn from. The items of a block are independent, and a head is replaced at a time that does not
depend on items that were not taken yet. A rejected item is a trial like any other: the shard is
chosen again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from backcast.errors import SampleError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from backcast._batch import Batch

_MOST_REJECTED = 10_000
"""Rejected items in a row after which a draw fails."""


@dataclass(frozen=True, eq=False)
class Block:
    """Independent draws of one ring, and the mass that they were drawn from.

    Made by :meth:`backcast.Sampler.block`, which describes the fields.
    """

    batch: Batch
    count: int
    mass: float
    q: NDArray[np.float64]
    q_min: float
    q_new: float
    inserts: int | None

    @property
    def rejected(self) -> int:
        """Number of items that were rejected."""
        return int((self.q <= 0).sum())


@dataclass(eq=False)
class _Head:
    """Block of a shard whose items are being taken."""

    block: Block
    since: float
    taken: int = 0

    @property
    def left(self) -> int:
        return len(self.block.q) - self.taken


@dataclass(frozen=True, eq=False)
class Drawn:
    """Items that were drawn over several shards.

    Parameters
    ----------
    shard : ndarray of int64, [B]
        Shard of each item.
    q : ndarray of float64, [B]
        Mass of each item.
    parts : list of tuple
        Blocks that the items come from: the block, the places of its items in it, and their places
        among the drawn ones.
    heads : list of tuple
        Heads of all shards, None for a shard without one, for each run of draws between two
        replacements.
    run : ndarray of int64, [B]
        Run of each item, a place in ``heads``.
    cut_age : float
        Seconds since the oldest head in use came.
    """

    shard: NDArray[np.int64]
    q: NDArray[np.float64]
    parts: list[tuple[Block, NDArray[np.int64], NDArray[np.int64]]]
    heads: list[tuple[Block | None, ...]]
    run: NDArray[np.int64]
    cut_age: float

    def weights(
        self, beta: float, normalize: Literal["batch", "table"] | None = "batch"
    ) -> NDArray[np.float32]:
        """Return the importance weight of each item, ``(N q / M) ** -beta``.

        ``N`` and ``M`` are the transitions and the mass of all heads at the draw. The weights are
        divided by the largest of the batch, or with ``"table"`` by that of the smallest mass of any
        shard. Where items are rejected, weights that are not divided are too large by a constant.

        Parameters
        ----------
        beta : float
            Exponent, 0 to 1.
        normalize : {"batch", "table"} or None, default "batch"
            What the weights are divided by.

        Returns
        -------
        ndarray of float32, [B]
            The weights.
        """
        import numpy as np

        present = [[head for head in heads if head is not None] for heads in self.heads]
        mean = [sum(of.mass for of in run) / sum(of.count for of in run) for run in present]
        share = self.q / np.asarray(mean)[self.run]
        least: Any = np.min(share)
        if normalize == "table":
            masses = [[of.q_min for of in run if of.q_min > 0] for run in present]
            smallest = np.asarray([min(of, default=1.0) for of in masses]) / np.asarray(mean)
            least = np.minimum(smallest[self.run], share)
        elif normalize is None:
            least = 1.0
        weights: NDArray[np.float32] = ((share / least) ** -beta).astype(np.float32)
        return weights

    def batch(self, beta: float | None = None) -> Batch:
        """Return the items as one batch of arrays of its own, with ``shard``.

        Parameters
        ----------
        beta : float, optional
            Exponent of the weights of draws by priority, ``weight``; no weights when left out.

        Returns
        -------
        Batch
            The arrays of the blocks, in the order of the draws.
        """
        from backcast._batch import Batch

        made = Batch(gathered([(of.batch, at, to) for of, at, to in self.parts], len(self.q)))
        made.pop("weight", None)
        if beta is not None:
            made["weight"] = self.weights(beta)
        made["shard"] = self.shard
        return made


def gathered(
    parts: list[tuple[dict[str, Any], NDArray[np.int64], NDArray[np.int64]]], items: int
) -> dict[str, Any]:
    """Copy items of several batches into arrays of one.

    Parameters
    ----------
    parts : list of tuple
        A batch, places in it, and places in the result.
    items : int
        Items of the result.

    Returns
    -------
    dict
        Nested arrays, ``[items, ...]``.
    """
    return _gathered([(batch, _rows(at), places) for batch, at, places in parts], items)


def _gathered(
    parts: list[tuple[dict[str, Any], NDArray[np.int64] | slice, NDArray[np.int64]]], items: int
) -> dict[str, Any]:
    import numpy as np

    found: dict[str, Any] = {}
    for key, like in parts[0][0].items():
        inner = [(batch[key], at, places) for batch, at, places in parts]
        if isinstance(like, dict):
            found[key] = _gathered(inner, items)
            continue
        found[key] = np.empty((items, *like.shape[1:]), like.dtype)
        for array, at, places in inner:
            found[key][places] = array[at]
    return found


def _rows(at: NDArray[np.int64]) -> NDArray[np.int64] | slice:
    """Return places that follow each other as a slice, which copies nothing."""
    if len(at) and (at[1:] - at[:-1] == 1).all():
        return slice(int(at[0]), int(at[-1]) + 1)
    return at


class BlockHeads:
    """Heads of several shards, and draws over all of them.

    Parameters
    ----------
    sources : sequence of callable
        One function for each shard, which returns its next block, or None while it has none. Such a
        shard is left out, and asked again at the next draw.
    seed : int
        Seed of the choice of shards. Equal blocks in equal order give equal draws.
    max_age : float, optional
        Seconds after which a head is replaced, whatever it holds; never when left out.
    clock : callable
        Time in seconds.
    """

    def __init__(
        self,
        sources: Sequence[Callable[[], Block | None]],
        *,
        seed: int,
        max_age: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        import numpy as np

        self._sources = list(sources)
        self._heads: list[_Head | None] = [None] * len(self._sources)
        self._rng = np.random.default_rng(seed)
        self._max_age, self._clock = max_age, clock

    def draw(self, items: int) -> Drawn:
        """Draw items over all shards.

        Parameters
        ----------
        items : int
            Items to draw, ``B``, at least 1.

        Returns
        -------
        Drawn
            The items, in the order of the draws.

        Raises
        ------
        SampleError
            If no shard has anything to draw, or 10,000 items in a row were rejected.
        """
        import numpy as np

        self._replace(self._is_over)
        shard, run = np.empty(items, np.int64), np.empty(items, np.int64)
        q = np.empty(items, np.float64)
        parts: list[tuple[Block, NDArray[np.int64], NDArray[np.int64]]] = []
        heads: list[tuple[Block | None, ...]] = []
        filled, rejected, since = 0, 0, self._clock()
        while filled < items:
            self._replace(lambda head: head is not None and head.left == 0)
            picks = self._picks(items - filled)
            heads.append(tuple(None if head is None else head.block for head in self._heads))
            found = np.empty(len(picks), np.float64)
            taken: list[tuple[Block, int, NDArray[np.int64]]] = []
            for k, head in enumerate(self._heads):
                if head is None or not len(mine := np.flatnonzero(picks == k)):
                    continue
                found[mine] = head.block.q[head.taken : head.taken + len(mine)]
                taken.append((head.block, head.taken, mine))
                head.taken += len(mine)
                since = min(since, head.since)
            accepted = found > 0
            if accepted.all():
                count, kept, places = len(picks), picks, None
            else:
                found, kept = found[accepted], picks[accepted]
                count, places = len(kept), filled + np.cumsum(accepted) - 1
            for block, begin, mine in taken:
                at = np.arange(begin, begin + len(mine))
                if places is None:
                    parts.append((block, at, filled + mine))
                elif len(good := np.flatnonzero(accepted[mine])):
                    parts.append((block, at[good], places[mine[good]]))
            shard[filled : filled + count] = kept
            q[filled : filled + count] = found
            run[filled : filled + count] = len(heads) - 1
            filled += count
            rejected = 0 if count else rejected + len(picks)
            if rejected > _MOST_REJECTED:
                raise SampleError(
                    f"{rejected} items in a row were rejected; draw blocks of fewer items more "
                    "often, or ask for shorter windows"
                )
        return Drawn(shard, q, parts, heads, run, self._clock() - since)

    def _picks(self, most: int) -> NDArray[np.int64]:
        """Choose shards for up to `most` items, up to the one that empties a head."""
        import numpy as np

        masses = self._masses()
        if not masses.any():
            self._replace(self._is_over)
            masses = self._masses()
        if not masses.any():
            raise SampleError(
                f"none of the {len(self._sources)} shards has a transition that may be drawn; wait "
                "for writers with `wait`"
            )
        left = [0 if head is None else head.left for head in self._heads]
        # No run is longer than what the heads have left.
        most = min(most, sum(left))
        ends, last = masses.cumsum(), int(masses.nonzero()[0][-1])
        chosen = ends.searchsorted(self._rng.random(most) * ends[-1], side="right")
        picks: NDArray[np.int64] = np.minimum(chosen, last)
        end = most
        for k, count in enumerate(np.bincount(picks, minlength=len(left)).tolist()):
            if 0 < left[k] <= count:
                end = min(end, int((picks == k).nonzero()[0][left[k] - 1]) + 1)
        return picks[:end]

    def _masses(self) -> NDArray[np.float64]:
        """Return the mass of each shard's head."""
        import numpy as np

        return np.asarray([head.block.mass if head else 0.0 for head in self._heads], np.float64)

    def _is_over(self, head: _Head | None) -> bool:
        """Return whether a head is to be replaced before a draw: by its time and not its items."""
        if head is None or head.left == 0 or head.block.mass <= 0:
            return True
        return self._max_age is not None and self._clock() - head.since > self._max_age

    def _replace(self, is_over: Callable[[_Head | None], bool]) -> None:
        for k, head in enumerate(self._heads):
            if is_over(head):
                block = self._sources[k]()
                self._heads[k] = None if block is None else _Head(block, self._clock())
