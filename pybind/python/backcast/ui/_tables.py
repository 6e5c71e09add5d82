"""Columns of the tables, and their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from backcast.ui import _model

_NUMBERS = {
    "rate": "new Intl.NumberFormat('en', {notation: 'compact', maximumSignificantDigits: 3})",
    "count": "new Intl.NumberFormat('en', {maximumFractionDigits: 1})",
}
_LINK = """<q-td :props="props"><a v-if="props.value" :href="'/ring/' +
encodeURIComponent(props.value)">{{ props.value }}</a><span v-else>-</span></q-td>"""
_FILL = """<q-td :props="props"><span class="fill"><q-linear-progress rounded size="8px"
:value="props.value" :aria-label="'fill of ' + props.row.name"/>{{ Math.round(100 * props.value) }}
%</span></q-td>"""
SLOTS = {"ring": _LINK, "fill": _FILL}
"""Templates of cells, by the kind of their column."""


@dataclass(frozen=True)
class Column:
    """One column: its title, the key of its value, and how the value is shown."""

    title: str
    key: str
    kind: Literal["text", "rate", "count", "ring", "fill"] = "text"
    is_narrow: bool = False
    """Whether a narrow screen shows it too."""
    words: Callable[[_model.Row], Any] | None = None

    def value(self, one: _model.Row) -> Any:  # noqa: ANN401
        """Return what is sent to the browser; numbers as such, so that it can sort them."""
        value = one.get(self.key) if self.words is None else self.words(one)
        if self.kind == "rate" and value is not None:
            return float(f"{value:.3g}")
        return "-" if value is None and self.kind == "text" else value

    def options(self, place: int) -> dict[str, Any]:
        """Return the column for the table."""
        hidden = "" if self.is_narrow else "wide-only"
        align = "left" if place == 0 or self.kind == "fill" else "right"
        named = {"name": self.key, "label": self.title, "field": self.key, "align": align}
        sortable = self.kind != "text"
        found = named | {"sortable": sortable, "classes": hidden, "headerClasses": hidden}
        if form := _NUMBERS.get(self.kind):
            found[":format"] = f"value => value === null ? '-' : {form}.format(value)"
        return found


def _sized(one: _model.Row) -> str:
    return _model.size(one["allocated_bytes"])


def _aged(key: str) -> Callable[[_model.Row], str]:
    return lambda one: _model.age(one[key])


def _pid(key: str) -> Callable[[_model.Row], str]:
    return lambda one: f"pid {one[key]}" if one[key] and one.get("held", True) else "-"


RINGS = (
    Column("Ring", "name", "ring", True),
    Column("State", "state"),
    Column("Fill", "fill", "fill", True),
    Column("Rows/s", "publish_rate_per_s", "rate", True),
    Column("Drawn/s", "sample_rate_per_s", "rate"),
    Column("Writers", "lanes", words=_model.lanes_in_words),
    Column("Oldest", "oldest", words=_aged("oldest_row_age_s")),
    Column("Waits", "waits", is_narrow=True, words=_model.waits_in_words),
    Column("Dropped", "dropped_rows", "rate"),
    Column("Unsaved", "unsaved", words=_model.lag_in_words),
    Column("Size", "size", words=_sized),
)
FLEETS = (
    Column("Fleet", "name", is_narrow=True),
    Column("Ring", "buffer", "ring"),
    Column(
        "Running", "running", is_narrow=True, words=lambda one: "{running} of {n}".format(**one)
    ),
    Column("Restarts", "restarts", "count", True),
    Column("Return", "return_mean", "count", True),
    Column("Episodes", "episodes", "count"),
    Column("Policy", "policy_version", "count"),
    Column("Policy age", "policy_age", words=_model.policy_age_in_words),
    Column("Rows/s", "rows_per_s", "rate"),
    Column("Updates/s", "updates_per_s", "rate"),
    Column("Samples per insert", "samples_per_insert", "count"),
)
PARAMS = (
    Column("Parameters", "name", is_narrow=True),
    Column("State", "state"),
    Column("Version", "version", "count", True),
    Column("Age", "age", is_narrow=True, words=_aged("version_age_s")),
    Column("Publishes/s", "publish_rate_per_s", "rate"),
    Column("Pulls/s", "pull_rate_per_s", "rate", True),
    Column("Readers", "readers", "count"),
    Column("Publisher", "publisher", words=_pid("publisher_pid")),
    Column("Size", "size", words=_sized),
)
SHARDS = (
    Column("Shard", "ring", is_narrow=True),
    Column("Place", "place"),
    Column("Status", "status", is_narrow=True),
    Column("Rows/s", "rows_per_s", "rate", True),
    Column("Transitions", "transitions", "count"),
    Column("Writers", "writers", "count"),
)
LANES = (
    Column("Lane", "lane", "count", True),
    Column("Rows/s", "publish_rate_per_s", "rate", True),
    Column("Rows", "rows", "count", True),
    Column("Head", "head_seq", "count"),
    Column("Episodes", "episodes", "count"),
    Column("Writer", "writer", is_narrow=True, words=_pid("writer_pid")),
    Column("Stalls", "stalls", "count"),
    Column("Dropped", "dropped_rows", "count"),
)
TRADES = (
    Column("Tick", "tick", "count", True),
    Column("Side", "side", is_narrow=True),
    Column("Price", "price", is_narrow=True, words=lambda one: f"{one['price']:.2f}"),
    Column("Shares", "shares", "count", True),
    Column("Agent", "archetype"),
)


def rows(columns: Iterable[Column], objects: Iterable[_model.Row]) -> list[_model.Row]:
    """Return a row for each object, with its place as `row`."""
    return [
        {"row": place} | {column.key: column.value(one) for column in columns}
        for place, one in enumerate(objects)
    ]
