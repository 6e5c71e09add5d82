"""Columns of a ring of SB3's transitions, with single frames in place of stacks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from gymnasium import spaces

from backcast import Schema
from backcast._spaces import columns
from backcast.errors import ArgumentError, ArgumentTypeError

if TYPE_CHECKING:
    from numpy.typing import NDArray

Padding: TypeAlias = Literal["zero", "reset"]


@dataclass(frozen=True)
class Frames:
    """Stacking of observations: ``count`` frames along the first axis, the newest last."""

    count: int
    #: Shape of a whole observation.
    shape: tuple[int, ...]
    padding: Padding

    @classmethod
    def of(cls, space: spaces.Space[Any], count: int | None, padding: str) -> Frames | None:
        """Check the settings against the space; return None if no frames are stacked."""
        if count is None:
            if padding != "zero":
                raise ArgumentError(
                    f"padding is {padding!r}, but no frames are stacked without frames=; give how "
                    "many an observation stacks, or leave padding out"
                )
            return None
        if isinstance(count, bool) or not isinstance(count, int | np.integer):
            raise ArgumentTypeError(f"frames is {count!r}; give how many frames are stacked")
        if padding not in ("zero", "reset"):
            raise ArgumentError(
                f'padding is {padding!r}; write "zero" (VecFrameStack) or "reset" '
                "(gymnasium's FrameStackObservation)"
            )
        shape = space.shape
        if not isinstance(space, spaces.Box) or not shape:
            raise ArgumentError(
                f"frames={count} needs a Box of stacked frames, got {space}; leave frames out"
            )
        if count < 2 or shape[0] % count:
            raise ArgumentError(
                f"frames is {count}, but the first axis of {shape} holds no whole number of such "
                "stacks; give how many frames VecFrameStack stacks. Images must be channel-first, "
                "as VecTransposeImage makes them"
            )
        return cls(int(count), shape, "reset" if padding == "reset" else "zero")

    @property
    def frame_shape(self) -> tuple[int, ...]:
        """The shape of one frame; a frame of one channel has no channel axis."""
        channels = self.shape[0] // self.count
        return self.shape[1:] if channels == 1 else (channels, *self.shape[1:])

    def split(self, obs: NDArray[Any]) -> NDArray[Any]:
        """View observations ``[n, *shape]`` as ``[n, count, *frame_shape]``."""
        return obs.reshape(len(obs), self.count, *self.frame_shape)

    def newest(self, obs: NDArray[Any]) -> NDArray[Any]:
        """Return the newest frames of observations, ``[n, *frame_shape]``."""
        return self.split(obs)[:, -1]

    def is_start(self, stack: NDArray[Any]) -> bool:
        """Return whether the frames before the newest are padding."""
        older, newest = stack[:-1], stack[-1]
        return not older.any() if self.padding == "zero" else bool((older == newest).all())


def schema_of(
    observation_space: spaces.Space[Any], action_space: spaces.Space[Any], frames: Frames | None
) -> Schema:
    """Describe rows of ``obs``, ``action`` and ``reward``.

    Observations and actions have the shapes and dtypes of their spaces; float64 actions become
    float32, as SB3 stores them.
    """
    found = columns(observation_space, action_space, "f4", None)
    if frames is not None:
        found["obs"] = (observation_space.dtype, frames.frame_shape)
    dtype, shape = found["action"]
    if np.dtype(dtype) == np.float64:
        found["action"] = (np.float32, shape)
    return Schema(found)
