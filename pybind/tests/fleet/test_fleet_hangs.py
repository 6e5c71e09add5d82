"""Actors that hang: found by the signs of life that they do not give, and killed."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import backcast as bc
import fleet_actors as actors
import pytest
from backcast.fleet import _supervisor
from backcast.fleet._actor import ActorSpec
from backcast.fleet._environment import Identity
from backcast.fleet._metrics import ReportRing
from backcast.fleet._restarts import RestartPolicy
from backcast.fleet._signs import LifeSigns
from backcast.fleet._supervisor import ActorState, Supervisor, SupervisorSettings
from waits import WATCHDOG_S

TIMEOUT_S = 1.0


@pytest.fixture(autouse=True)
def directory(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BACKCAST_DIR", str(place))
    return place


def until_restarted(fleet: bc.Fleet) -> float:
    """Wait for the first restart; return the seconds since the block was entered."""
    begin_s = time.monotonic()
    while not (restarts := fleet.stats()["restarts"]):
        assert time.monotonic() - begin_s < WATCHDOG_S
        threading.Event().wait(0.01)
    assert restarts == 1
    return time.monotonic() - begin_s


@pytest.mark.parametrize("how", ["lock", "loop", "stopped", "native"])
def test_an_actor_that_hangs_is_killed_and_restarted(
    how: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with bc.Fleet(actors.hang_in_first_life, 2, args=(how,), report_timeout=TIMEOUT_S) as fleet:
        until_restarted(fleet)
        stats = fleet.stats()
    assert [actor["restarts"] for actor in stats["actors"]] == [0, 1]
    error = stats["actors"][1]["last_error"]
    assert error is not None
    assert error.startswith("hung: ")
    # An interpreter that does not run cannot say where it is.
    assert ("in hang_in_first_life" in error) == (how in ("lock", "loop"))
    assert "_child.py" not in error
    assert capfd.readouterr().err.count("; restarting\n") == 1


def test_without_restarts_an_actor_that_hangs_ends_the_fleet() -> None:
    with (
        pytest.raises(bc.errors.ActorTimeoutError, match=r"\b1\b.*report_timeout=") as raised,
        bc.Fleet(actors.hang_in_first_life, 2, report_timeout=TIMEOUT_S, restart="never") as fleet,
    ):
        fleet.wait(WATCHDOG_S)
    error = raised.value
    assert error.rank == 1
    assert "threading.Event().wait()" in error.actor_traceback
    assert error.actor_traceback.strip() in error.__notes__[0]


def test_a_command_that_hangs_is_killed() -> None:
    command = [sys.executable, "-c", "import threading; threading.Event().wait()"]
    with (
        pytest.raises(bc.errors.RestartLimitError, match=r"\b0\b.*\bhung\b"),
        bc.Fleet(command, report_timeout=0.2, max_deaths=2) as fleet,
    ):
        fleet.wait(WATCHDOG_S)


def test_actors_that_hang_again_and_again_end_the_fleet() -> None:
    with (
        pytest.raises(bc.errors.RestartLimitError, match=r"\bhung\b") as raised,
        bc.Fleet(
            actors.never_look_at_the_flag, args=("/nowhere",), report_timeout=0.2, max_deaths=2
        ) as fleet,
    ):
        fleet.wait(WATCHDOG_S)
    assert "in never_look_at_the_flag" in raised.value.actor_traceback


def quiet_for(fleet: bc.Fleet, seconds: float) -> None:
    """Hold a fleet for several timeouts; no actor must be killed."""
    begin_s = time.monotonic()
    while time.monotonic() - begin_s < seconds:
        assert fleet.stats()["restarts"] == 0
        threading.Event().wait(0.05)


@pytest.mark.parametrize("limited", [False, True], ids=["appends", "waits for the limiter"])
def test_an_actor_that_fills_the_ring_does_not_hang(limited: bool) -> None:
    limits = bc.RateLimiter(1, min_size=10, error_buffer=5) if limited else None
    actor = actors.append_fast if limited else actors.append_slowly
    columns = {"obs": "f4"}
    limit: dict[str, Any] = {"report_timeout": TIMEOUT_S, "stop_timeout": 0.2}
    with (
        bc.ReplayBuffer.create("walk", columns, capacity=1_000, limiter=limits) as buf,
        bc.Fleet(actor, args=("walk",), buffer=buf, **limit) as fleet,
    ):
        quiet_for(fleet, 2.5 * TIMEOUT_S)
        limiter = fleet.stats()["limiter"]
        assert limiter is None or len(limiter["waiters"]) == 1


@pytest.mark.parametrize(
    ("actor", "args"),
    [
        pytest.param(actors.await_version, ("weights", 1), id="waits for parameters"),
        pytest.param(actors.until_stopped, (), id="waits for the fleet"),
        pytest.param(actors.look_at_the_flag, (), id="looks at the flag"),
    ],
)
def test_an_actor_that_waits_or_looks_does_not_hang(actor: Any, args: Any) -> None:
    with bc.Params.create("weights", {"w": 0.0}) as params:
        with bc.Fleet(actor, args=args, report_timeout=TIMEOUT_S) as fleet:
            quiet_for(fleet, 2.5 * TIMEOUT_S)
            params.publish({"w": 1.0})
            if args:
                fleet.wait(WATCHDOG_S)
        assert fleet.stats()["restarts"] == 0


def test_an_actor_never_hangs_without_a_limit() -> None:
    with bc.Fleet(actors.hang_in_first_life, 2, stop_timeout=0.5) as fleet:
        assert fleet._settings.report_timeout_s is None
        quiet_for(fleet, 1.5)


def test_looking_at_the_flag_is_a_sign_now_and_then(place: Path) -> None:
    ring = ReportRing("reports", 1, str(place))
    waiting = bc.fleet.Context(Identity("reports", 0, 1, 7, 0, beat_s=1e6))
    assert not waiting.wait(0)
    assert not waiting.wait(0)
    assert [report.is_beat for report in ring.read()] == [True]
    assert waiting._writer is not None
    waiting._writer.close()
    context = bc.fleet.Context(Identity("reports", 0, 1, 7, 0, beat_s=1e6))
    assert not context.stopped
    assert not context.stopped
    [beat] = ring.read()
    assert beat.is_beat
    context.report(loss=1.0)
    assert not context.stopped
    assert [report.is_beat for report in ring.read()] == [False]
    silent = bc.fleet.Context(Identity("reports", 0, 1, 7, 0))
    assert not silent.stopped
    assert ring.read() == []
    ring.close()
    # The parent is gone.
    lost = bc.fleet.Context(Identity("reports", 0, 1, 7, 0, beat_s=1e6))
    assert not lost.stopped


def test_signs_are_those_of_the_actor_or_of_its_processes() -> None:
    signs = LifeSigns(3)
    assert signs.newest(9.0) == [0.0, 0.0, 0.0]
    ring: dict[str, Any] = {
        "lane_stats": [{"head": 5, "pid": 70}, {"head": 0, "pid": None}, {"head": 9, "pid": 71}],
        "limiter": None,
    }
    ranks = {70: 0, 71: 1}
    signs.note_ring(ring, ranks, 1.0)
    signs.note_ring(ring, ranks, 2.0)
    assert signs.newest(9.0) == [1.0, 1.0, 0.0], "heads that stay are no signs"
    ring["lane_stats"][2]["head"] = 10
    signs.note_ring(ring, ranks, 3.0)
    assert signs.newest(9.0) == [1.0, 3.0, 0.0]
    ring["limiter"] = {"waiters": [{"pid": 70}, {"pid": 2**31 - 1}, {"pid": 2**40}]}
    signs.note_ring(ring, ranks, 4.0)
    signs.note(2, 8.0)
    signs.note(2, 7.0)
    assert signs.newest(9.0) == [4.0, 3.0, 8.0]
    assert signs.newest(5.0) == [4.0, 3.0, 5.0], "none is in the future"


def supervised(
    limit_s: float, signs: Callable[[], list[float]], process: Any, stop_s: float = 1.0
) -> Supervisor:
    """Return a supervisor of one running actor; the caller checks and stops it."""
    settings = SupervisorSettings(
        spec=ActorSpec("walk:act", None, b""),
        n=1,
        seed=0,
        restarts=RestartPolicy("signal", 5),
        start_timeout_s=2.0,
        stop_timeout_s=stop_s,
        environment={},
        ring="",
        folders=[],
        report_timeout_s=limit_s,
    )
    supervisor = Supervisor(settings, print, print, print, signs)
    supervisor._actors = [ActorState(0, "running", process)]
    return supervisor


def ended(supervisor: Supervisor) -> None:
    supervisor._actors = []
    supervisor.stop()


@pytest.mark.parametrize("limit_s", [0.1, 1.0, 30.0])
def test_a_hang_is_found_within_twice_the_time(
    limit_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr(_supervisor, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    killed: list[float] = []
    process = SimpleNamespace(ask_where=lambda: None, kill=lambda: killed.append(clock[0]))
    # The sign of life at 0 is noted a tick later.
    supervisor = supervised(limit_s, lambda: [min(0.5, limit_s / 8)], process)
    while not killed:
        supervisor._check_hanging()
        clock[0] += supervisor._tick_s
    assert limit_s < killed[0] <= 2 * limit_s
    supervisor._check_hanging()
    assert len(killed) == 1
    ended(supervisor)


@pytest.mark.parametrize("limit_s", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("wait", [0.6, 3.0], ids=["short wait", "long wait"])
def test_the_time_of_a_wait_is_no_silence(
    limit_s: float, wait: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, end_s = [0.0], wait * limit_s
    monkeypatch.setattr(_supervisor, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    killed: list[float] = []
    answers: list[dict[str, str]] = []

    def ask() -> None:
        answers.append({"kind": "waits" if clock[0] < end_s else "hangs"})

    process: Any = SimpleNamespace(
        ask_where=ask,
        kill=lambda: killed.append(clock[0]),
        messages=lambda: [answers.pop() for _ in answers[:]],
        link=None,
    )
    supervisor = supervised(limit_s, lambda: [0.0], process)
    while not killed:
        supervisor._check_hanging()
        supervisor._listen(supervisor._actors[0], process)
        clock[0] += supervisor._tick_s
    assert end_s + limit_s < killed[0] <= end_s + 2 * limit_s
    ended(supervisor)


def test_an_actor_that_wakes_up_is_not_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, signs = [100.0], [0.0]
    monkeypatch.setattr(_supervisor, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    asked: list[float] = []
    process = SimpleNamespace(
        ask_where=lambda: asked.append(clock[0]), kill=lambda: pytest.fail("killed")
    )
    supervisor = supervised(10.0, lambda: signs, process)
    # After a sleep of the machine, an actor was silent for long and answers that it does not wait.
    supervisor._check_hanging()
    supervisor._actors[0].stack = "in act"
    clock[0] += 0.5
    supervisor._check_hanging()
    signs[0] = clock[0]
    clock[0] += 5.0
    supervisor._check_hanging()
    # After a quarter of the time it is asked whether it waits.
    assert asked == [100.0, 105.5]
    supervisor._actors[0].stack = "in act"
    # The next silence begins a new question.
    clock[0] += 10.0
    supervisor._check_hanging()
    assert asked == [100.0, 105.5, 115.5]
    assert supervisor._actors[0].stack == ""
    ended(supervisor)


class Stubborn:
    """A process that ends when it is killed, and notes when it was told what."""

    pid = 70

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self.told: list[tuple[str, float]] = []

    def ask_to_stop(self) -> None:
        self.told.append(("asked", self.now()))

    def terminate(self) -> None:
        self.told.append(("SIGTERM", self.now()))

    def kill(self) -> None:
        self.told.append(("SIGKILL", self.now()))


@pytest.mark.parametrize(
    ("stop_s", "terminated_s"), [(0.5, 0.25), (1.0, 0.5), (1.5, 0.75), (8.0, 1.0)]
)
@pytest.mark.parametrize("hurry", [False, True], ids=["in time", "at once"])
def test_a_stubborn_actor_has_time_after_each_step_unless_its_fleet_is_in_a_hurry(
    stop_s: float, terminated_s: float, hurry: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [64.0]
    monkeypatch.setattr(_supervisor, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(_supervisor, "ActorProcess", Stubborn)
    process = Stubborn(lambda: clock[0] - 64.0)
    supervisor = supervised(1.0, list, process, stop_s)
    [actor] = supervisor._actors

    def select(timeout_s: float) -> None:
        assert timeout_s > 0.0
        clock[0] += timeout_s
        if process.told[-1][0] == "SIGKILL":
            actor.process = None

    monkeypatch.setattr(supervisor, "_select", select)
    if hurry:
        supervisor.hurry()
    supervisor._stop_all()
    steps_s = (0.0, 0.0, 0.0) if hurry else (0.0, terminated_s, stop_s)
    assert process.told == list(zip(("asked", "SIGTERM", "SIGKILL"), steps_s, strict=True))
    assert actor.state == "stopped"
    ended(supervisor)
