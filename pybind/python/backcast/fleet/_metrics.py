"""The ring of a fleet's reports: one lane an actor, written by actors, read by the parent."""

from __future__ import annotations

import json
import math
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import backcast as bc
from backcast.errors import LappedError, SampleError
from backcast.fleet._context import NAME_BYTES, NOTHING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backcast.fleet._stats import FleetStats

COLUMNS: dict[str, Any] = {
    "rank": "i4",
    "life": "i4",
    "return": "f8",
    "steps": "i8",
    "version": "i8",
    "name": ("u1", (NAME_BYTES,)),
    "value": "f8",
    "time_s": "f8",
}
"""``time_s`` is the system's monotonic clock, the same in every process."""
_ROWS_PER_LANE = 4096
_FILE = "fleet.json"
_SHOWN = (
    *["running", "restarts", "rows_per_s", "updates", "updates_per_s", "samples_per_insert"],
    *["policy_version", "policy_age_versions", "policy_age_s", "episodes", "return_mean"],
)
"""Statistics that other processes show."""
_ATTEMPTS = 16
"""Attempts to read a lane beside its writer; the next tick reads what they miss."""


@dataclass(frozen=True)
class Report:
    """One row of a report; None for the parts that it does not have, all of them in a beat."""

    rank: int
    return_: float | None
    length: int | None
    version: int | None
    time_s: float
    name: str | None = None
    value: float | None = None

    @property
    def is_beat(self) -> bool:
        """Whether it is a sign of life and says nothing."""
        parts = self.return_, self.length, self.version, self.name
        return all(part is None for part in parts)


class ReportRing:
    """Parent's handle on the ring, and how far each lane was read."""

    def __init__(self, name: str, actors: int, folder: str | None, first: int = 0) -> None:
        """Create the ring; raises ExistsError if the name is taken.

        ``first`` is the rank of the first actor.
        """
        self._actors = actors
        self._ranks = range(first, first + actors)
        self._ring = bc.ReplayBuffer.create(
            name, COLUMNS, capacity=_ROWS_PER_LANE * actors, lanes=actors, dir=folder
        )
        assert self._ring.path is not None
        self._folder = Path(self._ring.path)
        self._next = [0] * actors
        self.missed = 0
        """Rows that were overwritten before they were read."""

    def read(self) -> list[Report]:
        """Return the reports since the last call, lane by lane, oldest first."""
        return [report for lane in range(self._actors) for report in self._of_lane(lane)]

    def _of_lane(self, lane: int) -> Iterator[Report]:
        for _ in range(_ATTEMPTS):
            low, head = self._ring.lane_span(lane)
            start = max(low, self._next[lane])
            if start >= head:
                return
            try:
                rows = self._ring.rows(lane, start, head - start)
            except (LappedError, SampleError):
                # The actor reports faster than this loop reads: the oldest rows are gone.
                continue
            self.missed += start - self._next[lane]
            self._next[lane] = head
            yield from self._parsed(rows)
            return

    def _parsed(self, rows: dict[str, Any]) -> Iterator[Report]:
        columns = [rows[name].tolist() for name in ("rank", "return", "steps", "version", "time_s")]
        names = np.ascontiguousarray(rows["name"]).view(f"S{NAME_BYTES}")[:, 0].tolist()
        for rank, return_, length, version, time_s, name, value in zip(
            *columns, names, rows["value"].tolist(), strict=True
        ):
            # Any process of this user could have written here.
            if rank in self._ranks and time_s >= 0:
                known = _name_of(name) if math.isfinite(value) else None
                yield Report(
                    rank,
                    return_ if math.isfinite(return_) else None,
                    None if length <= NOTHING else length,
                    None if version <= NOTHING else version,
                    time_s,
                    known,
                    None if known is None else value,
                )

    def show(self, stats: FleetStats, buffer: str | None) -> None:
        """Write statistics beside the ring, where ``backcast top`` reads them."""
        shown = {name: stats[name] for name in _SHOWN}  # type: ignore[literal-required]
        shown |= {"n": self._actors, "buffer": buffer, "updated_unix_ns": time.time_ns()}
        beside = self._folder / f"{_FILE}.{os.getpid()}.tmp"
        # A full disk costs the display in other processes, and nothing else.
        with suppress(OSError):
            beside.write_text(json.dumps(shown))
            beside.replace(self._folder / _FILE)

    def close(self) -> None:
        """Remove the ring."""
        self._ring.unlink()
        self._ring.close()


def _name_of(encoded: bytes) -> str | None:
    """Decode the name of a number; None if there is none."""
    with suppress(UnicodeDecodeError):
        name = encoded.decode()
        return name if name.isprintable() and name else None
    return None
