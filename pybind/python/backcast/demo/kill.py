"""Kill of one actor in mid-run, and the check of what became of its rows."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from backcast.demo.actor import checksums

if TYPE_CHECKING:
    import backcast as bc

_FINAL = 4
# Newest rows of a lane that are compared: a death can only have touched the last ones.
_ROWS = 64


@dataclass
class Death:
    """A killed actor, and its lanes."""

    pid: int
    at_s: float
    rows: dict[int, tuple[int, dict[str, Any]]]
    """By lane, the first sequence number and the columns of its newest rows."""
    adopted: bool = False
    """Whether a successor has written to every lane."""
    compared: int = 0
    lost: int = 0
    torn: int = 0

    def watch(self, ring: bc.ReplayBuffer) -> None:
        """Compare the rows of the dead actor with what the ring has, once all lanes are adopted."""
        lanes = ring.stats()["lane_stats"]
        for lane, (start, kept) in self.rows.items():
            written = lanes[lane]["head"] > start + len(kept["seq"])
            if lanes[lane]["pid"] == self.pid or not written:
                return
        self.adopted = True
        for lane, (start, kept) in self.rows.items():
            found = ring.rows(lane, start, count := len(kept["seq"]))
            same = [(found[name] == kept[name]).reshape(count, -1).all(axis=1) for name in kept]
            # A row after the last step of an episode has its observation and no other columns.
            whole = found["flags"] & _FINAL == 0
            torn = whole & (checksums(found["obs"]) != found["checksum"])
            self.compared += count
            self.lost += int(np.count_nonzero(~np.all(same, axis=0)))
            self.torn += int(np.count_nonzero(torn))


def kill(fleet: bc.Fleet, ring: bc.ReplayBuffer, rank: int, now_s: float) -> Death | None:
    """SIGKILL an actor that has written, and keep its newest rows; the fleet starts a successor."""
    pid = fleet.stats()["actors"][rank]["pid"]
    lanes = [lane for lane in ring.stats()["lane_stats"] if lane["pid"] == pid]
    if pid is None or not lanes or not all(lane["head"] for lane in lanes):
        return None
    os.kill(pid, signal.SIGKILL)
    rows = {}
    for lane in (int(lane["lane"]) for lane in lanes):
        low, head = ring.lane_span(lane)
        start = max(low, head - _ROWS)
        rows[lane] = start, ring.rows(lane, start, head - start)
    return Death(pid, now_s, rows)
