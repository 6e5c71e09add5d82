"""Measure buffers of trading transitions, in one process.

PYTHONPATH=benches/python python -m transitions [--rounds 7] [--seconds 0.3] [--only TEXT]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial

import results
from portfolios.market import panel, prices
from replay.rounds import read_options, take_turns

from .contenders import BATCH, FUTURE, HISTORY, MANY, Backcast, Memcpy, NumPy, World

Metric = tuple[str, str, int, dict[str, Callable[[], object]]]


def workloads() -> Iterator[Metric]:
    """Yield each metric, its unit, units per call, and a call for each contender."""
    world = World(panel(prices()))
    one, two, plain = Backcast(world), Backcast(world, threads=2), NumPy(world)
    one.check()
    yield f"add {MANY}", "transitions/s", MANY, {"backcast": one.add, "NumPy": plain.add}
    copies = Memcpy(one.fresh("batched"))
    windows = f"sample {BATCH}, {HISTORY} + {FUTURE} days"
    for layout in ("batched", "ticker"):
        calls: dict[str, Callable[[], object]] = {
            "backcast": partial(one.again, layout),
            "backcast, two threads": partial(two.again, layout),
        }
        if layout == "batched":
            calls["NumPy"] = plain.sample
        calls["memcpy of the same bytes"] = copies.copy
        calls["memcpy of the same bytes, two threads"] = copies.copy_in_two
        yield f"{windows}, {layout}, into the same arrays", "batches/s", 1, calls
    fresh: dict[str, Callable[[], object]] = {
        f"backcast, {layout}": partial(one.fresh, layout) for layout in ("batched", "ticker")
    }
    yield f"{windows}, fresh arrays", "batches/s", 1, fresh


def main() -> None:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(
        prog="python -m transitions", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--only", default="", help="metrics whose name contains this text")
    options = read_options(parser, seconds=0.3)
    for metric, unit, units, calls in workloads():
        if options.only not in metric:
            continue
        rates = take_turns(calls, units, options.rounds, options.seconds)
        figures = [(rate.contender, rate.rates) for rate in rates]
        entries = results.lines("transitions", metric, unit, figures, thread="main")
        results.table(entries)
        if not options.quick:
            results.append(entries)


if __name__ == "__main__":
    main()
