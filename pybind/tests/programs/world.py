"""Objects that a program has made: rings, writers, samplers, tables, leases, with their processes.

`World.take` returns the expected outcome of a step, and updates the model. A step that refers to an
object that does not exist is left out, so that every subset of a program's steps is a program.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from model import Index, Kept, Lane
from model_tables import Claims, Learned, Limits, Priorities, drawable

# A program: its seed, its number of processes and its steps. All values are JSON.
Program: TypeAlias = dict[str, Any]
# A step: `do` names it, `by` is the process that takes it.
Step: TypeAlias = dict[str, Any]
# Outcome of a step: arrays and numbers by name, or `error`, the name of its class.
Outcome: TypeAlias = dict[str, Any]
Table: TypeAlias = Priorities | Claims | Learned


class MismatchError(AssertionError):
    """The library and the model differ."""


def require(found: object, expected: object, what: str) -> None:
    """Raise MismatchError if a result of the library differs from that of the model."""
    if found != expected:
        raise MismatchError(f"{what}: {found!r}, the model has {expected!r}")


@dataclass
class Expect:
    """Expected outcome of a step."""

    error: str | None = None
    values: dict[str, Any] = field(default_factory=dict)
    # Checks the outcome of a step without an error, and updates the model by it.
    check: Callable[[Outcome], None] | None = None
    # Updates the model in place of `check` when a program is made, without an outcome.
    imagine: Callable[[], None] | None = None
    # Ring whose rows may have changed.
    changed: str | None = None
    # Errors that are allowed too, where the model does not decide.
    perhaps: tuple[str, ...] = ()

    def compare(self, outcome: Outcome) -> None:
        """Compare the outcome with what was expected."""
        error, said = outcome.get("error"), outcome.get("message", "")
        # Processes take turns, so no writer can overwrite rows during a read.
        if "writers overwrite rows" in said:
            raise MismatchError(f"overtaken by a writer that does not write: {said}")
        if error in self.perhaps:
            return
        if error != self.error:
            raise MismatchError(f"error {error} ({said}), the model has {self.error}")
        for name, value in self.values.items():
            require(outcome.get(name), value, name)
        if self.check and not error:
            self.check(outcome)


@dataclass
class Ring:
    """A ring, or a snapshot that was opened."""

    name: str
    schema: str
    lanes: list[Lane]
    policy: str = "block"
    limits: Limits | None = None
    private: bool = False
    snapshot: bool = False
    # Whether the ring is a loaded or an opened snapshot.
    restored: bool = False
    # Processes that have a handle, and processes that have drawn without a sampler.
    handles: set[int] = field(default_factory=set)
    drawers: set[int] = field(default_factory=set)
    tables: dict[str, Table] = field(default_factory=dict)
    # Rows, limits and tables of its snapshots, by label.
    saved: dict[str, Ring] = field(default_factory=dict)

    @property
    def lane_capacity(self) -> int:
        """Rows that each lane keeps."""
        return min(lane.capacity for lane in self.lanes)

    @property
    def most(self) -> int:
        """Transitions that the ring can hold."""
        return sum(lane.capacity - 1 for lane in self.lanes)

    def drawable(self) -> list[Index]:
        """List the transitions."""
        return drawable(self.lanes)

    def without_old(self, max_age: int | None) -> Ring:
        """Return the ring without rows that are too old for a sampler."""
        if max_age is None:
            return self
        oldest = [lane.head - 1 - max_age for lane in self.lanes]
        pairs = zip(self.lanes, oldest, strict=True)
        return replace(self, lanes=[replace(of, mark=max(of.mark, at)) for of, at in pairs])

    def has(self, at: Index) -> bool:
        """Whether a row was ever published."""
        return at[0] < len(self.lanes) and at[1] < self.lanes[at[0]].head

    def copied(self) -> Ring:
        """Return a copy of what a snapshot saves."""
        lanes = [
            Lane(lane.capacity, lane.slots, list(lane.rows), lane.first) for lane in self.lanes
        ]
        limits, tables = copy.copy(self.limits), copy.deepcopy(self.tables)
        return Ring(self.name, self.schema, lanes, self.policy, limits, tables=tables)


@dataclass
class Writer:
    """A writer and the process that has it."""

    ring: str
    by: int
    lanes: list[int]
    mode: str
    kept: list[Kept | None]
    # By lane: the end of an episode was dropped, so the step after it is dropped too.
    orphans: list[bool]
    written: int = 0
    dropped: int = 0
    # The writer waits for the limiter. Steps that would wait are taken as `later` only.
    patient: bool = False


@dataclass
class Sampler:
    """A sampler and the process that has it."""

    ring: str
    by: int
    options: dict[str, Any]
    batches: int = 0
    sampled: int = 0
    # Whether the model knows `Sampler.sampled`, which also counts gathered transitions.
    counted: bool = True
    # The sampler may hold claimed rows of a failed draw.
    holds: bool = False


@dataclass
class Lease:
    """Rows that no writer overwrites."""

    ring: str
    by: int
    lane: int
    start: int
    length: int


@dataclass
class Opened:
    """A handle on a table of learned columns."""

    ring: str
    by: int
    table: str


@dataclass
class World:
    """All objects of a program."""

    rings: dict[str, Ring] = field(default_factory=dict)
    writers: dict[str, Writer] = field(default_factory=dict)
    samplers: dict[str, Sampler] = field(default_factory=dict)
    leases: dict[str, Lease] = field(default_factory=dict)
    learned: dict[str, Opened] = field(default_factory=dict)
    # Steps that wait, by their process.
    pending: dict[int, Step] = field(default_factory=dict)

    def take(self, step: Step) -> Expect | None:
        """Return the expected outcome of a step. None: it cannot be taken here."""
        if step.get("by", 0) in self.pending and step["do"] != "kill":
            return None
        return HANDLERS[step["do"]](self, step)

    def owned(self, step: Step, on: str) -> Any:
        """Return the ring, writer, sampler, lease or table of a step, if its process has it."""
        if on == "ring":
            ring = self.rings.get(step.get("ring", ""))
            return ring if ring and step.get("by", 0) in ring.handles else None
        kinds: dict[str, dict[str, Any]]
        kinds = {"w": self.writers, "s": self.samplers, "l": self.leases, "t": self.learned}
        found = kinds[on].get(step.get(on, ""))
        return found if found and found.by == step.get("by", 0) else None

    def lease_before(self, ring: str, lane: int) -> int | None:
        """Return the first leased row of a lane."""
        starts = [of.start for of in self.leases.values() if (of.ring, of.lane) == (ring, lane)]
        return min(starts, default=None)

    def appends_later(self) -> bool:
        """Whether an append waits for the limiter, so that a draw may let it go on."""
        return any(step["do"] == "append" for step in self.pending.values())

    def has_sampler(self, ring: str) -> bool:
        """Whether a ring has a living sampler. Handles that have drawn have an internal one."""
        drawn = bool(self.rings[ring].drawers)
        return drawn or any(own.ring == ring for own in self.samplers.values())


HANDLERS: dict[str, Callable[[World, Step], Expect | None]] = {}
Handler = Callable[[World, Step, Any], Expect | None]


def takes(*names: str, on: str) -> Callable[[Handler], Handler]:
    """Register a function that returns expected outcomes; ``on`` names the object of its steps."""

    def register(handler: Handler) -> Handler:
        def taken(world: World, step: Step) -> Expect | None:
            it = world.owned(step, on) if on else None
            return None if on and it is None else handler(world, step, it)

        HANDLERS.update(dict.fromkeys(names, taken))
        return handler

    return register
