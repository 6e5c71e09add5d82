"""Write the results of benchmarks into the pages that show them, between two marks.

python benches/python/report.py [--check]

The first mark names a file of results: `results: NAME` for all figures of a file,
`results: NAME/SUBJECT` for those of one subject, and `summary: NAME` for a short table.
`faster: NAME` is for a table of how many times as fast as each peer Backcast is. With --check the
program writes nothing, and fails if a page shows other figures than the results.
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
from shown import REFILLED, SECOND, SECOND_RUN, SHORT, Elsewhere, Row, subject

MARK = r"<!-- (results|summary|faster): (\w+)(?:/(\w+))? -->\n"
BLOCK = re.compile(rf"({MARK}).*?(<!-- end of results -->\n)", re.DOTALL)
OURS = "backcast"
PACKAGES = {"cpprb": "cpprb", "TorchRL": "torchrl", "Reverb": "dm-reverb"}
"""Distributions whose versions head the columns of peers."""
SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
"""Units of time, and seconds in each."""

Entry = dict[str, Any]


def load(name: str) -> list[Entry]:
    """Read a file of results."""
    lines = results.LATEST.with_name(f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def rounded(value: float) -> str:
    """Format a figure with three significant digits."""
    for limit, letter in ((1e6, " M"), (1e3, " k")):
        if value >= limit:
            return f"{value / limit:.3g}{letter}"
    return f"{value:.3g}"


def amount(value: float, unit: str) -> str:
    """Format a figure with its unit. A time has the largest unit in which it is at least 1."""
    if unit in SECONDS:
        value *= SECONDS[unit]
        fits = [name for name, size in SECONDS.items() if value >= size]
        unit = fits[-1] if fits else "ns"
        value /= SECONDS[unit]
    return f"{rounded(value)} {unit}"


def times(ours: float, theirs: float) -> str:
    """Format a ratio with two significant digits."""
    ratio = ours / theirs
    return f"{float(f'{ratio:.2g}'):,.0f}x" if ratio >= 9.95 else f"{ratio:.2g}x"


def where(entries: list[Entry]) -> str:
    """Describe the machine and the build that the entries were measured on."""
    first = entries[0]
    line = f"Commit {first['commit']}, {first['cpu']}, {first['cores']} cores, "
    line += f"Linux {first['kernel']}"
    if "contender_versions" not in first:
        line += "".join(f", {name} {of}" for name, of in first["versions"].items() if of)
    loads = [entry["load"] for entry in entries]
    line += f". Load when measured: {min(loads)} to {max(loads)}."
    return textwrap.fill(line, 100, break_on_hyphens=False) + "\n"


def tables(entries: list[Entry]) -> Iterator[str]:
    """Write a table per workload and thread."""
    yield where(entries)
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
            cells += [rounded(entry[key]) for key in ("median", "min", "max")]
            if "p99" in entry:
                cells[-1] += f", p99 {rounded(entry['p99'])}"
            yield f"| {' | '.join(cells)} | {entry['ratio']:.2f} |\n"


def versions(entries: list[Entry]) -> Iterator[str]:
    """Write a table of versions and threads, if each contender has an interpreter of its own."""
    if "contender_versions" not in entries[0]:
        return
    yield "\n| contender | versions | threads of its process |\n| --- | --- | --- |\n"
    for contender, entry in plain(entries).items():
        names = ", ".join(f"{name} {of}" for name, of in entry["contender_versions"].items())
        yield f"| {contender} | {names} | {entry['threads']} |\n"


def plain(entries: list[Entry]) -> dict[str, Entry]:
    """Find an entry of each contender, without variants such as "backcast, with next_obs"."""
    return {entry["contender"]: entry for entry in entries if "," not in entry["contender"]}


def summary(name: str, entries: list[Entry]) -> Iterator[str]:
    """Write a row for each pair of contenders that is compared. Ratios below 1 are bold."""
    yield where(entries)
    yield "\n| what | Backcast | compared with | its figure | ratio |\n"
    yield "| --- | --- | --- | --- | --- |\n"
    main = [entry for entry in entries if entry["thread"] == "main"]
    found = {(entry["workload"], entry["metric"], entry["contender"]): entry for entry in main}
    for row in SHORT.get(name) or pairs(main):
        ours = found.get((row.workload, row.metric, row.ours))
        theirs = found.get((row.workload, row.metric, row.theirs))
        if ours is None or (row.theirs and theirs is None):
            continue
        cells = [row.name or row.metric, amount(ours["median"], ours["unit"])]
        cells += compared(row, ours, theirs) if theirs else ["", "", ""]
        yield f"| {' | '.join(cells)} |\n"


def compared(row: Row, ours: Entry, theirs: Entry) -> list[str]:
    """Write the cells of the other contender, and how many times as fast or small Backcast is."""
    unit, best = ours["unit"], (ours["median"], theirs["median"])
    ratio = times(*best) if unit.endswith("/s") else times(*reversed(best))
    figure = amount(theirs["median"], unit)
    return [
        row.their_name or row.theirs,
        figure,
        f"**{ratio}**" if ratio.startswith("0") else ratio,
    ]


def pairs(entries: list[Entry]) -> Iterator[Row]:
    """Pair Backcast with the other contender of each metric."""
    for (workload, metric), of in itertools.groupby(
        entries, lambda entry: (entry["workload"], entry["metric"])
    ):
        names = [entry["contender"] for entry in of]
        [ours] = [name for name in names if name.startswith(OURS)]
        [theirs] = [name for name in names if name != ours]
        yield Row(workload, metric, theirs, ours, f"{metric}: {workload}")


def machine(entries: list[Entry]) -> str:
    """Name the processor's product line in a word."""
    cpu = str(entries[0]["cpu"])
    found = re.search(r"EPYC|Xeon|Ryzen|Core", cpu)
    return found[0] if found else cpu


