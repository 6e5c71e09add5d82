"""`Fleet`: starts actors in processes, watches and restarts them, and stops them in every case."""

from __future__ import annotations

import copy
import math
import os
import secrets
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

import backcast as bc
from backcast._calls import explained, explained_as
from backcast._counts import count_of, whole_of
from backcast.errors import (
    ActorTimeoutError,
    ArgumentError,
    ArgumentTypeError,
    ExistsError,
    FleetError,
    WriterWarning,
)
from backcast.fleet._actor import ActorSpec, spec_of
from backcast.fleet._arguments import (
    check_writer,
    environment_of,
    folders_of,
    seconds_of,
    seed_of,
    wrong_choice,
)
from backcast.fleet._environment import Place
from backcast.fleet._log import StatsLog
from backcast.fleet._metrics import Report, ReportRing
from backcast.fleet._progress import ProgressLine, progress_line
from backcast.fleet._restarts import CHOICES, RestartPolicy
from backcast.fleet._signals import ParentSignals
from backcast.fleet._stats import ActorStats, FleetStats, Tally
from backcast.fleet._supervisor import Supervisor, SupervisorSettings

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

_MOST_ACTORS = 4096


class AnySupervisor(Protocol):
    """Thread that supervises the actors of a fleet."""

    changed: threading.Condition
    failure: FleetError | None

    def start(self) -> None:
        """Start the thread, which starts the actors."""

    def actors(self) -> list[ActorStats]:
        """Describe all actors."""

    def all_started(self) -> bool:
        """Return whether every actor has been ready."""

    def all_finished(self) -> bool:
        """Return whether every actor has returned."""

    def hurry(self) -> None:
        """Kill what still runs, instead of waiting."""

    def stop(self) -> None:
        """Stop all actors, and wait until they are gone."""


class AnyReports(Protocol):
    """Place where the actors of a fleet report."""

    missed: int

    def read(self) -> list[Report]:
        """Return the reports since the last call."""

    def show(self, stats: FleetStats, ring: str | None) -> None:
        """Show statistics to other processes."""

    def close(self) -> None:
        """Remove it."""


