"""Rounds in which contenders take turns, so that load on the machine affects all of them."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

CALIBRATION_S = 0.05
LEAST_ROUNDS = 7


@dataclass(frozen=True)
class Rate:
    """Units per second of one contender: a figure per round."""

    contender: str
    rates: list[float]

    @property
    def median(self) -> float:
        """Median over the rounds."""
        return statistics.median(self.rates)


def take_turns(
    calls: Mapping[str, Callable[[], object]], units: int, rounds: int, seconds: float
) -> list[Rate]:
    """Measure every call in `rounds` rounds of about `seconds` each; a call does `units` units."""
    repeats = {name: repeats_of(call, seconds) for name, call in calls.items()}
    rates: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            repeat = range(repeats[name])
            start = time.perf_counter()
            for _ in repeat:
                call()
            rates[name].append(len(repeat) * units / (time.perf_counter() - start))
    return [Rate(name, of) for name, of in rates.items()]


def repeats_of(call: Callable[[], object], seconds: float) -> int:
    """Return how many calls fit into `seconds`, at least 1."""
    done, start = 0, time.perf_counter()
    while (passed := time.perf_counter() - start) < CALIBRATION_S:
        call()
        done += 1
    return max(1, int(done * seconds / passed))


def read_options(parser: argparse.ArgumentParser, seconds: float) -> argparse.Namespace:
    """Add the options of rounds to a parser and read the command line.

    `seconds` is the default of `--seconds`.
    """
    least = LEAST_ROUNDS
    parser.add_argument(
        "--rounds", type=int, default=least, help=f"rounds, at least {least} (default {least})"
    )
    parser.add_argument(
        "--seconds", type=float, default=seconds, help="of one contender in one round"
    )
    parser.add_argument("--quick", action="store_true", help="3 short rounds, nothing kept")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds = 3, 0.05
    elif options.rounds < least:
        parser.error(
            f"--rounds is {options.rounds}, the limit is {least}; medians of fewer mean little"
        )
    return options
