"""Monitor: turns statistics of the ring and messages of the learner into frames."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from backcast.demo.aftermath import lane_table
from backcast.demo.progress import ActorFrame, Frame, Rates

if TYPE_CHECKING:
    import backcast as bc

AutoresetMode: TypeAlias = Literal["next_step", "same_step", "disabled"]


@dataclass
class Slot:
    """Lanes of an actor, and the process that owns them now."""

    name: str
    autoreset_mode: AutoresetMode
    pid: int = 0
    lanes: tuple[int, ...] = ()
    state: str = "starting"


class Monitor:
    """Monitor of one run."""

    def __init__(self, ring: bc.ReplayBuffer, slots: list[Slot], total_s: float) -> None:
        self.ring = ring
        self.slots = slots
        self.frames: list[Frame] = []
        self.learner: dict[str, Any] = {}
        self._total_s = total_s
        self._rates = Rates()
        self._started = time.monotonic()

    @property
    def elapsed_s(self) -> float:
        """Seconds since :meth:`start`."""
        return time.monotonic() - self._started

    def start(self) -> None:
        """Start the clock; rows written earlier do not count."""
        self._started = time.monotonic()
        self._frame()

    def look(self) -> Frame:
        """Take a frame and keep it."""
        frame = self._frame()
        self.frames.append(frame)
        return frame

    def rows_written(self) -> int:
        """Count the rows published in all lanes since the ring was made."""
        return sum(int(lane["head"]) for lane in self.ring.stats()["lane_stats"])

    def _frame(self) -> Frame:
        now = time.monotonic()
        stats = self.ring.stats()
        lanes = lane_table(stats)
        actors = []
        for slot in self.slots:
            rows = sum(int(lanes[lane]["head"]) for lane in slot.lanes)
            rate = self._rates.rate(slot.name, rows, now) if slot.lanes else 0.0
            actors.append(
                ActorFrame(
                    name=slot.name,
                    pid=slot.pid,
                    autoreset_mode=slot.autoreset_mode,
                    lanes=_spans(slot.lanes),
                    rows=rows,
                    rows_per_s=rate,
                    state=slot.state,
                )
            )
        batches = int(self.learner.get("batches", 0))
        readable = sum(int(lane["rows"]) for lane in lanes.values())
        return Frame(
            elapsed_s=now - self._started,
            total_s=self._total_s,
            actors=tuple(actors),
            fill=min(1.0, readable / int(stats["capacity"])),
            batches=batches,
            batches_per_s=float(self.learner.get("batches_per_s", 0.0)),
            lapped=int(self.learner.get("lapped", 0)),
            torn=int(self.learner.get("torn", 0)),
            age=float(self.learner.get("age", 0.0)),
            loss=list(self.learner.get("loss", [])),
        )


def _spans(lanes: tuple[int, ...]) -> str:
    """Abbreviate lane numbers: 8-15."""
    if not lanes:
        return "-"
    low, high = min(lanes), max(lanes)
    whole = len(set(lanes)) == high - low + 1
    return f"{low}-{high}" if whole and high > low else ",".join(str(lane) for lane in lanes)
