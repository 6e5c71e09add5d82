"""Write results into the pages that show them, each file's between two marks that name it.

python benches/python/report.py [--check]

`results: NAME` marks all figures of a file; `faster: NAME` marks a table of how many times as fast
as each peer Backcast is. With --check nothing is written: it fails if a page tells other figures
than the results.
"""

from __future__ import annotations

import itertools
import json
import re
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

import results

PAGES = [
    results.ROOT / "docs" / "benchmarks.md",
    results.ROOT / "docs" / "when-it-helps.md",
    results.ROOT / "README.md",
]
BLOCK = re.compile(r"(<!-- (results|faster): (\w+) -->\n).*?(<!-- end of results -->\n)", re.DOTALL)
OURS = "backcast"
PACKAGES = {"cpprb": "cpprb", "TorchRL": "torchrl", "Reverb": "dm-reverb"}
"""Distributions whose versions head the columns of peers."""

Entry = dict[str, Any]


def figure(entry: Entry, key: str) -> str:
    """Format a figure with three digits that count."""
    value = entry[key]
    for limit, letter in ((1e6, " M"), (1e3, " k")):
        if value >= limit:
            return f"{value / limit:.3g}{letter}"
    return f"{value:.3g}"


def tables(entries: list[Entry]) -> Iterator[str]:
    """Write a table per workload and thread."""
    yield (
        textwrap.fill(
            f"{where(entries)}. Load when measured: {loads(entries)}.", 100, break_on_hyphens=False
        )
        + "\n"
    )
    yield from versions(entries)
    for (workload, thread), of in itertools.groupby(
        entries, lambda entry: (entry["workload"], entry["thread"])
    ):
        side = ", in a side thread" if thread == "side" else ""
        yield f"\n### {workload}{side}\n\n"
        yield "| metric | contender | median | from | to | of the best |\n"
        yield "| --- | --- | --- | --- | --- | --- |\n"
        for entry in of:
            cells = [f"{entry['metric']}, {entry['unit']}", entry["contender"]]
            cells += [figure(entry, key) for key in ("median", "min", "max")]
            if "p99" in entry:
                cells[-1] += f", p99 {figure(entry, 'p99')}"
            yield f"| {' | '.join(cells)} | {entry['ratio']:.2f} |\n"


def where(entries: list[Entry]) -> str:
    """Describe the machine and the build that the entries were measured on."""
    first = entries[0]
    line = f"Commit {first['commit']}, {first['cpu']}, {first['cores']} cores, "
    line += f"Linux {first['kernel']}"
    if "contender_versions" not in first:
        line += "".join(f", {name} {of}" for name, of in first["versions"].items() if of)
    return line


def versions(entries: list[Entry]) -> Iterator[str]:
    """Write a table of the versions and threads of contenders with an interpreter each."""
    if "contender_versions" not in entries[0]:
        return
    yield "\n| contender | versions | threads of its process |\n| --- | --- | --- |\n"
    for contender, entry in plain(entries).items():
        names = ", ".join(f"{name} {of}" for name, of in entry["contender_versions"].items())
        yield f"| {contender} | {names} | {entry['threads']} |\n"


def plain(entries: list[Entry]) -> dict[str, Entry]:
    """Find an entry of each contender, its variants left out."""
    return {entry["contender"]: entry for entry in entries if "," not in entry["contender"]}


def loads(entries: list[Entry]) -> str:
    """Name the least and the largest load average."""
    of = [entry["load"] for entry in entries]
    return f"{min(of)} to {max(of)}"


def faster(entries: list[Entry]) -> Iterator[str]:
    """Write how many times as fast Backcast is as each peer, a row for each metric."""
    peers = [name for name in plain(entries) if name != OURS]
    heads = [head(name, entries) for name in peers]
    yield f"\n| times as fast as | {' | '.join(heads)} |\n"
    yield f"| --- |{' --- |' * len(peers)}\n"
    for metric, of in itertools.groupby(entries, lambda entry: entry["metric"]):
        medians = {entry["contender"]: entry["median"] for entry in of}
        cells = [times(medians[OURS], medians.get(name)) for name in peers]
        yield f"| {metric} | {' | '.join(cells)} |\n"
    torn = {entry["contender"]: entry["torn"] for entry in entries if "torn" in entry}
    if some := ", ".join(f"{name} {rows:,}" for name, rows in torn.items() if rows):
        yield f"\nRows drawn half overwritten beside the writer: {some}; the others none.\n"


def head(peer: str, entries: list[Entry]) -> str:
    """Name a peer and its version."""
    version = plain(entries)[peer]["contender_versions"].get(PACKAGES.get(peer, ""))
    return f"{peer} {version}" if version else peer


def times(ours: float, theirs: float | None) -> str:
    """Format a ratio with two digits that count; a dash where a peer has no such call."""
    if theirs is None:
        return "—"
    ratio = ours / theirs
    return f"{float(f'{ratio:.2g}'):,.0f}x" if ratio >= 9.95 else f"{ratio:.2g}x"


def block(marks: re.Match[str]) -> str:
    """Write what belongs between two marks."""
    begin, kind, name, end = marks.groups()
    lines = results.LATEST.with_name(f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    write = faster if kind == "faster" else tables
    return begin + "".join(write([json.loads(line) for line in lines])) + end


def main() -> None:
    """Compare or write."""
    for path in PAGES:
        page = path.read_text(encoding="utf-8")
        new, blocks = BLOCK.subn(block, page)
        if not blocks:
            sys.exit(f"{path} has no marks like <!-- results: latest -->, where results would go")
        if "--check" not in sys.argv:
            path.write_text(new, encoding="utf-8")
        elif new != page:
            kept = results.LATEST.parent
            sys.exit(f"{path} differs from {kept}; run python benches/python/report.py")


if __name__ == "__main__":
    main()
