"""One run of the demo: creates ring and panel, starts the actors, learns from them."""

from __future__ import annotations

import os
import secrets
import signal
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import backcast as bc
from backcast.demo.actor import ActorSettings, act, autoreset_mode
from backcast.demo.aftermath import Aftermath
from backcast.demo.data import MACRO, write_real_panel
from backcast.demo.learner import BATCH, Learner, PanelLearner
from backcast.demo.monitor import Monitor
from backcast.demo.rows import schema
from backcast.demo.split import Split, split

if TYPE_CHECKING:
    from collections.abc import Callable

    from backcast.demo.interrupts import Interrupts
    from backcast.demo.options import Options
    from backcast.demo.progress import Frame, Progress

_START_SECONDS = 60.0
_FRAME_SECONDS = 0.25
_POLL_SECONDS = 0.02


class Session:
    """Ring, processes and results of one run; the ring lives as long as its context."""

    actor: tuple[Callable[..., None], object]
    """Function of the actors, and its settings."""

    def __init__(self, ring: bc.ReplayBuffer, learner: Learner) -> None:
        self.ring, self.learner = ring, learner
        self.frames: list[Frame] = []
        self.deaths: list[Aftermath] = []
        self.kills_s: list[float] = []
        self.seconds = 0.0
        self.rows_written = 0


class PanelSession(Session):
    """Ring and panel of one run on daily prices."""

    def __init__(
        self, panel: bc.Panel, ring: bc.ReplayBuffer, chosen: Split, options: Options
    ) -> None:
        super().__init__(ring, PanelLearner(ring, panel, chosen.first_test_day, options.seed))
        self.panel = panel
        self.split = chosen
        self.actor = (
            act,
            ActorSettings(
                ring=str(ring.name),
                panel=str(panel.name),
                envs=options.envs,
                tickers=chosen.tickers,
                days=(0, chosen.first_test_day),
            ),
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
    """One session, from the start of its actors to their end."""

    def __init__(self, options: Options, session: Session, interrupts: Interrupts) -> None:
        self._options, self._session, self._interrupts = options, session, interrupts

    def __call__(self, progress: Progress) -> None:
        """Run for the requested time and fill the session. Every actor has ended on return."""
        options, session = self._options, self._session
        act, settings = session.actor
        fleet = bc.Fleet(
            act,
            n=options.actors,
            args=(settings,),
            seed=options.seed,
            buffer=session.ring,
            progress=False,
        )
        with fleet:
            self._wait_for_rows()
            progress.say(
                f"running: {options.actors} actors x {options.envs} environments and a learner, "
                f"for {options.seconds:g} s"
            )
            monitor = Monitor(session.ring, fleet, session.learner.tally, options.seconds)
            self._learn(fleet, monitor, progress)
            session.seconds = monitor.elapsed_s
        session.frames, session.rows_written = monitor.frames, monitor.rows_written()

    def _wait_for_rows(self) -> None:
        """Wait until every lane has a writer, and a batch can be drawn."""
        ring = self._session.ring
        while not all(lane["held"] for lane in ring.stats()["lane_stats"]) or len(ring) < BATCH:
            self._interrupts.check()
            time.sleep(_POLL_SECONDS)

    def _learn(self, fleet: bc.Fleet, monitor: Monitor, progress: Progress) -> None:
        session = self._session
        next_frame_s = 0.0
        while (now_s := monitor.elapsed_s) < self._options.seconds or self._unsettled(now_s):
            session.learner.step()
            self._interrupts.check()
            if self._options.kill and not session.deaths and now_s >= self._options.seconds / 2:
                self._kill(fleet, monitor, progress)
            for death in session.deaths:
                if death.waiting:
                    death.watch(session.ring)
            if now_s >= next_frame_s:
                next_frame_s = now_s + _FRAME_SECONDS
                progress.show(monitor.look())

    def _unsettled(self, now_s: float) -> bool:
        """Return whether a successor still has to write, and may still do so."""
        late = now_s > self._options.seconds + _START_SECONDS
        return not late and any(death.waiting for death in self._session.deaths)

    def _kill(self, fleet: bc.Fleet, monitor: Monitor, progress: Progress) -> None:
        """SIGKILL an actor, as the kernel would when memory runs out; the fleet restarts it."""
        rank = self._options.seed % self._options.actors
        pid = fleet.stats()["actors"][rank]["pid"]
        if pid is None:
            return
        death = Aftermath(monitor.lanes(rank), autoreset_mode(rank))
        # A stopped process leaves its lanes as the kill will, and has no successor yet.
        os.kill(pid, signal.SIGSTOP)
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        death.examine(self._session.ring)
        os.kill(pid, signal.SIGKILL)
        self._session.kills_s.append(monitor.elapsed_s)
        self._session.deaths.append(death)
        progress.say(f"killed actor {rank} (pid {pid}) with SIGKILL; a successor starts")
