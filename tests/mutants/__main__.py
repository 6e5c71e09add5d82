"""Puts mistakes into the code, one at a time, and prints those that no test notices.

``python -m mutants core backcast.fleet --sample 20 --seed 7``: 20 mutants of the crate ``core`` and
20 of the module ``backcast.fleet``. Writes ``out/mutants/results.jsonl``, and nothing else in the
repository. Ends with status 1 if a mutant was missed.
"""

from __future__ import annotations

import argparse
import random
import re
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import python_mutants, rust_mutants

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cosmic_ray.work_item import MutationSpec

    from .outcome import Outcome

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "out" / "mutants"
MODULES = ["fleet", "sb3", "cleanrl", "torch", "envs"]
PARTS = ["core", "sim", "gym", "persist", *(f"backcast.{name}" for name in MODULES)]


def main() -> int:
    """Run the mutants that the arguments choose."""
    options = arguments()
    # Ends by an exception, so that tests that run are ended too.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    OUT.mkdir(parents=True, exist_ok=True)
    changed = None if options.since is None else changed_lines(options.since)
    crates: list[tuple[str, Any]] = []
    modules: list[tuple[str, Any]] = []
    for part in options.parts:
        in_python = part in python_mutants.TESTS
        if not in_python:
            rust_mutants.check()
        tool = python_mutants if in_python else rust_mutants
        found = [(part, one) for one in tool.mutants(ROOT, part)]
        if changed is not None:
            found = [(part, one) for part, one in found if place(one) in changed]
        (modules if in_python else crates).extend(found)
        print(f"{part}: {len(found)} mutants", flush=True)
    dice = random.Random(options.seed)
    crates, modules = (
        few if options.sample is None else dice.sample(few, min(options.sample, len(few)))
        for few in (crates, modules)
    )
    with (OUT / "results.jsonl").open("w") as file:
        outcomes = []
        for outcome in results(crates, modules):
            outcomes.append(outcome)
            file.write(outcome.line_of_json() + "\n")
            file.flush()
            print(
                f"{outcome.verdict:8} {outcome.file}:{outcome.line}: {outcome.mutation}", flush=True
            )
    return report(outcomes)


def results(crates: list[tuple[str, Any]], modules: list[tuple[str, Any]]) -> Iterable[Outcome]:
    """Yield the outcomes of both tools."""
    if modules:
        yield from python_mutants.run(ROOT, modules, OUT)
    if crates:
        yield from rust_mutants.run(ROOT, crates, OUT)


def arguments() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__)
    known = ", ".join(python_mutants.TESTS)
    parser.add_argument("parts", nargs="*", default=PARTS, help=f"folders of crates, or {known}")
    parser.add_argument("--since", metavar="REV", help="only lines that changed since a revision")
    parser.add_argument("--sample", type=int, metavar="N", help="N mutants of Rust, N of Python")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample")
    return parser.parse_args()


def changed_lines(revision: str) -> set[tuple[str, int]]:
    """Return the lines, as (file, number), that differ from a revision."""
    command = ["git", "diff", "--unified=0", "--no-color", revision]
    diff = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    lines: set[tuple[str, int]] = set()
    file = ""
    for text in diff.splitlines():
        if text.startswith("+++ b/"):
            file = text.removeprefix("+++ b/")
        elif hunk := re.match(r"@@ \S+ \+(\d+)(?:,(\d+))? @@", text):
            first, count = int(hunk[1]), int(hunk[2] or 1)
            lines |= {(file, line) for line in range(first, first + count)}
    return lines


def place(mutant: dict[str, Any] | MutationSpec) -> tuple[str, int]:
    """Return the file and the line of a mutant of either tool."""
    if isinstance(mutant, dict):
        return mutant["file"], mutant["span"]["start"]["line"]
    return str(mutant.module_path), mutant.start_pos[0]


def report(outcomes: list[Outcome]) -> int:
    """Print a table of the parts, and what was missed. Return the exit status."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for outcome in outcomes:
        counts[outcome.part][outcome.verdict] += 1
    print(f"\n{'part':12} {'noticed':>8} {'hung':>6} {'missed':>7} {'share':>7}")
    for part, of in [*counts.items(), ("all", sum(counts.values(), Counter()))]:
        seen, ran = of["noticed"] + of["hung"], of["noticed"] + of["hung"] + of["missed"]
        share = f"{seen / ran:7.1%}" if ran else "      -"
        print(f"{part:12} {of['noticed']:8} {of['hung']:6} {of['missed']:7} {share}")
    missed = [outcome for outcome in outcomes if outcome.verdict == "missed"]
    for outcome in missed:
        print(f"missed: {outcome.words()}")
    return bool(missed)


if __name__ == "__main__":
    raise SystemExit(main())
