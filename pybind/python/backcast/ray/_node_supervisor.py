"""Supervisor of a fleet over several nodes: orders each node's part, and follows what it tells."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from backcast import errors
from backcast.errors import ActorTimeoutError, FleetError
from backcast.fleet._metrics import Report
from backcast.ray._node_calls import NodeDownError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backcast.fleet._stats import ActorStats, FleetStats
    from backcast.ray._node_calls import NodeCalls
    from backcast.ray._node_fleet import Failure, FleetOrder, NodeView

_LOOK_S = 0.5
"""Seconds between two questions to a node."""
_RETRY_S = 1.0
_LOST_S = 3.0
"""Seconds without an answer after which a node is shown as lost."""
_WAIT_S = 0.05
_PROCESS_S = 60.0
"""Seconds beyond ``start_timeout`` in which each node has to start the process of its part."""
_STOP_S = 15.0
"""Seconds beyond ``stop_timeout`` in which a node has to say that its actors are gone."""

Order = Callable[[int, tuple[int, ...], int], "FleetOrder"]
"""Makes the order of a node: its number, the lives of its actors, and its generation."""


@dataclass
class _Node:
    """One node: what it told last, and the call that is under way."""

    number: int
    ranks: range
    calls: dict[str, Any] = field(default_factory=dict)
    """Calls without an answer, by method."""
    sent_s: dict[str, float] = field(default_factory=dict)
    view: NodeView | None = None
    heard_s: float = 0.0
    due_s: float = 0.0
    orders: int = 0
    taken: int = 0
    earlier_rows: int = 0
    """Rows of parts that ended with their processes."""
    earlier_missed: int = 0
    was_started: bool = False
    lost: bool = False
    stopped: bool = False
    lives: list[int] = field(default_factory=list)

    @property
    def rows(self) -> int:
        return self.earlier_rows + (self.view.rows if self.view else 0)

    @property
    def missed(self) -> int:
        return self.earlier_missed + (self.view.missed if self.view else 0)


class NodeReports:
    """Reports of all nodes, until the fleet reads them, and the rows of their rings."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reports: list[Report] = []
        self.missed = 0
        self.rows = 0
        self.limiter: Callable[[], dict[str, Any] | None] = lambda: None

    def add(self, view: NodeView, taken: int) -> None:
        """Take the reports of a node, which say their ages, but those before number `taken`.

        Two calls that are under way at a time are answered with the same reports.
        """
        now_s, first = time.monotonic(), view.taken - len(view.reports)
        with self._lock:
            self._reports += [
                Report(
                    *(one.rank, one.return_, one.length, one.version),
                    *(max(0.0, now_s - one.age_s), one.name, one.value),
                )
                for one in view.reports[max(0, taken - first) :]
            ]

    def read(self) -> list[Report]:
        """Return the reports since the last call."""
        with self._lock:
            reports, self._reports = self._reports, []
        return reports

    def show(self, stats: FleetStats, ring: str | None) -> None:
        """Show nothing: `backcast top` shows each node's part on its node."""

    def close(self) -> None:
        """Keep what was not read yet."""

    def stats(self) -> dict[str, Any]:
        """Return the rows of all rings as the statistics of one."""
        lane, limiter = {"head": self.rows, "pid": None}, self.limiter()
        if limiter is not None:
            # Signs of life of actors that wait are those of their node.
            limiter = {**limiter, "waiters": []}
        return {"lane_stats": [lane], "limiter": limiter}


