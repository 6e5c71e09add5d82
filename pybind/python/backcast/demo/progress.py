"""Progress display: a live table on a terminal, else a line every few seconds."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from typing import TextIO

_PLAIN_EVERY_SECONDS = 5.0


@dataclass(frozen=True)
class ActorFrame:
    """One actor at one moment."""

    name: str
    pid: int
    autoreset_mode: str
    lanes: str
    rows: int
    rows_per_s: float
    state: str = "running"


@dataclass(frozen=True)
class Frame:
    """State of the run at one moment, for the display and the chart."""

    elapsed_s: float
    total_s: float
    actors: tuple[ActorFrame, ...] = ()
    fill: float = 0.0
    batches: int = 0
    batches_per_s: float = 0.0
    lapped: int = 0
    torn: int = 0
    age: float = 0.0
    loss: list[float] = field(default_factory=list)

    @property
    def rows_per_s(self) -> float:
        """Rows per second of all actors together."""
        return sum(actor.rows_per_s for actor in self.actors)


def count(number: float) -> str:
    """Write a number in short form: 950, 12.3 k, 4.56 M."""
    for limit, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(number) >= limit:
            return f"{number / limit:.3g}{unit}"
    return f"{number:.0f}"


class Progress:
    """Display of frames; a context manager that restores the terminal."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._console = Console(file=stream or sys.stderr)
        self._live: Live | None = None
        self._printed_s = 0.0

    def __enter__(self) -> Progress:
        """Start the live table on a terminal."""
        if self._console.is_terminal:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the live table and restore the terminal."""
        if self._live is not None:
            self._live.stop()

    def say(self, text: str) -> None:
        """Print one line that stays."""
        self._console.print(Text(text), soft_wrap=True)

    def show(self, frame: Frame) -> None:
        """Show the newest frame."""
        if self._live is not None:
            self._live.update(table(frame), refresh=True)
        elif frame.elapsed_s - self._printed_s >= _PLAIN_EVERY_SECONDS:
            self._printed_s = frame.elapsed_s
            self._console.print(Text(line(frame)), soft_wrap=True)


def line(frame: Frame) -> str:
    """Format a frame as one line."""
    each = " ".join(f"{actor.name.split()[-1]}:{count(actor.rows_per_s)}" for actor in frame.actors)
    return (
        f"{frame.elapsed_s:5.1f} s  {count(frame.rows_per_s)} rows/s ({each})  "
        f"fill {frame.fill:.0%}  {frame.batches_per_s:.0f} batches/s  "
        f"age {count(frame.age)} rows  lapped {frame.lapped}  torn {frame.torn}"
    )


def table(frame: Frame) -> Group:
    """Format a frame as a table for a terminal."""
    grid = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("process", "pid", "lanes", "autoreset"):
        grid.add_column(title)
    for title in ("rows", "per second"):
        grid.add_column(title, justify="right")
    grid.add_column("")
    fastest = max((actor.rows_per_s for actor in frame.actors), default=1.0) or 1.0
    for actor in frame.actors:
        running = actor.state == "running"
        grid.add_row(
            actor.name,
            str(actor.pid),
            actor.lanes,
            actor.autoreset_mode,
            count(actor.rows),
            count(actor.rows_per_s),
            _bar(actor.rows_per_s, fastest) if running else Text(actor.state, "bold red"),
        )
    loss = ", ".join(f"{value:.3f}" for value in frame.loss) or "-"
    below = Table.grid(padding=(0, 2))
    below.add_column(style="bold")
    below.add_row(
        "ring", _bar(frame.fill, 1.0), f"{frame.fill:.0%} full, {count(frame.rows_per_s)} rows/s"
    )
    below.add_row(
        "time",
        _bar(frame.elapsed_s, frame.total_s),
        f"{frame.elapsed_s:.0f} of {frame.total_s:g} s, Ctrl-C ends it",
    )
    below.add_row(
        "learner",
        f"{frame.batches_per_s:.0f} batches/s",
        f"{count(frame.batches)} so far, loss {loss}",
    )
    torn = Text(f"{frame.torn} torn", "bold red" if frame.torn else "green")
    age = f"{count(frame.age)} rows old in the median, {frame.lapped} lapped"
    below.add_row("samples", torn, age)
    return Group(grid, Text(), below)


def _bar(done: float, total: float) -> ProgressBar:
    """Draw how much of `total` is done."""
    return ProgressBar(
        total=total,
        completed=min(done, total),
        width=18,
        complete_style="cyan",
        finished_style="cyan",
    )


class Rates:
    """Turns counters that only grow into rates per second, over the time between two calls."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[float, float]] = {}

    def rate(self, name: str, value: float, now: float | None = None) -> float:
        """Return the rate of `name` since its last call; 0 the first time."""
        now = time.monotonic() if now is None else now
        before, then = self._last.get(name, (value, now))
        self._last[name] = (value, now)
        return (value - before) / (now - then) if now > then else 0.0
