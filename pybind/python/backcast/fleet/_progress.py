"""Progress line of a fleet: live on a terminal with rich, else a plain line on stderr.

A terminal that has closed and a pipe that nobody reads end no fleet: nothing is shown there.
"""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from backcast.fleet._stats import FleetStats

_PLAIN_EVERY_S = 10.0


class ProgressLine(Protocol):
    """Display of one line."""

    def show(self, stats: FleetStats) -> None:
        """Show these statistics."""

    def close(self) -> None:
        """End the display."""


def progress_line(wanted: bool | None) -> ProgressLine:
    """Make a display, a silent one if `wanted` is False, or None and stderr is no terminal."""
    if wanted is False or sys.stderr is None:
        return SilentLine()
    terminal = sys.stderr.isatty()
    if wanted is None and not terminal:
        return SilentLine()
    if terminal:
        try:
            return LiveLine()
        except ImportError:
            pass
    return PlainLine()


class SilentLine:
    """Shows nothing."""

    def show(self, stats: FleetStats) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class PlainLine:
    """Prints a line every ten seconds, and one at the end."""

    def __init__(self) -> None:
        self._printed_s = time.monotonic()
        self._last: str | None = None

    def show(self, stats: FleetStats) -> None:
        """Print the line if it is time."""
        self._last = text_of(stats)
        now_s = time.monotonic()
        if now_s - self._printed_s >= _PLAIN_EVERY_S:
            self._printed_s = now_s
            self._print()

    def _print(self) -> None:
        with suppress(OSError):
            print(self._last, file=sys.stderr, flush=True)
        self._last = None

    def close(self) -> None:
        """Print the last line."""
        if self._last is not None:
            self._print()


class LiveLine:
    """Keeps one line of the terminal up to date; needs rich."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        self._text: Any = Text
        self._live = Live(console=Console(stderr=True), auto_refresh=False)
        self._live.start()

    def show(self, stats: FleetStats) -> None:
        """Replace the line."""
        with suppress(OSError):
            self._live.update(self._text(text_of(stats)), refresh=True)

    def close(self) -> None:
        """Leave the last line on the terminal."""
        with suppress(OSError):
            self._live.stop()


def text_of(stats: FleetStats) -> str:
    """Write the statistics as one line, without what is not known."""
    parts = [f"{stats['running']}/{len(stats['actors'])} actors"]
    if stats["rows_per_s"] is not None:
        parts.append(f"{_short(stats['rows_per_s'])} rows/s")
    if stats["updates"]:
        parts.append(f"{_short(stats['updates_per_s'])} updates/s")
    if stats["samples_per_insert"] is not None:
        parts.append(f"{stats['samples_per_insert']:.2f} samples/insert")
    if stats["policy_age_versions"] is not None:
        seconds = stats["policy_age_s"]
        known = "" if seconds is None else f", {seconds:.2f} s"
        parts.append(f"policy age {stats['policy_age_versions']:.1f} versions{known}")
    if stats["return_mean"] is not None:
        parts.append(f"{stats['episodes']} episodes, return {stats['return_mean']:.1f}")
    if stats["restarts"]:
        parts.append(f"{stats['restarts']} restarts")
    return " | ".join(parts)


def _short(number: float) -> str:
    """Show a number with three digits, in thousands or millions from 999.5 of the lower unit on."""
    for limit, unit in ((1e6, " M"), (1e3, " k")):
        if number >= 0.9995 * limit:
            scaled = number / limit
            return f"{scaled:,.0f}{unit}" if scaled >= 999.5 else f"{scaled:.3g}{unit}"
    return f"{number:.3g}"
