"""Step limit of an environment that Gymnasium makes by its id."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from gymnasium.envs import registration

if TYPE_CHECKING:
    from types import FrameType

# Gymnasium's word for no limit.
_NONE = -1


def step_limit(given: Any) -> Any:  # noqa: ANN401
    """Return the step limit of the environment that is being constructed.

    ``gym.make`` passes every argument on but ``max_episode_steps``, which it keeps for the
    ``TimeLimit`` around the environment. An environment without its limit would be another task
    than one of ``gym.make_vec``: another time left, no reward and no metrics of the end. So the
    limit is read from the call of ``gym.make`` that called the constructor, if one did.

    `given` is the constructor's argument, returned unchecked if there is no such call.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith("backcast."):
        frame = frame.f_back
    if frame is None:
        return given
    if frame.f_code is registration.make_vec.__code__:
        return None if given == _NONE else given
    if frame.f_code is not registration.make.__code__:
        return given
    limit = frame.f_locals.get("max_episode_steps")
    if limit is None:
        limit = getattr(frame.f_locals.get("env_spec"), "max_episode_steps", None)
    if limit is None or limit == _NONE:
        return given
    # Both hold: the environment's own, as a setting of the id, and that of the wrapper.
    return min(given, limit) if isinstance(given, int) and isinstance(limit, int) else limit
