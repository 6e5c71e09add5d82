"""Measure Backcast and other replay buffers, in one process.

PYTHONPATH=benches/python python -m replay [--rounds 7] [--seconds 0.2] [--only TEXT] [--thread]
"""

from __future__ import annotations

import argparse
import itertools
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import results

from . import contenders, frames, recurrent, workloads
from .rounds import read_options, take_turns
from .workloads import BATCH, CAPACITY, EPISODE, FRAMES, MANY, Frame, observations, transitions


def transitions_of_w1() -> Iterator[tuple[str, int, dict[str, Callable[[], object]]]]:
    """Yield each metric, its units per call, and a call for each contender that has it."""
    # The list is stored repeatedly: an episode is the list twice, and ends with its last step.
    many = transitions(EPISODE // 2, (MANY,))
    singles = [tuple(step) for step in transitions(4_096)]
    # A contender loops over a list of rows: a call from here for each row would cost as much as an
    # append.
    single = itertools.cycle([singles[i : i + BATCH] for i in range(0, len(singles), BATCH)])
    several = itertools.cycle(many)
    classes: list[Any] = [contenders.Backcast, contenders.NumPy]
    if results.version("cpprb"):
        classes.append(contenders.Cpprb)
    buffers = [make(many) for make in classes]
    steps: dict[str, tuple[int, str, Iterator[Any]]] = {
        "append 1 row": (BATCH, "append", single),
        f"append {MANY} rows, {MANY} environments": (MANY, "append_many", several),
        f"append {MANY} rows, 1 environment": (MANY, "extend", several),
    }
    for metric, (units, method, source) in steps.items():
        stores = {buffer.name: getattr(buffer, method) for buffer in buffers}
        if method == "append":
            stores["backcast, with next_obs"] = buffers[0].append_with_next
        yield metric, units, {name: fed(store, source) for name, store in stores.items()}
    for metric, method in [("fresh arrays", "sample"), ("into the same arrays", "sample_again")]:
        have = [buffer for buffer in buffers if hasattr(buffer, method)]
        calls = {buffer.name: getattr(buffer, method) for buffer in have}
        yield f"sample {BATCH}, {metric}", BATCH, calls
    for buffer in buffers:
        buffer.close()


def fed(store: Callable[[Any], object], steps: Iterator[Any]) -> Callable[[], object]:
    """Make a call of no arguments that stores the next steps."""
    return lambda: store(next(steps))


def windows_of_w3() -> Iterator[tuple[str, int, dict[str, Callable[[], object]]]]:
    """Yield each metric, its units per call and its calls, for windows."""
    obs = observations(0, CAPACITY)
    buffers: list[Any] = [contenders.BackcastWindows(obs), contenders.NumPyWindows(obs)]
    for metric, method in [("fresh arrays", "sample"), ("into the same arrays", "sample_again")]:
        yield f"sample {BATCH}, {metric}", BATCH, {b.name: getattr(b, method) for b in buffers}
    for buffer in buffers:
        buffer.close()


def frames_of_w2() -> Iterator[tuple[str, int, dict[str, Callable[[], object]]]]:
    """Yield each metric, its units per call and its calls, for stacks of frames."""
    classes: list[Any] = [frames.Backcast, frames.NumPy]
    if results.version("cpprb"):
        classes.append(frames.Cpprb)
    buffers = [make() for make in classes]
    for buffer in buffers:
        for frame in workloads.frames(FRAMES):
            buffer.append(frame)
        buffer.filled()
        buffer.check()
    for metric, method in [("fresh arrays", "sample"), ("into the same arrays", "sample_again")]:
        have = [buffer for buffer in buffers if hasattr(buffer, method)]
        calls = {buffer.name: getattr(buffer, method) for buffer in have}
        yield f"sample {BATCH}, {metric}", BATCH, calls
    some = list(workloads.frames(BATCH))
    yield "append 1 frame", BATCH, {b.name: partial(appended, b, some) for b in buffers}
    for buffer in buffers:
        buffer.close()


def windows_of_w4() -> Iterator[tuple[str, int, dict[str, Callable[[], object]]]]:
    """Yield each metric, its units per call and its calls, for a recurrent agent."""
    ours = recurrent.Backcast()
    copies = recurrent.Memcpy(ours)
    for metric, call in [
        ("fresh arrays", ours.sample),
        ("into the same arrays", ours.sample_again),
    ]:
        calls = {ours.name: call, copies.name: copies.copy}
        yield f"sample {recurrent.WINDOWS}, {metric}", recurrent.WINDOWS, calls
    ours.close()


def appended(buffer: Any, some: list[Frame]) -> None:  # noqa: ANN401 - a contender
    """Store frames one by one."""
    append = buffer.append
    for frame in some:
        append(frame)


def measure(options: argparse.Namespace) -> None:
    """Measure the chosen workloads, print the results and add them to the file of this run."""
    workloads = {
        "w1 transitions": transitions_of_w1,
        "w2 stacks of frames": frames_of_w2,
        "w3 windows": windows_of_w3,
        "w4 windows by column": windows_of_w4,
    }
    for workload, metrics in workloads.items():
        if options.only not in workload:
            continue
        for metric, units, calls in metrics():
            rates = take_turns(calls, units, options.rounds, options.seconds)
            entries = results.lines(
                workload,
                metric,
                "rows/s",
                [(rate.contender, rate.rates) for rate in rates],
                thread="side" if options.thread else "main",
            )
            results.table(entries)
            if not options.quick:
                results.append(entries)


def main() -> None:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(prog="python -m replay", description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="workloads whose name contains this text")
    parser.add_argument("--thread", action="store_true", help="measure in a side thread")
    options = read_options(parser, seconds=0.2)
    if options.thread:
        thread = threading.Thread(target=measure, args=(options,))
        thread.start()
        thread.join()
    else:
        measure(options)


if __name__ == "__main__":
    main()
