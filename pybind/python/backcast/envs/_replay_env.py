"""An environment in which an agent trades against a recorded order book."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from backcast._calls import explained
from backcast._copies import Rebuilt, rebuilding
from backcast._native import History, Replay
from backcast.envs._limit import step_limit
from backcast.envs._trading_settings import unused
from backcast.errors import ArgumentTypeError, ClosedError, EnvError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

Actions = Literal["discrete_limit", "limit_orders"]

DAY_SECONDS = 86_400.0
MOST_COMMANDS = 16
MOST_PENDING = 1_024
# Values beyond are clipped, so that spaces have finite bounds.
BOUND = 1e6
NOTHING, BUY, SELL, CANCEL, CANCEL_ALL = range(5)
MOST_PRICE, MOST_SHARES, MOST_ID = 9_999_999_998, 2**31 - 1, 2**53 - 1


class Fill(NamedTuple):
    """A trade of the agent, with the fields of :meth:`backcast.sim.Replay.fills`."""

    time: int
    id: int
    side: int
    price: int
    shares: int
    maker: int
    fee: int


class OpenOrder(NamedTuple):
    """An open order of the agent, with the fields of :meth:`backcast.sim.Replay.orders`."""

    id: int
    side: int
    price: int
    shares: int
    ahead: int


class ReplayEnv(Rebuilt, gym.Env[Any, Any]):
    r"""One agent that trades against a recorded day, with its places in the queues.

    Orders are filled by the rules of :class:`backcast.sim.Replay`. The replay is passive: history
    goes on as it did, whatever the agent does, so that there is no market impact. A step sends the
    orders of the action, runs ``interval`` seconds of history, and describes the market after them.

    Parameters
    ----------
    history : History
        The recorded day.
    interval : float, default 1
        Seconds of a step.
    actions : {"discrete_limit", "limit_orders"}
        ``"discrete_limit"``: 0 sells, 1 holds, 2 buys ``order_size`` shares at any price; 3 offers
        and 4 bids ``order_size`` shares at the best price of their side, and never trades on
        arrival; 5 cancels all open orders. ``"limit_orders"``: int64 ``[commands, 4]``, rows of
        command (0 nothing, 1 buy, 2 sell, 3 cancel, 4 cancel all), price in 1/10,000 dollars,
        shares, and the id of the order to cancel.
    order_size : int, optional
        Shares of an order of ``"discrete_limit"``, 100 by default.
    commands : int, optional
        Rows of an action of ``"limit_orders"``, 4 by default.
    levels : int, default 5
        Price levels of each side in an observation, at most those of the order book file.
    tick : int, default 100
        Unit of the distances in an observation, in 1/10,000 dollars.
    begin, end : float, optional
        Seconds after midnight between which episodes lie, within ``history.priced_from`` and
        ``history.end``; None for these two.
    random_start : bool, default False
        Draw the start of an episode between ``begin`` and the last one with room for
        ``max_episode_steps``. Otherwise episodes begin at ``begin``.
    max_episode_steps : int, optional
        Steps of an episode; None goes on until ``end``.
    maker_fee, taker_fee, latency, max_position, max_orders : optional
        As in :class:`backcast.sim.Replay`.

    Raises
    ------
    EnvError, SimError
        If a setting is out of its range.

    Notes
    -----
    The reward is the change of the profit in dollars, with the position at the mid-price. An
    episode is never terminated; it is truncated at ``end`` or after ``max_episode_steps``.
    ``features`` names the entries of an observation, float32 ``[F]``: for each level the distance
    of the price from the mid-price in ticks and the logarithm of 1 plus the shares, 0 for an empty
    level.

    Infos hold ``time`` (seconds after midnight), ``mid_price`` in dollars, ``position``, ``profit``
    and ``pnl`` in dollars, ``fees`` since the start in dollars, ``halted``, ``fills`` and open
    ``orders``, ``refused`` requests with their reasons, and with ``"limit_orders"`` ``order_ids``,
    those of the requests that the commands sent, -1 for no request. ``fills`` and ``orders`` are
    tuples of named tuples with the fields of :meth:`backcast.sim.Replay.fills` and
    :meth:`backcast.sim.Replay.orders`, so that vector environments keep those of each environment
    apart.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from backcast import sim
    >>> from backcast.envs import ReplayEnv
    >>> lines = ["1,1,7,100,999900,1", "1,1,8,100,1000100,-1", "3,4,7,100,999900,1"]
    >>> lines += ["3,1,9,10,999900,1", "4,4,9,10,999900,1", "6,3,8,100,1000100,-1"]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "messages.csv")
    ...     size = path.write_text("\n".join(lines))
    ...     env = ReplayEnv(sim.History.read(path))
    >>> obs, info = env.reset(seed=1)
    >>> obs, reward, terminated, truncated, info = env.step(4)  # bids at 99.99
    >>> [order.ahead for order in info["orders"]]
    [100]
    >>> for _ in range(2):
    ...     obs, reward, terminated, truncated, info = env.step(1)
    >>> info["position"], [fill.shares for fill in info["fills"]], reward
    (10, [10], 0.0)
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012

    @explained
    def __init__(
        self,
        history: History,
        *,
        interval: float = 1.0,
        actions: Actions = "discrete_limit",
        order_size: int | None = None,
        commands: int | None = None,
        levels: int = 5,
        tick: int = 100,
        begin: float | None = None,
        end: float | None = None,
        random_start: bool = False,
        max_episode_steps: int | None = None,
        maker_fee: int = 0,
        taker_fee: int = 0,
        latency: float = 0.0,
        max_position: int = 1_000,
        max_orders: int = 16,
    ) -> None:
        self._rebuild = rebuilding(self, locals())
        if not isinstance(history, History):
            raise ArgumentTypeError(
                f"history is {history!r}; give a backcast.sim.History, such as "
                "History.read(messages, book)"
            )
        if actions not in get_args(Actions):
            words = " or ".join(f'"{word}"' for word in get_args(Actions))
            raise EnvError(f"actions is {actions!r}; write {words}")
        self._interval = _number("interval", interval, 1e-9, DAY_SECONDS)
        for name, value in (("order_size", order_size), ("commands", commands)):
            reason = None if value is None else unused(name, value, {"actions": actions})
            if reason is not None:
                raise EnvError(reason)
        self._size = _whole("order_size", 100 if order_size is None else order_size, 1, MOST_SHARES)
        self._commands = _whole("commands", 4 if commands is None else commands, 1, MOST_COMMANDS)
        self._levels = _whole("levels", levels, 1, 1_000)
        self._tick = _whole("tick", tick, 1, MOST_PRICE)
        if history.levels is not None and self._levels > history.levels:
            raise EnvError(
                f"levels is {self._levels}, but the order book file has {history.levels}; give "
                f"1 to {history.levels}"
            )
        priced = history.priced_from
        if priced is None:
            raise EnvError(
                "the history has neither a moment with both bids and asks nor an execution, so "
                "that a position has no value; give another one"
            )
        first = priced if begin is None else _number("begin", begin, priced, history.end)
        last = history.end if end is None else _number("end", end, priced, history.end)
        self._limit = step_limit(self, max_episode_steps)
        if self._limit is not None:
            self._limit = _whole("max_episode_steps", self._limit, 1, 2**31)
        length = 1 if self._limit is None else self._limit
        # A step is the shortest episode; rounding errors of a sum of intervals are no step.
        if first + length * self._interval > last + 1e-9:
            raise EnvError(
                f"an episode of {length} steps of {self._interval} s does not fit between "
                f"{first} s and {last} s; give a shorter interval, fewer steps, or another begin "
                "and end"
            )
        if not isinstance(random_start, bool):
            raise ArgumentTypeError(f"random_start is {random_start!r}; give True or False")
        if random_start and self._limit is None:
            raise EnvError(
                "random_start is True, but max_episode_steps is None, so that every episode lasts "
                "from begin to end; give max_episode_steps"
            )
        self._first, self._last, self._random = first, last, random_start
        self._limit_position = _whole("max_position", max_position, 1, MOST_SHARES)
        self._replay = Replay(
            history,
            maker_fee=maker_fee,
            taker_fee=taker_fee,
            latency=latency,
            max_position=max_position,
            max_orders=max_orders,
        )
        if actions == "discrete_limit" and self._size > self._limit_position:
            raise EnvError(
                f"order_size is {self._size}, but max_position is {max_position}, so that every "
                "order would be refused; give smaller orders or a larger limit"
            )
        longest = last - first if self._limit is None else self._limit * self._interval
        if latency >= longest:
            raise EnvError(
                f"latency is {latency} s, but an episode lasts {longest:g} s, so that no order "
                "would arrive; give a shorter latency or longer episodes"
            )
        self.actions = actions
        self.features = _names(self._levels)
        self.observation_space = spaces.Box(-BOUND, BOUND, (len(self.features),), np.float32)
        self.action_space: spaces.Space[Any]
        if actions == "discrete_limit":
            self.action_space = spaces.Discrete(6)
        else:
            highest = np.array([CANCEL_ALL, MOST_PRICE, MOST_SHARES, MOST_ID], np.int64)
            high = np.broadcast_to(highest, (self._commands, 4))
            self.action_space = spaces.Box(np.zeros_like(high), high, dtype=np.int64)
        self._begun = self._ended = self._closed = False

    def __repr__(self) -> str:
        """Show the history, actions, the step and the state."""
        messages, state = len(self._replay.history), ", closed" if self._closed else ""
        return (
            f"<backcast.envs.ReplayEnv: {messages} messages, {self.actions} actions, "
            f"{self._interval} s a step{state}>"
        )

    def __str__(self) -> str:
        """Show the same; Gymnasium's base class shows the class only."""
        return repr(self)

    @property
    def replay(self) -> Replay:
        """The replay that the environment steps."""
        return self._replay

    @explained
    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begin an episode without orders, cash or shares.

        Parameters
        ----------
        seed : int, optional
            Seed of the starts that ``random_start`` draws; None continues them.
        options : dict, optional
            ``"begin"``: start of this episode in seconds after midnight.

        Returns
        -------
        (ndarray, dict)
            Observation, float32 ``[F]``, and info.

        Raises
        ------
        EnvError
            If an option is unknown or out of range; nothing has changed then.
        """
        self._refuse_closed()
        if not isinstance(options, dict | None):
            raise ArgumentTypeError(f"options is {options!r}; give a dict or None")
        if seed is not None:
            seed = _whole("seed", seed, 0, 2**64 - 1)
        options = dict(options or {})
        given = options.pop("begin", None)
        if options:
            names = ", ".join(map(repr, options))
            raise EnvError(f'options has {names}; the only option is "begin"')
        latest = self._last - (1 if self._limit is None else self._limit) * self._interval
        latest = max(latest, self._first)
        if given is not None:
            given = _number('options["begin"]', given, self._first, latest)
        super().reset(seed=seed)
        start = self._first
        if given is not None:
            start = given
        elif self._random:
            start = self.np_random.uniform(self._first, latest)
        self._replay.start(start)
        self._start, self._steps, self._profit = start, 0, 0.0
        self._mid, self._messages = self._replay.mid_price, self._replay.messages
        self._begun, self._ended = True, False
        return self._observe(), self._info([])

    def step(
        self, action: ArrayLike
    ) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Send the orders of an action and run ``interval`` seconds of history.

        Parameters
        ----------
        action : int or array_like
            An element of the action space.

        Returns
        -------
        (ndarray, float, bool, bool, dict)
            Observation, reward, False, truncated, info.

        Raises
        ------
        EnvError
            If the action is out of range, or no episode has begun or it has ended. Nothing has
            changed then.
        """
        self._refuse_closed()
        if not self._begun or self._ended:
            state = "has ended" if self._ended else "was never begun"
            raise EnvError(f"the episode {state}; reset the environment")
        ids = self._send(action)
        self._steps += 1
        time = min(self._start + self._steps * self._interval, self._last)
        self._mid, self._messages = self._replay.mid_price, self._replay.messages
        self._replay.run_until(time)
        obs, info = self._observe(), self._info(ids)
        self._profit = info["profit"]
        done = self._steps == self._limit or time >= self._last - 1e-9
        self._ended = done
        return obs, info["pnl"], False, done, info

    def close(self) -> None:
        """Refuse further steps. Closing again does nothing."""
        self._closed = True

    def _refuse_closed(self) -> None:
        if self._closed:
            raise ClosedError("the environment is closed; make a new one")

    def _send(self, action: ArrayLike) -> list[int]:
        """Send the requests of an action, and return their ids."""
        if self.actions == "discrete_limit":
            choice = np.asarray(action)
            if choice.shape != () or choice.dtype.kind not in "iu" or not 0 <= choice < 6:
                raise EnvError(f"action is {action!r}; give a whole number from 0 to 5")
            self._refuse_without_room(1)
            self._choose(int(choice))
            return []
        rows = np.asarray(action)
        if rows.shape != (self._commands, 4) or rows.dtype.kind not in "iu":
            raise EnvError(f"action is {action!r}; give whole numbers [{self._commands}, 4]")
        for at, (command, price, shares, _) in enumerate(rows.tolist()):
            if not 0 <= command <= CANCEL_ALL:
                raise EnvError(f"row {at} of the action has the command {command}; give 0 to 4")
            if command in (BUY, SELL) and not (
                1 <= price <= MOST_PRICE and 1 <= shares <= MOST_SHARES
            ):
                raise EnvError(
                    f"row {at} of the action orders {shares} shares at {price}; give 1 to "
                    f"{MOST_SHARES} shares at 1 to {MOST_PRICE}"
                )
            if command == CANCEL and rows[at, 3] < 0:
                raise EnvError(f"row {at} of the action cancels {rows[at, 3]}; give an id from 0")
        self._refuse_without_room(int(np.count_nonzero(rows[:, 0])))
        return [self._command(*row) for row in rows.tolist()]

    def _refuse_without_room(self, requests: int) -> None:
        """Refuse an action of which only a part could be sent."""
        pending = self._replay.pending
        if pending + requests > MOST_PENDING:
            raise EnvError(
                f"the action sends up to {requests} requests, but {pending} of at most "
                f"{MOST_PENDING} are on their way; send fewer, or give a shorter latency"
            )

    def _command(self, command: int, price: int, shares: int, order: int) -> int:
        if command in (BUY, SELL):
            return self._replay.order("buy" if command == BUY else "sell", shares, price)
        if command == CANCEL:
            return self._replay.cancel(order)
        return self._replay.cancel() if command == CANCEL_ALL else -1

    def _choose(self, choice: int) -> None:
        replay = self._replay
        if choice in (0, 2):
            replay.order("sell" if choice == 0 else "buy", self._size)
        elif choice == 5:
            replay.cancel()
        elif choice in (3, 4):
            ask, asked, bid, bidden = replay.book(levels=1)[0].tolist()
            side: Literal["buy", "sell"] = "sell" if choice == 3 else "buy"
            price, shares = (ask, asked) if choice == 3 else (bid, bidden)
            # Without an order at that side there is no price to join.
            if shares:
                replay.order(side, self._size, price, post_only=True)

    def _observe(self) -> NDArray[np.float32]:
        replay, mid = self._replay, self._replay.mid_price
        book = replay.book(levels=self._levels)
        prices, shares = book[:, ::2], book[:, 1::2]
        rows = np.empty((self._levels, 4))
        rows[:, ::2] = np.where(shares > 0, (prices - mid) / self._tick, 0.0)
        rows[:, 1::2] = np.log1p(shares)
        bought, sold = replay.volume(self._messages)
        orders = replay.orders()
        own: list[float] = []
        for side in (1, -1):
            mine = np.flatnonzero(orders["side"] == side)
            own.append(np.log1p(orders["shares"][mine].sum()))
            best = mine[0] if len(mine) else None
            distance = 0.0 if best is None else (orders["price"][best] - mid) / self._tick
            own += [distance, 0.0 if best is None else np.log1p(orders["ahead"][best])]
        length = self._last - self._start
        if self._limit is not None:
            length = min(length, self._limit * self._interval)
        left = 1 - self._steps * self._interval / length
        values = [
            (mid - self._mid) / self._tick,
            np.log1p(bought),
            np.log1p(sold),
            float(replay.halted),
            max(left, 0.0),
            replay.position / self._limit_position,
            *own,
        ]
        found: NDArray[np.float64] = np.concatenate([rows.ravel(), values])
        return found.clip(-BOUND, BOUND).astype(np.float32)

    def _info(self, ids: list[int]) -> dict[str, Any]:
        replay = self._replay
        profit = replay.profit
        info = {
            "time": replay.time,
            "mid_price": replay.mid_price / 10_000,
            "position": replay.position,
            "profit": profit,
            "pnl": profit - self._profit,
            "fees": replay.account()["fees"] / 10_000,
            "halted": replay.halted,
            "fills": _records(Fill, replay.fills()),
            "orders": _records(OpenOrder, replay.orders()),
            "refused": tuple(replay.refused()),
        }
        if self.actions == "limit_orders":
            filled = ids or [-1] * self._commands
            info["order_ids"] = np.array(filled, np.int64)
        return info


