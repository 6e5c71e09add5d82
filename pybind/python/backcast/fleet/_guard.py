"""Parent's side of the guardian: starts it, tells it of actors, replaces it when it dies."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from backcast.fleet import _guardian

_CLOSE_S = 1.0
"""Seconds until a guardian that does not end is killed."""


class Guard:
    """Guardian process and the process groups that it knows.

    No call waits for a guardian that is stopped: it is killed, and replaced if it is still needed.
    """

    def __init__(self, folders: list[str]) -> None:
        self._folders = folders
        self._known: set[int] = set()
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        script = str(Path(_guardian.__file__).resolve())
        settings = {"path": sys.path, "folders": self._folders}
        lines = [json.dumps(settings), *(f"+{pid}" for pid in self._known)]
        # Written before the process exists: it ends the groups even if this one is killed now.
        with tempfile.TemporaryFile() as known:
            known.write("".join(line + "\n" for line in lines).encode())
            known.seek(0)
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", script, str(os.getpid()), str(known.fileno())],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                # Keeps no terminal or log of the parent open.
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                pass_fds=[known.fileno()],
                bufsize=0,
            )
        assert self.process.stdin is not None
        os.set_blocking(self.process.stdin.fileno(), False)
        return self.process

    def _say(self, line: str) -> bool:
        """Send a line; return False if the guardian has read none for long."""
        assert self.process.stdin is not None
        if self.process.stdin.closed:
            # It was ended, and the start of the next one failed: `keep_alive` tries again.
            return True
        with suppress(BrokenPipeError):
            # None, or a part, if the pipe is full.
            text = line.encode() + b"\n"
            return self.process.stdin.write(text) == len(text)
        # It has ended: `keep_alive` replaces it, with all groups that are known.
        return True

    def _end(self, patience_s: float) -> None:
        """Wait for the guardian, then kill it."""
        assert self.process.stdin is not None
        with suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(_CLOSE_S)

    def _replace(self) -> None:
        self._kill()
        self._start()

    def _kill(self) -> None:
        # Before its input ends: for a guardian that would be the death of the parent.
        self.process.kill()
        self._end(_CLOSE_S)

    def _is_stopped(self) -> bool:
        """Return whether a signal such as SIGSTOP holds the guardian."""
        options = os.WSTOPPED | os.WNOHANG | os.WNOWAIT
        with suppress(ChildProcessError):
            return os.waitid(os.P_PID, self.process.pid, options) is not None
        return False

    def keep_alive(self) -> None:
        """Start the guardian again if it has ended or is stopped."""
        if self.process.poll() is not None or self._is_stopped():
            self._replace()

    def add(self, pid: int) -> None:
        """Have the guardian end the group of this process when the parent dies."""
        self._known.add(pid)
        if not self._say(f"+{pid}"):
            self._replace()

    def remove(self, pid: int) -> None:
        """Forget a group; call it before its leader is reaped.

        Never raises, so that a leader can be reaped where no guardian can be started.
        """
        self._known.discard(pid)
        if not self._say(f"-{pid}"):
            # Its process has ended then, and `keep_alive` tries again.
            with suppress(OSError):
                self._replace()

    def close(self) -> None:
        """End the guardian."""
        if self._say("bye"):
            self._end(_CLOSE_S)
        else:
            self._kill()
