"""Child processes of the demo: the link to the parent, and how they end.

No handle of ring or panel crosses this link, only words: the parent says "stop", the child says how
far it is. A parent that dies, even by SIGKILL, closes the pipe, and the child ends by itself.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

_GRACE_SECONDS = 5.0
_EXIT_ORPHANED = 70


class Link:
    """The child's end of a pipe to the parent; `stopped` turns true when it should finish."""

    def __init__(self, pipe: Connection[Any, Any]) -> None:
        self._pipe = pipe
        self._stop = threading.Event()
        self._over = threading.Event()
        threading.Thread(target=self._listen, name="parent", daemon=True).start()

    @property
    def stopped(self) -> bool:
        """Return whether the parent asked to stop, or is gone."""
        return self._stop.is_set()

    def send(self, kind: str, **facts: Any) -> None:  # noqa: ANN401 - JSON-like values
        """Send a message to the parent; if it is gone, stop."""
        try:
            self._pipe.send({"kind": kind, **facts})
        except OSError:
            self._stop.set()

    def finish(self) -> None:
        """End the watchdog of this child."""
        self._over.set()

    def _listen(self) -> None:
        try:
            self._pipe.recv()
        except (EOFError, OSError):
            self._stop.set()
            # The parent is gone, so a child that hangs ends itself.
            if not self._over.wait(_GRACE_SECONDS):
                os._exit(_EXIT_ORPHANED)
        self._stop.set()


def run_child(
    work: Callable[[Any, Link], None], settings: object, pipe: Connection[Any, Any]
) -> None:
    """Do `work` in this process; report an exception to the parent and exit with status 1."""
    link = Link(pipe)
    try:
        work(settings, link)
    except Exception as error:
        link.send("error", text=f"{type(error).__name__}: {error}", trace=traceback.format_exc())
        sys.exit(1)
    finally:
        link.finish()
