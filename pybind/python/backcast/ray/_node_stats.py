"""One node's statistics."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from backcast.ray._shard import Shard


def look(shard: Shard) -> dict[str, Any]:
    """Return counts of the ring."""
    ring = shard.ring.stats()
    limiter = ring["limiter"]
    return {
        "node": shard.node,
        "pid": os.getpid(),
        "generation": shard.generation,
        "snapshot": shard.origin.snapshot,
        "snapshot_problem": shard.origin.problem,
        "transitions": ring["transitions"],
        "rows_published": ring["rows_published"],
        "bytes_allocated": ring["bytes_allocated"],
        "writers": sum(lane["held"] for lane in ring["lane_stats"]),
        "inserts": None if limiter is None else limiter["inserts"],
        "ceiling": None if limiter is None else limiter["ceiling"],
        "writers_waiting": 0 if limiter is None else limiter["writers"]["waiting"],
    }
