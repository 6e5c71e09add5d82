"""Compute the arrays that a batch must hold from the rows of the model, and compare them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from columns import (
    ACHIEVED,
    DESIRED,
    LEARNED,
    OBS,
    STEP,
    Arrays,
    Tokens,
    column,
    hindsight_reward,
    pairs,
)
from model import TERMINATED, TRUNCATED, Index, Item, Windows, goal_rows, item
from model_tables import Learned
from numpy.typing import NDArray
from world import MismatchError, Ring, require

ENDS = {"terminated": TERMINATED, "truncated": TRUNCATED}
# Options of a sampler, as in the JSON of a program.
Options = dict[str, Any]
# Goals in hindsight, and which items have one.
Goals = tuple[NDArray[Any], NDArray[Any]]


def form_of(options: Options, kind: str) -> dict[str, Any] | None:
    """Return the form of options, if it is of a kind: sequences, or whole episodes."""
    form: dict[str, Any] = options.get("form", {})
    return form if form.get("kind") == kind else None


def windows_of(options: Options) -> Windows:
    """Return the windows that options ask for; the longest one if they differ by column."""
    history = options.get("history")
    if isinstance(history, dict):
        history = max((h for h in history.values() if isinstance(h, int)), default=None)
    names = ("future", "n_step", "gamma", "boundary")
    asked = Windows(history, **{name: options[name] for name in names if name in options})
    if form := form_of(options, "Sequence"):
        asked.future, asked.stride = form["length"] - 1, form.get("stride") or form["length"]
    return asked


def window_by_column(schema: str, options: Options) -> dict[str, Any]:
    """Return the window of each column that a batch shows."""
    history, chosen = options.get("history"), options.get("columns")
    found = {}
    for name in [*OBS[schema], *STEP[schema], *ENDS]:
        keys = (name, name.split("/")[0], "*")
        if isinstance(history, dict):
            if key := next((key for key in keys if key in history), None):
                found[name] = history[key]
        elif chosen is None or set(keys) & set(chosen):
            found[name] = history
    if form := form_of(options, "Sequence"):
        found = dict.fromkeys(found, form["length"]) | dict.fromkeys(form.get("first", []), "first")
    return found


def nothing(asked: Windows) -> Item:
    """Return an item that was not found."""
    places = asked.past + asked.future
    zeros = [0] * places
    return Item(zeros, zeros, zeros, zeros, [False] * places, 0, [None] * places)


class Put:
    """Arrays of a batch, each cut to the window of its column."""

    def __init__(self, asked: Windows, mask: NDArray[Any]) -> None:
        self.asked, self.mask, self.arrays = asked, mask, Arrays()

    def __call__(self, key: str, values: NDArray[Any], window: Any) -> None:
        past = self.asked.past
        if window == "first":
            self.arrays[key] = values[np.arange(len(values)), self.mask[:, :past].argmax(1)]
        elif self.asked.stride is not None:
            self.arrays[key] = values
        else:
            start = past - (window or 1)
            self.arrays[key] = values[:, start] if window is None else values[:, start:past]
            if self.asked.future:
                self.arrays[f"future/{key}"] = values[:, past:]


def expected_batch(
    ring: Ring,
    options: Options,
    index: list[Index],
    *,
    missing: bool = False,
    learned: Learned | None = None,
    goals: Goals | None = None,
) -> Arrays:
    asked, schema, windows = (
        windows_of(options),
        ring.schema,
        window_by_column(ring.schema, options),
    )
    found = [
        n < len(ring.lanes) and ring.lanes[n].starts(seq) and asked.fits(ring.lanes[n], seq)
        for n, seq in index
    ]
    items = [
        item(ring.lanes[n], n, seq, asked, bool(options.get("copy"))) if there else nothing(asked)
        for (n, seq), there in zip(index, found, strict=True)
    ]

    def tokens(name: str) -> Tokens:
        return np.array([getattr(one, name) for one in items], np.int64)

    mask, ends, steps = tokens("mask").astype(bool), tokens("ends"), tokens("steps")
    obs, after = tokens("obs"), tokens("next_obs")
    put = Put(asked, mask)

    def put_obs(name: str, key: str, shown: Tokens) -> None:
        values = column(schema, name, shown)
        if name == DESIRED and goals:
            places = goals[1][:, None] & (shown != 0)
            values[places] = np.broadcast_to(goals[0][:, None], values.shape)[places]
        put(key, values, windows[name])

    for name, window in windows.items():
        if name in ENDS:
            put(name, ends & ENDS[name] != 0, window)
        elif name in STEP[schema]:
            put(name, column(schema, name, steps), window)
        else:
            put_obs(name, name, obs)
            if window != "first":
                put_obs(name, f"next_{name}", after)
    arrays = put.arrays
    if goals:
        achieved, rewards = column(schema, ACHIEVED, after), column(schema, "reward", steps)
        places = goals[1][:, None] & mask
        made = hindsight_reward(achieved, np.broadcast_to(goals[0][:, None], achieved.shape), None)
        rewards[places] = made[places]
        put("reward", rewards, windows["reward"])
        arrays["relabelled"] = goals[1]
    if asked.history is not None:
        arrays["mask"] = mask[:, : asked.past]
    if asked.stride is not None:
        arrays["mask"] = mask
    elif asked.future:
        arrays["future_mask"] = mask[:, asked.past :]
    arrays["index"] = np.array([n << 48 | seq for n, seq in index], np.int64)
    arrays["age"] = np.array([one.age for one in items], np.int64)
    if asked.n_step:
        arrays |= returns(ring, items, asked, list(windows))
    if missing:
        arrays["found"] = np.array(found, bool)
    for name in learned.columns if learned else []:
        assert learned
        known = [
            [learned.values.get(row, {}).get(name) if row else None for row in one.rows]
            for one in items
        ]
        numbers = np.array([[value or 0 for value in row] for row in known])
        put(name, numbers.astype(LEARNED[name]), asked.history)
        is_set = np.array([[value is not None for value in row] for row in known])
        put(f"{name}_set", is_set, asked.history)
    return arrays


def returns(ring: Ring, items: list[Item], asked: Windows, shown: list[str]) -> Arrays:
    def number(name: str, token: int) -> float:
        return float(column(ring.schema, name, token))

    sums, discounts = [], []
    for one in items:
        total, discount = 0.0, float(bool(one.n_rows))
        for token in one.n_rows:
            total += discount * number("reward", token)
            discount *= number("discount", token) if asked.gamma == "discount" else asked.gamma
        sums.append(total)
        discounts.append(0.0 if one.n_ended else discount)
    dtype = column(ring.schema, "reward", 0).dtype
    last = [one.n_next for one in items]
    found = {"n_reward": np.array(sums, dtype), "n_discount": np.array(discounts, dtype)}
    return found | {
        f"n_next_{name}": column(ring.schema, name, last)
        for name in OBS[ring.schema]
        if name in shown
    }


def compare(batch: Arrays, expected: Arrays) -> None:
    require(sorted(batch), sorted(expected), "keys of the batch")
    for key, wanted in expected.items():
        found = batch[key]
        require(
            (found.dtype, found.shape), (wanted.dtype, wanted.shape), f"dtype and shape of {key}"
        )
        if found.tobytes() != wanted.tobytes() and not np.array_equal(found, wanted):
            at = tuple(np.argwhere(found != wanted)[0].tolist())
            raise MismatchError(
                f"{key}{list(at)} is {found[at]!r}, the model has {wanted[at]!r}; "
                f"index {expected['index'].tolist()}"
            )


def compare_rows(ring: Ring, number: int, start: int, end: int, found: Arrays) -> None:
    rows, schema = ring.lanes[number].rows[start:end], ring.schema
    tokens, steps = [row.token for row in rows], [row.step for row in rows]
    expected = {name: column(schema, name, tokens) for name in OBS[schema]}
    expected |= {name: column(schema, name, steps) for name in STEP[schema]}
    expected["flags"] = np.array([row.flags for row in rows], "u4")
    expected["episode"] = np.array([row.episode for row in rows], "u8")
    expected["t"] = np.array([row.t for row in rows], "u4")
    expected["seq"] = np.arange(start, end, dtype="u8")
    expected["index"] = np.arange(start, end)
    compare(
        {k: v for k, v in found.items() if k not in ENDS} | {"index": expected["index"]}, expected
    )


def without_tag(options: Options, batch: Arrays) -> Arrays:
    """Check what a transform added to a batch, and return the rest."""
    require("tag" in batch, bool(options.get("transform")), "a key of the transform")
    if "tag" in batch:
        require(batch["tag"].tolist(), (batch["index"] + 1).tolist(), "what the transform made")
    return {key: values for key, values in batch.items() if key != "tag"}


def check_batch(ring: Ring, options: Options, batch: Arrays, size: int) -> list[Index]:
    """Compare a drawn batch with the model. Return what was drawn."""
    index, asked = pairs(batch["index"]), windows_of(options)
    require(len(index), size, "items of the batch")
    for n, seq in index:
        lane = ring.lanes[n] if n < len(ring.lanes) else None
        if lane is None or not lane.starts(seq) or not asked.is_drawn(lane, seq):
            raise MismatchError(f"row {seq} of lane {n} was drawn, which the model does not allow")
    goals = check_goals(ring, options, batch, index) if options.get("hindsight") else None
    learned = ring.tables.get(options.get("learned", ""))
    known = learned if isinstance(learned, Learned) else None
    batch = {key: values for key, values in batch.items() if key != "weight"}
    compare(batch, expected_batch(ring, options, index, learned=known, goals=goals))
    return index


def check_goals(ring: Ring, options: Options, batch: Arrays, index: list[Index]) -> Goals:
    """Check that goals in hindsight are goals that the episode achieved. Return them."""
    goals = batch[DESIRED] if windows_of(options).history is None else batch[DESIRED][:, -1]
    relabelled, ratio = batch["relabelled"], options["hindsight"]["ratio"]
    if ratio in (0.0, 1.0):
        require(relabelled.tolist(), [ratio == 1.0] * len(index), "relabelled")
    for (n, seq), goal, new in zip(index, goals, relabelled, strict=True):
        lane = ring.lanes[n]
        rows = goal_rows(lane, seq, options["hindsight"]["strategy"])
        allowed = column(ring.schema, ACHIEVED, [lane.rows[row].token for row in rows])
        if new and not (allowed == goal).all(1).any():
            raise MismatchError(f"the goal {goal} of row {seq} of lane {n} is none of {allowed}")
    return np.array(goals), np.array(relabelled)


def whole_episodes(ring: Ring, options: Options) -> dict[Index, int]:
    """Return the first transitions and the lengths of the episodes that may be drawn."""
    most = options["form"].get("max_length", math.inf)
    return {
        (n, first): length
        for n, lane in enumerate(ring.lanes)
        for first, length in lane.whole_episodes()
        if length <= most
    }


def check_episodes(ring: Ring, options: Options, batch: Arrays, size: int) -> list[Index]:
    """Compare a batch of whole episodes with the model. Return their first transitions."""
    form = options["form"]
    ragged, whole = form["layout"] == "ragged", whole_episodes(ring, options)
    batch = {key: values for key, values in batch.items() if key != "weight"}
    index = pairs(batch["index"])
    firsts = [index[at] for at in batch["offsets"][:-1]] if ragged else index
    require(len(firsts), size, "episodes of the batch")
    require([first for first in firsts if first not in whole], [], "episodes that are not whole")
    lengths = [whole[first] for first in firsts]
    rows = [(n, whole_first + k) for n, whole_first in firsts for k in range(whole[n, whole_first])]
    plain: Options = {
        name: options[name] for name in ("columns", "copy", "history") if name in options
    }
    flat = expected_batch(ring, plain, rows)
    if ragged:
        compare(batch, flat | {"offsets": np.cumsum([0, *lengths])})
        return firsts
    places = form.get("max_length") or max(lengths)
    mask = np.arange(places) < np.array(lengths)[:, None]
    expected: Arrays = {"mask": mask, "length": np.array(lengths, np.int64)}
    for key in ("index", "age"):
        expected[key] = flat.pop(key)[np.cumsum([0, *lengths])[:-1]]
    for key, values in flat.items():
        expected[key] = np.zeros((*mask.shape, *values.shape[1:]), values.dtype)
        expected[key][mask] = values
        if key in OBS[ring.schema] and not options.get("copy"):
            # `obs` and `next_obs` share memory: `obs` shows the final observation after the end.
            last = flat[f"next_{key}"][np.cumsum(lengths) - 1]
            for at, length in enumerate(lengths):
                if length < places:
                    expected[key][at, length] = last[at]
    compare(batch, expected)
    return firsts
