"""Trading environments as Gymnasium's ``Env`` and ``VectorEnv``, around one Rust object."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from backcast._calls import explained, refuse_unknown
from backcast.envs._limit import step_limit
from backcast.envs._portfolio import mode_of, word_of
from backcast.envs._trading import (
    RENDER_MODES,
    TradingFace,
    action_space,
    observation_space,
    own_agents,
    seed_generator,
    trading_batch,
)
from backcast.envs._trading_settings import TradingSettings, unshared
from backcast.errors import ArgumentTypeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import ArrayLike, NDArray


class TradingEnv(TradingFace, gym.Env[Any, Any]):
    """One agent that trades in a simulated market with a limit order book.

    Market, rules and numbers are those of :class:`TradingVectorEnv`. With seed ``s + i`` this
    environment equals environment i of a vector with seed ``s``, bit for bit.

    Parameters
    ----------
    agents : iterable, optional
        Agents of your own in the market: see :class:`TradingVectorEnv`.
    render_mode : {"ansi", "rgb_array"}, optional
        Form of the pictures that :meth:`render` draws: text or pixels.
    **settings : object
        Settings by name: those of :class:`TradingSettings`.

    Raises
    ------
    EnvError
        If a setting is out of its range, before anything runs.

    Notes
    -----
    The reward is a ``float``, the flags are ``bool``. After an end the next call has to be
    ``reset``. Infos hold what those of :class:`TradingVectorEnv` hold, without the
    masks: Python numbers, but a NumPy ``uint64`` for ``episode_seed``.

    Examples
    --------
    >>> from backcast.envs import TradingEnv
    >>> env = TradingEnv(preset="teaching", frame_skip=10, max_episode_steps=100)
    >>> obs, info = env.reset(seed=7)
    >>> obs, reward, terminated, truncated, info = env.step(2)
    >>> info["position"]
    100
    """

    metadata: dict[str, Any] = {  # noqa: RUF012
        "render_modes": RENDER_MODES,
        "render_fps": 30,
    }

    @explained
    def __init__(
        self,
        *,
        agents: Iterable[Any] = (),
        render_mode: str | None = None,
        **settings: Unpack[TradingSettings],
    ) -> None:
        settings["max_episode_steps"] = step_limit(self, settings.get("max_episode_steps"))
        known = ("agents", "render_mode", *TradingSettings.__annotations__)
        refuse_unknown(type(self).__name__, settings, known)
        agents = own_agents(agents)
        self._batch = trading_batch(None, settings, agents=agents, render_mode=render_mode)
        seed_generator(self, gym.Env, settings.get("seed"))
        self.render_mode = render_mode
        self.observation_space = observation_space(self._batch.features)
        self.action_space = action_space(self._batch.symbols, *self._batch.action_form)
        self._rebuild = partial(
            type(self), agents=agents, render_mode=render_mode, **unshared(settings)
        )

    @explained
    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begin an episode: seed the market and run its warm-up.

        Parameters
        ----------
        seed : int, optional
            Seed of a new stream of episode seeds; None draws the next episode seed of the present
            stream.
        options : dict, optional
            ``"episode_seed"``: plays a given episode. ``"cash"`` and ``"shares"``: another
            endowment in this episode. One below the maintenance margin at the initial price is
            refused.

        Returns
        -------
        (ndarray, dict)
            Observation, float32 ``[F]``, and info.

        Raises
        ------
        EnvError
            If a seed or an option is out of range; nothing has changed then.
        """
        result = self._batch.reset(seed=seed, options=options)
        # Episodes are drawn in Rust; `np_random` is seeded for callers that draw from it.
        gym.Env.reset(self, seed=None if seed is None else int(seed))
        return result

    def step(
        self, action: ArrayLike
    ) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Take one decision and run the ticks of the step.

        Parameters
        ----------
        action : int or array_like
            An element of the action space.

        Returns
        -------
        (ndarray, float, bool, bool, dict)
            Observation, reward, terminated, truncated, info. At an end info holds ``metrics``.

        Raises
        ------
        EnvError
            If the action is out of range, or the episode has ended. Nothing has changed then.
        """
        return self._batch.step(action)

    def render(self) -> NDArray[np.uint8] | str | None:
        """Draw the running episode: price with own trades, book, equity.

        Returns
        -------
        ndarray or str
            uint8 ``[480, 640, 3]``, or lines of text; None without a ``render_mode``.

        Raises
        ------
        EnvError
            Before the first reset.
        """
        if self.render_mode is None:
            return None
        frame: NDArray[np.uint8] | str = self._batch.picture(0, self.render_mode == "ansi")
        return frame

    def close(self) -> None:
        """Release the memory of the market. Closing again does nothing."""
        self._batch.close()


class TradingVectorEnv(TradingFace, VectorEnv[Any, Any, Any]):
    """Many agents, each of which trades in a simulated market of its own.

    An action becomes orders of the agent's account. They arrive at the start of the next tick, or
    ``latency_ticks`` later, and meet the orders of the background agents in the book. The market
    runs ``frame_skip`` ticks. Observation, reward and infos describe it after the last of them. An
    episode is terminated by bankruptcy or a margin call, and truncated after ``max_ticks`` ticks.

    Each environment has its own stream of episode seeds, seeded as in Gymnasium. Its episodes
    depend neither on the number of environments or threads nor on the other environments.
    :class:`TradingEnv` with the same seed is equal to it bit for bit.

    Parameters
    ----------
    num_envs : int, default 1
        Environments, ``N``.
    copy : bool, default True
        Return new arrays from every call. False writes every observation to the same array, which
        stays unchanged until the next ``step`` or ``reset``, so copy what you keep.
    autoreset_mode : AutoresetMode or {"next_step", "same_step", "disabled"}
        Autoreset mode after an episode has ended.
    threads : int, default 1
        Threads that step, the caller's among them. A forked child starts its own.
    agents : iterable, optional
        Agents of your own, which trade in every market beside the built-in ones: those that
        :class:`backcast.sim.Market` takes, with cash in cash units. Each market and each warm
        snapshot has deep copies of them, each agent copied alone: two agents share no object there.
        An episode begins with the copy that was warmed up; with ``warm_snapshots=0`` it begins with
        a new one.
    render_mode : {"ansi", "rgb_array"}, optional
        Form of the pictures that :meth:`render` draws: text or pixels.
    **settings : object
        Settings by name: those of :class:`TradingSettings`.

    Raises
    ------
    EnvError
        If a setting is out of its range, before anything runs.

    Notes
    -----
    Observations are float32 ``[N, F]`` with finite bounds: the features of each symbol, then the
    agent's own state in each symbol; ``features`` names them. Discrete actions are int64 ``[N]`` of
    one symbol, ``[N, S]`` of several; continuous ones float32 ``[N, A]``; limit orders int64
    ``[N, C, 4]``, or ``[N, S, C, 4]`` of several symbols.

    Infos hold, each with a mask: ``tick``, ``decisions``, ``equity``, ``pnl``, ``realized_pnl``,
    ``mid_price``, ``position``, ``fees``, ``borrowing``, ``fills``, ``refused`` and ``masked``
    orders, ``margin_call``, ``episode_seed``, with discrete actions ``action_mask``, with warm
    snapshots ``snapshot``. ``fill_records`` are the fills themselves, a tuple of :class:`Fill`.
    With limit orders, ``order_ids`` int64 ``[N, C]`` are the ids of the orders that the commands of
    the step sent, -1 for other commands. ``refused_ids`` int64 ``[N, C]`` are the ids of the orders
    that were refused on arrival in the step, or whose cancel was, in the rows of their commands, -1
    in other rows. ``open_orders`` int64 ``[N, 8, 4]`` are the orders that are open after it, oldest
    first: id, shares (negative to sell), price in price ticks, tick of arrival; unused rows have
    the id -1. All three have an axis for several symbols.
    ``pnl``, ``fees``, ``borrowing`` and fills are those of the step. ``realized_pnl`` is the profit
    of closed positions since the start of the episode, without fees and borrowing. ``mid_price``
    and ``position`` are those of the first symbol; amounts of money are sums over all symbols. In
    the step that ends an episode also its ``metrics``: ``return``, ``sharpe`` and ``sortino``
    (annualised), ``max_drawdown``, ``turnover``, ``costs`` (fees), ``trades`` (fills),
    ``final_value`` and ``length``.

    Steps release the GIL. The environment pickles by its arguments: the copy has to be reset.
    ``copy.deepcopy`` keeps the state, streams and agents included. If a reward function or an agent
    raises, the step has been taken, and the call raises that exception. After one of an agent,
    steps and partial resets are refused until a reset of all environments.

    Examples
    --------
    >>> from backcast.envs import TradingVectorEnv
    >>> envs = TradingVectorEnv(4, preset="teaching", frame_skip=10)
    >>> obs, infos = envs.reset(seed=7)
    >>> obs, rewards, terminations, truncations, infos = envs.step([0, 1, 2, 2])
    >>> infos["position"].tolist()
    [-100, 0, 100, 100]
    """

    metadata: dict[str, Any] = {  # noqa: RUF012
        "render_modes": RENDER_MODES,
        "render_fps": 30,
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }

    @explained
    def __init__(
        self,
        num_envs: int = 1,
        *,
        copy: bool = True,
        autoreset_mode: str | AutoresetMode = "next_step",
        threads: int = 1,
        agents: Iterable[Any] = (),
        render_mode: str | None = None,
        **settings: Unpack[TradingSettings],
    ) -> None:
        if not isinstance(copy, bool):
            raise ArgumentTypeError(
                f"copy is {copy!r}; give True for new arrays from every call, False to reuse them"
            )
        settings["max_episode_steps"] = step_limit(self, settings.get("max_episode_steps"))
        ours = ("num_envs", "copy", "autoreset_mode", "threads", "agents", "render_mode")
        known = (*ours, *TradingSettings.__annotations__)
        refuse_unknown(type(self).__name__, settings, known)
        self.autoreset_mode = mode_of(autoreset_mode)
        agents = own_agents(agents)
        self._batch = trading_batch(
            num_envs,
            settings,
            agents=agents,
            render_mode=render_mode,
            autoreset_mode=word_of(self.autoreset_mode),
            threads=threads,
            reuse=not copy,
        )
        seed_generator(self, VectorEnv, settings.get("seed"))
        self.num_envs = int(num_envs)
        self.copy = copy
        self.render_mode = render_mode
        self.metadata = type(self).metadata | {"autoreset_mode": self.autoreset_mode}
        self.single_observation_space = observation_space(self._batch.features)
        self.single_action_space = action_space(self._batch.symbols, *self._batch.action_form)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._rebuild = partial(
            type(self),
            num_envs,
            copy=copy,
            autoreset_mode=self.autoreset_mode,
            threads=threads,
            agents=agents,
            render_mode=render_mode,
            **unshared(settings),
        )

    @explained
    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | NDArray[np.integer[Any]] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begin episodes: seed the markets and run their warm-up.

        Parameters
        ----------
        seed : int, array of int or sequence of (int or None), optional
            An int s seeds environment i with ``s + i``; a sequence has one entry for each. None
            draws the next episode seed of each environment's stream.
        options : dict, optional
            ``"reset_mask"``: bool array ``[N]``, which environments to reset; the others keep their
            state and observation. ``"episode_seed"``: environment i plays episode i of that seed.
            ``"cash"`` and ``"shares"``: another endowment in these episodes. The dict is left as it
            is.

        Returns
        -------
        (ndarray, dict)
            Observations, float32 ``[N, F]``, and infos.

        Raises
        ------
        EnvError
            If a seed, mask or option is out of range; nothing has changed then.
        TypeError
            If the mask is no array of booleans.
        """
        result = self._batch.reset(seed=seed, options=options)
        # `np_random` belongs to the vector environment; its environments have streams of their own,
        # in Rust.
        if isinstance(seed, int | np.integer):
            VectorEnv.reset(self, seed=int(seed))
        return result

    def step(
        self, actions: ArrayLike
    ) -> tuple[
        NDArray[np.float32],
        NDArray[np.float64],
        NDArray[np.bool_],
        NDArray[np.bool_],
        dict[str, Any],
    ]:
        """Take one decision in every environment and run the ticks of the step.

        Parameters
        ----------
        actions : array_like
            An element of the action space. In next-step mode the actions of an environment that is
            about to be reset are ignored.

        Returns
        -------
        (ndarray, ndarray, ndarray, ndarray, dict)
            Observations, rewards float64 ``[N]``, terminations and truncations bool ``[N]``, infos.
            When an episode ended, infos hold ``metrics``, and in same-step mode ``final_obs`` (an
            object array of None or the last observation), ``final_info`` and their masks.

        Raises
        ------
        EnvError
            If an action is out of range, or an environment has to be reset first. Nothing has
            changed then.
        """
        return self._batch.step(actions)

    def advance(
        self, actions: ArrayLike
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Step like :meth:`step`, without an observation.

        Parameters
        ----------
        actions : array_like
            An element of the action space.

        Returns
        -------
        (ndarray, ndarray, ndarray, dict)
            Rewards, terminations, truncations, infos.

        Raises
        ------
        EnvError
            See :meth:`step`.
        """
        return self._batch.advance(actions)

    @explained
    def observe_into(self, out: Sequence[NDArray[np.float32]]) -> None:
        """Write the current observations into given arrays, such as rows of a ring.

        With one writer for each environment, ``[row["obs"] for row in rows]`` of reserved rows is
        the ring's own memory: an observation is written once. Between two calls of
        :meth:`advance`, publish the rows with what it returned and reserve the next ones.

        Parameters
        ----------
        out : sequence of ndarray
            A float32 array ``[F]`` for each environment.

        Raises
        ------
        EnvError
            Before the first reset, or if an array cannot be filled.
        """
        self._batch.observe_into(out)

    def render(self) -> tuple[NDArray[np.uint8] | str, ...] | None:
        """Draw the running episode of every environment.

        Returns
        -------
        tuple of ndarray or str
            ``N`` pictures, uint8 ``[480, 640, 3]`` each, or texts; None without a ``render_mode``.

        Raises
        ------
        EnvError
            Before the first reset.
        """
        if self.render_mode is None:
            return None
        ansi = self.render_mode == "ansi"
        return tuple(self._batch.picture(at, ansi) for at in range(self.num_envs))

    def close_extras(self, **kwargs: Any) -> None:  # noqa: ANN401
        """Release the memory of the markets, as a part of ``close``.

        Parameters
        ----------
        **kwargs : object
            Arguments of ``close``; not used.
        """
        # Gymnasium closes forgotten environments, even if their constructor failed.
        if "_batch" in vars(self):
            self._batch.close()
