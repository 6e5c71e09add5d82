"""Signals of the parent: Ctrl-C, SIGTERM, SIGHUP and failures leave the ``with`` block."""

from __future__ import annotations

import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

    from backcast.errors import FleetError

_REPEAT_S = 0.05
_FAILED = signal.SIGURG
"""Signal of a failure to the main thread. By default it is ignored, so a late one is harmless."""
_FAILURES: WeakSet[FleetError] = WeakSet()


def is_failure(error: FleetError) -> bool:
    """Whether an error ends a fleet, and not only a call."""
    return error in _FAILURES


class ParentSignals:
    """Handlers for the time of a ``with`` block; none outside of the main thread.

    SIGTERM and SIGHUP raise SystemExit, so that the block is left and actors are stopped. A failure
    of the fleet interrupts whatever the main thread waits for, by a signal of its own.

    Signals that arrive while the actors are stopped raise nothing: they shorten the stop, and are
    delivered after it.

    Parameters
    ----------
    hurry : callable
        Shortens the stop.
    leavers : CodeType
        Code of the functions that stop the actors. Each sets :attr:`leaving` first, and a signal
        may interrupt it before that.
    """

    def __init__(self, hurry: Callable[[], None], *leavers: CodeType) -> None:
        self._hurry = hurry
        self._leavers = leavers
        self._before: dict[int, Any] = {}
        self._lock = threading.Lock()
        self._armed = False
        self._failure: FleetError | None = None
        self._around: BaseException | None = None
        """Exception that is handled around the block."""
        self._pending: list[int] = []
        self.leaving = False
        """Whether the actors are being stopped, from the first moment on."""

    def install(self) -> None:
        """Take over the signals, if this is the main thread."""
        if threading.current_thread() is not threading.main_thread():
            return
        self._around = sys.exc_info()[1]
        for number in (signal.SIGTERM, signal.SIGHUP):
            # A handler that the program has set stays, and so does the ignored SIGHUP of `nohup`.
            # That of a fleet around this one does not: it would interrupt the stop of this one.
            before = signal.getsignal(number)
            if before is signal.SIG_DFL or _is_of_a_fleet(before):
                self._take_over(number, self._arrived)
        # None stands for a handler that was not made in Python, which cannot be set again.
        if signal.getsignal(_FAILED) is not None:
            self._take_over(_FAILED, self._failed)
            self._armed = True
        if signal.getsignal(signal.SIGINT) not in (signal.SIG_IGN, None):
            self._take_over(signal.SIGINT, self._arrived)

    def _take_over(self, number: int, handler: Callable[[int, FrameType | None], None]) -> None:
        self._before[number] = signal.getsignal(number)
        signal.signal(number, handler)

    def fail(self, failure: FleetError) -> None:
        """Raise a failure in the main thread immediately; called from another thread."""
        self._failure = failure
        _FAILURES.add(failure)
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
                signal.pthread_kill(main, _FAILED)
            return self._armed

    def disarm(self) -> None:
        """Interrupt the main thread no more."""
        with self._lock:
            self._armed = False

    def restore(self) -> None:
        """Restore the signal handlers, that of Ctrl-C last: it may raise."""
        self._around = None
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def deliver(self, error: BaseException | None) -> None:
        """Deliver the signals that arrived during the stop.

        The exception of an earlier signal, `error`, is not replaced by that of a later one.
        """
        pending, self._pending = self._pending, []
        for number in pending:
            ends = self._before[number] in (signal.SIG_DFL, signal.default_int_handler)
            if not (ends and isinstance(error, KeyboardInterrupt | SystemExit)):
                self._pass_on(number, None)

    def _arrived(self, number: int, frame: FrameType | None) -> None:
        if self._is_leaving(frame):
            if number not in self._pending:
                self._pending.append(number)
            self._hurry()
        else:
            self._pass_on(number, frame)

    def _failed(self, number: int, frame: FrameType | None) -> None:
        end = sys.exc_info()[1]
        if end is not self._around and isinstance(end, KeyboardInterrupt | SystemExit):
            # The failure would replace the end that a signal has begun, and a program that handles
            # failures would go on. `insist` repeats it if the program handles that end.
            return
        failure, self._failure = self._failure, None
        if self._is_leaving(frame):
            # The end of the block raises it. A fleet around this one repeats its own.
            return
        if failure is not None:
            raise failure
        if callable(self._before[number]):
            self._before[number](number, frame)

    def _is_leaving(self, frame: FrameType | None) -> bool:
        return self.leaving or (frame is not None and frame.f_code in self._leavers)

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        """Do what the signal did before the block, except that no default action ends the process.

        An exception leaves the block and stops the actors.
        """
        handler = self._before[number]
        if callable(handler):
            handler(number, frame)
        elif number == signal.SIGINT:
            raise KeyboardInterrupt
        else:
            raise SystemExit(128 + number)


def _is_of_a_fleet(handler: object) -> bool:
    return isinstance(getattr(handler, "__self__", None), ParentSignals)
