"""Replay buffer of trading transitions, stored in a ring and looked up in the market."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Self

from backcast import Panel
from backcast._calls import explained
from backcast._counts import count_of
from backcast._native import TransitionRing
from backcast.errors import AppendError, ArgumentTypeError, SampleError
from backcast.finrl._drawn import DrawnTransitions
from backcast.finrl._records import FLAGS, as_arrays
from backcast.finrl._rules import names_of

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike


class VecReplayBuffer(DrawnTransitions):
    """Transitions of a vector of environments, with the market around them.

    The buffer stores days, tickers and portfolios, in a ring that other processes can share; prices
    and indicators are looked up in the environment's panel when a batch is drawn. The transition
    that was added first is overwritten first.

    Parameters
    ----------
    env : VecFastFinRL
        Environment of the states. Any object with ``panel``, ``n_tickers()``,
        ``get_macro_tickers()`` and ``get_indicator_names()`` will do.
    capacity : int, default 1000000
        Transitions kept. Their memory is allocated immediately.
    batch_size : int, default 256
        Transitions of a batch, unless ``sample`` says otherwise.
    seed : int, default 42
        Seed of the draws; -1: a random one.
    action_shape : tuple of int, optional
        Shape of one environment's action; ``(n_tickers,)`` when left out.
    n_objectives : int, optional
        Rewards of one transition; as many as the first ones have, when left out.
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

    Notes
    -----
    Numbers are stored as float32 and int32. A buffer without a name takes the numbers of tickers
    and rewards from its first transition or from a loaded file, and keeps them until it is cleared.
    A buffer with a name has the environment's number of tickers. A buffer may be used by several
    threads. With a name, any process can :meth:`attach`, draw, and add where a place for an adder
    is left; the first addition claims it, and the kernel frees it when the process ends. A buffer
    pickles as its name, if its panel has one too: unpickling attaches to it.

    Examples
    --------
    >>> import backcast.finrl as ff
    >>> env = ff.VecFastFinRL("data.csv", n_envs=4, return_format="vec")  # doctest: +SKIP
    >>> buffer = ff.VecReplayBuffer(env, capacity=100_000)  # doctest: +SKIP
    >>> buffer.add(state, actions, after["reward"], after, after["done"])  # doctest: +SKIP
    >>> s, action, reward, s_next, done, mask, mask_next = buffer.sample(128)  # doctest: +SKIP
    """

    @explained
    def __init__(
        self,
        env: Any,  # noqa: ANN401
        capacity: int = 1_000_000,
        batch_size: int = 256,
        seed: int = 42,
        action_shape: tuple[int, ...] | None = None,
        *,
        n_objectives: int | None = None,
        threads: int = 1,
        name: str | None = None,
        n_adders: int = 1,
        exist: Literal["error", "attach", "replace"] = "error",
        persistent: bool = False,
        dir: str | os.PathLike[str] | None = None,
    ) -> None:
        panel, tickers, shown = _market_of(env)
        ring = TransitionRing(
            panel,
            tickers,
            action_shape,
            n_objectives,
            capacity=capacity,
            seed=seed,
            n_adders=n_adders,
            threads=threads,
            name=name,
            exist=exist,
            persistent=persistent,
            dir=dir,
            **shown,
        )
        self._around(ring, batch_size)
        self._joins_by(
            name=name, batch_size=batch_size, seed=seed, threads=threads, dir=dir, **shown
        )

    def _joins_by(self, **arguments: Any) -> None:  # noqa: ANN401
        self._attach = arguments

    def __reduce__(self) -> tuple[Callable[..., VecReplayBuffer], tuple[Any, ...]]:
        """Pickle by name: unpickling attaches to the buffer, in any process."""
        panel = self._ring.panel
        for what, name in (("a buffer", self._attach["name"]), ("the buffer's panel", panel.name)):
            if name is None:
                raise ArgumentTypeError(
                    f"{what} without a name is private to its process and cannot be pickled; "
                    "create it with a name"
                )
        return _joined, (type(self), self._attach)

    @classmethod
    @explained
    def attach(
        cls,
        name: str,
        env: Any = None,  # noqa: ANN401
        batch_size: int = 256,
        seed: int = 42,
        *,
        threads: int = 1,
        macro_tickers: Sequence[str] | None = None,
        indicators: Sequence[str] | None = None,
        indicator_lag: int | None = None,
        end: int | None = None,
        dir: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Attach to the buffer of that name.

        Parameters
        ----------
        name : str
            Name of the buffer.
        env : environment or Panel, optional
            An environment or panel of the buffer's market. By default the buffer's panel is
            attached by name.
        batch_size : int, default 256
            Transitions of a batch, unless ``sample`` says otherwise.
        seed : int, default 42
            Seed of this process's draws; -1: a random one.
        threads : int, default 1
            Threads that copy market windows.
        macro_tickers : sequence of str, optional
            Macro tickers to show; when left out the environment's, or all of the panel's.
        indicators : sequence of str, optional
            Indicators to show; when left out the environment's, or all of the panel's.
        indicator_lag : int, optional
            Days by which current indicators are older than the open; the environment's, or that of
            the buffer's creator, when left out.
        end : int, optional
            The first day that futures do not show; the environment's, or that of the buffer's
            creator, when left out.
        dir : path, optional
            Base directory; by default ``BACKCAST_DIR``, else ``/dev/shm``.

        Returns
        -------
        VecReplayBuffer

        Raises
        ------
        NotFoundError
            If there is no buffer of that name.
        CorruptError, PanelError
            If it holds something else, or was made on another market.
        """
        shown: dict[str, Any] = {
            "macro_tickers": names_of("macro_tickers", macro_tickers)
            if macro_tickers is not None
            else None,
            "indicators": names_of("indicators", indicators) if indicators is not None else None,
            "indicator_lag": count_of(indicator_lag, "indicator_lag", 0, SampleError)
            if indicator_lag is not None
            else None,
            "end": count_of(end, "end", 0, SampleError) if end is not None else None,
        }
        panel = env
        if env is not None and not isinstance(env, Panel):
            panel, _, of_env = _market_of(env)
            shown = of_env | {key: value for key, value in shown.items() if value is not None}
        made = cls.__new__(cls)
        ring = TransitionRing.attach(name, panel, seed=seed, threads=threads, dir=dir, **shown)
        made._around(ring, batch_size)
        made._joins_by(
            name=name, batch_size=batch_size, seed=seed, threads=threads, dir=dir, **shown
        )
        return made

    @explained
    def add(
        self,
        states: Any,  # noqa: ANN401
        actions: ArrayLike,
        rewards: ArrayLike,
        next_states: Any,  # noqa: ANN401
        dones: ArrayLike,
    ) -> None:
        """Add one transition of every environment.

        Parameters
        ----------
        states : dict or sequence
            States before the step: a dict of arrays, or a list of states, which are dicts or have
            attributes.
        actions : array_like, shape (N, *action_shape)
            Actions.
        rewards : array_like, shape (N,) or (N, n_objectives)
            Rewards.
        next_states : dict or sequence
            States after the step. Where they have ``final_obs``, the state in which an
            episode ended, that one is stored and not the first of the next episode.
        dones : array_like of bool, shape (N,)
            Flags of ended episodes.

        Raises
        ------
        AppendError
            If shapes do not fit, a day or ticker is not the market's, or a number is not finite;
            none was added then.
        WriterError
            If other processes hold all places for adders.
        """
        if not isinstance(states, dict):
            states = as_arrays(states, "states")
        if isinstance(next_states, dict):
            final = next_states.get("final_obs")
            if final is not None:
                if not isinstance(final, Mapping):
                    raise AppendError(
                        f"next_states['final_obs'] is {final!r}; give the dict of arrays that the "
                        "environment returned"
                    )
                flags = {key: next_states[key] for key in FLAGS if key in next_states}
                next_states = {**flags, **final}
        else:
            next_states = as_arrays(next_states, "next_states", arrived=True)
        self._ring.add(states, actions, rewards, next_states, dones)


def _joined(buffer: type[VecReplayBuffer], arguments: dict[str, Any]) -> VecReplayBuffer:
    """Attach to a pickled buffer."""
    return buffer.attach(**arguments)


def _market_of(env: Any) -> tuple[Panel, int, dict[str, Any]]:  # noqa: ANN401
    """Return an environment's market, number of traded tickers and observation settings."""
    if isinstance(env, Panel):
        raise ArgumentTypeError(
            "env is a Panel, which does not say how many tickers are traded; give a FastFinRL or "
            "VecFastFinRL on it"
        )
    try:
        panel, tickers = env.panel, env.n_tickers()
        lag = getattr(env, "indicator_lag", None)
        shown = {
            "macro_tickers": list(env.get_macro_tickers()),
            "indicators": list(env.get_indicator_names()),
            "indicator_lag": int(lag) if lag is not None else None,
            "end": getattr(env, "days", (0, None))[1],
        }
    except AttributeError as error:
        raise ArgumentTypeError(
            f"env is a {type(env).__name__} and has no {error.name}; give a FastFinRL or "
            "VecFastFinRL"
        ) from None
    return panel, tickers, shown
