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


class Guard:
    """Guardian process and the process groups that it knows."""

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
            )
        return self.process

    def _say(self, line: str) -> None:
        assert self.process.stdin is not None
        with suppress(OSError):
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()

    def keep_alive(self) -> None:
        """Start the guardian again if it has ended."""
        if self.process.poll() is not None:
            assert self.process.stdin is not None
            with suppress(OSError):
                self.process.stdin.close()
            self._start()

    def add(self, pid: int) -> None:
        """Have the guardian end the group of this process when the parent dies."""
        self._known.add(pid)
        self._say(f"+{pid}")

    def remove(self, pid: int) -> None:
        """Forget a group; call it before its leader is reaped."""
        self._known.discard(pid)
        self._say(f"-{pid}")

    def close(self) -> None:
        """End the guardian."""
        self._say("bye")
        with suppress(OSError):
            assert self.process.stdin is not None
            self.process.stdin.close()
        self.process.wait()
