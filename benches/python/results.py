"""Results as JSON lines, one per workload, metric and contender, with machine and build."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any, Final, TextIO

MANY: Final = 500
"""Least number of runs for which a 99th percentile is given."""
ROOT = Path(__file__).resolve().parents[2]
LATEST = ROOT / "benches" / "results" / "latest.jsonl"


def machine() -> dict[str, Any]:
    """Describe the machine and the build that a figure was measured on."""
    return {
        "commit": commit(),
        "cpu": cpu(),
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "load": round(os.getloadavg()[0], 2),
        "versions": {
            "python": platform.python_version(),
            **{
                name: version(name)
                for name in ("backcast", "numpy", "cpprb", "stable-baselines3", "torch")
            },
        },
        "command": " ".join(["python", Path(sys.argv[0]).name, *sys.argv[1:]]),
    }


def commit() -> str:
    """Name the commit, with a plus if tracked files differ from it."""
    git = ["git", "-C", str(ROOT)]
    described = subprocess.run(
        [*git, "describe", "--always", "--dirty=+"], capture_output=True, text=True, check=False
    )
    return described.stdout.strip() or "unknown"


def cpu() -> str:
    """Name the processor's model."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            names = (line.split(":", 1)[1] for line in lines if line.startswith("model name"))
            return next(names, platform.processor()).strip()
    except OSError:
        return platform.processor()


def version(name: str) -> str | None:
    """Look up the version of a distribution, if it is installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def lines(
    workload: str, metric: str, unit: str, figures: Iterable[tuple[str, list[float]]], thread: str
) -> list[dict[str, Any]]:
    """Make an entry per contender. The ratio of the best is 1, that of one half as good is 0.5."""
    figures = list(figures)
    larger = unit.endswith("/s")
    medians = [statistics.median(runs) for _, runs in figures]
    best = max(medians) if larger else min(medians)
    return [
        {
            "workload": workload,
            "metric": metric,
            "unit": unit,
            "contender": contender,
            "median": median,
            "min": min(runs),
            "max": max(runs),
            **({"p99": statistics.quantiles(runs, n=100)[98]} if len(runs) >= MANY else {}),
            "runs": len(runs),
            "ratio": median / best if larger else best / median,
            "thread": thread,
        }
        for (contender, runs), median in zip(figures, medians, strict=True)
    ]


def append(
    entries: Iterable[dict[str, Any]], path: Path = LATEST, command: str | None = None
) -> None:
    """Add entries to a file, by default that of this run. `command` replaces the command line."""
    where = machine()
    if command is not None:
        where["command"] = command
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        for entry in entries:
            file.write(json.dumps({**entry, **where}) + "\n")


def table(entries: Iterable[dict[str, Any]], to: TextIO = sys.stdout) -> None:
    """Print entries as tables."""
    shown = None
    for entry in entries:
        if shown != (entry["workload"], entry["metric"]):
            shown = entry["workload"], entry["metric"]
            print(f"\n{shown[0]}: {shown[1]} [{entry['unit']}]", file=to)
        figures = " ".join(f"{entry[key]:>14,.4g}" for key in ("median", "min", "max"))
        print(f"  {entry['contender']:<34}{figures}   x {entry['ratio']:.2f}", file=to)
