"""Restart policy: which ends of an actor are followed by another process, and when."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Restart: TypeAlias = Literal["signal", "always", "never"]

CHOICES: tuple[Restart, ...] = ("signal", "always", "never")
WINDOW_S = 60.0
"""Seconds within which deaths are counted."""
_FIRST_S = 0.1
_LONGEST_S = 5.0


@dataclass
class DeathRecord:
    """Deaths of one actor within the last minute."""

    limit: int
    """Deaths within a minute that end the fleet."""
    _times: deque[float] = field(default_factory=deque)

    def add(self, now_s: float) -> float | None:
        """Count a death; return the seconds to the restart, or None if there are too many.

        The wait doubles with every death of the last minute: 0.1 s, 0.2 s, at most 5 s.
        """
        self._times.append(now_s)
        while now_s - self._times[0] > WINDOW_S:
            self._times.popleft()
        if len(self._times) >= self.limit:
            return None
        # The exponent is bounded, so that a large limit does not overflow.
        return min(_LONGEST_S, _FIRST_S * 2.0 ** min(len(self._times) - 1, 10))


def restarts(policy: Restart, *, by_signal: bool) -> bool:
    """Return whether the policy restarts an actor after this kind of end."""
    return policy == "always" or (policy == "signal" and by_signal)
