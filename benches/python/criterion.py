"""Take what criterion measured into the results of this run.

python benches/python/criterion.py [FOLDER], after `cargo bench`; FOLDER is target/criterion.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import results


def runs(folder: Path) -> list[float]:
    """Nanoseconds per iteration of every sample of a benchmark."""
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


def main(root: Path) -> None:
    """Read, print and keep."""
    found = groups(root)
    if not found:
        sys.exit(f"{root} holds no benchmark; run `cargo bench -p backcast-benches` first")
    entries = [
        entry
        for group, contenders in found.items()
        for entry in results.lines("rust", group, "ns", contenders.items(), "main")
    ]
    results.table(entries)
    results.append(entries)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else results.ROOT / "target" / "criterion")
