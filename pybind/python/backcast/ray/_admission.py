"""Draws that the limiter of shards admits, and the ceilings of inserts that follow from them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from backcast.ray._limiter import Band, Ceilings, band_of
from backcast.ray._waits import held

if TYPE_CHECKING:
    from collections.abc import Callable

    from backcast.ray._link import Link
    from backcast.ray._spec import Spec

_COUNTS_S = 0.02
"""Seconds after which a shard is told its ceiling though no block is asked of it."""


class Admission:
    """Counts of the limiter over all shards; without a limiter, every draw is admitted.

    Parameters
    ----------
    spec : Spec
        Name and limiter of the shards.
    samples : int
        Items that were counted before, without those that the shards counted.
    admitted : int
        Items that were admitted, and not drawn yet.
    """

    def __init__(self, spec: Spec, samples: int, admitted: int) -> None:
        self._spec, self._own, self.admitted = spec, samples, admitted
        self._band = Band(spec.limiter) if spec.limiter is not None else None
        self.ceilings = None if self._band is None else Ceilings(len(spec.places))
        self.has_end = band_of(spec.limiter) is not None
        """Whether inserts have an end."""
        self.links: Sequence[Link] = ()

    @property
    def samples(self) -> int:
        """Items that count as drawn: goes on from what each shard had counted when it answered."""
        return self._own + sum(link.samples for link in self.links)

    def follow(self, key: str) -> None:
        """Raise the limit, and tell those shards that no block is asked of.

        Called after a draw is admitted, which raises the limit: a look before it would come a draw
        too early, and put off the next look.
        """
        self._raise_limit()
        if self.ceilings is None:
            return
        for link in self.links:
            if link.wants_counts(_COUNTS_S):
                link.ask_counts(key)

    def _raise_limit(self) -> None:
        if self.ceilings is None or self._band is None:
            return
        most = self._band.most_inserts(self.samples)
        if most is not None:
            self.ceilings.raise_limit(most)

    def admit(self, items: int, key: str) -> bool:
        """Count items one by one; return whether all of them may be drawn."""
        if self.ceilings is None or self._band is None:
            return True
        lacking = max(0, items - self.admitted)
        more = self._band.may_sample(lacking, self.ceilings.inserts, self.samples)
        self._own += more
        self.admitted += more
        if self.admitted < items:
            self._raise_limit()
            for link in self.links:
                if link.status == "active" and not link.is_asking_counts:
                    link.ask_counts(key)
            return False
        self.admitted -= items
        self.follow(key)
        return True

    def give_back(self, items: int) -> None:
        """Keep what was admitted for a draw that failed, for the next one."""
        self.admitted += items if self.ceilings is not None else 0

    def let_in(self, key: str) -> None:
        """Let writers insert ``min_size`` more, as a ring does that has fewer.

        All rows were cleared, or are too few for a window: no draw would raise the limit.
        """
        if self._spec.limiter is not None and self.ceilings is not None and self.has_end:
            self.ceilings.raise_limit(self.ceilings.inserts + self._spec.limiter.min_size)
            self.follow(key)

    def words(self, items: int) -> Callable[[float | None], str]:
        """Return the words for a draw that is held back."""
        assert self.ceilings is not None
        return partial(held, self._spec, self.links, self.ceilings, self.samples, items)

    def counts(self) -> dict[str, Any] | None:
        """Return the counts for statistics; None without a limiter."""
        known = self.ceilings
        if known is None:
            return None
        limit = known.limit if self.has_end else None
        return {
            "inserts": known.inserts,
            "samples": self.samples,
            "limit": limit,
            "ceilings": [share.bound for share in known.shares],
            "excess": 0 if limit is None else max(0, known.inserts - limit),
        }
