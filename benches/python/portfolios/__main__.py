"""Measure portfolio environments, in one process.

PYTHONPATH=benches/python python -m portfolios [--rounds 7] [--seconds 0.2] [--only TEXT]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

import results
from replay.rounds import read_options, take_turns

from .contenders import Backcast, BackcastSingle, Memcpy, MemcpyNewest, NumPy
from .market import MACROS, panel, prices

N, H = 64, 20
ARENA_DAYS = 64

Metric = tuple[str, int, dict[str, Callable[[], object]]]


def workloads() -> Iterator[Metric]:
    """Yield each metric, its environments per call, and a call for each contender."""
    columns = prices()
    market = panel(columns)
    macro = {"macro_tickers": MACROS}
    plain = Backcast(market, N)
    plain.check()
    flat = Backcast(market, N, obs="flat")
    reused = Backcast(market, N, copy=False)
    yield (
        f"step {N}, dicts",
        N,
        {
            "backcast": plain.step,
            "backcast, one flat f32 array": flat.step,
            "backcast, copy=False": reused.step,
            "numpy": NumPy(columns, N).step,
            "memcpy": Memcpy(plain.seen).step,
        },
    )
    fresh = Backcast(market, N, history=H, **macro)
    fresh.check()
    yield (
        f"step {N}, {H} days of history, fresh",
        N,
        {
            "backcast": fresh.step,
            "numpy": NumPy(columns, N, H).step,
            "memcpy": Memcpy(fresh.seen).step,
        },
    )
    sliding = Backcast(market, N, history=H, copy=False, **macro)
    sliding.check()
    yield (
        f"step {N}, {H} days of history, copy=False",
        N,
        {
            "backcast": sliding.step,
            "memcpy of the newest day": MemcpyNewest(dict(sliding.seen), ARENA_DAYS).step,
            "memcpy of all": Memcpy(fresh.seen).step,
        },
    )
    single = BackcastSingle(market)
    yield (
        "step 1, dicts",
        1,
        {"backcast": single.step, "numpy": NumPy(columns, 1).step},
    )


def main() -> None:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(
        prog="python -m portfolios", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--only", default="", help="metrics whose name contains this text")
    options = read_options(parser, seconds=0.2)
    for metric, units, calls in workloads():
        if options.only not in metric:
            continue
        rates = take_turns(calls, units, options.rounds, options.seconds)
        figures = [(rate.contender, rate.rates) for rate in rates]
        entries = results.lines("portfolios", metric, "env-steps/s", figures, thread="main")
        results.table(entries)
        if not options.quick:
            results.append(entries)


if __name__ == "__main__":
    main()
