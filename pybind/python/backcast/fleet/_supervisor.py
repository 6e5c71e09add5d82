"""Supervisor of a fleet: a thread that starts actors, watches, restarts and stops them."""

from __future__ import annotations

import os
import selectors
import signal
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from backcast.errors import FleetError
from backcast.fleet import _failures
from backcast.fleet._environment import Identity, Place, seed_of
from backcast.fleet._guard import Guard
from backcast.fleet._process import ActorProcess, PayloadFile
from backcast.fleet._restarts import ProcessEnd, RestartAfter, RestartPolicy, decide
from backcast.fleet._signs import BEATS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from backcast.errors import ActorError, ActorTimeoutError
    from backcast.fleet._actor import ActorSpec
    from backcast.fleet._process import Message
    from backcast.fleet._stats import ActorStats

_TICK_S = 0.5
_INTERRUPT_S = 1.0
"""Seconds between the flag and SIGTERM."""
_ANSWER_S = 1.0
"""Seconds in which an actor has to answer where it is."""
_KILLED_S = 10.0
"""Seconds in which the kernel has to end a killed process; one that waits for a disk stays."""
_PATIENCE_S = 1.0
"""Seconds between the request to hurry and one that ends the wait for the actors."""


@dataclass(frozen=True)
class SupervisorSettings:
    """Settings of a fleet that concern its processes."""

    spec: ActorSpec
    n: int
    seed: int
    restarts: RestartPolicy
    start_timeout_s: float
    stop_timeout_s: float
    environment: dict[str, str]
    ring: str
    folders: list[str]
    """Base directories that the guardian cleans up after the parent's death."""
    report_timeout_s: float | None = None
    """Time without a sign of life after which an actor hangs; None for ever."""


@dataclass
class ActorState:
    """One rank: its process, if it has one, and what happened to earlier ones."""

    rank: int
    state: str = "starting"
    process: ActorProcess | None = None
    was_ready: bool = False
    """Whether one of its processes has been ready."""
    life: int = 0
    started_s: float = 0.0
    restart_at_s: float = 0.0
    deaths_s: tuple[float, ...] = ()
    """Times of the deaths that count against the limit of the policy."""
    failure: Message | None = field(default=None)
    last_error: str | None = None
    """Newest death in one line, with the traceback below it."""
    alive_s: float = 0.0
    """Time at which it became ready, or said that it waits."""
    asked_s: float | None = None
    """Time at which it was asked where it is, after it had been silent for too long."""
    looked_s: float = 0.0
    """Time at which it was last asked before that, in case it waits."""
    stack: str = ""
    """Stack of its function, if it answered."""
    silent_s: float | None = None
    """Time without a sign of life for which it was killed."""


