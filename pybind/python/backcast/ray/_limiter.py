"""One rate limiter over several shards, by ceilings of their inserts.

The learner counts. Each request to a shard carries its ceiling, the absolute count of inserts at
which its writers stop, and each answer the shard's count. What a shard may insert at most, its
bound, is the largest ceiling that was sent and not replaced by an acknowledged one. The bounds
never add up to more than the limit, so the limit holds however old the counts are. Headroom goes
from one shard to another in two steps: a lower ceiling, and its acknowledgement.

A shard that does not answer is left out with the inserts that it reported. What it still inserts is
excess, at most its last ceiling.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from backcast._native import RateLimiter


class Band:
    """Limits of a rate limiter, as functions of the counts of inserts and samples.

    Parameters
    ----------
    limits : RateLimiter
        The limits.
    """

    def __init__(self, limits: RateLimiter) -> None:
        self.limits = limits

    def most_inserts(self, samples: int) -> int | None:
        """Return the inserts at which writers stop after so many samples; None without an end."""
        _, high = self.limits.error_band
        if high == float("inf"):
            return None
        guess = (samples + high) / self.limits.samples_per_insert
        most = max(self.limits.min_size, int(guess)) + 2
        while most > 0 and not self.limits.can_insert(1, inserts=most - 1, samples=samples):
            most -= 1
        return most

    def may_sample(self, items: int, inserts: int, samples: int) -> int:
        """Return how many of the items may be drawn with these counts."""
        low, high = 0, items
        while low < high:
            middle = (low + high + 1) // 2
            if self.limits.can_sample(middle, inserts=inserts, samples=samples):
                low = middle
            else:
                high = middle - 1
        return low


def band_of(limiter: RateLimiter | None) -> Band | None:
    """Return the limits that need ceilings; None if inserts have no end."""
    if limiter is None or limiter.error_band[1] == float("inf"):
        return None
    return Band(limiter)


@dataclass
class Share:
    """Inserts of one shard, as far as the learner knows, in its own count.

    Parameters
    ----------
    inserts : int
        Inserts that were reported.
    acknowledged : int
        Ceiling that is in force at the shard, as far as is known.
    sent : deque of int
        Ceilings of requests that were not answered, oldest first.
    waiting : bool
        Whether a writer waited at the last report.
    recent : int
        Inserts between the last two reports.
    is_out : bool
        Whether the shard is suspended or lost.
    """

    inserts: int = 0
    acknowledged: int = 0
    sent: deque[int] = field(default_factory=deque)
    waiting: bool = False
    recent: int = 0
    is_out: bool = True

    @property
    def bound(self) -> int:
        """Inserts that the shard may reach: those it has if it is left out."""
        if self.is_out:
            return self.inserts
        return max(self.inserts, self.acknowledged, *self.sent)


class Ceilings:
    """Ceilings of all shards, whose bounds add up to at most one limit.

    Parameters
    ----------
    shards : int
        Number of shards. Each is out until it answers.
    limit : int
        Inserts of all shards together, at first.
    """

    def __init__(self, shards: int, limit: int = 0) -> None:
        self.shares = [Share() for _ in range(shards)]
        self.limit = limit

    @property
    def inserts(self) -> int:
        """Inserts of all shards, as far as they were reported."""
        return sum(share.inserts for share in self.shares)

    @property
    def bound(self) -> int:
        """Inserts that all shards may reach, but those that are left out."""
        return sum(share.bound for share in self.shares)

    def raise_limit(self, limit: int) -> None:
        """Raise the limit. A lower one changes nothing."""
        self.limit = max(self.limit, limit)

    def join(self, number: int, inserts: int, ceiling: int) -> None:
        """Count a ring that answered for the first time, with the ceiling that it has.

        Requests that were sent to an earlier ring of the shard do not change the ceiling of this
        one.
        """
        sent = deque([inserts] * len(self.shares[number].sent))
        self.shares[number] = Share(inserts, ceiling, sent, is_out=False)

    def report(self, number: int, inserts: int, waiting: bool) -> None:
        """Take counts that came without a ceiling. A shard that was left out is back."""
        share = self.shares[number]
        share.recent = max(0, inserts - share.inserts)
        share.inserts = max(share.inserts, inserts)
        share.waiting, share.is_out = waiting, False

    def request(self, number: int) -> int:
        """Return the ceiling of a request that is sent now."""
        share = self.shares[number]
        ceiling = share.inserts
        if not share.is_out:
            others = self.bound - share.bound
            wanted = min(self.limit - others, share.inserts + self._headroom(number))
            ceiling = max(share.inserts, wanted)
        share.sent.append(ceiling)
        return ceiling

    def target(self, number: int) -> int:
        """Return the ceiling that a request would carry now."""
        ceiling = self.request(number)
        self.shares[number].sent.pop()
        return ceiling

    def answer(self, number: int, inserts: int, waiting: bool, is_old: bool = False) -> None:
        """Take the answer to the oldest request. A shard that was left out is back.

        ``is_old``: the request was meant for an earlier ring, and did nothing.
        """
        share = self.shares[number]
        ceiling = share.sent.popleft()
        if not is_old:
            share.acknowledged = ceiling
            self.report(number, inserts, waiting)

    def fail(self, number: int) -> None:
        """Take note that the oldest request has no answer. Its ceiling may be in force."""
        share = self.shares[number]
        share.acknowledged = max(share.acknowledged, share.sent.popleft())

    def leave_out(self, number: int) -> None:
        """Leave a shard out. Others may get what it did not use; it stays counted."""
        share = self.shares[number]
        share.is_out, share.waiting, share.recent = True, False, 0

    def _headroom(self, number: int) -> int:
        """Return what a shard may insert more, of all that the limit leaves.

        Shards whose writers wait share what the others do not need. Those that insert without
        waiting keep twice what they inserted lately, and idle ones nothing. Without any waiting
        writer all have the same.
        """
        free = max(0, self.limit - self.inserts)
        present = [k for k, share in enumerate(self.shares) if not share.is_out]
        waiting = [k for k in present if self.shares[k].waiting]
        if not waiting:
            return self._part(number, present, free)
        kept = {
            k: min(free // len(present), 2 * self.shares[k].recent)
            for k in present
            if k not in waiting
        }
        if number in kept:
            return kept[number]
        return self._part(number, waiting, free - sum(kept.values()))

    def _part(self, number: int, among: list[int], whole: int) -> int:
        """Divide into equal parts. Which shards get the rest changes with every insert."""
        part, rest = divmod(whole, len(among))
        turn = (among.index(number) + self.inserts) % len(among)
        return part + (turn < rest)
