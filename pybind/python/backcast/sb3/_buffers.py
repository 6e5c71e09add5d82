"""SB3's replay buffers over rings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from gymnasium import spaces
from stable_baselines3.common import buffers as sb3
from stable_baselines3.common.type_aliases import DictReplayBufferSamples
from stable_baselines3.her import HerReplayBuffer as Sb3HerReplayBuffer

from backcast._calls import explained
from backcast._counts import count_of, number_of
from backcast.errors import ArgumentError
from backcast.sb3._on_ring import OnRing, Sampling

if TYPE_CHECKING:
    import os

    import torch
    from numpy.typing import NDArray
    from stable_baselines3.common.vec_env import VecNormalize

    import backcast as bc
    from backcast.sb3._columns import Padding
    from backcast.sb3._stored import Returns, Rows


class ReplayBuffer(OnRing):
    """SB3's ``ReplayBuffer`` over a ring: give it as ``replay_buffer_class``.

    The arguments down to `handle_timeout_termination` are SB3's; SB3 passes the others from
    ``replay_buffer_kwargs``. Each observation is stored once, and the one after a time limit is
    kept, with either value of `optimize_memory_usage`.

    Parameters
    ----------
    buffer_size : int
        Rows over all lanes, if `capacity` is left out; an episode of n transitions takes n + 1.
        With ``sampling="sb3"`` it counts transitions, as in SB3: the ring has spare rows for the
        ends of episodes.
    observation_space, action_space : gymnasium.spaces.Space
        Spaces of one environment. Actions of a Box are stored scaled to -1 to 1, as in SB3.
    device : torch.device or str
        Device of the tensors of samples.
    n_envs : int
        Environments that this learner steps, each with a lane of its own.
    optimize_memory_usage : bool
        Changes only which random numbers ``sampling="sb3"`` draws.
    handle_timeout_termination : bool
        If True, ``dones`` of a sample are 0 where a time limit ended the episode.
    name : str, optional
        Name of the ring, by which other processes attach, write to other lanes and read. The
        columns are ``obs`` (``obs/KEY`` of a Dict), ``action`` and ``reward``.
    lanes : int, optional
        Lanes of the ring, those of other processes' environments included; `n_envs` if left out.
    capacity : int or str, optional
        Rows over all lanes, or bytes (``"8GiB"``); `buffer_size` rows if left out. With
        ``sampling="sb3"`` at least two rows for each transition.
    exist : {"attach", "error", "replace"}
        Policy when the name is taken. Attaching needs the same columns.
    persistent : bool
        Keep the ring when no process holds it.
    dir : path, optional
        Base directory; by default ``BACKCAST_DIR``, else ``/dev/shm``.
    sampling : {"ring", "sb3"}
        Draw from all transitions of the ring, or only from those added here, with the random
        numbers that SB3 would draw: a run is then equal to one on SB3's buffer, bit for bit.
    seed : int, optional
        Seed of the sampler; by default drawn from NumPy's global generator, which SB3 seeds.
        Refused with ``sampling="sb3"``, which draws from that generator itself.
    frames : int, optional
        Frames that an observation stacks along the first axis, the newest last; each frame is
        stored once. A stack that is not shifted by one frame a step is refused.
    padding : {"zero", "reset"}
        Frames before an episode's first: zeros (``VecFrameStack``), or the first one again
        (``gymnasium.wrappers.FrameStackObservation``). ``"reset"`` needs `frames`.

    Notes
    -----
    A transition can be drawn once its successor is in the ring, so the newest one of each lane is
    drawn one step later than from SB3's buffer; ``sampling="sb3"`` draws it immediately.

    SB3's arrays, ``observations`` and so on, can be indexed as ``[step, environment]``: the result
    is a copy. Assignments are refused, except for ``dones[pos - 1] = True``. That one ends the
    episodes at their newest transitions, whose stored flags do not change.

    The buffer pickles with its rows, for ``save_replay_buffer`` and ``load_replay_buffer``; a
    loaded buffer draws what the saved one would have drawn. A ring with a `name` comes back under
    that name. Loading is refused while a ring with rows has it, such as that of the saved buffer:
    ``backcast.remove_object(name, force=True)`` frees the name, and its users keep their rows.

    Examples
    --------
    >>> from stable_baselines3 import DQN  # doctest: +SKIP
    >>> DQN("MlpPolicy", "CartPole-v1", replay_buffer_class=ReplayBuffer)  # doctest: +SKIP
    """

    @explained
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
        if isinstance(observation_space, spaces.Dict):
            raise ArgumentError(
                "the observation space is a Dict; use backcast.sb3.DictReplayBuffer"
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
        )

    def _draw_steps(self, count: int) -> NDArray[np.int64]:
        if not (self.optimize_memory_usage and self.full and self.buffer_size > 1):
            return super()._draw_steps(count)
        # With `optimize_memory_usage`, SB3 has one array for both observations. The newest next
        # observation has overwritten the oldest step there, so SB3 does not draw that step.
        return (np.random.randint(1, self.buffer_size, size=count) + self.pos) % self.buffer_size


class DictReplayBuffer(OnRing, sb3.DictReplayBuffer):
    """SB3's ``DictReplayBuffer`` over a ring.

    The arguments are those of :class:`ReplayBuffer` but for `frames` and `padding`. Each part of
    the observation is a column ``obs/KEY``.
    """

    @explained
    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Dict,
        action_space: spaces.Space[Any],
        device: torch.device | str = "auto",
        n_envs: int = 1,
        optimize_memory_usage: bool = False,
        handle_timeout_termination: bool = True,
        *,
        name: str | None = None,
        lanes: int | None = None,
        capacity: int | str | None = None,
        exist: Literal["error", "attach", "replace"] = "attach",
        persistent: bool = False,
        dir: str | os.PathLike[str] | None = None,
        sampling: Sampling = "ring",
        seed: int | None = None,
    ) -> None:
        if not isinstance(observation_space, spaces.Dict):
            raise ArgumentError(
                f"the observation space is {observation_space}, not a Dict; use "
                "backcast.sb3.ReplayBuffer"
            )
        options = {
            "name": name,
            "lanes": lanes,
            "capacity": capacity,
            "exist": exist,
            "persistent": persistent,
            "dir": dir,
        }
        self._open(
            buffer_size,
            observation_space,
            action_space,
            device,
            n_envs,
            optimize_memory_usage,
            handle_timeout_termination,
            sampling=sampling,
            seed=seed,
            # `HerReplayBuffer` stores its options in `_ring_options`, because SB3's constructor
            # between the two does not pass them on.
            **self.__dict__.pop("_ring_options", options),
        )

    _made: Any = DictReplayBufferSamples


class NStepReplayBuffer(OnRing, sb3.NStepReplayBuffer):
    """SB3's ``NStepReplayBuffer`` over a ring: n-step returns, which stop where an episode ends.

    The arguments are those of :class:`ReplayBuffer`, and two of SB3's.

    Parameters
    ----------
    n_steps : int
        Transitions whose rewards are summed.
    gamma : float, default 0.99
        Discount of the rewards per step, 0 to 1: give the algorithm's.

    Notes
    -----
    SB3 does not pass the algorithm's ``n_steps`` and ``gamma`` to a class that is given as
    ``replay_buffer_class``. Without ``replay_buffer_kwargs`` this buffer sums 3 rewards with a
    discount of 0.99. The algorithm takes the discount of the value after them from the sample, so
    its own ``gamma=0.9`` would have no effect at all.

    Examples
    --------
    >>> from stable_baselines3 import DQN  # doctest: +SKIP
    >>> DQN(
    ...     "MlpPolicy",
    ...     "CartPole-v1",
    ...     gamma=0.9,
    ...     replay_buffer_class=NStepReplayBuffer,
    ...     replay_buffer_kwargs={"n_steps": 3, "gamma": 0.9},
    ... )  # doctest: +SKIP
    """

    @explained
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
        n_steps: int = 3,
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
        if isinstance(observation_space, spaces.Dict):
            raise ArgumentError(
                "n-step returns over Dict observations are not served, as in SB3; flatten the "
                "observations (gymnasium.wrappers.FlattenObservation)"
            )
        self.n_steps = count_of(n_steps, "n_steps", 1, ArgumentError)
        self.gamma = discount_of(gamma)
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
        )

    def _of_batch(self, batch: bc.Batch, env: VecNormalize | None) -> Any:
        return self._returns(self._stored.returns(batch), env)

    def _of_places(
        self,
        at: NDArray[np.int64],
        lanes: NDArray[np.int64],
        rows: Rows,
        env: VecNormalize | None,
    ) -> Any:
        return self._returns(self._stored.take_returns(at, lanes, rows, self.n_steps), env)

    def _returns(self, drawn: Returns, env: VecNormalize | None) -> Any:
        # Computed in SB3's order and precision, so that the sums are equal to the last bit.
        rewards = self._normalize_reward(drawn.rewards, env)
        powers = np.arange(self.n_steps, dtype=np.float32).reshape(1, -1)
        summed = np.arange(self.n_steps) < drawn.length[:, None]
        returns = (rewards * self.gamma**powers * summed).sum(axis=1, keepdims=True)
        discounts = self.gamma ** summed.sum(axis=1, keepdims=True).astype(np.float32)
        samples = self._samples(drawn.rows, env)
        return samples._replace(rewards=self._tensor(returns), discounts=self._tensor(discounts))


def discount_of(gamma: object) -> float:
    wanted = "a number from 0 to 1, the gamma of the algorithm"
    discount = number_of(gamma, "gamma", wanted)
    if not 0 <= discount <= 1:
        raise ArgumentError(f"gamma is {discount:g}; give {wanted}")
    return discount


class HerReplayBuffer(Sb3HerReplayBuffer, DictReplayBuffer):
    """SB3's ``HerReplayBuffer`` over a ring.

    SB3's own code draws the goals and computes the rewards, from episodes that were added here.
    Episodes that other processes write are not used. `buffer_size` is in transitions, as in SB3,
    and a `capacity` has at least two rows for each of them.
    The arguments are those of :class:`DictReplayBuffer` but for `sampling` and `seed`, and SB3's
    `n_sampled_goal`, `goal_selection_strategy` and `copy_info_dict`.
    """

    @explained
    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Dict,
        action_space: spaces.Space[Any],
        env: Any,
        device: torch.device | str = "auto",
        n_envs: int = 1,
        optimize_memory_usage: bool = False,
        handle_timeout_termination: bool = True,
        n_sampled_goal: int = 4,
        goal_selection_strategy: Any = "future",
        copy_info_dict: bool = False,
        *,
        name: str | None = None,
        lanes: int | None = None,
        capacity: int | str | None = None,
        exist: Literal["error", "attach", "replace"] = "attach",
        persistent: bool = False,
        dir: str | os.PathLike[str] | None = None,
    ) -> None:
        self._ring_options = {
            "name": name,
            "lanes": lanes,
            "capacity": capacity,
            "exist": exist,
            "persistent": persistent,
            "dir": dir,
            "by_place": True,
        }
        # SB3's constructor calls that of `DictReplayBuffer`, which takes the options.
        Sb3HerReplayBuffer.__init__(
            self,
            buffer_size,
            observation_space,
            action_space,
            env,
            device=device,
            n_envs=n_envs,
            optimize_memory_usage=optimize_memory_usage,
            handle_timeout_termination=handle_timeout_termination,
            n_sampled_goal=n_sampled_goal,
            goal_selection_strategy=goal_selection_strategy,
            copy_info_dict=copy_info_dict,
        )

    def sample(self, batch_size: int, env: VecNormalize | None = None) -> Any:
        """Draw transitions, by default four in five with a goal that their episode achieved.

        Episodes of which rows were overwritten are left out.
        """
        lost = self._stored.lost()
        if lost.any():
            starts = self.ep_start, np.arange(self.n_envs)
            self.ep_length[lost | lost[starts]] = 0
        return super().sample(batch_size, env)
