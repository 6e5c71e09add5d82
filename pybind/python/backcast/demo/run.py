"""One run of the demo: creates ring and panel, starts, monitors and ends the processes."""

from __future__ import annotations

import os
import secrets
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import backcast as bc
from backcast.demo.actor import ActorSettings, act
from backcast.demo.aftermath import Aftermath
from backcast.demo.data import MACRO, write_real_panel
from backcast.demo.fleet import Child, ChildFailedError, Fleet, Interrupts
from backcast.demo.learner import LearnerSettings, learn
from backcast.demo.monitor import AutoresetMode, Monitor, Slot
from backcast.demo.rows import schema
from backcast.demo.split import Split, split

if TYPE_CHECKING:
    from backcast.demo.options import Options
    from backcast.demo.progress import Frame, Progress

_AUTORESET_MODES: tuple[AutoresetMode, ...] = ("next_step", "same_step")
_START_SECONDS = 60.0
_FRAME_SECONDS = 0.25
# A successor's first row is read before the lane overwrites it.
_WATCH_SECONDS = 0.005


Job: TypeAlias = tuple[Callable[[Any, Any], None], object]
"""Work of a child process, and its settings."""


class Session(ABC):
    """Ring and results of one run; the ring lives as long as its context."""

    def __init__(self, ring: bc.ReplayBuffer) -> None:
        self.ring = ring
        self.frames: list[Frame] = []
        self.deaths: list[Aftermath] = []
        self.kills_s: list[float] = []
        self.seconds = 0.0
        self.rows_written = 0
        self.learner: dict[str, Any] = {}

    @abstractmethod
    def actor(self, seed: int, mode: AutoresetMode) -> Job:
        """Return the work of an actor process, and its settings."""

    @abstractmethod
    def learner_job(self) -> Job:
        """Return the work of the learner process, and its settings."""


class PanelSession(Session):
    """Ring and panel of one run on daily prices."""

    def __init__(
        self, panel: bc.Panel, ring: bc.ReplayBuffer, chosen: Split, options: Options
    ) -> None:
        super().__init__(ring)
        self.panel = panel
        self.split = chosen
        self._options = options

    def actor(self, seed: int, mode: AutoresetMode) -> Job:
        """Return the work of an actor process, and its settings."""
        return act, ActorSettings(
            ring=str(self.ring.name),
            panel=str(self.panel.name),
            envs=self._options.envs,
            tickers=self.split.tickers,
            days=(0, self.split.first_test_day),
            autoreset_mode=mode,
            seed=seed,
        )

    def learner_job(self) -> Job:
        """Return the work of the learner process, and its settings."""
        return learn, LearnerSettings(
            ring=str(self.ring.name),
            panel=str(self.panel.name),
            first_test_day=self.split.first_test_day,
            seed=self._options.seed,
        )


def open_session(options: Options, stack: ExitStack) -> PanelSession:
    """Make panel and ring under names of this run; leaving `stack` removes both."""
    name = f"demo-{os.getpid()}-{secrets.token_hex(3)}"
    with tempfile.TemporaryDirectory(prefix="backcast-demo-") as folder:
        path, macro = options.panel, options.macro
        if path is None:
            path, macro = Path(folder) / "panel.csv", MACRO
            write_real_panel(path)
        panel = bc.Panel.from_csv(path, name=name, macro=macro)
    stack.callback(panel.close)
    stack.callback(panel.unlink)
    chosen = split(panel)
    ring = bc.ReplayBuffer.create(
        name, schema(len(chosen.tickers)), capacity=options.capacity, lanes=options.lanes
    )
    stack.callback(ring.close)
    stack.callback(ring.unlink)
    return PanelSession(panel, ring, chosen, options)


