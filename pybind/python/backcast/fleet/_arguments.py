"""Arguments of `Fleet`: checked, and brought into the form in which the supervisor takes them."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from backcast._counts import whole_of
from backcast.errors import ArgumentError, ArgumentTypeError
from backcast.fleet._context import number_of
from backcast.fleet._restarts import CHOICES

if TYPE_CHECKING:
    from backcast import ReplayBuffer

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def wrong_choice(restart: object) -> ArgumentError:
    """Make the error of a restart policy that does not exist."""
    wanted = "give " + ", ".join(f'"{choice}"' for choice in CHOICES[:-1]) + f' or "{CHOICES[-1]}"'
    if isinstance(restart, str):
        return ArgumentError(f"restart is {restart!r}; {wanted}")
    return ArgumentTypeError(f"restart is {restart!r}; {wanted}")


def seed_of(seed: object) -> int:
    """Check the seed of a fleet."""
    number = whole_of(seed, "seed", "a whole number from 0 up")
    if number < 0:
        raise ArgumentError(f"seed is {number}; give a whole number from 0 up")
    return number


def seconds_of(value: object, what: str) -> float:
    """Check a time above 0 that any clock can hold."""
    seconds = number_of(value, what)
    if not 0 < seconds < 1e9:
        raise ArgumentError(f"{what} is {seconds:g}; give seconds above 0 and below 1e9")
    return seconds


def check_writer(write: object) -> None:
    """Refuse what cannot be called with statistics and a step."""
    if not callable(write):
        raise ArgumentTypeError(
            f"write is {write!r}; give a function of numbers and step, such as wandb.log"
        )
    try:
        signature = inspect.signature(write)
    except ValueError:
        # Some functions of C show none.
        return
    try:
        signature.bind({}, 0)
    except TypeError as error:
        raise ArgumentTypeError(
            f"write takes {signature}, and is called with numbers and step ({error}); give a "
            "function of these two"
        ) from None


def environment_of(env: object) -> dict[str, str]:
    """Check environment variables, and copy them."""
    if env is None:
        return {}
    wanted = "give a dict of str, such as {'OMP_NUM_THREADS': '2'}"
    if not isinstance(env, Mapping):
        raise ArgumentTypeError(f"env is {env!r}; {wanted}")
    for name, value in env.items():
        if not isinstance(name, str) or not _VARIABLE.match(name) or not isinstance(value, str):
            raise ArgumentTypeError(f"env has {name!r}: {value!r}; {wanted}")
    return dict(env)


def folders_of(own: str | None, buffer: ReplayBuffer | None) -> list[str]:
    """Return the base directories in which the death of this process may leave rings."""
    folders = [own or os.environ.get("BACKCAST_DIR") or "/dev/shm"]
    if buffer is not None and buffer.path is not None:
        # DIR/backcast-UID/NAME.ring
        folders.append(str(Path(buffer.path).parent.parent))
    return list(dict.fromkeys(os.path.abspath(folder) for folder in folders))
