"""Steps that wait in the second process while the first process takes others."""

from __future__ import annotations

from batches import windows_of
from columns import Given
from expect_draws import check_waited, claims_of, imagine_claims, kind_of
from expect_writers import append, held_back, refusal
from world import Expect, Outcome, Sampler, Step, World, Writer, require, takes


@takes("later", on="")
def later(world: World, step: Step, _: None) -> Expect | None:
    """Begin a step that has to wait; a later step of the other process ends the wait."""
    by, inner = step["by"], step["step"]
    if by == 0 or by in world.pending or inner.get("by") != by or not waits(world, inner):
        return None
    # An append follows a resize before it waits, at a moment that this process does not know.
    own = world.writers[inner["w"]] if inner["do"] == "append" else None
    if own and any(world.rings[own.ring].lanes[number].grown for number in own.lanes):
        return None
    world.pending[by] = inner
    return Expect()


def waits(world: World, step: Step) -> bool | None:
    """Whether a step would wait now. None: it cannot be taken, or the model does not know."""
    if step["do"] == "wait":
        ring = world.owned(step, "ring")
        is_legal = ring and 0 < step["min_size"] <= ring.most
        return len(ring.drawable()) < step["min_size"] if is_legal else None
    own = world.owned(step, "w" if step["do"] == "append" else "s")
    if own and step["do"] == "append":
        return append_waits(world, step, own)
    return draw_waits(world, step, own) if own else None


def append_waits(world: World, step: Step, own: Writer) -> bool | None:
    """Whether an append waits for the limiter of its ring."""
    ring = world.rings[own.ring]
    if not own.patient or len(step["obs"]) != len(own.lanes) or step.get("bad"):
        return None
    given = Given(step["obs"], step["end"], step.get("next"), step.get("final"))
    leased = any(world.lease_before(own.ring, number) is not None for number in own.lanes)
    error = held_back(world, ring, own, step["end"])
    if leased or refusal(ring, own, given) or error == "RateLimitError":
        return None
    return error is not None


def draw_waits(world: World, step: Step, own: Sampler) -> bool | None:
    """Whether a draw waits for transitions that no sampler has drawn."""
    ring, asked = world.rings[own.ring], windows_of(own.options)
    claims = claims_of(ring, own)
    if ring.limits or kind_of(own.options) != "Consume" or not claims or claims.loose:
        return None
    alone = [of for of in world.samplers.values() if of.ring == own.ring] == [own]
    if own.options.get("form") or asked.boundary != "mask" or not alone:
        return None
    if step["batch"] > claims.times * ring.most:
        return None
    rows = claims.next_rows(step["batch"], ring.lanes)
    return None if rows is None else len(rows) < step["batch"]


def ended(world: World, by: int) -> Expect | None:
    """Return the expected outcome of a waiting step, or None while it still has to wait."""
    step = world.pending.get(by)
    if step is None or waits(world, step) is not False:
        return None
    del world.pending[by]
    if step["do"] == "append":
        return append(world, step, world.writers[step["w"]])
    if step["do"] == "wait":

        def check_count(outcome: Outcome) -> None:
            require(outcome["have"] >= step["min_size"], True, "transitions that were waited for")

        return Expect(check=check_count)
    own = world.samplers[step["s"]]
    return Expect(
        check=lambda said: check_waited(world, own, said["batches"][0], step["batch"]),
        imagine=lambda: imagine_claims(world.rings[own.ring], own, step["batch"]),
    )
