"""Several agents in one market, as PettingZoo's ``ParallelEnv`` around one Rust object."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

from backcast._calls import explained
from backcast._copies import Rebuilt
from backcast._native import SharedMarket
from backcast.envs._trading import (
    RENDER_MODES,
    TradingFeature,
    action_space,
    observation_space,
    own_agents,
)
from backcast.envs._trading_settings import unshared

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import ArrayLike, NDArray


class ParallelTradingEnv(Rebuilt, ParallelEnv):
    """Several agents that trade in one simulated market, in PettingZoo's parallel API.

    :func:`backcast.envs.parallel_trading_env` makes it and describes it.

    Parameters
    ----------
    agents : dict of str to dict
        Settings of each agent by its name, none left out.
    settings : dict
        Settings of the market and its episodes.
    render_mode : {"ansi", "rgb_array"}, optional
        Form of the pictures that :meth:`render` draws.
    background : iterable, optional
        Agents of the user in the background of the market.

    Attributes
    ----------
    possible_agents, agents : list of str
        Names of all agents, and of those that act in the next step.
    state_space : Box
        Space of :meth:`state`.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012
        "name": "backcast_parallel_trading_v0",
        "render_modes": RENDER_MODES,
        "render_fps": 30,
        "is_parallelizable": True,
    }

    def __init__(
        self,
        agents: Mapping[str, Mapping[str, Any]],
        settings: Mapping[str, Any],
        render_mode: str | None = None,
        background: Iterable[Any] = (),
    ) -> None:
        background = own_agents(background)
        own = {name: dict(chosen) for name, chosen in agents.items()}
        given = {**settings, "background": background}
        self._market = SharedMarket(own, given, trails=render_mode is not None)
        self.render_mode = render_mode
        self.possible_agents = list(own)
        self.agents: list[str] = []
        features = self._market.features
        symbols = self._market.symbols
        # One space object an agent, since each has a random generator of its own.
        self._observation_spaces = {name: observation_space(features) for name in own}
        self._action_spaces = {
            name: action_space(symbols, *self._market.action_form(name)) for name in own
        }
        self.state_space = observation_space(features * len(own))
        self._rebuild = partial(type(self), agents, unshared(settings), render_mode, background)

    def __repr__(self) -> str:
        """Show agents, symbols and state."""
        return f"<backcast.envs.{type(self).__name__}: {self._market}>"

    def __str__(self) -> str:
        """Show the same; Gymnasium's base classes show the class only."""
        return repr(self)

    @property
    def features(self) -> list[TradingFeature]:
        """The entries of an observation, in order: symbol, name, unit, lowest and highest value."""
        return [TradingFeature(*entry) for entry in self._market.features]

    def observation_space(self, agent: str) -> spaces.Box:
        """Return the space of an agent's observations, the same object every time.

        Parameters
        ----------
        agent : str
            One of ``possible_agents``.

        Returns
        -------
        Box

        Raises
        ------
        EnvError
            If there is no such agent.
        """
        return self._observation_spaces[self._known(agent)]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """Return the space of an agent's actions, the same object every time.

        Parameters
        ----------
        agent : str
            One of ``possible_agents``.

        Returns
        -------
        Discrete, MultiDiscrete or Box

        Raises
        ------
        EnvError
            If there is no such agent.
        """
        return self._action_spaces[self._known(agent)]

    def _known(self, agent: str) -> str:
        if agent not in self._action_spaces:
            # Raises the native error for an unknown agent.
            self._market.action_form(agent)
        return agent

    @explained
    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, NDArray[np.float32]], dict[str, dict[str, Any]]]:
        """Begin an episode of all agents: seed the market and run its warm-up.

        Parameters
        ----------
        seed : int, optional
            Seed of a new stream of episode seeds; None draws the next episode seed of the present
            stream.
        options : dict, optional
            ``"episode_seed"``: plays a given episode. ``"cash"`` and ``"shares"``: another
            endowment of every agent in this episode. Options with other names are for other
            environments and ignored, unless they are almost one of these.

        Returns
        -------
        (dict, dict)
            Observations, float32 ``[F]``, and infos, by agent.

        Raises
        ------
        EnvError
            If a seed or an option is out of range; nothing has changed then.
        """
        observations, infos = self._market.reset(seed=seed, options=options)
        self.agents = list(observations)
        return observations, infos

    @explained
    def step(
        self, actions: Mapping[str, ArrayLike]
    ) -> tuple[
        dict[str, NDArray[np.float32]],
        dict[str, float],
        dict[str, bool],
        dict[str, bool],
        dict[str, dict[str, Any]],
    ]:
        """Take one decision of every agent in ``agents`` and run the ticks of the step.

        An agent whose episode ended leaves ``agents``; the others go on.

        Parameters
        ----------
        actions : dict
            An action of each of these agents, and of no other.

        Returns
        -------
        (dict, dict, dict, dict, dict)
            Observations, rewards, terminations, truncations and infos of the agents that acted.

        Raises
        ------
        EnvError
            If an action is missing or out of range, or the episode has ended for all. Nothing has
            changed then.
        """
        result = self._market.step(actions if isinstance(actions, dict) else dict(actions))
        terminations, truncations = result[2], result[3]
        self.agents = [
            name for name in self.agents if not (terminations[name] or truncations[name])
        ]
        return result

    def state(self) -> NDArray[np.float32]:
        """Return the observations of all agents, for a critic that sees everything.

        Returns
        -------
        ndarray
            float32 ``[K * F]``: an element of ``state_space``. Agents that have left are among
            them.

        Raises
        ------
        EnvError
            Before the first reset.
        """
        return self._market.state()

    def metrics_so_far(self) -> dict[str, dict[str, Any]]:
        """Return the metrics of the running episode so far.

        Returns
        -------
        dict
            Entries of ``infos[agent]["metrics"]`` by agent.

        Raises
        ------
        EnvError
            Before the first reset.
        """
        return self._market.metrics_so_far()

    @explained
    def book(
        self, symbol: int = 0, levels: int = 10
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the current order book.

        Parameters
        ----------
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
            If there is no such symbol.
        """
        return self._market.book(symbol, levels)

    @explained
    def render(self, agent: str | None = None) -> NDArray[np.uint8] | str | None:
        """Draw the running episode of one agent: prices with its trades, the book, and its equity.

        Parameters
        ----------
        agent : str, optional
            One of ``possible_agents``; None draws the first.

        Returns
        -------
        ndarray or str
            uint8 ``[480, 640, 3]``, or lines of text; None without a ``render_mode``.

        Raises
        ------
        EnvError
            If there is no such agent, or before the first reset.
        """
        if self.render_mode is None:
            return None
        shown = self.possible_agents[0] if agent is None else agent
        frame: NDArray[np.uint8] | str = self._market.picture(shown, self.render_mode == "ansi")
        return frame

    def close(self) -> None:
        """Release the memory of the market. Closing again does nothing."""
        self._market.close()
