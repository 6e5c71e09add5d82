"""Portfolio environment as Gymnasium's ``VectorEnv``, around a Rust object."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from backcast._calls import explained
from backcast._market import PanelLike
from backcast.envs._portfolio import (
    ObsForm,
    PortfolioFace,
    mode_of,
    picture,
)
from backcast.envs._portfolio_settings import PortfolioSettings
from backcast.errors import ArgumentTypeError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray


class PortfolioVectorEnv(PortfolioFace, VectorEnv[Any, Any, Any]):
    """Many portfolios that trade the tickers of a panel day by day.

    On day d an agent sees the open of d and the indicators of ``d - indicator_lag``. Its orders are
    filled at the close of d; nothing else of d is shown before. The reward is the log return from
    close to close. Terminated: the portfolio fell to the failure threshold. Truncated: the data or
    the steps of an episode ran out. An episode starts on a drawn day of the first four fifths.
    Every ticker is listed on it or, where there is no such day, some are. A ticker is traded where
    it is listed; elsewhere its open is 0.

    Each portfolio has a random stream of its own, seeded as Gymnasium does. Its draws depend
    neither on the number of portfolios nor on the others. :class:`PortfolioEnv` with the same seed
    is equal to it bit for bit.

    Parameters
    ----------
    panel : Panel, str or path
        The market: a :class:`backcast.Panel`, the name of a shared one (best for many processes),
        or a CSV or Parquet file, which every environment loads for itself.
    num_envs : int, default 1
        Portfolios, ``N``.
    obs : {"dict", "flat"}
        A dict of arrays, or one float32 array of the same numbers, filled in Rust, in the order of
        ``gymnasium.spaces.flatten`` (keys sorted).
    copy : bool, default True
        Return new arrays from every call. False writes every observation to the same arrays, which
        is faster for large ones. They stay unchanged until the next ``step`` or ``reset``, so copy
        what you keep.
    autoreset_mode : AutoresetMode or {"next_step", "same_step", "disabled"}
        Autoreset mode after an episode has ended.
    panel_options : mapping, optional
        Keywords for opening `panel`, such as ``{"macro": ["SP500"]}`` for a file or
        ``{"dir": ...}`` for a name.
    render_mode : {"rgb_array"}, optional
        Makes :meth:`render` draw prices with trades, value against buying and holding, and
        drawdown. Buying and holding counts the dividends and splits that settings name. Needs
        matplotlib, and records every step.
    **settings : object
        Settings by name: those of :class:`PortfolioSettings`.

    Raises
    ------
    EnvError
        If a setting is out of its range, or the panel cannot serve it.
    ArgumentError, NotFoundError, PanelError
        If the panel cannot be opened.

    Notes
    -----
    Actions are float32 or float64 ``[N, T]`` from -1 (sell ``hmax`` shares) to 1 (buy as many), or
    what the setting `actions` says. An observation has ``day`` int32 ``[N, 1]``, ``cash`` float64
    ``[N, 1]``, ``shares`` int32 ``[N, T]`` (float64 if `fractional`), ``avg_buy_price`` float64
    ``[N, T]``, ``total_asset`` float64 ``[N, 1]`` (see `valuation`), ``open`` float64 ``[N, T]``
    (0 where not listed) and, if indicators are shown, ``indicators`` float64 ``[N, T, K]``; with
    macro tickers ``macro_open`` float64 ``[N, M]`` and, if indicators are shown,
    ``macro_indicators`` float64 ``[N, M, K]``. Flat and without `history`: float32
    ``[N, T(3 + K) + M(1 + K) + 3]``.

    With `history` there are ``history`` float32 ``[N, T + M, H, C]`` of day-H to day-1, oldest
    first, macro tickers behind the others, columns as in the panel, and ``history_mask`` bool
    ``[N, T + M, H]``; zeros where it is False. With ``copy=False`` both are views of an arena in
    which a step writes only the newest day; do not write to them. Like the other arrays, a view
    stays unchanged until the next ``step`` or ``reset``. Later it may change, also in a process
    that was forked meanwhile.

    In the step that ends an episode infos hold its ``metrics``, with masks:
    ``return``, ``sharpe`` and ``sortino`` (annualised by ``panel.bars_per_year``),
    ``max_drawdown``, ``turnover`` (a multiple of the initial value), ``costs`` (of all kinds),
    ``trades``, ``stop_losses``, ``final_value`` and ``length``, all at the close.
    ``metrics_so_far`` has the metrics of episodes that something else cuts.

    A sale is not executed if neither its proceeds nor the cash cover the fixed fee.

    Steps run in the calling thread. Long ones release the GIL. The environment pickles by its
    arguments: the copy has to be reset. ``copy.deepcopy`` keeps the state, streams included.

    Examples
    --------
    >>> from backcast.envs import PortfolioVectorEnv
    >>> envs = PortfolioVectorEnv("prices.csv", 64, obs="flat")  # doctest: +SKIP
    >>> obs, infos = envs.reset(seed=7)  # doctest: +SKIP
    """

    metadata: dict[str, Any] = {  # noqa: RUF012
        "render_modes": ["rgb_array"],
        "render_fps": 4,
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }

    @explained
    def __init__(
        self,
        panel: PanelLike,
        num_envs: int = 1,
        *,
        obs: ObsForm = "dict",
        copy: bool = True,
        autoreset_mode: str | AutoresetMode = "next_step",
        panel_options: Mapping[str, Any] | None = None,
        render_mode: str | None = None,
        **settings: Unpack[PortfolioSettings],
    ) -> None:
        if not isinstance(copy, bool):
            raise ArgumentTypeError(
                f"copy is {copy!r}; give True for new arrays from every call, False to reuse them"
            )
        self.autoreset_mode = mode_of(autoreset_mode)
        self._open(
            panel,
            num_envs,
            settings,
            *("num_envs", "copy", "autoreset_mode"),
            obs=obs,
            mode=self.autoreset_mode,
            reuse=not copy,
            panel_options=panel_options,
            render_mode=render_mode,
        )
        self.num_envs = int(num_envs)
        self.copy = copy
        self.render_mode = render_mode
        self.metadata = type(self).metadata | {"autoreset_mode": self.autoreset_mode}
        self.single_observation_space, self.single_action_space = self._spaces(obs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._rebuild = partial(
            type(self),
            panel,
            num_envs,
            obs=obs,
            copy=copy,
            autoreset_mode=self.autoreset_mode,
            panel_options=panel_options,
            render_mode=render_mode,
            **settings,
        )

    @explained
    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | NDArray[np.integer[Any]] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Begin new episodes.

        Parameters
        ----------
        seed : int, array of int or sequence of (int or None), optional
            An int s seeds portfolio i with ``s + i``; a sequence has one entry per portfolio. None
            continues the portfolio's stream of random numbers.
        options : dict, optional
            ``"reset_mask"``: bool array ``[N]``, which portfolios to reset; the others keep their
            state and observation. ``"start_day"``: an int, a date or an array ``[N]`` of
            them, where to begin instead of on a drawn day. The dict is left as it is.

        Returns
        -------
        (dict or ndarray, dict)
            Observations and infos (empty).

        Raises
        ------
        EnvError
            If a seed, mask or day is not valid; nothing has changed then.
        TypeError
            If the mask is no array of booleans.
        """
        result = self._batch.reset(seed=seed, options=options)
        # `np_random` belongs to the vector environment; portfolios have streams of their own, in
        # Rust.
        if isinstance(seed, int | np.integer):
            super().reset(seed=int(seed))
        return result

    def step(
        self, actions: ArrayLike
    ) -> tuple[Any, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Trade one day in every portfolio.

        Parameters
        ----------
        actions : array_like, shape (N, T)
            By default from -1 (sell ``hmax`` shares) to 1 (buy as many); else numbers of the
            setting `actions`. In next-step mode the actions of a portfolio that is about to be
            reset are ignored.

        Returns
        -------
        (dict or ndarray, ndarray, ndarray, ndarray, dict)
            Observations, rewards float64 ``[N]``, terminations and truncations bool ``[N]``, infos.
            When an episode ended, infos hold ``metrics``, and in same-step mode ``final_obs`` (an
            object array of None or the last observation), ``final_info`` and their masks. With
            `step_info` they hold the details of the step, see :class:`PortfolioSettings`.

        Raises
        ------
        EnvError
            If an action is not in the action space, or a portfolio has to be reset first. Nothing
            has changed then. Also if a reward of your own returns other than ``N`` finite numbers;
            the step was taken then.
        """
        return self._step(actions)

    @explained
    def history(self, i: int, before: bool = False) -> dict[str, Any]:
        """Return a recorded episode of a portfolio, day by day.

        Parameters
        ----------
        i : int
            Portfolio.
        before : bool, default False
            Return the episode before the running one.

        Returns
        -------
        dict
            Of an episode with S steps. By day: ``day`` int32 ``[S + 1]``, ``date`` (list) and
            ``close`` float64 ``[S + 1, T]``, NaN without a row; ``cash`` float64 ``[S + 1]`` and
            ``shares`` int32 ``[S + 1, T]`` at the start of the day; ``value`` float64 ``[S + 1]``
            at its close, before its orders. By step: shares ``bought``, ``sold`` and ``settled``
            int32 ``[S, T]``, and ``stopped`` bool ``[S, T]``. ``tickers`` is a list of T names.
            Settled are shares of tickers that left the market. All numbers of shares are float64 if
            `fractional`, and those of short positions are negative.

        Raises
        ------
        EnvError
            If there is no such portfolio or episode, or nothing is recorded.
        """
        return self._batch.history(i, before)

    @explained
    def metrics_so_far(self) -> dict[str, NDArray[Any]]:
        """Return the metrics of the running episodes so far, even if a wrapper cuts them.

        Returns
        -------
        dict
            Metrics as in ``infos["metrics"]``, as arrays ``[N]``, up to the last step; of
            episodes that have ended, until they are reset.

        Raises
        ------
        EnvError
            Before the first reset.
        """
        return self._batch.metrics_so_far()

    def render(self) -> tuple[NDArray[np.uint8], ...] | None:
        """Draw the running episode of every portfolio, or the one before if it has only begun.

        Returns
        -------
        tuple of ndarray
            ``N`` pictures, uint8 ``[480, 640, 3]``; None without a ``render_mode``.

        Raises
        ------
        EnvError
            Before the first reset.
        MissingExtraError
            If matplotlib is not installed.
        """
        if self.render_mode is None:
            return None
        return tuple(picture(self._batch, at) for at in range(self.num_envs))

    def close_extras(self, **kwargs: Any) -> None:  # noqa: ANN401
        """Release the panel, as a part of ``close``.

        Parameters
        ----------
        **kwargs : object
            Arguments of ``close``; not used.
        """
        # Gymnasium closes forgotten environments, even if their constructor failed.
        if "_batch" in vars(self):
            self._batch.close()
