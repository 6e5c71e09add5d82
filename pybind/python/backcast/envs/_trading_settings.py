"""Settings of the trading environments, the single and the vector one."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypedDict, get_args

from backcast.errors import EnvError

if TYPE_CHECKING:
    from backcast.envs import RewardInput
    from backcast.sim import MarketConfig

Actions = Literal[
    "discrete",
    "discrete_limit",
    "discrete_target",
    "target",
    "order_size",
    "quotes",
    "limit_orders",
]
Preset = Literal["calm", "normal", "stressed", "flash", "teaching"]


class AgentSettings(TypedDict, total=False):
    """Settings of one agent of several, all of them keywords with a default.

    Attributes
    ----------
    actions, commands, order_size, max_slippage, max_offset, allow_short, latency_ticks : object
        Actions of the agent, their orders, and the delay of these: see :class:`TradingSettings`.
    initial_cash, initial_shares, long_limit, short_limit, order_limit : object
        Account of the agent and its limits: see :class:`TradingSettings`.

    Notes
    -----
    The agents share all other settings, margins and mark among them.
    """

    actions: Actions
    commands: int
    order_size: int
    max_slippage: int
    max_offset: int
    allow_short: bool
    latency_ticks: int
    initial_cash: float
    initial_shares: int
    long_limit: int
    short_limit: int
    order_limit: int


class TradingSettings(AgentSettings, total=False):
    """Settings of a trading environment, all of them keywords with a default.

    Amounts of money are in currency units.

    Attributes
    ----------
    preset : {"calm", "normal", "stressed", "flash", "teaching"}
        Market by name; ``"normal"`` by default. ``"teaching"`` is made to be learnable.
    market : MarketConfig or dict, optional
        Market of your own instead: :class:`backcast.sim.MarketConfig`. The agent takes its first
        slot: account, latency and initial margin are settings here, and those of the slot are not
        used.
    actions : str
        Meaning of an action for one symbol. ``"discrete"``, the default: 0 sells, 1 holds, 2 buys
        ``order_size`` shares at the market. ``"discrete_limit"``: also 3 offers and 4 bids at the
        touch, and 5 cancels. ``"discrete_target"``: 0 short, 1 flat, 2 long. ``"target"``: a
        position in [-1, 1], a fraction of the limits. ``"order_size"``: a signed size in [-1, 1], a
        fraction of ``order_size``. ``"quotes"``: offsets of bid and ask from the touch and their
        sizes, four numbers in [0, 1]; open orders are cancelled first. ``"limit_orders"``: rows
        ``[command, price, shares, id]`` of whole numbers, with prices in price ticks. Command 1
        buys and 2 sells with a limit order, 3 cancels the order `id`, 4 cancels all, 0 does
        nothing.
    commands : int, default 4
        Rows of an action for one symbol with ``"limit_orders"``, 1 to 16. Like the next three, it
        is refused with actions that do not use it.
    order_size : int, default 100
        Shares of a full-size order.
    max_slippage : int, default 50
        Price ticks beyond the touch that a marketable order may pay.
    max_offset : int, default 20
        Price ticks from the touch at the largest quote offset.
    allow_short : bool, default True
        Whether the agent may sell more than it holds.
    latency_ticks : int, default 0
        Ticks between a decision and the arrival of its orders. 0 arrives at the start of the next
        tick.
    initial_cash : float, default 100000
        Cash at the start of the market.
    initial_shares : int, default 0
        Shares of every symbol at the start of the market.
    long_limit, short_limit, order_limit : int, default 1000
        Largest position of either side, and largest single order, in shares. ``short_limit`` is
        refused with ``allow_short=False``, where it has no effect.
    max_ticks : int, default 10000
        Ticks of an episode after its warm-up; it is truncated then.
    max_episode_steps : int, optional
        Steps of an episode, in place of the default of ``max_ticks``. If both are given, the first
        limit that is reached truncates the episode.
    warmup_ticks : int, default 3600
        Ticks before the first decision: of each warm snapshot, or of the reset without them.
    frame_skip : int, default 1
        Ticks of one step.
    seed : int, optional
        Seed of the first reset that is called without one. A vector environment seeds
        environment i with ``seed + i``, as a reset does. Later resets continue the streams, and a
        seed of a reset replaces them.
    seed_space : {"train", "test"}
        Set of episode seeds to draw from. The two are disjoint.
    reward : str or callable
        ``"pnl_delta"``, the default: change of equity. ``"risk_adjusted"``: minus a charge for a
        deeper drawdown and for each fill, plus a Sharpe bonus at the end, by the weights that
        ``reward_options`` gives: at least one. Or a factory, called once
        for each environment, of a callable that takes a :class:`RewardInput` and returns the
        reward. If the callable has a method ``reset(start)``, each episode begins by calling it.
    reward_options : dict, optional
        Parameters of a reward by name: ``"scale"`` (``"initial_equity"``, ``"currency"`` or
        ``"log_return"``), and of the risk-adjusted one ``"drawdown_penalty"``,
        ``"transaction_cost_per_trade"`` and ``"sharpe_terminal_bonus"``.
    features : {"normalised", "full"}
        40 features of each symbol that do not depend on the price level, or the set of 55.
    private_features : bool, default True
        Whether observations end with the agent's own state, 11 numbers a symbol.
    mark : {"liquidation", "mid"}
        Price at which equity, and so the reward, values positions. ``"liquidation"``, the default:
        what the book would pay for them now, less fees. ``"mid"``: the mid-price, at which a large
        position shows a profit that it cannot realise.
    bankruptcy_equity : float, default 0
        Equity at or below which an episode is terminated.
    initial_margin : float, default 0.5
        Equity that positions and open orders need at least, as a fraction of their value; orders
        are clipped to it. 0 asks for none; otherwise it is at least ``maintenance_margin``, and at
        most 1. Purchases that cash pays in full are free of it.
    maintenance_margin : float, default 0.3
        Equity as a fraction of the gross value of the positions, below which an episode is
        terminated and valued at liquidation. With 0 only a negative equity is below it. Above 0.5,
        ``initial_margin`` has to be raised with it, or 0.
    warm_snapshots : int, default 16
        Number of markets that are warmed up once; an episode copies one of them and draws new
        random streams. With 0 every reset warms up a market of its own.
    """

    preset: Preset
    market: MarketConfig | Mapping[str, Any] | None
    max_ticks: int
    max_episode_steps: int | None
    warmup_ticks: int
    frame_skip: int
    seed: int | None
    seed_space: Literal["train", "test"]
    reward: str | Callable[[], Callable[[RewardInput], float]]
    reward_options: Mapping[str, Any] | None
    features: Literal["normalised", "full"]
    private_features: bool
    mark: Literal["liquidation", "mid"]
    bankruptcy_equity: float
    initial_margin: float
    maintenance_margin: float
    warm_snapshots: int


def unshared(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with copies of the market and the reward options, for pickles."""
    own = ("market", "reward_options")
    return {k: copy.deepcopy(v) if k in own else v for k, v in settings.items()}


