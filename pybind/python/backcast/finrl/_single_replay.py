"""Buffer of a single environment, whose states have no leading axis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from backcast._calls import explained
from backcast.finrl._records import as_arrays_of_one
from backcast.finrl._replay import VecReplayBuffer
from backcast.finrl._transition import StoredTransition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike


class ReplayBuffer(VecReplayBuffer):
    """Transitions of one environment, with the market around them.

    Like :class:`VecReplayBuffer`, but states, actions, rewards and flags have no leading axis.

    Parameters
    ----------
    env : FastFinRL
        Environment of the states.
    capacity : int, default 1000000
        Transitions kept. Their memory is allocated immediately.
    batch_size : int, default 256
        Transitions of a batch, unless ``sample`` says otherwise.
    seed : int, default 42
        Seed of the draws; -1: a random one.
    action_shape : tuple of int, optional
        Shape of an action; ``(n_tickers,)`` when left out.
    n_objectives : int, optional
        Rewards of one transition; as many as the first one has, when left out.
    threads : int, default 1
        Threads that copy market windows, where a batch is large enough for several.
    name : str, optional
        Name that other processes attach to; private to this one when left out.
    n_adders : int, default 1
        Processes that add at the same time, each to an equal share of the capacity.
    exist : {"error", "attach", "replace"}
        Policy when the name is taken.
    persistent : bool
        Keep the buffer when no process holds it.
    dir : path, optional
        Base directory; by default ``BACKCAST_DIR``, else ``/dev/shm``.

    Raises
    ------
    ArgumentError, ExistsError, SpaceError
        If a setting is out of its range, the name is taken, or there is no room.
    """

    @explained
    def get(self, index: int) -> StoredTransition:
        """Copy one transition out.

        Parameters
        ----------
        index : int
            Slot, from 0 to ``size() - 1``. Where several processes add, slots are counted adder
            after adder.

        Returns
        -------
        StoredTransition

        Raises
        ------
        SampleError
            If it is not stored.
        """
        return StoredTransition(**self._ring.get(index))

    def add(
        self,
        state: Mapping[str, Any],
        action: ArrayLike,
        reward: ArrayLike,
        next_state: Mapping[str, Any],
        done: ArrayLike,
    ) -> None:
        """Add one transition.

        Parameters
        ----------
        state : mapping
            State before the step, nested or flat.
        action : array_like, shape action_shape
            Actions.
        reward : float or array_like, shape (n_objectives,)
            Rewards.
        next_state : mapping
            State after the step.
        done : bool
            Whether the episode is over.

        Raises
        ------
        AppendError
            If shapes do not fit, a day or ticker is not the market's, or a number is not finite; it
            was not added then.
        WriterError
            If other processes hold all places for adders.
        """
        self._ring.add(
            as_arrays_of_one(state, "state"),
            _with_axis(action),
            _with_axis(reward),
            as_arrays_of_one(next_state, "next_state", arrived=True),
            _with_axis(done),
            alone=True,
        )


def _with_axis(value: ArrayLike) -> Any:  # noqa: ANN401
    """Put the axis of environments before those that an argument has."""
    try:
        array = np.asarray(value)
        # The ring refuses masked arrays, which a plain array would hide.
        masked = array is not value and isinstance(value, np.ma.MaskedArray)
        return value if masked else array[None]
    except ValueError:
        # Ragged lists make no array; the ring raises the error.
        return [value]
