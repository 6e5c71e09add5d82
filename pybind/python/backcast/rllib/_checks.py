"""Checks of arguments, made before anything is made or changed."""

from __future__ import annotations

import math
import numbers
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from backcast._calls import refuse_unknown
from backcast._native import ReplayBuffer, list_objects
from backcast.errors import ArgumentError, ExistsError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_UNIFORM, _PRIORITIZED = "EpisodeReplayBuffer", "PrioritizedEpisodeReplayBuffer"
_OURS = "backcast.rllib.EpisodeReplayBuffer"
_OPTIONS = (
    "type",
    "capacity",
    "alpha",
    "beta",
    "batch_size_B",
    "batch_length_T",
    # RLlib adds it when it builds the algorithm.
    "metrics_num_episodes_for_smoothing",
)


def is_whole(value: object, least: int) -> bool:
    """Return whether a value is a whole number, and not too small."""
    return (
        isinstance(value, numbers.Integral) and not isinstance(value, bool) and int(value) >= least
    )


def check_whole(what: str, value: object, least: int, *, optional: bool = False) -> None:
    """Refuse what is no whole number from `least` up, or None if that is allowed.

    Raises
    ------
    ArgumentError
    """
    if not (is_whole(value, least) or (optional and value is None)):
        rest = ", or None" if optional else ""
        raise ArgumentError(f"{what} is {value!r}; give a whole number from {least} up{rest}")


def check_number(what: str, value: object, most: float | None, *, optional: bool = False) -> None:
    """Refuse what is no number from 0 to `most`, or None if that is allowed.

    Raises
    ------
    ArgumentError
    """
    if optional and value is None:
        return
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= (math.inf if most is None else most):  # type: ignore[operator]
        limits = "from 0 up" if most is None else f"from 0 to {most}"
        rest = ", or None" if optional else ""
        raise ArgumentError(f"{what} is {value!r}; give a number {limits}{rest}")


def check_flag(what: str, value: object) -> None:
    """Refuse what is neither True nor False.

    Raises
    ------
    ArgumentError
    """
    if not isinstance(value, bool):
        raise ArgumentError(f"{what} is {value!r}; give True or False")


def check_draw(
    num_items: int | None,
    batch_size: int | None,
    batch_length: int | None,
    n_step: Any,
    beta: float | None,
    gamma: float,
) -> int | None:
    """Refuse arguments of a draw that are out of their ranges, and return its size if it is given.

    Raises
    ------
    ArgumentError
    """
    if num_items is not None and batch_size is not None:
        raise ArgumentError("num_items and batch_size_B are both given; give one of them")
    check_whole("num_items", num_items, 1, optional=True)
    check_whole("batch_size_B", batch_size, 1, optional=True)
    # RLlib asks for 0 steps of modules without a state.
    check_length(batch_length or 1)
    check_number("beta", beta, 1, optional=True)
    check_number("gamma", gamma, 1)
    if isinstance(n_step, (tuple, list)):
        if not (len(n_step) == 2 and all(is_whole(n, 1) for n in n_step) and n_step[0] < n_step[1]):
            raise ArgumentError(
                f"n_step is {n_step!r}; give (low, high), whole numbers with 1 <= low < high"
            )
    elif not is_whole(n_step, 1):
        raise ArgumentError(f"n_step is {n_step!r}; give a whole number from 1 up, or a pair")
    return batch_size if num_items is None else num_items


def check_length(steps: object) -> None:
    """Refuse sequences.

    Raises
    ------
    ArgumentError
    """
    if steps != 1:
        raise ArgumentError(
            f"batch_length_T is {steps!r}; this buffer draws single transitions: recurrent modules "
            "need RLlib's EpisodeReplayBuffer"
        )


def check_exist(exist: object) -> None:
    """Refuse what is no treatment of a ring that exists.

    Raises
    ------
    ArgumentError
    """
    if exist not in ("error", "replace"):
        raise ArgumentError(f"exist is {exist!r}; give 'error' or 'replace'")


def check_name(name: str | None) -> None:
    """Refuse what cannot name a ring.

    Raises
    ------
    ArgumentError
    """
    if name is not None and _ring(name) is None:
        # Refuses the name before it looks for the ring.
        with suppress(NotFoundError):
            ReplayBuffer.attach(name).close()


def check_free(name: str | None) -> None:
    """Refuse the name of a ring that exists and may not be replaced unasked.

    Raises
    ------
    ExistsError
    """
    found = None if name is None else _ring(name)
    if found is not None and (found["held"] or found["persistent"] or found["building"]):
        raise taken(name)


def taken(name: str | None) -> ExistsError:
    """Return the error of a name that another ring has."""
    return ExistsError(
        f"a ring named `{name}` exists, of another run or kept on purpose; end the run that holds "
        'it, give another name, or give exist="replace" to start over'
    )


def check_options(given: Iterable[str]) -> None:
    """Refuse options of a `replay_buffer_config` that are unknown.

    Raises
    ------
    ArgumentError
    """
    refuse_unknown("config.replay_buffer_config", given, _OPTIONS)


def buffer_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a buffer for a `replay_buffer_config` of RLlib.

    Raises
    ------
    ArgumentError
        If an option is unknown, or out of its range.
    """
    check_options(given)
    options = dict(given)
    kind = options.pop("type", _PRIORITIZED)
    if kind not in (_UNIFORM, _PRIORITIZED, _OURS):
        raise ArgumentError(
            f"the type of config.replay_buffer_config is {kind!r}; give {_PRIORITIZED!r}, or "
            f"{_UNIFORM!r} to draw uniformly"
        )
    if kind != _OURS:
        check_number("alpha", options.get("alpha", 0.0), None)
    if kind == _UNIFORM:
        options["alpha"] = None
    return options


def _ring(name: str) -> dict[str, Any] | None:
    return next((of for of in list_objects() if of["kind"] == "ring" and of["name"] == name), None)
