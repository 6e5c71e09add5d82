"""Run a market of the `bourse` package for each line of input, and print ticks per second.

The line is `numpy` for the package's agents in NumPy, `python` for those in Python.
`benches/benches/market.rs` starts this program and lets it take turns with Backcast.
"""

from __future__ import annotations

import sys
import time

from bourse import core
from bourse.step_sim import agents, run

AGENTS = 100
ACTIVE = 0.16
"""Share of the agents that act in a tick, as in the market that it is compared with."""
TICKS = {"numpy": 2_000, "python": 500}
"""Ticks of a round: few, because orders of the NumPy agents stay in the book, which grows."""


def env(kind: str) -> core.StepEnv | core.StepEnvNumpy:
    """Build a market of random agents around one price."""
    build = core.StepEnvNumpy if kind == "numpy" else core.StepEnv
    return build(101, 0, 1, 1_000_000)


def population(kind: str) -> list[agents.RandomAgent | agents.NumpyRandomAgents]:
    """Build agents that place orders at random prices."""
    prices, volumes = (9_900, 10_100), (1, 50)
    if kind == "numpy":
        return [agents.NumpyRandomAgents(round(ACTIVE * AGENTS), prices, volumes, 1)]
    return [agents.RandomAgent(i, ACTIVE, prices, volumes, 1) for i in range(AGENTS)]


def main() -> None:
    """Run a market for each line until the input ends."""
    for number, line in enumerate(sys.stdin):
        kind = line.strip()
        market, traders = env(kind), population(kind)
        begin = time.perf_counter()
        run(market, traders, TICKS[kind], number, show_progress=False, use_numpy=kind == "numpy")
        seconds = time.perf_counter() - begin
        assert len(market.get_trades()) > 0
        print(TICKS[kind] / seconds, flush=True)


if __name__ == "__main__":
    main()
