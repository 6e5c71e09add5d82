"""Write results into docs/benchmarks.md, each file's between two marks that name it.

python benches/python/report.py [--check]

With --check nothing is written: it fails if the page tells other figures than the results.
"""

from __future__ import annotations

import itertools
import json
import re
import sys
from collections.abc import Iterator
from typing import Any

import results

PAGE = results.ROOT / "docs" / "benchmarks.md"
BLOCK = re.compile(r"(<!-- results: (\w+) -->\n).*?(<!-- end of results -->\n)", re.DOTALL)


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


def block(marks: re.Match[str]) -> str:
    """Write what belongs between two marks."""
    begin, name, end = marks.groups()
    lines = results.LATEST.with_name(f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return begin + "".join(tables([json.loads(line) for line in lines])) + end


def main() -> None:
    """Compare or write."""
    page = PAGE.read_text(encoding="utf-8")
    new, blocks = BLOCK.subn(block, page)
    if not blocks:
        sys.exit(f"{PAGE} has no marks like <!-- results: latest -->, where results would go")
    if "--check" not in sys.argv:
        PAGE.write_text(new, encoding="utf-8")
    elif new != page:
        where = results.LATEST.parent
        sys.exit(f"{PAGE} differs from {where}; run python benches/python/report.py")


if __name__ == "__main__":
    main()
