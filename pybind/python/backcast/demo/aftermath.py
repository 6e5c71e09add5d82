"""Checks of the lanes of a killed actor, before and after its successor continues them.

Everything is read from the ring. A dead actor may lose the row that it was appending, in the lanes
where it was not published yet. It also loses the last transition of each lane, which has no next
row because the successor process begins a new episode (GAP). An append goes to every lane, so lanes
that lag by more than one append have lost more than that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

import backcast as bc
from backcast.demo.rows import checksums

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

FINAL = 4
GAP = 8
# Rows of the lane that are checked, newest first: the death can only have touched the last ones.
_TAIL = 512


@dataclass
class Aftermath:
    """Report of one death, complete when every lane has been continued."""

    lanes: tuple[int, ...]
    autoreset_mode: str
    heads: dict[int, int] = field(default_factory=dict)
    episodes: dict[int, int] = field(default_factory=dict)
    unfinished_rows: int = 0
    lost_transitions: int = 0
    torn_rows: int = 0
    adopted: set[int] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)

    @property
    def waiting(self) -> bool:
        """Return whether some lane has no row of the successor yet."""
        return len(self.adopted) < len(self.lanes)

    def examine(self, ring: bc.ReplayBuffer) -> None:
        """Read the lanes of a stopped or dead actor that had them from row 0."""
        appends = {}
        for lane in self.lanes:
            low, head = ring.lane_span(lane)
            self.heads[lane] = appends[lane] = head
            start = max(low, head - _TAIL)
            if head > start:
                finals = self._judge_tail(lane, ring.rows(lane, start, head - start))
                appends[lane] -= finals if self.autoreset_mode == "same_step" else 0
        newest = max(appends.values())
        for lane, made in appends.items():
            self.unfinished_rows += newest - made
            if newest - made > 1:
                self.problems.append(f"lane {lane}: {newest - made} appends behind its neighbours")

    def _judge_tail(self, lane: int, rows: dict[str, Any]) -> int:
        """Check a lane's newest rows; return the FINAL rows that it has ever had."""
        final = (rows["flags"] & FINAL) != 0
        self.episodes[lane] = int(rows["episode"][-1])
        self.torn_rows += count_torn(rows, final)
        for row in np.flatnonzero(~continues(rows) & ~final[:-1]):
            self.problems.append(f"lane {lane}: row {rows['seq'][row]} lost its successor")
        # The newest row starts a transition that will never get its second half.
        self.lost_transitions += int(not final[-1])
        return int(rows["episode"][-1]) + int(final[-1])

    def watch(self, ring: bc.ReplayBuffer) -> None:
        """Check whether and how the successor has continued the lanes."""
        stats = lane_table(ring.stats())
        for lane in set(self.lanes) - self.adopted:
            head = self.heads[lane]
            if int(stats[lane]["head"]) <= head:
                continue
            self.adopted.add(lane)
            if not self._begins_anew(ring, lane, head):
                self.problems.append(f"lane {lane}: row {head} does not begin a new episode")

    def _begins_anew(self, ring: bc.ReplayBuffer, lane: int, head: int) -> bool:
        try:
            first = ring.rows(lane, head, 1)
        except (bc.LappedError, bc.errors.SampleError):
            # The successor has overwritten the whole lane: check its newest row instead.
            _, newest = ring.lane_span(lane)
            rows = ring.rows(lane, newest - 1, 1)
            return int(rows["episode"][0]) > self.episodes.get(lane, -1)
        return bool(int(first["flags"][0]) & GAP) and int(first["t"][0]) == 0


def lane_table(stats: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """Index the lanes' part of ``ReplayBuffer.stats()`` by lane."""
    return {int(lane["lane"]): lane for lane in stats["lane_stats"]}


def count_torn(rows: dict[str, Any], final: NDArray[np.bool_]) -> int:
    """Count rows that do not match their checksum; FINAL rows have no step columns to match."""
    wrong = checksums(rows) ^ np.asarray(rows["checksum"], np.uint64)
    wrong[final] >>= np.uint64(32)
    return int(np.count_nonzero(wrong))


def continues(rows: dict[str, Any]) -> NDArray[np.bool_]:
    """Return whether each row but the last is followed by the next step of its episode."""
    seq, episode, t = (np.asarray(rows[name]).astype(np.int64) for name in ("seq", "episode", "t"))
    gap = (rows["flags"][1:] & GAP) != 0
    steady = (np.diff(seq) == 1) & (np.diff(episode) == 0) & (np.diff(t) == 1)
    return np.asarray(steady & ~gap)


def summary(deaths: Sequence[Aftermath]) -> dict[str, int]:
    """Sum the reports of several deaths."""
    return {
        "killed_actors": len(deaths),
        "adopted_lanes": sum(len(death.adopted) for death in deaths),
        "lost_transitions": sum(death.lost_transitions for death in deaths),
        "unfinished_rows": sum(death.unfinished_rows for death in deaths),
    }
