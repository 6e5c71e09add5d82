"""Portfolio environment as Gymnasium's ``VectorEnv``, around a Rust object."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from backcast._calls import explained
from backcast._copies import deep_copy
from backcast._market import PanelLike, open_panel
from backcast.envs._limit import step_limit
from backcast.envs._portfolio import (
    Bidding,
    Delisting,
    ObsForm,
    Settings,
    StopLossDay,
    StopLossPrice,
    Valuation,
    action_space,
    mode_of,
    observation_space,
    picture,
    portfolios,
)
from backcast.errors import ArgumentTypeError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray


class PortfolioVectorEnv(VectorEnv[Any, Any, Any]):
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
    max_episode_steps : int, optional
        Steps after which an episode is truncated.
    initial_amount : float, default 30000
        Cash at the start of an episode.
    failure_threshold : float, default 25000
        An episode is terminated when the portfolio, valued at the close, falls to this or below.
    hmax : int, default 15
        Shares traded by an action of 1.
    buy_cost_pct, sell_cost_pct : float, default 0.01
        Fees as fractions of the value traded; 0.01 is one percent.
    ticker_costs : mapping of str to (float, float), optional
        Other fees of single tickers, ``{"AAA": (buy, sell)}``.
    fixed_fee : float, default 0
        Fee of every executed order, in cash, besides the fraction.
    slippage_bps : float, default 0
        Hundredths of a percent by which purchases cost more, and sales bring less, than the price.
    bidding : {"default", "uniform", "adv_uniform"}
        Orders are filled at the close (also called "deterministic"); at a price drawn between low
        and high; or at one drawn to the trader's disadvantage, for sales from low to the lesser of
        open and close, for purchases from the greater of them to high.
    stop_loss_tolerance : float, default 0
        A holding is sold when its price falls below this fraction of the average price paid, fees
        included; 0: never.
    stop_loss_calculation : {"close", "low"}
        Price that is compared. The sale is filled like others. On the same day the low of a holding
        that was bought or added to is ignored, because it may precede the purchase.
    stop_loss_day : {"same", "next", "same_always"}
        Compare the price right after the orders of a day, or on the next day before it is observed,
        which is look-ahead: cash and shares then depend on its close. ``"same_always"`` also
        compares the low of a day of purchase.
    tickers : sequence of str, optional
        Tickers to trade, in the order of actions; all but macro tickers when left out. ``T`` of
        them.
    tradable : array_like of bool, shape (tickers, days) or (tickers,), optional
        Mask of the panel's tickers, macro ones included, and days that can be traded.
    delisting : {"settle", "hold"}
        Policy for a holding whose ticker has its last row before the panel ends. It is turned into
        cash at the close of that day, after the day's orders and without a fee. Or it is kept,
        cannot be sold, and is worth that close from then on.
    initial_shares : mapping of str to int, optional
        Shares held at the start of an episode, of tickers that are traded or may be drawn; their
        average price is the open of that day.
    indicators : sequence of str, optional
        Indicators to show, in this order, ``K`` of them; by default all of the panel's.
    macro_tickers : sequence of str, optional
        Macro tickers of the panel whose opens and indicators are shown, ``M`` of them.
    days : (int, int), optional
        Days of the panel to use, half open; all when left out.
    indicator_lag : int, default 1
        Days by which the indicators are older than the open. 0 is look-ahead.
    valuation : {"open", "close"}, optional
        Price of its day at which an observation's ``total_asset`` values holdings. By default the
        open, or the close if `indicator_lag` is 0. The close is look-ahead.
    history : int, default 0
        Days before the current one to show, ``H``: every column of the panel.
    history_length : int, default 0
        Days (at least `history`) with a row of every ticker before the first of an episode, where
        the data allow it.
    panel_options : mapping, optional
        Keywords for opening `panel`, such as ``{"macro": ["SP500"]}`` for a file or
        ``{"dir": ...}`` for a name.
    record : bool, default False
        Keep every step of an episode, and of the one before, for :meth:`history`.
    render_mode : {"rgb_array"}, optional
        Makes :meth:`render` draw prices with trades, value against buying and holding, drawdown.
        Needs matplotlib and records.

    Raises
    ------
    EnvError
        If a setting is out of its range, or the panel cannot serve it.
    ArgumentError, NotFoundError, PanelError
        If the panel cannot be opened.

    Notes
    -----
    Actions are float32 or float64 ``[N, T]`` from -1 (sell ``hmax`` shares) to 1 (buy as many). An
    observation has ``day`` int32 ``[N, 1]``, ``cash`` float64 ``[N, 1]``, ``shares`` int32
    ``[N, T]``, ``avg_buy_price`` float64 ``[N, T]``, ``total_asset`` float64 ``[N, 1]`` (see
    `valuation`), ``open`` float64 ``[N, T]`` (0 where not listed) and, where the panel has
    indicators, ``indicators`` float64 ``[N, T, K]``; with macro tickers ``macro_open`` float64
    ``[N, M]`` and ``macro_indicators`` float64 ``[N, M, K]``. Flat: float32
    ``[N, T(3 + K) + M(1 + K) + 3]``.

    With `history` there are ``history`` float32 ``[N, T + M, H, C]`` of day-H to day-1, oldest
    first, macro tickers behind the others, columns as in the panel, and ``history_mask`` bool
    ``[N, T + M, H]``; zeros where it is False. With ``copy=False`` they are views, not to be
    written to, of an arena in which a step writes the newest day alone. Like the other arrays, one
    stays unchanged until the next ``step`` or ``reset``; later it may change, also for a process
    that was forked meanwhile.

    In the step that ends an episode infos hold its ``metrics``, with masks:
    ``return``, ``sharpe`` and ``sortino`` (annualised), ``max_drawdown``, ``turnover`` (of the
    first value), ``costs`` (fees and slippage), ``trades``, ``stop_losses``, ``final_value`` and
    ``length``, all at the close. ``metrics_so_far`` has the metrics of episodes that something else
    cuts.

    A sale is not executed if neither its proceeds nor the cash cover the fixed fee.

    Steps run in the calling thread. Long ones release the interpreter. Pickles by its arguments:
    the copy has to be reset. ``copy.deepcopy`` keeps the state, streams included.

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
        max_episode_steps: int | None = None,
        initial_amount: float = 30_000.0,
        failure_threshold: float = 25_000.0,
        hmax: int = 15,
        buy_cost_pct: float = 0.01,
        sell_cost_pct: float = 0.01,
        ticker_costs: Mapping[str, tuple[float, float]] | None = None,
        fixed_fee: float = 0.0,
        slippage_bps: float = 0.0,
        bidding: Bidding = "default",
        stop_loss_tolerance: float = 0.0,
        stop_loss_calculation: StopLossPrice = "close",
        stop_loss_day: StopLossDay = "same",
        tickers: Sequence[str] | None = None,
        tradable: ArrayLike | None = None,
        delisting: Delisting = "settle",
        initial_shares: Mapping[str, int] | None = None,
        indicators: Sequence[str] | None = None,
        macro_tickers: Sequence[str] = (),
        days: tuple[int, int] | list[int] | None = None,
        indicator_lag: int = 1,
        valuation: Valuation | None = None,
        history: int = 0,
        history_length: int = 0,
        panel_options: Mapping[str, Any] | None = None,
        record: bool = False,
        render_mode: str | None = None,
    ) -> None:
        settings = Settings(
            initial_amount=initial_amount,
            failure_threshold=failure_threshold,
            hmax=hmax,
            buy_cost_pct=buy_cost_pct,
            sell_cost_pct=sell_cost_pct,
            ticker_costs=ticker_costs,
            fixed_fee=fixed_fee,
            slippage_bps=slippage_bps,
            bidding=bidding,
            stop_loss_tolerance=stop_loss_tolerance,
            stop_loss_calculation=stop_loss_calculation,
            stop_loss_day=stop_loss_day,
            tickers=tickers,
            tradable=tradable,
            delisting=delisting,
            initial_shares=initial_shares,
            indicators=indicators,
            macro_tickers=macro_tickers,
            days=days,
            indicator_lag=indicator_lag,
            valuation=valuation,
            history=history,
            history_length=history_length,
            max_episode_steps=step_limit(self, max_episode_steps),
            record=record,
        )
        if not isinstance(copy, bool):
            raise ArgumentTypeError(
                f"copy is {copy!r}; give True for new arrays from every call, False to reuse them"
            )
        self.autoreset_mode = mode_of(autoreset_mode)
        self._batch = portfolios(
            open_panel(panel, panel_options),
            num_envs,
            settings,
            obs=obs,
            mode=self.autoreset_mode,
            reuse=not copy,
            render_mode=render_mode,
        )
        self.num_envs = int(num_envs)
        self.copy = copy
        self.render_mode = render_mode
        self.metadata = type(self).metadata | {"autoreset_mode": self.autoreset_mode}
        self.single_observation_space = observation_space(self._batch, obs)
        self.single_action_space = action_space(self._batch)
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

    def __repr__(self) -> str:
        """Show sizes, mode, days and state."""
        return f"<backcast.envs.PortfolioVectorEnv: {self._batch}>"

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
            state and observation. ``"start_day"``: an int or int array ``[N]``, where to begin
            instead of on a drawn day. The dict is left as it is.

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
        actions : array_like of float, shape (N, T)
            From -1 (sell ``hmax`` shares) to 1 (buy as many). In next-step mode the actions of a
            portfolio that is about to be reset are ignored.

        Returns
        -------
        (dict or ndarray, ndarray, ndarray, ndarray, dict)
            Observations, rewards float64 ``[N]``, terminations and truncations bool ``[N]``, infos.
            When an episode ended, infos hold ``metrics``, and in same-step mode ``final_obs`` (an
            object array of None or the last observation), ``final_info`` and their masks.

        Raises
        ------
        EnvError
            If an action is no number from -1 to 1, or a portfolio has to be reset first. Nothing
            has changed then.
        """
        return self._batch.step(actions)

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
            Settled are shares of tickers that left the market.

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

    @property
    def tickers(self) -> list[str]:
        """The tickers traded, ``T`` of them, in the order of actions."""
        return self._batch.tickers

    @property
    def tokens(self) -> NDArray[np.int32]:
        """The tickers' tokens in the panel, ``[T]``: what ``Panel.windows`` takes."""
        return self._batch.tokens

    @property
    def indicators(self) -> list[str]:
        """The indicators shown, ``K`` of them, in the order of the observation."""
        return self._batch.indicators

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

    def __reduce__(self) -> tuple[Callable[[], PortfolioVectorEnv], tuple[()], dict[str, Any]]:
        """Pickle by the arguments of the constructor."""
        return self._rebuild, (), {"spec": self.spec}

    def __deepcopy__(self, memo: dict[int, Any]) -> PortfolioVectorEnv:
        """Copy with the state: the copy continues as this one would."""
        return deep_copy(self, memo)