class Supervisor:
    """Owns all processes of a fleet; only its thread touches them."""

    def __init__(
        self,
        settings: SupervisorSettings,
        on_failure: Callable[[FleetError], None],
        insist: Callable[[], None],
        on_tick: Callable[[], None],
        signs: Callable[[], Sequence[float]] = list,
        place: Place | None = None,
    ) -> None:
        self._settings = settings
        self._place = place = place or Place.whole(settings.n)
        self._on_failure, self._insist, self._on_tick = on_failure, insist, on_tick
        self._signs = signs
        limit_s = settings.report_timeout_s
        self._tick_s = _TICK_S if limit_s is None else min(_TICK_S, limit_s / 8)
        self._actors = [
            ActorState(rank, life=life) for rank, life in enumerate(place.lives, place.first)
        ]
        self.changed = threading.Condition()
        """Notified when an actor becomes ready or ends, and when the fleet fails."""
        self.failure: FleetError | None = None
        self.guardian_pid: int | None = None
        """First guardian, for tests."""
        self._stopping = self._abandoned = False
        self._hurry_s: float | None = None
        self._selector = selectors.DefaultSelector()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        self._selector.register(self._wake_read, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="backcast-fleet", daemon=True)

    def start(self) -> None:
        """Start the thread, which starts the actors."""
        self._thread.start()

    def actors(self) -> list[ActorStats]:
        """Describe all actors."""
        return [
            {
                "rank": actor.rank,
                "pid": process.pid if (process := actor.process) is not None else None,
                "state": actor.state,
                "restarts": actor.life,
                "episodes": 0,
                "version": None,
                "since_report_s": None,
                "last_error": actor.last_error,
            }
            for actor in self._actors
        ]

    def all_started(self) -> bool:
        """Return whether every actor has been ready."""
        return all(actor.was_ready for actor in self._actors)

    def all_finished(self) -> bool:
        """Return whether every function has returned, and every command ended with status 0."""
        return all(actor.state == "finished" for actor in self._actors)

    def hurry(self) -> None:
        """Kill what still runs, instead of waiting; may be called in a signal handler.

        A later call ends the wait itself. The guardian then ends what is left with this process.
        """
        if self._hurry_s is None:
            self._hurry_s = time.monotonic()
        elif time.monotonic() - self._hurry_s > _PATIENCE_S:
            self._abandoned = True
        self._wake()

    def stop(self) -> None:
        """Stop all actors, and wait until they are gone."""
        self._stopping = True
        self._wake()
        while self._thread.is_alive():
            if self._abandoned:
                # The thread still uses what is closed below.
                return
            self._thread.join(_TICK_S)
        self._selector.close()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def _wake(self) -> None:
        with suppress(BlockingIOError):
            os.write(self._wake_write, b"!")

    # The rest runs in the thread.

    def _run(self) -> None:
        payload: PayloadFile | None = None
        guard: Guard | None = None
        try:
            payload = PayloadFile(self._settings.spec.payload)
            guard = Guard(self._settings.folders)
            self.guardian_pid = guard.process.pid
            self._supervise(payload, guard)
        except Exception as error:
            self._fail(_failures.not_supervised(error))
        finally:
            try:
                self._stop_all()
            finally:
                # The caller waits for these: nothing that fails above leaves them out.
                for owned in (payload, guard):
                    if owned is not None:
                        owned.close()
                self._notify()
                self._insist()

    def _supervise(self, payload: PayloadFile, guard: Guard) -> None:
        next_tick_s = 0.0
        while not self._stopping and self.failure is None:
            now_s = time.monotonic()
            for actor in self._actors:
                due = actor.state == "waiting" and now_s >= actor.restart_at_s
                if due or (actor.state == "starting" and actor.process is None):
                    self._start_actor(actor, payload, guard)
            self._check_late(now_s)
            if now_s >= next_tick_s:
                guard.keep_alive()
                self._on_tick()
                self._check_hanging()
                next_tick_s = now_s + self._tick_s
            waits = [actor.restart_at_s for actor in self._actors if actor.state == "waiting"]
            self._select(min([next_tick_s, *waits]) - time.monotonic())

    def _start_actor(self, actor: ActorState, payload: PayloadFile, guard: Guard) -> None:
        settings = self._settings
        if actor.state == "waiting":
            actor.life += 1
        seed = seed_of(settings.seed, actor.rank, actor.life, self._place.generation)
        beat_s = (settings.report_timeout_s or 0.0) / BEATS
        identity = Identity(settings.ring, actor.rank, self._place.of, seed, actor.life, beat_s)
        try:
            process = ActorProcess(settings.spec, identity, settings.environment, payload, guard)
        except OSError as error:
            self._fail(_failures.not_started(actor.rank, settings.spec.label, error))
            return
        actor.process, actor.failure = process, None
        actor.asked_s = actor.silent_s = None
        actor.started_s = actor.alive_s = time.monotonic()
        self._selector.register(process.ended, selectors.EVENT_READ, actor)
        if process.link is not None:
            actor.state = "starting"
            self._selector.register(process.link, selectors.EVENT_READ, actor)
        else:
            # A command does not report that it is ready.
            actor.state, actor.was_ready = "running", True
            assert process.errors is not None
            self._selector.register(process.errors, selectors.EVENT_READ, actor)
            self._notify()

    def _select(self, timeout_s: float) -> None:
        """Wait for events of processes, and handle them."""
        for key, _ in self._selector.select(max(0.0, timeout_s)):
            actor: ActorState | None = key.data
            if actor is None:
                self._empty_pipe()
                continue
            process = actor.process
            # The process may have been reaped by an earlier event of this round.
            if process is None:
                continue
            if key.fileobj is process.link:
                self._listen(actor, process)
            elif key.fileobj == process.errors and key.fileobj != process.ended:
                if not process.forward_errors():
                    self._selector.unregister(process.errors)
            elif key.fileobj == process.ended:
                self._take_end(actor, process)

    def _empty_pipe(self) -> None:
        with suppress(BlockingIOError):
            while os.read(self._wake_read, 4096):
                pass

    def _listen(self, actor: ActorState, process: ActorProcess) -> None:
        heard = False
        for message in process.messages():
            heard = True
            if message.get("kind") == "ready":
                actor.state, actor.was_ready = "running", True
                actor.alive_s = time.monotonic()
                self._notify()
            elif message.get("kind") == "waits":
                actor.asked_s, actor.alive_s = None, time.monotonic()
            elif message.get("kind") == "hangs":
                actor.stack = str(message.get("trace", ""))
            elif message.get("kind") in {"error", "import", "main", "unknown"}:
                actor.failure = message
        if not heard and process.link is not None:
            # The end of the connection; that of the process follows.
            self._selector.unregister(process.link)
            process.link.close()
            process.link = None

    def _reap(self, actor: ActorState, process: ActorProcess) -> int:
        if process.link is not None:
            self._listen(actor, process)
        for descriptor in (process.ended, process.link, process.errors):
            if descriptor is not None and descriptor in self._selector.get_map():
                self._selector.unregister(descriptor)
        actor.process = None
        return process.reap()

    def _take_end(self, actor: ActorState, process: ActorProcess) -> None:
        """Record the end of a process, and finish, restart or fail as the policy decides."""
        settings, label = self._settings, self._settings.spec.label
        status = self._reap(actor, process)
        if self._stopping:
            actor.state = "stopped"
            return
        ready, message = actor.state == "running", actor.failure
        end = ProcessEnd(status, ready, raised=message is not None, at_s=time.monotonic())
        decision = decide(end, settings.restarts, actor.deaths_s)
        if decision == "finished":
            actor.state = "finished"
            self._notify()
            return
        actor.state = "dead"
        error: ActorError | ActorTimeoutError
        if actor.silent_s is not None and status == -signal.SIGKILL:
            last = f"hung: it gave no sign of life for {actor.silent_s:.3g} s"
            error = _failures.hanging(actor.rank, label, last, actor.stack)
        elif message is not None:
            error = _failures.raised(actor.rank, label, message)
            last = f"raised {str(message.get('text', '?')).splitlines()[0]}"
        else:
            error = _failures.ended(actor.rank, label, status, ready=ready, tail=process.tail)
            last = _failures.ending(status)
        actor.last_error = f"{last}\n{error.actor_traceback}".rstrip()
        if isinstance(decision, RestartAfter):
            _failures.say_restart(actor.rank, label, last)
            actor.deaths_s = decision.deaths_s
            actor.restart_at_s = end.at_s + decision.wait_s
            actor.state = "waiting"
            self._notify()
        elif decision == "too many deaths":
            trace, most = error.actor_traceback, settings.restarts.max_deaths
            self._fail(_failures.too_many(actor.rank, label, most, last, trace))
        else:
            self._fail(error)

    def _check_late(self, now_s: float) -> None:
        limit_s = self._settings.start_timeout_s
        late = [
            actor.rank
            for actor in self._actors
            if actor.state == "starting" and actor.process and now_s - actor.started_s > limit_s
        ]
        if late:
            self._fail(_failures.late(late, self._settings.spec.label, limit_s))

    def _check_hanging(self) -> None:
        """Ask silent actors where they are, and kill those that neither wait nor wake up.

        The silence of one that waits begins with its last answer. One that was stopped with the
        whole machine has the time for an answer to give a sign.
        """
        limit_s = self._settings.report_timeout_s
        if limit_s is None:
            return
        beat_s = limit_s / BEATS
        now_s = time.monotonic()
        signs_s = self._signs()
        for actor in self._actors:
            process = actor.process
            if actor.state != "running" or process is None or actor.silent_s is not None:
                continue
            silent_s = now_s - max(actor.alive_s, signs_s[actor.rank - self._place.first])
            # Signs are given now and then, so the newest may precede the silence by that much.
            if silent_s <= limit_s + beat_s:
                actor.asked_s = None
                # A wait that ends before the limit is no part of the silence.
                if silent_s > beat_s and now_s - actor.looked_s >= beat_s:
                    process.ask_where()
                    actor.looked_s = now_s
            elif actor.asked_s is None:
                # Commands, and functions that hold the lock of the interpreter, do not answer.
                process.ask_where()
                actor.asked_s, actor.stack = now_s, ""
            elif now_s - actor.asked_s >= min(_ANSWER_S, limit_s / 4):
                actor.silent_s = silent_s
                process.kill()

    def _fail(self, error: FleetError) -> None:
        if self.failure is None:
            self.failure = error
            self._notify()
            self._on_failure(error)

    def _notify(self) -> None:
        with self.changed:
            self.changed.notify_all()

    def _stop_all(self) -> None:
        """Ask actors to stop, send SIGTERM after a second, and SIGKILL after ``stop_timeout``.

        Gives up on processes that outlive SIGKILL by ten seconds.
        """
        self._stopping = True
        begin_s = killed_s = time.monotonic()
        steps = [
            (0.0, ActorProcess.ask_to_stop),
            (min(_INTERRUPT_S, self._settings.stop_timeout_s / 2), ActorProcess.terminate),
            (self._settings.stop_timeout_s, ActorProcess.kill),
        ]
        while running := [actor.process for actor in self._actors if actor.process is not None]:
            passed_s = time.monotonic() - begin_s
            while steps and (self._hurry_s is not None or passed_s >= steps[0][0]):
                act = steps.pop(0)[1]
                for process in running:
                    act(process)
                killed_s = time.monotonic()
            if not steps and time.monotonic() - killed_s >= _KILLED_S:
                pids = {actor.rank: actor.process.pid for actor in self._actors if actor.process}
                self._fail(_failures.not_ended(pids, self._settings.spec.label, _KILLED_S))
                break
            rest_s = begin_s + steps[0][0] - time.monotonic() if steps else _TICK_S
            self._select(rest_s)
        for actor in self._actors:
            if actor.state != "finished":
                actor.state = "stopped"
        self._on_tick()
