"""Autoreset mode and number of sub-environments of an environment, for writers."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from backcast.errors import ArgumentError, ArgumentTypeError

if TYPE_CHECKING:
    from gymnasium.vector import AutoresetMode

    Word: TypeAlias = Literal["next_step", "same_step", "disabled"]

WORDS: tuple[Word, Word, Word] = ("next_step", "same_step", "disabled")

_CHOICES = (
    'say lanes= and autoreset_mode= yourself: "next_step" (the step after an end resets), '
    '"same_step" (the step that ends resets) or "disabled" (the caller resets, or next_obs holds '
    "the final observation, as in SB3)"
)


def lanes_and_mode(env: Any) -> tuple[int, Word]:  # noqa: ANN401
    """Return the lanes and the autoreset mode that a writer for `env` needs.

    If no code has imported Gymnasium, `env` cannot be one of its environments.
    """
    if "gymnasium" not in sys.modules:
        raise _refusal(env)
    from gymnasium import Env, Wrapper
    from gymnasium.vector import VectorEnv
    from gymnasium.wrappers import Autoreset

    if isinstance(env, VectorEnv):
        mode = env.metadata.get("autoreset_mode")
        if mode is None:
            raise ArgumentError(
                f"{env} does not say how it resets: its metadata lack autoreset_mode; set "
                f"env.metadata to one with a gymnasium.vector.AutoresetMode, or {_CHOICES}"
            )
        return env.num_envs, word_of(mode)
    if not isinstance(env, Env):
        raise _refusal(env)
    layer: Any = env
    while isinstance(layer, Wrapper):
        if isinstance(layer, Autoreset):
            return 1, "next_step"
        layer = layer.env
    return 1, "disabled"


def lanes_for(n_envs: int, lanes: int | None) -> int:
    """Return the lanes of a ring for the environments here and in other processes."""
    if lanes is not None and lanes < n_envs:
        raise ArgumentError(
            f"lanes is {lanes}, fewer than the {n_envs} environments; give one for each "
            "environment, here and in other processes"
        )
    return n_envs if lanes is None else lanes


def word_of(mode: str | AutoresetMode) -> Word:
    """Return the name of a mode that is Gymnasium's enum, a value of it, or a name."""
    name = mode if isinstance(mode, str) else mode.name
    for word in WORDS:
        if name.lower().replace("_", "") == word.replace("_", ""):
            return word
    raise ArgumentError(
        f"autoreset_mode is {mode!r}; write {', '.join(map(repr, WORDS))}, or give a "
        "gymnasium.vector.AutoresetMode"
    )


def _refusal(env: Any) -> ArgumentTypeError:  # noqa: ANN401
    return ArgumentTypeError(
        f"env is {env!r}; give a gymnasium.Env or gymnasium.vector.VectorEnv, or {_CHOICES}"
    )
