"""One node's part of a fleet: an ordinary fleet, and what it tells the learner.

A plain class, without Ray. It runs in a process of its own beside the shard's, so that neither's
end is the other's.
"""

from __future__ import annotations

import dataclasses
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import backcast as bc
from backcast.errors import BackcastError, FleetError, NotFoundError, WaitTimeoutError
from backcast.fleet import Fleet
from backcast.fleet._environment import RING, Place
from backcast.fleet._stats import Tally
from backcast.ray._node_actor import SentActor, SentCommand, spec_on_node

if TYPE_CHECKING:
    from backcast.fleet._actor import ActorSpec
    from backcast.fleet._metrics import Report
    from backcast.fleet._stats import ActorStats

Phase: TypeAlias = Literal["idle", "starting", "running", "failed", "stopped"]

_MOST_REPORTS = 100_000
"""Reports that wait for the learner; beyond that the oldest are lost, and counted."""
_EARLIER_S = 5.0
"""Seconds that actors of an earlier part have to end by themselves or by their guardian."""
_CHECK_S = 0.1
_LOOK_S = 0.05


@dataclasses.dataclass(frozen=True)
class FleetOrder:
    """Order of the learner to a node."""

    actor: SentActor | SentCommand
    n: int
    """Actors of this node."""
    place: Place
    options: dict[str, Any]
    """Further arguments of `Fleet`."""
    ring: str
    """Name of the node's ring, and of its parameters."""
    dir: str | None
    params_version: int | None
    """Version of the parameters that actors may rely on; None without parameters."""
    start_timeout_s: float


@dataclasses.dataclass(frozen=True)
class SentReport:
    """A report of an actor, with its age instead of its time."""

    rank: int
    return_: float | None
    length: int | None
    version: int | None
    age_s: float
    name: str | None
    value: float | None


@dataclasses.dataclass(frozen=True)
class Failure:
    """An error that ended the part, as words that any version of Python reads."""

    kind: str
    """Name of its class in `backcast.errors`."""
    text: str
    rank: int | None = None
    trace: str = ""


@dataclasses.dataclass(frozen=True)
class NodeView:
    """The part, at one moment."""

    phase: Phase
    generation: int
    actors: list[ActorStats]
    started: bool
    """Whether every actor has been ready."""
    finished: bool
    """Whether every actor has returned."""
    rows: int
    """Rows published in the node's ring since the part began."""
    reports: list[SentReport]
    taken: int
    """Number of the report after the last one of these."""
    missed: int
    """Rows of reports that were overwritten before they were read, here or there."""
    failure: Failure | None


