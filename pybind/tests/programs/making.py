"""Makes programs from seeds: steps that are legal by the model, and some that are not.

A program is a dict of its seed, its number of processes, and its steps. A step is a dict of `do`,
its name, and its arguments. All values are JSON. `columns.py` explains tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import expect_blocks  # noqa: F401 - registers the steps that the model takes
import expect_rings  # noqa: F401
import expect_tables  # noqa: F401
from batches import form_of, windows_of
from columns import OBS
from expect_draws import BY_PRIORITY, eligible, kind_of
from expect_waits import ended
from expect_writers import held_back
from making_options import (
    Dice,
    episode_options,
    learned_columns,
    limits,
    ring_options,
    rollout_options,
    sampler_options,
    select,
    sequence_options,
    window_options,
)
from model import NEXT_STEP, Index
from model_tables import Learned, Priorities
from world import Program, Ring, Step, World, Writer

# Most appends by which `make_append_later` tries to reach the limit of a writer.
MOST_APPENDS = 12
# Priorities of updates: never 1, the first priority of new rows.
PRIORITIES = (0.0, 0.25, 0.5, 2.0, 2.05, 7.0, 7.2)


# Weights by which actions are chosen.
# fmt: off
OFTEN = {
    "create": 0.25, "attach": 4, "kill": 4, "clear": 0.7, "drop_episode": 1.5, "resize": 0.8,
    "limiter": 1.5, "snapshot": 1.6, "load": 4, "wait": 0.7, "order": 0.4, "look": 0.5,
    "fork": 0.12, "rows": 0.4, "lease": 2, "close_lease": 1.5,
    "writer": 4, "append": 14, "extend": 6, "reserve": 3, "restart": 2.5, "close_writer": 1.5,
    "sampler": 6, "sample": 16, "sweep": 4, "sample_once": 2, "shares": 0.7, "gather": 3,
    "close_sampler": 0.7, "update": 6, "table": 1.2, "values": 2.5, "remove_table": 0.3,
    "wait_later": 3, "append_later": 5, "draw_later": 5, "blocks": 3,
}
# fmt: on
FIRST = ("create", "attach", "writer", "append")


def make(seed: int, *, processes: int = 1) -> Program:
    """Make the program of a seed."""
    maker = Maker(f"{seed}/{processes}", processes)
    # Each program leaves out some actions, so that others follow one another more often.
    weights = [
        weight * (1 if action in FIRST else maker.choice((0, 0.5, 1, 2)))
        for action, weight in OFTEN.items()
    ]
    for first in FIRST:
        getattr(maker, f"make_{first}")()
    for _ in range(maker.randint(15, 60)):
        if not maker.world.rings:
            maker.make_create()
        [action] = maker.choices(list(OFTEN), weights)
        getattr(maker, f"make_{action}")()
    return {"seed": seed, "processes": processes, "steps": maker.steps}


class Maker(Dice):
    def __init__(self, seed: str, processes: int) -> None:
        super().__init__(seed)
        self.processes = processes
        self.world, self.steps = World(), list[Step]()
        self.token, self.names = 1, 0
        # By writer: the probability of a `next_obs`, and the token with which an extend goes on.
        self.gives_next: dict[str, float] = {}
        self.resumes: dict[str, int] = {}

    def add(self, do: str, **given: Any) -> bool:
        """Add a step if it can be taken, and take it in the model."""
        step = {"do": do} | {k: v for k, v in given.items() if v is not None and v is not False}
        if not step.get("by"):
            step.pop("by", None)
        expected = self.world.take(step)
        if expected is None:
            return False
        if not expected.error and expected.imagine:
            expected.imagine()
        for by in list(self.world.pending):
            if (ends := ended(self.world, by)) and ends.imagine:
                ends.imagine()
        self.steps.append(step)
        return True

    def name(self, letter: str) -> str:
        self.names += 1
        return f"{letter}{self.names}"

    def tokens(self, count: int = 1) -> int:
        """Return the first of some tokens that no other row has."""
        self.token += count
        return self.token - count

    def pick(self, kind: dict[str, Any]) -> Any:
        """Choose an object with its name, or None if there is none."""
        return self.choice(list(kind.items())) if kind else None

    def some_index(self, ring: Ring, most: int, wrong: float) -> list[Index]:
        """Choose transitions of a ring, and perhaps rows that start no transition."""
        there, found = ring.drawable(), list[Index]()
        if there:
            found = [self.choice(there) for _ in range(self.randint(1, most))]
        while self.chance(wrong):
            lane = self.randrange(len(ring.lanes))
            found.append((lane, self.randrange(ring.lanes[lane].head + 1)))
        self.shuffle(found)
        return found

    def on_ring(self, do: str, **given: Any) -> bool:
        """Add a step on some ring; a function gives an argument for the ring."""
        chosen = self.pick(self.world.rings)
        if not chosen:
            return False
        name, ring = chosen
        by = self.choice(sorted(ring.handles))
        said = {key: value(ring) if callable(value) else value for key, value in given.items()}
        return self.add(do, ring=name, by=by, **said)

    # Rings and processes.

    def make_create(self) -> None:
        private = self.processes == 1 and self.chance(0.5)
        by = self.randrange(self.processes)
        self.add("create", ring=self.name("r"), by=by, **ring_options(self, private=private))

    def make_attach(self) -> None:
        if self.processes > 1 and (chosen := self.pick(self.world.rings)):
            missing = [by for by in range(self.processes) if by not in chosen[1].handles]
            if missing:
                self.add("attach", ring=chosen[0], by=self.choice(missing))

    def make_kill(self) -> None:
        """Kill the second process, mostly while it has a writer, and go on."""
        writes = any(own.by == 1 for own in self.world.writers.values())
        if self.processes > 1 and (writes or self.chance(0.1)):
            self.add("kill", by=1)
            self.make_attach()
            self.make_writer()
            self.make_append()

    def make_clear(self) -> None:
        self.on_ring("clear")

    def make_drop_episode(self) -> None:
        def episode(ring: Ring) -> int | None:
            newest = max((lane.rows[-1].episode for lane in ring.lanes if lane.rows), default=0)
            return self.choice((None, self.randint(0, newest + 1)))

        def lane(ring: Ring) -> int:
            return self.randrange(len(ring.lanes) + self.chance(0.05))

        self.on_ring("drop_episode", lane=lane, episode=episode, older=self.chance(0.5))

    def make_resize(self) -> None:
        def capacity(ring: Ring) -> int:
            pending = [lane.grown * len(ring.lanes) for lane in ring.lanes if lane.grown]
            if pending and self.chance(0.8):
                return pending[0]
            return ring.lane_capacity * len(ring.lanes) + self.choice((0, 1, 5, 20, 60, 60, -1))

        self.on_ring("resize", capacity=capacity)

    def make_limiter(self) -> None:
        op = self.choice(("set", "enable", "disable", "reset", "ceiling"))

        def ceiling(ring: Ring) -> int | None:
            is_set = ring.limits and op == "ceiling" and self.chance(0.6)
            return ring.limits.inserts + self.randrange(9) if ring.limits and is_set else None

        def given(ring: Ring) -> dict[str, Any] | None:
            return limits(self, ring.most) if op == "set" else None

        self.on_ring("limiter", op=op, limits=given, inserts=ceiling)

    def make_snapshot(self) -> None:
        chosen = self.pick(self.world.rings)
        if not chosen:
            return
        name, ring = chosen
        by = self.choice(sorted(ring.handles))
        if self.chance(0.4) and len(self.world.samplers) < 6:
            # Priorities are saved with the rows.
            sampler = self.draw_by_priority(name, by, Priorities(0.6, 1e-6, 0), "p0.6-1e-06")
            if sampler in self.world.samplers:
                self.update_of(sampler)
        given = {"label": self.choice("xyz"), "replace": self.chance(0.7)}
        self.add("snapshot", ring=name, by=by, **given)

    def make_load(self) -> None:
        sources = [(key, label) for key, ring in self.world.rings.items() for label in ring.saved]
        if sources and len(self.world.rings) < 4:
            key, label = self.choice(sources)
            given = {"from": key, "label": "none" if self.chance(0.03) else label}
            by = self.randrange(self.processes)
            name = self.name("r")
            self.add(self.choice(("open", "load")), ring=name, by=by, **given)
            if name in self.world.rings:
                self.go_on_with(name, by)

    def go_on_with(self, name: str, by: int) -> None:
        """Write to a loaded ring, and draw by the priorities that it was saved with."""
        ring = self.world.rings[name]
        tables = {
            key: table
            for key, table in ring.tables.items()
            if isinstance(table, Priorities) and table.stride == 1 and not table.by_rank
        }
        if ring.snapshot or not tables:
            return
        self.add_writer(name, ring, by, 1, NEXT_STEP)
        self.make_append()
        key, table = self.pick(tables)
        self.draw_by_priority(name, by, table, key)

    def draw_by_priority(self, ring: str, by: int, table: Priorities, key: str) -> str:
        """Draw a batch of a ring by the priorities of a table; return the sampler."""
        select = {"kind": "Priority", "alpha": table.alpha, "eps": table.eps, "table": key}
        select |= {"initial": "held"} if table.held else {}
        select |= {"beta": 1.0, "stratified": False, "normalize": "batch"}
        sampler = self.name("s")
        self.add("sampler", s=sampler, ring=ring, by=by, seed=1, options={"select": select})
        if sampler in self.world.samplers:
            self.add("sample", s=sampler, by=by, batch=12)
        return sampler

    def make_wait(self) -> None:
        self.on_ring("wait", **{self.choice(("min_size", "rows")): self.randrange(60)})

    def make_order(self) -> None:
        self.on_ring("order")

    def make_look(self) -> None:
        self.on_ring("look")

    def make_fork(self) -> None:
        self.add("fork", by=self.randrange(self.processes))

    def rows_of(self, do: str, most: Callable[[int], int], **given: Any) -> None:
        if chosen := self.pick(self.world.rings):
            name, ring = chosen
            number, by = (self.randrange(len(ring.lanes)), self.choice(sorted(ring.handles)))
            lane = ring.lanes[number]
            start = self.randint(lane.first, lane.head)
            length = most(lane.head - start if do == "rows" else max(1, lane.capacity // 4))
            self.add(do, ring=name, by=by, lane=number, start=start, length=length, **given)

    def make_rows(self) -> None:
        self.rows_of("rows", lambda most: self.randint(0, most + self.chance(0.1)))

    def make_lease(self) -> None:
        self.rows_of(
            "lease", lambda most: self.randint(1, most + self.chance(0.1)), l=self.name("l")
        )

    def make_close_lease(self) -> None:
        if chosen := self.pick(self.world.leases):
            self.add("close_lease", l=chosen[0], by=chosen[1].by)

    # Writers.

    def make_writer(self) -> None:
        chosen = self.pick(self.world.rings)
        free = sum(not lane.held for lane in chosen[1].lanes) if chosen else 0
        if not chosen or len(self.world.writers) > 3 or (not free and self.chance(0.9)):
            return
        name, ring = chosen
        lanes = self.randint(1, max(1, free + self.chance(0.1)))
        mode = self.choice((NEXT_STEP, "same_step", "disabled")) if self.chance(0.9) else None
        self.add_writer(name, ring, self.choice(sorted(ring.handles)), lanes, mode)

    def add_writer(self, key: str, ring: Ring, by: int, lanes: int, mode: str | None) -> None:
        name = self.name("w")
        patient = ring.limits is not None and by > 0 and self.chance(0.5)
        self.gives_next[name] = self.choice((0.0, 0.5, 1.0, 1.0))
        self.add("writer", w=name, ring=key, by=by, lanes=lanes, mode=mode, patient=patient)
        if name in self.world.writers and self.chance(0.5):
            self.append_to(name)

    def make_append(self) -> None:
        if chosen := self.pick(self.world.writers):
            self.append_to(chosen[0])

    def append_to(self, name: str) -> None:
        for _ in range(self.randint(1, 4)):
            self.add("append", **self.one_append(name, self.world.writers[name]))

    def one_append(self, name: str, own: Writer) -> Step:
        """Return an append, mostly with the observation of the `next_obs` before it."""
        dice, ring = self, self.world.rings[own.ring]
        has_obs, obs, ends = bool(OBS[ring.schema]), list[int](), list[int]()
        for number, kept in zip(own.lanes, own.kept, strict=True):
            goes_on = kept is not None and self.chance(0.05 if kept.final else 0.9)
            obs.append(kept.obs if kept and goes_on else self.tokens())
            # A step after an end mostly ends no episode, as in next-step environments.
            resets = ring.lanes[number].has_ended() and self.chance(0.8)
            ends.append(dice.choice((1, 2, 3)) if self.chance(0.2) and not resets else 0)
        step: Step = {"w": name, "by": own.by, "obs": obs, "end": ends}
        if self.chance(self.gives_next[name]) and (has_obs or self.chance(0.05)):
            step["next"] = [self.tokens() for _ in obs]
        needs = any(ends) and own.mode != NEXT_STEP and has_obs
        needs = needs and (own.mode == "same_step" or "next" not in step or self.chance(0.3))
        if has_obs and needs != self.chance(0.03):
            step["final"] = [self.tokens() if end else 0 for end in ends]
        step["plain"] = len(obs) == 1 and self.chance(0.5)
        if self.chance(0.03):
            step["bad"] = dice.choice(("missing", "unknown", "shape", "dtype"))
        return step

    def make_extend(self) -> None:
        chosen = self.pick(self.world.writers)
        if not chosen:
            return
        name, own = chosen
        lanes, dice = len(own.lanes), self
        count = dice.choice((0, 1, 3, 6, 10, 20, 45)) if self.chance(0.98) else 1100
        first = self.resumes.get(name)
        goes_on = first is not None and all(
            kept is None or kept.final or kept.obs == first + 2 * place
            for place, kept in enumerate(own.kept)
        )
        if first is None or not goes_on or self.chance(0.2):
            first = self.tokens(2 * count * lanes + 2)
        self.resumes[name] = first + 2 * count * lanes
        self.token = max(self.token, self.resumes[name] + 2 * lanes)
        has_obs = bool(OBS[self.world.rings[own.ring].schema])
        given = {"first": first, "steps": count, "every": dice.choice((1, 2, 3, 5, 8, 1000))}
        given |= {
            "next": self.chance(self.gives_next[name]) and has_obs,
            "finals": self.chance(0.95),
        }
        self.add(
            "extend", w=name, by=own.by, how=dice.choice(("extend", "extend", "append")), **given
        )

    def make_reserve(self) -> None:
        writers = self.world.writers.items()
        chosen = self.pick(
            {name: own for name, own in writers if len(own.lanes) == 1 or self.chance(0.05)}
        )
        if chosen:
            name, own = chosen
            made = self.one_append(name, own)
            if not OBS[self.world.rings[own.ring].schema]:
                made.pop("next", None)
            given = {key: made[key][0] for key in ("obs", "end", "next", "final") if key in made}
            how = self.choice(("commit",) * 5 + ("abort", "raise", "partly"))
            self.add("reserve", w=name, by=own.by, how=how, **given)

    def make_restart(self) -> None:
        if chosen := self.pick(self.world.writers):
            name, own = chosen
            mask = [self.chance(0.5) for _ in range(len(own.lanes) + self.chance(0.05))]
            self.add("restart", w=name, by=own.by, lanes=self.choice((None, mask)))

    def make_close_writer(self) -> None:
        if chosen := self.pick(self.world.writers):
            how = self.choice(("close", "close", "del"))
            self.add("close_writer", w=chosen[0], by=chosen[1].by, how=how)

    # Samplers and tables.

    def make_sampler(self) -> None:
        """Make a sampler, and draw from it."""
        if len(self.world.samplers) < 6:
            name, seed = self.name("s"), self.randrange(1000)
            self.on_ring(
                "sampler", s=name, seed=seed, options=lambda ring: sampler_options(self, ring)
            )
            if name in self.world.samplers:
                self.sample_from(name)

    def make_sample(self) -> None:
        if chosen := self.pick(self.world.samplers):
            self.sample_from(chosen[0])

    def sample_from(self, name: str) -> None:
        own = self.world.samplers[name]
        for _ in range(self.randint(1, 3)):
            if kind_of(own.options) in BY_PRIORITY and self.chance(0.5):
                self.update_of(name)
            size = self.choice((1, 2, 3, 5, 8, 12)) if self.chance(0.99) else 0
            size = 2 if own.options.get("form") and size > 5 else size
            given = {"s": name, "by": own.by, "batch": size}
            if kind_of(own.options) == "Consume" and self.chance(0.4):
                self.news_of(name)
                continue
            kind = self.random()
            if kind < 0.05 or (kind_of(own.options) in ("uniform", "Priority") and kind > 0.9):
                self.add("block", **given)
            elif kind < 0.2:
                given |= {"count": self.randint(1, 4), "prefetch": self.randrange(3)}
                self.add("batches", reuse=self.chance(0.4), **given)
            elif kind < 0.3:
                self.add("twin", at=self.randrange(self.processes), **given)
            elif own.options.get("transform") and self.chance(0.4):
                self.add("sample", fails=True, **given)
            else:
                self.add("sample", into=self.choice((None, None, "again", "dict")), **given)

    def news_of(self, name: str) -> None:
        """Draw all that is new by a sampler, or some of it."""
        own, given = self.world.samplers[name], {}
        if form_of(own.options, "Rollout") and self.chance(0.3):
            given["batch"] = self.randint(1, 4)
        elif self.chance(0.5):
            given["at_most"] = self.choice((1, 2, 3, 8)) if self.chance(0.98) else 0
        self.add("news", s=name, by=own.by, **given)

    def make_blocks(self) -> None:
        """Draw blocks of rollouts between the appends of a writer."""
        chosen = self.pick(self.world.writers)
        if not chosen or len(self.world.samplers) > 5:
            return
        key, ring = chosen[1].ring, self.world.rings[chosen[1].ring]
        name, by = self.name("s"), self.choice(sorted(ring.handles))
        options = rollout_options(self, ring)
        self.add("sampler", s=name, ring=key, by=by, seed=1, options=options)
        for _ in range(self.randint(1, 4)):
            if name in self.world.samplers:
                self.news_of(name)
            if chosen[0] in self.world.writers:
                self.append_to(chosen[0])

    def make_sweep(self) -> None:
        """Draw all eligible transitions in one batch, and perhaps one more than there are."""
        chosen = self.pick(self.world.rings)
        if not chosen:
            return
        (key, ring), name = chosen, self.name("s")
        by = self.choice(sorted(ring.handles))
        options = self.choice((sequence_options, window_options, episode_options))(self, ring)
        there, every = len(eligible(ring, options)), windows_of(options).stride or 1
        smallest = {"kind": "Smallest", "alpha": 1.0, "eps": 0.5, "table": f"sweep{every}"}
        others = ({"kind": "fifo"}, {"kind": "lifo"}, {"kind": "Epoch", "table": "sweep"})
        options["select"] = self.choice((smallest, *others))
        self.add("sampler", s=name, ring=key, by=by, seed=1, options=options)
        if name in self.world.samplers:
            self.add("sample", s=name, by=by, batch=max(there, 1) + self.chance(0.2))
            self.add("close_sampler", s=name, by=by)

    def make_sample_once(self) -> None:
        size = self.randint(1, 9)
        self.on_ring("sample_once", batch=size, options=lambda ring: window_options(self, ring))

    def make_shares(self) -> None:
        def options(ring: Ring) -> dict[str, Any]:
            made, chosen = window_options(self, ring), select(self, ring)
            plain = chosen["kind"] in ("uniform", "Recency", "LaneWeights")
            return made | ({"select": chosen} if plain else {})

        count, world = self.randint(1, 3), self.randint(1, 3)
        given = {"count": count, "world": world, "batch": self.randint(1, 6), "options": options}
        self.on_ring("shares", seed=self.randrange(99), **given)

    def make_gather(self) -> None:
        wrong, missing = self.choice((0.0, 0.0, 0.3)), self.choice(("error", "mask"))
        if self.world.samplers and self.chance(0.6):
            name, own = self.pick(self.world.samplers)
            index = self.some_index(self.world.rings[own.ring], 6, wrong)
            into = self.choice((None, "again", "dict"))
            self.add("gather_by", s=name, by=own.by, index=index, missing=missing, into=into)
            return

        def options(ring: Ring) -> dict[str, Any]:
            made = window_options(self, ring)
            return {key: made[key] for key in ("history", "columns") if key in made}

        def rows(ring: Ring) -> list[Index]:
            return self.some_index(ring, 6, wrong)

        self.on_ring("gather", missing=missing, options=options, index=rows)

    def make_close_sampler(self) -> None:
        if chosen := self.pick(self.world.samplers):
            self.add("close_sampler", s=chosen[0], by=chosen[1].by)

    def make_update(self) -> None:
        samplers = self.world.samplers.items()
        by_priority = {n: own for n, own in samplers if kind_of(own.options) in BY_PRIORITY}
        if chosen := self.pick(self.world.samplers if self.chance(0.02) else by_priority):
            self.update_of(chosen[0])

    def update_of(self, name: str) -> None:
        """Set priorities by a sampler: some, or all to less than new rows first have."""
        own, windows, every = self.world.samplers[name], self.chance(0.3), self.chance(0.25)
        ring = self.world.rings[own.ring]
        index = ring.drawable() if every else self.some_index(ring, 8, wrong=0.2)
        choices = PRIORITIES[:3] if every else PRIORITIES
        given = [self.choice(choices) if self.chance(0.99) else -1.0 for _ in index]
        self.add("update", s=name, by=own.by, index=index, priority=given, windows=windows)

    def make_table(self) -> None:
        def columns(ring: Ring) -> list[str] | None:
            known = ring.tables.get("online")
            if isinstance(known, Learned) and self.chance(0.9):
                return known.columns
            return None if self.chance(0.2) else learned_columns(self)

        self.on_ring("table", t=self.name("t"), name="online", columns=columns)

    def make_values(self) -> None:
        chosen = self.pick(self.world.learned)
        if not chosen:
            return
        name, own = chosen
        ring = self.world.rings[own.ring]
        index, known = self.some_index(ring, 6, wrong=0.2), ring.tables.get(own.table)
        if not index or not isinstance(known, Learned):
            return
        if self.chance(0.4):
            self.add("get_values", t=name, by=own.by, index=index)
            return
        some = self.some(known.columns)
        most = {"good": 2}
        given = {one: [self.randrange(most.get(one, 100)) for _ in index] for one in some}
        if self.add("set_values", t=name, by=own.by, index=index, values=given):
            self.draw_joined(own.ring, own.by, own.table)

    def draw_joined(self, key: str, by: int, table: str) -> None:
        """Draw windows of a ring with the values of a table of learned columns."""
        name, options = self.name("s"), window_options(self, self.world.rings[key])
        self.add("sampler", s=name, ring=key, by=by, seed=1, options=options | {"learned": table})
        if name in self.world.samplers:
            self.add("sample", s=name, by=by, batch=8)
            self.add("close_sampler", s=name, by=by)

    def make_remove_table(self) -> None:
        self.on_ring("remove_table", table=lambda ring: self.choice([*ring.tables, "none"]))

    # Steps of the second process that wait for the first.

    def second(self) -> dict[str, Ring]:
        """Return the rings of the second process, if it does not wait."""
        rings = self.world.rings.items()
        if self.processes == 1 or 1 in self.world.pending:
            return {}
        return {key: ring for key, ring in rings if 1 in ring.handles and not ring.snapshot}

    def make_wait_later(self) -> None:
        if chosen := self.pick(self.second()):
            least = len(chosen[1].drawable()) + self.randint(1, 6)
            inner = {"do": "wait", "ring": chosen[0], "min_size": least}
            self.add("later", by=1, step=inner | {"by": 1})

    def make_append_later(self) -> None:
        """Append until the limiter blocks the writer, and begin the append that waits."""
        limited = {key: ring for key, ring in self.second().items() if ring.limits}
        patient = {n: w for n, w in self.world.writers.items() if w.ring in limited and w.patient}
        if not patient:
            if chosen := self.pick(limited):
                self.add_writer(chosen[0], chosen[1], 1, 1, NEXT_STEP)
            return
        name, own = self.pick(patient)
        for _ in range(MOST_APPENDS):
            step = self.one_append(name, own)
            if held_back(self.world, limited[own.ring], own, step["end"]):
                self.add("later", by=1, step={"do": "append"} | step)
                return
            self.add("append", **step)

    def make_draw_later(self) -> None:
        """Draw all new transitions from a queue, and begin a draw that waits for more."""
        drawn = {own.ring for own in self.world.samplers.values()}
        rings = {k: ring for k, ring in self.second().items() if not ring.limits and k not in drawn}
        if not (chosen := self.pick(rings)):
            return
        name, there = self.name("s"), len(chosen[1].drawable())
        chosen_by = {"kind": "Consume", "table": self.name("queue"), "shuffle": self.chance(0.3)}
        self.add("sampler", s=name, ring=chosen[0], by=1, seed=5, options={"select": chosen_by})
        if there:
            self.add("sample", s=name, by=1, batch=there)
        inner = {"do": "sample", "s": name, "by": 1, "batch": self.randint(1, 6)}
        self.add("later", by=1, step=inner)
