"""Signals and fleets: the end of a block never waits forever, and no Ctrl-C is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import backcast as bc
import fleet_actors as actors
import pytest
from backcast.fleet import _guard, _supervisor
from backcast.fleet._guard import Guard
from backcast.fleet._process import ActorProcess
from backcast.fleet._signals import ParentSignals
from waits import WATCHDOG_S, await_state, until_interrupted


@pytest.fixture(autouse=True)
def directory(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BACKCAST_DIR", str(place))
    return place


def stop(pid: int) -> None:
    """Stop a child with SIGSTOP, and return once it is stopped."""
    os.kill(pid, signal.SIGSTOP)
    await_state(pid, os.WSTOPPED)


@pytest.fixture
def guard() -> Iterator[Guard]:
    guard = Guard([])
    yield guard
    guard.process.kill()
    guard.process.wait(60)


def ends(work: threading.Thread) -> bool:
    work.start()
    work.join(WATCHDOG_S)
    return not work.is_alive()


def test_a_stopped_guardian_is_ended(guard: Guard) -> None:
    stop(guard.process.pid)
    assert ends(threading.Thread(target=guard.close, daemon=True))
    assert guard.process.returncode == -signal.SIGKILL


def test_a_stopped_guardian_is_replaced(guard: Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    first = guard.process
    guard.keep_alive()
    assert guard.process is first
    stop(first.pid)
    guard.keep_alive()
    assert guard.process is not first
    assert first.returncode == -signal.SIGKILL
    monkeypatch.setattr(_guard, "_CLOSE_S", WATCHDOG_S)  # The new one may not have begun to read.
    guard.close()
    assert guard.process.returncode == 0


def test_a_guardian_that_reads_nothing_blocks_no_call(guard: Guard) -> None:
    first = guard.process
    stop(first.pid)

    def restart_often() -> None:
        # More lines than a pipe holds.
        for _ in range(10_000):
            guard.add(os.getpid())
            guard.remove(os.getpid())

    assert ends(threading.Thread(target=restart_often, daemon=True))
    assert guard.process is not first
    assert first.returncode == -signal.SIGKILL
    guard.close()


def program(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program with Python's handler of Ctrl-C; the watchdog ends it if it hangs."""
    head = (
        "import os, signal, sys, threading\n"
        "import backcast as bc\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        # Actors report once they ignore SIGTERM.
        "def wait_for_reports(fleet):\n"
        "    while any(actor['since_report_s'] is None for actor in fleet.stats()['actors']):\n"
        "        threading.Event().wait(0.01)\n"
    )
    return subprocess.run(
        [sys.executable, "-c", head + code, *arguments],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        timeout=WATCHDOG_S,
        check=False,
    )


def test_the_block_ends_while_the_guardian_is_stopped() -> None:
    ran = program(
        "with bc.Fleet('fleet_actors:until_stopped') as fleet:\n"
        "    pid = fleet._supervisor.guardian_pid\n"
        "    os.kill(pid, signal.SIGSTOP)\n"
        "    os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)\n"
        "print('left')\n"
    )
    assert (ran.returncode, ran.stdout) == (0, "left\n"), ran.stderr


