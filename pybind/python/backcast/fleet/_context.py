"""Actor's side of a fleet: its identity, the request to stop, and reports to the parent."""

from __future__ import annotations

import math
import operator
import threading
import time
from typing import TYPE_CHECKING, Any

import backcast as bc
from backcast._calls import explained
from backcast.errors import ArgumentError, ArgumentTypeError
from backcast.fleet._environment import Identity

if TYPE_CHECKING:
    from backcast import Writer

NOTHING = -1
"""Length or version that a report does not have."""
_MOST = 2**63 - 1


class Context:
    """Place of this process in its fleet, and its reports to the parent.

    A function actor gets it as its first argument; :func:`context` gives it to any other code.

    Parameters
    ----------
    identity : Identity
        Place of the process, from its environment.
    stop : threading.Event, optional
        Set when the fleet stops.
    """

    def __init__(self, identity: Identity, stop: threading.Event | None = None) -> None:
        self._identity = identity
        self._stop = stop or threading.Event()
        self._writer: Writer | None = None

    @property
    def rank(self) -> int:
        """Number of this actor, from 0 to ``n - 1``; a restarted actor keeps it."""
        return self._identity.rank

    @property
    def n(self) -> int:
        """Actors in the fleet."""
        return self._identity.n

    @property
    def seed(self) -> int:
        """Seed of this process, below 2**32, from the fleet's seed, the rank and the life."""
        return self._identity.seed

    @property
    def life(self) -> int:
        """Number of earlier processes of this rank, 0 at first."""
        return self._identity.life

    @property
    def stopped(self) -> bool:
        """Whether the fleet stops: return soon. After a second the function is interrupted."""
        return self._stop.is_set()

    @explained
    def wait(self, timeout: float | None = None) -> bool:
        """Sleep until the fleet stops, or the time is over.

        Parameters
        ----------
        timeout : float, optional
            Seconds; without it, until the fleet stops.

        Returns
        -------
        bool
            Whether the fleet stops.

        Raises
        ------
        ArgumentTypeError
            If ``timeout`` is no number.
        ArgumentError
            If it is NaN.
        """
        if timeout is None:
            return self._stop.wait()
        seconds = number_of(timeout, "timeout")
        if math.isnan(seconds):
            raise ArgumentError(f"timeout is {seconds}; give seconds, or leave it out")
        return self._stop.wait(min(seconds, threading.TIMEOUT_MAX))

    @explained
    def report(
        self,
        return_: float | None = None,
        length: int | None = None,
        version: int | None = None,
    ) -> None:
        """Report an episode, or the version of the policy that acts, to the parent.

        One row of the fleet's own ring: no lock, no system call, and nothing that waits. Reports
        that the parent has not read are overwritten after some 4,000 others of this actor.

        Parameters
        ----------
        return_ : float, optional
            Sum of the episode's rewards; a report that has it counts as an episode.
        length : int, optional
            Steps of the episode.
        version : int, optional
            Version of the policy that acted last.

        Raises
        ------
        ArgumentTypeError
            If an argument is no number, or all are left out.
        ArgumentError
            If a count is negative or too large, or the return is not finite.
        FleetError
            If no fleet started this process.
        """
        self._append(_row_of(return_, length, version))

    def _append(self, row: dict[str, float | int]) -> None:
        if self._writer is None:
            ring = bc.ReplayBuffer.attach(self._identity.ring, on_unlinked="ignore")
            self._writer = ring.writer()
        self._writer.append(
            rank=self.rank,
            life=self.life,
            time_s=time.monotonic(),
            **row,
            terminated=False,
            truncated=False,
        )


_current: Context | None = None


def use(context: Context) -> None:
    """Make this the context of the process."""
    global _current
    _current = context


def context() -> Context:
    """Return the context of this process, which a fleet started.

    Returns
    -------
    Context
        The same one at every call.

    Raises
    ------
    FleetError
        If no fleet started this process.
    """
    if _current is None:
        use(Context(Identity.of_process()))
    assert _current is not None
    return _current


@explained
def report(
    return_: float | None = None, length: int | None = None, version: int | None = None
) -> None:
    """Report an episode, or the version of the policy that acts, to the parent.

    Calls :meth:`Context.report` of this process.

    Parameters
    ----------
    return_ : float, optional
        Sum of the episode's rewards; a report that has it counts as an episode.
    length : int, optional
        Steps of the episode.
    version : int, optional
        Version of the policy that acted last.

    Raises
    ------
    ArgumentTypeError
        If an argument is no number, or all are left out.
    ArgumentError
        If a count is negative or too large, or the return is not finite.
    FleetError
        If no fleet started this process.
    """
    row = _row_of(return_, length, version)
    context()._append(row)


def _row_of(
    return_: float | None, length: int | None, version: int | None
) -> dict[str, float | int]:
    if return_ is None and length is None and version is None:
        raise ArgumentTypeError(
            "report() says nothing; give return_=, length=, version= or several of them"
        )
    return {
        "return": float("nan") if return_ is None else _return_of(return_),
        "steps": NOTHING if length is None else _count_of(length, "length"),
        "version": NOTHING if version is None else _count_of(version, "version"),
    }


def number_of(value: Any, what: str) -> float:  # noqa: ANN401 - anything is refused
    """Read a number."""
    try:
        if not isinstance(value, str | bytes | bool):
            return float(value)
    except (TypeError, ValueError):
        pass
    raise ArgumentTypeError(f"{what} is {value!r}; give a number")


def _return_of(value: Any) -> float:  # noqa: ANN401 - anything is refused
    number = number_of(value, "return_")
    if not math.isfinite(number):
        raise ArgumentError(
            f"return_ is {number}, so a reward of the episode was no finite number; correct it, or "
            "leave the return out"
        )
    return number


def _count_of(value: Any, what: str) -> int:  # noqa: ANN401 - anything is refused
    try:
        number = operator.index(value)
    except TypeError:
        raise ArgumentTypeError(f"{what} is {value!r}; give a whole number from 0 up") from None
    if isinstance(value, bool):
        raise ArgumentTypeError(f"{what} is {value!r}; give a whole number from 0 up")
    if not 0 <= number <= _MOST:
        raise ArgumentError(f"{what} is {number}; give a whole number from 0 to {_MOST}")
    return number
