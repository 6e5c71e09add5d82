"""Market, settings and windows, shared by both environments."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, NoReturn, TypeVar, overload

import numpy as np

from backcast._calls import explained, levels_up
from backcast._copies import Rebuilt
from backcast._counts import count_of, whole_of
from backcast._market import position_of, warn_of_prices
from backcast._native import PortfolioBatch
from backcast.errors import ArgumentTypeError, EnvError
from backcast.finrl._rules import (
    check_window,
    columns_of,
    format_of,
    market_of,
    names_of,
    refuse_parts,
)

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from backcast import Panel
    from backcast._market import PanelLike
    from backcast.finrl._rules import ReturnFormat, State

OHLCV = ("open", "high", "low", "close", "volume")

_OPTIONAL = frozenset(
    ["valuation", "days", "max_episode_steps", "ticker_costs", "tradable", "initial_shares"]
)
"""Settings that may be None."""

_ELSEWHERE = {
    "get_market_window": "get_market_window_numpy([ticker], day, h, future)[ticker] has its days",
    "get_market_window_flat": (
        "get_market_window_numpy([ticker], day, h, future)[ticker] has its days as arrays"
    ),
}
"""Methods of FastFinRL's classes that these classes lack, each with its replacement."""

_NO_SETTINGS = frozenset(
    [
        *["self", "__class__", "csv_path", "panel_options", "tech_indicator_list", "macro_tickers"],
        *["n_envs", "initial_seed", "return_format", "auto_reset"],
    ]
)
"""Names in a constructor that are no settings of portfolios."""

Shown = TypeVar("Shown")
"""A state, in any of its forms."""


