"""Medians of times of calls that are made in turns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable


def microseconds(
    call: Callable[[], object], times: int, clock: Callable[[], float] = time.process_time
) -> float:
    """Return the time of a call: by default CPU time of the process, all threads included."""
    start = clock()
    for _ in range(times):
        call()
    return (clock() - start) / times * 1e6


def measure(
    title: str,
    calls: dict[str, Callable[[], object]],
    times: int,
    rounds: int,
    clock: Callable[[], float] = time.process_time,
) -> dict[str, float]:
    """Call all in turns; print and return the medians, with the ratios to the first."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        microseconds(call, times, clock)
    for _ in range(rounds):
        for name, call in calls.items():
            found[name].append(microseconds(call, times, clock))
    medians = {name: statistics.median(of) for name, of in found.items()}
    first = next(iter(medians.values()))
    for name, middle in medians.items():
        print(f"{title}: {name:28} {middle:9.1f} us  {first / middle:6.2f}x", flush=True)
    return medians
