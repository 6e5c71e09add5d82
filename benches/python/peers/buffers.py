"""Protocols of a contender's classes. A contender has no class for a workload that it cannot do."""

from __future__ import annotations

from typing import Any, Protocol

from replay.workloads import Transition

from .data import Array, Row


class Drawn(Protocol):
    """A buffer that is filled when it is made, and drawn from."""

    def sample(self) -> Any:  # noqa: ANN401 - batches differ between contenders
        """Draw `BATCH` items; the batch is complete when this returns, and the caller's to keep."""

    def close(self) -> None:
        """Give the memory back."""


class Transitions(Drawn, Protocol):
    """Stores and draws transitions."""

    def __init__(self, steps: list[Transition]) -> None:
        """Store steps until the buffer is full."""

    def append(self, rows: list[Row]) -> None:
        """Store transitions of one environment, one by one."""

    def append_many(self, step: Transition) -> None:
        """Store a step of `MANY` environments."""

    def pairs(self, batch: Any) -> tuple[Array, Array]:  # noqa: ANN401
        """Take obs and next_obs out of a batch, to check them."""


class Frames(Drawn, Protocol):
    """Draws stacks of frames, and the next stacks."""

    def __init__(self) -> None:
        """Store frames until the buffer is full."""

    def pairs(self, batch: Any) -> tuple[Array, Array]:  # noqa: ANN401
        """Take stacks and next stacks out of a batch, frames on the second axis, to check them."""


class Windows(Drawn, Protocol):
    """Draws windows of observations."""

    def __init__(self) -> None:
        """Store observations until the buffer is full."""

    def windows(self, batch: Any) -> Array:  # noqa: ANN401
        """Take the windows out of a batch, to check them."""


class SharedWriter(Protocol):
    """The writer's end of a buffer that two processes use."""

    def append_many(self, step: Transition) -> None:
        """Store a step of `MANY` environments."""

    def close(self) -> None:
        """Release the buffer."""


class Shared(Protocol):
    """The learner's end of a buffer that two processes use."""

    handle: Any
    """Argument from which the other process makes its `writer`."""
    writer: Any

    def __init__(self) -> None:
        """Make the buffer."""

    def sample(self) -> tuple[Array, Array]:
        """Draw `BATCH` observations and next observations."""

    def close(self) -> None:
        """Remove the buffer."""
