"""Base of the single and the vector trading environment: spaces, masks, books, pictures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from backcast._calls import explained
from backcast._copies import Rebuilt
from backcast._native import TradingBatch, _deep_copy
from backcast.envs._trading_settings import refuse_unused
from backcast.errors import EnvError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

RENDER_MODES = ["ansi", "rgb_array"]


@dataclass(frozen=True, slots=True)
class TradingFeature:
    """One entry of an observation.

    Parameters
    ----------
    symbol : int
        Symbol that the entry describes.
    name : str
        Name.
    unit : str
        Unit.
    low, high : float
        Bounds; values beyond are clipped.
    """

    symbol: int
    name: str
    unit: str
    low: float
    high: float


def trading_batch(
    num_envs: int | None,
    settings: Mapping[str, Any],
    *,
    agents: Any,  # noqa: ANN401
    render_mode: str | None,
    **how: Any,  # noqa: ANN401
) -> TradingBatch:
    """Make the Rust object of an environment."""
    check_render_mode(render_mode)
    refuse_unused(settings, settings)
    given = {**settings, "agents": agents}
    return TradingBatch(num_envs, given, trails=render_mode is not None, **how)


def own_agents(agents: Iterable[Any] | None) -> Any:  # noqa: ANN401
    """Return copies of the user's agents, which those of the caller do not change."""
    return [_deep_copy(agent) for agent in agents] if isinstance(agents, Iterable) else agents


def seed_generator(env: Any, base: Any, seed: int | None) -> None:  # noqa: ANN401
    """Seed `np_random` of an environment as the first reset with this seed would."""
    if seed is not None:
        base.reset(env, seed=int(seed))


def check_render_mode(render_mode: str | None) -> None:
    """Refuse an unknown form of pictures."""
    if render_mode not in (None, *RENDER_MODES):
        words = " or ".join(f'"{mode}"' for mode in RENDER_MODES)
        raise EnvError(f"render_mode is {render_mode!r}; write {words}, or leave it None")


def observation_space(features: list[tuple[int, str, str, float, float]]) -> spaces.Box:
    """Return the space of one agent's observations: finite bounds of every feature."""
    low, high = (np.array([entry[at] for entry in features], np.float32) for at in (3, 4))
    return spaces.Box(low, high, dtype=np.float32)


def action_space(
    symbols: int,
    choices: int | None,
    length: int,
    low: float,
    high: float,
    commands: tuple[list[int], list[int]] | None,
) -> spaces.Space[Any]:
    """Return the space of one agent's actions."""
    if commands is not None:
        shape, highest = commands
        bounds = np.broadcast_to(np.array(highest, np.int64), shape)
        return spaces.Box(np.zeros(shape, np.int64), bounds, dtype=np.int64)
    if choices is None:
        return spaces.Box(low, high, (length,), np.float32)
    if symbols == 1:
        return spaces.Discrete(choices)
    return spaces.MultiDiscrete([choices] * symbols)


class TradingFace(Rebuilt):
    """Members that the single and the vector environment have in common."""

    _batch: TradingBatch

    def __repr__(self) -> str:
        """Show sizes, actions, mode and state."""
        return f"<backcast.envs.{type(self).__name__}: {self._batch}>"

    def __str__(self) -> str:
        """Show the same; Gymnasium's base classes show the class only."""
        return repr(self)

    @property
    def features(self) -> list[TradingFeature]:
        """The entries of an observation, in order: symbol, name, unit, lowest and highest value."""
        return [TradingFeature(*entry) for entry in self._batch.features]

    def action_masks(self) -> NDArray[np.bool_]:
        """Return a mask of the choices of a discrete action that limits, cash and margin allow.

        With ``"discrete_target"`` only a target whose limit is 0 is masked: the short one with
        ``allow_short=False``, which trades to flat as 1 does.

        Returns
        -------
        ndarray
            bool ``[S * choices]``, with a leading axis ``N`` in a vector environment.

        Raises
        ------
        EnvError
            If actions are continuous or commands: ``"target"``, ``"order_size"``, ``"quotes"`` and
            ``"limit_orders"``.
        """
        return self._batch.action_masks()

    def metrics_so_far(self) -> dict[str, Any]:
        """Return the metrics of the running episodes so far, even if a wrapper cuts them.

        Returns
        -------
        dict
            Entries of ``infos["metrics"]``, up to the last step. An episode that has ended keeps
            its metrics until the next reset.

        Raises
        ------
        EnvError
            Before the first reset.
        """
        return self._batch.metrics_so_far()

    @explained
    def book(
        self, i: int = 0, symbol: int = 0, levels: int = 10
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the current order book.

        Parameters
        ----------
        i : int, default 0
            Environment.
        symbol : int, default 0
            Symbol.
        levels : int, default 10
            Maximum number of price levels of each side.

        Returns
        -------
        (ndarray, ndarray)
            Bids and asks from the touch outwards, float64 ``[levels, 2]``: price in currency units,
            and shares.

        Raises
        ------
        EnvError
            If there is no such environment or symbol.
        """
        return self._batch.book(i, symbol, levels)
