"""Expected outcomes of the steps of writers."""

from __future__ import annotations

from typing import Any

from columns import OBS, Given, column, steps_of
from model import FINAL, NEXT_STEP, Index, Plan, plan
from world import Expect, Ring, Step, World, Writer, takes


@takes("writer", on="ring")
def writer(world: World, step: Step, ring: Ring) -> Expect | None:
    asked = step["lanes"]
    free = [number for number, lane in enumerate(ring.lanes) if not lane.held]
    mode = step.get("mode") or ("disabled" if asked == 1 else None)
    if ring.snapshot or len(free) < asked or mode is None:
        return Expect("WriterError")
    lanes, patient = free[:asked], step.get("patient", False)
    for number in lanes:
        ring.lanes[number].claim()
    world.writers[step["w"]] = Writer(
        step["ring"],
        step.get("by", 0),
        lanes,
        mode,
        [None] * asked,
        [False] * asked,
        patient=patient,
    )
    return Expect(values={"lanes": lanes, "mode": mode}, changed=step["ring"])


def refuse(world: World, own: Writer, error: str) -> Expect:
    """Expect an error of a writer's call, after which its lanes may have followed a resize."""
    for number in own.lanes:
        world.rings[own.ring].lanes[number].may_follow = True
    return Expect(error, changed=own.ring)


def one_step(
    world: World, own: Writer, given: Given, in_place: bool = False
) -> tuple[str | None, list[Index | None]]:
    """Append a step of all lanes. Return the error, or the indices of the rows."""
    ring = world.rings[own.ring]
    if error := refusal(ring, own, given):
        return error, []
    # The writer follows a resize before the limiter counts what can be drawn.
    for number in own.lanes:
        ring.lanes[number].relocate()
    # The limiter has already allowed a reserved row.
    if not in_place and (blocked := held_back(world, ring, own, given.end)):
        return blocked, []
    plans = []
    for place, number in enumerate(own.lanes):
        lane, token, end = ring.lanes[number], given.obs[place], given.end[place]
        after = 0
        if given.next and (own.mode != "same_step" or not end):
            after = given.next[place]
        if given.final and end:
            after = given.final[place]
        acted = not in_place and bool(column(ring.schema, "reward", token))
        made = plan(lane, own.kept[place], own.mode, token, end, after, acted)
        # After a dropped end, the append with the final observation is dropped too.
        plans.append(Plan([]) if own.orphans[place] else made)
    fits = [is_free(world, own, *each) for each in zip(own.lanes, plans, strict=True)]
    if not all(fits) and ring.policy == "fail":
        return "LeaseError", []
    return None, [
        store(world, own, place, made, is_there)
        for place, (made, is_there) in enumerate(zip(plans, fits, strict=True))
    ]


def refusal(ring: Ring, own: Writer, given: Given) -> str | None:
    """Return the error of a step that cannot be stored, or None."""
    has_obs, ends = bool(OBS[ring.schema]), any(given.end)
    if given.final and own.mode == NEXT_STEP and ends:
        return "AppendError"
    if (given.final or given.next) and not has_obs:
        return "AppendError"
    says_last = given.final or (own.mode == "disabled" and given.next)
    needs_last = ends and own.mode != NEXT_STEP and has_obs
    return "AppendError" if needs_last and not says_last else None


def held_back(world: World, ring: Ring, own: Writer, ends: list[int]) -> str | None:
    """Return the error of an append that the limiter blocks, or None."""
    if not ring.limits:
        return None
    begun = any(ring.lanes[number].has_begun() for number in own.lanes)
    completes = begun or (own.mode != NEXT_STEP and any(ends))
    if not completes or ring.limits.may_insert(ring.lanes):
        return None
    if ring.limits.no_learner == "wait" or world.has_sampler(own.ring):
        return "RateLimitTimeoutError"
    return None if ring.limits.no_learner == "pass" else "RateLimitError"


def is_free(world: World, own: Writer, number: int, made: Plan) -> bool:
    """Whether no lease lies where the rows of an append go."""
    lease = world.lease_before(own.ring, number)
    lane = world.rings[own.ring].lanes[number]
    return lease is None or not made.rows or lane.head + len(made.rows) - lane.slots <= lease


def store(world: World, own: Writer, place: int, made: Plan, is_there: bool) -> Index | None:
    """Publish the rows of a lane, or drop them. Return the index of the step's row."""
    ring, number = world.rings[own.ring], own.lanes[place]
    lane = ring.lanes[number]
    own.kept[place] = made.kept if is_there else None
    if not made.rows or not is_there:
        dropped = max(1, len(made.rows))
        own.dropped, lane.dropped = own.dropped + dropped, lane.dropped + dropped
        ends = own.mode == NEXT_STEP and not lane.has_ended() and bool(made.rows)
        own.orphans[place] = ends and made.rows[-1][1] > 0
        lane.gap = True
        return None
    lane.cuts, lane.suspects = lane.cuts + made.cut, lane.suspects + made.suspect
    at = lane.head + made.cut
    for n, (token, flags) in enumerate(made.rows):
        publish(ring, number, token, flags)
        lane.gap = made.cut and n == 0
    own.written += len(made.rows)
    return (number, at)