class Run:
    """The processes of one session, from start to end."""

    def __init__(self, options: Options, session: Session, interrupts: Interrupts) -> None:
        self._options = options
        self._session = session
        self._interrupts = interrupts
        self._fleet = Fleet()
        self._slots = [
            Slot(f"actor {i}", _AUTORESET_MODES[i % len(_AUTORESET_MODES)])
            for i in range(options.actors)
        ]
        self._monitor = Monitor(session.ring, self._slots, options.seconds)
        self._slot_of: dict[str, Slot] = {}
        self._victim = self._slots[options.seed % options.actors]
        self._learner_ready = False

    def __call__(self, progress: Progress) -> None:
        """Run for the requested time and fill the session. Every child has ended on return."""
        with self._fleet:
            for slot in self._slots:
                self._start_actor(slot, slot.name)
            self._start_learner()
            self._wait_for_all()
            progress.say(
                f"running: {self._options.actors} actors x {self._options.envs} environments and "
                f"a learner, for {self._options.seconds:g} s"
            )
            self._monitor.start()
            rows_before = self._monitor.rows_written()
            self._watch(progress)
            self._session.seconds = self._monitor.elapsed_s
            last_words = self._fleet.stop()
        self._session.frames = self._monitor.frames
        self._session.rows_written = self._monitor.rows_written() - rows_before
        for child, message in last_words:
            if message["kind"] == "error":
                raise ChildFailedError(f"{child.name} failed at the end: {message['text']}")
            self._hear(child, message)

    def _start_actor(self, slot: Slot, name: str) -> None:
        place = self._slots.index(slot)
        life = len(self._session.deaths)
        seed = self._options.seed + 1000 * (1 + place + life * self._options.actors)
        slot.state = "starting"
        self._slot_of[name] = slot
        work, settings = self._session.actor(seed, slot.autoreset_mode)
        slot.pid = self._fleet.start(name, work, settings).process.pid or 0

    def _start_learner(self) -> None:
        self._fleet.start("learner", *self._session.learner_job())

    def _wait_for_all(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while not self._learner_ready or any(slot.state != "running" for slot in self._slots):
            self._listen(0.1)
            if time.monotonic() > deadline:
                late = [slot.name for slot in self._slots if slot.state != "running"]
                late += [] if self._learner_ready else ["learner"]
                raise ChildFailedError(
                    f"{', '.join(late)} did not start within {_START_SECONDS:.0f} s"
                )

    def _watch(self, progress: Progress) -> None:
        next_frame_s = 0.0
        while (elapsed := self._monitor.elapsed_s) < self._options.seconds or self._unsettled():
            self._listen(_WATCH_SECONDS if self._unsettled() else 0.05)
            if self._options.kill and not self._session.deaths and elapsed >= self._kill_at_s():
                self._kill_and_succeed(progress)
            for death in self._session.deaths:
                if death.waiting:
                    death.watch(self._session.ring)
            if elapsed >= next_frame_s:
                next_frame_s = elapsed + _FRAME_SECONDS
                progress.show(self._monitor.look())

    def _kill_at_s(self) -> float:
        return self._options.seconds / 2

    def _unsettled(self) -> bool:
        """Return whether a successor still has to write, and may still do so."""
        late = self._monitor.elapsed_s > self._options.seconds + _START_SECONDS
        return not late and any(death.waiting for death in self._session.deaths)

    def _kill_and_succeed(self, progress: Progress) -> None:
        victim = next(c for c in self._fleet.children if c.name == self._victim.name)
        pid = victim.process.pid
        self._fleet.kill(victim)
        self._session.kills_s.append(self._monitor.elapsed_s)
        self._victim.state = "killed"
        progress.say(f"killed {victim.name} (pid {pid}) with SIGKILL; a successor starts")
        death = Aftermath(self._victim.lanes, self._victim.autoreset_mode)
        death.examine(self._session.ring)
        self._session.deaths.append(death)
        self._start_actor(self._victim, f"successor of {self._victim.name}")

    def _listen(self, timeout_s: float) -> None:
        for child, message in self._fleet.listen(timeout_s):
            self._hear(child, message)
        self._interrupts.check()

    def _hear(self, child: Child, message: dict[str, Any]) -> None:
        slot = self._slot_of.get(child.name)
        if slot is None:
            self._learner_ready = True
            if message["kind"] in {"progress", "done"}:
                self._monitor.learner = message
                self._session.learner = message
        elif message["kind"] == "ready":
            slot.lanes = tuple(message["lanes"])
            slot.state = "running"
