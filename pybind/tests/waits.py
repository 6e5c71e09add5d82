"""Bounded waits for other threads and processes."""

from __future__ import annotations

import faulthandler
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from subprocess import Popen
from typing import Any, AnyStr, NoReturn

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key

# Seconds after which a test that waits counts as hung.
WATCHDOG_S = 60


def watchdog(config: pytest.Config, seconds: float) -> None:
    """End the run with every thread's stack if this test lasts longer.

    Replaces the `faulthandler_timeout` of pyproject.toml, which pytest sets before each test.
    """
    stderr = config.stash[fault_handler_stderr_fd_key]
    faulthandler.dump_traceback_later(seconds, exit=True, file=stderr)


def until(is_so: Callable[[], Any], child: Popen[Any] | None = None) -> None:
    """Yield until `is_so`; fail if `child` ends before that, or after `WATCHDOG_S`."""
    begin = time.monotonic()
    while not is_so():
        assert child is None or child.poll() is None, "the child ended"
        assert time.monotonic() - begin < WATCHDOG_S, "waited in vain"
        os.sched_yield()


def until_interrupted() -> NoReturn:
    """Wait for an exception from outside; fail after `WATCHDOG_S`."""
    threading.Event().wait(WATCHDOG_S)
    pytest.fail("nothing interrupts the wait")


@contextmanager
def killing(kill: Callable[[], object]) -> Iterator[None]:
    """Call `kill` if the block lasts `WATCHDOG_S`, to end the process that it waits for."""
    killer = threading.Timer(WATCHDOG_S, kill)
    killer.start()
    try:
        yield
    finally:
        killer.cancel()
        # A test may fork next, which warns beside other threads.
        killer.join()


def read_line(child: Popen[AnyStr]) -> AnyStr:
    """Return the next line that `child` prints; kill `child` if none comes in `WATCHDOG_S`."""
    assert child.stdout is not None
    with killing(child.kill):
        return child.stdout.readline()


def exit_code_of(pid: int) -> int:
    """Return the exit code of a forked child; kill the child if it runs for `WATCHDOG_S` more."""
    with killing(lambda: os.kill(pid, signal.SIGKILL)):
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def await_state(pid: int, states: int) -> None:
    """Wait until a child is in one of the states of `os.waitid`; fail after `WATCHDOG_S`."""
    until(lambda: os.waitid(os.P_PID, pid, states | os.WNOHANG | os.WNOWAIT))


def join(*works: threading.Thread | BaseProcess) -> None:
    """Wait for threads or processes; fail if one has not ended after `WATCHDOG_S`."""
    for work in works:
        work.join(WATCHDOG_S)
        assert not work.is_alive(), "waited in vain"
