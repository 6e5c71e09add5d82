"""Signals of the parent: Ctrl-C, SIGTERM and SIGHUP leave the ``with`` block, and so do failures."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from backcast._errors import FleetError


class ParentSignals:
    """Handlers for the time of a ``with`` block; none outside of the main thread.

    SIGTERM and SIGHUP raise SystemExit, so that the block is left and actors are stopped. A failure
    of the fleet interrupts whatever the main thread waits for, by a SIGINT to it.
    """

    def __init__(self, hurry: Callable[[], None]) -> None:
        self._hurry = hurry
        self._before: dict[int, Any] = {}
        self._lock = threading.Lock()
        self._armed = False
        self._leaving = False
        self._failure: FleetError | None = None
        self._pending = 0

    def install(self) -> None:
        """Take over the signals, if this is the main thread."""
        if threading.current_thread() is not threading.main_thread():
            return
        self._before[signal.SIGINT] = signal.getsignal(signal.SIGINT)
        for number in (signal.SIGTERM, signal.SIGHUP):
            # A handler of the program's own stays, and so does `nohup`.
            if signal.getsignal(number) is signal.SIG_DFL:
                self._before[number] = signal.SIG_DFL
                signal.signal(number, self._ended)
        signal.signal(signal.SIGINT, self._interrupted)
        self._armed = True

    def fail(self, failure: FleetError) -> None:
        """Raise a failure in the main thread, at once; called from another thread."""
        self._failure = failure
        with self._lock:
            if self._armed:
                main = threading.main_thread().ident
                assert main is not None
                signal.pthread_kill(main, signal.SIGINT)

    def leave(self) -> None:
        """Raise nothing from now on; further signals only shorten the stop."""
        self._leaving = True
        with self._lock:
            self._armed = False

    def restore(self) -> None:
        """Give the signals back."""
        for number, handler in self._before.items():
            # None stands for a handler that was not made in Python, which cannot be set again.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._before.clear()

    def raise_pending(self) -> None:
        """Raise what a signal during the stop asked for."""
        if self._pending == signal.SIGINT:
            raise KeyboardInterrupt
        if self._pending:
            raise SystemExit(128 + self._pending)

    def _interrupted(self, number: int, frame: FrameType | None) -> None:
        failure, self._failure = self._failure, None
        if self._leaving:
            if failure is None:
                self._pending = number
                self._hurry()
            return
        if failure is not None:
            raise failure
        handler = self._before.get(number)
        if callable(handler):
            handler(number, frame)
        elif handler == signal.SIG_DFL:
            raise KeyboardInterrupt

    def _ended(self, number: int, _frame: FrameType | None) -> None:
        if self._leaving:
            self._pending = number
            self._hurry()
            return
        raise SystemExit(128 + number)
