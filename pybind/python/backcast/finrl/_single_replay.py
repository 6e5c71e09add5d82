"""The buffer of a single environment: that of many, whose states come alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from backcast._calls import explained
from backcast.finrl._records import as_arrays
from backcast.finrl._replay import VecReplayBuffer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike


class ReplayBuffer(VecReplayBuffer):
    """Transitions of one environment, with the market around them.

    As :class:`VecReplayBuffer`, but that states, actions, rewards and flags have no leading axis.

    Parameters
    ----------
    env : FastFinRL
        Whose states are added.
    capacity : int, default 1000000
        Transitions kept. Their memory is taken at once.
    batch_size : int, default 256
        Transitions of a batch, unless ``sample`` says otherwise.
    seed : int, default 42
        Of the draws; -1: a random one.
    action_shape : tuple of int, optional
        Of an action; ``(n_tickers,)`` when left out.
    **settings : object
        As in :class:`VecReplayBuffer`.

    Raises
    ------
    ArgumentError, ExistsError, SpaceError
        If a setting is out of its range, the name is taken, or there is no room.
    """

    @explained
    def __init__(
        self,
        env: Any,  # noqa: ANN401
        capacity: int = 1_000_000,
        batch_size: int = 256,
        seed: int = 42,
        action_shape: tuple[int, ...] | None = None,
        **settings: Any,  # noqa: ANN401
    ) -> None:
        super().__init__(env, capacity, batch_size, seed, action_shape, **settings)

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
            What the environment returned before, nested or flat.
        action : array_like, shape action_shape
            What was done.
        reward : float or array_like, shape (n_objectives,)
            What came of it.
        next_state : mapping
            What the environment returned then.
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
        states = as_arrays([state], "state")
        next_states = as_arrays([next_state], "next_state", arrived=True)
        self._ring.add(
            states,
            np.asarray(action)[None],
            np.asarray(reward)[None],
            next_states,
            np.asarray(done)[None],
        )
