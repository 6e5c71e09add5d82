"""Work of spawned children in the fleet's tests, importable in the child."""

from __future__ import annotations

import signal
import sys
import threading
from typing import TYPE_CHECKING

from backcast.demo.fleet import Fleet

if TYPE_CHECKING:
    from backcast.demo.child import Link

_TICK = threading.Event()


def run_until_stopped(greeting: str, link: Link) -> None:
    link.send("ready", greeting=greeting)
    while not link.stopped:
        _TICK.wait(0.01)
    link.send("done", greeting=greeting)


def crash(reason: str, link: Link) -> None:
    raise ValueError(reason)


def refuse_to_stop(_: str, link: Link) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    link.send("ready")
    while True:
        _TICK.wait(60.0)


def start_a_child_and_wait() -> None:
    """Run as a process that prints "up" once its child is up, and waits to be killed."""
    fleet = Fleet()
    fleet.start("child", run_until_stopped, "hello")
    while not fleet.listen(1.0):
        pass
    sys.stdout.write("up\n")
    sys.stdout.flush()
    _TICK.wait()
