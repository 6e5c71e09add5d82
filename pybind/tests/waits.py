"""Bounded waits for other threads and processes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from subprocess import Popen
from typing import Any

# Seconds after which a test that waits counts as hung.
WATCHDOG_S = 60.0


def until(is_so: Callable[[], Any], child: Popen[Any] | None = None) -> None:
    """Yield until `is_so`; fail if `child` ends before that, or after `WATCHDOG_S`."""
    begin = time.monotonic()
    while not is_so():
        assert child is None or child.poll() is None, "the child ended"
        assert time.monotonic() - begin < WATCHDOG_S, "waited in vain"
        os.sched_yield()
