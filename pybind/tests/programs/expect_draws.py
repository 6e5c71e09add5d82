"""Expected outcomes of draws: which batches a sampler may draw, and which errors it raises."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
from batches import (
    Options,
    check_batch,
    check_episodes,
    compare,
    form_of,
    whole_episodes,
    window_by_column,
    windows_of,
    without_tag,
)
from columns import OBS, Arrays, pairs
from model import Index
from model_tables import MANY, Claims, Learned, Priorities
from world import Expect, MismatchError, Outcome, Ring, Sampler, Step, World, require, takes

BY_PRIORITY = ("Priority", "Largest", "Smallest")
CLAIMS = ("Epoch", "Consume")
OF_EPISODES = ("uniform", "fifo", "lifo", "Priority", *CLAIMS)


def kind_of(options: Options) -> str:
    """Return the name of a selector."""
    kind: str = options.get("select", {}).get("kind", "uniform")
    return kind


def table_name(options: Options) -> str:
    """Return the name of the table that a selector uses."""
    kind = kind_of(options)
    default = "priority" if kind in BY_PRIORITY else kind.lower()
    return str(options.get("select", {}).get("table", default))


def claims_of(ring: Ring, own: Sampler) -> Claims | None:
    table = ring.tables.get(table_name(own.options))
    return table if isinstance(table, Claims) and kind_of(own.options) in CLAIMS else None


def priorities_of(ring: Ring, own: Sampler) -> Priorities | None:
    table = ring.tables.get(table_name(own.options))
    is_one = isinstance(table, Priorities) and kind_of(own.options) in BY_PRIORITY
    return table if is_one and isinstance(table, Priorities) else None


def eligible(ring: Ring, options: Options) -> list[Index]:
    """List the transitions, or first ones of whole episodes, that a sampler may draw."""
    ring = ring.without_old(options.get("max_age"))
    if form_of(options, "WholeEpisodes"):
        return list(whole_episodes(ring, options))
    asked = windows_of(options)
    return [(n, seq) for n, seq in ring.drawable() if asked.is_drawn(ring.lanes[n], seq)]


def refused(ring: Ring, options: Options) -> str | None:
    """Return the error with which a ring refuses options, or None."""
    asked, kind, history = windows_of(options), kind_of(options), options.get("history")
    others = any(options.get(name) for name in ("future", "n_step", "hindsight"))
    sequence, episodes = form_of(options, "Sequence"), form_of(options, "WholeEpisodes")
    rollout = form_of(options, "Rollout")
    boundary = options.get("boundary", "mask")
    wrong = asked.rows > ring.lane_capacity and not episodes
    if "max_age" in options:
        # Whole windows must be young, and the smallest mass of a table may be that of an old row.
        whole = bool(sequence) or (boundary == "reject" and not options.get("form"))
        wrong |= options["max_age"] < (asked.past + asked.future if whole else 1)
        wrong |= options.get("select", {}).get("normalize") == "table"
    wrong |= isinstance(history, dict) and "columns" in options
    if sequence:
        wrong |= others or history is not None or (boundary == "clamp" and kind in BY_PRIORITY)
        wrong |= not 1 <= sequence.get("stride", 1) <= sequence["length"]
    elif episodes:
        wrong |= not 1 <= episodes.get("max_length", 1) < ring.lane_capacity
        wrong |= others or bool(options.get("learned")) or boundary != "mask"
        wrong |= kind not in OF_EPISODES
        wrong |= episodes.get("by_length", False) and kind != "uniform"
        # A window of single rows by column only selects columns.
        by_column = isinstance(history, dict) and "first" in history.values()
        wrong |= asked.history is not None or by_column
    elif rollout:
        by_column = isinstance(history, dict) and "first" in history.values()
        wrong |= others or boundary != "mask" or asked.history is not None or by_column
        wrong |= kind != "Consume" or options["select"].get("shuffle", False)
        wrong |= not 1 <= rollout["length"] <= (ring.lane_capacity - 1) // 2
        wrong |= not 1 <= rollout.get("lanes", 1) <= len(ring.lanes)
    wrong |= bool(options.get("hindsight")) and (ring.schema != "goals" or bool(asked.n_step))
    wrong |= asked.gamma == "discount" and ring.schema not in ("flat", "dict")
    return "SampleError" if wrong else None


def table_of(ring: Ring, options: Options) -> Priorities | Claims | None:
    """Return the table that a selector makes if there is none."""
    select, kind = options.get("select", {}), kind_of(options)
    if kind in BY_PRIORITY:
        stride = windows_of(options).stride or 1
        if form_of(options, "WholeEpisodes"):
            # Only the first transition of an episode has a priority.
            stride = 2**32 - 1
        rows, by_rank = -(-ring.lane_capacity // 8) * 8, select.get("by") == "rank"
        alpha = 1.0 if by_rank else select.get("alpha", 0.6)
        held = select.get("initial") == "held"
        return Priorities(alpha, select.get("eps", 1e-6), rows, stride, by_rank, held)
    if kind in CLAIMS:
        renewed, times = kind == "Epoch", select.get("max_times_sampled", 1)
        return Claims(renewed, times, select.get("shuffle", renewed), select.get("seed", 0))
    return None


@takes("sampler", on="ring")
def sampler(world: World, step: Step, ring: Ring) -> Expect | None:
    options = step["options"]
    if error := refused(ring, options):
        return Expect(error)
    learned = options.get("learned")
    if learned and not isinstance(ring.tables.get(learned), Learned):
        return Expect("ExistsError" if learned in ring.tables else "NotFoundError")
    if made := table_of(ring, options):
        known = ring.tables.setdefault(table_name(options), made)
        if not made.agrees(known):
            return Expect("ExistsError")
        if isinstance(known, Claims):
            # Rows that another sampler holds for a failed batch are not given to this one.
            known.loose |= any(own.holds for own in sharing(world, step["ring"], options))
    own = Sampler(step["ring"], step.get("by", 0), copy.deepcopy(options))
    world.samplers[step["s"]] = own

    def check(outcome: Outcome) -> None:
        if table := priorities_of(ring, own):
            table.lane_rows = outcome["lane_rows"]

    return Expect(check=check)


def sharing(world: World, ring: str, options: Options) -> list[Sampler]:
    """List the samplers that have the table that options name."""
    name = table_name(options)
    return [
        own
        for own in world.samplers.values()
        if (own.ring, table_name(own.options)) == (ring, name)
    ]


def is_part(ring: Ring, options: Options) -> bool:
    """Whether an array of a batch is part of a larger one."""
    windows = window_by_column(ring.schema, options)
    shared = [name for name in windows if name in OBS[ring.schema] and windows[name] != "first"]
    if options.get("copy") or options.get("form"):
        return bool(shared) and not options.get("copy")
    ahead = options.get("future", 0) > 0 and any(one != "first" for one in windows.values())
    return ahead or any(windows[name] is not None for name in shared)


def accounted(ring: Ring, items: int) -> Callable[[], None]:
    """Return a function that counts items as drawn."""

    def account() -> None:
        if ring.limits:
            ring.limits.samples += items

    return account


@takes("sample", "batches", on="s")
def sample(world: World, step: Step, own: Sampler) -> Expect | None:
    ring, form = world.rings[own.ring], form_of(own.options, "WholeEpisodes")
    count, size, is_ahead = step.get("count", 1), step["batch"], step["do"] == "batches"
    into, fails = step.get("into"), step.get("fails")
    if size == 0:
        return Expect("SampleError")
    if form_of(own.options, "Rollout"):
        # Blocks are drawn into new memory. The step `news` draws them.
        return Expect("SampleError") if is_ahead or into == "dict" else None
    if (is_ahead or into) and form and (form["layout"] == "ragged" or "max_length" not in form):
        return Expect("SampleError") if is_ahead else None
    claims = claims_of(ring, own)
    if into == "dict" and is_part(ring, own.options):
        return None if claims else Expect("SampleError", perhaps=("RateLimitTimeoutError",))
    if is_ahead and step.get("prefetch") and claims:
        # Rows drawn ahead are claimed. They are given back only if none was claimed after them.
        claims.loose = True
    chance = chance_of(world, own, size * count if claims else size)
    too_many = ring.limits and not ring.limits.may_sample(size * count, ring.lanes)
    if chance is None or (not chance.error and count > 1 and too_many):
        return None
    if chance.error and not is_ahead:
        own.holds = own.holds or chance.error == "WaitTimeoutError"
        return chance
    if is_ahead and (chance.error or chance.perhaps):
        return None
    if fails:
        # A transform that fails once: the same batch is drawn again.
        if into or chance.perhaps or not own.options.get("transform"):
            return None
        chance.values, own.counted = {"repeats": True}, False

    def account() -> None:
        accounted(ring, size * count)()

    def check(outcome: Outcome) -> None:
        require(len(outcome["batches"]), count, "batches")
        for batch in outcome["batches"]:
            check_draw(world, own, batch, size)
        account()
        if own.counted and not form:
            require(outcome["sampled"], own.sampled, "sampled")

    def imagine() -> None:
        account()
        own.batches += count
        for _ in range(count if claims else 0):
            imagine_claims(ring, own, size)

    chance.check, chance.imagine = check, imagine
    return chance


def imagine_claims(ring: Ring, own: Sampler, size: int) -> None:
    """Take a batch as drawn, as far as the model knows it."""
    if claims := claims_of(ring, own):
        claims.hand_out(claims.next_rows(size, ring.lanes) or [], ring.lanes)


def chance_of(world: World, own: Sampler, size: int) -> Expect | None:
    """Return the expected outcome of a draw. None: the model does not know."""
    ring = world.rings[own.ring]
    claims, limits = claims_of(ring, own), ring.limits
    is_queue = claims is not None and not claims.renewed
    times = claims.times if claims else 1
    if is_queue and size > times * ring.most:
        chance: Expect | None = Expect("SampleError")
    elif limits and not limits.may_sample(size, ring.lanes):
        chance = Expect("RateLimitTimeoutError")
        if claims and is_queue and not ring.drawable():
            # If the empty ring was once filled, only the table makes the draw wait.
            claims.loose, chance.perhaps = True, ("WaitTimeoutError",)
        if form_of(own.options, "WholeEpisodes") and not ring.drawable():
            # A ring without a whole episode raises another error.
            chance.perhaps = ("SampleError",)
    else:
        chance = chance_of_rows(world, own, size)
    fails = chance is not None and (chance.error or chance.perhaps)
    if world.appends_later() and (fails or not is_plain(own.options)):
        # The waiting append may go on: it may add what the draw lacks, or overwrite what it needs.
        return None
    return chance


def is_plain(options: Options) -> bool:
    """Whether options allow every transition to be drawn, in any order."""
    is_order = kind_of(options) not in ("uniform", "Recency", "Priority")
    return not (is_order or options.get("form") or options.get("boundary", "mask") != "mask")


def chance_of_rows(world: World, own: Sampler, size: int) -> Expect | None:
    """Return the expected outcome of a draw that the limiter allows."""
    ring, kind = world.rings[own.ring], kind_of(own.options)
    if claims := claims_of(ring, own):
        return chance_of_claims(world, own, claims, size)
    found = eligible(ring, own.options)
    table = priorities_of(ring, own)
    if table:
        table.enter(ring.lanes)
        kept = set(table.rows(ring.lanes))
        found = [index for index in found if index in kept]
    if kind == "LaneWeights":
        weights = own.options["select"]["weights"]
        found = [index for index in found if weights[index[0]] > 0]
    if len(found) < (size if kind in ("fifo", "lifo", "Largest", "Smallest") else 1):
        return Expect("SampleError")
    if table and kind == "Priority":
        masses = table.masses(ring.lanes, alpha_of(own, number_of(own)))
        share = sum(masses[at] for at in found) / sum(masses.values())
        # A draw may not find eligible transitions that have a small share of all priorities.
        return Expect(perhaps=("SampleError",) if share < 0.02 else ())
    return Expect()


def chance_of_claims(world: World, own: Sampler, claims: Claims, size: int) -> Expect | None:
    ring, asked = world.rings[own.ring], windows_of(own.options)
    some = bool(own.options.get("form")) or asked.boundary != "mask"
    if some or claims.loose:
        # The model does not follow which transitions or episodes a pass leaves out.
        claims.loose = True
        if not claims.renewed:
            return Expect(perhaps=("WaitTimeoutError",))
        return Expect(None if eligible(ring, own.options) else "SampleError")
    rows = claims.next_rows(size, ring.lanes)
    if rows is None or len(rows) == size:
        return None if rows is None else Expect()
    if claims.renewed:
        return Expect("SampleError")
    # A draw that times out keeps its claims, so that no other sampler draws these rows.
    others = [of for of in sharing(world, own.ring, own.options) if of is not own]
    return None if others else Expect("WaitTimeoutError")


def number_of(own: Sampler) -> int:
    """Return the number of the next batch of a sampler, among those of all that share its draws."""
    rank, learners = own.options.get("share", (0, 1))
    return int(rank + own.batches * learners)


def alpha_of(own: Sampler, number: int) -> float:
    """Return the exponent of ranks by which a batch is drawn."""
    alpha = own.options["select"].get("alpha", 0.6)
    if isinstance(alpha, list):
        first, last, batches = alpha
        alpha = first + (last - first) * min(number / batches, 1.0)
    return float(alpha)


def check_draw(world: World, own: Sampler, batch: Arrays, size: int, *, need: int = MANY) -> None:
    ring, options, kind = world.rings[own.ring], own.options, kind_of(own.options)
    claims = claims_of(ring, own)
    number, own.batches = number_of(own), own.batches + 1
    if world.appends_later():
        # The draw may have let a waiting append go on, before or after its rows were read.
        own.counted = False
        if claims:
            claims.loose = True
        return
    own.sampled += size
    batch = without_tag(options, batch)
    of_episodes = form_of(options, "WholeEpisodes")
    young = ring.without_old(options.get("max_age"))
    index = (check_episodes if of_episodes else check_batch)(young, options, batch, size)
    if table := priorities_of(ring, own):
        check_priorities(ring, own, table, batch, index, number)
    elif kind in ("fifo", "lifo"):
        check_order(young, options, index, oldest=kind == "fifo")
    elif kind == "LaneWeights":
        weights = options["select"]["weights"]
        require([n for n, _ in index if not weights[n] > 0], [], "lanes without a weight")
    elif kind == "lane_strata":
        check_strata(young, options, index, number)
    elif claims and (wrong := claims.hand_out(index, ring.lanes, need)):
        raise MismatchError(wrong)


def check_order(ring: Ring, options: Options, index: list[Index], *, oldest: bool) -> None:
    """Check that the oldest or newest transitions of all lanes come in order."""

    def rank(at: Index) -> int:
        lane = ring.lanes[at[0]]
        return at[1] - lane.first if oldest else lane.head - at[1]

    ranks = sorted(rank(at) for at in eligible(ring, options))[: len(index)]
    require([rank(at) for at in index], ranks, "ranks in order")
    require(len(set(index)), len(index), "different transitions")


def check_strata(ring: Ring, options: Options, index: list[Index], number: int) -> None:
    """Check that lanes are drawn in turn, if every lane with rows has eligible transitions."""
    filled = [n for n, lane in enumerate(ring.lanes) if lane.head - lane.first > 1]
    lanes = {n for n, _ in eligible(ring, options)}
    if options.get("share") or lanes != set(filled):
        return
    turns = [filled[(number * len(index) + at) % len(filled)] for at in range(len(index))]
    require([n for n, _ in index], turns, "lanes in turn")


def check_priorities(
    ring: Ring, own: Sampler, table: Priorities, batch: Arrays, index: list[Index], number: int
) -> None:
    """Check weights of draws by priority, and the order of the largest or smallest."""
    select = own.options["select"]
    known = set(table.rows(ring.lanes))
    require([at for at in index if at not in known], [], "transitions without a priority")
    powers = [table.powers[at] for at in index]
    if select["kind"] != "Priority":
        require("weight" in batch, False, "weights of an order")
        sign = -1 if select["kind"] == "Largest" else 1
        there = [at for at in eligible(ring, own.options) if at in known]
        ranks = sorted(sign * table.powers[at] for at in there)[: len(index)]
        if not np.allclose([sign * power for power in powers], ranks, rtol=1e-4):
            raise MismatchError(f"powers {powers} were drawn, the model has {ranks} in order")
        require(len(set(index)), len(index), "different transitions")
        return
    beta = select.get("beta", 0.4)
    if isinstance(beta, list):
        beta = min(1.0, beta[0] + (1 - beta[0]) * number / beta[1])
    of_table = select.get("normalize") == "table"
    masses = table.masses(ring.lanes, alpha_of(own, number))
    least = min(masses[at] for at in (known if of_table else index))
    wanted = np.array([(least / masses[at]) ** beta for at in index])
    if batch["weight"].dtype != np.float32 or not np.allclose(batch["weight"], wanted, rtol=1e-3):
        raise MismatchError(f"weights {batch['weight'].tolist()}, the model has {wanted.tolist()}")


@takes("block", on="s")
def block(world: World, step: Step, own: Sampler) -> Expect | None:
    """Draw independent items, with the mass of all that could be drawn."""
    ring, options, size = world.rings[own.ring], own.options, step["batch"]
    kind, select = kind_of(options), options.get("select", {})
    refused = kind not in ("uniform", "Priority") or select.get("stratified")
    refused = refused or select.get("by") == "rank" or "hindsight" in options
    refused = refused or "max_age" in options
    if refused or size == 0 or options.get("form", {}).get("kind") in ("WholeEpisodes", "Rollout"):
        return Expect("SampleError")
    if world.appends_later():
        return None
    if ring.limits and not ring.limits.may_sample(size, ring.lanes):
        return Expect("RateLimitTimeoutError")
    found, table = eligible(ring, options), priorities_of(ring, own)
    masses = dict.fromkeys(found, 1.0)
    if table:
        table.enter(ring.lanes)
        masses = table.masses(ring.lanes, 1.0)
    inserts = ring.limits.inserts if ring.limits else None
    expected = Expect(values={"count": len(found), "inserts": inserts})

    def check(outcome: Outcome) -> None:
        batch, q = without_tag(options, outcome["batch"]), outcome["q"]
        is_there = batch["index"] >= 0
        drawn = {key: values[is_there] for key, values in batch.items()}
        index, number, there = list[Index](), number_of(own), int(is_there.sum())
        if there:
            index = check_batch(ring, options, drawn, there)
        if table and there:
            check_priorities(ring, own, table, drawn, index, number)
        largest = table.largest_of_new(ring.lanes) if table else 1.0
        mass = sum(masses.values()) if found else 0.0
        said = [*q[is_there], *(outcome[name] for name in ("mass", "q_min", "q_new"))]
        wanted = [*(masses[at] for at in index), mass, min(masses.values(), default=0.0), largest]
        if not np.allclose(said, wanted, rtol=1e-4):
            raise MismatchError(f"masses {said}, the model has {wanted}")
        rest = [batch[key][~is_there].any() for key in batch if key != "index"]
        require((q[~is_there].any(), any(rest)), (False, False), "values of rejected items")
        # Only rows of the table that may not be drawn are rejected.
        most = 0 if found and set(found) == set(masses) else size
        require(outcome["rejected"] == size - len(index) <= most, True, "rejected items")
        own.batches, own.sampled = own.batches + 1, own.sampled + len(index)
        accounted(ring, len(index))()
        if own.counted:
            require(outcome["sampled"], own.sampled, "sampled")

    def imagine() -> None:
        own.batches += 1
        accounted(ring, size if found else 0)()

    expected.check, expected.imagine = check, imagine
    return expected


@takes("sample_once", on="ring")
def sample_once(world: World, step: Step, ring: Ring) -> Expect | None:
    options, size = step.get("options", {}), step["batch"]
    if error := refused(ring, options):
        return Expect(error)
    own = Sampler(step["ring"], step.get("by", 0), options)
    chance = chance_of(world, own, size)
    ring.drawers |= {own.by} if chance else set()
    if chance and not chance.error:
        drawn(chance, ring, size, lambda said: check_draw(world, own, said["batch"], size))
    return chance


def drawn(expected: Expect, ring: Ring, items: int, check: Callable[[Outcome], None]) -> Expect:
    """Let an expected outcome count its items as drawn."""

    def checked(outcome: Outcome) -> None:
        check(outcome)
        accounted(ring, items)()

    expected.check, expected.imagine = checked, accounted(ring, items)
    return expected


def is_sure(world: World, own: Sampler, size: int, items: int) -> bool:
    """Whether draws of a size certainly succeed, with a total number of items."""
    ring = world.rings[own.ring]
    chance = chance_of(world, own, size)
    may = not ring.limits or ring.limits.may_sample(items, ring.lanes)
    return chance is not None and not chance.error and not chance.perhaps and may


@takes("twin", on="s")
def twin(world: World, step: Step, own: Sampler) -> Expect | None:
    """Make a sampler from the state of another one: both draw the same next batch."""
    ring, at, size = world.rings[own.ring], step.get("at", 0), step["batch"]
    if size < 1 or world.appends_later() or at not in ring.handles or at in world.pending:
        return None
    if claims_of(ring, own) or own.options.get("hindsight"):
        return None
    if not is_sure(world, own, 2 * size, 2 * size):
        return None

    def check(outcome: Outcome) -> None:
        check_draw(world, own, outcome["batch"], size)
        compare(outcome["twin"], outcome["batch"])

    def imagine() -> None:
        own.batches += 1
        accounted(ring, 2 * size)()

    expected = drawn(Expect(), ring, 2 * size, check)
    expected.imagine = imagine
    return expected


@takes("shares", on="ring")
def shares(world: World, step: Step, ring: Ring) -> Expect | None:
    """Draw the batches of one seed by one sampler, and by several that share them."""
    options, size = step["options"], step["batch"]
    if kind_of(options) in CLAIMS or world.appends_later() or refused(ring, options):
        return None
    own = Sampler(step["ring"], step.get("by", 0), options)
    items = 2 * step["count"] * step["world"] * size
    if not is_sure(world, own, size, items):
        return None

    def check(outcome: Outcome) -> None:
        for alone, shared in zip(outcome["alone"], outcome["shared"], strict=True):
            check_draw(world, own, alone, size)
            compare(shared, alone)

    return drawn(Expect(), ring, items, check)


@takes("close_sampler", on="s")
def close_sampler(world: World, step: Step, own: Sampler) -> Expect | None:
    """Close a sampler, which gives back claimed rows that it has not returned, if it can."""
    claims = claims_of(world.rings[own.ring], own)
    if claims and own.holds:
        claims.loose = True
    del world.samplers[step["s"]]
    return Expect()


def check_waited(world: World, own: Sampler, batch: Arrays, size: int) -> None:
    """Check the transitions of a draw that waited, while more may have been appended."""
    ring, index = world.rings[own.ring], pairs(batch["index"])
    require(len(index), size, "items of the batch")
    require([at for at in index if at[1] >= ring.lanes[at[0]].head - 1], [], "unknown transitions")
    own.counted, own.batches = False, own.batches + 1
    if claims := claims_of(ring, own):
        # Drawn rows may have been overwritten since.
        claims.loose = True
        if wrong := claims.hand_out(index, ring.lanes):
            raise MismatchError(wrong)
