"""CleanRL's replay buffers over a ring: ``add`` and ``sample`` with the names its scripts use.

It needs PyTorch and Gymnasium (``pip install 'backcast[cleanrl]'``); ``import backcast`` alone does
not.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

import backcast as bc
from backcast._autoreset import lanes_and_mode, lanes_for, word_of
from backcast._calls import explained, explained_as
from backcast._counts import count_of, number_of, seed_of
from backcast.errors import ArgumentError, ArgumentTypeError, MissingExtraError

try:
    import torch
    from gymnasium import spaces

    from backcast.torch._tensors import tensor_of
except ImportError as _error:
    _missing = (_error.name or "").partition(".")[0]
    if _missing not in {"gymnasium", "torch"}:
        raise
    raise MissingExtraError(
        f"backcast.cleanrl builds on PyTorch and Gymnasium, and {_missing} is not installed; "
        "run `pip install 'backcast[cleanrl]'`"
    ) from _error

if TYPE_CHECKING:
    import os

    from gymnasium.vector import AutoresetMode, VectorEnv
    from numpy.typing import NDArray

__all__ = ["PrioritizedReplayBuffer", "PrioritizedSamples", "ReplayBuffer", "Samples"]


class Samples(NamedTuple):
    """Transitions that were drawn: tensors ``[B, ...]``, dones and rewards float32 ``[B, 1]``."""

    observations: Any
    actions: torch.Tensor
    next_observations: Any
    dones: torch.Tensor
    rewards: torch.Tensor
    #: Index of each transition in the ring, int64 ``[B]``.
    indices: NDArray[np.int64]


class PrioritizedSamples(NamedTuple):
    """Transitions that were drawn by priority, as :class:`Samples`, with importance weights."""

    observations: Any
    actions: torch.Tensor
    #: Observations after the last reward that was summed.
    next_observations: Any
    #: 1 where one of the summed transitions terminated.
    dones: torch.Tensor
    #: Sums of ``n_step`` discounted rewards, or of fewer where the episode ends.
    rewards: torch.Tensor
    #: Index of each transition in the ring, int64 ``[B]``.
    indices: NDArray[np.int64]
    #: Importance weight of each transition's loss, float32 ``[B, 1]``.
    weights: torch.Tensor
    #: Discount of the value of ``next_observations``, float32 ``[B, 1]``; 0 where ``dones`` is 1.
    discounts: torch.Tensor


class ReplayBuffer:
    """CleanRL's ``ReplayBuffer``, correct in each of Gymnasium's autoreset modes.

    Parameters
    ----------
    buffer_size : int
        Rows over all lanes; an episode of n transitions takes n + 1.
    observation_space, action_space : gymnasium.spaces.Space
        Spaces of one environment: ``envs.single_observation_space``.
    device : torch.device or str
        Device of the tensors of samples.
    n_envs : int, optional
        Environments that are stepped together; those of `env` if left out.
    env : gymnasium.vector.VectorEnv, optional
        Vector environment, for its number and autoreset mode.
    autoreset_mode : str or AutoresetMode, optional
        Autoreset mode, if `env` is left out; another one than that of `env` is refused.
    name, lanes, exist, persistent, dir
        Arguments of :meth:`backcast.ReplayBuffer.create`. With a name, other processes can fill
        and read the ring.
    capacity : int or str, optional
        Rows over all lanes, or bytes; `buffer_size` rows if left out.
    seed : int, optional
        Seed of the draws; by default drawn from NumPy's global generator, which scripts seed.
    optimize_memory_usage, handle_timeout_termination : bool
        Without effect: each observation is stored once, and only terminations are dones.

    Examples
    --------
    >>> import gymnasium as gym
    >>> import backcast.cleanrl
    >>> envs = gym.make_vec("CartPole-v1", 2, vectorization_mode="sync")
    >>> rb = backcast.cleanrl.ReplayBuffer(
    ...     1_000, envs.single_observation_space, envs.single_action_space, env=envs
    ... )
    >>> obs, _ = envs.reset(seed=1)
    >>> for _ in range(50):
    ...     actions = envs.action_space.sample()
    ...     next_obs, rewards, terminations, truncations, infos = envs.step(actions)
    ...     at = rb.add(obs, next_obs, actions, rewards, terminations, infos, truncations)
    ...     obs = next_obs
    >>> rb.sample(32).observations.shape
    torch.Size([32, 4])
    """

    @explained
    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        device: torch.device | str = "cpu",
        n_envs: int | None = None,
        optimize_memory_usage: bool = False,
        handle_timeout_termination: bool = False,
        *,
        env: VectorEnv[Any, Any, Any] | None = None,
        autoreset_mode: str | AutoresetMode | None = None,
        name: str | None = None,
        lanes: int | None = None,
        capacity: int | str | None = None,
        exist: Literal["error", "attach", "replace"] = "attach",
        persistent: bool = False,
        dir: str | os.PathLike[str] | None = None,
        seed: int | None = None,
    ) -> None:
        if env is not None:
            found, mode = lanes_and_mode(env)
            if n_envs not in (None, found):
                raise ArgumentError(f"n_envs is {n_envs}, but env steps {found}; leave n_envs out")
            n_envs = found
            if autoreset_mode is not None and word_of(autoreset_mode) != mode:
                raise ArgumentError(
                    f"autoreset_mode is {word_of(autoreset_mode)!r}, but env resets in mode "
                    f"{mode!r}; leave autoreset_mode out"
                )
            _refuse_batched(env, observation_space=observation_space, action_space=action_space)
        elif autoreset_mode is not None:
            mode = word_of(autoreset_mode)
        else:
            raise ArgumentError(
                "how the environments reset decides which rows are transitions; give env=envs, or "
                'autoreset_mode="next_step" (the default of Gymnasium 1), "same_step" or "disabled"'
            )
        if name is None and exist != "attach":
            raise ArgumentError(f"exist={exist!r} is about a name; give name=, or leave exist out")
        self._seed = seed_of(seed)
        self.n_envs = 1 if n_envs is None else n_envs
        self.buffer_size = buffer_size
        self.observation_space = observation_space
        self.action_space = action_space
        self.device = torch.device(device)
        self.ring = bc.ReplayBuffer.create(
            name,
            bc.Schema.from_spaces(observation_space, action_space),
            capacity=buffer_size if capacity is None else capacity,
            lanes=lanes_for(self.n_envs, lanes),
            exist="error" if name is None else exist,
            persistent=persistent,
            dir=dir,
        )
        self._mode = mode
        self._writer: bc.Writer | None = None
        self._sampler: bc.Sampler | None = None
        # Options of the sampler, beside its seed.
        self._options: dict[str, Any] = {}
        action_shape = self.ring.schema.columns.get("action", ("", (), "step"))[1]
        self._action_dim = int(np.prod(action_shape, dtype=np.int64))

    def add(
        self,
        obs: Any,
        next_obs: Any,
        actions: Any,
        rewards: Any,
        dones: Any,
        infos: Any,
        truncations: Any = None,
    ) -> NDArray[np.int64]:
        """Append one step of all environments, as ``envs.step`` returned it.

        Parameters
        ----------
        obs, next_obs, actions, rewards
            Arrays of the step, with the environments as the leading axis. In same-step mode the
            final observations are taken from ``infos["final_obs"]``.
        dones : array_like of bool
            Terminations.
        infos : dict
            Infos from ``envs.step``.
        truncations : array_like of bool, optional
            Truncations from ``envs.step``. May be left out only in same-step mode, where ``infos``
            has the ends, as ``final_obs`` with its mask ``_final_obs``.

        Returns
        -------
        ndarray of int64
            Indices of the rows, ``[n_envs]``.

        Raises
        ------
        ArgumentError
            If ``truncations`` is left out in another mode than same-step, or ``infos`` does not
            tell which environments ended; nothing was stored.
        AppendError
            If an array does not fit.
        """
        terminated = np.asarray(dones).astype(bool).reshape(self.n_envs)
        final_obs = None
        if self._mode == "same_step" and isinstance(infos, dict):
            final_obs = infos.get("final_obs")
        if truncations is not None:
            truncated = np.asarray(truncations).astype(bool).reshape(self.n_envs)
        elif self._mode == "same_step" and isinstance(infos, dict):
            ended = np.zeros(self.n_envs, bool)
            if final_obs is not None:
                if "_final_obs" not in infos:
                    raise ArgumentError(
                        "infos has `final_obs` without the mask `_final_obs`, which tells what "
                        "ended; give truncations, or infos as Gymnasium's envs.step returns them"
                    )
                ended |= np.asarray(infos["_final_obs"], bool)
            truncated = ended & ~terminated
        else:
            raise ArgumentError(
                "truncations is missing: without it the step after a time limit would be stored as "
                "a transition; write add(obs, next_obs, actions, rewards, terminations, infos, "
                "truncations)"
            )
        if self._writer is None:
            self._writer = self.ring.writer(self.n_envs, self._mode)
        return self._writer.append(
            obs=obs,
            next_obs=next_obs,
            action=actions,
            reward=rewards,
            terminated=terminated,
            truncated=truncated,
            final_obs=final_obs,
        )

    @explained
    def sample(self, batch_size: int) -> Samples:
        """Draw transitions uniformly over all lanes of the ring.

        Raises
        ------
        SampleError
            If there is none yet.
        """
        batch = self._drawing().sample(batch_size)
        return Samples(
            self._tensors(batch["obs"]),
            self._tensors(batch["action"].reshape(batch_size, self._action_dim)),
            self._tensors(batch["next_obs"]),
            self._tensors(batch["terminated"].astype(np.float32).reshape(batch_size, 1)),
            self._tensors(batch["reward"].reshape(batch_size, 1)),
            batch["index"],
        )

    def _drawing(self) -> bc.Sampler:
        if self._sampler is None:
            if self._seed is None:
                self._seed = int(np.random.randint(0, 2**31))
            self._sampler = self.ring.sampler(seed=self._seed, **self._options)
        return self._sampler

    def size(self) -> int:
        """Return the number of transitions that can be drawn."""
        return len(self.ring)

    def close(self) -> None:
        """End the episodes, and close the ring."""
        if self._writer is not None:
            self._writer.close()
        self.ring.close()

    def _tensors(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._tensors(part) for key, part in value.items()}
        tensor = tensor_of(value)
        return tensor if self.device.type == "cpu" else tensor.to(self.device)


class PrioritizedReplayBuffer(ReplayBuffer):
    """Prioritised replay with n-step returns, as CleanRL's Rainbow uses it.

    The loss of each transition is multiplied by ``weights``, and ``update_priorities(indices,
    errors)`` sets the priorities of the batch. The arguments are those of :class:`ReplayBuffer`,
    and these.

    Parameters
    ----------
    select : backcast.Priority, default Priority()
        Exponents and other options of the draws, and the name of their table.
    n_step : int, default 1
        Transitions whose rewards are summed.
    gamma : float, default 0.99
        Discount of the rewards per step, above 0 and at most 1.

    Examples
    --------
    >>> import backcast.cleanrl
    >>> import gymnasium as gym
    >>> spaces = gym.spaces.Box(-1, 1, (3,)), gym.spaces.Discrete(2)
    >>> rb = backcast.cleanrl.PrioritizedReplayBuffer(
    ...     1_000, *spaces, n_envs=1, autoreset_mode="disabled", n_step=3, gamma=0.99
    ... )
    >>> step = np.zeros((1, 3), "f4"), np.zeros((1, 3), "f4"), [1], [1.0], [False], {}, [False]
    >>> for _ in range(20):
    ...     at = rb.add(*step)
    >>> data = rb.sample(32)
    >>> data.weights.shape, rb.update_priorities(data.indices, torch.ones(32))
    (torch.Size([32, 1]), 0)
    """

    @explained_as(alpha="select", eps="select", n_steps="n_step")
    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        device: torch.device | str = "cpu",
        n_envs: int | None = None,
        optimize_memory_usage: bool = False,
        handle_timeout_termination: bool = False,
        *,
        select: bc.Priority | None = None,
        n_step: int = 1,
        gamma: float = 0.99,
        env: VectorEnv[Any, Any, Any] | None = None,
        autoreset_mode: str | AutoresetMode | None = None,
        name: str | None = None,
        lanes: int | None = None,
        capacity: int | str | None = None,
        exist: Literal["error", "attach", "replace"] = "attach",
        persistent: bool = False,
        dir: str | os.PathLike[str] | None = None,
        seed: int | None = None,
    ) -> None:
        select = bc.Priority() if select is None else select
        if not isinstance(select, bc.Priority):
            raise ArgumentTypeError(f"select is {select!r}; give bc.Priority(alpha=..., beta=...)")
        n_step = count_of(n_step, "n_step", 1, ArgumentError)
        wanted = "a number above 0 and at most 1, the discount of the algorithm"
        gamma = number_of(gamma, "gamma", wanted)
        if not 0 < gamma <= 1:
            raise ArgumentError(f"gamma is {gamma:g}; give {wanted}")
        super().__init__(
            buffer_size,
            observation_space,
            action_space,
            device,
            n_envs,
            optimize_memory_usage,
            handle_timeout_termination,
            env=env,
            autoreset_mode=autoreset_mode,
            name=name,
            lanes=lanes,
            capacity=capacity,
            exist=exist,
            persistent=persistent,
            dir=dir,
            seed=seed,
        )
        # The sampler refers to this object, and not to the buffer, which a cycle would keep alive.
        self._beta = _Beta(select.beta)
        self._options = {
            "select": replace(select, beta=self._beta),
            "n_step": n_step,
            "gamma": gamma,
        }
        # Refuses bad options, and a table with other settings, before anything is added.
        try:
            self.ring.sampler(seed=0, n_step=n_step, gamma=gamma, select=select).close()
        except bc.BackcastError:
            self.close()
            raise

    @property
    def beta(self) -> Any:
        """Exponent of the importance weights, as in :class:`backcast.Priority`.

        A script that anneals it assigns a number, which holds from the next batch on. What
        :class:`backcast.Priority` does not take is refused, and the exponent stays.
        """
        return self._beta.value

    @beta.setter
    def beta(self, value: Any) -> None:
        if not (type(value) is float and 0 <= value <= 1):
            _check_beta(value)
        self._beta.value = value

    @explained
    def sample(self, batch_size: int) -> PrioritizedSamples:  # type: ignore[override]
        """Draw transitions by priority over all lanes of the ring.

        Raises
        ------
        SampleError
            If there is none yet, or a function `beta` returns no number from 0 to 1.
        """
        batch = self._drawing().sample(batch_size)
        discounts = batch["n_discount"].reshape(batch_size, 1)
        return PrioritizedSamples(
            self._tensors(batch["obs"]),
            self._tensors(batch["action"].reshape(batch_size, self._action_dim)),
            self._tensors(batch["n_next_obs"]),
            self._tensors((discounts == 0).astype(np.float32)),
            self._tensors(batch["n_reward"].reshape(batch_size, 1)),
            batch["index"],
            self._tensors(batch["weight"].reshape(batch_size, 1)),
            self._tensors(discounts),
        )

    def update_priorities(self, indices: Any, priorities: Any) -> int:
        """Set the priorities of drawn transitions; return how many were dropped.

        Parameters
        ----------
        indices : array_like of int, [B]
            ``indices`` of a sample. Those of overwritten transitions are dropped.
        priorities : torch.Tensor or array_like of float, [B] or [B, 1]
            Absolute TD errors, or other finite numbers from 0 up.

        Raises
        ------
        SampleError
            If a priority is negative, infinite or NaN; none was set.
        """
        if isinstance(priorities, torch.Tensor):
            priorities = priorities.detach().cpu().numpy()
        values = np.asarray(priorities, np.float64).reshape(-1)
        return self._drawing().update_priorities(indices, values)


class _Beta:
    """Beta of a buffer, as the function of a batch's number that its sampler calls."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self, batch: int) -> Any:
        if callable(self.value):
            return self.value(batch)
        if isinstance(self.value, tuple):
            first, batches = self.value
            return first + (1 - first) * min(1.0, batch / batches)
        return self.value


def _check_beta(value: Any) -> None:
    """Refuse what a sampler refuses as its beta, with its error."""
    with bc.ReplayBuffer.create(None, {"reward": "f4"}, capacity=2) as trial:
        trial.sampler(seed=0, select=bc.Priority(beta=value)).close()


def _refuse_batched(env: VectorEnv[Any, Any, Any], **given: spaces.Space[Any]) -> None:
    """Refuse the spaces of all environments together, where those of one are wanted."""
    for name, space in given.items():
        single = getattr(env, f"single_{name}")
        if space != single and space == getattr(env, name):
            raise ArgumentError(
                f"{name} is that of {env.num_envs} environments together, shape {space.shape}; "
                f"give env.single_{name}, shape {single.shape}"
            )
