"""Copies of environments, with their state or from their constructor's arguments."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

Env = TypeVar("Env")


def deep_copy(env: Env, memo: dict[int, Any]) -> Env:
    """Copy an environment with everything it holds, the state in Rust included."""
    twin = type(env).__new__(type(env))
    memo[id(env)] = twin
    vars(twin).update(copy.deepcopy(vars(env), memo))
    return twin


def rebuilding(env: Env, given: dict[str, Any]) -> Callable[[], Env]:
    """Return a function that constructs another `env` with the same arguments.

    `given`: ``locals()`` at the start of the constructor.
    """
    strangers = ("self", "__class__")
    return partial(
        type(env), **{name: value for name, value in given.items() if name not in strangers}
    )
