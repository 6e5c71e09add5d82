"""SB3's replay buffer with prioritised draws over a ring."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import torch
from gymnasium import spaces

import backcast as bc
from backcast._calls import explained_as, levels_up
from backcast._counts import count_of
from backcast.errors import ArgumentError, ArgumentTypeError
from backcast.sb3._buffers import NStepReplayBuffer, discount_of
from backcast.sb3._on_ring import OnRing, Sampling
from backcast.sb3._own_priorities import OwnPriorities

if TYPE_CHECKING:
    import os

    from numpy.typing import NDArray
    from stable_baselines3.common.vec_env import VecNormalize

    from backcast.sb3._columns import Padding
    from backcast.sb3._stored import Rows

# Samples without an update of priorities before the buffer warns.
_SAMPLES = 100


class PrioritizedSamples(NamedTuple):
    """SB3's samples, with importance weights and what :meth:`update_priorities` takes."""

    observations: Any
    actions: torch.Tensor
    next_observations: Any
    dones: torch.Tensor
    rewards: torch.Tensor
    #: Discount of the value after the rewards, float32 ``[B, 1]``; None for ``n_steps=1``.
    discounts: torch.Tensor | None
    #: Importance weight of each transition's loss, float32 ``[B, 1]``.
    weights: torch.Tensor
    #: Indices for ``update_priorities``, int64 ``[B]``.
    indices: NDArray[np.int64]


