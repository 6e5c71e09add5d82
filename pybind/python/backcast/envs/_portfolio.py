"""Base of the single and the vector portfolio environment: spaces, pictures, names."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from backcast._calls import refuse_unknown
from backcast._copies import Rebuilt
from backcast._market import PanelLike, open_panel, warn_of_prices
from backcast._native import PortfolioBatch
from backcast.envs._limit import step_limit
from backcast.envs._portfolio_rules import plain_settings, rewards_of
from backcast.envs._portfolio_settings import PortfolioSettings
from backcast.errors import EnvError, MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, NDArray

ObsForm = Literal["dict", "flat"]

# Every number of a panel fits float32, so these bounds are true, and finite ones keep Gymnasium's
# checkers silent. They do not depend on the data: spaces are equal on different panels.
_LARGEST = float(np.finfo(np.float32).max)
_MOST = int(np.iinfo(np.int32).max)


class PortfolioFace(Rebuilt):
    """Members that the single and the vector environment have in common."""

    _batch: PortfolioBatch
    _reward: Any = None

    def _open(
        self,
        panel: PanelLike,
        num_envs: int | None,
        settings: PortfolioSettings,
        *ours: str,
        obs: ObsForm,
        mode: AutoresetMode,
        reuse: bool,
        panel_options: Mapping[str, Any] | None,
        render_mode: str | None,
    ) -> None:
        """Make the Rust object. `ours` are the constructor's arguments that are no settings."""
        known = ["panel", *ours, "obs", "panel_options", "render_mode"]
        refuse_unknown(type(self).__name__, settings, [*known, *PortfolioSettings.__annotations__])
        settings["max_episode_steps"] = step_limit(self, settings.get("max_episode_steps"))
        if obs not in ("dict", "flat"):
            raise EnvError(f'obs is {obs!r}; write "dict" or "flat"')
        check_render_mode(render_mode)
        plain, self._reward = plain_settings(dict(settings))
        given: dict[str, Any] = {**plain, "autoreset_mode": word_of(mode)}
        if render_mode is not None:
            given["record"] = True
        opened = open_panel(panel, panel_options)
        self._batch = PortfolioBatch(
            opened, num_envs, given, flat=obs == "flat", reuse=reuse, unit_axis=True
        )
        warn_of_prices(self._batch)
        self._action_kind = given.get("actions") or "shares"
        self._short = "Margin.initial" in given
        self._fractional = bool(given.get("fractional"))

    def _step(self, actions: ArrayLike) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step, and let a reward of the caller replace the rewards."""
        result = self._batch.step(actions)
        if self._reward is None:
            return result
        rewards = rewards_of(self._reward, self._batch)
        if self._batch.num_envs is None:
            rewards = float(rewards[0])
        obs, _, terminated, truncated, infos = result
        return obs, rewards, terminated, truncated, infos

    def _spaces(self, obs: ObsForm) -> tuple[spaces.Space[Any], spaces.Space[Any]]:
        """Return the spaces of one environment's observations and actions."""
        observations = observation_space(
            self._batch, obs, short=self._short, fractional=self._fractional
        )
        return observations, action_space(self._batch, self._action_kind)

    def __repr__(self) -> str:
        """Show sizes, mode, days and state."""
        return f"<backcast.envs.{type(self).__name__}: {self._batch}>"

    def __str__(self) -> str:
        """Show the same; Gymnasium's base classes show the class only."""
        return repr(self)

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
    history, before = batch.history(i), False
    if len(history["day"]) == 1:
        with contextlib.suppress(EnvError):
            history, before = batch.history(i, before=True), True
    return frame(history, batch.held_units(i, before), f"portfolio {i}")


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


def observation_space(
    batch: PortfolioBatch, obs: ObsForm, *, short: bool = False, fractional: bool = False
) -> spaces.Space[Any]:
    """Return the space of one environment's observations.

    `short` lets shares, cash and value be negative, and `fractional` makes shares float64.
    """
    least = -_LARGEST if short else 0.0
    held: Any = np.float64 if fractional else np.int32
    tickers, indicators = len(batch.tickers), len(batch.indicators)
    parts: dict[str, spaces.Space[Any]] = {
        "avg_buy_price": _money(tickers),
        # Every leaf has an axis: learners build their first layer from its length.
        "cash": spaces.Box(least, _LARGEST, (1,), np.float64),
        "day": spaces.Box(0, _MOST, (1,), np.int32),
        "open": _money(tickers),
        "shares": spaces.Box(-_MOST if short else 0, _MOST, (tickers,), held),
        "total_asset": spaces.Box(least, _LARGEST, (1,), np.float64),
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


def action_space(batch: PortfolioBatch, kind: str = "shares") -> spaces.Space[Any]:
    """Return the space of one environment's actions."""
    low, high = batch.action_range
    if kind == "discrete":
        return spaces.MultiDiscrete([int(high) + 1] * len(batch.tickers))
    return spaces.Box(low, high, (len(batch.tickers),), np.float32)


def _money(*shape: int) -> spaces.Box:
    return spaces.Box(0.0, _LARGEST, shape, np.float64)
