"""Statistics of shards: what each node tells, and their sums."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from backcast.errors import NotFoundError
from backcast.ray._node_calls import NodeDownError, arriving

if TYPE_CHECKING:
    from collections.abc import Iterable

    from backcast.ray._node_calls import NodeCalls
    from backcast.ray._sampler import ShardSampler
    from backcast.ray._spec import Spec

_SUMS = ("transitions", "rows_published", "bytes_allocated", "writers", "writers_waiting")


@dataclass
class Last:
    """Rows of each shard at the last statistics, for rates."""

    time_s: float
    rows: dict[int, tuple[str, int]] = field(default_factory=dict)
    """Generation of each ring, and its rows."""


def merged(
    spec: Spec,
    calls: NodeCalls,
    samplers: list[dict[str, Any]],
    last: Last | None,
    timeout_s: float,
) -> tuple[dict[str, Any], Last]:
    """Ask all nodes, and put their answers together; those that do not answer are left out.

    Parameters
    ----------
    spec : Spec
        Name and places of the shards.
    calls : NodeCalls
        Calls to them.
    samplers : list of dict
        Statistics of this handle's open samplers.
    last : Last or None
        Rows at an earlier call, which returned them.
    timeout_s : float
        Seconds to wait for the nodes.

    Raises
    ------
    BackcastError
        As a node raised, other than NotFoundError for a ring that is not there yet.
    """
    count = len(spec.places)
    told = _told(calls, count, timeout_s)
    now = Last(time.monotonic())
    shards = []
    for number in range(count):
        answer = told.get(number)
        shown: dict[str, Any] = {
            "number": number,
            "place": str(spec.places[number]),
            "ring": spec.ring_name(number),
            "answers": answer is not None,
            "status": _status(samplers, number, answer is not None),
            "rows_per_s": None,
        }
        if answer is not None:
            shown |= answer
            rows = now.rows[number] = answer["generation"], answer["rows_published"]
            before = None if last is None else last.rows.get(number)
            if last is not None and before is not None and before[0] == rows[0]:
                seconds = max(now.time_s - last.time_s, 1e-9)
                shown["rows_per_s"] = (rows[1] - before[1]) / seconds
        shards.append(shown)
    there = [shard for shard in shards if shard["answers"]]
    rates = [rate for shard in there if (rate := shard["rows_per_s"]) is not None]
    sums: dict[str, Any] = {key: sum(shard[key] for shard in there) for key in _SUMS}
    return {
        "name": spec.name,
        **sums,
        "rows_per_s": sum(rates) if rates else None,
        "active": sum(shard["status"] == "active" for shard in shards),
        "suspended": [shard["number"] for shard in shards if shard["status"] == "suspended"],
        "lost": [shard["number"] for shard in shards if shard["status"] == "lost"],
        "limiter": next((one["limiter"] for one in samplers if one["limiter"]), None),
        "samplers": samplers,
        "shards": shards,
    }, now


def counts_of(samplers: Iterable[ShardSampler]) -> dict[str, Any] | None:
    """Return the limiter's counts of an open sampler, without waiting for its draw."""
    counts = (sampler._limits.counts() for sampler in list(samplers) if not sampler.closed)
    return next((known for known in counts if known is not None), None)


def _status(samplers: list[dict[str, Any]], number: int, answers: bool) -> str:
    """Return what a sampler says of a shard; without one, whether it answers."""
    for sampler in samplers:
        return str(sampler["shards"][number]["status"])
    return "active" if answers else "suspended"


def _told(calls: NodeCalls, count: int, timeout_s: float) -> dict[int, dict[str, Any]]:
    asked = {k: calls.send(k, "call", "stats.look") for k in range(count)}
    found: dict[int, dict[str, Any]] = {}
    for number, call in arriving(calls, asked, timeout_s):
        # A shard that has no ring has nothing to tell either.
        with suppress(NodeDownError, NotFoundError):
            found[number] = calls.answer(call)
    return found
