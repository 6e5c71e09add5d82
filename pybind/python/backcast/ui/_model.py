"""Words and sentences from the frames of `backcast --json top`. No input, no output."""

from __future__ import annotations

from typing import Any

Frame = dict[str, Any]
Row = dict[str, Any]


def scaled(number: float) -> str:
    """Return a number with three significant digits, such as 12.3k."""
    for unit in ("", "k", "M"):
        if abs(number) < 999.5:
            return f"{number:.3g}{unit}"
        number /= 1e3
    return f"{number:,.3g}G"


def size(count: float) -> str:
    """Return bytes in the largest fitting unit."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:,.4g} TiB"


def age(seconds: float | None) -> str:
    """Return a duration in its largest unit, or a dash."""
    if seconds is None:
        return "-"
    for span, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= span:
            return f"{seconds / span:.1f} {unit}"
    return f"{seconds:.1f} s"


def lanes_in_words(ring: Row) -> str:
    """Return how many lanes have a writer."""
    return f"{sum(lane['held'] for lane in ring['lanes'])} of {len(ring['lanes'])}"


def age_bins(ring: Row) -> list[tuple[int, int]]:
    """Return the rows that readers have drawn, by the smallest age of their bin."""
    sums: dict[int, int] = {}
    for reader in ring["reader_ages"]:
        for entry in reader["ages"]:
            sums[entry["from"]] = sums.get(entry["from"], 0) + entry["rows"]
    return sorted(sums.items())


def waits_in_words(ring: Row) -> str:
    """Return what processes wait for."""
    waits = [
        f"{ring['limited_writers']} append" if ring["limited_writers"] else "",
        f"{ring['limited_samplers']} draw" if ring["limited_samplers"] else "",
        "rows" if ring["rows_awaited"] else "",
        "lease" if ring["release_awaited"] else "",
    ]
    return ", ".join(filter(None, waits)) or "-"


def lag_in_words(ring: Row) -> str:
    """Return what is not on disk yet; a dash of a ring that is not saved by itself."""
    behind = ring["persist_behind_rows"]
    if ring["persist_error"]:
        return "failing"
    if behind is None:
        return "-"
    return "0" if not behind else f"{scaled(behind)}, {age(ring['persist_behind_s'])}"


def policy_age_in_words(fleet: Row) -> str:
    """Return how old the policy is that actors act with."""
    versions = fleet["policy_age_versions"]
    if versions is None:
        return "-"
    seconds = fleet["policy_age_s"]
    return f"{versions:.1f} versions" + ("" if seconds is None else f", {age(seconds)}")


def limit_in_words(limit: Row) -> str:
    """Return how much of a limit is used."""
    return f"{limit['name']}: {size(limit['used_bytes'])} of {size(limit['limit_bytes'])}"


def has_daemon(frame: Frame) -> bool:
    """Return whether a daemon serves the directory: it has a budget."""
    return any(limit["name"] == "budget" for limit in frame["limits"])


def changes(before: Frame | None, now: Frame) -> list[str]:
    """Return sentences on what vanished or came between two frames."""
    if before is None:
        return []
    said = []
    for kind, key in (("ring", "rings"), ("parameters", "params")):
        left = {one["name"] for one in now[key]}
        gone = [one["name"] for one in before[key] if one["name"] not in left]
        said += [f"{kind} `{name}` is no longer in memory" for name in gone]
    if has_daemon(before) != has_daemon(now):
        ended = "the daemon ended: nothing is saved by itself until `backcast serve` runs again"
        said.append("a daemon runs" if has_daemon(now) else ended)
    return said


def problems(frame: Frame) -> list[str]:
    """Return sentences on what does not work: objects, saving, reports of fleets."""
    said = []
    for kind, key in (("ring", "rings"), ("parameters", "params")):
        for one in frame[key]:
            if one["error"]:
                said.append(f"{kind} `{one['name']}` is {one['state']}: {one['error']}")
            if one.get("persist_error"):
                said.append(
                    f"rows of {kind} `{one['name']}` cannot be saved: {one['persist_error']}"
                )
    for fleet in frame["fleets"]:
        late_s = (frame["at_unix_ns"] - fleet["updated_unix_ns"]) / 1e9
        # Its parent writes two reports a second.
        if late_s >= 5:
            said.append(f"fleet `{fleet['name']}` has not reported for {age(late_s)}")
    return said
