"""Runs programs with the Python API, and compares every step with the model."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from batches import compare_rows
from calls import Actor, emptied
from expect_waits import ended
from model_tables import Claims, Learned, Priorities
from second_process import Peer, Peers
from world import MismatchError, Outcome, Program, Ring, Step, World, require

# A full comparison of a ring is slow: it follows every fifth change, and ends a program.
CHANGES_PER_LOOK = 5


class ProgramError(AssertionError):
    """A step of a program, at which library and model differ."""

    def __init__(self, program: Program, at: int, what: str) -> None:
        self.program = program
        step = program["steps"][at] if at < len(program["steps"]) else {"do": "end"}
        # Step and first words of the difference, by which a shrunk program fails alike.
        self.kind = f"{step['do']} {' '.join(what.split()[:2])}"
        super().__init__(f"step {at} {step}: {what}")


class Takes(Protocol):
    """Takes steps by calls of an API."""

    def take(self, step: Step) -> Outcome: ...
    def close(self) -> None: ...


class Run:
    """One run of a program, in a directory of its own."""

    numbers = itertools.count()

    def __init__(self, place: Path, peers: Peers, actor: Callable[[Path], Takes]) -> None:
        self.place, self.peers = place / f"run-{next(self.numbers)}", peers
        self.place.mkdir(mode=0o700)
        self.world, self.actor = World(), actor(self.place)
        self.peer: Peer | None = None
        self.taken = self.changes = 0

    def other(self) -> Peer:
        """Return the second process, and start it if there is none."""
        self.peer = self.peer or self.peers.start(self.place)
        return self.peer

    def act(self, step: Step) -> Outcome:
        if step["do"] == "kill":
            if self.peer:
                self.peer.kill()
            self.peer = None
            return {}
        if step["do"] == "twin":
            return self.twins(step)
        if step.get("by", 0) == 0:
            return self.actor.take(step)
        is_later = step["do"] == "later"
        self.other().begin(step["step"] | {"patient": True} if is_later else step)
        return {} if is_later else self.other().outcome()

    def twins(self, step: Step) -> Outcome:
        """Draw from a sampler, and from one made from its state."""
        own = self.world.samplers[step["s"]]
        of_own = {"s": step["s"], "by": own.by, "batch": step["batch"]}
        said = self.act({"do": "state"} | of_own)
        if "error" in said:
            return said
        asked = {"ring": own.ring, "batch": step["batch"], "by": step.get("at", 0)}
        asked["transform"] = own.options.get("transform", False)
        other = self.act({"do": "from_state", "state": said["state"]} | asked)
        drawn = self.act({"do": "sample"} | of_own) if "error" not in other else other
        return drawn if "error" in drawn else {"batch": drawn["batches"][0], "twin": other["batch"]}

    def take(self, step: Step) -> None:
        """Take a step, and compare what it leads to."""
        expected = self.world.take(step)
        if expected is None:
            return
        self.taken += 1
        expected.compare(self.act(step))
        for by in list(self.world.pending):
            if ends := ended(self.world, by):
                ends.compare(self.other().outcome())
        if expected.changed in self.world.rings:
            self.changes += 1
            is_look = step["do"] == "look"
            brief = not is_look and self.changes % CHANGES_PER_LOOK > 0
            self.look(expected.changed, brief, step.get("by", 0) if is_look else None)

    def look(self, key: str, brief: bool = False, by: int | None = None) -> None:
        """Compare what a process sees of a ring with the model."""
        ring = self.world.rings[key]
        by = min(ring.handles) if by is None else by
        if by not in self.world.pending:
            seen = self.act({"do": "look", "ring": key, "by": by, "brief": brief})
            if "error" in seen:
                raise MismatchError(f"{seen['error']}: {seen['message']}")
            check_ring(ring, seen)

    def close(self) -> list[str]:
        """Close all handles. Return what is left in shared memory."""
        try:
            if self.peer and self.world.pending:
                self.peer.kill()
            elif self.peer:
                self.peer.end()
        finally:
            self.actor.close()
        return emptied(self.place)


def check_ring(ring: Ring, seen: Outcome) -> None:
    for lane, (first, _) in zip(ring.lanes, seen["spans"], strict=True):
        # A refused call of the writer may have followed a resize.
        if lane.may_follow and lane.grown and (first != lane.first or seen["grown"] == lane.grown):
            lane.relocate()
    require(seen["len"], len(ring.drawable()), "len")
    spans = [(lane.first, lane.head) for lane in ring.lanes]
    require(seen["spans"], spans, "lane spans")
    if "stats" not in seen:
        return
    stats = seen["stats"]
    for number, (start, end) in enumerate(spans):
        compare_rows(ring, number, start, end, seen["rows"][number])
    require(stats["transitions"], len(ring.drawable()), "transitions")
    require(stats["lane_capacity"], ring.lane_capacity, "lane_capacity")
    for lane, said in zip(ring.lanes, stats["lane_stats"], strict=True):
        found: Outcome = {"head": lane.head, "rows": lane.head - lane.first, "held": lane.held}
        found["transitions"] = len(lane.transitions())
        found["episodes"] = lane.rows[-1].episode + 1 if lane.rows else 0
        if not ring.restored:
            found |= {"first_kept": lane.mark, "dropped": lane.dropped}
            found |= {"cuts": lane.cuts, "suspect_resets": lane.suspects}
        require({name: said[name] for name in found}, found, f"lane {said['lane']}")
    require(stats["limiter"] is None, ring.limits is None, "a limiter")
    if ring.limits:
        counts = {name: getattr(ring.limits, name) for name in ("inserts", "samples", "deletes")}
        require({name: stats["limiter"][name] for name in counts}, counts, "limiter")
    for kind, of in (("tables", Priorities), ("claims", Claims), ("learned", Learned)):
        named = sorted(key for key, table in ring.tables.items() if isinstance(table, of))
        require(sorted(table["name"] for table in stats[kind]), named, kind)


def run(program: Program, place: Path, peers: Peers, actor: Callable[[Path], Takes] = Actor) -> int:
    """Run a program with the calls of an actor. Return the number of steps that were taken."""
    this, at, left = Run(place, peers, actor), 0, list[str]()
    failure: BaseException | None = None
    try:
        for step in program["steps"]:
            this.take(step)
            at += 1
        for key in this.world.rings:
            this.look(key)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        # A panic of the library is no subclass of Exception.
        failure = error
    finally:
        left = this.close()
    if failure:
        raise ProgramError(program, at, f"{type(failure).__name__}: {failure}") from failure
    if left:
        raise ProgramError(program, at, f"left in shared memory: {left}")
    return this.taken


@contextmanager
def shared_place() -> Iterator[Path]:
    parent = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(prefix="backcast-programs-", dir=parent) as path:
        yield Path(path)
