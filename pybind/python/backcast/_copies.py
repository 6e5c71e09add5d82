"""Copies of environments, with their state or from their constructor's arguments."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any, Self, TypeVar

Env = TypeVar("Env")


def deep_copy(env: Env, memo: dict[int, Any]) -> Env:
    """Copy an environment with everything it holds, the state in Rust included."""
    twin = type(env).__new__(type(env))
    memo[id(env)] = twin
    vars(twin).update(copy.deepcopy(vars(env), memo))
    return twin


class Rebuilt:
    """An environment that pickles by its arguments, and whose deep copies keep its state."""

    _rebuild: Callable[[], Any]
    """Function that constructs the environment again with the same arguments."""

    def __reduce__(self) -> tuple[Callable[[], Any], tuple[()], dict[str, Any] | None]:
        """Pickle by the arguments of the constructor: the copy was never reset."""
        spec = getattr(self, "spec", None)
        return self._rebuild, (), None if spec is None else {"spec": spec}

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Copy with the state: the copy continues as this one would."""
        return deep_copy(self, memo)


def rebuilding(env: Env, given: dict[str, Any]) -> Callable[[], Env]:
    """Return a function that constructs another `env` with the same arguments.

    `given`: ``locals()`` at the start of the constructor.
    """
    strangers = ("self", "__class__")
    return partial(
        type(env), **{name: value for name, value in given.items() if name not in strangers}
    )
