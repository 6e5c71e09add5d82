"""Medians of CPU time of calls that are made in turns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable


def microseconds(call: Callable[[], object], times: int) -> float:
    """Return the CPU time of a call of the process, all threads included."""
    start = time.process_time()
    for _ in range(times):
        call()
    return (time.process_time() - start) / times * 1e6


def measure(title: str, calls: dict[str, Callable[[], object]], times: int, rounds: int) -> None:
    """Call all in turns, and print the medians and the ratios to the first."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        microseconds(call, times)
    for _ in range(rounds):
        for name, call in calls.items():
            found[name].append(microseconds(call, times))
    first = statistics.median(next(iter(found.values())))
    for name, of in found.items():
        middle = statistics.median(of)
        print(f"{title}: {name:28} {middle:9.1f} us  {first / middle:6.2f}x")
