"""Statistics of a fleet: rates, the age of the policy, episodes, restarts, waits of the limiter."""

from __future__ import annotations

import bisect
import threading
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypedDict

from backcast.errors import ClosedError
from backcast.fleet._context import MOST_NAMES
from backcast.fleet._signs import LifeSigns

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from backcast import ReplayBuffer
    from backcast.fleet._metrics import Report

_RECENT = 100
"""Episodes, ages and named numbers that means are taken over."""
_RATE_S = 5.0
_MOST_VERSIONS = 20_000


class ActorStats(TypedDict):
    """One actor, at one moment."""

    rank: int
    pid: int | None
    state: str
    restarts: int
    episodes: int
    version: int | None
    since_report_s: float | None
    last_error: str | None


class NumberStats(TypedDict):
    """A number that actors report by name, all of them together."""

    last: float
    """The newest one that was read."""
    mean: float
    """Mean of the newest 100."""
    count: int


class FleetStats(TypedDict):
    """All actors and the learner, at one moment."""

    seconds: float
    running: int
    restarts: int
    rows: int | None
    rows_per_s: float | None
    updates: int
    updates_per_s: float
    samples_per_insert: float | None
    policy_version: int | None
    policy_age_versions: float | None
    policy_age_s: float | None
    episodes: int
    return_mean: float | None
    return_last: float | None
    length_mean: float | None
    numbers: dict[str, NumberStats]
    missed_reports: int
    limiter: dict[str, Any] | None
    actors: list[ActorStats]


class Published:
    """Versions of the policy and when the learner published them."""

    def __init__(self) -> None:
        self._times: list[float] = []
        self._versions: list[int] = []

    @property
    def newest(self) -> int | None:
        """The version published last."""
        return self._versions[-1] if self._versions else None

    def add(self, version: int, now_s: float) -> None:
        """Note that a version was published; the same one again is not noted.

        A lower one is a return to an older policy: those from it on count as never published.
        """
        if self._versions and version == self._versions[-1]:
            return
        kept = bisect.bisect_left(self._versions, version)
        del self._times[kept:], self._versions[kept:]
        self._times.append(now_s)
        self._versions.append(version)
        if len(self._times) > 2 * _MOST_VERSIONS:
            del self._times[:_MOST_VERSIONS], self._versions[:_MOST_VERSIONS]

    def age(self, version: int, time_s: float) -> tuple[int, float | None] | None:
        """Return the age of a version at that time, in versions and in seconds.

        The seconds are None for a version that was not noted, such as one of before the fleet. None
        for one above all that were.
        """
        at = bisect.bisect_left(self._versions, version)
        if at == len(self._versions):
            return None
        newest = self._versions[max(at, bisect.bisect_right(self._times, time_s) - 1)]
        is_noted = self._versions[at] == version
        return newest - version, max(0.0, time_s - self._times[at]) if is_noted else None


class _PerActor:
    def __init__(self) -> None:
        self.episodes = 0
        self.version: int | None = None
        self.time_s: float | None = None


class _Number:
    """Reports of one named number."""

    def __init__(self) -> None:
        self._recent: deque[float] = deque(maxlen=_RECENT)
        self._count = 0

    def add(self, value: float) -> None:
        self._recent.append(value)
        self._count += 1

    def stats(self) -> NumberStats:
        values = self._recent
        return {"last": values[-1], "mean": sum(values) / len(values), "count": self._count}


