"""Expected outcomes of steps on rings, from their creation to saves, and on processes."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

from batches import compare_rows
from model import FINAL, Lane
from model_tables import Claims, Limits
from world import Expect, Lease, Outcome, Ring, Step, World, takes


@takes("create", on="")
def create(world: World, step: Step, _: None) -> Expect | None:
    name, lanes = step["ring"], step["lanes"]
    capacity = -(-step["capacity"] // lanes)
    if capacity < 2:
        return Expect("ArgumentError")
    limits = None
    if given := step.get("limiter"):
        limits = Limits(1, 1, -math.inf, math.inf)
        limits.change(given)
        if not limits.fits(lanes * (capacity - 1)):
            return Expect("ArgumentError")
    private, policy = step.get("private", False), step.get("policy", "block")
    # First guess of the slots, which `slots_of` replaces by the number that the library reports.
    made = [Lane(capacity, capacity + 16 if private else 1 << 10) for _ in range(lanes)]
    ring = Ring(name, step["schema"], made, policy, limits, private)
    ring.handles = {step.get("by", 0)}
    world.rings[name] = ring
    return Expect(
        values={"lane_capacity": capacity, "lanes": lanes}, check=slots_of(ring), changed=name
    )


def slots_of(ring: Ring) -> Callable[[Outcome], None]:
    """Return a check that sets the model's slots of a lane to those of the library."""

    def check(outcome: Outcome) -> None:
        for lane in ring.lanes:
            lane.slots = outcome["slots"]

    return check


@takes("attach", on="")
def attach(world: World, step: Step, _: None) -> Expect | None:
    ring = world.rings.get(step["ring"])
    if not ring or ring.private or ring.snapshot or not ring.handles:
        return None
    ring.handles.add(step.get("by", 0))
    return Expect(changed=ring.name)


@takes("clear", on="ring")
def clear(world: World, step: Step, ring: Ring) -> Expect | None:
    if ring.snapshot:
        return Expect("ArgumentError")
    dropped = len(ring.drawable())
    for lane in ring.lanes:
        lane.mark = lane.head
    if ring.limits:
        ring.limits.drop(ring.lanes)
    return Expect(values={"dropped": dropped}, changed=ring.name)


@takes("drop_episode", on="ring")
def drop_episode(world: World, step: Step, ring: Ring) -> Expect | None:
    """Drop the oldest episode of a lane, or those up to one."""
    refused = Expect("ArgumentError")
    if ring.snapshot or step["lane"] >= len(ring.lanes):
        return refused
    lane = ring.lanes[step["lane"]]
    if lane.first == lane.head:
        return refused
    oldest, newest = lane.rows[lane.first].episode, lane.rows[-1].episode
    episode = step.get("episode", oldest)
    if not oldest <= episode <= newest or (episode > oldest and not step.get("older")):
        return refused
    # The newest episode has not ended.
    if episode == newest and not lane.rows[-1].flags & FINAL:
        return refused
    before = len(lane.transitions())
    lane.mark = lane.end_of(episode)
    if ring.limits:
        ring.limits.drop(ring.lanes)
    return Expect(values={"dropped": before - len(lane.transitions())}, changed=ring.name)


