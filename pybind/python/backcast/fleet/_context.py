"""Actor's side of a fleet: its identity, the request to stop, and reports to the parent."""

from __future__ import annotations

import difflib
import functools
import math
import operator
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

import backcast as bc
from backcast._calls import explained
from backcast.errors import ArgumentError, ArgumentTypeError, BackcastError
from backcast.fleet._environment import Identity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from backcast import Writer

    Row = dict[str, Any]

NOTHING = -1
"""Length or version that a report does not have."""
NAME_BYTES = 32
"""Length of the longest name of a number, in UTF-8."""
MOST_NAMES = 64
"""Names of numbers that one process may report."""
_MOST = 2**63 - 1
_ARGUMENTS = ("return_", "length", "version")
_TYPO = 0.83
"""Likeness from which a name is a misspelt argument: `returns` and `lenght`, not `return_raw`."""
_NO_NAME = np.zeros(NAME_BYTES, "u1")


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
        self._names: set[str] = set()
        self._beat_due_s = 0.0

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
        """Whether the fleet stops: return soon. After a second the function is interrupted.

        Reading it is a sign of life for ``report_timeout=``.
        """
        if self._identity.beat_s:
            self._beat()
        return self._stop.is_set()

    @explained
    def wait(self, timeout: float | None = None) -> bool:
        """Sleep until the fleet stops, or the time is over.

        The call is a sign of life for ``report_timeout=``, and so is the wait.

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
        seconds = None
        if timeout is not None:
            seconds = number_of(timeout, "timeout")
            if math.isnan(seconds):
                raise ArgumentError(f"timeout is {seconds}; give seconds, or leave it out")
            seconds = min(seconds, threading.TIMEOUT_MAX)
        if self._identity.beat_s:
            self._beat()
        return self._stop.wait(seconds)

    @explained
    def report(
        self,
        return_: float | None = None,
        length: int | None = None,
        version: int | None = None,
        **numbers: float,
    ) -> None:
        """Report an episode, the version of the policy that acts, or named numbers, to the parent.

        One row of the fleet's own ring, and one more for each further number: no lock, no system
        call, and nothing that waits. Rows that the parent has not read are overwritten after some
        4,000 others of this actor. A process that is killed in the call leaves a part of the
        numbers, and no wrong one.

        Parameters
        ----------
        return_ : float, optional
            Sum of the episode's rewards; a report that has it counts as an episode.
        length : int, optional
            Steps of the episode.
        version : int, optional
            Version of the policy that acted last.
        **numbers : float
            Any other numbers by name, such as ``epsilon=0.1``, which ``fleet.stats()["numbers"]``
            shows. At most 64 names a process, each of at most 32 bytes. One that is nearly
            ``return_``, ``length`` or ``version`` is refused as a misspelling.

        Raises
        ------
        ArgumentTypeError
            If an argument is no number or misspelt, or all are left out.
        ArgumentError
            If a count is negative or too large, the return or a named number is not finite, or a
            name is too long or one too many.
        FleetError
            If no fleet started this process.
        """
        self._send(_rows_of(return_, length, version, numbers), numbers)

    def _send(self, rows: list[Row], names: Iterable[str]) -> None:
        known = self._names.union(names)
        if len(known) > MOST_NAMES:
            [name, *_] = sorted(known - self._names)
            raise ArgumentError(
                f"{name!r} is number {len(known)} of the names that this process reports, and it "
                f"may have {MOST_NAMES}; report the same names again and again"
            )
        self._names = known
        for row in rows:
            self._append(row)

    def _append(self, row: Row) -> None:
        if self._writer is None:
            ring = bc.ReplayBuffer.attach(self._identity.ring, on_unlinked="ignore")
            self._writer = ring.writer()
        now_s = time.monotonic()
        self._beat_due_s = now_s + self._identity.beat_s
        self._writer.append(
            rank=self.rank,
            life=self.life,
            time_s=now_s,
            **row,
            terminated=False,
            truncated=False,
        )

    def _beat(self) -> None:
        """Append a report that says nothing, unless the last row is recent."""
        if time.monotonic() >= self._beat_due_s:
            # A parent that is gone does not matter.
            with suppress(BackcastError):
                self._append(_row())


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
    return_: float | None = None,
    length: int | None = None,
    version: int | None = None,
    **numbers: float,
) -> None:
    """Report an episode, the version of the policy that acts, or named numbers, to the parent.

    Calls :meth:`Context.report` of this process.

    Parameters
    ----------
    return_ : float, optional
        Sum of the episode's rewards; a report that has it counts as an episode.
    length : int, optional
        Steps of the episode.
    version : int, optional
        Version of the policy that acted last.
    **numbers : float
        Any other numbers by name.

    Raises
    ------
    ArgumentTypeError
        If an argument is no number or misspelt, or all are left out.
    ArgumentError
        If a count is negative or too large, the return or a named number is not finite, or a name
        is too long or one too many.
    FleetError
        If no fleet started this process.
    """
    rows = _rows_of(return_, length, version, numbers)
    context()._send(rows, numbers)


def _rows_of(
    return_: float | None, length: int | None, version: int | None, numbers: Mapping[str, float]
) -> list[Row]:
    """Check a report, and divide it into rows of at most one named number."""
    if return_ is None and length is None and version is None and not numbers:
        raise ArgumentTypeError(
            "report() says nothing; give return_=, length=, version= or other numbers by name"
        )
    first = _row(
        float("nan") if return_ is None else _finite_of(return_, "return_", "the return"),
        NOTHING if length is None else _count_of(length, "length"),
        NOTHING if version is None else _count_of(version, "version"),
    )
    named = [
        {"name": _name_of(name), "value": _finite_of(value, name, "it")}
        for name, value in numbers.items()
    ]
    if not named:
        return [first]
    return [first | named[0], *(_row() | number for number in named[1:])]


def _row(return_: float = math.nan, steps: int = NOTHING, version: int = NOTHING) -> Row:
    row = {"return": return_, "steps": steps, "version": version}
    return row | {"name": _NO_NAME, "value": math.nan}


@functools.lru_cache(MOST_NAMES)
def _name_of(name: str) -> np.ndarray[Any, Any]:
    """Encode a name as a column holds it."""
    near = difflib.get_close_matches(name, _ARGUMENTS, 1, _TYPO)
    if near:
        raise ArgumentTypeError(
            f"report() has no argument `{name}`; did you mean `{near[0]}`? Name other numbers "
            "less like it"
        )
    encoded = name.encode(errors="replace")
    if not (0 < len(encoded) <= NAME_BYTES and name.isprintable()):
        raise ArgumentError(
            f"{name!r} is no name of a number; give 1 to {NAME_BYTES} bytes of printable characters"
        )
    row = np.zeros(NAME_BYTES, "u1")
    row[: len(encoded)] = list(encoded)
    return row


def number_of(value: Any, what: str) -> float:  # noqa: ANN401 - anything is refused
    """Read a number; one that no float can hold is infinite."""
    cause: Exception | None = None
    try:
        if not isinstance(value, str | bytes | bool | np.bool_):
            return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except (TypeError, ValueError, RuntimeError) as error:
        # PyTorch raises RuntimeError for a tensor of several elements.
        cause = error
    raise ArgumentTypeError(f"{what} is {value!r}; give a number") from cause


def _finite_of(value: Any, what: str, it: str) -> float:  # noqa: ANN401 - anything is refused
    number = number_of(value, what)
    if not math.isfinite(number):
        raise ArgumentError(
            f"{what} is {number}, which no mean could have; correct what it is computed from, or "
            f"leave {it} out"
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
