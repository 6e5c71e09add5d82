"""Waits of a sampler for shards and for the limiter, and what it says of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from backcast._calls import levels_up
from backcast.errors import ArgumentError, WaitWarning

if TYPE_CHECKING:
    from backcast.ray._limiter import Ceilings
    from backcast.ray._link import Link
    from backcast.ray._spec import Spec

PAUSE_S = 0.002
"""Seconds between two looks at shards that something is awaited from."""
_LONG_S = 10.0
"""Seconds of a wait after which it warns."""


class Wait:
    """A wait that ends, and warns once when it is long.

    Parameters
    ----------
    seconds : float or None
        Seconds until it is over; without end when None.
    clock, sleep : callable
        Time in seconds, and a pause of so many.

    Raises
    ------
    ArgumentError
        If ``seconds`` is negative or no number.
    """

    def __init__(
        self, seconds: float | None, clock: Callable[[], float], sleep: Callable[[float], None]
    ) -> None:
        if seconds is not None and not seconds >= 0:
            raise ArgumentError(f"timeout is {seconds!r}; give seconds from 0 up, or None")
        self.seconds = seconds
        self._clock, self._sleep = clock, sleep
        self._begin, self._warned = self._clock(), False

    def is_over(self) -> bool:
        """Return whether the time is over."""
        return self.seconds is not None and self._clock() - self._begin >= self.seconds

    def pause(self, words: Callable[[float], str]) -> None:
        """Sleep for a moment; warn when the wait became long."""
        waited = self._clock() - self._begin
        if not self._warned and waited > _LONG_S:
            self._warned = True
            warnings.warn(words(waited), WaitWarning, stacklevel=levels_up())
        self._sleep(PAUSE_S)


def silence(links: Sequence[Link], seconds: float | None) -> str:
    """Return the words for a draw that no shard answered."""
    parts = [
        f"{link.label} ({link.status}: {link.reason})"
        for link in links
        if link.status != "active" or not link.has_answered
    ]
    return f"no shard answered{_for(seconds)}: {'; '.join(parts)}; look at their nodes"


def nothing(name: str, active: list[Link]) -> str:
    """Return the words for a draw from shards without rows."""
    problems = [f"{link.label}: {link.problem}" for link in active if link.problem]
    reason = problems[0] if problems else "wait for writers"
    return (
        f"none of the {len(active)} shards of '{name}' that answer has a transition that may be "
        f"drawn; {reason}"
    )


def held(
    spec: Spec,
    links: Sequence[Link],
    ceilings: Ceilings,
    samples: int,
    items: int,
    seconds: float | None,
) -> str:
    """Return the words for a draw that the limiter holds back."""
    out = [link.label for link in links if link.status != "active"]
    silent = f"; without an answer: {', '.join(out)}" if out else ""
    return (
        f"the limiter of shards '{spec.name}' held a draw of {items} back{_for(seconds)}: after "
        f"{samples} samples it needs more than the {ceilings.inserts} transitions that the shards "
        f"reported ({spec.limiter!r}){silent}"
    )


def _for(seconds: float | None) -> str:
    return "" if seconds is None else f" for {seconds:.3g} s"