class Tally:
    """Counts of a fleet. Its methods may be called from several threads."""

    def __init__(self, actors: int, buffer: ReplayBuffer | None, first: int = 0) -> None:
        self._lock = threading.Lock()
        self._buffer, self._first = buffer, first
        self._actors = [_PerActor() for _ in range(actors)]
        self._published = Published()
        self._started_s = time.monotonic()
        self._updates = self._samples = self._episodes = 0
        self._returns: deque[float] = deque(maxlen=_RECENT)
        self._lengths: deque[int] = deque(maxlen=_RECENT)
        self._ages: deque[tuple[int, float | None]] = deque(maxlen=_RECENT)
        self._numbers: dict[str, _Number] = {}
        self._signs = LifeSigns(actors)
        self._ring = None if buffer is None else buffer.stats()
        self._first_rows = 0 if self._ring is None else _rows(self._ring)
        # Time, rows and updates, oldest first.
        self._points: deque[tuple[float, int, int]] = deque([(self._started_s, 0, 0)])

    def update(self, updates: int, samples: int, version: int | None) -> None:
        """Count updates of the learner, and note the version that they led to."""
        with self._lock:
            self._updates += updates
            self._samples += samples
            if version is not None:
                self._published.add(version, time.monotonic())

    def add(self, reports: Iterable[Report]) -> None:
        """Count reports of actors."""
        with self._lock:
            for report in reports:
                self._add(report)

    def _add(self, report: Report) -> None:
        at = report.rank - self._first
        actor = self._actors[at]
        self._signs.note(at, report.time_s)
        if report.is_beat:
            return
        actor.time_s = report.time_s
        if report.return_ is not None:
            actor.episodes += 1
            self._episodes += 1
            self._returns.append(report.return_)
        if report.length is not None:
            self._lengths.append(report.length)
        if report.version is not None:
            actor.version = report.version
            age = self._published.age(report.version, report.time_s)
            if age is not None:
                self._ages.append(age)
        if report.name is not None and report.value is not None:
            self._add_number(report.name, report.value)

    def _add_number(self, name: str, value: float) -> None:
        # Actors refuse further names. Other processes of this user could write them.
        if name in self._numbers or len(self._numbers) < MOST_NAMES * len(self._actors):
            self._numbers.setdefault(name, _Number()).add(value)

    def signs(self) -> list[float]:
        """Return the time of the newest sign of life of every actor, 0 before the first.

        As of the last statistics.
        """
        with self._lock:
            return self._signs.newest(time.monotonic())

    def stats(self, actors: list[ActorStats], missed: int) -> FleetStats:
        """Take the statistics; ``actors`` has what the processes show."""
        ring, now_s = self._of_ring(), time.monotonic()
        limiter = None if ring is None else ring.get("limiter")
        new_rows = None if ring is None else _rows(ring) - self._first_rows
        with self._lock:
            if ring is not None:
                places = {pid: at for at, actor in enumerate(actors) if (pid := actor["pid"])}
                self._signs.note_ring(ring, places, now_s)
            rows_per_s, updates_per_s = self._rates(now_s, new_rows or 0)
            for shown in actors:
                seen = self._actors[shown["rank"] - self._first]
                shown["episodes"], shown["version"] = seen.episodes, seen.version
                if seen.time_s is not None:
                    shown["since_report_s"] = max(0.0, now_s - seen.time_s)
            return {
                "seconds": now_s - self._started_s,
                "running": sum(actor["state"] == "running" for actor in actors),
                "restarts": sum(actor["restarts"] for actor in actors),
                "rows": new_rows,
                "rows_per_s": None if ring is None else rows_per_s,
                "updates": self._updates,
                "updates_per_s": updates_per_s,
                "samples_per_insert": self._ratio(new_rows, limiter),
                "policy_version": self._published.newest,
                "policy_age_versions": _mean([age for age, _ in self._ages]),
                "policy_age_s": _mean([age for _, age in self._ages if age is not None]),
                "episodes": self._episodes,
                "return_mean": _mean(self._returns),
                "return_last": self._returns[-1] if self._returns else None,
                "length_mean": _mean(self._lengths),
                "numbers": {name: number.stats() for name, number in self._numbers.items()},
                "missed_reports": missed,
                "limiter": limiter,
                "actors": actors,
            }

    def _of_ring(self) -> dict[str, Any] | None:
        """Take the statistics of the ring; the last ones once it is closed."""
        if self._buffer is not None:
            with suppress(ClosedError):
                self._ring = self._buffer.stats()
        return self._ring

    def _rates(self, now_s: float, rows: int) -> tuple[float, float]:
        """Return rows and updates a second over the last seconds."""
        self._points.append((now_s, rows, self._updates))
        while len(self._points) > 2 and self._points[1][0] <= now_s - _RATE_S:
            self._points.popleft()
        then_s, old_rows, old_updates = self._points[0]
        seconds = max(now_s - then_s, 1e-9)
        return (rows - old_rows) / seconds, (self._updates - old_updates) / seconds

    def _ratio(self, rows: int | None, limiter: dict[str, Any] | None) -> float | None:
        """Return drawn items for each insert, as the limiter counts them if there is one."""
        if limiter is not None:
            return limiter["samples"] / limiter["inserts"] if limiter["inserts"] else None
        return self._samples / rows if rows and self._samples else None


def _rows(ring: Mapping[str, Any]) -> int:
    """Return the rows published in all lanes, by the statistics of a ring."""
    return sum(int(lane["head"]) for lane in ring["lane_stats"])


def _mean(values: Iterable[float]) -> float | None:
    listed = list(values)
    return sum(listed) / len(listed) if listed else None
