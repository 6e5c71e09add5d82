"""Tables of the page: their columns, and how values are shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from backcast.ui import _words

_SORTABLE = ("rate", "count", "fill")
"""Kinds that are sent as numbers so that the browser can sort them; `_table.js` formats them."""
_WORDS: dict[str, Callable[[Any], Any]] = {
    "age": _words.age,
    "size": _words.size,
    "length": len,
    "writers": _words.writers,
    "pid": lambda pid: f"pid {pid}" if pid else "-",
}


@dataclass(frozen=True)
class Column:
    """One column: its title, the key of its value, and how the value is shown."""

    title: str
    key: str
    kind: str = "text"
    is_narrow: bool = False
    """Whether a narrow screen shows it too."""

    def value(self, one: _words.Row) -> Any:  # noqa: ANN401
        """Return what is sent to the browser."""
        return _WORDS.get(self.kind, lambda value: value)(one[self.key])

    def options(self, place: int) -> dict[str, Any]:
        """Return the column for the table."""
        hidden = "" if self.is_narrow else "wide-only"
        align = "left" if place == 0 or self.kind == "fill" else "right"
        named = {"name": self.key, "label": self.title, "field": self.key, "kind": self.kind}
        shown = {"align": align, "classes": hidden, "headerClasses": hidden}
        return named | shown | {"sortable": self.kind in _SORTABLE}


TABLES = {
    "Rings": (
        Column("Ring", "name", "ring", True),
        Column("State", "state"),
        Column("Fill", "fill", "fill", True),
        Column("Rows/s", "publish_rate_per_s", "rate", True),
        Column("Drawn/s", "sample_rate_per_s", "rate"),
        Column("Writers", "lanes", "writers"),
        Column("Oldest", "oldest_row_age_s", "age"),
        Column("Waits", "waits", "length", True),
        Column("Dropped", "dropped_rows", "count"),
        Column("Unsaved", "persist_behind_rows", "count"),
        Column("Unsaved for", "persist_behind_s", "age"),
        Column("Size", "allocated_bytes", "size"),
    ),
    "Fleets": (
        Column("Fleet", "name", is_narrow=True),
        Column("Ring", "buffer", "ring"),
        Column("Actors", "n", "count"),
        Column("Running", "running", "count", True),
        Column("Restarts", "restarts", "count", True),
        Column("Return", "return_mean", "count", True),
        Column("Episodes", "episodes", "count"),
        Column("Policy", "policy_version", "count"),
        Column("Versions behind", "policy_age_versions", "count"),
        Column("Policy age", "policy_age_s", "age"),
        Column("Rows/s", "rows_per_s", "rate"),
        Column("Updates/s", "updates_per_s", "rate"),
        Column("Samples per insert", "samples_per_insert", "count"),
    ),
    "Parameters": (
        Column("Parameters", "name", is_narrow=True),
        Column("State", "state"),
        Column("Version", "version", "count", True),
        Column("Age", "version_age_s", "age", True),
        Column("Publishes/s", "publish_rate_per_s", "rate"),
        Column("Pulls/s", "pull_rate_per_s", "rate", True),
        Column("Readers", "readers", "count"),
        Column("Publisher", "publisher_pid", "pid"),
        Column("Size", "allocated_bytes", "size"),
    ),
    "Shards on Ray": (
        Column("Shard", "ring", is_narrow=True),
        Column("Place", "place"),
        Column("Status", "status", is_narrow=True),
        Column("Rows/s", "rows_per_s", "rate", True),
        Column("Transitions", "transitions", "count"),
        Column("Writers", "writers", "count"),
    ),
    "Lanes": (
        Column("Lane", "lane", "count", True),
        Column("Rows/s", "publish_rate_per_s", "rate", True),
        Column("Rows", "rows", "count", True),
        Column("Head", "head_seq", "count"),
        Column("Episodes", "episodes", "count"),
        Column("Writer", "writer_pid", "pid", True),
        Column("Stalls", "stalls", "count"),
        Column("Dropped", "dropped_rows", "count"),
    ),
}


def rows(title: str, objects: Iterable[_words.Row]) -> list[_words.Row]:
    """Return a row for each object, with a key `row` that stays when others come and go."""
    columns, seen = TABLES[title], Counter[Any]()
    found = []
    for one in objects:
        seen[name := one[columns[0].key]] += 1
        values = {column.key: column.value(one) for column in columns}
        found.append(values | {"row": f"{name} {seen[name]}"})
    return found
