"""Monitor: turns statistics of ring, fleet and learner into frames."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from backcast.demo.actor import autoreset_mode
from backcast.demo.aftermath import lane_table
from backcast.demo.progress import ActorFrame, Frame, Rates

if TYPE_CHECKING:
    import backcast as bc
    from backcast.demo.learner import Tally


class Monitor:
    """Monitor of one run, from now on."""

    def __init__(
        self, ring: bc.ReplayBuffer, fleet: bc.Fleet, learner: Tally, total_s: float
    ) -> None:
        self.frames: list[Frame] = []
        self._ring, self._fleet, self._learner = ring, fleet, learner
        self._total_s = total_s
        self._rates = Rates()
        self._lanes: dict[int, tuple[int, ...]] = {}
        self._rows_before = self._rows_published()
        self._started = time.monotonic()
        self._frame()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started

    def look(self) -> Frame:
        """Take a frame and keep it."""
        frame = self._frame()
        self.frames.append(frame)
        return frame

    def lanes(self, rank: int) -> tuple[int, ...]:
        """Return the lanes of an actor, or of the process before it until it has as many."""
        pid = self._fleet.stats()["actors"][rank]["pid"]
        held = lane_table(self._ring.stats()).values()
        lanes = tuple(int(lane["lane"]) for lane in held if lane["held"] and lane["pid"] == pid)
        if len(lanes) >= len(self._lanes.get(rank, ())):
            self._lanes[rank] = lanes
        return self._lanes[rank]

    def rows_written(self) -> int:
        """Count the rows published since the start."""
        return self._rows_published() - self._rows_before

    def _rows_published(self) -> int:
        return sum(int(lane["head"]) for lane in self._ring.stats()["lane_stats"])

    def _frame(self) -> Frame:
        now = time.monotonic()
        stats, learner = self._ring.stats(), self._learner
        table = lane_table(stats)
        actors = []
        for actor in self._fleet.stats()["actors"]:
            rank = actor["rank"]
            lanes = self.lanes(rank)
            rows = sum(int(table[lane]["head"]) for lane in lanes)
            name = f"actor {rank}"
            actors.append(
                ActorFrame(
                    name=name,
                    pid=actor["pid"] or 0,
                    autoreset_mode=autoreset_mode(rank),
                    lanes=_spans(lanes),
                    rows=rows,
                    rows_per_s=self._rates.rate(name, rows, now),
                    state=actor["state"],
                )
            )
        readable = sum(int(lane["rows"]) for lane in table.values())
        return Frame(
            elapsed_s=now - self._started,
            total_s=self._total_s,
            actors=tuple(actors),
            fill=min(1.0, readable / int(stats["capacity"])),
            batches=learner.batches,
            batches_per_s=self._rates.rate("learner", learner.batches, now),
            lapped=learner.lapped,
            torn=learner.torn,
            age=learner.age,
            loss=learner.loss,
        )


def _spans(lanes: tuple[int, ...]) -> str:
    """Abbreviate lane numbers: 8-15."""
    if not lanes:
        return "-"
    low, high = min(lanes), max(lanes)
    whole = len(set(lanes)) == high - low + 1
    return f"{low}-{high}" if whole and high > low else ",".join(str(lane) for lane in lanes)
