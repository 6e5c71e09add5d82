"""Signals of the parent: Ctrl-C, SIGTERM, SIGHUP and failures leave the ``with`` block."""

from __future__ import annotations

import signal
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

    from backcast._errors import FleetError

_REPEAT_S = 0.05
_STRAY_S = 0.5
"""Seconds after a failure was raised in which a SIGINT is taken for a repetition of it."""


class ParentSignals:
    """Handlers for the time of a ``with`` block; none outside of the main thread.

    SIGTERM and SIGHUP raise SystemExit, so that the block is left and actors are stopped. A failure
    of the fleet interrupts whatever the main thread waits for, by a SIGINT to it.
    """

    def __init__(self, hurry: Callable[[], None], exit_code: CodeType) -> None:
        self._hurry = hurry
        # A signal may interrupt `__exit__` at its first instruction, before it could set a flag.
        self._exit_code = exit_code
        self._before: dict[int, Any] = {}
        self._lock = threading.Lock()
        self._armed = False
        self._leaving = False
        self._failure: FleetError | None = None
        self._raised_s = -_STRAY_S
        self._pending = 0

    def install(self) -> None:
        """Take over the signals, if this is the main thread."""
        if threading.current_thread() is not threading.main_thread():
            return
        self._before[signal.SIGINT] = signal.getsignal(signal.SIGINT)
        for number in (signal.SIGTERM, signal.SIGHUP):
            # A handler that the program has set stays, and so does the ignored SIGHUP of `nohup`.
            if signal.getsignal(number) is signal.SIG_DFL:
                self._before[number] = signal.SIG_DFL
                signal.signal(number, self._ended)
        signal.signal(signal.SIGINT, self._interrupted)
        self._armed = True

    def fail(self, failure: FleetError) -> None:
        """Raise a failure in the main thread immediately; called from another thread."""
        self._failure = failure
        self._interrupt()

    def insist(self) -> None:
        """Interrupt until the failure was raised, or the block is left.

        Python does not notice a signal that arrives just before a wait begins.
        """
        while self._failure is not None and self._interrupt():
            time.sleep(_REPEAT_S)

    def _interrupt(self) -> bool:
        with self._lock:
            if self._armed:
                main = threading.main_thread().ident
                assert main is not None
                signal.pthread_kill(main, signal.SIGINT)
            return self._armed

    def leave(self) -> None:
        """Raise nothing from now on; further signals only shorten the stop."""
        self._leaving = True
        with self._lock:
            self._armed = False

    def restore(self) -> None:
        """Restore the signal handlers."""
        for number, handler in self._before.items():
            # None stands for a handler that was not made in Python, which cannot be set again.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._before.clear()

    def raise_pending(self) -> None:
        """Raise the exception that a signal during the stop asked for."""
        if self._pending == signal.SIGINT:
            raise KeyboardInterrupt
        if self._pending:
            raise SystemExit(128 + self._pending)

    def _interrupted(self, number: int, frame: FrameType | None) -> None:
        failure, self._failure = self._failure, None
        if self._is_leaving(frame):
            if failure is None:
                self._pending = number
                self._hurry()
            return
        if failure is not None:
            self._raised_s = time.monotonic()
            raise failure
        if time.monotonic() - self._raised_s < _STRAY_S:
            return
        handler = self._before.get(number)
        if callable(handler):
            handler(number, frame)
        elif handler == signal.SIG_DFL:
            raise KeyboardInterrupt

    def _is_leaving(self, frame: FrameType | None) -> bool:
        while not self._leaving and frame is not None:
            if frame.f_code is self._exit_code:
                return True
            frame = frame.f_back
        return self._leaving

    def _ended(self, number: int, frame: FrameType | None) -> None:
        if self._is_leaving(frame):
            self._pending = number
            self._hurry()
            return
        raise SystemExit(128 + number)
