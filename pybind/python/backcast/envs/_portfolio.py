"""Settings and spaces shared by the single and the vector portfolio environment."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from backcast._market import warn_of_prices
from backcast._native import PortfolioBatch
from backcast.errors import EnvError, MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from backcast import Panel

ObsForm = Literal["dict", "flat"]
Bidding = Literal["default", "deterministic", "uniform", "adv_uniform"]
StopLossPrice = Literal["close", "low"]
StopLossDay = Literal["same", "next", "same_always"]
Valuation = Literal["open", "close"]
Delisting = Literal["settle", "hold"]

# Every number of a panel fits float32, so these bounds are true, and finite ones keep Gymnasium's
# checkers silent. They do not depend on the data: spaces are equal on different panels.
_LARGEST = float(np.finfo(np.float32).max)
_MOST = int(np.iinfo(np.int32).max)


class Settings(TypedDict):
    """Market settings by name, the same in both environments and in Rust."""

    initial_amount: float
    failure_threshold: float
    hmax: int
    buy_cost_pct: float
    sell_cost_pct: float
    ticker_costs: Mapping[str, tuple[float, float]] | None
    fixed_fee: float
    slippage_bps: float
    bidding: Bidding
    stop_loss_tolerance: float
    stop_loss_calculation: StopLossPrice
    stop_loss_day: StopLossDay
    tickers: Sequence[str] | None
    tradable: ArrayLike | None
    delisting: Delisting
    initial_shares: Mapping[str, int] | None
    indicators: Sequence[str] | None
    macro_tickers: Sequence[str]
    days: tuple[int, int] | list[int] | None
    indicator_lag: int
    valuation: Valuation | None
    history: int
    history_length: int
    max_episode_steps: int | None
    record: bool


def portfolios(
    panel: Panel,
    num_envs: int | None,
    settings: Settings,
    *,
    obs: ObsForm,
    mode: AutoresetMode,
    reuse: bool,
    render_mode: str | None,
) -> PortfolioBatch:
    """Make the Rust object of an environment."""
    if obs not in ("dict", "flat"):
        raise EnvError(f'obs is {obs!r}; write "dict" or "flat"')
    check_render_mode(render_mode)
    given: dict[str, Any] = {**settings, "autoreset_mode": word_of(mode)}
    given["record"] = settings["record"] or render_mode is not None
    batch = PortfolioBatch(panel, num_envs, given, flat=obs == "flat", reuse=reuse, unit_axis=True)
    warn_of_prices(batch)
    return batch


def check_render_mode(mode: str | None) -> str | None:
    """Refuse render modes that do not exist."""
    if mode not in (None, "rgb_array"):
        raise EnvError(f'render_mode is {mode!r}; write "rgb_array", or leave it None')
    return mode


def picture(batch: PortfolioBatch, i: int) -> NDArray[np.uint8]:
    """Draw the running episode of a portfolio, or the previous one if it has only just begun."""
    try:
        from backcast.plot._episode import frame
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "matplotlib":
            raise
        raise MissingExtraError(
            "environments draw with matplotlib, which is not installed; "
            "run `pip install 'backcast[plot]'`"
        ) from error
    history = batch.history(i)
    if len(history["day"]) == 1:
        with contextlib.suppress(EnvError):
            history = batch.history(i, before=True)
    return frame(history, f"portfolio {i}")


def mode_of(mode: str | AutoresetMode) -> AutoresetMode:
    """Read an autoreset mode: Gymnasium's enum, its values, or the words of writers."""
    if isinstance(mode, AutoresetMode):
        return mode
    for known in AutoresetMode:
        if mode in (known.value, word_of(known)):
            return known
    words = ", ".join(f'"{word_of(known)}"' for known in AutoresetMode)
    raise EnvError(
        f"autoreset_mode is {mode!r}; write {words}, or give a gymnasium.vector.AutoresetMode"
    )


def word_of(mode: AutoresetMode) -> Literal["next_step", "same_step", "disabled"]:
    """Name a mode as writers do."""
    words: dict[AutoresetMode, Literal["next_step", "same_step", "disabled"]] = {
        AutoresetMode.NEXT_STEP: "next_step",
        AutoresetMode.SAME_STEP: "same_step",
        AutoresetMode.DISABLED: "disabled",
    }
    return words[mode]


def observation_space(batch: PortfolioBatch, obs: ObsForm) -> spaces.Space[Any]:
    """Return the space of one environment's observations."""
    tickers, indicators = len(batch.tickers), len(batch.indicators)
    parts: dict[str, spaces.Space[Any]] = {
        "avg_buy_price": _money(tickers),
        # Every leaf has an axis: learners build their first layer from its length.
        "cash": _money(1),
        "day": spaces.Box(0, _MOST, (1,), np.int32),
        "open": _money(tickers),
        "shares": spaces.Box(0, _MOST, (tickers,), np.int32),
        "total_asset": _money(1),
    }
    if indicators > 0:
        shape = (tickers, indicators)
        parts["indicators"] = spaces.Box(-_LARGEST, _LARGEST, shape, np.float64)
    macros = len(batch.macro_tickers)
    history, rows, columns = batch.history_shape
    if history > 0:
        window = (rows, history, columns)
        parts["history"] = spaces.Box(-_LARGEST, _LARGEST, window, np.float32)
        parts["history_mask"] = spaces.Box(0, 1, (rows, history), np.bool_)
    if macros > 0:
        # A macro ticker such as an index can have any value, and a spread can be negative.
        parts["macro_open"] = spaces.Box(-_LARGEST, _LARGEST, (macros,), np.float64)
    if macros > 0 and indicators > 0:
        width = (macros, indicators)
        parts["macro_indicators"] = spaces.Box(-_LARGEST, _LARGEST, width, np.float64)
    nested = spaces.Dict(parts)
    if obs == "dict":
        return nested
    flat = spaces.flatten_space(nested)
    assert isinstance(flat, spaces.Box)
    return spaces.Box(flat.low.astype(np.float32), flat.high.astype(np.float32), dtype=np.float32)


def action_space(batch: PortfolioBatch) -> spaces.Box:
    """Return the space of one environment's actions."""
    return spaces.Box(-1.0, 1.0, (len(batch.tickers),), np.float32)


def _money(*shape: int) -> spaces.Box:
    return spaces.Box(0.0, _LARGEST, shape, np.float64)
