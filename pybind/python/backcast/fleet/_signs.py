"""Signs of life of actors: their reports, the rows that they publish, and their waits for rows."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

BEATS = 4
"""Signs of life that an actor gives within ``report_timeout`` while it reads ``stopped``."""


class LifeSigns:
    """Time of the newest sign of life of every actor."""

    def __init__(self, actors: int) -> None:
        self._newest_s = [0.0] * actors
        self._heads: dict[int, int] = {}

    def note(self, rank: int, time_s: float) -> None:
        """Note a sign of life."""
        self._newest_s[rank] = max(self._newest_s[rank], time_s)

    def note_ring(self, ring: Mapping[str, Any], ranks: Mapping[int, int], now_s: float) -> None:
        """Note who has published rows since the last call, and who waits for the rate limiter.

        Parameters
        ----------
        ring : dict
            Statistics of the ring that the actors fill.
        ranks : dict
            Ranks of the actors by process.
        now_s : float
            Time of the statistics.
        """
        pids = set()
        for number, lane in enumerate(ring["lane_stats"]):
            if self._heads.get(number) != lane["head"]:
                self._heads[number] = lane["head"]
                pids.add(lane["pid"])
        limiter = ring.get("limiter")
        if limiter is not None:
            pids.update(waiter["pid"] for waiter in limiter["waiters"])
        for pid in pids:
            rank = _rank_of(pid, ranks)
            if rank is not None:
                self.note(rank, now_s)

    def newest(self, now_s: float) -> list[float]:
        """Return the times by rank, 0 before the first sign; none is in the future."""
        return [min(time_s, now_s) for time_s in self._newest_s]


def _rank_of(pid: int | None, ranks: Mapping[int, int]) -> int | None:
    """Return the rank of an actor, or of the actor that started this process."""
    if pid is None:
        # A lane without a writer, so far.
        return None
    if pid in ranks:
        return ranks[pid]
    with suppress(OSError, OverflowError):
        return ranks.get(os.getpgid(pid))
    return None
