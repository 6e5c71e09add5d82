"""Random options of rings, samplers and limits for programs."""

from __future__ import annotations

from random import Random
from typing import Any, Self

from columns import LEARNED, OBS, STEP
from model_tables import Learned
from world import Ring

SCHEMAS = ("flat", "flat", "dict", "dict", "goals", "goals", "state", "blind")
POLICIES = ("block", "drop_new", "fail", "overwrite")
SELECTORS = "uniform fifo lifo lane_strata Priority Priority Largest Smallest Recency"
SELECTORS += " LaneWeights Epoch Epoch Consume Consume"
Options = dict[str, Any]


class Dice(Random):
    """Random numbers and choices."""

    def __new__(cls, *_: object) -> Self:
        return super().__new__(cls)

    def chance(self, probability: float) -> bool:
        return self.random() < probability

    def maybe(self, probability: float, **given: Any) -> Options:
        """Return options that are given with some probability."""
        return given if self.chance(probability) else {}

    def some(self, names: list[str]) -> list[str]:
        return self.sample(names, self.randint(1, len(names)))


def names_of(ring: Ring) -> list[str]:
    return [*OBS[ring.schema], *STEP[ring.schema], "terminated"]


def ring_options(dice: Dice, *, private: bool) -> Options:
    lanes = dice.choice((1, 1, 2, 2, 3))
    capacity = lanes * dice.choice((2, 4, 6, 9, 12, 16, 24, 40)) - dice.randrange(lanes)
    capacity = lanes if dice.chance(0.01) else capacity
    made: Options = {"schema": dice.choice(SCHEMAS), "lanes": lanes, "capacity": capacity}
    made |= {"policy": dice.choice(POLICIES), "private": private}
    most = lanes * (-(-capacity // lanes) - 1)
    return made | dice.maybe(0.25 if private else 0.35, limiter=limits(dice, most))


def limits(dice: Dice, most: int) -> Options:
    """Return limits for a ring that can hold ``most`` transitions."""
    size = dice.randint(1, max(1, min(6, most + dice.chance(0.05))))
    if dice.chance(0.3):
        return {"min_size": size}
    ratio = dice.choice((0.5, 1, 1, 2, 4))
    below, above = dice.choice((0, 1, 4, 10)), dice.choice((1, 3, 8, 40))
    return {
        "samples_per_insert": ratio,
        "min_size": size,
        "error_buffer": [ratio * size - below, ratio * size + max(above, ratio + 1 - below)],
        "no_learner": dice.choice(("wait", "wait", "pass", "error")),
        "enabled": dice.chance(0.9),
    }


def window_options(dice: Dice, ring: Ring) -> Options:
    """Return windows, for a sampler or a single draw."""
    made: Options = {}
    names, kind = names_of(ring), dice.random()
    if kind < 0.4:
        made["history"] = dice.choice((1, 2, 2, 3, 3, 4, 5, 8, 20))
    elif kind < 0.55:
        made["history"] = {
            name: dice.choice((1, 2, 3, 4, None, 2 if name in OBS[ring.schema] else "first"))
            for name in dice.some(names)
        }
        made["history"] |= dice.maybe(0.5, **{"*": dice.choice((None, 2, 5))})
    elif kind < 0.7:
        made["columns"] = dice.some(names)
    by_column = "discount" in names and dice.chance(0.3)
    gamma = "discount" if by_column else dice.choice((0.5, 0.9, 0.99, 1.0, 0.0))
    made |= dice.maybe(0.35, future=dice.randint(1, 4))
    made |= dice.maybe(0.35, n_step=dice.randint(1, 5), gamma=gamma)
    made |= dice.maybe(0.45, boundary=dice.choice(("reject", "clamp", "mask")))
    return made | dice.maybe(0.3, copy=True)


def sequence_options(dice: Dice, ring: Ring) -> Options:
    """Return sequences and options that they allow, rarely others."""
    length = dice.choice((1, 2, 3, 3, 4, 5, 8))
    form: Options = {"kind": "Sequence", "length": length}
    form |= dice.maybe(0.8, stride=dice.randint(1, length + dice.chance(0.03)))
    form |= dice.maybe(0.3, first=[dice.choice(names_of(ring)[:-1])])
    made: Options = {"form": form} | dice.maybe(0.3, copy=True)
    made |= dice.maybe(0.5, boundary=dice.choice(("reject", "clamp")))
    made |= dice.maybe(0.2, columns=dice.some(names_of(ring)))
    # Sequences refuse most options of windows.
    return made | dice.maybe(0.05, **window_options(dice, ring))


def episode_options(dice: Dice, ring: Ring) -> Options:
    """Return whole episodes and options that they allow, rarely others."""
    form: Options = {"kind": "WholeEpisodes", "layout": dice.choice(("padded", "ragged"))}
    form |= dice.maybe(0.5, max_length=dice.randint(1, 6)) | dice.maybe(0.3, by_length=True)
    made: Options = {"form": form} | dice.maybe(0.4, copy=True)
    made |= dice.maybe(0.2, columns=dice.some(names_of(ring)))
    return made | dice.maybe(0.1, **window_options(dice, ring))


def rollout_options(dice: Dice, ring: Ring) -> Options:
    """Return rollouts and options that they allow, rarely others."""
    form: Options = {"kind": "Rollout", "length": dice.choice((1, 1, 2, 2, 3, 4))}
    form |= dice.maybe(0.4, lanes=dice.randint(1, len(ring.lanes) + dice.chance(0.03)))
    chosen: Options = {"kind": "Consume", "table": f"blocks{dice.randrange(3)}"}
    made: Options = {"form": form, "select": chosen} | dice.maybe(0.3, copy=True)
    made |= dice.maybe(0.2, columns=dice.some(names_of(ring))) | dice.maybe(0.2, transform=True)
    return made | dice.maybe(0.05, **window_options(dice, ring))


def hindsight_options(dice: Dice) -> Options:
    strategy = dice.choice(("future", "final", "episode"))
    return {"strategy": strategy, "ratio": dice.choice((0.0, 0.5, 0.8, 1.0))}


def select(dice: Dice, ring: Ring) -> Options:
    """Return a selector. Some share a table with others, and some name one of other settings."""
    kind = dice.choice(SELECTORS.split())
    made: Options = {"kind": kind}
    if kind in ("Priority", "Largest", "Smallest"):
        made |= {"alpha": dice.choice((0.6, 0.6, 1.0)), "eps": dice.choice((1e-6, 0.5))}
        made["table"] = f"p{made['alpha']}-{made['eps']}" if dice.chance(0.95) else "p0.6-0.5"
    if kind == "Priority":
        made |= {
            "beta": dice.choice((0.4, 1.0, 0.0, [0.4, 5], [0.1, 9])),
            "stratified": dice.chance(0.3),
        }
        made["normalize"] = dice.choice(("batch", "table"))
        if dice.chance(0.4):
            made |= {"by": "rank", "table": f"ranks{made['eps']}"}
            made["alpha"] = dice.choice((made["alpha"], [1.0, 0.0, 5], [0.2, 1.4, 10]))
    if "table" in made and dice.chance(0.4):
        made |= {"initial": "held", "table": f"{made['table']}held"}
    if kind == "Recency":
        made["half_life"] = dice.choice((0.5, 3.0, 50.0))
    if kind == "LaneWeights":
        made["weights"] = [float(dice.choice((0, 1, 3))) for _ in ring.lanes]
        made["weights"][dice.randrange(len(ring.lanes))] += 1.0
    if kind in ("Epoch", "Consume"):
        made |= {"shuffle": dice.chance(0.4), "seed": dice.randrange(3)}
        made |= {"max_times_sampled": dice.choice((1, 1, 2, 3))} if kind == "Consume" else {}
        settings = dice.choice("ab"), kind, made["seed"], made.get("max_times_sampled", "")
        made["table"] = "".join(map(str, settings))
        made["table"] += "s" if made["shuffle"] and dice.chance(0.95) else ""
    return made


def sampler_options(dice: Dice, ring: Ring) -> Options:
    kinds = (window_options, sequence_options, episode_options, rollout_options)
    kind = dice.choices(kinds, (6, 3, 1, 1))[0]
    made = kind(dice, ring) | dice.maybe(0.15, transform=True)
    is_window, is_episode = kind is window_options, kind is episode_options
    made |= dice.maybe(0.03 if kind is rollout_options else 0.75, select=select(dice, ring))
    if "form" in made and "alpha" in made.get("select", {}) and dice.chance(0.9):
        # A table of priorities has one stride, so its name has the stride too.
        made["select"]["table"] += f"every{made['form'].get('stride', made['form'].get('length'))}"
    if ring.schema == "goals" and dice.chance(0.5 if is_window else 0.03):
        made = {name: made[name] for name in made if name not in ("columns", "n_step", "gamma")}
        if isinstance(made.get("history"), dict):
            made["history"] = 3
        made["hindsight"] = hindsight_options(dice)
    if tables := [name for name, table in ring.tables.items() if isinstance(table, Learned)]:
        made |= dice.maybe(0.05 if is_episode else 0.5, learned=dice.choice(tables))
    if kind is not rollout_options and made.get("select", {}).get("kind") not in (
        "Epoch",
        "Consume",
    ):
        # Rows that are too old give no goals, which shows in long episodes alone.
        often = 0.15 if "hindsight" not in made else 0.5
        made |= dice.maybe(often, max_age=dice.choice((2, 4, 8, 30)))
    world = dice.randint(2, 3)
    return made | dice.maybe(0.2, share=[dice.randrange(world), world])


def learned_columns(dice: Dice) -> list[str]:
    return dice.some(sorted(LEARNED))
