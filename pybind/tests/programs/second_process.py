"""A second process for programs, which can be killed between two steps or while one waits.

One process is started for a test session. It imports the library and waits; for each program it
forks a child, which begins without any handle, as a new process would, in a millisecond.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Self

# Seconds that a step of another process may take.
STEP_TIME = 60.0


class Peer:
    def __init__(self, pid: int, connection: Connection) -> None:
        self.pid, self.connection = pid, connection
        self.life = os.pidfd_open(pid)

    def begin(self, step: dict[str, Any]) -> None:
        self.connection.send(step)

    def outcome(self) -> dict[str, Any]:
        """Wait for the outcome of the step that was begun."""
        if not self.connection.poll(STEP_TIME):
            raise TimeoutError(f"the process {self.pid} does not answer")
        outcome: dict[str, Any] = self.connection.recv()
        return outcome

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self.gone()

    def end(self) -> None:
        """Let the process close its handles and end."""
        with contextlib.suppress(OSError):
            self.connection.send(None)
        self.gone()

    def gone(self) -> None:
        """Wait until the kernel has closed the files of the process."""
        if not select.select([self.life], [], [], STEP_TIME)[0]:
            os.kill(self.pid, signal.SIGKILL)
            select.select([self.life], [], [], STEP_TIME)
        os.close(self.life)
        self.connection.close()


class Peers:
    def __enter__(self) -> Self:
        self.ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.ours.settimeout(STEP_TIME)
        with theirs:
            self.starter = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
            )
        return self

    def start(self, place: Path) -> Peer:
        ours, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self.ours, [str(place).encode()], [theirs.fileno()])
            pid = int(self.ours.recv(32))
        return Peer(pid, Connection(ours.detach()))

    def __exit__(self, *_: object) -> None:
        self.ours.close()
        try:
            self.starter.wait(STEP_TIME)
        except subprocess.TimeoutExpired:
            self.starter.kill()
            self.starter.wait(STEP_TIME)


def fork_for(requests: socket.socket) -> None:
    """Fork a child for every request, until the socket is closed."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        place, files, _, _ = socket.recv_fds(requests, 4096, 1)
        if not place:
            return
        child = os.fork()
        if child == 0:
            requests.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            with contextlib.suppress(BaseException):
                serve(Connection(files[0]), Path(place.decode()))
            os._exit(0)
        os.close(files[0])
        requests.send(str(child).encode())


def serve(connection: Connection, place: Path) -> None:
    actor = calls.Actor(place)
    while (step := connection.recv()) is not None:
        try:
            outcome = actor.take(step)
        except BaseException as error:
            outcome = {"error": type(error).__name__, "message": repr(error)}
        connection.send(outcome)
    actor.close()


if __name__ == "__main__":
    # Imported before the forks, so that no child imports it again.
    import calls

    with socket.socket(fileno=int(sys.argv[1])) as requests_of_tests:
        fork_for(requests_of_tests)
