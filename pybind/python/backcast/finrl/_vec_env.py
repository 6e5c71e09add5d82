"""Many portfolios stepped together, with the calls and states of FastFinRL's vectorised class."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from backcast._calls import explained
from backcast._copies import rebuilding
from backcast._counts import count_of, whole_of
from backcast._native import PortfolioBatch
from backcast.errors import ArgumentTypeError, EnvError
from backcast.finrl._base import settings_of
from backcast.finrl._rules import (
    flag_of,
    names_of,
    options_of,
    seed_of,
    seeds_of,
    starts_of,
)
from backcast.finrl._seen import SeenPortfolios

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike

    from backcast._market import PanelLike
    from backcast.finrl._rules import ReturnFormat, Seeds

Mode: TypeAlias = Literal["next_step", "same_step", "disabled"]


class VecFastFinRL(SeenPortfolios):
    """Many portfolios over one market, each with its own tickers, day and random numbers.

    Parameters
    ----------
    csv_path : path, str or Panel
        A CSV or Parquet file, the name of a shared panel, or an open :class:`backcast.Panel`.
    n_envs : int
        Portfolios, ``N``.
    initial_amount : float, default 30000
        Cash at the start of an episode.
    failure_threshold : float, default 25000
        An episode is done when the portfolio, valued at the close, falls to this or below. If an
        episode begins at or below the threshold, a warning is issued, and every step that does not
        end above it ends the episode.
    hmax : int, default 15
        Shares traded by an action of 1.
    buy_cost_pct, sell_cost_pct : float, default 0.01
        Fees as fractions of the value traded.
    stop_loss_tolerance : float, default 0.8
        A holding is sold when its price falls below this fraction of the average price paid.
    bidding : {"default", "uniform", "adv_uniform"}
        Orders are filled at the close, at a price drawn between low and high, or at one drawn to
        the trader's disadvantage.
    stop_loss_calculation : {"close", "low"}
        The price that a stop loss compares.
    initial_seed : int, default 0
        Seed of the random numbers if the first reset has none; -1: random.
    tech_indicator_list : sequence of str, optional
        Indicators to show, in this order; all of the file when empty, in the order of the file.
    macro_tickers : sequence of str, optional
        Tickers that are shown in this order and never traded. Of an open panel they must have been
        named when it was loaded.
    auto_reset : bool, default True
        Begin a new episode by itself when one is done.
    return_format : {"json", "vec"}
        States as a list of dicts, or as one dict of arrays.
    num_tickers : int, default 0
        Number of tickers that each portfolio trades: the first ones by name; 0: all but macro
        tickers.
    shuffle_tickers : bool, default False
        Draw the tickers instead, for every episode of every portfolio.
    stop_loss_day : {"same", "next", "same_always"}
        Check stop losses right after the orders of a day, or on the next day before it is observed,
        as FastFinRL's vectorised class does, which is look-ahead. With ``"same"`` the low of a day
        on which shares were added is ignored; ``"same_always"`` compares it.
    indicator_lag : int, default 1
        Days by which indicators are older than the open. 0, as in FastFinRL, is look-ahead.
    valuation : {"open", "close"}, optional
        Price at which ``total_asset`` values holdings. By default the open, or the close if
        `indicator_lag` is 0.
    history_length : int, default 0
        Days before the first day of an episode on which every ticker has a row, where the data
        allow it.
    days : (int, int), optional
        Days to use, half open; all when left out.
    max_episode_steps : int, optional
        Steps after which an episode is done.
    ticker_costs : mapping of str to (float, float), optional
        Other fees of single tickers, ``{"AAA": (buy, sell)}``.
    fixed_fee, slippage_bps : float, default 0
        Cash per order, and basis points on every price.
    tradable : array_like of bool, shape (tickers, days) or (tickers,), optional
        Mask of the panel's tickers and days that can be traded.
    delisting : {"settle", "hold"}
        Policy for a holding whose ticker has its last row before the market ends: turn it into cash
        at the close of that row, without a fee, or keep it, valued at that close and not sold.
    initial_shares : mapping of str to int, optional
        Shares held at the start of an episode, of the tickers that a portfolio trades in it.
    generator : {"splitmix64", "mt19937"}
        Random generator; ``mt19937`` draws the same numbers as FastFinRL with equal seeds.
    record : bool, default False
        Keep every step of an episode, and of the one before, for :meth:`history`.
    panel_options : mapping, optional
        Keywords for opening `csv_path`: ``{"nan": "mask"}``, say.

    Raises
    ------
    EnvError
        If a setting is out of its range, or the market cannot serve it.
    ArgumentError, NotFoundError, PanelError
        If the market cannot be opened.

    Notes
    -----
    A state in the form ``vec`` is a dict of new arrays: ``day`` int32 ``[N]``; ``cash``,
    ``total_asset``, ``reward`` float64 ``[N]``; ``done``, ``terminal`` bool ``[N]``; ``shares``
    int32 ``[N, T]``; ``avg_buy_price``, ``open`` float64 ``[N, T]``; ``indicators`` float64
    ``[N, T, K]``; with macro tickers ``macro_open`` ``[N, M]`` and ``macro_indicators``
    ``[N, M, K]``; ``tickers`` ``[N][T]``, ``indicator_names``, ``n_envs``, ``n_tickers``,
    ``n_indicators``, ``n_macro``. Here also ``terminated`` and ``truncated`` (``terminal`` is the
    latter), ``macro_tickers``, and the counts ``num_stop_loss``, ``episode_orders``, ``n_trades``
    and ``loss_cut_amount``. Its lists are read-only, since the states after it have them too;
    copies are lists like any other. The form ``json`` is a list of dicts of the same, one per
    portfolio.

    Differences from FastFinRL, besides the look-ahead: in the step that ends an episode ``reward``,
    ``done`` and ``terminal`` are those of the end; with `auto_reset` the rest is the first state of
    the next episode, and ``final_obs`` has every portfolio's state as it was before the resets, to
    store as next state; ``metrics`` has the metrics of the ended episodes. A ticker without a row
    has an open of 0, is not traded, and is worth its last close. Actions out of range are refused.
    Random numbers of a portfolio depend on the seed and its position alone. An episode that is done
    may be stepped on without `auto_reset`, up to the last day.

    Examples
    --------
    >>> import backcast.finrl as ff
    >>> env = ff.VecFastFinRL("data.csv", n_envs=4, return_format="vec")  # doctest: +SKIP
    >>> state = env.reset(seed=42)  # doctest: +SKIP
    >>> state = env.step(np.zeros((4, env.n_tickers())))  # doctest: +SKIP
    """

    @explained
    def __init__(
        self,
        csv_path: PanelLike,
        n_envs: int,
        initial_amount: float = 30_000.0,
        failure_threshold: float = 25_000.0,
        hmax: int = 15,
        buy_cost_pct: float = 0.01,
        sell_cost_pct: float = 0.01,
        stop_loss_tolerance: float = 0.8,
        bidding: str = "default",
        stop_loss_calculation: str = "close",
        initial_seed: int = 0,
        tech_indicator_list: Sequence[str] = (),
        macro_tickers: Sequence[str] = (),
        auto_reset: bool = True,
        return_format: ReturnFormat = "json",
        num_tickers: int = 0,
        shuffle_tickers: bool = False,
        *,
        stop_loss_day: str = "same",
        indicator_lag: int = 1,
        valuation: str | None = None,
        history_length: int = 0,
        days: tuple[int, int] | list[int] | None = None,
        max_episode_steps: int | None = None,
        ticker_costs: Mapping[str, tuple[float, float]] | None = None,
        fixed_fee: float = 0.0,
        slippage_bps: float = 0.0,
        tradable: ArrayLike | None = None,
        delisting: str = "settle",
        initial_shares: Mapping[str, int] | None = None,
        generator: str = "splitmix64",
        record: bool = False,
        panel_options: Mapping[str, Any] | None = None,
    ) -> None:
        self._rebuild = rebuilding(self, locals())
        settings = settings_of(locals()) | {
            "record": flag_of(record, "record"),
            "play_on": True,
        }
        self._seed = seed_of(initial_seed, "initial_seed")
        self._mode = _mode_of(flag_of(auto_reset, "auto_reset"))
        super().__init__(
            csv_path, settings, tech_indicator_list, macro_tickers, return_format, panel_options
        )
        n_envs = count_of(n_envs, "n_envs", 1, EnvError)
        self._adopt(PortfolioBatch(self._panel, n_envs, self._modal()))

    def __repr__(self) -> str:
        """Show sizes, mode, days and state."""
        return f"<backcast.finrl.VecFastFinRL: {self._batch}>"

    @explained
    def reset(
        self,
        tickers_list: Sequence[Sequence[str]] | None = None,
        seeds: Seeds | None = None,
        seed: int | None = None,
        *,
        tickers: Sequence[Sequence[str]] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401 - a dict or a list of dicts
        """Begin new episodes in all portfolios.

        Parameters
        ----------
        tickers_list : sequence of sequences of str, optional
            The tickers of each portfolio in the order of its actions. All lists have the same
            length, and their number becomes the number of portfolios. For an empty list, tickers
            are drawn in every episode.
        seeds : array_like of int or sequence of (int or None), shape (N,), optional
            A seed for each portfolio. With None the portfolio's stream continues, the first time
            from ``initial_seed``.
        seed : int, optional
            One seed for all: portfolio i has stream i of it. -1: a random one. Without any seed the
            streams continue, the first time from ``initial_seed``.
        tickers : sequence of sequences of str, optional
            Another name of `tickers_list`.
        options : mapping, optional
            ``"start_day"``: an int or int array ``[N]``, where to begin instead of on a drawn day.
            ``"reset_mask"``: bool array ``[N]``, which portfolios to reset; the others stay where
            they are and show the results of their last step, ``reward`` and ``done`` too.

        Returns
        -------
        dict or list of dict
            The state.

        Raises
        ------
        EnvError
            If a ticker, seed or day is not valid; nothing has changed then.
        """
        if tickers is not None and tickers_list is not None:
            raise ArgumentTypeError("reset() got `tickers_list` and `tickers`; keep one of them")
        if seed is not None and seeds is not None:
            raise ArgumentTypeError("reset() got `seed` and `seeds`; keep one of them")
        chosen = tickers_list if tickers is None else tickers
        batch = self._batch
        assert batch is not None
        if chosen is not None:
            what = "tickers_list" if tickers is None else "tickers"
            lists = isinstance(chosen, Iterable) and not isinstance(chosen, str)
            if not lists or any(isinstance(names, str) for names in chosen):
                raise ArgumentTypeError(
                    f'{what} is {chosen!r}; give a list for each portfolio, [["AAPL"]]'
                )
            each = [names_of(what, names) for names in chosen]
            if not each:
                raise EnvError(f"{what} is empty; give a list for each portfolio, or leave it out")
            before = batch
            batch = PortfolioBatch(self._panel, len(each), self._modal(), tickers_of=each)
            if self._wrapped:
                self._check_sizes(what, batch)
            batch.go_on_from(before)
        each_seed = None if seeds is None else seeds_of(seeds, batch.num_envs or 1)
        given = seed_of(seed) if each_seed is None else each_seed
        return self._show(self._begin(batch, given, options_of(options)))

    @explained
    def reset_indices(
        self,
        indices: Iterable[int],
        seeds: Seeds | None = None,
        *,
        options: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401 - a dict or a list of dicts
        """Begin new episodes in some portfolios; the others stay where they are.

        Parameters
        ----------
        indices : iterable of int
            Portfolios, ``n`` of them; an empty list changes nothing.
        seeds : array_like of int or sequence of (int or None), shape (n,), optional
            A seed for each of them; without, their streams continue.
        options : mapping, optional
            ``"start_day"``: an int or int array ``[n]``, where they begin instead of on drawn days.

        Returns
        -------
        dict or list of dict
            The state of all.

        Raises
        ------
        EnvError
            If there is no such portfolio, seed or day, or the others were never reset; nothing has
            changed then.
        """
        batch = self._batch
        assert batch is not None
        count = self.num_envs()
        if not isinstance(indices, Iterable) or isinstance(indices, str):
            raise ArgumentTypeError(f"indices is {indices!r}; give a list of whole numbers")
        listed = [whole_of(at, "one of indices", "whole numbers") for at in indices]
        for at in listed:
            if not 0 <= at < count:
                raise EnvError(f"indices holds {at}; give numbers from 0 to {count - 1}")
        chosen = options_of(options) or {}
        given = seeds_of(seeds, len(listed))
        starts = starts_of(chosen, len(listed))
        if not listed:
            return self.get_state()
        if self._seen is None:
            raise EnvError("no portfolio was reset yet; call reset first, for all of them")
        mask = np.zeros(count, bool)
        mask[listed] = True
        each: list[int | None] = [None] * count
        for at, seed in zip(listed, given, strict=True):
            each[at] = seed
        masked: dict[str, Any] = {"reset_mask": mask}
        if starts is not None:
            # Entries of the others are not read.
            masked["start_day"] = np.zeros(count, np.int64)
            masked["start_day"][listed] = starts
        return self._show(self._begin(batch, each, masked))

    def step(self, actions: ArrayLike) -> Any:  # noqa: ANN401 - a dict or a list of dicts
        """Trade one day in every portfolio.

        Parameters
        ----------
        actions : array_like of float, shape (N, T)
            From -1 (sell ``hmax`` shares) to 1 (buy as many).

        Returns
        -------
        dict or list of dict
            The state.

        Raises
        ------
        EnvError
            If an action is no number from -1 to 1, a portfolio was never reset, or stands on the
            last day. Nothing has changed then.
        """
        return self._show(self._advance(actions))

    @explained
    def set_auto_reset(self, enabled: bool) -> None:
        """Set whether done episodes restart automatically.

        Parameters
        ----------
        enabled : bool
            Whether they do. If so, episodes that are done already begin again with the next step.

        Raises
        ------
        ArgumentTypeError
            If it is no bool.
        EnvError
            If a :class:`VecFinRLWrapper` steps these portfolios, whose mode stays.
        """
        mode = _mode_of(flag_of(enabled, "enabled"))
        if self._wrapped:
            raise EnvError(
                f"set_auto_reset({enabled}): the portfolios are a VecFinRLWrapper's, whose "
                "autoreset_mode stays as it is; make the wrapper with another autoreset_mode"
            )
        assert self._batch is not None
        self._batch.set_autoreset_mode(mode)
        self._mode = mode

    def auto_reset(self) -> bool:
        """Return whether done episodes restart automatically.

        Returns
        -------
        bool
        """
        return self._mode != "disabled"

    def __deepcopy__(self, memo: dict[int, Any]) -> VecFastFinRL:
        """Copy with the state: the copy continues as this one would, without a wrapper."""
        twin = super().__deepcopy__(memo)
        twin._wrapped = False
        return twin

    def _wrap(self, mode: Mode, play_on: bool) -> None:
        """Hand the portfolios to a wrapper, which sets the mode and fixes the sizes."""
        self._settings["play_on"] = play_on
        self._mode, self._wrapped = mode, True
        self._adopt(PortfolioBatch(self._panel, self.num_envs(), self._modal()))

    def _check_sizes(self, what: str, batch: PortfolioBatch) -> None:
        count, tickers = self.num_envs(), self.n_tickers()
        found = (batch.num_envs, len(batch.tickers))
        if found != (count, tickers):
            raise EnvError(
                f"{what} has {found[0]} lists of {found[1]}; the portfolios are a "
                f"VecFinRLWrapper's, whose spaces stay: give {count} lists of {tickers}"
            )

    def _modal(self) -> dict[str, Any]:
        return self._settings | {"autoreset_mode": self._mode}


def _mode_of(auto_reset: bool) -> Mode:
    return "same_step" if auto_reset else "disabled"
