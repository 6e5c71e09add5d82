"""Parent's side of the guardian: starts it, tells it of actors, replaces it when it dies."""

from __future__ import annotations

import json
import os
import subprocess
import sys
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
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", script, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            # Keeps no terminal or log of the parent open.
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        settings = {"path": sys.path, "folders": self._folders}
        self.process = process
        self._say(json.dumps(settings))
        for pid in self._known:
            self._say(f"+{pid}")
        return process

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
