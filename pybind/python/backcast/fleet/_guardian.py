"""Guardian of a fleet: a process that ends all actors once their parent is dead.

    python -I -S _guardian.py PARENT_PID DESCRIPTOR

Lines of the file that the descriptor names, then of its standard input, name process groups:
``+123`` to guard one, ``-123`` to forget it. The line ``bye`` ends the guardian. The end of the
input, or of the parent, means that the parent died: all groups get SIGTERM, then SIGKILL. A first
line of JSON says how to remove what is left in shared memory.

It imports neither NumPy nor this package while the parent lives, and starts in some 40 ms.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from contextlib import suppress
from typing import Any

POLITE_S = 0.5
"""Seconds between SIGTERM and SIGKILL."""


class Wards:
    """Process groups to be ended with the parent."""

    def __init__(self) -> None:
        self._descriptors: dict[int, int] = {}

    def add(self, pid: int) -> None:
        """Guard the group that this process leads."""
        with suppress(OSError):
            self._descriptors[pid] = os.pidfd_open(pid)

    def remove(self, pid: int) -> None:
        """Forget a group: its leader has ended, and its number may be used again."""
        descriptor = self._descriptors.pop(pid, None)
        if descriptor is not None:
            os.close(descriptor)

    def end(self) -> None:
        """SIGTERM, then SIGKILL to every process of every group."""
        for pid, descriptor in self._descriptors.items():
            # Fails if the leader has ended. Other processes of its group then get only the SIGKILL
            # below.
            with suppress(OSError):
                signal.pidfd_send_signal(descriptor, signal.SIGTERM)
                os.killpg(pid, signal.SIGTERM)
        deadline = time.monotonic() + POLITE_S
        left = set(self._descriptors.values())
        while left and (rest := deadline - time.monotonic()) > 0:
            ended, _, _ = select.select(list(left), [], [], rest)
            left -= set(ended)
        for pid in self._descriptors:
            with suppress(OSError):
                os.killpg(pid, signal.SIGKILL)
        while left:
            ended, _, _ = select.select(list(left), [], [])
            left -= set(ended)


def guard(parent: int, known: bytes, source: int) -> None:
    """Follow the parent's lines until it says bye, or is dead; the first ones are known."""
    wards = Wards()
    watched = [source]
    # Fails if the parent is gone already.
    with suppress(OSError):
        watched.append(os.pidfd_open(parent))
    settings: dict[str, Any] = {}
    said, pending = known, b""
    while True:
        *lines, pending = (pending + said).split(b"\n")
        for line in lines:
            if line == b"bye":
                return
            if line[:1] == b"{":
                settings = json.loads(line)
            elif line[:1] == b"+":
                wards.add(int(line[1:]))
            elif line[:1] == b"-":
                wards.remove(int(line[1:]))
        ready, _, _ = select.select(watched, [], [])
        # Lines that the parent wrote before its death are read first.
        said = os.read(source, 65536) if source in ready else b""
        if not said:
            break
    wards.end()
    # The parent's pipe may be closed before its locks are.
    for descriptor in watched[1:]:
        select.select([descriptor], [], [])
    collect(settings)


def collect(settings: dict[str, Any]) -> None:
    """Remove rings that no process holds any more, as `collect_garbage` would."""
    sys.path[:] = settings.get("path", sys.path)
    from backcast import collect_garbage

    for folder in settings.get("folders", []):
        with suppress(Exception):
            collect_garbage(dir=folder)


if __name__ == "__main__":
    # Signals that are meant for the parent must not end the guardian.
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    with open(int(sys.argv[2]), "rb") as told:
        known = told.read()
    guard(int(sys.argv[1]), known, sys.stdin.fileno())