def _records(kind: Any, columns: dict[str, NDArray[Any]]) -> tuple[Any, ...]:  # noqa: ANN401
    """Return columns of one length as records."""
    return tuple(map(kind._make, zip(*(c.tolist() for c in columns.values()), strict=True)))


def _names(levels: int) -> tuple[str, ...]:
    """Name the entries of an observation."""
    kinds = ("ask_distance", "ask_shares", "bid_distance", "bid_shares")
    return (
        *(f"{kind}_{level}" for level in range(1, levels + 1) for kind in kinds),
        *("mid_move", "bought", "sold", "halted", "time_left", "position"),
        *("own_bid_shares", "own_bid_distance", "own_bid_ahead"),
        *("own_ask_shares", "own_ask_distance", "own_ask_ahead"),
    )


def _number(name: str, given: Any, low: float, high: float) -> float:  # noqa: ANN401
    if isinstance(given, bool) or not isinstance(given, (int, float, np.integer, np.floating)):
        raise ArgumentTypeError(f"{name} is {given!r}; give seconds from {low} to {high}")
    if not low <= given <= high:
        raise EnvError(f"{name} is {given}; give seconds from {low} to {high}")
    return float(given)


def _whole(name: str, given: Any, low: int, high: int) -> int:  # noqa: ANN401
    wanted = f"a whole number from {low} to {high}"
    if isinstance(given, bool) or not isinstance(given, (int, np.integer)):
        raise ArgumentTypeError(f"{name} is {given!r}; give {wanted}")
    if not low <= given <= high:
        raise EnvError(f"{name} is {given}; give {wanted}")
    return int(given)
