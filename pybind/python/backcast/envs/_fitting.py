"""Checks that a writer fits an environment: lanes, autoreset mode and columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import gymnasium as gym
from gymnasium.vector import AutoresetMode, VectorEnv

from backcast import Schema, Writer
from backcast._autoreset import lanes_and_mode
from backcast._native import _closest_name
from backcast.envs._portfolio import mode_of, word_of
from backcast.errors import AppendError, ArgumentError, ArgumentTypeError, SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterable

AnyEnv: TypeAlias = gym.Env[Any, Any] | VectorEnv[Any, Any, Any]

# Columns that every step of the environment brings, and columns that a caller may replace.
BROUGHT = frozenset({"obs", "terminated", "truncated", "final_obs"})
REPLACEABLE = frozenset({"action", "reward"})


def autoreset_mode(env: AnyEnv) -> AutoresetMode:
    """Return the autoreset mode of the environment."""
    _, word = lanes_and_mode(env)
    return mode_of(word)


def check_writer(env: AnyEnv, writer: Writer, mode: AutoresetMode) -> None:
    """Refuse a writer whose lanes, mode or columns do not fit the environment."""
    lanes = env.num_envs if isinstance(env, VectorEnv) else 1
    word = word_of(mode)
    remedy = f'make it with buf.writer(env=env): lanes={lanes}, autoreset_mode="{word}"'
    if not isinstance(writer, Writer):
        raise ArgumentTypeError(f"writer is {writer!r}, which is no backcast.Writer; {remedy}")
    if len(writer.lanes) != lanes:
        raise ArgumentError(
            f"the writer's lanes are {len(writer.lanes)}, the environments {lanes}; {remedy}"
        )
    if writer.autoreset_mode != word:
        raise ArgumentError(
            f'the writer expects autoreset_mode "{writer.autoreset_mode}", the environment '
            f'resets as "{word}"; {remedy}'
        )
    check_columns(env, {name: shape for name, (_, shape, _) in writer.schema.columns.items()})


def check_columns(env: AnyEnv, ring: dict[str, tuple[int, ...]]) -> None:
    """Refuse a ring whose observations have other names or shapes, or that has no action.

    Dtypes are checked by every append, which converts without loss.
    """
    single = "single_" if isinstance(env, VectorEnv) else ""
    spaces = [f"{single}observation_space", f"{single}action_space"]
    remedy = f"make the ring with Schema.from_spaces(env.{spaces[0]}, env.{spaces[1]})"
    if not _below("action", ring):
        raise ArgumentError(f"the ring has no column 'action', only {_listed(ring)}; {remedy}")
    try:
        wanted = Schema.from_spaces(*(getattr(env, space) for space in spaces)).columns
    except (SchemaError, AttributeError):
        # The contents of a custom space are known only when they are appended.
        return
    here, there = _below("obs", wanted), _below("obs", ring)
    for name in here:
        if name not in there:
            raise ArgumentError(
                f"the ring has no column '{name}', which env.{spaces[0]} has; its columns are "
                f"{_listed(ring)}; {remedy}"
            )
        if wanted[name][1] != ring[name]:
            raise ArgumentError(
                f"column '{name}' is {ring[name]} in the ring, but {wanted[name][1]} in "
                f"env.{spaces[0]}; {remedy}"
            )
    for name in there:
        if name not in here:
            raise ArgumentError(
                f"the ring has a column '{name}', which env.{spaces[0]} has not; {remedy}"
            )


def further_columns(writer: Writer) -> frozenset[str]:
    """Name the columns that a step has to add to those of the environment."""
    first = {name.split("/")[0] for name in writer.schema.columns}
    return frozenset(first - BROUGHT - REPLACEABLE)


def refuse_columns(given: Iterable[str], wanted: frozenset[str]) -> None:
    """Refuse columns that a step must not add, and name missing ones."""
    first = {name.split("/")[0] for name in given}
    for name in sorted(first & BROUGHT):
        raise ArgumentError(
            f"step() was given {name}, which comes from the environment; leave it out, or change "
            "it there with a wrapper"
        )
    for name in sorted(first - wanted - REPLACEABLE):
        near = _closest_name(name, sorted(wanted | REPLACEABLE))
        remedy = (
            f"did you mean '{near}'?"
            if near
            else f'make the ring with it: Schema.from_spaces(..., extra={{"{name}": "f4"}})'
        )
        raise AppendError(f"the ring has no column '{name}'; {remedy}")
    for name in sorted(wanted - first):
        raise AppendError(
            f"column '{name}' is missing, which the ring has and the environment does not bring; "
            f"give it by name: collector.step(actions, {name}=...)"
        )


def _below(name: str, columns: Iterable[str]) -> list[str]:
    return [column for column in columns if column == name or column.startswith(f"{name}/")]


def _listed(columns: Iterable[str]) -> str:
    return ", ".join(columns)