class PrioritizedReplayBuffer(NStepReplayBuffer):
    """Prioritised replay (Schaul et al., ICLR 2016) for SB3, over a ring.

    SB3's algorithms neither weight their losses nor set priorities:
    :class:`backcast.sb3.PrioritizedDQN` does. In a ``train`` of your own, multiply the loss of each
    transition by ``weights``, and call ``update_priorities(indices, |TD error|)``. The buffer warns
    if its priorities are never set.

    The arguments are those of :class:`ReplayBuffer`, also for Dict observations, and these.

    Parameters
    ----------
    select : backcast.Priority, default Priority()
        Exponents and other options of the draws, and the name of their table.
    n_steps : int, default 1
        Transitions whose rewards are summed. Dict observations take 1 only.
    gamma : float, default 0.99
        Discount of the rewards per step; give the algorithm's. Without effect for ``n_steps=1``.
    sampling : {"ring", "sb3"}
        With ``"ring"``, draw from all transitions of the ring, by priorities in shared memory. With
        ``"sb3"``, draw only from those added here, with numbers of NumPy's global generator; the
        priorities are this learner's own, and a draw takes time in proportion to the transitions.

    Examples
    --------
    >>> PrioritizedDQN(  # doctest: +SKIP
    ...     "MlpPolicy",
    ...     "CartPole-v1",
    ...     replay_buffer_kwargs={"select": bc.Priority(alpha=0.6, beta=(0.4, 50_000))},
    ... )
    """

    @explained_as(
        alpha="select", beta="select", eps="select", prioritized="select", n_step="n_steps"
    )
    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        device: torch.device | str = "auto",
        n_envs: int = 1,
        optimize_memory_usage: bool = False,
        handle_timeout_termination: bool = True,
        *,
        select: bc.Priority | None = None,
        n_steps: int = 1,
        gamma: float = 0.99,
        name: str | None = None,
        lanes: int | None = None,
        capacity: int | str | None = None,
        exist: Literal["error", "attach", "replace"] = "attach",
        persistent: bool = False,
        dir: str | os.PathLike[str] | None = None,
        sampling: Sampling = "ring",
        seed: int | None = None,
        frames: int | None = None,
        padding: Padding = "zero",
    ) -> None:
        select = bc.Priority() if select is None else select
        _check(select)
        if sampling == "sb3" and isinstance(select.alpha, tuple | str):
            raise ArgumentError(
                f"alpha is {select.alpha!r}, which the draws of SB3 cannot change; give a number, "
                'or sampling="ring"'
            )
        if sampling == "sb3" and select.by == "rank":
            raise ArgumentError(
                "by is 'rank', and the draws of SB3 are in proportion to priorities; give "
                'by="priority", or sampling="ring"'
            )
        self.n_steps = count_of(n_steps, "n_steps", 1, ArgumentError)
        self.gamma = discount_of(gamma)
        if isinstance(observation_space, spaces.Dict) and self.n_steps > 1:
            raise ArgumentError(
                f"n_steps is {n_steps}, and n-step returns over Dict observations are not served, "
                "as in SB3; flatten the observations (gymnasium.wrappers.FlattenObservation)"
            )
        self._open(
            buffer_size,
            observation_space,
            action_space,
            device,
            n_envs,
            optimize_memory_usage,
            handle_timeout_termination,
            name=name,
            lanes=lanes,
            capacity=capacity,
            exist=exist,
            persistent=persistent,
            dir=dir,
            sampling=sampling,
            seed=seed,
            frames=frames,
            padding=padding,
            n_step=self.n_steps,
            select=select,
        )
        self._unset = 0
        self._own: OwnPriorities | None = None
        if sampling == "sb3":
            self._own = OwnPriorities(select, self._stored.steps, n_envs)
            return
        # Refuses a table with other settings before anything is collected.
        try:
            self.ring.sampler(seed=0, select=select).close()
        except bc.BackcastError:
            self.ring.close()
            raise

    def add(self, *step: Any, **named: Any) -> None:
        """Append one transition for each environment, as SB3 calls it."""
        super().add(*step, **named)
        if self._own is not None:
            self._own.enter(self._stored.added - 1)

    def sample(self, batch_size: int, env: VecNormalize | None = None) -> PrioritizedSamples:
        """Draw transitions by priority, with their importance weights.

        Parameters
        ----------
        batch_size : int
            Number of transitions, ``B``.
        env : VecNormalize, optional
            Normalizes observations and rewards.

        Raises
        ------
        SampleError
            If nothing was added yet, or other rows have overwritten those added here.
        """
        samples: PrioritizedSamples = super().sample(batch_size, env)
        self._unset += 1
        if self._unset == _SAMPLES:
            warnings.warn(
                f"{_SAMPLES} batches were drawn by priority, and no priority was set, so all draws "
                "are uniform; train with backcast.sb3.PrioritizedDQN, or call "
                "update_priorities(samples.indices, errors) after each update",
                stacklevel=levels_up(),
            )
        return samples

    def update_priorities(self, indices: Any, priorities: Any) -> int:
        """Set the priorities of drawn transitions.

        Parameters
        ----------
        indices : array_like of int, [B]
            ``indices`` of a sample.
        priorities : torch.Tensor or array_like of float, [B] or [B, 1]
            Absolute TD errors, or other finite numbers from 0 up.

        Returns
        -------
        int
            How many were dropped, because their transition was overwritten meanwhile, or has no
            successor in the ring yet.

        Raises
        ------
        SampleError
            If a priority is negative, infinite or NaN; none was set.
        """
        if isinstance(priorities, torch.Tensor):
            priorities = priorities.detach().cpu().numpy()
        values = np.asarray(priorities, np.float64).reshape(-1)
        if self._own is not None:
            dropped = self._own.update(np.asarray(indices, np.int64).reshape(-1), values)
        else:
            dropped = self._stored.update_priorities(indices, values)
        # Negative: it stays below the number at which `sample` warns.
        self._unset = -(2**62)
        return dropped

    def _draw_places(self, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return super()._draw_places(count) if self._own is None else self._own.draw(count)

    def _of_batch(self, batch: bc.Batch, env: VecNormalize | None) -> Any:
        # The discount after one step is the algorithm's own.
        kind = OnRing if self.n_steps == 1 else NStepReplayBuffer
        samples = kind._of_batch(self, batch, env)
        return self._weighted(samples, batch["weight"], batch.index)

    def _of_places(
        self,
        at: NDArray[np.int64],
        lanes: NDArray[np.int64],
        rows: Rows,
        env: VecNormalize | None,
    ) -> Any:
        kind = OnRing if self.n_steps == 1 else NStepReplayBuffer
        samples = kind._of_places(self, at, lanes, rows, env)
        if self._own is None:
            # None of them has its successor in the ring, or a priority, yet.
            return self._weighted(samples, np.ones(len(at), "f4"), self._stored.index(at, lanes))
        return self._weighted(samples, self._own.weights(at, lanes), self._own.index(at, lanes))

    def _weighted(
        self, samples: Any, weights: NDArray[np.float32], indices: NDArray[np.int64]
    ) -> PrioritizedSamples:
        weighted = self._tensor(weights.reshape(-1, 1))
        return PrioritizedSamples(**samples._asdict(), weights=weighted, indices=indices)


def _check(select: object) -> None:
    """Refuse what is no `Priority`, or one with options out of range."""
    if not isinstance(select, bc.Priority):
        raise ArgumentTypeError(f"select is {select!r}; give bc.Priority(alpha=..., beta=...)")
    with bc.ReplayBuffer.create(None, {"x": "u1"}, capacity=2) as ring:
        ring.sampler(seed=0, select=select).close()
