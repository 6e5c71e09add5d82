"""Words and sentences from the frames of `backcast --json top`. No input, no output."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Frame = dict[str, Any]
Row = dict[str, Any]


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


def writers(lanes: list[Row]) -> str:
    """Return how many lanes have a writer."""
    return f"{sum(lane['held'] for lane in lanes)} of {len(lanes)}"


def has_daemon(frame: Frame) -> bool:
    """Return whether a daemon serves the directory: it has a budget."""
    return any(limit["name"] == "budget" for limit in frame["limits"])


def totals(frame: Frame) -> dict[str, str]:
    """Return what is shown first, by title."""

    def total(key: str) -> float:
        return sum(ring[key] or 0 for ring in frame["rings"])

    found = {
        "Rings": str(len(frame["rings"])),
        "Rows/s": f"{total('publish_rate_per_s'):,.0f}",
        "Drawn/s": f"{total('sample_rate_per_s'):,.0f}",
        "Daemon": "runs" if has_daemon(frame) else "none",
    }
    return found | {
        one["name"]: f"{size(one['used_bytes'])} of {size(one['limit_bytes'])}"
        for one in frame["limits"]
    }


def quotes(frame: Row) -> str:
    """Return the best prices of a simulated market."""
    bid, ask = (frame[f"best_{side}"] or float("nan") for side in ("bid", "ask"))
    tick, last = frame["tick"], frame["last_price"]
    return f"tick {tick:,} · bid {bid:,.2f} · ask {ask:,.2f} · last {last:,.2f}"


def facts(ring: Row) -> str:
    """Return the numbers of a ring that no chart shows."""
    unsaved = ring["persist_behind_rows"]
    saved = "not saved by itself" if unsaved is None else f"{unsaved:,} rows unsaved"
    return (
        f"{ring['state']} · {ring['fill']:.0%} full: {ring['rows']:,} of "
        f"{ring['capacity_rows']:,} rows · {ring['transitions']:,} transitions · writers "
        f"{writers(ring['lanes'])} · readers {ring['readers']} · leases {ring['pins']} · oldest "
        f"row {age(ring['oldest_row_age_s'])} · {saved} · {size(ring['allocated_bytes'])}"
    )


def changes(before: Frame | None, now: Frame) -> Iterable[str]:
    """Yield sentences on what vanished or came between two frames."""
    if before is None:
        return
    for kind, key in (("ring", "rings"), ("parameters", "params")):
        left = {one["name"] for one in now[key]}
        gone = (one["name"] for one in before[key] if one["name"] not in left)
        yield from (f"{kind} `{name}` is no longer in memory" for name in gone)
    if has_daemon(before) != has_daemon(now):
        ended = "the daemon ended: nothing is saved by itself until `backcast serve` runs again"
        yield "a daemon runs" if has_daemon(now) else ended


def troubles(kind: str, one: Row) -> Iterable[str]:
    """Yield sentences on what does not work at an object, and on who waits for whom."""
    named = f"{kind} `{one['name']}`"
    if one["error"]:
        yield f"{named} is {one['state']}: {one['error']}"
    if one.get("persist_error"):
        yield f"rows of {named} cannot be saved: {one['persist_error']}"
    for table in one.get("unreadable_tables", ()):
        yield f"table `{table['table']}` of {named} is {table['state']}: {table['problem']}"
    yield from (f"{named}: {wait}" for wait in one.get("waits", ()))


def all_troubles(frame: Frame) -> Iterable[str]:
    """Yield the troubles of all objects, and the fleets that do not report."""
    for kind, key in (("ring", "rings"), ("parameters", "params")):
        for one in frame[key]:
            yield from troubles(kind, one)
    for fleet in frame["fleets"]:
        late_s = (frame["at_unix_ns"] - fleet["updated_unix_ns"]) / 1e9
        # Its parent writes two reports a second.
        if late_s >= 5:
            yield f"fleet `{fleet['name']}` has not reported for {age(late_s)}"
    if not frame["rings"] and not frame["params"]:
        yield "there are no rings yet"
