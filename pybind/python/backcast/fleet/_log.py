"""Numbers of a fleet for other programs: written now and then by a function of the user."""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING

from backcast._calls import levels_up
from backcast.errors import FleetError, FleetWarning
from backcast.fleet._signals import is_failure

if TYPE_CHECKING:
    from collections.abc import Callable

    from backcast.fleet._stats import FleetStats

    Write = Callable[[dict[str, float], int], object]


class StatsLog:
    """Calls one function with the statistics, at most once in a while."""

    def __init__(self, write: Write, every_s: float) -> None:
        self._write, self._every_s = write, every_s
        self.due_s = time.monotonic() + every_s

    def write(self, stats: FleetStats) -> None:
        """Call the function; what it raises becomes a warning."""
        self.due_s = time.monotonic() + self._every_s
        try:
            self._write(numbers_of(stats), step_of(stats))
        except Exception as error:
            if isinstance(error, FleetError) and is_failure(error):
                # The fleet failed during the call, and that interrupts the main thread.
                raise
            name = getattr(self._write, "__qualname__", repr(self._write))
            message = (
                f"{name}, which fleet.log_to() was given, raised {type(error).__name__}: {error}; "
                f"training goes on, and it is called again after {self._every_s:g} s"
            )
            warnings.warn(FleetWarning(message), stacklevel=levels_up())


def numbers_of(stats: FleetStats) -> dict[str, float]:
    """Return the numbers that are known: means of named ones, and the fleet's as ``fleet/NAME``.

    An actor that reports a number of a name of the fleet's own does not replace it.

    >>> from backcast.fleet._stats import Tally
    >>> numbers_of(Tally(2, None).stats([], 0))["fleet/running"]
    0
    """
    own = {
        f"fleet/{name}": value for name, value in stats.items() if isinstance(value, int | float)
    }
    return {name: number["mean"] for name, number in stats["numbers"].items()} | own


def step_of(stats: FleetStats) -> int:
    """Return the updates of the learner, or the whole seconds where it counted none."""
    return stats["updates"] or int(stats["seconds"])
