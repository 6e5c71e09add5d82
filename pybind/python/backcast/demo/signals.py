"""Signals that end the demo: Ctrl-C, SIGTERM and SIGHUP, and the exit status of each.

Each raises an exception that leaves every block, so that actors end and the ring goes.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from backcast.demo.exit_status import end

_ENDING = (signal.SIGTERM, signal.SIGHUP)


def run_interruptibly(run: Callable[[], int]) -> int:
    """Call a function that returns an exit status, and return that status.

    If a signal ends the call, say so on stderr and return 128 plus the number of the signal.
    Imports take long enough to be interrupted too: those that the function makes are covered.
    """
    with _signals_leave():
        try:
            return run()
        except KeyboardInterrupt:
            return _interrupted(128 + signal.SIGINT)
        except SystemExit as raised:
            return _interrupted(int(raised.code or 0))


@contextmanager
def _signals_leave() -> Iterator[None]:
    """Raise SystemExit at SIGTERM and at SIGHUP, with 128 plus the number of the signal.

    Ctrl-C raises KeyboardInterrupt by itself.
    """
    # `nohup` ignores SIGHUP, so that a closing terminal does not end the run.
    ours = [number for number in _ENDING if signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, _leave)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def _leave(number: int, _frame: object) -> None:
    # Further signals change nothing.
    for ending in _ENDING:
        signal.signal(ending, signal.SIG_IGN)
    raise SystemExit(128 + number)


def _interrupted(status: int) -> int:
    name = signal.Signals(status - 128).name
    return end(f"interrupted by {name}: every process ended, ring and weights removed", status)
