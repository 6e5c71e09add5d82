"""One portfolio, with the calls and states of FastFinRL's single class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from backcast._calls import explained
from backcast._copies import rebuilding
from backcast._counts import count_of
from backcast._native import PortfolioBatch
from backcast.errors import EnvError
from backcast.finrl._base import FinRLEnv, settings_of
from backcast.finrl._rules import State, names_of, options_of, seed_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from backcast._market import PanelLike
    from backcast.finrl._rules import ReturnFormat


class FastFinRL(FinRLEnv[State]):
    """One portfolio over a market, equal to one of :class:`VecFastFinRL` with the same settings.

    Parameters
    ----------
    csv_path : path, str or Panel
        A CSV or Parquet file, the name of a shared panel, or an open :class:`backcast.Panel`.
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
        Tickers that are shown in this order and never traded.
    return_format : {"json", "vec"}
        States as nested dicts, or as a dict of arrays.
    num_tickers : int, default 0
        Number of tickers to trade when a reset names none: the first ones by name; 0: all but macro
        tickers.
    shuffle_tickers : bool, default False
        Draw the tickers instead, in every episode, until a reset names others.
    stop_loss_day : {"same", "next", "same_always"}
        Check stop losses right after the orders of a day, or on the next day before it is observed,
        which is look-ahead. With ``"same"`` the low of a day on which shares were added is ignored,
        as it may precede the purchase; ``"same_always"`` compares it, as FastFinRL's single class
        does.
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
        Shares held at the start of an episode, of the tickers that it trades.
    generator : {"splitmix64", "mt19937"}
        Random generator; ``mt19937`` draws the same numbers as FastFinRL.
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
    A state in the form ``json`` has ``day``, ``day_idx``, ``date``, ``done``, ``terminal``,
    ``terminated``, ``truncated`` and ``reward``; after a reset ``seed``, the one given last, whose
    random numbers continue; at the end of an episode ``metrics``; ``portfolio`` with ``cash``,
    ``total_asset`` and ``holdings`` ``{ticker: {"shares", "avg_buy_price"}}``; ``market`` and, with
    macro tickers, ``macro`` ``{ticker: {"open", "indicators"}}``; ``info`` with counts such as
    ``loss_cut_amount``, ``n_trades`` and ``num_stop_loss``; and ``debug``
    ``{ticker: {"fill_price", "cost", "quantity"}}``: the price of the ticker's last fill in the
    step, and the fees and net quantity of all its fills. In the form ``vec``: the keys of
    :class:`VecFastFinRL` without the leading axis, ``date`` and ``seed``. Everything is in the
    order of the tickers that the reset named, actions too.

    Examples
    --------
    >>> import backcast.finrl as ff
    >>> env = ff.FastFinRL("data.csv")  # doctest: +SKIP
    >>> state = env.reset(["AAPL", "MSFT"], seed=42)  # doctest: +SKIP
    >>> while not state["done"]:  # doctest: +SKIP
    ...     state = env.step([0.5, -0.3])
    """

    @explained
    def __init__(
        self,
        csv_path: PanelLike,
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
        panel_options: Mapping[str, Any] | None = None,
    ) -> None:
        self._rebuild = rebuilding(self, locals())
        settings = settings_of(locals()) | {
            "autoreset_mode": "disabled",
            "play_on": True,
            "record": True,
        }
        self._seed = seed_of(initial_seed, "initial_seed")
        self._streams_of = self._seed
        super().__init__(
            csv_path, settings, tech_indicator_list, macro_tickers, return_format, panel_options
        )
        self._draws = shuffle_tickers and num_tickers > 0
        self._adopt(PortfolioBatch(self._panel, None, self._settings))

    def __repr__(self) -> str:
        """Show sizes, mode, days and state."""
        return f"<backcast.finrl.FastFinRL: {self._batch}>"

    @explained
    def reset(
        self,
        ticker_list: Sequence[str] | None = None,
        seed: int | None = None,
        shifted_start: int = 0,
        *,
        options: Mapping[str, Any] | None = None,
    ) -> State:
        """Begin a new episode.

        Parameters
        ----------
        ticker_list : sequence of str, optional
            Tickers to trade, in the order of actions, even with `shuffle_tickers`; by default those
            traded before. An empty list draws again, if tickers are drawn.
        seed : int, optional
            Seed of the random numbers; -1: random; None: they continue, and the state shows the
            seed that they continue from.
        shifted_start : int, default 0
            Days by which the earliest possible first day of the episode is moved later. Where
            tickers are drawn, they are drawn from those that have such a day left.
        options : mapping, optional
            ``"start_day"``: an int, where to begin instead of on a drawn day.

        Returns
        -------
        dict
            The state.

        Raises
        ------
        EnvError
            If a ticker, seed or day is not valid, or the shift leaves no day (where tickers are
            drawn, for any choice of them); nothing has changed then.
        """
        batch = self._batch
        assert batch is not None
        if ticker_list is not None:
            names = names_of("ticker_list", ticker_list)
            if not names and not self._draws:
                raise EnvError("ticker_list is empty; name at least one ticker, or leave it out")
            now = [] if batch.tickers_vary else batch.tickers
            if names != now:
                each = [names] if names else None
                batch = PortfolioBatch(self._panel, None, self._settings, tickers_of=each)
                batch.go_on_from(self._batch)
        given = seed_of(seed)
        if given is None:
            given = self._seed
        shift = count_of(shifted_start, "shifted_start", 0, EnvError)
        chosen = options_of(options)
        obs, _ = batch.reset(seed=given, options=chosen, shifted_start=shift)
        self._seed = None
        if given is not None:
            self._streams_of = given
        if batch is not self._batch:
            self._adopt(batch)
        self._tickers = batch.tickers_of[0]
        self._stepped = False
        return self._show(obs, 0.0, False, False, {})

    def step(self, actions: ArrayLike) -> State:
        """Trade one day.

        Parameters
        ----------
        actions : array_like of float, shape (T,)
            From -1 (sell ``hmax`` shares) to 1 (buy as many), in the order of the tickers.

        Returns
        -------
        dict
            The state.

        Raises
        ------
        EnvError
            If an action is no number from -1 to 1, there was no reset, or this is the last day.
            Nothing has changed then.
        """
        assert self._batch is not None
        step = self._batch.step(actions)
        self._stepped = True
        return self._show(*step)

    def n_tickers(self) -> int:
        """Count the tickers traded, also before the first reset.

        Returns
        -------
        int
            ``T``.
        """
        return len(self._tickers)

    def get_tickers(self) -> list[str]:
        """Name the tickers traded.

        Returns
        -------
        list of str
            In the order of actions.
        """
        return list(self._tickers)

    @property
    def tokens(self) -> NDArray[np.int32]:
        """The tickers' tokens in the panel, ``[T]``: what ``Panel.windows`` takes."""
        assert self._batch is not None
        return np.array(self._batch.tokens_of[0])

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
            In the form of :meth:`backcast.envs.PortfolioEnv.history`.

        Raises
        ------
        EnvError
            If there was no such episode.
        """
        assert self._batch is not None
        return self._batch.history(0, before)

    @explained
    def metrics_so_far(self) -> dict[str, float]:
        """Return the metrics of the running episode so far.

        Returns
        -------
        dict
            In the form of :meth:`backcast.envs.PortfolioEnv.metrics_so_far`.

        Raises
        ------
        EnvError
            Before the first reset.
        """
        assert self._batch is not None
        return self._batch.metrics_so_far()

    def _adopt(self, batch: PortfolioBatch) -> None:
        """Replace the portfolio."""
        self._batch: PortfolioBatch = batch
        self._tickers = batch.tickers_of[0]
        self._stepped = None

    def _show_again(self, *step: Any) -> State:  # noqa: ANN401
        return self._show(*step)

    def _show(
        self,
        obs: dict[str, NDArray[Any]],
        reward: float,
        terminated: bool,
        truncated: bool,
        infos: dict[str, Any],
    ) -> State:
        counts = {key: values[0].item() for key, values in self._batch.counts().items()}
        day = int(obs["day"])
        outcome: State = {
            "day": day,
            "day_idx": day,
            "date": self._panel.dates[day],
            "done": terminated or truncated,
            "terminal": truncated,
            "terminated": terminated,
            "truncated": truncated,
            "reward": reward,
            **(infos if self._stepped else {"seed": self._streams_of}),
            "info": counts,
            "debug": _fills_by_ticker(self._batch),
        }
        return self._in_form(obs, outcome)

    def _in_form(self, obs: dict[str, NDArray[Any]], outcome: State) -> State:
        if self._format == "vec":
            scalars = {"cash": float(obs["cash"]), "total_asset": float(obs["total_asset"])}
            state = {**obs, **scalars, **outcome, "tickers": list(self._tickers)}
            if self._macro:
                state["macro_tickers"] = list(self._macro)
            return state | {"indicator_names": list(self._indicators)}
        none = np.zeros((max(len(self._tickers), len(self._macro)), 0))
        state = {
            **outcome,
            "portfolio": {
                "cash": float(obs["cash"]),
                "total_asset": float(obs["total_asset"]),
                "holdings": {
                    ticker: {"shares": shares, "avg_buy_price": price}
                    for ticker, shares, price in zip(
                        self._tickers,
                        obs["shares"].tolist(),
                        obs["avg_buy_price"].tolist(),
                        strict=True,
                    )
                },
            },
            "market": self._market(self._tickers, obs["open"], obs.get("indicators", none)),
        }
        if self._macro:
            listed = obs.get("macro_indicators", none)
            state["macro"] = self._market(self._macro, obs["macro_open"], listed)
        return state

    def _market(
        self, tickers: list[str], opens: NDArray[Any], indicators: NDArray[Any]
    ) -> dict[str, dict[str, Any]]:
        return {
            ticker: {
                "open": price,
                "indicators": dict(zip(self._indicators, shown, strict=True)),
            }
            for ticker, price, shown in zip(
                tickers, opens.tolist(), indicators.tolist(), strict=False
            )
        }


def _fills_by_ticker(batch: PortfolioBatch) -> dict[str, dict[str, float]]:
    """Add up the fills of a step: a ticker may have an order, a stop loss and a settlement."""
    found: dict[str, dict[str, float]] = {}
    for _, ticker, price, fee, shares, _ in batch.fills():
        before = found.get(ticker, {"cost": 0.0, "quantity": 0})
        found[ticker] = {
            "fill_price": price,
            "cost": before["cost"] + fee,
            "quantity": before["quantity"] + int(shares),
        }
    return found
