"""Signals that end the demo: they set a flag, and the run raises where it can be left."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import FrameType

# Signals of Ctrl-C, of a service manager that stops the run, and of a terminal that closes.
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class InterruptedRunError(Exception):
    """Ctrl-C, SIGTERM or SIGHUP interrupted the run."""

    def __init__(self, by: signal.Signals) -> None:
        super().__init__(by.name)
        self.by = by


class Interrupts:
    """Turns SIGINT, SIGTERM and SIGHUP into a flag, so that cleanup is not interrupted."""

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupts:
        """Install the signal handlers."""
        for number in _ENDING:
            # `nohup` ignores SIGHUP, so that a closing terminal does not end the run.
            if signal.getsignal(number) != signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the signal handlers."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.received = signal.Signals(number)

    def check(self) -> None:
        """Raise if a signal came in."""
        if self.received is not None:
            raise InterruptedRunError(self.received)