# Actor 1 fails only once the block has begun, when both actors have started.
TOLD = (
    "import pathlib, tempfile\n"
    "folder = tempfile.TemporaryDirectory()\n"
    "go = pathlib.Path(folder.name, 'go')\n"
)
CTRL_C = {
    "just after a failure, in the block": (
        TOLD + "with bc.Fleet('fleet_actors:raise_when_told', 2, args=(folder.name,)) as fleet:\n"
        "    try:\n"
        "        go.touch()\n"
        "        threading.Event().wait()\n"
        "    except bc.errors.ActorError:\n"
        "        print('ready', flush=True)\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "        print('swallowed')\n"
    ),
    "while a fleet that failed is stopped": (
        "try:\n"
        "    with bc.Fleet('fleet_actors:interrupt_the_parent_when_stopped',\n"
        "                  stop_timeout=60.0) as fleet:\n"
        "        wait_for_reports(fleet)\n"
        "        print('ready', flush=True)\n"
        "        raise bc.errors.FleetError('of the program')\n"
        "except bc.errors.FleetError:\n"
        "    print('swallowed')\n"
    ),
    # Actor 0 sends Ctrl-C once the failure stops it, so it arrives while the block ends.
    "while a fleet that failed unseen is stopped": (
        TOLD + "print('ready', flush=True)\n"
        "try:\n"
        "    with bc.Fleet('fleet_actors:interrupt_the_parent_when_stopped', 2,\n"
        "                  args=('SIGINT', folder.name), stop_timeout=60.0) as fleet:\n"
        "        try:\n"
        "            wait_for_reports(fleet)\n"
        "            go.touch()\n"
        "            threading.Event().wait()\n"
        "        except bc.errors.ActorError:\n"
        "            pass\n"
        "except bc.errors.FleetError:\n"
        "    print('swallowed')\n"
    ),
    # Both signals are pending at the same time, and the handler of Ctrl-C raises first.
    "at the moment of a failure": (
        TOLD + "both = {signal.SIGINT, signal.SIGURG}\n"
        "try:\n"
        "    with bc.Fleet('fleet_actors:raise_when_told', 2, args=(folder.name,)) as fleet:\n"
        "        print('ready', flush=True)\n"
        "        signal.pthread_sigmask(signal.SIG_BLOCK, both)\n"
        "        go.touch()\n"
        "        while not both <= signal.sigpending():\n"
        "            signal.pthread_kill(threading.get_ident(), signal.SIGINT)\n"
        "            threading.Event().wait(0.01)\n"
        "        try:\n"
        "            try:\n"
        "                signal.pthread_sigmask(signal.SIG_UNBLOCK, both)\n"
        "            finally:\n"
        "                os.kill(os.getpid(), 0)  # runs the other handler\n"
        "        except bc.errors.ActorError:\n"
        "            pass\n"
        "except bc.errors.FleetError:\n"
        "    print('swallowed')\n"
    ),
    "while actors start": (
        "print('ready', flush=True)\n"
        "try:\n"
        "    with bc.Fleet('interrupting_import:act', start_timeout=60.0) as fleet:\n"
        "        print('swallowed')\n"
        "except bc.errors.FleetError:\n"
        "    print('swallowed')\n"
    ),
}


@pytest.mark.parametrize("code", CTRL_C.values(), ids=CTRL_C)
def test_ctrl_c_is_never_swallowed(code: str) -> None:
    ran = program(code)
    assert ran.stdout == "ready\n", ran.stderr
    assert ran.returncode == -signal.SIGINT, ran.stderr
    assert ran.stderr.rstrip().endswith("KeyboardInterrupt")


def test_a_handler_of_the_program_gets_every_ctrl_c() -> None:
    ran = program(
        "signal.signal(signal.SIGINT, lambda number, frame: print('mine', flush=True))\n"
        "with bc.Fleet('fleet_actors:interrupt_the_parent_when_stopped',\n"
        "              stop_timeout=60.0) as fleet:\n"
        "    wait_for_reports(fleet)\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
    )
    assert (ran.stdout, ran.returncode) == ("mine\nmine\n", 0), ran.stderr


def test_an_ignored_ctrl_c_stays_ignored() -> None:
    ran = program(
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "with bc.Fleet('fleet_actors:interrupt_the_parent_when_stopped',\n"
        "              stop_timeout=60.0) as fleet:\n"
        "    wait_for_reports(fleet)\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)\n"
    )
    assert (ran.stdout, ran.returncode) == ("True\n", 0), ran.stderr


def test_a_signal_at_the_first_instruction_of_the_end_stops_the_actors() -> None:
    """The handler runs in the frame of `__exit__` before `__exit__` can set a flag."""
    ran = program(
        "pids = []\n"
        "def at_first(frame, event, argument):\n"
        "    if event == 'call' and frame.f_code is bc.Fleet.__exit__.__code__:\n"
        "        sys.setprofile(None)\n"
        "        # Calls the handler as the interpreter does, with the interrupted frame.\n"
        "        signal.getsignal(signal.SIGINT)(signal.SIGINT, frame)\n"
        "try:\n"
        "    with bc.Fleet('fleet_actors:until_stopped') as fleet:\n"
        "        pids = [actor['pid'] for actor in fleet.stats()['actors']]\n"
        "        sys.setprofile(at_first)\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted')\n"
        "try:\n"
        "    os.kill(pids[0], 0)\n"
        "except ProcessLookupError:\n"
        "    print('stopped')\n"
    )
    assert (ran.stdout, ran.returncode) == ("interrupted\nstopped\n", 0), ran.stderr


