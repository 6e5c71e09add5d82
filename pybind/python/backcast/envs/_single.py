"""Portfolio environment as Gymnasium's ``Env``: one row of the vector environment."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import gymnasium as gym
from gymnasium.vector import AutoresetMode

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
    observation_space,
    picture,
    portfolios,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np
    from numpy.typing import ArrayLike, NDArray


class PortfolioEnv(gym.Env[Any, Any]):
    """One portfolio that trades the tickers of a panel day by day.

    The world is that of :class:`PortfolioVectorEnv`, and so is every number. With seed ``s + i``
    this environment equals portfolio i of a vector environment with seed ``s``, bit for bit.

    Parameters
    ----------
    panel : Panel, str or path
        The market: a :class:`backcast.Panel`, the name of a shared one (best for many processes),
        or a CSV or Parquet file.
    obs : {"dict", "flat"}
        A dict of arrays, or one float32 array of the same numbers.
    max_episode_steps : int, optional
        Steps after which an episode is truncated; also if ``gym.make`` is called with it. A
        ``TimeLimit`` of your own is not seen: call :meth:`metrics_so_far` then.
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
    Observations are those of the vector environment without the leading axis; single numbers are
    arrays of shape ``(1,)``. The reward is a ``float``, the flags are ``bool``. After an end the
    next call has to be ``reset``.

    Examples
    --------
    >>> from backcast.envs import PortfolioEnv
    >>> env = PortfolioEnv("prices.csv", obs="flat")  # doctest: +SKIP
    >>> obs, info = env.reset(seed=7)  # doctest: +SKIP
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 4}  # noqa: RUF012

    @explained
    def __init__(
        self,
        panel: PanelLike,
        *,
        obs: ObsForm = "dict",
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
        self._batch = portfolios(
            open_panel(panel, panel_options),
            None,
            settings,
            obs=obs,
            mode=AutoresetMode.DISABLED,
            reuse=False,
            render_mode=render_mode,
        )
        self.render_mode = render_mode
        self.observation_space = observation_space(self._batch, obs)
        self.action_space = action_space(self._batch)
        self._rebuild = partial(
            type(self),
            panel,
            obs=obs,
            panel_options=panel_options,
            render_mode=render_mode,
            **settings,
        )

    def __repr__(self) -> str:
        """Show sizes, mode, days and state."""
        return f"<backcast.envs.PortfolioEnv: {self._batch}>"

    @explained
    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin a new episode.

        Parameters
        ----------
        seed : int, optional
            New seed of the stream of random numbers; None continues the stream.
        options : dict, optional
            ``"start_day"``: an int, where to begin instead of on a drawn day.

        Returns
        -------
        (dict or ndarray, dict)
            Observation and info (empty).

        Raises
        ------
        EnvError
            If the seed or day is not valid; nothing has changed then.
        """
        result = self._batch.reset(seed=seed, options=options)
        # Days are drawn in Rust; `np_random` is seeded for callers that draw from it.
        super().reset(seed=None if seed is None else int(seed))
        return result

    def step(self, action: ArrayLike) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Trade one day.

        Parameters
        ----------
        action : array_like of float, shape (T,)
            From -1 (sell ``hmax`` shares) to 1 (buy as many).

        Returns
        -------
        (dict or ndarray, float, bool, bool, dict)
            Observation, reward, terminated, truncated, info: empty, but with ``metrics`` at an end.

        Raises
        ------
        EnvError
            If an action is no number from -1 to 1, or the episode has ended. Nothing has changed
            then.
        """
        return self._batch.step(action)

    @explained
    def history(self, before: bool = False) -> dict[str, Any]:
        """Return a recorded episode, day by day.

        Parameters
        ----------
        before : bool, default False
            Return the episode before the running one instead.

        Returns
        -------
        dict
            ``day`` int32 ``[S + 1]`` of S steps, ``date`` and ``tickers`` lists, ``close`` float64
            ``[S + 1, T]`` (NaN without a row); ``cash`` float64 ``[S + 1]`` and ``shares`` int32
            ``[S + 1, T]`` when the day began, ``value`` float64 ``[S + 1]`` at its close before
            its orders; ``bought`` and ``sold`` int32 ``[S, T]``, shares, ``stopped`` bool
            ``[S, T]`` and ``settled`` int32 ``[S, T]``, shares of tickers that left, of each step.

        Raises
        ------
        EnvError
            If there is no such episode, or nothing is recorded.
        """
        return self._batch.history(0, before)

    @explained
    def metrics_so_far(self) -> dict[str, float]:
        """Return the metrics of the running episode so far, even if a wrapper cuts it.

        Returns
        -------
        dict
            Metrics as in ``infos["metrics"]``, as plain numbers, up to the last step; those of an
            ended episode until the next reset.

        Raises
        ------
        EnvError
            Before the first reset.
        """
        return self._batch.metrics_so_far()

    def render(self) -> NDArray[np.uint8] | None:
        """Draw the running episode, or the one before if it has only begun.

        Returns
        -------
        ndarray
            A picture, uint8 ``[480, 640, 3]``; None without a ``render_mode``.

        Raises
        ------
        EnvError
            Before the first reset.
        MissingExtraError
            If matplotlib is not installed.
        """
        return None if self.render_mode is None else picture(self._batch, 0)

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

    def close(self) -> None:
        """Release the panel. Closing again does nothing."""
        self._batch.close()

    def __reduce__(self) -> tuple[Callable[[], PortfolioEnv], tuple[()], dict[str, Any]]:
        """Pickle by the arguments of the constructor."""
        return self._rebuild, (), {"spec": self.spec}

    def __deepcopy__(self, memo: dict[int, Any]) -> PortfolioEnv:
        """Copy with the state: the copy continues as this one would."""
        return deep_copy(self, memo)
