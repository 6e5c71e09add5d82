"""Add the results of `cargo bench` to the results of this run.

python benches/python/criterion.py [FOLDER]

Run it after `cargo bench`. FOLDER is Cargo's target folder by default. Criterion leaves a folder
per benchmark there; benchmarks without Criterion append a line per contender to measured.jsonl.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import results


def runs(folder: Path) -> list[float]:
    """Read the nanoseconds per iteration of every sample of a benchmark."""
    sample = json.loads((folder / "sample.json").read_text())
    return [time / count for time, count in zip(sample["times"], sample["iters"], strict=True)]


def groups(root: Path) -> dict[str, dict[str, list[float]]]:
    """Collect the samples of every contender of every group."""
    found: dict[str, dict[str, list[float]]] = {}
    for described in sorted(root.glob("**/new/benchmark.json")):
        names = json.loads(described.read_text())
        group = found.setdefault(names["group_id"], {})
        group[names["function_id"] or names["value_str"]] = runs(described.parent)
    return found


def measured(file: Path) -> dict[tuple[str, str], dict[str, list[float]]]:
    """Collect the runs of each contender of benchmarks without Criterion, by metric and unit."""
    found: dict[tuple[str, str], dict[str, list[float]]] = {}
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        entry = json.loads(line)
        contenders = found.setdefault((entry["metric"], entry["unit"]), {})
        contenders[entry["contender"]] = entry["runs"]
    return found


def main(target: Path) -> None:
    """Read the results, print them and add them to the file of this run."""
    timed = {(group, "ns"): of for group, of in groups(target / "criterion").items()}
    found = timed | measured(target / "measured.jsonl")
    if not found:
        sys.exit(f"{target} holds no benchmark; run `cargo bench -p backcast-benches` first")
    entries = [
        entry
        for (metric, unit), contenders in found.items()
        for entry in results.lines("rust", metric, unit, contenders.items(), "main")
    ]
    results.table(entries)
    results.append(entries)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else results.ROOT / "target")