class NodeSupervisor:
    """Follows the parts of a fleet; only its thread talks to the nodes."""

    def __init__(
        self,
        calls: NodeCalls,
        nodes: Sequence[str],
        n: int,
        order: Order,
        reports: NodeReports,
        *,
        label: str,
        start_timeout_s: float,
        stop_timeout_s: float,
        on_failure: Callable[[FleetError], None],
        insist: Callable[[], None],
        on_tick: Callable[[], None],
    ) -> None:
        self._calls, self._order, self._reports, self._label = calls, order, reports, label
        self._names = list(nodes)
        self._start_timeout_s, self._stop_timeout_s = start_timeout_s, stop_timeout_s
        self._on_failure, self._insist, self._on_tick = on_failure, insist, on_tick
        self._nodes = [
            _Node(k, range(k * n, (k + 1) * n), lives=[0] * n) for k in range(len(self._names))
        ]
        self.changed = threading.Condition()
        self.failure: FleetError | None = None
        self._stopping = self._hurried = self._abandoned = False
        self._thread = threading.Thread(target=self._run, name="backcast-fleet", daemon=True)

    def start(self) -> None:
        """Start the thread, which orders the parts."""
        self._thread.start()

    def actors(self) -> list[ActorStats]:
        """Describe all actors, by rank."""
        return [actor for node in self._nodes for actor in self._actors_of(node)]

    def _actors_of(self, node: _Node) -> list[ActorStats]:
        view = node.view
        shown: dict[int, ActorStats] = {}
        if view is not None:
            shown = {actor["rank"]: actor for actor in view.actors}
        return [
            self._shown(node, rank, life, shown.get(rank))
            for rank, life in zip(node.ranks, node.lives, strict=True)
        ]

    def _shown(self, node: _Node, rank: int, life: int, seen: ActorStats | None) -> ActorStats:
        state = "starting" if seen is None else seen["state"]
        if node.stopped and state != "finished":
            state = "stopped"
        elif node.lost:
            state = "lost"
        gone = seen is None or node.lost or node.stopped
        return {
            "rank": rank,
            "pid": None if gone or seen is None else seen["pid"],
            "state": state,
            "restarts": life,
            "episodes": 0,
            "version": None,
            "since_report_s": None,
            "last_error": None if seen is None else seen["last_error"],
        }

    def all_started(self) -> bool:
        """Return whether every actor of every node has been ready."""
        return all(node.was_started for node in self._nodes)

    def all_finished(self) -> bool:
        """Return whether every actor of every node has returned."""
        return all(
            node.view is not None and node.view.finished and not node.lost for node in self._nodes
        )

    def hurry(self) -> None:
        """Kill what still runs; a later call ends the wait itself."""
        self._abandoned, self._hurried = self._hurried, True

    def stop(self) -> None:
        """Stop all actors, and wait until their nodes say that they are gone."""
        self._stopping = True
        while self._thread.is_alive() and not self._abandoned:
            self._thread.join(_LOOK_S)

    # The rest runs in the thread.

    def _run(self) -> None:
        try:
            started_s = time.monotonic()
            next_tick_s = 0.0
            while not self._stopping and self.failure is None:
                now_s = time.monotonic()
                for node in self._nodes:
                    if now_s >= node.due_s:
                        self._ask(node, "view", node.taken)
                self._listen(_WAIT_S)
                self._note_lost()
                if (
                    not self.all_started()
                    and now_s - started_s > self._start_timeout_s + _PROCESS_S
                ):
                    self._fail(self._late())
                if now_s >= next_tick_s:
                    self._on_tick()
                    next_tick_s = now_s + _LOOK_S
        except Exception as error:
            failure = FleetError(
                f"the supervisor of the fleet over nodes failed ({error!r}); report this bug"
            )
            failure.__cause__ = error
            self._fail(failure)
        finally:
            try:
                self._stop_all()
            finally:
                self._notify()
                self._insist()

    def _ask(self, node: _Node, method: str, *given: Any) -> None:
        """Call a method of a node, unless the same call has no answer yet."""
        if method in node.calls:
            return
        node.due_s = time.monotonic() + _LOOK_S
        node.sent_s[method] = time.monotonic()
        node.calls[method] = self._calls.send(node.number, method, *given)

    def _listen(self, timeout_s: float) -> None:
        """Take the answers that come within a time."""
        waiting = {
            id(call): (node, method) for node in self._nodes for method, call in node.calls.items()
        }
        calls = [call for node in self._nodes for call in node.calls.values()]
        if not calls:
            time.sleep(timeout_s)
            return
        for call in self._calls.ready(calls, timeout_s):
            node, method = waiting[id(call)]
            del node.calls[method]
            try:
                answer = self._calls.answer(call)
            except NodeDownError:
                node.due_s = time.monotonic() + _RETRY_S
                if method == "stop":
                    node.stopped = True
                continue
            # A view that was made before the last one shows less.
            if method == "stop" or (method == "view" and not node.stopped):
                self._take(node, answer)
                node.stopped |= method == "stop"

    def _take(self, node: _Node, view: NodeView) -> None:
        """Note what a node tells; order its part if its process is a new one."""
        node.heard_s, node.lost = time.monotonic(), False
        if view.phase == "idle":
            if node.view is not None or node.orders:
                self._begin_again(node)
            if not self._stopping:
                order = self._order(node.number, tuple(node.lives), node.orders)
                node.orders += 1
                self._ask(node, "start", order)
            return
        node.view = view
        for actor in view.actors:
            node.lives[actor["rank"] - node.ranks.start] = actor["restarts"]
        self._reports.add(view, node.taken)
        node.taken = max(node.taken, view.taken)
        node.was_started |= view.started
        self._reports.rows = sum(one.rows for one in self._nodes)
        self._reports.missed = sum(one.missed for one in self._nodes)
        if view.failure is not None and not self._stopping:
            self._fail(failure_from(view.failure, self._names[node.number]))
        self._notify()

    def _begin_again(self, node: _Node) -> None:
        """Count a part as ended: its process is another one now."""
        if node.view is not None:
            node.earlier_rows, node.earlier_missed = node.rows, node.missed
            node.view = None
            # Lives that the node did not tell of have other seeds by the generation.
            node.lives = [life + 1 for life in node.lives]
        node.taken = 0

    def _note_lost(self) -> None:
        """Show nodes that do not answer as lost, and say so once."""
        now_s = time.monotonic()
        for node in self._nodes:
            silent = node.was_started and not node.lost and now_s - node.heard_s > _LOST_S
            if silent:
                node.lost = True
                if sys.stderr is not None:
                    with suppress(OSError, ValueError):
                        print(
                            f"backcast: {self._names[node.number]} does not answer; its actors "
                            "start again when it returns",
                            file=sys.stderr,
                            flush=True,
                        )

    def _late(self) -> FleetError:
        late = [self._names[node.number] for node in self._nodes if not node.was_started]
        seconds = self._start_timeout_s + _PROCESS_S
        return ActorTimeoutError(
            f"the actors ({self._label}) of {', '.join(late)} were not ready within {seconds:g} s; "
            "look whether these nodes are there and what the actor's module does on import, or "
            "give a larger start_timeout="
        )

    def _fail(self, error: FleetError) -> None:
        if self.failure is None:
            self.failure = error
            self._notify()
            self._on_failure(error)

    def _notify(self) -> None:
        with self.changed:
            self.changed.notify_all()

    def _stop_all(self) -> None:
        """Tell the nodes to stop, and end the processes of their parts."""
        self._stopping = True
        deadline_s = time.monotonic() + self._stop_timeout_s + _STOP_S
        hurried = False
        for node in self._nodes:
            if node.orders and not node.lost:
                self._ask(node, "stop", node.taken)
            else:
                node.stopped = True
        while time.monotonic() < deadline_s and not self._abandoned:
            if all(node.stopped for node in self._nodes):
                break
            if self._hurried and not hurried:
                hurried = True
                for node in self._nodes:
                    if not node.stopped:
                        self._ask(node, "hurry")
            self._listen(_WAIT_S)
        for node in self._nodes:
            self._calls.end(node.number)
            node.stopped = True
        self._on_tick()


def failure_from(failure: Failure, node: str) -> FleetError:
    """Make the error of a part again, with the actor's traceback and its node as a note."""
    kind = getattr(errors, failure.kind, FleetError)
    if not (isinstance(kind, type) and issubclass(kind, FleetError)):
        kind = FleetError
    error: FleetError = kind(failure.text)
    if failure.rank is None:
        error.add_note(f"on {node}")
        return error
    error.rank, error.actor_traceback = failure.rank, failure.trace  # type: ignore[attr-defined]
    error.add_note(f"\nActor {failure.rank} on {node}:\n{failure.trace.rstrip()}".rstrip(":\n"))
    return error
