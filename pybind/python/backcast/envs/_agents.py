"""Maker of the environment of several agents, which needs PettingZoo only when it is called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Unpack

from backcast._calls import explained, refuse_unknown
from backcast._native import SharedMarket
from backcast.envs._trading import check_render_mode
from backcast.envs._trading_settings import (
    AgentSettings,
    TradingSettings,
    refuse_unused,
)
from backcast.errors import ArgumentTypeError, EnvError, MissingExtraError

if TYPE_CHECKING:
    from backcast.envs._parallel import ParallelTradingEnv


@explained
def parallel_trading_env(
    agents: int | Mapping[str, AgentSettings] = 2,
    *,
    background: Iterable[Any] = (),
    render_mode: str | None = None,
    **settings: Unpack[TradingSettings],
) -> ParallelTradingEnv:
    """Make an environment in which several agents trade in one simulated market.

    It is a ``ParallelEnv`` of PettingZoo: all agents decide simultaneously. Their orders arrive in
    the next tick, or ``latency_ticks`` later, before those of the background agents, in an order
    that is drawn for every tick. They trade with each other and with the background agents in one
    book.

    An agent that goes bankrupt or gets a margin call is terminated and leaves. Its open orders are
    cancelled in the next step, and the others go on. The time limit truncates all that are left.

    Parameters
    ----------
    agents : int or dict, default 2
        Number of agents, ``K``, at most 4096, which are called ``"agent_0"``, ``"agent_1"`` and so
        on. Or the settings of each by a name of your choice: those of :class:`AgentSettings`, in
        place of the common ones.
    background : iterable, optional
        Agents of your own in the background of the market: the ``agents`` of
        :class:`TradingVectorEnv`.
    render_mode : {"ansi", "rgb_array"}, optional
        Form of the pictures that ``render`` draws: text or pixels.
    **settings : object
        Settings by name: those of :class:`TradingSettings`. Each agent gets a reward of its own
        from ``reward``.

    Returns
    -------
    ParallelTradingEnv
        Environment with ``agents``, ``possible_agents``, ``observation_space(agent)``,
        ``action_space(agent)``, ``reset``, ``step``, ``state``, ``render`` and ``close``, and with
        ``features``, ``book`` and ``metrics_so_far`` as those of :class:`TradingEnv`.

    Raises
    ------
    EnvError
        If a setting is out of its range, before anything runs.
    MissingExtraError
        If PettingZoo is not installed: ``pip install 'backcast[pettingzoo]'``.

    Notes
    -----
    With one agent every number is that of a :class:`TradingEnv` with the same seed. An agent that
    sends no order changes nothing for the others. Infos hold, for each agent, what those of a
    :class:`TradingEnv` hold. ``pettingzoo.utils.conversions.parallel_to_aec`` makes an environment
    whose agents take turns.

    Examples
    --------
    >>> from backcast.envs import parallel_trading_env
    >>> env = parallel_trading_env(3, preset="teaching")  # doctest: +SKIP
    >>> observations, infos = env.reset(seed=7)  # doctest: +SKIP
    >>> step = env.step({agent: 2 for agent in env.agents})  # doctest: +SKIP
    """
    known = ("agents", "background", "render_mode", *TradingSettings.__annotations__)
    refuse_unknown("parallel_trading_env", settings, known)
    common = dict(settings)
    chosen = _by_name(agents, common)
    # Each common setting is for the agents without their own.
    refuse_unused(common, *chosen.values())
    check_render_mode(render_mode)
    try:
        from backcast.envs._parallel import ParallelTradingEnv
    except ImportError as error:
        if error.name is None or error.name.partition(".")[0] != "pettingzoo":
            raise
        raise MissingExtraError(
            "backcast.envs.parallel_trading_env builds on PettingZoo, which is not installed; "
            "run `pip install 'backcast[pettingzoo]'`"
        ) from error
    return ParallelTradingEnv(chosen, common, render_mode, background)


def _by_name(
    agents: int | Mapping[str, AgentSettings], common: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Return every agent's settings, with the common ones where it has none."""
    known = tuple(AgentSettings.__annotations__)
    shared = {name: common[name] for name in known if name in common}
    if isinstance(agents, Mapping):
        made = {}
        for name, own in agents.items():
            if not (isinstance(name, str) and isinstance(own, Mapping)):
                raise ArgumentTypeError(
                    f"agents has {name!r}: {own!r}; give a dict of settings by the agent's name, "
                    '{"maker": {"actions": "quotes"}, "taker": {}}'
                )
            for setting, value in own.items():
                if setting not in known and setting in TradingSettings.__annotations__:
                    raise ArgumentTypeError(
                        f"agent {name!r} has {setting!r}, which all agents share; give "
                        f"parallel_trading_env(..., {setting}={value!r})"
                    )
            refuse_unknown(f"agents[{name!r}]", own, known)
            made[name] = shared | dict(own)
            refuse_unused(own, made[name], whose=f"agent {name!r}: ")
        if made:
            return made
        raise EnvError("agents is empty; name at least one agent")
    if isinstance(agents, bool) or not hasattr(agents, "__index__"):
        raise ArgumentTypeError(
            f"agents is {agents!r}; give a number of agents, or a dict of settings by name"
        )
    count = agents.__index__()
    most = SharedMarket.MOST_AGENTS
    if not 1 <= count <= most:
        raise EnvError(f"agents is {count}; give a whole number from 1 to {most}")
    return {f"agent_{number}": dict(shared) for number in range(count)}