@takes("resize", on="ring")
def resize(world: World, step: Step, ring: Ring) -> Expect | None:
    """Make a ring larger. Lanes with a writer follow at its next append."""
    capacity = -(-step["capacity"] // len(ring.lanes))
    if ring.private or ring.snapshot:
        return Expect("ArgumentError")
    if any(lane.grown not in (None, capacity) for lane in ring.lanes):
        return Expect("InUseError")
    if capacity < max(lane.capacity for lane in ring.lanes):
        return Expect("ArgumentError")
    for table in ring.tables.values():
        if isinstance(table, Claims):
            # Rows beyond the old capacity become readable again, and claimable if not yet claimed.
            table.loose |= any(lane.head > lane.capacity for lane in ring.lanes)
    for lane in ring.lanes:
        if lane.capacity != capacity:
            lane.grown = capacity
            if not lane.held:
                lane.relocate()
    waiting = [n for n, lane in enumerate(ring.lanes) if lane.grown]
    return Expect(values={"lanes_waiting": waiting, "lane_capacity": capacity}, changed=ring.name)


@takes("limiter", on="ring")
def limiter(world: World, step: Step, ring: Ring) -> Expect | None:
    """Change the limits or the ceiling of a ring, switch them on or off, or reset the counts."""
    limits = ring.limits
    if not limits or ring.snapshot:
        return None
    if step["op"] == "reset":
        limits.reset(ring.lanes)
    elif step["op"] == "ceiling":
        limits.ceiling = step.get("inserts", math.inf)
    elif step["op"] == "set":
        changed = copy.copy(limits)
        changed.change(step["limits"])
        if not changed.fits(ring.most):
            return Expect("ArgumentError")
        ring.limits = changed
    else:
        limits.enabled = step["op"] == "enable"
    return Expect(changed=ring.name)


@takes("wait", on="ring")
def wait(world: World, step: Step, ring: Ring) -> Expect | None:
    """Ask whether the ring has a number of transitions, or of rows."""
    if "rows" in step:
        have, needed = sum(lane.head for lane in ring.lanes), step["rows"]
    else:
        have, needed = len(ring.drawable()), step["min_size"]
        if needed > sum((lane.grown or lane.capacity) - 1 for lane in ring.lanes):
            return Expect("ArgumentError")
    return Expect(values={"have": have}) if have >= needed else Expect("WaitTimeoutError")


@takes("order", on="ring")
def order(world: World, step: Step, ring: Ring) -> Expect | None:
    return Expect(values={"index": ring.drawable(), "positions": len(ring.drawable())})


@takes("look", on="ring")
def look(world: World, step: Step, ring: Ring) -> Expect | None:
    """Compare everything that a process sees of a ring."""
    return Expect(changed=step["ring"])


@takes("rows", on="ring")
def rows(world: World, step: Step, ring: Ring) -> Expect | None:
    if step["lane"] >= len(ring.lanes):
        return Expect("SampleError")
    lane, start, end = ring.lanes[step["lane"]], step["start"], step["start"] + step["length"]
    if not lane.first <= start <= end <= lane.head:
        return Expect("SampleError", perhaps=("LappedError",))
    return Expect(check=lambda said: compare_rows(ring, step["lane"], start, end, said["rows"]))


@takes("lease", on="ring")
def lease(world: World, step: Step, ring: Ring) -> Expect | None:
    if step["lane"] >= len(ring.lanes) or world.appends_later():
        return None
    lane, start, length = ring.lanes[step["lane"]], step["start"], step["length"]
    most = lane.capacity if ring.snapshot else max(1, lane.capacity // 4)
    is_there = lane.first <= start <= start + length <= lane.head and 1 <= length <= most
    # Private memory is not mirrored, so that the rows of a lease cannot wrap around its end.
    runs_over = ring.private and start % lane.slots + length > lane.slots
    if not is_there or runs_over or (ring.policy == "overwrite" and not ring.snapshot):
        return Expect("LeaseError")
    world.leases[step["l"]] = Lease(step["ring"], step.get("by", 0), step["lane"], start, length)
    return Expect(
        check=lambda said: compare_rows(ring, step["lane"], start, start + length, said["rows"])
    )


@takes("close_lease", on="l")
def close_lease(world: World, step: Step, own: Lease) -> Expect | None:
    ring, end = world.rings[own.ring], own.start + own.length
    del world.leases[step["l"]]
    return Expect(check=lambda said: compare_rows(ring, own.lane, own.start, end, said["rows"]))


@takes("snapshot", on="ring")
def snapshot(world: World, step: Step, ring: Ring) -> Expect | None:
    if ring.private:
        return Expect("ArgumentError")
    if ring.snapshot or any(lane.grown for lane in ring.lanes):
        return None
    if step["label"] in ring.saved and not step.get("replace"):
        return Expect("ExistsError")
    ring.saved[step["label"]] = ring.copied()
    for saved in ring.saved.values():
        # The store has one capacity for all snapshots of a ring.
        for lane in saved.lanes:
            lane.capacity = ring.lane_capacity
    count = sum(lane.head - lane.first for lane in ring.lanes)
    return Expect(values={"rows": count, "rows_lapped": 0, "left_out": {}}, changed=ring.name)


@takes("open", "load", on="")
def load(world: World, step: Step, _: None) -> Expect | None:
    source = world.rings.get(step["from"])
    saved = source.saved.get(step["label"]) if source else None
    if not saved:
        return Expect("NotFoundError") if source and not source.private else None
    name, is_open = f"{step['from']}@{step['label']}", step["do"] == "open"
    if is_open and any(ring.snapshot and ring.name == name for ring in world.rings.values()):
        return None
    ring = saved.copied()
    ring.name = name if is_open else step["ring"]
    ring.snapshot, ring.handles, ring.restored = is_open, {step.get("by", 0)}, True
    for lane in ring.lanes:
        if lane.rows and lane.first == lane.head:
            # A lane that is saved without rows is saved without its episode.
            lane.rows[-1] = lane.rows[-1]._replace(episode=0)
    ring.limits = None if is_open else ring.limits
    if ring.limits:
        ring.limits.ceiling = math.inf
    world.rings[step["ring"]] = ring
    return Expect(values={"lanes": len(ring.lanes)}, check=slots_of(ring), changed=step["ring"])


@takes("kill", on="")
def kill(world: World, step: Step, _: None) -> Expect | None:
    """Kill a process, which loses its handles and their state."""
    by = step["by"]
    world.pending.pop(by, None)
    for writer in world.writers.values():
        if writer.by == by:
            for number in writer.lanes:
                world.rings[writer.ring].lanes[number].held = False
    for kind in (world.writers, world.samplers, world.leases, world.learned):
        for name in [name for name, of in kind.items() if of.by == by]:
            del kind[name]
    for ring in world.rings.values():
        ring.handles.discard(by)
        ring.drawers.discard(by)
    world.rings = {name: ring for name, ring in world.rings.items() if ring.handles}
    return Expect()


@takes("fork", on="")
def fork(world: World, step: Step, _: None) -> Expect | None:
    """Fork a process: the child may use none of its parent's handles, and attaches by name."""
    counts = {
        key: len(ring.drawable())
        for key, ring in world.rings.items()
        if step.get("by", 0) in ring.handles and not ring.private and not ring.snapshot
    }
    return Expect(values={"used": [], "counts": counts})
