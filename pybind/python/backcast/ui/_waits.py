"""Sentences on who waits for whom at a ring, as the errors of those waits say it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

_MOST_NAMED = 8
_LEAST_S = 1.0
"""Seconds from which a wait for a limiter is reported: shorter ones are its work."""


def processes(pids: list[int], nobody: str = "none") -> str:
    """Name at most eight processes, with their commands, and say whether they are stopped."""
    named = [_process(pid) for pid in sorted(set(pids))[:_MOST_NAMED]]
    return f"process{'es' if len(named) > 1 else ''} {', '.join(named)}" if named else nobody


def _process(pid: int) -> str:
    try:
        command, _, rest = Path(f"/proc/{pid}/stat").read_text().partition("(")[2].rpartition(")")
    except (OSError, UnicodeDecodeError):
        return str(pid)
    return f"{pid} ({command}{', stopped' if rest.strip()[:1] in ('T', 't') else ''})"


def sentences(stats: dict[str, Any], ring: dict[str, Any]) -> list[str]:
    """Return a sentence for each wait at a ring.

    Parameters
    ----------
    stats : dict
        Result of ``ReplayBuffer.stats``.
    ring : dict
        The ring in a frame of ``backcast --json top``.
    """
    writers = [lane["pid"] for lane in stats["lane_stats"] if lane["held"] and lane["pid"]]
    said = []
    if limiter := stats["limiter"]:
        late_ms = (time.time() - _LEAST_S) * 1e3
        waiters = (one for one in limiter["waiters"] if one["since_unix_ms"] < late_ms)
        said += [_limited(waiter, limiter, stats, writers) for waiter in waiters]
    if ring["release_awaited"]:
        pins = stats["pins"]
        leases = "; ".join(
            f"lane {pin['lane']} from row {pin['start']} on, by {processes([pin['pid']])}"
            for pin in pins
        )
        said.append(
            f"a writer waits for a lease to end ({leases or 'it ended just now'}); end the lease, "
            "or that process (`kill -CONT PID` if it is stopped)"
        )
    if ring["rows_awaited"]:
        by = f"it is written by {processes(writers)}" if writers else "no process writes the ring"
        said.append(f"a process waits for rows or transitions; {by}")
    return said


def _limited(
    waiter: dict[str, Any], limiter: dict[str, Any], stats: dict[str, Any], writers: list[int]
) -> str:
    waited = f"{time.time() - waiter['since_unix_ms'] / 1e3:.0f} s"
    low, high = limiter["error_band"]
    limits = (
        f"min_size {limiter['min_size']}, samples_per_insert {limiter['samples_per_insert']:g}, "
        f"error band {low:g} to {high:g}"
    )
    wanted, needed = waiter["wanted"], waiter["needed"]
    inserts, samples = limiter["inserts"], limiter["samples"]
    by = f"process {waiter['pid']}"
    if waiter["lane"] is None:
        return (
            f"a draw of {wanted} item(s) by {by} has waited {waited} for writers to insert: after "
            f"{samples} samples it needs {needed} transitions, there are {inserts} ({limits}); "
            f"living writers: {processes(writers)}"
        )
    said = f"the writer of lane {waiter['lane']} ({by}) has waited {waited}"
    goal = f"to insert {wanted} more transition(s) after {inserts} it needs"
    if limiter["ceiling"] is not None and inserts + wanted > limiter["ceiling"]:
        return f"{said} at the insert ceiling {limiter['ceiling']}: {goal} a higher one ({limits})"
    readers = processes([reader["pid"] for reader in stats["readers"] if reader["pid"]])
    needs = f"{goal} {needed} samples, there are {samples} ({limits})"
    return f"{said} for samplers to draw: {needs}; living samplers: {readers}"


def locks(report: dict[str, Any]) -> list[str]:
    """Return a sentence for each table that a process keeps locked, from `backcast --json stat`."""
    locked = [
        f"the table `{found['table']}` is locked by {processes(found['pids'], 'another process')}, "
        "and a change waits for it; let that process go on (`kill -CONT PID` if it is stopped), or "
        "end it"
        for found in report["locked_tables"]
    ]
    return locked + [
        f"the table `{found['table']}` is {found['state']}: {found['problem']}"
        for found in report["unreadable_tables"]
    ]
