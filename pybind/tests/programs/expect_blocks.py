"""Expected outcomes of draws of all that is new, and of blocks of rollouts."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from batches import Options, compare, expected_batch, form_of, without_tag
from columns import Arrays, pairs
from expect_draws import accounted, check_draw, claims_of
from model import TERMINATED, TRUNCATED, Index
from model_tables import Claims, Learned
from world import Expect, MismatchError, Outcome, Ring, Sampler, Step, World, require, takes

MOST = 1 << 24
Column = list[Index]


def columns_of(ring: Ring, claims: Claims, length: int) -> list[list[Column]]:
    """Cut the new transitions of each lane into columns. Without a writer, the rest is one too."""
    found = []
    for number, lane in enumerate(ring.lanes):
        rows = [(number, seq) for seq in lane.transitions() if seq >= claims.ends.get(number, 0)]
        cut = [rows[at : at + length] for at in range(0, len(rows), length)]
        found.append([one for one in cut if len(one) == length or not lane.held])
    return found


def is_ready(ring: Ring, form: Options, columns: list[list[Column]]) -> bool:
    """Whether enough lanes are ready for a block of all that is new."""
    ready = sum(map(bool, columns))
    others = [lane for lane, of in zip(ring.lanes, columns, strict=True) if not of]
    to_come = sum(lane.held for lane in others)
    if "lanes" not in form:
        return ready > 0 and not to_come
    if any(lane.held for lane in ring.lanes):
        to_come += sum(not lane.held and not lane.rows for lane in others)
    return ready >= max(1, min(int(form["lanes"]), ready + to_come))


def in_turns(columns: list[list[Column]], counts: list[int]) -> list[Column]:
    """Return the first columns of each lane: the first of every lane, then the second."""
    turns = range(max(counts, default=0))
    return [columns[n][at] for at in turns for n, count in enumerate(counts) if at < count]


@takes("news", on="s")
def news(world: World, step: Step, own: Sampler) -> Expect | None:
    """Draw all that is new, or a number of columns of rollouts."""
    ring, form = world.rings[own.ring], form_of(own.options, "Rollout")
    claims, size, most = claims_of(ring, own), step.get("batch"), step.get("at_most", MOST)
    if most < 1 or claims is None or claims.renewed:
        return Expect("SampleError")
    if world.appends_later() or (size is not None and (not form or "at_most" in step)):
        return None
    # The model does not follow what a block leaves of the pass of other samplers, nor rows that a
    # resize brings back.
    grown = any(lane.grown for lane in ring.lanes)
    plain = not own.options.get("form") and own.options.get("boundary", "mask") == "mask"
    if not plain and (not form or claims.left or claims.times > 1 or grown):
        claims.loose = True
    if ring.limits and not ring.limits.may_sample(1, ring.lanes):
        claims.loose = claims.loose or not ring.drawable()
        # An empty ring raises another error.
        return Expect("RateLimitTimeoutError", perhaps=("WaitTimeoutError", "SampleError"))
    chance, rows = Expect(perhaps=("WaitTimeoutError",)), list[Index]()
    columns = columns_of(ring, claims, form["length"]) if form else []
    if form and not claims.loose:
        enough = is_ready(ring, form, columns) if size is None else sum(map(len, columns)) >= size
        chance = Expect(None if enough else "WaitTimeoutError")
    elif not claims.loose:
        # All that there is: a wrong model may give rows out for ever.
        there = len(claims.left) + claims.times * len(ring.drawable())
        new = claims.next_rows(min(most, there), ring.lanes, need=1)
        if new is None:
            return None
        rows, chance = new, Expect(None if new else "WaitTimeoutError")
    if chance.error:
        return chance

    def check(outcome: Outcome) -> None:
        [batch] = outcome["batches"]
        if form:
            drawn = check_block(ring, own, claims, batch, columns, most if size is None else size)
        else:
            # Batches of ragged episodes have their bounds.
            drawn = len(batch.get("offsets", batch["index"])) - ("offsets" in batch)
            require(drawn <= most, True, "at most so many items")
            require(claims.loose or drawn == len(rows), True, "all items that are new")
            check_draw(world, own, batch, drawn, need=1)
        accounted(ring, drawn)()
        if own.counted:
            require(outcome["sampled"], own.sampled, "sampled")

    def imagine() -> None:
        own.batches += 1
        taken = [row for column in in_turns(columns, [len(of) for of in columns]) for row in column]
        taken = taken[: most if size is None else size * form["length"] if form else 0] + rows
        if form and not claims.loose:
            take(claims, taken)
        elif rows:
            claims.hand_out(rows, ring.lanes, need=1)
        accounted(ring, len(taken))()

    own.counted = own.counted and (plain or bool(form))
    chance.check, chance.imagine = check, imagine
    return chance


def take(claims: Claims, rows: Column) -> None:
    """Take transitions of a block as given out."""
    for number, seq in rows:
        given = claims.given[number, seq] = claims.given.get((number, seq), 0) + 1
        claims.ends[number] = max(claims.ends.get(number, 0), seq + 1)
        if given > claims.times:
            raise MismatchError(f"{(number, seq)} was given out {given} times")


def check_block(
    ring: Ring,
    own: Sampler,
    claims: Claims,
    batch: Arrays,
    columns: list[list[Column]],
    most: int,
) -> int:
    """Compare a block of rollouts with the model. Return its number of transitions."""
    options, batch = own.options, without_tag(own.options, batch)
    places = batch["index"]
    found = [[row for row in pairs(places[:, n]) if row] for n in range(places.shape[1])]
    require(len(places), options["form"]["length"], "places of a column")
    require(1 <= len(found) <= most, True, "columns of the block")
    if not claims.loose:
        counts = [sum(column[0][0] == n for column in found) for n in range(len(ring.lanes))]
        level = min((c for c, of in zip(counts, columns, strict=True) if c < len(of)), default=most)
        require(max(counts) <= level + 1, True, f"lanes give columns in turn, {counts}")
        require(found, in_turns(columns, counts), "columns of the block")
        require(len(found), min(most, sum(map(len, columns))), "number of columns")
    there = np.arange(len(places))[:, None] < [len(column) for column in found]
    rows = [found[n][at] for at, n in np.argwhere(there).tolist()]
    own.batches, own.sampled = own.batches + 1, own.sampled + len(rows)
    take(claims, rows)
    shown: Options = {k: options[k] for k in ("columns", "copy", "history") if k in options}
    learned = ring.tables.get(options.get("learned", ""))
    known = learned if isinstance(learned, Learned) else None
    expected: Arrays = {}
    for key, values in expected_batch(ring, shown, rows, learned=known).items():
        expected[key] = np.full((*there.shape, *values.shape[1:]), -(key == "index"), values.dtype)
        expected[key][there] = values
    if "truncated" in expected:
        for n, column in enumerate(found):
            for at, ((lane, seq), after) in enumerate(pairwise(column)):
                # An episode that was cut counts as truncated.
                ends = ring.lanes[lane].rows[seq].flags & (TERMINATED | TRUNCATED)
                expected["truncated"][at, n] |= after[1] > seq + 1 and not ends
            if len(column) < len(places):
                # Nothing of a short column goes on.
                lane, seq = column[-1]
                ends = ring.lanes[lane].rows[seq].flags & (TERMINATED | TRUNCATED)
                expected["truncated"][len(column) - 1, n] |= not ends
    compare(batch, expected | {"mask": there})
    return len(rows)
