"""One process of an actor: started behind a gate, told to stop, killed with its whole group."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing import connection
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from backcast.fleet._actor import ActorSpec
    from backcast.fleet._environment import Identity
    from backcast.fleet._guard import Guard

# Waits for the gate before it imports anything of ours, so that an actor whose parent dies during
# the start ends by itself.
_BOOT = """\
import sys
from multiprocessing.connection import Connection
link = Connection(int(sys.argv[1]))
try:
    sys.path[:] = __import__("json").loads(link.recv_bytes())
except (EOFError, OSError):
    sys.exit(70)
from backcast.fleet._child import main
main(link, int(sys.argv[2]))
"""
_GATE = 'read -r _ || exit 70; exec "$@" </dev/null'
_TAIL_BYTES = 4096
WHERE = b"where"
"""Request of the parent for the stack of an actor; any other one is to stop."""
# In place of a descriptor.
_NONE = -1

Message = dict[str, Any]


class PayloadFile:
    """Pickled function and arguments, in a file without a name that every child reads."""

    def __init__(self, payload: bytes) -> None:
        self._file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._file.write(payload)
        self._file.flush()

    def fileno(self) -> int:
        """Return the descriptor that children inherit."""
        return self._file.fileno()

    def close(self) -> None:
        """Free the file; children that have it keep it."""
        self._file.close()


class ActorProcess:
    """A running process of one actor, leader of a process group of its own."""

    def __init__(
        self,
        spec: ActorSpec,
        identity: Identity,
        extra: dict[str, str],
        payload: PayloadFile,
        guard: Guard,
    ) -> None:
        self.link: connection.Connection[Any, Any] | None = None
        self.errors: int | None = None
        """Descriptor of a command's standard error; None for a function."""
        self.tail = b""
        self._guard = guard
        variables = identity.variables(extra)
        if spec.command is None:
            self._popen = self._start_function(variables, payload)
        else:
            self._popen = self._start_command(spec.command, variables)
        self.pid = self._popen.pid
        self.ended = _NONE
        """Descriptor that is readable once the process has ended."""
        try:
            self.ended = os.pidfd_open(self.pid)
            guard.add(self.pid)
        except OSError:
            self._abandon()
            raise
        self._open_gate()

    def _start_function(
        self, variables: dict[str, str], payload: PayloadFile
    ) -> subprocess.Popen[bytes]:
        self.link, theirs = connection.Pipe()
        with theirs:
            warnings = [f"-W{option}" for option in sys.warnoptions]
            numbers = theirs.fileno(), payload.fileno()
            return subprocess.Popen(
                [sys.executable, *warnings, "-c", _BOOT, *map(str, numbers)],
                stdin=subprocess.DEVNULL,
                env=variables,
                pass_fds=numbers,
                process_group=0,
            )

    def _start_command(
        self, command: tuple[str, ...], variables: dict[str, str]
    ) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            ["/bin/sh", "-c", _GATE, "backcast-actor", *command],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=variables,
            process_group=0,
        )
        assert process.stderr is not None
        self.errors = process.stderr.fileno()
        os.set_blocking(self.errors, False)
        return process

    def _open_gate(self) -> None:
        with suppress(OSError):
            if self.link is not None:
                self.link.send_bytes(json.dumps(sys.path).encode())
            elif self._popen.stdin is not None:
                self._popen.stdin.write(b"go\n")
                self._popen.stdin.close()

    def messages(self) -> Iterator[Message]:
        """Receive the pending messages of a function."""
        with suppress(EOFError, OSError, ValueError):
            while self.link is not None and self.link.poll():
                yield json.loads(self.link.recv_bytes())

    def forward_errors(self) -> bool:
        """Copy what a command wrote to standard error; return False at its end."""
        if self.errors is None:
            return False
        with suppress(BlockingIOError):
            while text := os.read(self.errors, 65536):
                self.tail = (self.tail + text)[-_TAIL_BYTES:]
                with suppress(OSError, ValueError):
                    sys.stderr.write(text.decode(errors="replace"))
            return False
        return True

    def ask_to_stop(self) -> None:
        """Set the flag of a function; send SIGTERM to a command."""
        if self.link is None:
            self.terminate()
            return
        with suppress(OSError):
            self.link.send_bytes(b"stop")

    def ask_where(self) -> None:
        """Ask a function for its stack, which a message brings."""
        with suppress(OSError):
            if self.link is not None:
                self.link.send_bytes(WHERE)

    def terminate(self) -> None:
        """Send SIGTERM to the process."""
        with suppress(OSError):
            self._popen.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL to every process of the group."""
        with suppress(OSError):
            os.killpg(self.pid, signal.SIGKILL)

    def reap(self) -> int:
        """Collect the exit status of a process that has ended, and end the rest of its group.

        The group keeps its number until the status is collected, so no other process is killed.
        """
        self.kill()
        self._guard.remove(self.pid)
        status = self._popen.wait()
        self.forward_errors()
        os.close(self.ended)
        self._close_streams()
        return status

    def _abandon(self) -> None:
        """End a process that waits behind its gate."""
        self.kill()
        self._guard.remove(self.pid)
        self._popen.wait()
        if self.ended != _NONE:
            os.close(self.ended)
        self._close_streams()

    def _close_streams(self) -> None:
        if self.link is not None:
            self.link.close()
        for stream in (self._popen.stdin, self._popen.stderr):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
