"""Checks of number arguments, with the rules of the native calls: a bool is refused."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from backcast.errors import ArgumentError, ArgumentTypeError, BackcastError

_MOST = 2**32 - 1
"""Largest count of the native calls."""


def whole_of(value: Any, what: str, wanted: str) -> int:  # noqa: ANN401
    """Read a whole number of any size; refuse bools and other types."""
    if not isinstance(value, bool):
        try:
            return operator.index(value)
        except TypeError:
            pass
    raise ArgumentTypeError(f"{what} is {value!r}; give {wanted}")


def count_of(value: Any, what: str, least: int, error: type[BackcastError]) -> int:  # noqa: ANN401
    """Read a whole number from `least` to 2**32 - 1; raise `error` if it is outside."""
    wanted = f"a whole number from {least} up"
    number = whole_of(value, what, wanted)
    if number > _MOST:
        wanted = f"a whole number from {least} to {_MOST}"
    if not least <= number <= _MOST:
        raise error(f"{what} is {number}; give {wanted}")
    return number


def seed_of(value: Any) -> int | None:  # noqa: ANN401
    """Read the seed of a sampler that is made later."""
    wanted = f"a whole number from 0 to {2**64 - 1}, or None"
    if value is not None and not 0 <= whole_of(value, "seed", wanted) < 2**64:
        raise ArgumentError(f"seed is {value}; give {wanted}")
    return None if value is None else operator.index(value)


def number_of(value: object, what: str, wanted: str) -> float:
    """Convert a number argument to float; refuse bools and other types."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise ArgumentTypeError(f"{what} is {value!r}; give {wanted}")
    return float(value)
