"""Write the latest results into docs/benchmarks.md, between its two marks.

python benches/python/report.py [--check]

With --check nothing is written: it fails if the page tells other figures than the results.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator
from typing import Any

import results

PAGE = results.ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- results: begin -->\n", "<!-- results: end -->\n"


def figure(entry: dict[str, Any], key: str) -> str:
    """Format a figure with three digits that count."""
    value = entry[key]
    for limit, letter in ((1e6, " M"), (1e3, " k")):
        if value >= limit:
            return f"{value / limit:.3g}{letter}"
    return f"{value:.3g}"


def tables(entries: list[dict[str, Any]]) -> Iterator[str]:
    """Write a table per workload and thread."""
    first = entries[0]
    versions = ", ".join(f"{name} {of}" for name, of in first["versions"].items() if of)
    yield (
        f"Commit {first['commit']}, {first['cpu']}, {first['cores']} cores, Linux "
        f"{first['kernel']}, {versions}. Load when measured: {loads(entries)}.\n"
    )
    for (workload, thread), of in itertools.groupby(
        entries, lambda entry: (entry["workload"], entry["thread"])
    ):
        where = ", in a side thread" if thread == "side" else ""
        yield f"\n### {workload}{where}\n\n"
        yield "| metric | contender | median | from | to | of the best |\n"
        yield "| --- | --- | --- | --- | --- | --- |\n"
        for entry in of:
            cells = [f"{entry['metric']}, {entry['unit']}", entry["contender"]]
            cells += [figure(entry, key) for key in ("median", "min", "max")]
            if "p99" in entry:
                cells[-1] += f", p99 {figure(entry, 'p99')}"
            yield f"| {' | '.join(cells)} | {entry['ratio']:.2f} |\n"


def loads(entries: list[dict[str, Any]]) -> str:
    """Name the least and the largest load average."""
    of = [entry["load"] for entry in entries]
    return f"{min(of)} to {max(of)}"


def main() -> None:
    """Compare or write."""
    entries = [json.loads(line) for line in results.LATEST.read_text().splitlines()]
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    new = before + BEGIN + "".join(tables(entries)) + END + after
    if "--check" not in sys.argv:
        PAGE.write_text(new, encoding="utf-8")
    elif new != page:
        sys.exit(f"{PAGE} differs from {results.LATEST}; run python benches/python/report.py")


if __name__ == "__main__":
    main()