class FinRLEnv(Rebuilt, Generic[Shown]):
    """The market of :class:`FastFinRL` and :class:`VecFastFinRL`, and their settings."""

    _batch: PortfolioBatch | None
    _stepped: bool | None
    """Whether the last state was that of a step; None before the first reset."""

    def __init__(
        self,
        source: PanelLike,
        settings: dict[str, Any],
        tech_indicator_list: Sequence[str],
        macro_tickers: Sequence[str],
        return_format: ReturnFormat,
        panel_options: Mapping[str, Any] | None,
    ) -> None:
        for name, value in settings.items():
            if value is None and name not in _OPTIONAL:
                raise ArgumentTypeError(f"{name} is None; give a value, or leave it out")
        indicators = names_of("tech_indicator_list", tech_indicator_list)
        self._macro = names_of("macro_tickers", macro_tickers)
        self._format: Literal["vec", "json"] = format_of(return_format)
        self._panel = market_of(source, self._macro, panel_options)
        self._settings = settings | {
            "indicators": indicators or None,
            "macro_tickers": self._macro,
        }
        # Made to check the settings now, not at the first reset.
        probe = PortfolioBatch(self._panel, 1, self._settings)
        self._indicators = probe.indicators
        self._columns = columns_of(self._indicators, self._panel.columns)
        self._rows = probe.rows
        self._lag = int(settings["indicator_lag"])
        warn_of_prices(probe)
        amount, threshold = self.initial_amount, self.failure_threshold
        most = probe.most_at_start
        if threshold >= most:
            held = "" if most == amount else f", with initial_shares {most:g} at most"
            warnings.warn(
                f"failure_threshold is {threshold:g} and initial_amount {amount:g}{held}: every "
                "step is done that does not end above the threshold; give a lower one, or 0 for "
                "none",
                UserWarning,
                stacklevel=levels_up(),
            )

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            """Raise an error that names what replaces a method of FastFinRL's classes."""
            hint = f"; {_ELSEWHERE[name]}" if name in _ELSEWHERE else ""
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}")

    @property
    def panel(self) -> Panel:
        """Panel of the market; other processes can attach to it by name."""
        return self._panel

    @property
    def days(self) -> tuple[int, int]:
        """First day of the environment, and one past the last."""
        start, end = self._settings["days"] or (0, self._panel.n_days)
        return position_of(self._panel, start), position_of(self._panel, end)

    @property
    def initial_amount(self) -> float:
        """Cash at the start of an episode."""
        return float(self._settings["initial_amount"])

    @property
    def failure_threshold(self) -> float:
        """The value at or below which an episode is terminated."""
        return float(self._settings["failure_threshold"])

    @property
    def hmax(self) -> int:
        """Shares traded by an action of 1."""
        return int(self._settings["hmax"])

    @property
    def buy_cost_pct(self) -> float:
        """Fee of a purchase, as a fraction of its value."""
        return float(self._settings["buy_cost_pct"])

    @property
    def sell_cost_pct(self) -> float:
        """Fee of a sale, as a fraction of its value."""
        return float(self._settings["sell_cost_pct"])

    @property
    def stop_loss_tolerance(self) -> float:
        """The fraction of the average price paid below which a holding is sold."""
        return float(self._settings["stop_loss_tolerance"])

    @property
    def stop_loss_calculation(self) -> str:
        """The price that a stop loss compares."""
        return str(self._settings["stop_loss_calculation"])

    @property
    def bidding(self) -> str:
        """The rule that sets the prices of orders."""
        return str(self._settings["bidding"])

    @property
    def indicator_lag(self) -> int:
        """Days by which indicators are older than the opening prices beside them."""
        return self._lag

    def get_return_format(self) -> Literal["vec", "json"]:
        """Return the form of states.

        Returns
        -------
        str
        """
        return self._format

    @explained
    def set_return_format(self, format: ReturnFormat) -> None:
        """Return states in another form from now on.

        Parameters
        ----------
        format : {"vec", "json"}
            Arrays, or nested dicts and lists.

        Raises
        ------
        EnvError
            If ``format`` is neither.
        """
        self._format = format_of(format)

    def get_state(self) -> Shown:
        """Show the last state again.

        Returns
        -------
        dict or list of dict
            The state that ``reset`` or ``step`` returned last, in new arrays, without changes that
            a caller made to it.

        Raises
        ------
        EnvError
            Before the first reset.
        """
        if self._stepped is None or self._batch is None:
            raise EnvError("there is no state yet; call reset first")
        *shown, infos = self._batch.shown()
        return self._show_again(*shown, infos if self._stepped else {})

    def _show_again(self, *step: Any) -> Shown:  # noqa: ANN401
        raise NotImplementedError

    def get_all_tickers(self) -> list[str]:
        """Name every ticker of the market, macro tickers included, sorted.

        Returns
        -------
        list of str
        """
        return list(self._panel.tickers)

    def get_macro_tickers(self) -> list[str]:
        """Name the macro tickers, in the order they are shown in.

        Returns
        -------
        list of str
        """
        return list(self._macro)

    def get_indicator_names(self) -> list[str]:
        """Name the indicators, in the order that all states and windows use.

        Returns
        -------
        list of str
            In the order of ``tech_indicator_list``, else of the file.
        """
        return list(self._indicators)

    def n_indicators(self) -> int:
        """Count the indicators.

        Returns
        -------
        int
            ``K``.
        """
        return len(self._indicators)

    def n_macro(self) -> int:
        """Count the macro tickers.

        Returns
        -------
        int
            ``M``.
        """
        return len(self._macro)

    def get_max_day(self) -> int:
        """Count the days of the market.

        Returns
        -------
        int
            ``D``; days are numbered from 0 to ``D - 1``.
        """
        return self._panel.n_days

    @explained
    def get_raw_value(self, ticker: str, day: int, column: str) -> float:
        """Look up one number.

        Parameters
        ----------
        ticker : str
            Any ticker of the market.
        day : int
            From 0.
        column : str
            ``open``, ``high``, ``low``, ``close``, ``volume`` or an indicator.

        Returns
        -------
        float

        Raises
        ------
        EnvError
            If there is no such ticker, column or day, or no row of that ticker on that day.
        """
        if not isinstance(ticker, str):
            raise ArgumentTypeError(f"ticker is {ticker!r}; give its name, a str")
        columns = list(self._panel.columns)
        if column not in columns:
            raise EnvError(f"column is {column!r}; give one of {', '.join(columns)}")
        day = self._day(day)
        values, listed = self._rows([ticker], day, 1)
        if not listed[0, 0]:
            raise EnvError(
                f'"{ticker}" has no row on day {day}; choose a day on which it is listed'
            )
        return float(values[0, 0, columns.index(column)])

    @overload
    def get_market_window_numpy(
        self, ticker_list: Sequence[str], day: int, h: int, future: int = 0
    ) -> State: ...
    @overload
    def get_market_window_numpy(
        self,
        ticker_list: ArrayLike,
        day: Sequence[Sequence[str]],
        h: int,
        future: int = 0,
    ) -> list[State]: ...
    @explained
    def get_market_window_numpy(
        self,
        ticker_list: Any,
        day: Any,
        h: int,
        future: int = 0,
    ) -> State | list[State]:
        """Return the market's rows on the days around a day.

        Parameters
        ----------
        ticker_list : sequence of str
            Tickers to show. For several windows: their days, int ``[N]``; `day` then holds a list
            of tickers for each, and the result is a list.
        day : int
            The day in the middle, from 0 to ``D - 1``.
        h : int
            Days before it.
        future : int, default 0
            Days after it.

        Returns
        -------
        dict or list of dict
            By ticker: ``past_ohlcv`` float64 ``[h, 5]``, ``past_indicators`` float64 ``[h, K]``,
            ``past_mask`` and ``past_days`` int32 ``[h]`` of day-h to day-1; ``current_open``,
            ``current_indicators`` float64 ``[K]``, ``current_mask`` and ``current_day``;
            ``future_*`` of day+1 to day+future. Without a row, and in the future from the end of
            the environment's ``days`` on: zeros, mask 0, day -1. Besides the tickers
            ``indicator_names``, ``h`` and ``future``.

        Raises
        ------
        EnvError
            If there is no such ticker or day, the window is too long, days and lists of tickers
            differ in number, or a ticker has the name of a part of the result:
            ``indicator_names``, ``h`` or ``future``.

        Notes
        -----
        The current indicators are as old as those of observations: ``indicator_lag`` days.
        """
        h, future = count_of(h, "h", 0, EnvError), count_of(future, "future", 0, EnvError)
        if isinstance(ticker_list, Sequence) and all(isinstance(t, str) for t in ticker_list):
            return self._window(names_of("ticker_list", ticker_list), self._day(day), h, future)
        try:
            days = np.asarray(ticker_list)
        except ValueError:
            # Ragged lists make no array.
            days = np.zeros(())
        if days.ndim != 1 or days.dtype.kind not in "iu":
            raise ArgumentTypeError(
                f"ticker_list is {ticker_list!r}; give names, or the days of several windows"
            )
        lists = isinstance(day, Sequence) or (isinstance(day, np.ndarray) and day.ndim > 0)
        if not lists or isinstance(day, str) or len(day) != len(days):
            raise EnvError(f"day is {day!r}; give a list of tickers for each of {len(days)} days")
        return [
            self._window(names_of("a list of tickers", tickers), self._day(of), h, future)
            for of, tickers in zip(days.tolist(), day, strict=True)
        ]

    def _window(self, tickers: list[str], day: int, h: int, future: int) -> State:
        check_window(h, "h", self._panel, EnvError)
        check_window(future, "future", self._panel, EnvError)
        refuse_parts(tickers, EnvError)
        names = list(dict.fromkeys(tickers))
        values, listed = self._rows(names, day - h, h + 1 + future)
        shown, shown_listed = self._rows(names, day - self._lag, 1)
        days = np.arange(day - h, day + future + 1, dtype=np.int32)
        beyond = days >= max(self.days[1], day + 1)
        values[:, beyond], listed[:, beyond] = 0, False
        window: State = {}
        for at, name in enumerate(names):
            rows, there = values[at], listed[at]
            mask = there.astype(np.int32)
            where = np.where(there, days, np.int32(-1))
            window[name] = {
                **_part("past", rows[:h], mask[:h], where[:h], self._columns),
                "current_open": float(rows[h, 0]),
                "current_indicators": shown[at, 0, self._columns] * shown_listed[at, 0],
                "current_mask": int(mask[h]),
                "current_day": int(where[h]),
                **_part("future", rows[h + 1 :], mask[h + 1 :], where[h + 1 :], self._columns),
            }
        window["indicator_names"] = list(self._indicators)
        window["h"], window["future"] = h, future
        return window

    def _day(self, day: Any) -> int:  # noqa: ANN401
        last = self._panel.n_days - 1
        number = whole_of(day, "day", f"a whole number from 0 to {last}")
        if not 0 <= number <= last:
            raise EnvError(f"day is {number}; give one from 0 to {last}")
        return number


def _part(
    name: str,
    rows: NDArray[np.float64],
    mask: NDArray[np.int32],
    days: NDArray[np.int32],
    columns: NDArray[np.intp],
) -> State:
    return {
        f"{name}_ohlcv": rows[:, : len(OHLCV)].copy(),
        f"{name}_indicators": rows[:, columns],
        f"{name}_mask": mask.copy(),
        f"{name}_days": days.copy(),
    }


def settings_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of portfolios among the arguments of a constructor.

    `given`: ``locals()`` at its start.
    """
    return {name: value for name, value in given.items() if name not in _NO_SETTINGS}
