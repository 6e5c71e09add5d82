"""Options of portfolio environments that are objects: actions, margin, rewards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from backcast.errors import ArgumentTypeError, EnvError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from backcast._native import PortfolioBatch


@dataclass(frozen=True)
class Weights:
    """Actions are weights of the equity, which is taken at the close before the orders.

    Weights whose absolute values sum up to more than `leverage` are scaled to that sum. What is
    left is cash. Without a margin each weight is in ``[0, 1]``, else in
    ``[-leverage, leverage]``.

    Parameters
    ----------
    leverage : float, default 1
        Largest sum of the absolute weights: at most 1 without a margin, and at most
        ``1 / Margin.initial`` with one.
    """

    leverage: float = 1.0


@dataclass(frozen=True)
class Discrete:
    """Actions are positions in `choices`, one for each ticker.

    Parameters
    ----------
    choices : sequence of float, default (-1, 0, 1)
        Fractions of ``hmax`` from -1 to 1, each once, 2 to 255 of them: an order of that many
        shares. By default sell, hold and buy.
    """

    choices: tuple[float, ...] = (-1.0, 0.0, 1.0)

    def __init__(self, choices: Sequence[float] = (-1.0, 0.0, 1.0)) -> None:
        if isinstance(choices, str | bytes) or not hasattr(choices, "__iter__"):
            raise ArgumentTypeError(
                f"choices is {choices!r}; give fractions of hmax, such as (-1, 0, 1)"
            )
        object.__setattr__(self, "choices", tuple(choices))


@dataclass(frozen=True)
class Margin:
    """Terms on which a portfolio may be short, and may owe cash.

    Parameters
    ----------
    initial : float, default 0.5
        Smallest equity after an order that opens a position, as a fraction of the value of all
        positions, in ``(0, 1]``. 0.5 allows positions of twice the equity.
    maintenance : float, default 0.25
        Smallest such fraction after the orders of a bar, from 0 to `initial`. Below it every
        position is closed.
    borrow_rate : float, default 0
        Fee for short positions, as a fraction of their value a year.
    loan_rate : float, default 0
        Interest on cash owed, as a fraction a year.
    """

    initial: float = 0.5
    maintenance: float = 0.25
    borrow_rate: float = 0.0
    loan_rate: float = 0.0


@dataclass(frozen=True)
class DifferentialSharpe:
    """Reward: the differential Sharpe ratio (Moody and Saffell, NIPS 1998).

    Parameters
    ----------
    rate : float, default 0.01
        Weight of the newest return in the moving moments, in ``(0, 1)``.
    """

    rate: float = 0.01


@dataclass(frozen=True)
class Drawdown:
    """Reward: the log return, less what the step adds to the maximum drawdown of the episode.

    Parameters
    ----------
    weight : float, default 1
        Factor of the drawdown, at least 0.
    """

    weight: float = 1.0


@dataclass(frozen=True)
class Excess:
    """Reward: the log return less that of a ticker, with dividends and splits that are named.

    Parameters
    ----------
    ticker : str
        Ticker of the panel, which may be a macro ticker.
    """

    ticker: str


class OrderLimit(IntEnum):
    """Rule that cut an order, in ``infos["limits"]``; the last one if several did."""

    NONE = 0
    """The order was filled in full."""
    LISTING = 1
    """The ticker has no row on the day, or may not be traded."""
    HOLDING = 2
    """More was to be sold than is held, or a position would exceed 2,147,483,647 units."""
    POSITION = 3
    """``max_position``."""
    VOLUME = 4
    """``max_volume``."""
    FUNDS = 5
    """The cash, or with a margin the equity."""
    PRICE = 6
    """There is no positive price, or no volume to compute the impact from."""


@dataclass(frozen=True, eq=False)
class PortfolioStep:
    """One step of all portfolios: the argument of a reward of your own. Arrays are ``[N]``.

    Parameters
    ----------
    value_before : ndarray of float64
        Value at the close before the orders.
    value : ndarray of float64
        Value at the close of the next day, of the same episode.
    costs : ndarray of float64
        Fees, slippage, impact, borrowing and interest of the step.
    traded : ndarray of float64
        Value of all purchases and sales.
    first : ndarray of bool
        Whether this is the first step of an episode.
    acted : ndarray of bool
        False where the step only began an episode: the other fields mean nothing there, and the
        reward is 0.
    terminated, truncated : ndarray of bool
        Flags of the step.
    """

    value_before: NDArray[np.float64]
    value: NDArray[np.float64]
    costs: NDArray[np.float64]
    traded: NDArray[np.float64]
    first: NDArray[np.bool_]
    acted: NDArray[np.bool_]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]


Actions: TypeAlias = Literal["shares", "weights", "discrete"] | Weights | Discrete
Reward: TypeAlias = (
    Literal["log_return", "pnl", "differential_sharpe", "drawdown"]
    | DifferentialSharpe
    | Drawdown
    | Excess
    | Callable[[PortfolioStep], ArrayLike]
)

_WORDS: dict[type, str] = {
    Weights: "weights",
    Discrete: "discrete",
    DifferentialSharpe: "differential_sharpe",
    Drawdown: "drawdown",
    Excess: "excess",
}
_KINDS = {"actions": (Weights, Discrete), "reward": (DifferentialSharpe, Drawdown, Excess)}


def plain_settings(settings: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """Return settings without objects, and the reward if it is a function.

    The fields of an object are settings that are named after it, such as ``Margin.initial``.
    """
    plain, reward = dict(settings), None
    if callable(plain.get("reward")) and not isinstance(plain["reward"], type):
        reward = plain.pop("reward")
    for name, kinds in _KINDS.items():
        given = plain.get(name)
        if isinstance(given, kinds):
            plain[name] = _WORDS[type(given)]
            plain |= _fields(given)
        elif given is not None and not isinstance(given, str):
            objects = ", ".join(f"{kind.__name__}(...)" for kind in kinds)
            more = ", or a function of a PortfolioStep" if name == "reward" else ""
            raise ArgumentTypeError(f"{name} is {given!r}; give a word, or one of {objects}{more}")
    margin = plain.pop("margin", None)
    if isinstance(margin, Margin):
        plain |= _fields(margin)
    elif margin is not None:
        raise ArgumentTypeError(f"margin is {margin!r}; give backcast.envs.Margin(...), or None")
    return plain, reward


def _fields(given: Any) -> dict[str, Any]:  # noqa: ANN401
    name = type(given).__name__
    return {f"{name}.{field.name}": getattr(given, field.name) for field in fields(given)}


def rewards_of(reward: Callable[[PortfolioStep], ArrayLike], batch: PortfolioBatch) -> Any:  # noqa: ANN401
    """Return what a reward of the caller gives for the last step, ``[N]``."""
    step = PortfolioStep(**batch.steps())
    given = np.asarray(reward(step))
    if given.dtype.kind not in "fiu" or given.shape != step.acted.shape:
        raise EnvError(
            f"the reward returned {given.dtype} of shape {given.shape}; return numbers of shape "
            f"{step.acted.shape}, one per portfolio. The step was taken: its results are lost"
        )
    rewards = np.where(step.acted, given, 0.0).astype(np.float64, copy=False)
    if not np.isfinite(rewards).all():
        at = int(np.flatnonzero(~np.isfinite(rewards))[0])
        raise EnvError(
            f"the reward of portfolio {at} is {rewards[at]}; return finite numbers. The step was "
            "taken: its results are lost"
        )
    return rewards
