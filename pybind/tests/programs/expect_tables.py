"""Expected outcomes of gathers, of updates of priorities, and of learned columns."""

from __future__ import annotations

import numpy as np
from batches import Options, compare, expected_batch, windows_of, without_tag
from columns import LEARNED
from expect_draws import BY_PRIORITY, is_part, kind_of, priorities_of, refused, table_name
from model import Index
from model_tables import Learned
from world import Expect, Opened, Outcome, Ring, Sampler, Step, World, takes


@takes("gather", on="ring")
def gather(world: World, step: Step, ring: Ring) -> Expect | None:
    return gathered(ring, step.get("options", {}), step)


@takes("gather_by", on="s")
def gather_by(world: World, step: Step, own: Sampler) -> Expect | None:
    """Gather named transitions with the options of a sampler."""
    ring, own.counted = world.rings[own.ring], False
    if step.get("into") == "dict" and is_part(ring, own.options):
        return Expect("SampleError", perhaps=("LappedError",))
    return gathered(ring, own.options, step)


def gathered(ring: Ring, options: Options, step: Step) -> Expect:
    index, missing = [(n, seq) for n, seq in step["index"]], step["missing"]
    if (
        options.get("form", {}).get("kind") in ("WholeEpisodes", "Rollout")
        or refused(ring, options)
        or not index
    ):
        return Expect("SampleError")
    errors = [error for error in (why_missing(ring, options, at) for at in index) if error]
    if missing == "error" and errors:
        # The library reports one of the errors, not always that of the first index.
        return Expect(errors[0], perhaps=tuple(set(errors)))
    learned = ring.tables.get(options.get("learned", ""))
    known = learned if isinstance(learned, Learned) else None
    shown = {name: value for name, value in options.items() if name != "hindsight"}

    def check(outcome: Outcome) -> None:
        expected = expected_batch(ring, shown, index, missing=missing == "mask", learned=known)
        batch = without_tag(options, outcome["batch"])
        compare({k: v for k, v in batch.items() if k not in ("weight", "relabelled")}, expected)

    return Expect(check=check)


def why_missing(ring: Ring, options: Options, at: Index) -> str | None:
    """Return the error of a transition that cannot be gathered."""
    n, seq = at
    if not ring.has(at):
        return "SampleError"
    lane = ring.lanes[n]
    if seq < lane.first:
        return "LappedError"
    is_there = lane.starts(seq) and windows_of(options).fits(lane, seq)
    return None if is_there else "SampleError"


@takes("update", on="s")
def update(world: World, step: Step, own: Sampler) -> Expect | None:
    ring = world.rings[own.ring]
    if kind_of(own.options) not in BY_PRIORITY:
        return Expect("SampleError")
    table = priorities_of(ring, own)
    if not table:
        return None
    given = [((n, seq), p) for (n, seq), p in zip(step["index"], step["priority"], strict=True)]
    if any(not ring.has(at) or priority < 0 for at, priority in given):
        return Expect("SampleError")
    if own.options.get("form", {}).get("kind") == "WholeEpisodes":
        lanes = [(ring.lanes[n], seq) for (n, seq), _ in given]
        if any(seq >= lane.first and lane.rows[seq].t for lane, seq in lanes):
            return Expect("SampleError")
    return Expect(values={"dropped": table.update(given, ring.lanes)})


@takes("table", on="ring")
def learned_table(world: World, step: Step, ring: Ring) -> Expect | None:
    known, columns = ring.tables.get(step["name"]), step.get("columns")
    if known is None:
        if columns is None:
            return Expect("NotFoundError")
        known = ring.tables[step["name"]] = Learned(list(columns))
    if not isinstance(known, Learned) or (columns is not None and columns != known.columns):
        return Expect("ExistsError")
    world.learned[step["t"]] = Opened(step["ring"], step.get("by", 0), step["name"])
    return Expect(values={"columns": {name: LEARNED[name] for name in known.columns}})


@takes("set_values", "get_values", on="t")
def values(world: World, step: Step, own: Opened) -> Expect | None:
    ring, table = world.rings[own.ring], world.rings[own.ring].tables.get(own.table)
    index = [(n, seq) for n, seq in step["index"]]
    if not isinstance(table, Learned):
        return None
    there = [ring.has(at) and at[1] >= ring.lanes[at[0]].first for at in index]
    if step["do"] == "set_values":
        if not all(map(ring.has, index)) or set(step["values"]) - set(table.columns):
            return Expect("SampleError")
        for name, given in step["values"].items():
            for at, value, is_there in zip(index, given, there, strict=True):
                if is_there:
                    table.values.setdefault(at, {})[name] = value
        return Expect(values={"dropped": there.count(False)})

    def check(outcome: Outcome) -> None:
        expected = {"index": outcome["values"]["index"]}
        for name in table.columns:
            known = [
                table.values.get(at, {}).get(name) if is_there else None
                for at, is_there in zip(index, there, strict=True)
            ]
            expected[name] = np.array([value or 0 for value in known]).astype(LEARNED[name])
            expected[f"{name}_set"] = np.array([value is not None for value in known])
        compare(outcome["values"], expected)

    return Expect(check=check)


@takes("remove_table", on="ring")
def remove_table(world: World, step: Step, ring: Ring) -> Expect | None:
    name = step["table"]
    if name not in ring.tables:
        return Expect("NotFoundError")
    names = [
        n
        for own in world.samplers.values()
        if own.ring == step["ring"]
        for n in (table_name(own.options), own.options.get("learned"))
    ]
    names += [own.table for own in world.learned.values() if own.ring == step["ring"]]
    if name in names:
        return None
    del ring.tables[name]
    return Expect()