def test_a_signal_stops_both_of_two_fleets() -> None:
    ran = program(
        "pids = []\n"
        "try:\n"
        "    with bc.Fleet('fleet_actors:until_stopped') as outer:\n"
        "        with bc.Fleet('fleet_actors:interrupt_the_parent_when_stopped',\n"
        "                      args=('SIGTERM',), stop_timeout=60.0) as inner:\n"
        "            wait_for_reports(inner)\n"
        "            for fleet in (outer, inner):\n"
        "                pids += [actor['pid'] for actor in fleet.stats()['actors']]\n"
        "        print('swallowed')\n"
        "finally:\n"
        "    for pid in pids:\n"
        "        try:\n"
        "            os.kill(pid, 0)\n"
        "        except ProcessLookupError:\n"
        "            print('stopped', flush=True)\n"
    )
    assert (ran.stdout, ran.returncode) == ("stopped\nstopped\n", 143), ran.stderr


def test_a_failure_of_an_outer_fleet_leaves_an_inner_one() -> None:
    with (
        pytest.raises(bc.errors.ActorError, match="no bananas"),
        bc.Fleet(actors.raise_at, 2, args=(3,)),
        bc.Fleet(actors.until_stopped),
    ):
        until_interrupted()


def test_processes_that_cannot_be_killed_end_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    # Simulates a process that SIGKILL does not end, such as one that waits for a disk.
    monkeypatch.setattr(ActorProcess, "kill", lambda self: None)
    monkeypatch.setattr(_supervisor, "_KILLED_S", 0.1)
    fleet = bc.Fleet(actors.refuse_to_stop, stop_timeout=0.1)

    def run() -> None:
        with fleet:
            # The actor reports once it ignores SIGTERM.
            while fleet.stats()["actors"][0]["since_report_s"] is None:
                threading.Event().wait(0.01)

    with pytest.raises(bc.errors.FleetError, match=r"\b0\b.*\bprocess \d+.*\b0\.1\b"):
        run()
    assert isinstance(fleet._supervisor, _supervisor.Supervisor)
    process = fleet._supervisor._actors[0].process
    assert process is not None
    process._popen.kill()
    process._popen.wait(60)


def test_a_late_ctrl_c_ends_the_wait_for_actors() -> None:
    ran = program(
        "from backcast.fleet import _supervisor\n"
        "from backcast.fleet._process import ActorProcess\n"
        "_supervisor._PATIENCE_S = 0.0\n"
        "kill, ActorProcess.kill = ActorProcess.kill, lambda self: None\n"
        "with bc.Fleet('fleet_actors:refuse_to_stop', 1) as fleet:\n"
        "    wait_for_reports(fleet)\n"
        "    def press():\n"
        "        while not fleet._signals.leaving: pass\n"
        "        for _ in range(1_000):\n"
        "            if fleet._supervisor._abandoned: return\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "            threading.Event().wait(0.01)\n"
        "    threading.Thread(target=press, daemon=True).start()\n"
    )
    assert ran.returncode == -signal.SIGINT, ran.stderr


def test_a_failure_is_repeated_until_the_main_thread_has_noticed_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[int] = []
    send = signal.pthread_kill

    def lost_twice(thread: int, number: int) -> None:
        sent.append(number)
        if len(sent) > 2:
            send(thread, number)

    monkeypatch.setattr(signal, "pthread_kill", lost_twice)
    signals = ParentSignals(lambda: None)
    signals.install()

    def fail() -> None:
        signals.fail(bc.errors.FleetError("an actor died"))
        signals.insist()

    thread = threading.Thread(target=fail)
    thread.start()
    try:
        with pytest.raises(bc.errors.FleetError, match="an actor died"):
            until_interrupted()
    finally:
        signals.disarm()
        thread.join(WATCHDOG_S)
        signals.restore()
    assert not thread.is_alive()
    assert len(sent) > 2
