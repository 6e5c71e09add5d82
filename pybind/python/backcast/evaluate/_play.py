"""Plays policies and baselines through ranges of days of the portfolio environment."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from backcast import Panel
from backcast.envs import OrderLimit, PortfolioVectorEnv
from backcast.errors import ArgumentError, ArgumentTypeError
from backcast.evaluate._baselines import Baseline
from backcast.evaluate._folds import Range

Floats = NDArray[np.float64]
# A function of a batch of observations, or an object that predicts as Stable-Baselines3's do.
Policy: TypeAlias = Callable[[Any], Any] | Any

# A power of two, so that `shares / _LARGEST` is exact.
_LARGEST = 2**30
# Closed for longer, a ticker counts as delisted.
_CLOSED_AT_MOST = np.timedelta64(7, "D")
# The default fee of environments, which baselines leave cash for.
_FEE = 0.01
# Settings of what an agent does, sees and risks. Baselines share all others: prices, costs, money.
_OF_POLICIES = {
    "actions",
    "failure_threshold",
    "history",
    "history_length",
    "hmax",
    "indicator_lag",
    "indicators",
    "macro_tickers",
    "margin",
    "max_position",
    "obs",
    "reward",
    "step_info",
    "stop_loss_calculation",
    "stop_loss_day",
    "stop_loss_tolerance",
    "valuation",
}


@dataclass(frozen=True)
class Played:
    """Values of portfolios over one range of days, and what trading cost."""

    values: Floats
    """Values at the closes, ``[runs, days]``."""
    turnover: Floats
    """Value traded over the first value, ``[runs]``."""
    costs: Floats
    """Costs of all kinds in cash, ``[runs]``."""


def play_policy(
    policy: Policy, panel: Panel, days: Range, seeds: list[int], settings: Mapping[str, Any]
) -> Played:
    """Play a policy from the first to the last day of a range."""
    if hasattr(policy, "predict"):
        return _play(_Predicting(policy), panel, days, seeds, settings)
    if not callable(policy):
        raise ArgumentTypeError(
            f"policy is {policy!r:.60}, a {type(policy).__name__}; give a function of a batch of "
            "observations that returns actions, or a model with `predict`"
        )
    return _play(_Calling(policy), panel, days, seeds, settings)


def play_baseline(
    baseline: Baseline, panel: Panel, days: Range, seeds: list[int], settings: Mapping[str, Any]
) -> Played:
    """Play a baseline through the same market, at the same costs."""
    if days[0] < baseline.needs:
        raise ArgumentError(
            f"baseline {baseline.name!r} needs {baseline.needs} bars before a test, and a test "
            f"begins at {days[0]}; test later, give it a shorter lookback, or leave it out with "
            "baselines="
        )
    market = {name: given for name, given in settings.items() if name not in _OF_POLICIES}
    market |= {"hmax": _LARGEST, "failure_threshold": 0.0}
    # Details of a step tell which orders the volume cut, and which lacked the cash of a later sale.
    gaps = not panel.mask[:, days[0] : days[1]].all()
    market["step_info"] = market.get("max_volume") is not None or gaps
    rule = _Rebalancing(baseline, panel, days[0], market)
    return _play(rule, panel, days, seeds, market)


def _play(
    player: _Player, panel: Panel, days: Range, seeds: list[int], settings: Mapping[str, Any]
) -> Played:
    runs, length = len(seeds), days[1] - days[0]
    with _environment(panel, days, runs, settings) as envs:
        obs, _ = envs.reset(seed=seeds, options={"start_day": days[0]})
        player.see(envs)
        begun = np.ones(runs, np.bool_)
        values = np.full((runs, length), np.nan)
        turnover, costs = np.zeros(runs), np.zeros(runs)
        playing = np.ones(runs, np.bool_)
        while playing.any():
            obs, _, terminated, truncated, infos = envs.step(player(obs, begun))
            player.filled(infos)
            ended = terminated | truncated
            begun = ended
            if not ended.any():
                continue
            metrics = envs.metrics_so_far()
            for run in np.flatnonzero(ended & playing):
                value = envs.history(int(run))["value"]
                values[run, : len(value)] = value
                # A portfolio that failed keeps its last value.
                values[run, len(value) :] = value[-1]
                turnover[run], costs[run] = metrics["turnover"][run], metrics["costs"][run]
            playing &= ~ended
            if playing.any():
                # The others go on, and an ended episode cannot be stepped.
                options = {"start_day": days[0], "reset_mask": ended}
                obs, _ = envs.reset(options=options)
    return Played(values, turnover, costs)


class _environment:  # noqa: N801 - a context, as contextlib has them
    """Environment over a range of days that is closed at the end."""

    def __init__(self, panel: Panel, days: Range, runs: int, settings: Mapping[str, Any]) -> None:
        self.envs = PortfolioVectorEnv(
            panel,
            runs,
            **{**settings, "days": days, "record": True, "autoreset_mode": "disabled"},
        )

    def __enter__(self) -> PortfolioVectorEnv:
        return self.envs

    def __exit__(self, *_: object) -> None:
        self.envs.close()


class _Player(ABC):
    """Decides the actions of an episode."""

    @abstractmethod
    def __call__(self, obs: Any, begun: NDArray[np.bool_]) -> Any:  # noqa: ANN401
        """Return actions for observations; `begun` marks the runs whose episode begins."""

    def see(self, envs: PortfolioVectorEnv) -> None:  # noqa: B027 - policies see nothing of it
        """Read the tickers and costs of an environment before its first step."""

    def filled(self, infos: Mapping[str, Any]) -> None:  # noqa: B027 - policies go on without it
        """Read what a step did with the orders."""


class _Calling(_Player):
    """Function of a batch of observations."""

    def __init__(self, policy: Callable[[Any], Any]) -> None:
        self.policy = policy

    def __call__(self, obs: Any, begun: NDArray[np.bool_]) -> Any:  # noqa: ANN401
        return self.policy(obs)


class _Predicting(_Player):
    """Model of Stable-Baselines3: without noise, and with the state of a recurrent one."""

    def __init__(self, model: Any) -> None:  # noqa: ANN401 - of another library
        self.model, self.state = model, None

    def __call__(self, obs: Any, begun: NDArray[np.bool_]) -> Any:  # noqa: ANN401
        actions, self.state = self.model.predict(
            obs, state=self.state, episode_start=begun, deterministic=True
        )
        return actions


class _Rebalancing(_Player):
    """Orders in shares that bring a portfolio to the weights of a baseline.

    They are decided on the open of a day and the closes before it, and filled as other orders. What
    the volume of a bar cuts off is ordered again on the next one. The money of a ticker that is
    closed on the bar of a rebalancing waits for its next bar.
    """

    def __init__(
        self, baseline: Baseline, panel: Panel, first: int, settings: Mapping[str, Any]
    ) -> None:
        self.baseline, self.panel, self.first = baseline, panel, first
        self.settings = settings
        self.price, self.per_share = np.ones(0), np.zeros(0)
        self.closes, self.splits = np.zeros((0, 0)), np.zeros((0, 0))
        self.tradable = np.ones((0, 0), np.bool_)
        # Last closes of a share, and whether a bar lies at most a week before.
        self.last, self.recent = np.zeros((0, 0)), np.zeros((0, 0), np.bool_)
        # Shares to hold, from the last rebalancing on.
        self.target = np.zeros((0, 0))
        # Money for tickers that were closed then; NaN for the others.
        self.money = np.zeros((0, 0))
        # Shares held before the last bar, and ordered on it. Tickers whose orders have not reached
        # their target, and those among them that wait for a bar.
        self.held, self.ordered = np.zeros((0, 0)), np.zeros((0, 0))
        self.pending, self.waiting = np.zeros((0, 0), np.bool_), np.zeros((0, 0), np.bool_)

    def see(self, envs: PortfolioVectorEnv) -> None:
        """Read the closes of the tickers that are traded, and what buying them costs."""
        rows = [self.panel.tickers.index(ticker) for ticker in envs.tickers]
        mask, values = self.panel.mask[rows], self.panel.values[rows]
        close = np.where(mask, values[:, :, self.panel.columns.index("close")], np.nan)
        self.last, self.recent = _filled(close), _recent(mask, self.panel.timestamps)
        paid, split = (self._payments(name, values, mask) for name in ("dividends", "splits"))
        self.splits = np.where(split > 0, split, 1.0)
        # Includes dividends and splits, which the price of one share leaves out.
        earned = np.cumprod(self.splits * np.where(mask, 1 + paid / close, 1.0), axis=1)
        self.closes = _filled(close * earned)
        tradable = self.settings.get("tradable")
        everywhere = np.ones(self.panel.mask.shape, np.bool_)
        if tradable is not None:
            flags = np.asarray(tradable, np.bool_)
            everywhere &= flags[:, None] if flags.ndim == 1 else flags
        self.tradable = everywhere[rows]
        costs = dict(self.settings.get("ticker_costs") or {})
        everyone = self.settings.get("buy_cost_pct", _FEE)
        fees = np.array([costs.get(ticker, (everyone,))[0] for ticker in envs.tickers])
        slippage = self.settings.get("slippage_bps", 0.0) / 10_000
        self.price = (1 + fees) * (1 + slippage)
        self.per_share = (1 + fees) * self.settings.get("slippage_per_share", 0.0)

    def _payments(self, setting: str, values: Floats, mask: NDArray[np.bool_]) -> Floats:
        """Return the column of dividends or of splits that a setting names, 0 without one."""
        name = self.settings.get(setting)
        if name is None:
            return np.zeros(mask.shape)
        return np.where(mask, values[:, :, self.panel.columns.index(name)], 0.0)

    def __call__(self, obs: Any, begun: NDArray[np.bool_]) -> Floats:  # noqa: ANN401
        day = int(obs["day"].max())
        every = self.baseline.every
        passed = day - self.first
        listed = (obs["open"] > 0) & self.tradable[:, day]
        if passed == 0 or (every is not None and passed % every == 0):
            self.target = self._targets(obs, self._weights(day), day)
            self.pending = listed | np.isfinite(self.money)
        else:
            self.target = self._rounded(self.target * self.splits[:, day])
            opened = listed & np.isfinite(self.money)
            self.target = np.where(opened, self._shares(self.money, obs["open"]), self.target)
            self.money = np.where(opened, np.nan, self.money)
        self.held = np.array(obs["shares"], np.float64)
        wanted = np.where(self.pending & listed, self.target - self.held, 0.0)
        self.waiting = self.pending & ~listed
        self.ordered = np.clip(wanted, -_LARGEST, _LARGEST)
        orders: Floats = self.ordered / _LARGEST
        return orders

    def filled(self, infos: Mapping[str, Any]) -> None:
        """Find the orders to go on with: those that the volume cut, or that wait for a bar.

        Purchases that lacked cash because a sale was cut or waits are among them.
        """
        if "limits" not in infos:
            self.pending = self.waiting
            return
        limits = infos["limits"]
        cut = limits == OrderLimit.VOLUME
        sales = (cut & (self.ordered < 0)) | (self.waiting & (self.target < self.held))
        sale_cut = sales.any(axis=1, keepdims=True)
        self.pending = cut | (sale_cut & (limits == OrderLimit.FUNDS)) | self.waiting

    def _weights(self, day: int) -> Floats:
        given = np.asarray(self.baseline.weights(self.closes[:, :day].copy()), np.float64)
        tickers = len(self.closes)
        if given.shape != (tickers,) or not (given >= 0).all() or given.sum() > 1 + 1e-9:
            raise ArgumentError(
                f"baseline {self.baseline.name!r} gave the weights {given}; give {tickers} "
                "numbers from 0 up with a sum of at most 1"
            )
        return given

    def _targets(self, obs: Any, weights: Floats, day: int) -> Floats:  # noqa: ANN401
        """Return the shares to hold, ``[runs, T]``, and set aside the money of closed tickers."""
        opens, shares, cash = obs["open"], obs["shares"], obs["cash"]
        listed = (opens > 0) & self.tradable[:, day]
        closed = (opens <= 0) & self.tradable[:, day] & self.recent[:, day]
        # Weights of tickers that have no bar yet, or none any more, go to the others.
        given = np.where(listed | closed, weights, 0.0)
        total = given.sum(axis=1, keepdims=True)
        given = np.divide(given * weights.sum(), total, where=total > 0, out=np.zeros(opens.shape))
        prices = np.where(opens > 0, opens, np.nan_to_num(self.last[:, max(day - 1, 0)]))
        value = cash + (shares * prices).sum(axis=1, keepdims=True)
        self.money = np.where(closed, given * value, np.nan)
        return np.where(listed | closed, self._shares(given * value, prices), shares)

    def _shares(self, money: Floats, prices: Floats) -> Floats:
        """Return the shares that money buys, after fees and slippage."""
        each = prices * self.price + self.per_share
        return self._rounded(np.divide(money, each, where=each > 0, out=np.zeros(prices.shape)))

    def _rounded(self, shares: Floats) -> Floats:
        rounded: Floats = shares if self.settings.get("fractional") else np.floor(shares)
        return rounded


def _filled(closes: Floats) -> Floats:
    """Fill days without a close with the last one before them; NaN before the first."""
    known = np.where(np.isfinite(closes), np.arange(closes.shape[1]), 0)
    last = np.maximum.accumulate(known, axis=1)
    filled: Floats = np.take_along_axis(closes, last, axis=1)
    return filled


def _recent(mask: NDArray[np.bool_], dates: NDArray[np.datetime64]) -> NDArray[np.bool_]:
    """Return whether a bar lies at most a week before each bar, ``[T, days]``."""
    last = np.maximum.accumulate(np.where(mask, np.arange(mask.shape[1]), -1), axis=1)
    recent: NDArray[np.bool_] = (last >= 0) & (dates - dates[last] <= _CLOSED_AT_MOST)
    return recent