class _Kept:
    """Reports until the learner says that it has them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reports: deque[Report] = deque()
        self._first = 0
        self.dropped = 0

    def add(self, reports: Iterable[Report]) -> None:
        with self._lock:
            self._reports.extend(report for report in reports if not report.is_beat)
            while len(self._reports) > _MOST_REPORTS:
                self._reports.popleft()
                self._first += 1
                self.dropped += 1

    def since(self, number: int) -> tuple[list[SentReport], int]:
        """Forget the reports before that number; return the others, and the number after them."""
        now_s = time.monotonic()
        with self._lock:
            while self._reports and self._first < number:
                self._reports.popleft()
                self._first += 1
            sent = [
                SentReport(
                    *(report.rank, report.return_, report.length, report.version),
                    *(max(0.0, now_s - report.time_s), report.name, report.value),
                )
                for report in self._reports
            ]
            return sent, self._first + len(sent)


class _KeepingTally(Tally):
    """Counts of the part, for signs of life; it keeps what it counts for the learner."""

    def __init__(
        self, actors: int, buffer: bc.ReplayBuffer | None, first: int, kept: _Kept
    ) -> None:
        super().__init__(actors, buffer, first)
        self._kept = kept

    def add(self, reports: Iterable[Report]) -> None:
        listed = list(reports)
        super().add(listed)
        self._kept.add(listed)


class _Part(Fleet):
    """Fleet of one node, whose ranks go on from those of other nodes."""

    def __init__(self, order: FleetOrder, ring: bc.ReplayBuffer) -> None:
        self._order, self._kept = order, _Kept()
        super().__init__(
            order.actor,  # type: ignore[arg-type]
            order.n,
            buffer=ring,
            dir=order.dir,
            progress=False,
            **order.options,
        )
        self._place = order.place

    def _spec_of(self, actor: object, args: object, path: str | None) -> ActorSpec:
        return spec_on_node(self._order.actor, path)

    def _new_tally(self) -> Tally:
        return _KeepingTally(self.n, self._buffer, self._place.first, self._kept)

    def _compare_lanes(self) -> None:
        """Leave the warning to the learner, where someone reads it."""

    def view(self, phase: Phase, taken: int) -> NodeView:
        """Show the part; the learner has the reports before number `taken`."""
        supervisor, reports = self._supervisor, self._reports
        if supervisor is not None and reports is not None:
            self._taken(supervisor)
        stats, (sent, number) = self._last, self._kept.since(taken)
        return NodeView(
            phase=phase,
            generation=self._place.generation,
            actors=[] if supervisor is None else supervisor.actors(),
            started=supervisor is not None and supervisor.all_started(),
            finished=supervisor is not None and supervisor.all_finished(),
            rows=(stats["rows"] or 0) if stats else 0,
            reports=sent,
            taken=number,
            missed=self._kept.dropped + (stats["missed_reports"] if stats else 0),
            failure=None,
        )


class NodeFleet:
    """Runs the part that the learner orders, in a thread, until it is told to stop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._order: FleetOrder | None = None
        self._part: _Part | None = None
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._phase: Phase = "idle"
        self._failure: Failure | None = None

    def start(self, order: FleetOrder) -> None:
        """Begin, unless a part was begun: an order may arrive twice."""
        with self._lock:
            if self._thread is None:
                self._phase, self._order = "starting", order
                self._thread = threading.Thread(target=self._run, args=(order,), daemon=True)
                self._thread.start()

    def view(self, taken: int = 0) -> NodeView:
        """Show the part; the learner has the reports before number `taken`."""
        with self._lock:
            part, phase, failure, order = self._part, self._phase, self._failure, self._order
        if part is not None:
            return dataclasses.replace(part.view(phase, taken), failure=failure)
        generation = -1 if order is None else order.place.generation
        return NodeView(phase, generation, [], False, False, 0, [], taken, 0, failure)

    def stop(self, taken: int = 0) -> NodeView:
        """Stop the actors, wait until they are gone, and show the part for the last time."""
        self._stop.set()
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join()
        return self.view(taken)

    def hurry(self) -> None:
        """Kill what still runs, instead of waiting."""
        with self._lock:
            part = self._part
        if part is not None:
            part._hurry()

    # The rest runs in the thread.

    def _run(self, order: FleetOrder) -> None:
        try:
            self._await_earlier(order)
            with ExitStack() as stack:
                ring = self._ring(order, stack)
                if ring is None:
                    return
                part = _Part(order, ring)
                with self._lock:
                    self._part = part
                stack.enter_context(part)
                with self._lock:
                    self._phase = "running"
                while not self._stop.wait(_CHECK_S):
                    part.check()
        except BaseException as error:
            with self._lock:
                self._failure = failure_of(error)
        finally:
            with self._lock:
                self._phase = "stopped" if self._failure is None else "failed"

    def _await_earlier(self, order: FleetOrder) -> None:
        """Wait until the actors of a part before this one are gone: they hold lanes of the ring.

        Those that outlive their supervisor by seconds are killed.
        """
        name, _, generation = order.options["name"].rpartition("-")
        ended_s = time.monotonic() + _EARLIER_S
        while int(generation) and (pids := _processes_of(name)) and not self._stop.is_set():
            if time.monotonic() >= ended_s:
                for pid in pids:
                    with suppress(OSError):
                        os.kill(pid, signal.SIGKILL)
            self._stop.wait(_LOOK_S)
        # A supervisor that was killed with its guardian leaves its ring of reports.
        bc.collect_garbage(dir=order.dir)

    def _ring(self, order: FleetOrder, stack: ExitStack) -> bc.ReplayBuffer | None:
        """Wait for the node's ring and parameters, which its shard makes; None if told to stop.

        A node that returns begins with neither.
        """
        deadline_s = time.monotonic() + order.start_timeout_s
        while not self._stop.is_set():
            try:
                ring = bc.ReplayBuffer.attach(order.ring, dir=order.dir, on_unlinked="ignore")
                stack.enter_context(ring)
                if order.params_version is not None:
                    params = stack.enter_context(bc.Params.attach(order.ring, dir=order.dir))
                    self._await_version(params, order.params_version, deadline_s)
                return ring
            except (NotFoundError, WaitTimeoutError) as error:
                stack.close()
                if time.monotonic() >= deadline_s:
                    raise FleetError(
                        f"the shard of this node has made no ring {order.ring!r} with parameters "
                        f"for {order.start_timeout_s:g} s ({error}); look at the shard's log, or "
                        "give a larger start_timeout="
                    ) from error
            self._stop.wait(_LOOK_S)
        return None

    def _await_version(self, params: bc.Params, version: int, deadline_s: float) -> None:
        while not self._stop.is_set() and params.version < version:
            if time.monotonic() >= deadline_s:
                raise WaitTimeoutError(f"version {version} is missing, there is {params.version}")
            self._stop.wait(_LOOK_S)


def _processes_of(name: str) -> list[int]:
    """Return this user's processes that are actors of an earlier part of that name."""
    wanted, found = f"{RING}={name}-".encode(), []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            # Processes that end meanwhile, and those of others.
            with suppress(OSError):
                words = (folder / "environ").read_bytes().split(b"\0")
                # Another fleet may be named like a part of this one: "walk-0".
                if any(word.startswith(wanted) and word[len(wanted) :].isdigit() for word in words):
                    found.append(int(folder.name))
    return found


def failure_of(error: BaseException) -> Failure:
    """Describe an error of a part."""
    kind = type(error).__name__ if isinstance(error, BackcastError) else "FleetError"
    text = str(error) if isinstance(error, BackcastError) else f"a node's fleet failed: {error!r}"
    rank = getattr(error, "rank", None)
    return Failure(kind, text, rank, getattr(error, "actor_traceback", ""))