def medians(entries: list[Entry], of: Elsewhere) -> dict[str, float]:
    """Find the medians of a metric in a whole run, by the names that the peers' file uses."""
    found = {
        entry["contender"]: entry["median"]
        for entry in entries
        if (entry["workload"], entry["metric"], entry["thread"]) == (of.workload, of.metric, "main")
    }
    names = {OURS: OURS} | of.names
    return {name: found[theirs] for name, theirs in names.items() if theirs in found}


def faster(entries: list[Entry]) -> Iterator[str]:
    """Write how many times as fast Backcast is as each peer, a row for each metric.

    Peers that were measured on a second machine as well have both ratios in a cell.
    """
    second = load(SECOND_RUN)
    first = {
        metric: {entry["contender"]: entry["median"] for entry in of}
        for metric, of in itertools.groupby(entries, lambda entry: entry["metric"])
    }
    peers = [name for name in plain(entries) if name != OURS]
    both = {name for of in SECOND.values() for name in of.names}
    here, there = machine(entries), machine(second)
    heads = [
        f"{head(name, entries)}, {here}{f' / {there}' if name in both else ''}" for name in peers
    ]
    yield f"\n| times as fast as | {' | '.join(heads)} |\n"
    yield f"| --- |{' --- |' * len(peers)}\n"
    for metric, found in first.items():
        yield line(metric, peers, [found, *measured(second, SECOND.get(metric))])
        name, of = REFILLED
        if metric == name and (whole := load("latest"))[0]["cpu"] == entries[0]["cpu"]:
            yield line(of.metric, peers, [medians(whole, of), medians(second, of)])
    torn = {entry["contender"]: entry["torn"] for entry in entries if "torn" in entry}
    if some := ", ".join(f"{name} {rows:,}" for name, rows in torn.items() if rows):
        yield f"\nRows drawn half overwritten beside the writer: {some}; the others none.\n"


def measured(entries: list[Entry], of: Elsewhere | None) -> list[dict[str, float]]:
    """List the medians of the second machine, if it has the metric."""
    return [medians(entries, of)] if of else []


def line(metric: str, peers: list[str], machines: list[dict[str, float]]) -> str:
    """Write a row of ratios; a dash where a peer has no such call."""
    cells = [
        " / ".join(times(of[OURS], of[name]) for of in machines if name in of) for name in peers
    ]
    return f"| {metric} | {' | '.join(cell or '—' for cell in cells)} |\n"


def head(peer: str, entries: list[Entry]) -> str:
    """Name a peer and its version."""
    version = plain(entries)[peer]["contender_versions"].get(PACKAGES.get(peer, ""))
    return f"{peer} {version}" if version else peer


def block(marks: re.Match[str]) -> str:
    """Write what belongs between two marks."""
    begin, kind, name, about, end = marks.groups()
    entries = load(name)
    if about:
        entries = [e for e in entries if subject(e["workload"], e["metric"]) == about]
        if not entries:
            sys.exit(f"{name}.jsonl has nothing about {about}; remove the mark {begin.strip()}")
    if kind == "summary":
        written = summary(name, entries)
    else:
        written = faster(entries) if kind == "faster" else tables(entries)
    return begin + "".join(written) + end


def main() -> None:
    """Write the results into every page, or compare them with `--check`."""
    for path in [results.ROOT / "README.md", *sorted((results.ROOT / "docs").rglob("*.md"))]:
        page = path.read_text(encoding="utf-8")
        new = BLOCK.sub(block, page)
        if new == page:
            continue
        if "--check" not in sys.argv:
            path.write_text(new, encoding="utf-8")
        else:
            kept = results.LATEST.parent
            sys.exit(f"{path} differs from {kept}; run python benches/python/report.py")


if __name__ == "__main__":
    main()
