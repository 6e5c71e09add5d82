"""Fleets whose calls the system refuses: the block ends with an error and leaves no process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import backcast as bc
import fleet_actors as actors
import pytest
from backcast.fleet import _fleet, _guard
from backcast.fleet._guard import Guard
from waits import WATCHDOG_S


@pytest.fixture(autouse=True)
def directory(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BACKCAST_DIR", str(place))
    return place


# The watchdog kills the program if the block never ends. `refused` stands in for a call that finds
# no free descriptor. `waitid` raises ChildProcessError if no child is left.
HEAD = """
import errno, os, signal
import backcast as bc
from backcast.fleet import _process, _supervisor
from backcast.fleet._guard import Guard

def refused(*_):
    raise OSError(errno.EMFILE, "Too many open files")

def fails(fleet, body=lambda: None):
    try:
        with fleet:
            body()
    except bc.errors.FleetError as error:
        print(error)
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        print("a child is left")
    except ChildProcessError:
        print("none is left")
"""

NO_GUARDIAN = """
Guard._start = refused
fails(bc.Fleet("fleet_actors:until_stopped"))
"""

NO_PAYLOAD = """
_supervisor.PayloadFile = refused
fails(bc.Fleet("fleet_actors:until_stopped"))
"""

NO_OTHER_GUARDIAN = """
fleet = bc.Fleet("fleet_actors:refuse_to_stop", 2, stop_timeout=0.2)
def replace():
    Guard._start = refused
    os.kill(fleet._supervisor.guardian_pid, signal.SIGKILL)
    fleet.wait(100)
fails(fleet, replace)
"""

NO_DESCRIPTOR = """
class Calls:
    def __getattr__(self, name):
        return refused if name == "pidfd_open" else getattr(os, name)
_process.os = Calls()
fails(bc.Fleet("fleet_actors:until_stopped"))
"""

NO_GUARDIAN_THAT_READS = """
said = Guard._say
def say(guard, line):
    if line.startswith("+"):
        Guard._start = refused
        return False
    return said(guard, line)
Guard._say = say
fails(bc.Fleet("fleet_actors:until_stopped"))
"""

PROGRAMS = {
    "no guardian": (NO_GUARDIAN, "refused the supervisor of the fleet a call"),
    "no payload": (NO_PAYLOAD, "refused the supervisor of the fleet a call"),
    "no other guardian": (NO_OTHER_GUARDIAN, "refused the supervisor of the fleet a call"),
    "no descriptor of an actor": (NO_DESCRIPTOR, "cannot be started"),
    "no guardian that reads": (NO_GUARDIAN_THAT_READS, "cannot be started"),
}


@pytest.mark.parametrize(("code", "words"), PROGRAMS.values(), ids=PROGRAMS)
def test_the_block_ends_with_an_error_and_no_process_is_left(code: str, words: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", HEAD + code],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        timeout=WATCHDOG_S,
        check=False,
    )
    error, *rest = ran.stdout.splitlines()
    assert (rest, ran.stderr, ran.returncode) == (["none is left"], "", 0)
    assert words in error
    assert "Too many open files" in error


def test_a_guardian_that_cannot_be_replaced_takes_every_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    guard = Guard([])
    with monkeypatch.context() as refusing:
        refusing.setattr(Guard, "_start", refuse)
        guard.process.kill()
        guard.process.wait(60)
        with pytest.raises(OSError, match="24"):
            guard.keep_alive()
        guard.add(1)
        guard.remove(1)
    guard.keep_alive()
    assert guard.process.poll() is None
    monkeypatch.setattr(_guard, "_CLOSE_S", WATCHDOG_S)  # The new one may not have begun to read.
    guard.close()
    assert guard.process.returncode == 0


def refuse(*_: object) -> None:
    raise OSError(24, "Too many open files")


def test_a_block_whose_supervisor_is_refused_leaves_no_ring(
    monkeypatch: pytest.MonkeyPatch, place: Path
) -> None:
    monkeypatch.setattr(_fleet, "Supervisor", refuse)
    with pytest.raises(OSError, match="Too many"), bc.Fleet(actors.until_stopped):
        pytest.fail("it started")
    assert not bc.list_objects(dir=place)