class Fleet:
    """Processes that act, for as long as a ``with`` block lasts.

    Entering the block starts ``n`` processes and returns once all of them are ready. Leaving it, by
    its end, an exception, Ctrl-C, SIGTERM or SIGHUP, stops them: functions see
    :attr:`backcast.fleet.Context.stopped`, are interrupted after a second, and killed after
    ``stop_timeout``. When this process is killed, a guardian process ends them within two seconds
    and removes rings that no process holds any more.

    An actor that raises stops the fleet: its error is raised in the main thread immediately,
    whatever it waits for, with the actor's traceback as a note.

    Parameters
    ----------
    actor : callable, str or list of str
        A function, called as ``actor(context, *args)`` with a :class:`backcast.fleet.Context`; the
        path of one, ``"module:function"``; or a command. Functions are imported in new
        interpreters, so the program needs ``if __name__ == "__main__":``. Commands find rank, seed
        and the ring of reports in ``BACKCAST_FLEET_*``.
    n : int, default 1
        Actors, 1 to 4096.
    args : tuple, default ()
        Arguments of the function after the context: names and numbers, and anything that pickles.
    seed : int, default 0
        Seed from which every process gets its own, by rank and by life.
    restart : {"signal", "always", "never"}, default "signal"
        Ends that are followed by a restart: deaths by a signal; also exceptions and exit statuses;
        none. The first restart waits 0.1 s, each further one twice as long, at most 5 s.
    max_deaths : int, default 5
        Deaths of one actor within a minute that end the fleet.
    buffer : ReplayBuffer, optional
        Ring that the actors fill, for :meth:`stats`.
    name : str, optional
        Name of the ring of reports; generated when left out.
    env : dict of str, optional
        Environment variables beside the parent's. Linear algebra uses one thread an actor unless
        they say otherwise.
    start_timeout : float, default 120.0
        Seconds within which a function has to be imported.
    report_timeout : float, optional
        Seconds without a sign of life after which an actor hangs: it is killed, and restarts unless
        ``restart="never"``. It is found within twice that time. Signs are reports, rows published
        in ``buffer``, and reading :attr:`backcast.fleet.Context.stopped`. An actor that waits for
        the rate limiter of ``buffer``, for parameters or in :meth:`backcast.fleet.Context.wait`
        does not hang. Left out, no actor is killed for its silence.
    stop_timeout : float, default 5.0
        Seconds from the request to stop until actors are killed.
    progress : bool, optional
        Show a line on stderr; left out, if that is a terminal. It is live where ``rich`` is
        installed (``pip install 'backcast[fleet]'``).
    dir : path, optional
        Base directory of the ring of reports; by default ``BACKCAST_DIR``, else ``/dev/shm``.

    Raises
    ------
    ArgumentError
        If an argument is invalid, or the actor cannot be found or sent to another process.

    Warns
    -----
    WriterWarning
        When the block is entered, if the ring given as ``buffer`` has fewer lanes than actors.
    """

    @explained_as(
        n_actors="n",
        num_actors="n",
        n_workers="n",
        num_workers="n",
        n_processes="n",
        num_processes="n",
        fn="actor",
        func="actor",
        function="actor",
        target="actor",
        worker="actor",
    )
    def __init__(
        self,
        actor: Callable[..., object] | str | Sequence[str],
        n: int = 1,
        *,
        args: tuple[Any, ...] = (),
        seed: int = 0,
        restart: Literal["signal", "always", "never"] = "signal",
        max_deaths: int = 5,
        buffer: bc.ReplayBuffer | None = None,
        name: str | None = None,
        env: Mapping[str, str] | None = None,
        start_timeout: float = 120.0,
        report_timeout: float | None = None,
        stop_timeout: float = 5.0,
        progress: bool | None = None,
        dir: str | os.PathLike[str] | None = None,
    ) -> None:
        count = count_of(n, "n", 1, ArgumentError)
        if count > _MOST_ACTORS:
            raise ArgumentError(f"n is {count}; give a whole number from 1 to {_MOST_ACTORS}")
        if restart not in CHOICES:
            raise wrong_choice(restart)
        if buffer is not None and not isinstance(buffer, bc.ReplayBuffer):
            raise ArgumentTypeError(f"buffer is {buffer!r}; give a backcast.ReplayBuffer")
        if name is not None and not isinstance(name, str):
            raise ArgumentTypeError(f"name is {name!r}; give a str, or leave it out")
        if progress is not None and not isinstance(progress, bool):
            raise ArgumentTypeError(
                f"progress is {progress!r}; give True or False, or leave it out"
            )
        if dir is not None and not isinstance(dir, str | os.PathLike):
            raise ArgumentTypeError(f"dir is {dir!r}; give a path, or leave it out")
        self._dir = None if dir is None else os.path.abspath(dir)
        self._name = name if name is not None else f"fleet-{os.getpid()}-{secrets.token_hex(3)}"
        self._buffer, self._progress = buffer, progress
        environment = environment_of(env)
        if self._dir is not None:
            # Actors look for the ring of reports where the parent made it.
            environment.setdefault("BACKCAST_DIR", self._dir)
        path = environment.get("PATH", os.environ.get("PATH"))
        self._place = Place.whole(count)
        self._settings = SupervisorSettings(
            spec=self._spec_of(actor, args, path),
            n=count,
            seed=seed_of(seed),
            restarts=RestartPolicy(restart, count_of(max_deaths, "max_deaths", 1, ArgumentError)),
            start_timeout_s=seconds_of(start_timeout, "start_timeout"),
            stop_timeout_s=seconds_of(stop_timeout, "stop_timeout"),
            environment=environment,
            ring=self._name,
            folders=folders_of(self._dir, buffer),
            report_timeout_s=(
                None if report_timeout is None else seconds_of(report_timeout, "report_timeout")
            ),
        )
        self._supervisor: AnySupervisor | None = None
        self._reports: AnyReports | None = None
        self._tally: Tally | None = None
        self._reading = threading.Lock()
        self._line: ProgressLine | None = None
        self._last: FleetStats | None = None
        self._logs: list[StatsLog] = []
        self._signals = ParentSignals(self._hurry, Fleet.__exit__.__code__, Fleet._end.__code__)

    @property
    def name(self) -> str:
        """Name of the ring of reports."""
        return self._name

    @property
    def n(self) -> int:
        """Actors of the fleet."""
        return self._settings.n

    def __enter__(self) -> Self:
        """Start the actors, and wait until all are ready.

        Raises
        ------
        FleetError
            If an actor cannot be imported or started, or the block was entered before.
        ExistsError
            If the name is taken.
        """
        if self._supervisor is not None:
            raise FleetError("the fleet was started before; make another one")
        self._compare_lanes()
        self._reports = self._open_reports()
        self._tally = self._new_tally()
        try:
            self._supervisor = self._new_supervisor(self._tally)
            self._signals.install()
            self._line = progress_line(self._progress)
            self._supervisor.start()
            self._wait_until(self._supervisor.all_started, None)
        except BaseException as error:
            self._end()
            self._signals.deliver(error)
            raise
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None = None,
        error: BaseException | None = None,
        _traceback: TracebackType | None = None,
    ) -> None:
        """Stop the actors; raise a failure that no other call has raised."""
        self._signals.leaving = True
        supervisor = self._live()
        self._end()
        failure = supervisor.failure
        try:
            self._write_logs(self._logs)
        finally:
            self._raise_last(failure, error)

    def _raise_last(self, failure: FleetError | None, error: BaseException | None) -> None:
        try:
            if failure is not None and error is not failure and isinstance(error, Exception | None):
                raise failure
        finally:
            # Its exception has the failure as its context.
            self._signals.deliver(error)

    # A fleet over several machines replaces the methods from here on.

    def _spec_of(self, actor: object, args: object, path: str | None) -> ActorSpec:
        """Check the actor and its arguments."""
        return spec_of(actor, args, path)

    def _open_reports(self) -> AnyReports:
        """Make the ring that actors report to."""
        try:
            return ReportRing(self._name, self.n, self._dir, self._place.first)
        except ExistsError as error:
            raise ExistsError(
                f"the fleet's name {self._name!r} is taken ({error}); leave name= out, or give "
                "another"
            ) from error

    def _new_tally(self) -> Tally:
        """Make the counts of the fleet."""
        return Tally(self.n, self._buffer, self._place.first)

    def _new_supervisor(self, tally: Tally) -> AnySupervisor:
        """Make the thread that starts, watches and stops the actors."""
        signals, settings = self._signals, self._settings
        return Supervisor(
            settings, signals.fail, signals.insist, self._tick, tally.signs, self._place
        )

    def _compare_lanes(self) -> None:
        """Warn of actors that will find no lane to write into."""
        buffer = self._buffer
        if buffer is not None and buffer.name is not None and buffer.lanes < self.n:
            lanes = f"{buffer.lanes} lane{'s' if buffer.lanes > 1 else ''}"
            message = (
                f"ring {buffer.name} has {lanes} for {self.n} actors, and each writer needs one of "
                f"its own; create it with lanes={self.n} or more"
            )
            warnings.warn(WriterWarning(message), stacklevel=3)

    def _end(self) -> None:
        self._signals.leaving = True
        self._signals.disarm()
        try:
            if self._supervisor is not None:
                self._supervisor.stop()
            if self._line is not None:
                self._line.close()
            if self._reports is not None:
                self._reports.close()
                self._reports = None
        finally:
            self._signals.restore()

    def _hurry(self) -> None:
        if self._supervisor is not None:
            self._supervisor.hurry()

    def _live(self) -> AnySupervisor:
        if self._supervisor is None or self._reports is None:
            raise FleetError(
                "the fleet does not run; use it inside of its block: with bc.Fleet(...) as fleet:"
            )
        return self._supervisor

    def _tick(self) -> None:
        """Read reports and show progress; runs in the supervisor's thread."""
        if self._supervisor is None or self._reports is None:
            return
        stats = self._taken(self._supervisor)
        self._reports.show(stats, None if self._buffer is None else self._buffer.name)
        if self._line is not None:
            self._line.show(stats)

    def _taken(self, supervisor: AnySupervisor) -> FleetStats:
        """Read the new reports, and take statistics."""
        tally, reports = self._tally, self._reports
        assert tally is not None
        assert reports is not None
        with self._reading:
            tally.add(reports.read())
            self._last = tally.stats(supervisor.actors(), reports.missed)
            return self._last

    @explained
    def update(
        self, updates: int = 1, *, samples: int | None = None, version: int | None = None
    ) -> None:
        """Count updates of the learner.

        Parameters
        ----------
        updates : int, default 1
            Gradient steps since the last call.
        samples : int, optional
            Items that they drew, for the ratio of a ring without a rate limiter.
        version : int, optional
            Version of the policy that was published just now, such as ``params.publish(...)``
            returns; the age of the policy is measured from it. A lower one than before is a return
            to an older policy.

        Raises
        ------
        FleetError
            If the fleet failed, or does not run.
        ArgumentError
            If a count is invalid.
        """
        count = count_of(updates, "updates", 0, ArgumentError)
        drawn = 0 if samples is None else count_of(samples, "samples", 0, ArgumentError)
        if version is not None:
            version = whole_of(version, "version", "a whole number")
        self.check()
        assert self._tally is not None
        self._tally.update(count, drawn, version)
        if self._logs:
            self._write_logs(self._due_logs())

    @explained
    def log_to(
        self, write: Callable[[dict[str, float], int], object], *, every: float = 10.0
    ) -> None:
        """Have a function write the statistics now and then, such as ``wandb.log``.

        It is called as ``write(numbers, step)`` in :meth:`update` and :meth:`wait`, by the thread
        that calls them, and once more when the block has ended. ``numbers`` has the statistics that
        are known, as ``"fleet/rows_per_s"`` and so on, and the means of ``numbers`` by their names.
        ``step`` is the number of updates, or of seconds where :meth:`update` is not called. What
        the function raises becomes a ``FleetWarning``, and training goes on.

        Parameters
        ----------
        write : callable
            Function of a dict of numbers and a step.
        every : float, default 10.0
            Seconds between two calls, at least.

        Raises
        ------
        ArgumentTypeError
            If ``write`` cannot be called with both, or ``every`` is no number.
        ArgumentError
            If ``every`` is not above 0.

        Warns
        -----
        FleetWarning
            When ``write`` raises, from the call that called it.
        """
        check_writer(write)
        self._logs.append(StatsLog(write, seconds_of(every, "every")))

    def _due_logs(self) -> list[StatsLog]:
        now_s = time.monotonic()
        return [log for log in self._logs if now_s >= log.due_s]

    def _write_logs(self, logs: list[StatsLog]) -> None:
        for log in logs:
            log.write(self.stats())

    def check(self) -> None:
        """Raise the failure of the fleet, if there is one.

        Only threads other than the main one need this: there a failure interrupts.

        Raises
        ------
        FleetError
            If the fleet failed, or does not run.
        """
        failure = self._live().failure
        if failure is not None:
            raise failure

    @explained
    def wait(self, timeout: float | None = None) -> None:
        """Wait until every function has returned and every command has ended.

        Parameters
        ----------
        timeout : float, optional
            Seconds; without it, for ever.

        Raises
        ------
        ActorTimeoutError
            If actors still run when the time is over.
        FleetError
            If the fleet fails meanwhile, or does not run.
        ArgumentTypeError
            If ``timeout`` is no number.
        """
        seconds = None if timeout is None else seconds_of(timeout, "timeout")
        supervisor = self._live()
        deadline = math.inf if seconds is None else time.monotonic() + seconds
        done = False
        while not done and (now_s := time.monotonic()) < deadline:
            next_s = min([deadline, *(log.due_s for log in self._logs)])
            rest = None if next_s == math.inf else max(0.0, next_s - now_s)
            done = self._wait_until(supervisor.all_finished, rest)
            self._write_logs(self._due_logs())
        # The functions of `log_to` may have taken the rest of the time.
        if not done and not self._wait_until(supervisor.all_finished, 0.0):
            left = [str(a["rank"]) for a in supervisor.actors() if a["state"] != "finished"]
            raise ActorTimeoutError(
                f"actors {', '.join(left)} still run after {timeout} s; wait longer, or leave the "
                "block to stop them"
            )

    def _wait_until(self, done: Callable[[], bool], timeout_s: float | None) -> bool:
        supervisor = self._live()
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        with supervisor.changed:
            while supervisor.failure is None and not done():
                rest = None if deadline is None else deadline - time.monotonic()
                if rest is not None and rest <= 0:
                    return False
                supervisor.changed.wait(rest)
        self.check()
        return True

    def stats(self) -> FleetStats:
        """Take statistics of actors and learner.

        Returns
        -------
        dict
            ``seconds``: since the start of the fleet.
            ``running``: actors that run now; ``restarts``: of all actors together.
            ``rows``, ``rows_per_s``: published since the start; None without ``buffer=``.
            ``updates``, ``updates_per_s``: of :meth:`update`; rates are over 5 s.
            ``samples_per_insert``: drawn items for each insert, from the rate limiter or
            ``update(samples=)``; None without either.
            ``policy_version``: the newest that :meth:`update` was told, else None.
            ``policy_age_versions``, ``policy_age_s``: mean age of what actors acted with, over
            their last 100 reports with a version; None before the first, and before
            :meth:`update` was told one. The seconds are of the versions that it was told.
            ``episodes``: reports with a return; ``return_mean``, ``length_mean``: of the last 100;
            ``return_last``: of the newest report. None before the first.
            ``numbers``: what actors report by name, a dict for each: ``last``, ``mean`` of the last
            100, and ``count``, of all actors together.
            ``missed_reports``: overwritten before this process read them, in rows: a report has one
            for each named number, and at least one.
            ``limiter``: as in ``buffer.stats()``, with the waits of both sides, or None.
            ``actors``: a dict for each, in order of ``rank``. ``pid``: None between two lives.
            ``state``: ``"starting"``, ``"running"``, ``"waiting"`` for its restart, ``"finished"``,
            ``"dead"`` or ``"stopped"``. ``restarts``, ``episodes``: of this actor. ``version``:
            the one it reported last; ``since_report_s``: age of its newest report, or None.
            ``last_error``: text of its newest death with the actor's traceback, or None.

            After the block: the last ones, as they were when the actors had ended.

        Raises
        ------
        FleetError
            If the fleet failed while it runs, or has not been started.
        """
        if self._reports is None and self._last is not None:
            return copy.deepcopy(self._last)
        self.check()
        return self._taken(self._live())

    def __repr__(self) -> str:
        """Return the actor and how many there are."""
        return f"<backcast.Fleet {self._name!r}: {self.n} x {self._settings.spec.label}>"
