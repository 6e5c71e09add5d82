"""Whether a call lets other threads run, seen without a clock."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable


def others_run(call: Callable[[], object], times: int = 500) -> bool:
    """Call repeatedly until another thread has run, or a limit is reached; return whether it has.

    Nobody is made to give the interpreter up meanwhile: the other thread runs if the call does.
    """
    # What a first call imports or makes for good may release the interpreter too.
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
        other.join()
