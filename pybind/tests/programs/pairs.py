"""Counts which pairs of API features occur together in programs.

python pairs.py 2000      counts over 2,000 programs, and lists the pairs that none has
"""

from __future__ import annotations

import sys
from collections import Counter
from itertools import combinations
from typing import Any

from making import make
from world import Program

# Arguments whose values are features, and arguments whose presence is a feature.
VALUES = "schema policy op how mode missing into bad boundary kind layout strategy by initial"
GIVEN = "private limiter next final finals plain windows history future n_step copy columns form"
GIVEN += " hindsight learned share transform patient older fails reuse first max_length stratified"
GIVEN += " at_most by_length max_age"


def features(program: Program) -> set[str]:
    found = {f"processes {program['processes']}"}

    def add(given: dict[str, Any]) -> None:
        for name, value in given.items():
            if name in VALUES.split() and isinstance(value, str):
                found.add(f"{name} {value}")
            elif name in GIVEN.split():
                found.add(
                    f"{name} by column" if name == "history" and isinstance(value, dict) else name
                )
            if isinstance(value, dict):
                add(value)

    for step in program["steps"]:
        found.add(f"step {step['do']}")
        add(step)
    return found


def main() -> None:
    single: Counter[str] = Counter()
    both: Counter[tuple[str, str]] = Counter()
    for seed in range(int(sys.argv[1])):
        found = sorted(features(make(seed, processes=2 if seed % 8 == 0 else 1)))
        single.update(found)
        both.update(combinations(found, 2))
    none = [pair for pair in combinations(sorted(single), 2) if not both[pair]]
    print(f"{len(single)} features, {len(both)} pairs, {len(none)} in no program")
    print(*(f"{single[name]:6} {name}" for name in sorted(single)), sep="\n")
    print(*(f"none: {one} + {other}" for one, other in none), sep="\n")


if __name__ == "__main__":
    main()