#: Settings that some forms of actions do not use, with the forms that do.
USED_BY = {
    "commands": ("limit_orders",),
    "order_size": ("discrete", "discrete_limit", "order_size", "quotes"),
    "max_slippage": ("discrete", "discrete_limit", "discrete_target", "target", "order_size"),
    "max_offset": ("quotes",),
}


def unused(name: str, value: object, settings: Mapping[str, Any]) -> str | None:
    """Say why an agent of these settings does not use one that was given; None if it does.

    Says nothing of unknown actions, which are refused elsewhere.
    """
    if name == "short_limit":
        if settings.get("allow_short") is not False or value == 0:
            return None
        return (
            f"short_limit is {value!r}, and allow_short=False allows no short position; leave one "
            "of them out"
        )
    actions = settings.get("actions", "discrete")
    forms = USED_BY.get(name)
    if forms is None or actions in forms or actions not in get_args(Actions):
        return None
    words = " or ".join(f'"{form}"' for form in forms)
    return (
        f'{name} is {value!r}, and actions "{actions}" do not use it; leave it out, or give '
        f"actions {words}"
    )


def refuse_unused(given: Mapping[str, Any], *agents: Mapping[str, Any], whose: str = "") -> None:
    """Refuse a given setting that none of the agents uses; `whose` begins the message."""
    for name, value in given.items():
        reasons = [unused(name, value, settings) for settings in agents]
        if all(reasons):
            raise EnvError(f"{whose}{reasons[0]}")
