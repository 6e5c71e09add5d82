"""Step limit of an environment that Gymnasium makes by its id."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from gymnasium.envs import registration

if TYPE_CHECKING:
    from types import FrameType

# Value that means "no limit" in Gymnasium.
_NONE = -1
_MAKERS = registration.make.__code__, registration.make_vec.__code__


def step_limit(env: object, given: Any) -> Any:  # noqa: ANN401
    """Return the step limit of the environment that is being constructed.

    ``gym.make`` passes on every argument except ``max_episode_steps``, which it keeps for the
    ``TimeLimit`` around the environment. An environment that does not know its limit would differ
    from one of ``gym.make_vec``: in the time left, and without the reward and metrics of the end.
    So the limit is read from the frame of ``gym.make`` or ``gym.make_vec`` if that called the
    constructor. A function between the two, such as another entry point of an id, hides the call.

    `given` is the argument of the constructor of `env`, returned unchecked if there is no such
    call.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_constructor(frame, env):
        frame = frame.f_back
    if frame is None or frame.f_code not in _MAKERS:
        return given
    limit = getattr(frame.f_locals.get("env_spec"), "max_episode_steps", None)
    if frame.f_code is registration.make.__code__:
        # The setting of an id gives way to the keyword, as in `gym.make_vec`.
        keyword = frame.f_locals.get("max_episode_steps")
        if keyword is not None:
            return None if keyword == _NONE else keyword
        # Both hold: the setting of an id, and the `TimeLimit` of its spec.
        if isinstance(given, int) and isinstance(limit, int):
            return min(given, limit)
    if given is None:
        return limit
    return None if given == _NONE else given


def _is_constructor(frame: FrameType, env: object) -> bool:
    """Tell whether a frame is of this package, or of a method of the object, as in a subclass."""
    if frame.f_globals.get("__name__", "").startswith("backcast."):
        return True
    code = frame.f_code
    return code.co_argcount > 0 and frame.f_locals.get(code.co_varnames[0]) is env
