"""Common part of SB3's replay buffers over rings."""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias
from uuid import uuid4

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common import buffers as sb3
from stable_baselines3.common.type_aliases import ReplayBufferSamples

import backcast as bc
from backcast._autoreset import lanes_for
from backcast._counts import seed_of
from backcast.errors import ArgumentError, ArgumentTypeError, SampleError
from backcast.sb3._columns import Frames, Padding, schema_of
from backcast.sb3._grid import Column, Grid, refuse_writes
from backcast.sb3._stored import ROWS_FOR_LOADS, Rows, Stored, rows_of
from backcast.torch._tensors import tensor_of

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from numpy.typing import NDArray
    from stable_baselines3.common.vec_env import VecNormalize

Sampling: TypeAlias = Literal["ring", "sb3"]
# Attempts to replace drawn steps whose rows are lost, before the draw fails.
_ROUNDS = 64
_BOOL, _FLOAT = np.dtype(np.bool_), np.dtype(np.float32)


class _Like(NamedTuple):
    """Shapes and dtypes of a step of all environments."""

    lanes: tuple[int]
    obs: tuple[int, ...]
    obs_dtype: Any
    #: Shape and dtype of each part of a dict of observations; None if they are no dicts.
    parts: dict[str, tuple[tuple[int, ...], Any]] | None


