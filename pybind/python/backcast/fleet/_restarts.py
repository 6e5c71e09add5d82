"""Restart policy: which ends of an actor are followed by another process, and when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Restart: TypeAlias = Literal["signal", "always", "never"]

CHOICES: tuple[Restart, ...] = ("signal", "always", "never")
WINDOW_S = 60.0
"""Seconds within which deaths are counted."""
_FIRST_S = 0.1
_LONGEST_S = 5.0


@dataclass(frozen=True)
class RestartPolicy:
    """Deaths that are followed by a restart, and how many of them end the fleet."""

    restart: Restart
    max_deaths: int
    """Deaths within a minute that end the fleet."""


@dataclass(frozen=True)
class ProcessEnd:
    """End of a process of an actor."""

    status: int
    """Exit status, or minus the number of the signal that killed it."""
    ready: bool
    """Whether the actor had been imported; a command is ready once it runs."""
    raised: bool
    """Whether it sent an exception."""
    at_s: float
    """Time of the end on any clock that never goes back."""


@dataclass(frozen=True)
class RestartAfter:
    """Decision to start another process."""

    wait_s: float
    deaths_s: tuple[float, ...]
    """Times of the deaths within the last minute, this one included."""


Decision: TypeAlias = RestartAfter | Literal["finished", "failed", "too many deaths"]


def decide(end: ProcessEnd, policy: RestartPolicy, deaths_s: tuple[float, ...]) -> Decision:
    """Return what follows the end of a process of an actor that died earlier at these times.

    The wait doubles with every death of the last minute: 0.1 s, 0.2 s, at most 5 s.
    """
    if end.status == 0 and end.ready and not end.raised:
        return "finished"
    by_signal = end.status < 0
    # An import that fails would fail again; one that was killed may succeed.
    startable = end.ready or by_signal
    wanted = policy.restart == "always" or (policy.restart == "signal" and by_signal)
    if not (startable and wanted):
        return "failed"
    recent_s = (*(death_s for death_s in deaths_s if end.at_s - death_s <= WINDOW_S), end.at_s)
    if len(recent_s) >= policy.max_deaths:
        return "too many deaths"
    # The exponent is bounded, so that a large limit does not overflow.
    wait_s = min(_LONGEST_S, _FIRST_S * 2.0 ** min(len(recent_s) - 1, 10))
    return RestartAfter(wait_s, recent_s)
