"""Detection of calls that release the interpreter, without a clock."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

from waits import join


def others_run(call: Callable[[], object], times: int = 500) -> bool:
    """Call repeatedly until another thread has run, or a limit is reached; return whether it has.

    The switch interval is so long that Python switches no threads by itself: the other thread runs
    only if the call releases the interpreter.
    """
    # The first call may also release the interpreter for imports or lasting allocations.
    call()
    gate, ran = threading.Lock(), threading.Event()

    def wait_and_run() -> None:
        with gate:
            ran.set()

    gate.acquire()
    other = threading.Thread(target=wait_and_run)
    other.start()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1_000)
    try:
        gate.release()
        for _ in range(times):
            call()
            if ran.is_set():
                return True
        return False
    finally:
        sys.setswitchinterval(interval)
        join(other)
