"""Signals that end the demo: each leaves every block, so that actors end and the ring goes.

Ctrl-C does so by itself, as KeyboardInterrupt.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

_ENDING = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def signals_leave() -> Iterator[None]:
    """Raise SystemExit at SIGTERM and at SIGHUP, with 128 plus the number of the signal."""
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
