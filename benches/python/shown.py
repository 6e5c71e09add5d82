"""Which results the pages show: subjects of the full tables, rows of the short ones."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

SUBJECTS: Final = {
    "publish": r"rust: publish|w\d [^:]+: append",
    "gather": r"rust: sample 256 (?:transitions|windows)|w[1-4] [^:]+: sample|w5 ",
    "rows": r"rust: sample 256 rows",
    "processes": r"rust: (?:read|look|SIGKILL|wake)",
    "persistence": r"rust: (?:save|load|memory of a save|p99\.9)",
    "portfolios": r"(?:transitions|portfolios|panels): ",
    "market": r"rust: (?:ticks|reset|memory of an environment|steps)",
}
"""Pages of `docs/measurements`, and a pattern of each `workload: metric` that a page shows."""


def subject(workload: str, metric: str) -> str:
    """Find the page that shows a metric."""
    for name, pattern in SUBJECTS.items():
        if re.match(pattern, f"{workload}: {metric}"):
            return name
    raise KeyError(f"{workload}: {metric} belongs to no page; add it to SUBJECTS in {__file__}")


class Row(NamedTuple):
    """Row of a short table: a metric, and the two contenders that the row compares."""

    workload: str
    metric: str
    theirs: str = ""
    """Other contender; if empty, nothing is compared."""
    ours: str = "backcast"
    name: str = ""
    """Name of the metric in the table, if another."""
    their_name: str = ""
    """Name of the other contender in the table, if another."""


def in_c(row_bytes: int, rows: str) -> Row:
    """Make a row that compares draws by Backcast with the same draws in C."""
    ring = f"{rows} rows, 1 lane"
    return Row(
        "rust",
        f"sample 256 rows of {row_bytes} B, and the same in C, a row",
        f"sampler in C of the same draws, {ring}",
        f"backcast, {ring}",
        f"a sampled row of {row_bytes} B, ring of {rows} rows",
        "the same draws in C",
    )


def rust(
    metric: str, theirs: str = "", ours: str = "backcast", name: str = "", their_name: str = ""
) -> Row:
    """Make a row of a metric of the Rust suites."""
    return Row("rust", metric, theirs, ours, name, their_name)


GATHER: Final = "memcpy gather of the same bytes"
INTO: Final = "backcast, into the caller's memory"
TRANSITIONS: Final = "w1 transitions"
STACKS: Final = "w2 stacks of frames"
WINDOWS: Final = "w3 windows"
SHARED: Final = "w5 two processes"
DAYS: Final = "sample 256, 20 + 5 days"

WHOLE_RUN: Final = [
    rust("publish one row of 64 B", "memcpy of its columns"),
    rust("publish one row of 396 B", "memcpy of its columns"),
    rust("publish one row of 700 B", "memcpy of its columns"),
    rust(
        "publish 64 B, against iceoryx2",
        "iceoryx2, 1 subscriber",
        "backcast, ring of 160 MiB",
        "publish 64 B",
    ),
    rust("sample 256 transitions of 732 B out of a million", GATHER, INTO),
    rust("sample 256 transitions of a ring of 1 MiB", GATHER, INTO),
    rust("sample 256 transitions of a ring of 2 GiB", GATHER, INTO),
    rust(
        "sample 256 windows of 20 + 5 transitions out of a million",
        GATHER,
        "backcast, with masks and next_obs",
    ),
    *(in_c(row_bytes, rows) for row_bytes in (64, 396) for rows in ("10 k", "1 M", "20 M")),
    rust(
        "read 256 rows of 396 B of a lane",
        "backcast, validated copy",
        "backcast, lease taken and dropped",
        "lease of 256 rows of 396 B",
        "validated copy of them",
    ),
    rust("save 1 M rows of 701 B", "write + fsync"),
    rust("save 1 M rows of 701 B, of which 1 % are new", "write + fsync of all"),
    rust("load 1 M rows of 701 B", "read into new memory"),
    rust("memory of a save of 1 M rows of 701 B"),
    rust(
        "p99.9 of an append of 701 B every 50 µs",
        "alone",
        "followed",
        "p99.9 of an append every 50 µs while a follower saves",
        "without a follower",
    ),
    rust("SIGKILL of a writer until its lane is adopted"),
    rust("SIGKILL of a leaseholder until its pin is gone"),
    rust(
        "sample 256 transitions, all threads together",
        "backcast, one thread",
        "backcast, two threads",
        "sample 256 transitions in two threads",
        "one thread",
    ),
    rust(
        "publish rows of 396 B, all processes together",
        "backcast, one writer",
        "backcast, two writers",
        "publish rows of 396 B from two processes",
        "one process",
    ),
    rust(
        "sample 256 transitions beside a writer process",
        "backcast, nobody writes",
        "backcast, beside a writer",
        their_name="without a writer",
    ),
    rust("wake a sleeper in another process and be woken by it", "a byte through a pipe and back"),
    Row(TRANSITIONS, "append 1 row", "NumPy ring"),
    Row(TRANSITIONS, "append 1 row", "cpprb"),
    Row(TRANSITIONS, "append 64 rows, 64 environments", "NumPy ring"),
    Row(TRANSITIONS, "append 64 rows, 1 environment", "NumPy ring"),
    Row(TRANSITIONS, "sample 256, fresh arrays", "NumPy ring", name="sample 256 transitions"),
    Row(
        TRANSITIONS,
        "sample 256, into the same arrays",
        "NumPy ring",
        name="sample 256 transitions, into the same arrays",
    ),
    Row(STACKS, "sample 256, fresh arrays", "NumPy ring", name="sample 256 stacks of frames"),
    Row(WINDOWS, "sample 256, fresh arrays", "NumPy ring", name="sample 256 windows of 20 + 5"),
    Row(SHARED, "written", "shared columns", name="written, beside a learner process"),
    Row(SHARED, "sampled", "shared columns", name="sampled, beside a writer process"),
    Row(
        "transitions",
        f"{DAYS}, batched, into the same arrays",
        "memcpy of the same bytes",
        name="market windows of 20 + 5 days, 256 samples",
    ),
    Row(
        "transitions",
        f"{DAYS}, ticker, into the same arrays",
        "memcpy of the same bytes",
        name="market windows of 20 + 5 days, 256 samples, by ticker",
    ),
    Row("portfolios", "step 64, dicts", "numpy", name="step 64 portfolios", their_name="NumPy"),
    Row(
        "portfolios",
        "step 64, 20 days of history, fresh",
        "memcpy",
        name="step 64 portfolios, 20 days of history",
        their_name="memcpy of the history",
    ),
    Row("panels", "load a CSV of 12.2 MB", "NumPy, loadtxt"),
]
"""Rows of the short table of a whole run."""

SHORT: Final = {"latest": WHOLE_RUN, "xeon": WHOLE_RUN}
"""Rows of short tables by file of results. Tables of other files have a row for each metric."""


class Elsewhere(NamedTuple):
    """Metric of a whole run that matches a metric of the peers, and names of its contenders."""

    workload: str
    metric: str
    names: dict[str, str]


RINGS: Final = {"NumPy ring": "NumPy ring", "cpprb": "cpprb"}
COLUMNS: Final = {"NumPy ring": "shared columns", "cpprb": "cpprb"}
SECOND_RUN: Final = "xeon"
"""Name of the file with the whole run on the second machine."""
SECOND: Final = {
    "append 1 transition": Elsewhere(TRANSITIONS, "append 1 row", RINGS),
    "append 64, one of each environment": Elsewhere(
        TRANSITIONS, "append 64 rows, 64 environments", RINGS
    ),
    "sample 256 transitions": Elsewhere(TRANSITIONS, "sample 256, fresh arrays", RINGS),
    "sample 256 stacks of 4 frames, and the next ones": Elsewhere(
        STACKS, "sample 256, fresh arrays", RINGS
    ),
    "sample 256 windows of 20 + 5 steps": Elsewhere(WINDOWS, "sample 256, fresh arrays", RINGS),
    "append 64 at a time, beside the learner": Elsewhere(SHARED, "written", COLUMNS),
    "sample 256, beside the writer": Elsewhere(SHARED, "sampled", COLUMNS),
}
"""Metrics of the peers, and the matching metrics of the whole run on the second machine."""
REFILLED: Final = (
    "sample 256 transitions",
    Elsewhere(TRANSITIONS, "sample 256, into the same arrays", {"NumPy ring": "NumPy ring"}),
)
"""A metric of the peers, and the metric that the table shows below it.

The second one draws into the caller's arrays, which of the peers only the NumPy ring can do.
"""
