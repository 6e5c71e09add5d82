"""The process of one contender, which takes commands as lines of JSON.

`python -m peers.worker MODULE` first prints the versions of its packages. Then it answers each line
of standard input with one of standard output:

| command | answer |
| --- | --- |
| `{"do": "open", "workload": NAME}` | `{"can": [METHOD, ...]}`, none if it has no such buffer |
| `{"do": "calibrate", "method": METHOD, "seconds": S}` | `{"repeats": N}`, calls in S seconds |
| `{"do": "round", "method": METHOD, "repeats": N}` | `{"seconds": S}` |
| `{"do": "together", "seconds": S}` | `{"written": ROWS/S, "drawn": ROWS/S, "torn": ROWS}` |
| `{"do": "close"}` | `{"threads": N}`, the most that the process had |

A failure is answered with `{"error": TEXT}`, after which the process ends.
"""

from __future__ import annotations

import itertools
import json
import os
import platform
import sys
import time
import traceback
from collections.abc import Callable
from importlib import import_module, metadata
from types import ModuleType
from typing import Any, Final

from replay.rounds import repeats_of

from .data import check_stacks, check_transitions, check_windows, several, singles
from .two_processes import TwoProcesses

APPENDS: Final = ("append", "append_without_next")
APPENDS_MANY: Final = ("append_many", "append_many_with_next")
Answer = dict[str, Any]


class Worker:
    """A contender with at most one workload open."""

    def __init__(self, module: ModuleType) -> None:
        """Open nothing yet."""
        self.module = module
        self.buffer: Any = None
        self.calls: dict[str, Callable[[], object]] = {}
        self.threads = 0

    def hello(self) -> Answer:
        """Return the versions that are measured."""
        packages = {name: metadata.version(name) for name in self.module.PACKAGES}
        return {"versions": {**packages, "python": platform.python_version()}}

    def open(self, workload: str) -> Answer:
        """Make and fill the buffer of a workload, and check batches drawn from it."""
        self.calls = {}
        if not hasattr(self.module, workload):
            return {"can": []}
        if workload == "Shared":
            self.buffer = TwoProcesses(self.module.__name__)
            return {"can": ["together"]}
        make = getattr(self.module, workload)
        if workload == "Transitions":
            steps = several()
            self.buffer = make(steps)
            check_transitions(*self.buffer.pairs(self.buffer.sample()))
            rows, step = itertools.cycle(singles()), itertools.cycle(steps)
            for methods, source in ((APPENDS, rows), (APPENDS_MANY, step)):
                for method in methods:
                    if hasattr(self.buffer, method):
                        self.calls[method] = fed(getattr(self.buffer, method), source)
        else:
            self.buffer = make()
            batch = self.buffer.sample()
            if workload == "Frames":
                check_stacks(*self.buffer.pairs(batch))
            else:
                check_windows(self.buffer.windows(batch))
        self.calls["sample"] = self.buffer.sample
        return {"can": list(self.calls)}

    def calibrate(self, method: str, seconds: float) -> Answer:
        """Count the calls that fit in a number of seconds."""
        return {"repeats": repeats_of(self.calls[method], seconds)}

    def round(self, method: str, repeats: int) -> Answer:
        """Time a number of calls."""
        call = self.calls[method]
        times = range(repeats)
        start = time.perf_counter()
        for _ in times:
            call()
        passed = time.perf_counter() - start
        self.threads = max(self.threads, threads())
        return {"seconds": passed}

    def together(self, seconds: float) -> Answer:
        """Draw while another process writes."""
        turn = self.buffer.turn(seconds)
        self.threads = max(self.threads, threads())
        return dict(turn._asdict())

    def close(self) -> Answer:
        """Free the memory of the workload."""
        if self.buffer is not None:
            self.calls = {}
            self.buffer.close()
            self.buffer = None
        return {"threads": self.threads}


def fed(store: Callable[[Any], object], rows: itertools.cycle[Any]) -> Callable[[], object]:
    """Make a call of no arguments that stores the next rows."""
    return lambda: store(next(rows))


def threads() -> int:
    """Count the threads of this process."""
    with open("/proc/self/status", encoding="utf-8") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("Threads:"))


def main() -> None:
    """Answer until standard input ends."""
    # Lines that libraries print go to standard error, so that standard output has answers alone.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        worker = Worker(import_module(f"peers.{sys.argv[1]}"))
        print(json.dumps(worker.hello()), file=answers)
        for line in sys.stdin:
            told = json.loads(line)
            answer = getattr(worker, told.pop("do"))(**told)
            print(json.dumps(answer), file=answers)
    except Exception:
        print(json.dumps({"error": traceback.format_exc()}), file=answers)
        raise
    finally:
        answers.flush()
        sys.stderr.flush()
    # Ends at once, because threads of TensorFlow do not always end. No file is open any more.
    os._exit(0)


if __name__ == "__main__":
    main()