def publish(ring: Ring, number: int, token: int, flags: int) -> None:
    """Publish a row, and count the transition that it completes."""
    lane = ring.lanes[number]
    lane.publish(token, flags)
    if ring.limits and lane.rows[-1].t > 0:
        ring.limits.inserts += 1


@takes("append", on="w")
def append(world: World, step: Step, own: Writer) -> Expect | None:
    ring = world.rings[own.ring]
    if len(step["obs"]) != len(own.lanes):
        return None
    if own.patient and held_back(world, ring, own, step["end"]):
        return None
    if step.get("bad"):
        return refuse(world, own, "AppendError")
    given = Given(step["obs"], step["end"], step.get("next"), step.get("final"))
    error, index = one_step(world, own, given)
    return refuse(world, own, error) if error else Expect(values={"index": index}, changed=own.ring)


@takes("extend", on="w")
def extend(world: World, step: Step, own: Writer) -> Expect | None:
    """Append many steps, in one call or in one for each."""
    ring = world.rings[own.ring]
    if own.patient and ring.limits:
        return None
    if step.get("next") and not OBS[ring.schema]:
        return refuse(world, own, "AppendError")
    steps = steps_of(step, ring.schema, len(own.lanes), own.mode)
    # One call checks all steps before the first.
    for given in steps if step.get("how") != "append" else []:
        if error := refusal(ring, own, given):
            return refuse(world, own, error)
    rows: list[Index | None] = []
    for given in steps:
        error, index = one_step(world, own, given)
        if error:
            return refuse(world, own, error)
        rows += index
    return Expect(values={"index": rows}, changed=own.ring)


@takes("reserve", on="w")
def reserve(world: World, step: Step, own: Writer) -> Expect | None:
    """Write a row in place, and publish it or give it up."""
    ring = world.rings[own.ring]
    if own.patient and ring.limits:
        return None
    if len(own.lanes) != 1:
        return refuse(world, own, "AppendError")
    lane, how = ring.lanes[own.lanes[0]], step["how"]
    # `reserve` keeps room for rows that it may not need, which no page documents. So programs do
    # not reserve rows near a lease.
    lease = world.lease_before(own.ring, own.lanes[0])
    if lease is not None and lane.head + 4 - lane.slots > lease:
        return None
    if how == "partly" and (lane.has_ended() or own.orphans[0]):
        # A FINAL row needs no step columns, so the missing one is no error.
        return None
    lane.relocate()
    if blocked := held_back(world, ring, own, [0]):
        return Expect(blocked, changed=own.ring)
    if how != "commit":
        return Expect("AppendError" if how == "partly" else None, changed=own.ring)
    said = [[step[name]] if step.get(name) else None for name in ("next", "final")]
    error, index = one_step(world, own, Given([step["obs"]], [step["end"]], *said), in_place=True)
    return refuse(world, own, error) if error else Expect(values={"index": index}, changed=own.ring)


def finish(world: World, own: Writer, chosen: list[bool]) -> str | None:
    """Publish the last `next_obs` of chosen lanes as FINAL rows. Return the error, or None."""
    ring, plans = world.rings[own.ring], dict[int, Plan]()
    for place, kept in enumerate(own.kept):
        if chosen[place] and kept and not kept.final:
            plans[place] = Plan([(kept.obs, FINAL)])
    fits = {place: is_free(world, own, own.lanes[place], made) for place, made in plans.items()}
    if not all(fits.values()) and ring.policy == "fail":
        return "LeaseError"
    for number in own.lanes if plans else []:
        ring.lanes[number].relocate()
    for place, made in plans.items():
        lane = ring.lanes[own.lanes[place]]
        own.kept[place] = None
        if not fits[place]:
            own.dropped, lane.dropped, lane.gap = own.dropped + 1, lane.dropped + 1, True
            continue
        ended = lane.has_ended()
        publish(ring, own.lanes[place], *made.rows[0])
        own.written += 1
        lane.gap = not ended
    return None


@takes("restart", on="w")
def restart(world: World, step: Step, own: Writer) -> Expect | None:
    chosen = step.get("lanes") or [True] * len(own.lanes)
    if len(chosen) != len(own.lanes):
        return refuse(world, own, "AppendError")
    if error := finish(world, own, chosen):
        return refuse(world, own, error)
    for place, number in enumerate(own.lanes):
        if chosen[place]:
            lane = world.rings[own.ring].lanes[number]
            lane.gap = lane.gap or lane.has_begun()
            own.kept[place], own.orphans[place] = None, False
    return Expect(changed=own.ring)


@takes("close_writer", on="w")
def close_writer(world: World, step: Step, own: Writer) -> Expect | None:
    """Close a writer; its last `next_obs` are stored."""
    values: dict[str, Any] = {"rows_written": own.written, "rows_dropped": own.dropped}
    leased = any(world.lease_before(own.ring, number) is not None for number in own.lanes)
    if step.get("how") == "del" and leased:
        return None
    error = finish(world, own, [True] * len(own.lanes))
    del world.writers[step["w"]]
    for number in own.lanes:
        world.rings[own.ring].lanes[number].held = False
    return Expect(error, values, changed=own.ring)