class OnRing(sb3.ReplayBuffer):
    """Common part of the buffers; subclasses define what a sample holds."""

    def _open(
        self,
        buffer_size: int,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        device: torch.device | str,
        n_envs: int,
        optimize_memory_usage: bool,
        handle_timeout_termination: bool,
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
        n_step: int | None = None,
        by_place: bool = False,
        select: bc.Priority | None = None,
    ) -> None:
        if sampling not in ("ring", "sb3"):
            raise ArgumentError(
                f'sampling is {sampling!r}; write "ring" (all transitions of the ring, by its '
                'sampler) or "sb3" (those added here, by NumPy\'s global generator as in SB3)'
            )
        if seed is not None and sampling == "sb3":
            raise ArgumentError(
                f'seed is {seed!r}, but sampling="sb3" draws from NumPy\'s global generator; leave '
                "seed out, and seed that one (seed= of SB3's algorithm, or numpy.random.seed)"
            )
        if name is None and exist != "attach":
            raise ArgumentError(f"exist={exist!r} is about a name; give name=, or leave exist out")
        seed = seed_of(seed)
        lanes = lanes_for(n_envs, lanes)
        stacked = Frames.of(observation_space, frames, padding)
        # Skips SB3's constructors, which would allocate arrays.
        sb3.BaseBuffer.__init__(
            self, buffer_size, observation_space, action_space, device=device, n_envs=n_envs
        )
        self.buffer_size = max(buffer_size // n_envs, 1)
        self.optimize_memory_usage = optimize_memory_usage
        self.handle_timeout_termination = handle_timeout_termination
        self.sampling = sampling
        # SB3's code draws by place, and expects each of the last `buffer_size` steps to be there.
        self._by_place = by_place or sampling == "sb3"
        rows = buffer_size if capacity is None else capacity
        if self._by_place and capacity is None:
            rows = lanes * (rows_of(self.buffer_size, stacked) + ROWS_FOR_LOADS)
        elif self._by_place and isinstance(capacity, int):
            self._check_rows(-(-capacity // lanes), lanes, stacked)
        schema = schema_of(observation_space, action_space, stacked)
        folder = None if dir is None else str(dir)
        create = partial(
            bc.ReplayBuffer.create,
            schema=schema,
            capacity=max(rows, n_envs) if isinstance(rows, int) else rows,
            lanes=lanes,
            persistent=persistent,
            dir=folder,
        )
        if self._by_place and not isinstance(rows, int):
            ring = self._create_of_bytes(create, name, exist, lanes, stacked)
        else:
            ring = create(name, exist="error" if name is None else exist)
        self._stored = Stored(
            ring,
            self.buffer_size,
            n_envs,
            stacked,
            n_step=n_step,
            seed=seed,
            persistent=persistent,
            dir=folder,
            select=select,
        )
        dtype, shape, _ = schema.columns["action"]
        self._action_dtype, self._action_shape = np.dtype(dtype), (n_envs, *shape)
        self._seen_shape = (n_envs, *(observation_space.shape or ()))
        self._set_columns()

    def _create_of_bytes(
        self,
        create: Callable[..., bc.ReplayBuffer],
        name: str | None,
        exist: Literal["error", "attach", "replace"],
        lanes: int,
        stacked: Frames | None,
    ) -> bc.ReplayBuffer:
        """Create or attach to a ring with a capacity in bytes, and check its number of rows.

        A new ring with too few rows is removed. It does not replace an older ring.
        """

        def checked(ring: bc.ReplayBuffer, *, is_new: bool) -> bc.ReplayBuffer:
            try:
                self._check_rows(ring.stats()["lane_capacity"], lanes, stacked)
            except ArgumentError:
                if is_new and name is not None:
                    ring.unlink()
                ring.close()
                raise
            return ring

        try:
            return checked(create(name, exist="error"), is_new=True)
        except bc.ExistsError:
            if exist == "error":
                raise
        if exist == "replace":
            # The trial ring has a name, because a private ring of the same bytes has more rows.
            trial = checked(create(f"trial-{uuid4().hex}", exist="error"), is_new=True)
            trial.unlink()
            trial.close()
        return checked(create(name, exist=exist), is_new=False)

    def _check_rows(self, rows: int, lanes: int, stacked: Frames | None) -> None:
        """Refuse lanes of fewer rows than the last `buffer_size` steps may take."""
        needed = rows_of(self.buffer_size, stacked)
        if rows < needed:
            raise ArgumentError(
                f"the capacity is {rows} rows a lane, but {self.buffer_size} transitions take up "
                f"to {needed}, and this buffer draws from all of them; leave capacity out, or give "
                f"at least {needed * lanes} rows for {lanes} lane(s)"
            )

    # Attributes that SB3's code and callbacks read

    @property
    def ring(self) -> bc.ReplayBuffer:
        """The ring that holds the rows; other processes attach to it by its name."""
        return self._stored.ring

    @property
    def pos(self) -> int:
        """Position of the next step, 0 to ``buffer_size - 1``, as in SB3."""
        stored = self.__dict__.get("_stored")
        return 0 if stored is None else stored.added % stored.steps

    @pos.setter
    def pos(self, value: int) -> None:
        if value != self.pos:
            refuse_writes()

    @property
    def full(self) -> bool:
        """Whether ``buffer_size`` steps were added, as in SB3."""
        stored = self.__dict__.get("_stored")
        return stored is not None and stored.added >= stored.steps

    @full.setter
    def full(self, value: bool) -> None:
        if value != self.full:
            refuse_writes()

    def size(self) -> int:
        """Return how many steps can be drawn, as in SB3: transitions divided by ``n_envs``.

        With ``sampling="ring"`` transitions of other processes count too.
        """
        if self._by_place:
            return self._stored.steps if self.full else self.pos
        return (len(self._stored) + self._stored.waiting) // self._stored.lanes

    def reset(self) -> None:
        """Refuse to forget transitions, unless there are none.

        Raises
        ------
        ArgumentError
            If something was added: rows of a ring stay until they are overwritten.
        """
        if self._stored.added or len(self._stored):
            raise ArgumentError(
                "a ring forgets only what newer rows overwrite; make another buffer, under another "
                'name or with exist="replace"'
            )

    def _set_columns(self) -> None:
        """Replace SB3's arrays by columns that read the ring."""
        grid = Grid(self._stored)
        self.observations = self._obs_column(grid, "obs")
        self.next_observations = self._obs_column(grid, "next_obs")
        self.actions = Column(
            grid, partial(_part, "action"), (self.action_dim,), self._action_dtype
        )
        self.rewards = Column(grid, partial(_part, "reward"), (), np.float32)
        self.dones = Column(grid, _done, (), np.float32, ends=True)
        timeouts = _timeout if self.handle_timeout_termination else _never
        self.timeouts = Column(grid, timeouts, (), np.float32, ends=True)
        self._grid = grid

    def _obs_column(self, grid: Grid, name: str) -> Any:
        if isinstance(self.observation_space, spaces.Dict):
            return {
                key: Column(grid, partial(_part_of, name, key), self.obs_shape[key], space.dtype)
                for key, space in self.observation_space.spaces.items()
            }
        return Column(grid, partial(_part, name), self.obs_shape, self.observation_space.dtype)

    # Adding

    def add(
        self,
        obs: Any,
        next_obs: Any,
        action: NDArray[Any],
        reward: NDArray[Any],
        done: NDArray[Any],
        infos: list[dict[str, Any]],
    ) -> None:
        """Append one transition for each environment, as SB3 calls it.

        `next_obs` holds the last observation where an episode ended, which SB3's loop takes from
        ``infos[i]["terminal_observation"]``; ``infos[i]["TimeLimit.truncated"]`` tells a time limit
        from a termination.

        Raises
        ------
        ArgumentError
            If a shape is wrong, an info has a time limit where ``done`` is False, or a stack of
            frames is not shifted by one; nothing was stored.
        """
        if len(infos) != self.n_envs:
            raise ArgumentError(f"infos has {len(infos)} entries; give {self.n_envs}, one a lane")
        lanes, seen, obs_dtype, parts = self._like
        ended = _shaped(done, "done", lanes, _BOOL)
        limited = None
        # Few steps reach a time limit, and a call of NumPy takes longer than the append.
        for info in infos:
            if info.get("TimeLimit.truncated"):
                limited = self._limited(infos, ended)
                break
        if parts is None:
            obs = _shaped(obs, "obs", seen, obs_dtype)
            next_obs = _shaped(next_obs, "next_obs", seen, obs_dtype)
        else:
            obs, next_obs = _parts(obs, "obs", parts), _parts(next_obs, "next_obs", parts)
        action = _shaped(action, "action", self._action_shape, self._action_dtype)
        reward = _shaped(reward, "reward", lanes, _FLOAT)
        self._stored.add(obs, next_obs, action, reward, ended, limited)

    @cached_property
    def _like(self) -> _Like:
        """Return what an addition compares, which would take as long to make as the append."""
        space, parts = self.observation_space, None
        if isinstance(space, spaces.Dict):
            parts = {
                key: ((self.n_envs, *(part.shape or ())), part.dtype)
                for key, part in space.spaces.items()
            }
        return _Like((self.n_envs,), self._seen_shape, space.dtype, parts)

    def _limited(self, infos: list[dict[str, Any]], ended: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which environments reached a time limit; refuse those whose episodes go on."""
        limited = np.array([bool(info.get("TimeLimit.truncated")) for info in infos])
        wrong = limited & ~ended
        if wrong.any():
            lane = int(np.flatnonzero(wrong)[0])
            raise ArgumentError(
                f'infos[{lane}] has "TimeLimit.truncated", but done[{lane}] is False; a truncated '
                "episode is done (a VecEnv of SB3 sets both)"
            )
        return limited

    # Sampling

    def sample(self, batch_size: int, env: VecNormalize | None = None) -> Any:
        """Draw transitions.

        Parameters
        ----------
        batch_size : int
            Number of transitions, ``B``.
        env : VecNormalize, optional
            Normalizes observations and rewards.

        Returns
        -------
        ReplayBufferSamples or DictReplayBufferSamples
            Tensors as SB3's: ``[B, ...]``, dones and rewards float32 ``[B, 1]``. Where frames are
            stacked, observations and next observations share memory: do not write to them.

        Raises
        ------
        SampleError
            If nothing was added yet, or other rows have overwritten those added here.
        """
        if self.sampling == "ring" and len(self._stored):
            return self._of_batch(self._stored.draw(batch_size), env)
        if not (self.full or self.pos):
            raise SampleError("nothing was added yet; collect first (learning_starts=)")
        at, lanes = self._draw_places(batch_size)
        rows, found = self._stored.take(at, lanes)
        for _ in range(_ROUNDS):
            if found.all():
                return self._of_places(at, lanes, rows, env)
            lost = np.flatnonzero(~found)
            at[lost], lanes[lost] = self._draw_places(lost.size)
            rows, found = self._stored.take(at, lanes)
        raise SampleError("other rows have overwritten those added here; give a larger capacity")

    def _draw_places(self, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Draw steps and environments of transitions that were added here."""
        return self._draw_steps(count), np.random.randint(0, self.n_envs, size=count)

    def _draw_steps(self, count: int) -> NDArray[np.int64]:
        """Draw steps with the random numbers that SB3 draws from NumPy's global generator."""
        upper = self.buffer_size if self.full else self.pos
        return np.random.randint(0, upper, size=count)

    def _get_samples(self, batch_inds: NDArray[Any], env: VecNormalize | None = None) -> Any:
        """Return the transitions of some steps; draw the environments as SB3 does."""
        at = np.asarray(batch_inds)
        lanes = np.random.randint(0, self.n_envs, size=at.shape)
        return self._of_places(at, lanes, self._grid.fetch(at, lanes), env)

    def _of_batch(self, batch: bc.Batch, env: VecNormalize | None) -> Any:
        return self._samples(self._stored.rows(batch), env)

    def _of_places(
        self,
        at: NDArray[np.int64],
        lanes: NDArray[np.int64],
        rows: Rows,
        env: VecNormalize | None,
    ) -> Any:
        return self._samples(rows, env)

    def _samples(self, rows: Rows, env: VecNormalize | None) -> Any:
        size = len(rows.reward)
        done = rows.terminated
        if not self.handle_timeout_termination:
            done = done | rows.truncated
        reward = rows.reward.reshape(size, 1)
        if self._stored.frames is not None and env is None and not rows.obs.flags.writeable:
            # The windows overlap in one arena: both tensors are views of one over the arena.
            stacks = self._tensor(rows.obs.base)
            obs, next_obs = self._stacked(stacks[:, :-1]), self._stacked(stacks[:, 1:])
        else:
            obs, next_obs = self._tensors(rows.obs, env), self._tensors(rows.next_obs, env)
        return self._made(
            obs,
            self._tensor(rows.action.reshape(size, self.action_dim)),
            next_obs,
            self._tensor(done.astype(np.float32).reshape(size, 1)),
            self._tensor(reward if env is None else self._normalize_reward(reward, env)),
        )

    _made: Any = ReplayBufferSamples

    def _tensor(self, array: NDArray[Any]) -> torch.Tensor:
        tensor = tensor_of(array)
        return tensor if self.device.type == "cpu" else tensor.to(self.device)

    def _stacked(self, frames: torch.Tensor) -> torch.Tensor:
        """Join the frames of a window along their channel axis, if they have one."""
        if frames.ndim == 1 + len(self.obs_shape):
            return frames
        return frames.flatten(1, 2)

    def _tensors(self, obs: Any, env: VecNormalize | None) -> Any:
        if isinstance(self.observation_space, spaces.Dict):
            shaped = {
                key: part.reshape(len(part), *self.obs_shape[key]) for key, part in obs.items()
            }
            return {
                key: self._tensor(part) for key, part in self._normalize_obs(shaped, env).items()
            }
        if obs.ndim != 1 + len(self.obs_shape):
            obs = obs.reshape(len(obs), *self.obs_shape)
        return self._tensor(obs if env is None else self._normalize_obs(obs, env))


def _part(name: str, rows: Rows) -> Any:
    return getattr(rows, name)


def _part_of(name: str, key: str, rows: Rows) -> Any:
    return getattr(rows, name)[key]


def _done(rows: Rows) -> NDArray[np.bool_]:
    return rows.terminated | rows.truncated


def _timeout(rows: Rows) -> NDArray[np.bool_]:
    return rows.truncated


def _never(rows: Rows) -> NDArray[np.bool_]:
    return np.zeros_like(rows.truncated)


def _parts(
    obs: Any, what: str, parts: dict[str, tuple[tuple[int, ...], Any]]
) -> dict[str, NDArray[Any]]:
    """Return the parts of a dict of observations as arrays of their shapes and dtypes."""
    if not isinstance(obs, dict) or obs.keys() != parts.keys():
        raise ArgumentTypeError(
            f"{what} is not a dict of {', '.join(parts)}, which the observation space is"
        )
    return {
        key: _shaped(obs[key], what, shape, dtype, key) for key, (shape, dtype) in parts.items()
    }


def _shaped(
    value: Any,
    what: str,
    shape: tuple[int, ...],
    dtype: Any,
    key: str | None = None,
) -> NDArray[Any]:
    if type(value) is np.ndarray and value.shape == shape and value.dtype == dtype:
        return value
    array = np.asarray(value, dtype)
    if array.size != np.prod(shape, dtype=np.int64):
        name = what if key is None else f"{what}[{key!r}]"
        raise ArgumentError(
            f"{name} has shape {list(array.shape)}; give {list(shape)}, the first axis one for "
            "each environment"
        )
    return array.reshape(shape)
