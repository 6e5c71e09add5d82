"""Columns of the rings of programs, and the values that a token stands for.

A token is an integer that stands for an observation, or for the step columns of a row. Every column
is a function of the token, and token 0 gives zeros. Observations of different tokens differ.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Tokens = NDArray[np.int64]
Arrays = dict[str, NDArray[Any]]

GOALS = {"achieved_goal": ("f4", (2,)), "desired_goal": ("f4", (2,)), "observation": "f4"}
SCHEMAS: dict[str, dict[str, Any]] = {
    "flat": {
        "obs": ("f4", (2,)),
        "action": "i4",
        "reward": "f4",
        "discount": "f4",
        "lstm": ("f4", (3,)),
    },
    "dict": {
        "obs": {"x": ("f8", (2,)), "n": "i4"},
        "day": ("i2", (), "obs"),
        "move": ("u1", (3,)),
        "reward": "f8",
        "discount": "f8",
        "done": "?",
    },
    "goals": {"obs": GOALS, "action": "i4", "reward": "f4"},
    "state": {"state": "f4", "reward": "f4"},
    "blind": {"action": "i8", "reward": "f8"},
}
LEARNED = {"value": "f4", "visits": "u2", "good": "bool"}
ACHIEVED, DESIRED = "obs/achieved_goal", "obs/desired_goal"
VALUES: dict[str, Callable[[Tokens], Any]] = {
    "obs": lambda t: [t, -t],
    "obs/x": lambda t: [t, t / 2],
    "obs/n": lambda t: t,
    "day": lambda t: t % 365,
    ACHIEVED: lambda t: [t % 5, t % 3],
    DESIRED: lambda t: [t % 7, t % 2],
    "obs/observation": lambda t: t,
    "state": lambda t: t,
    "action": lambda t: t % 1009 * 7,
    "move": lambda t: [t % 251, t % 7, t % 3],
    "reward": lambda t: t % 13 / 4,
    "discount": lambda t: t % 5 / 4,
    "lstm": lambda t: [t, t / 2, -t],
    "done": lambda t: t % 2,
}
MOST_TOKENS = 1 << 18


def flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the leaves of a nested dict, as ``above/below``."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        found |= (
            flat(value, f"{prefix}{name}/") if isinstance(value, dict) else {prefix + name: value}
        )
    return found


def nested(values: Arrays) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in values.items():
        *above, last = name.split("/")
        place = found
        for part in above:
            place = place.setdefault(part, {})
        place[last] = value
    return found


# Columns of observations, and of steps, of each schema.
OBS = {
    schema: [name for name in flat(columns) if name.split("/")[0] in ("obs", "day", "state")]
    for schema, columns in SCHEMAS.items()
}
STEP = {
    schema: [name for name in flat(columns) if name not in OBS[schema]]
    for schema, columns in SCHEMAS.items()
}


@cache
def values_of(schema: str, name: str) -> NDArray[Any]:
    """Return the values of a column for all tokens."""
    dtype = flat(SCHEMAS[schema])[name]
    parts = VALUES[name](np.arange(MOST_TOKENS))
    whole = np.stack(parts, -1) if isinstance(parts, list) else parts
    return np.asarray(whole.astype(dtype if isinstance(dtype, str) else dtype[0]))


def column(schema: str, name: str, tokens: Any) -> NDArray[Any]:
    """Return the values of a column for tokens: shape ``tokens.shape`` and that of the column."""
    found: NDArray[Any] = values_of(schema, name)[np.asarray(tokens, np.int64)]
    return found


def observation(schema: str, tokens: Any) -> Any:
    """Return observations as ``next_obs`` and ``final_obs`` take them."""
    if not OBS[schema]:
        return np.asarray(tokens)
    parts = nested({name: column(schema, name, tokens) for name in OBS[schema]})
    return parts if "day" in parts else next(iter(parts.values()))


def row_columns(schema: str, tokens: Any) -> dict[str, Any]:
    """Return the columns of an append."""
    names = OBS[schema] + STEP[schema]
    return nested({name: column(schema, name, tokens) for name in names})


def hindsight_reward(achieved: NDArray[Any], desired: NDArray[Any], _info: object) -> NDArray[Any]:
    """Return a reward for each pair of goals, a whole number."""
    rewards: NDArray[Any] = ((achieved - desired) * [1.0, 16.0]).sum(-1)
    return rewards


class Given(NamedTuple):
    """Arguments of an append: tokens of each lane, and flags of its end."""

    obs: list[int]
    end: list[int]
    next: list[int] | None = None
    final: list[int] | None = None


def steps_of(step: dict[str, Any], schema: str, lanes: int, mode: str) -> list[Given]:
    """Return the appends of an `extend`.

    Step ``n`` of lane ``i`` has the token ``first + 2 (n lanes + i)``. The token one above it
    stands for the final observation, if the step ends its episode: every ``every``-th does.
    """
    takes_finals = step.get("finals") and mode != "next_step" and OBS[schema]
    made, every = [], step["every"]
    for n in range(step["steps"]):
        obs = [step["first"] + 2 * (n * lanes + i) for i in range(lanes)]
        ends = [(1 + (n + i) // every % 2) * ((n + i) % every == every - 1) for i in range(lanes)]
        finals = [token + 1 if end else 0 for token, end in zip(obs, ends, strict=True)]
        after = [final or token + 2 * lanes for final, token in zip(finals, obs, strict=True)]
        next_obs = after if step.get("next") else None
        made.append(Given(obs, ends, next_obs, finals if takes_finals else None))
    return made


def pairs(index: NDArray[np.int64]) -> list[Any]:
    """Return lane and row of each index; None for a row that was dropped."""
    return [None if i < 0 else (int(i) >> 48, int(i) & ((1 << 48) - 1)) for i in index.reshape(-1)]
