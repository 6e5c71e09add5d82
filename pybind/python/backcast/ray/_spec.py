"""Description of a set of shards: the same on every machine."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from backcast._native import RateLimiter, Schema

NAMESPACE = "backcast"
"""Namespace of the actors: any job of the cluster finds them."""
_NODE_DIGITS = 12
"""Digits of a node's id that name its ring."""


@dataclass(frozen=True)
class Place:
    """Node of a shard: one node by its id, or any node that has a label.

    Parameters
    ----------
    key : str
        Key of the label; empty for a node that is named by its id.
    value : str
        Value of the label, or the node's id.
    """

    key: str
    value: str

    @property
    def suffix(self) -> str:
        """End of the ring's name."""
        return self.value if self.key else self.value[:_NODE_DIGITS]

    def __str__(self) -> str:
        return f"the node with label {self.key}={self.value}" if self.key else f"node {self.value}"


@dataclass(frozen=True)
class Spec:
    """Name, places, columns, limits and options of rings.

    Parameters
    ----------
    name : str
        Name of the shards.
    places : tuple of Place
        Place of each shard, in the order of their numbers.
    columns : Schema
        Columns of every ring.
    capacity : int or str
        Capacity of each ring.
    limiter : RateLimiter or None
        Limits over all shards.
    ring : dict
        Further options of `ReplayBuffer.create`.
    """

    name: str
    places: tuple[Place, ...]
    columns: Schema
    capacity: int | str
    limiter: RateLimiter | None
    ring: dict[str, Any] = field(default_factory=dict)

    def ring_name(self, number: int) -> str:
        """Return the name of a shard's ring."""
        return f"{self.name}-{self.places[number].suffix}"

    def actor_name(self, number: int) -> str:
        """Return the name of a shard's actor."""
        return f"{self.name}/{number}"

    def label(self, number: int) -> str:
        """Return the words for a shard in errors and warnings."""
        return f"shard {number} of '{self.name}' on {self.places[number]}"
