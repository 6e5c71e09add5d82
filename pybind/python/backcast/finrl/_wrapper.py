"""FastFinRL's environments as Gymnasium's ``VectorEnv``, with a replay buffer."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from backcast._calls import explained, refuse_unknown
from backcast._counts import count_of
from backcast._native import TickerTokenizer
from backcast.envs._portfolio import check_render_mode, mode_of, word_of
from backcast.errors import ArgumentError, ArgumentTypeError, ClosedError, EnvError
from backcast.finrl._nested import (
    History,  # noqa: F401 - earlier pickles of observations import it from here
    NestedObservations,
    with_final,
)
from backcast.finrl._records import FIELDS
from backcast.finrl._replay import VecReplayBuffer
from backcast.finrl._rules import check_source, check_window, flag_of, given_seed_of, pairs_of
from backcast.finrl._vec_env import VecFastFinRL
from backcast.finrl._watched import WatchedPortfolios

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import ArrayLike, NDArray

    from backcast import Panel


class VecFinRLWrapper(WatchedPortfolios):
    """Many portfolios as a Gymnasium ``VectorEnv`` with a replay buffer.

    Parameters
    ----------
    path : path, str or Panel
        A CSV or Parquet file, the name of a shared panel, or an open :class:`backcast.Panel`.
    buffer_capacity : int
        Transitions kept.
    history_length : int, default 20
        Days before the current one to show in observations, ``H``, and in batches unless a call
        says otherwise. Episodes start where every ticker has them, if the data allow it. What lies
        before the panel is masked; more than ``4 * D + 4096`` days of a panel of ``D`` are refused.
    auto_add : bool, default True
        Add every step's transitions to the buffer.
    batch_size : int, default 256
        Transitions of a batch, unless ``sample_buffer`` says otherwise.
    n_envs : int, default 4
        Portfolios, ``N``.
    initial_amount, failure_threshold : float
        See :class:`VecFastFinRL`; the same warning is issued.
    hmax : int, default 15
        Shares traded by an action of 1.
    buy_cost_pct, sell_cost_pct : float, default 0.01
        Fees as fractions of the value traded.
    stop_loss_tolerance : float, default 0.8
        A holding is sold below this fraction of the average price paid.
    bidding : {"adv_uniform", "uniform", "default"}
        See :class:`VecFastFinRL`, which has another default.
    stop_loss_calculation : {"close", "low"}
        The price that a stop loss compares.
    initial_seed : int, default 0
        Seed of the random numbers if the first reset has none; -1: random.
    tech_indicator_list : sequence of str, optional
        Indicators to show, in this order; all of the file when empty.
    macro_tickers : sequence of str, optional
        Tickers that are shown and never traded.
    auto_reset : bool, default True
        Begin a new episode in the step that ends one; False: never by itself.
    num_tickers : int, default 0
        Number of tickers that each portfolio trades, ``T``; 0: all but macro tickers.
    shuffle_tickers : bool, default True
        Draw the tickers, for every episode of every portfolio.
    autoreset_mode : AutoresetMode or {"next_step", "same_step", "disabled"}, optional
        The mode in Gymnasium's terms; replaces `auto_reset`.
    threads : int, default 1
        Threads that copy the market windows of a batch.
    buffer_seed : int, default 42
        Seed of the buffer's draws.
    render_mode : {"rgb_array"}, optional
        Enables :meth:`render`, which needs matplotlib. Implies ``record=True``.
    **settings : object
        Further settings of :class:`VecFastFinRL`: ``indicator_lag``, ``days``, ``record``, ...

    Raises
    ------
    EnvError
        If a setting of the portfolios is out of its range, or the market cannot serve it.
    ArgumentError, NotFoundError, PanelError
        If a setting of the buffer is out of its range, or the market cannot be opened.

    Notes
    -----
    Actions are ``[N, T, 2]`` from -1 to 1. The first number is the part of ``hmax`` to buy or sell.
    The market ignores the second one, because it fills orders at its own prices without limits;
    both are stored.

    An observation has, in float32 and int32, ``portfolio`` with ``cash`` ``[N, 1]``, ``shares`` and
    ``avg_buy_price`` ``[N, T]``; ``market`` with ``open`` ``[N, T]`` and ``indicators`` ``[N, T,
    K]``; ``macro`` with the same arrays of ``M`` macro tickers; ``tics`` ``[N, T]`` and
    ``macro_tics`` ``[N, M]``, tokens of ``tokenizer``; ``hist`` with ``market`` and ``macro``.
    ``hist["market"]`` has ``ohlcvs`` ``[N, T, H, 5]``, ``indicators`` ``[N, T, H, K]``, ``masks``
    ``[N, T, H]`` and ``tickers`` ``[N, T]``; ``hist["macro"]`` has ``M`` in place of ``T``.
    ``hist["past"]`` is another name of ``hist["market"]``: lookups accept it, and iteration does
    not show it.

    ``env`` is the :class:`VecFastFinRL` that the wrapper steps. Its autoreset mode and its numbers
    of portfolios and tickers cannot be changed. It can be reset and stepped directly: nothing is
    added to the buffer then, and the wrapper continues from there. It pickles as an environment of
    its own.

    Examples
    --------
    >>> import backcast.finrl as ff
    >>> envs = ff.VecFinRLWrapper("data.csv", 100_000, num_tickers=10)  # doctest: +SKIP
    >>> obs, info = envs.reset(seed=42)  # doctest: +SKIP
    """

    env: VecFastFinRL
    """Portfolios that the wrapper steps."""

    metadata: dict[str, Any] = {  # noqa: RUF012
        "render_modes": ["rgb_array"],
        "render_fps": 4,
        "autoreset_mode": AutoresetMode.SAME_STEP,
    }

    @explained
    def __init__(
        self,
        path: Path | str | Panel,
        buffer_capacity: int,
        history_length: int = 20,
        auto_add: bool = True,
        batch_size: int = 256,
        n_envs: int = 4,
        initial_amount: float = 30_000.0,
        failure_threshold: float = 25_000.0,
        hmax: int = 15,
        buy_cost_pct: float = 0.01,
        sell_cost_pct: float = 0.01,
        stop_loss_tolerance: float = 0.8,
        bidding: str = "adv_uniform",
        stop_loss_calculation: str = "close",
        initial_seed: int = 0,
        tech_indicator_list: Sequence[str] = (),
        macro_tickers: Sequence[str] = (),
        auto_reset: bool = True,
        num_tickers: int = 0,
        shuffle_tickers: bool = True,
        *,
        autoreset_mode: str | AutoresetMode | None = None,
        threads: int = 1,
        buffer_seed: int = 42,
        render_mode: str | None = None,
        **settings: Any,  # noqa: ANN401
    ) -> None:
        _refuse_strangers(settings)
        check_source(path, "path")
        buffer_capacity = count_of(buffer_capacity, "buffer_capacity", 1, ArgumentError)
        buffer_seed = given_seed_of(buffer_seed, "buffer_seed")
        auto_add, auto_reset = flag_of(auto_add, "auto_add"), flag_of(auto_reset, "auto_reset")
        if autoreset_mode is None:
            autoreset_mode = "same_step" if auto_reset else "disabled"
        self.autoreset_mode = mode_of(autoreset_mode)
        self.render_mode = check_render_mode(render_mode)
        record = flag_of(settings.pop("record", False), "record") or render_mode is not None
        self.history_length = count_of(history_length, "history_length", 0, EnvError)
        self.env = VecFastFinRL(
            path,
            n_envs,
            initial_amount=initial_amount,
            failure_threshold=failure_threshold,
            hmax=hmax,
            buy_cost_pct=buy_cost_pct,
            sell_cost_pct=sell_cost_pct,
            stop_loss_tolerance=stop_loss_tolerance,
            bidding=bidding,
            stop_loss_calculation=stop_loss_calculation,
            initial_seed=initial_seed,
            tech_indicator_list=tech_indicator_list,
            macro_tickers=macro_tickers,
            auto_reset=self.autoreset_mode is not AutoresetMode.DISABLED,
            num_tickers=num_tickers,
            shuffle_tickers=shuffle_tickers,
            return_format="vec",
            history_length=self.history_length,
            record=record,
            **settings,
        )
        check_window(self.history_length, "history_length", self.env.panel, EnvError)
        # An episode that begins with no more cash than the threshold would end immediately, and
        # `step` would ask for a reset; with `play_on` it is played.
        play_on = self.env.failure_threshold >= self.env.initial_amount
        self.env._wrap(word_of(self.autoreset_mode), play_on)
        self.num_envs, self.num_tickers = self.env.num_envs(), self.env.n_tickers()
        self.auto_add = auto_add
        self.buffer = VecReplayBuffer(
            self.env,
            buffer_capacity,
            batch_size,
            buffer_seed,
            (self.num_tickers, 2),
            threads=threads,
        )
        self.tokenizer = TickerTokenizer(self.env.panel.tickers)
        self._nested = NestedObservations(self.env, self.history_length)
        self.metadata = type(self).metadata | {"autoreset_mode": self.autoreset_mode}
        self.single_observation_space = self._nested.space()
        self.single_action_space = spaces.Box(-1.0, 1.0, (self.num_tickers, 2), np.float32)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def __reduce__(self) -> NoReturn:
        """Refuse pickling and copying, because the buffer is private to its process."""
        raise ArgumentTypeError(
            "a VecFinRLWrapper has a buffer that is private to its process; it is not pickled or "
            "copied; pickle its .env, and share transitions through a VecReplayBuffer with a name"
        )

    def __repr__(self) -> str:
        """Show sizes, autoreset mode, days and the number of stored transitions."""
        try:
            stored = f"{self.buffer.size()} stored"
        except ClosedError:
            stored = "closed"
        return f"<backcast.finrl.VecFinRLWrapper: {self.env._batch}, {stored}>"

    @explained
    def reset(
        self,
        seed: int | Sequence[int | None] | NDArray[np.integer[Any]] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Begin new episodes.

        Parameters
        ----------
        seed : int, array of int or sequence of (int or None), optional
            One seed for all, with which portfolio i has seed ``seed + i``, or one for each: as in
            Gymnasium, unlike :meth:`VecFastFinRL.reset`. Without a seed the streams continue, the
            first time from ``initial_seed``. The seed, or the first of a sequence that is not None,
            also seeds :meth:`sample_actions`.
        options : dict, optional
            ``"reset_mask"``: bool array ``[N]``, which portfolios to reset; the others stay where
            they are. ``"start_day"``: an int or int array ``[N]``, where to begin.

        Returns
        -------
        (dict, dict)
            Observation and infos (empty).

        Raises
        ------
        EnvError
            If a seed, mask or day is not valid; nothing has changed then.
        ClosedError
            If the wrapper was closed.
        """
        self._check_open()
        raw, *_ = self.env._begin(self.env._batch, seed, options, spread=False)
        each: Any = [seed] if np.ndim(seed) == 0 else seed  # type: ignore[arg-type]
        first = next((one for one in each if one is not None), None)
        if first is not None:
            super().reset(seed=int(first))
        return self._nested.of_step(raw, self.env._tokens), {}

    def step(
        self, action: ArrayLike
    ) -> tuple[
        dict[str, Any], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]
    ]:
        """Trade one day in every portfolio.

        Parameters
        ----------
        action : array_like of float, shape (N, T, 2)
            From -1 to 1; the first number of each pair is the order. In next-step mode the actions
            of a portfolio that is about to be reset are ignored.

        Returns
        -------
        (dict, ndarray, ndarray, ndarray, dict)
            Observation, rewards float64 ``[N]``, terminations and truncations bool ``[N]``, infos.
            When an episode ended, infos hold ``metrics``, and in same-step mode ``final_obs``.

        Raises
        ------
        EnvError
            If one of the two numbers of an action is not from -1 to 1, or a portfolio has to be
            reset first. Nothing has changed then.
        ClosedError
            If the wrapper was closed, or its buffer was closed and ``auto_add`` is True. Nothing
            has changed then.
        """
        self._check_open()
        env = self.env
        before, tokens = env._seen, env._tokens
        # In next-step mode, a step that begins an episode is no transition.
        begins = env._ended() if self.autoreset_mode is AutoresetMode.NEXT_STEP else None
        actions = pairs_of(action, (self.num_envs, self.num_tickers, 2), begins)
        if self.autoreset_mode is AutoresetMode.DISABLED and env._any_ended:
            raise EnvError(
                f"the episode of environment {int(env._ended().argmax())} has ended; with "
                'autoreset_mode="disabled" reset it (a mask selects it) before the next step'
            )
        if self.auto_add:
            self.buffer.size()
        raw, rewards, terminated, truncated, infos = env._advance(
            np.ascontiguousarray(actions[..., 0])
        )
        ended, infos = terminated | truncated, dict(infos)
        final = infos.get("final_obs")
        if self.auto_add and before is not None:
            steps = None if begins is None else ~begins
            arrived = raw if final is None else with_final(raw, final)
            flags = ended, terminated, truncated
            self._add(before[0], tokens, actions, rewards, arrived, flags, steps)
        if final is not None:
            ends = self._nested.of_ends(with_final(raw, final), tokens, final)
            infos["final_obs"] = ends
        # The environment reads these arrays again in the next step, so the caller gets copies.
        outcome = rewards.copy(), terminated.copy(), truncated.copy()
        return self._nested.of_step(raw, env._tokens), *outcome, infos

    def sample_actions(self) -> NDArray[np.float32]:
        """Draw actions at random, from the stream that ``reset(seed=...)`` seeds.

        With a seed for each portfolio, the first that is not None is used. Until a reset has a
        seed, the stream is seeded at random.

        Returns
        -------
        ndarray of float32, shape (N, T, 2)
        """
        shape = (self.num_envs, self.num_tickers, 2)
        return self.np_random.uniform(-1, 1, shape).astype(np.float32)

    @explained
    def sample_buffer(
        self,
        batch_size: int | None = None,
        history_length: int | None = None,
        future_length: int | None = None,
    ) -> tuple[Any, ...]:
        """Draw transitions in the form of observations.

        Parameters
        ----------
        batch_size : int, optional
            Transitions to draw, ``B``; at most as many as are stored. By default the
            ``batch_size`` of the wrapper.
        history_length : int, optional
            Days before a state's day, ``H``; by default the ``history_length`` of the wrapper.
        future_length : int, optional
            Days after it, ``F``; none when left out.

        Returns
        -------
        tuple
            ``(obs, action, reward, next_obs, done, mask, mask_next)``: observations as in
            ``step`` with ``B`` for ``N`` and, with a future, ``future`` like ``hist``; actions
            float32 ``[B, T, 2]``, rewards float32 ``[B]``, done bool ``[B]`` (terminated or
            truncated; ``next_obs`` has both flags, bool ``[B]``); masks with ``market``
            ``[B, T, H]``, ``macro`` ``[B, M, H]`` and, with a future, ``future``.

        Raises
        ------
        SampleError
            If nothing is stored yet, or a window is too long.
        ClosedError
            If the wrapper or its buffer was closed.
        """
        self._check_open()
        history = self.history_length if history_length is None else history_length
        future = 0 if future_length is None else future_length
        size = self.buffer.batch_size if batch_size is None else batch_size
        s, action, reward, s_next, done, mask, mask_next = self.buffer.sample(
            size, history, future, layout="batched"
        )
        obs, after = (self._nested.of_sample(state) for state in (s, s_next))
        return obs, action, reward[:, 0], after, done, mask, mask_next

    def close_extras(self, **kwargs: Any) -> None:  # noqa: ANN401
        """Release market and buffer, as a part of ``close``.

        Parameters
        ----------
        **kwargs : object
            Arguments of ``close``; not used.
        """
        if "buffer" in vars(self):
            self.buffer.close()
            self.env._batch.close()

    def _check_open(self) -> None:
        if self.closed:
            raise ClosedError("the VecFinRLWrapper is closed; make a new one")

    def _add(
        self,
        before: Mapping[str, NDArray[Any]],
        tokens: NDArray[np.int32],
        actions: NDArray[np.float64],
        rewards: NDArray[np.float64],
        arrived: Mapping[str, NDArray[Any]],
        flags: tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]],
        which: NDArray[np.bool_] | None,
    ) -> None:
        at = np.arange(self.num_envs) if which is None else np.flatnonzero(which)
        if not at.size:
            return
        states = {key: before[key][at] for key in FIELDS}
        states |= {"tokens": tokens[at], "env_ids": at}
        ended, terminated, truncated = (flag[at] for flag in flags)
        after = {key: arrived[key][at] for key in FIELDS}
        after |= {"terminal": truncated, "terminated": terminated}
        self.buffer.add(states, actions[at], rewards[at], after, ended)


def _refuse_strangers(settings: Mapping[str, Any]) -> None:
    """Refuse unexpected settings, and suggest the ones that were probably meant."""
    theirs = inspect.signature(VecFastFinRL.__init__).parameters
    mine = inspect.signature(VecFinRLWrapper.__init__).parameters
    settled = ("self", "settings", "csv_path", "return_format")
    known = [name for name in {**mine, **theirs} if name not in settled]
    refuse_unknown("VecFinRLWrapper", settings, known)
