"""Ends of a fleet: signals, kills and exceptions leave no process and no shared memory."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from backcast.fleet import _guardian
from waits import WATCHDOG_S, read_line, until

PROGRAM = Path(__file__).with_name("fleet_parent.py")

Program = tuple["subprocess.Popen[str]", list[int]]


def gone(descriptors: list[int]) -> None:
    """Wait until the processes of these pidfds have ended; fail if the watchdog's time is over."""
    left = set(descriptors)
    while left:
        ended, _, _ = select.select(list(left), [], [], WATCHDOG_S)
        assert ended, "processes are left"
        left -= set(ended)


def files(program: subprocess.Popen[str], folder: Path, count: int) -> list[str]:
    """Wait until actors have made files; return their names."""
    for _ in range(100 * WATCHDOG_S):
        if len(names := [path.name for path in folder.iterdir()]) >= count:
            return names
        assert program.poll() is None
        select.select([], [], [], 0.01)
    pytest.fail("files are missing")


@pytest.fixture
def run(place: Path) -> Iterator[Callable[..., Program]]:
    """Yield a function that starts the program and returns it with pidfds of its processes."""
    programs: list[subprocess.Popen[str]] = []
    opened: list[int] = []

    def start(*arguments: str) -> Program:
        program = subprocess.Popen(
            [sys.executable, PROGRAM, "held", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"BACKCAST_DIR": str(place)},
        )
        programs.append(program)
        said = read_line(program)
        if not said:
            pytest.fail(program.communicate(timeout=60)[1])
        descriptors = [os.pidfd_open(int(pid)) for pid in said.split()]
        opened.extend(descriptors)
        return program, descriptors

    yield start
    for program in programs:
        program.kill()
    for descriptor in opened:
        # The process has ended already if the test passed.
        with suppress(OSError):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        os.close(descriptor)
    for program in programs:
        # Processes of a killed actor may keep the output open, so it is not read to its end.
        program.wait(60)
        for stream in (program.stdout, program.stderr):
            assert stream is not None
            stream.close()


ACTORS = ["until_stopped", "refuse_to_stop", "command"]


@pytest.mark.parametrize("actor", ACTORS)
def test_a_killed_parent_leaves_no_process_and_no_shared_memory(
    run: Callable[..., Program], place: Path, actor: str
) -> None:
    program, descriptors = run(actor)
    program.kill()
    # Two actors and the guardian, which ends last and removes the rings.
    gone(descriptors)
    assert not list(place.rglob("*.ring"))


def test_the_guardian_is_quicker_than_two_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    waited_s = 0.0

    def wait(
        descriptors: list[int], _write: object, _failed: object, limit_s: float | None = None
    ) -> tuple[list[int], list[int], list[int]]:
        """Skip the time of a wait with a limit, and add it up."""
        nonlocal waited_s
        ready, _, _ = select.select(descriptors, [], [], WATCHDOG_S if limit_s is None else 0)
        assert ready or limit_s, "processes are left"
        waited_s += 0 if ready else limit_s or 0
        return ready, [], []

    monkeypatch.setattr(_guardian, "select", SimpleNamespace(select=wait))
    monkeypatch.setattr(_guardian, "time", SimpleNamespace(monotonic=lambda: waited_s))
    parent = subprocess.Popen([sys.executable, "-c", ""])
    parent.wait(60)
    command = ["/bin/sh", "-c", "trap '' TERM; echo; exec sleep 1000"]
    actors = [
        subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) for _ in range(2)
    ]
    try:
        for actor in actors:
            assert read_line(actor) == b"\n"
        with Path(os.devnull).open() as said:
            known = "".join(f"+{actor.pid}\n" for actor in actors)
            _guardian.guard(parent.pid, known.encode(), said.fileno())
        assert [actor.wait(WATCHDOG_S) for actor in actors] == [-signal.SIGKILL] * 2
    finally:
        for actor in actors:
            actor.kill()
            actor.communicate(timeout=60)
    assert waited_s <= 1.0, "the rest is for the processes to end"


def test_processes_of_an_actor_end_with_a_killed_parent(
    run: Callable[..., Program], tmp_path: Path
) -> None:
    program, descriptors = run("with_a_grandchild", str(tmp_path))
    names = files(program, tmp_path, 2)
    grandchildren = [os.pidfd_open(int(name.split("-")[1])) for name in names]
    program.kill()
    gone([*descriptors, *grandchildren])


@pytest.mark.parametrize(
    ("number", "status"),
    [
        (signal.SIGINT, -signal.SIGINT),
        (signal.SIGTERM, 128 + signal.SIGTERM),
        (signal.SIGHUP, 128 + signal.SIGHUP),
    ],
)
def test_a_signal_leaves_the_block_and_stops_all_actors(
    run: Callable[..., Program], number: signal.Signals, status: int
) -> None:
    program, descriptors = run("until_stopped")
    program.send_signal(number)
    said, errors = program.communicate(timeout=WATCHDOG_S)
    assert (said, program.returncode) == ("cleaned up\n", status), errors
    gone(descriptors)


def test_a_second_signal_kills_actors_that_do_not_stop(
    run: Callable[..., Program], tmp_path: Path
) -> None:
    program, descriptors = run("refuse_to_stop", str(tmp_path))
    files(program, tmp_path, 2)
    program.send_signal(signal.SIGTERM)
    # Each of the two actors makes its second file when it is asked to stop.
    files(program, tmp_path, 4)
    program.send_signal(signal.SIGINT)
    program.communicate(timeout=WATCHDOG_S)
    gone(descriptors)


def test_a_killed_guardian_is_replaced(run: Callable[..., Program], place: Path) -> None:
    program, descriptors = run("command")
    signal.pidfd_send_signal(descriptors[-1], signal.SIGKILL)
    gone(descriptors[-1:])
    # The successor is a child of the program, found by the script in its command line.
    until(lambda: guardians(program.pid), program)
    [successor] = map(os.pidfd_open, guardians(program.pid))
    program.kill()
    gone([*descriptors, successor])
    os.close(successor)
    assert not list(place.rglob("*.ring"))


def test_a_guardian_knows_the_actors_of_a_parent_that_is_killed_as_it_starts() -> None:
    parent = subprocess.Popen([sys.executable, "-c", ""])
    parent.wait(60)
    actor = subprocess.Popen(["/bin/sleep", "1000"], start_new_session=True)
    try:
        with tempfile.TemporaryFile() as known:
            known.write(f'{{"folders": []}}\n+{actor.pid}\n'.encode())
            known.seek(0)
            command = [sys.executable, str(_guardian.__file__), str(parent.pid)]
            subprocess.run(
                [*command, str(known.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[known.fileno()],
                check=True,
                timeout=WATCHDOG_S,
            )
        assert actor.wait(timeout=WATCHDOG_S) == -signal.SIGTERM
    finally:
        actor.kill()
        actor.wait(60)


def guardians(parent: int) -> list[int]:
    """Return the ids of the living guardians among the children of a process, from /proc."""
    found = []
    children = Path(f"/proc/{parent}/task").glob("*/children")
    for pid in {pid for task in children for pid in task.read_text().split()}:
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if b"_guardian.py" in line and state != "Z":
            found.append(int(pid))
    return found
