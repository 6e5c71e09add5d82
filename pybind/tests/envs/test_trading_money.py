"""Money of trading environments, against a plain accounting from fills and prices."""

from __future__ import annotations

import copy
import pickle
from collections import Counter
from itertools import cycle
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from backcast import sim
from backcast._native import SharedMarket
from backcast.envs import Fill, RewardInput, TradingEnv, TradingVectorEnv
from budgets import budget
from envs_worlds import same
from market_model.accounting import Accounting, OrderLog, Prices

N, TICKS, CENT = 20, 8, 0.005
# Actions that use `order_size`.
SIZED = ("discrete", "discrete_limit", "order_size", "quotes")
# Each takes part in a twelfth of the episodes. Prices are near 100.
WORLDS: list[dict[str, Any]] = [
    {"actions": "discrete", "symbols": 2},
    {"actions": "discrete", "initial_cash": 3_000, "scale": "log_return", "latency_ticks": 2},
    {"actions": "discrete_target", "symbols": 3, "scale": "initial_equity"},
    # Equity is 0.32 of the short positions: at the edge of a margin call.
    {"actions": "order_size", "initial_shares": -100, "initial_cash": 13_200},
    {"actions": "order_size", "initial_shares": -60, "initial_cash": 15_840, "symbols": 2},
    # Ruin in a few steps: no margin is asked of 100 of cash.
    {"actions": "target", "initial_cash": 100, "margins": (0, 0), "scale": "log_return"},
    {"actions": "order_size", "initial_cash": 500, "margins": (0, 0), "symbols": 2},
    # Orders that rest. The book shows them too, so that they are marked at the mid-price.
    {"actions": "quotes", "mark": "mid", "symbols": 2, "initial_cash": 20_000},
    {"actions": "discrete_limit", "mark": "mid", "initial_shares": 40, "order_size": 30},
    {"actions": "quotes", "mark": "mid", "initial_shares": -300, "initial_cash": 40_000},
    {"actions": "limit_orders", "mark": "mid", "symbols": 2, "initial_cash": 30_000},
    {"actions": "limit_orders", "mark": "mid", "initial_shares": -60, "initial_cash": 9_000},
]


class World:
    """Environments with one accounting each."""

    def __init__(self, number: int, seen: Counter[str]) -> None:
        chosen: dict[str, Any] = {
            "symbols": 1,
            "scale": "currency",
            "mark": "liquidation",
            "margins": (0.5, 0.3),
        }
        chosen |= {"initial_cash": 100_000, "initial_shares": 0} | WORLDS[number]
        self.seen, self.symbols, self.scale = seen, chosen.pop("symbols"), chosen.pop("scale")
        self.initial, maintenance = chosen.pop("margins")
        config = sim.MarketConfig.preset(["normal", "flash", "stressed"][number % 3])
        config.symbols = self.symbols
        config.fees = sim.Fees(maker_ppm=-100, taker_ppm=700, borrow_ppm_per_day=400_000)
        self.fees = config.fees.to_dict()
        margins = {"initial_margin": self.initial, "maintenance_margin": maintenance}
        sizes = {"order_size": 1_000} if chosen["actions"] in SIZED else {}
        self.envs = TradingVectorEnv(
            N,
            market=config,
            max_ticks=TICKS,
            warmup_ticks=200,
            warm_snapshots=3,
            reward_options={"scale": self.scale},
            **{**sizes, **chosen, **margins},
        )
        self.chosen, self.maintenance = chosen, maintenance
        self.draw = np.random.default_rng(number)
        self.accounts: list[Accounting] = []

    def run(self, episodes: int) -> None:
        """Play episodes, and compare every number of every step."""
        infos = self.envs.reset(seed=int(self.draw.integers(2**32)))[1]
        self.logs = [OrderLog() for _ in range(N)]
        self.accounts = [self.begun(env, infos) for env in range(N)]
        ended = np.zeros(N, bool)
        played = 0
        self.infos = infos
        self.envs.action_space.seed(int(self.draw.integers(2**32)))
        while played < episodes:
            self.sent = self.actions()
            _, rewards, terminated, truncated, infos = self.envs.step(self.sent)
            self.infos = infos
            for env in range(N):
                if ended[env]:
                    self.accounts[env] = self.begun(env, infos)
                else:
                    flags = bool(terminated[env]), bool(truncated[env])
                    self.compare(env, float(rewards[env]), flags, infos)
            ended = terminated | truncated
            played += int(ended.sum())

    def actions(self) -> Any:  # noqa: ANN401
        """Draw actions: of continuous ones half are the largest."""
        actions = self.envs.action_space.sample()
        if self.chosen["actions"] == "limit_orders":
            return self.commands(actions.shape)
        if actions.dtype == np.float32:
            actions = np.where(self.draw.random(actions.shape) < 0.5, np.sign(actions), actions)
        return actions

    def commands(self, shape: tuple[int, ...]) -> Any:  # noqa: ANN401
        """Draw orders near the mid-prices, and cancels of open orders."""
        rows = np.zeros((N, self.symbols, 4, 4), np.int64)
        mids = [[price.twice_mid // 2 for price in account.prices] for account in self.accounts]
        rows[..., 0] = self.draw.integers(0, 5, rows.shape[:-1])
        rows[..., 1] = np.array(mids)[..., None] + self.draw.integers(-8, 9, rows.shape[:-1])
        rows[..., 2] = self.draw.integers(1, 120, rows.shape[:-1])
        known = self.infos["open_orders"].reshape(N, self.symbols, 8, 4)[..., 0]
        rows[..., 3] = np.maximum(known[..., self.draw.integers(0, 8, 4)], 0)
        return rows.reshape(shape)

    def check_orders(self, env: int, account: Accounting, infos: dict[str, Any]) -> None:
        """Check that cash pays for all open buys, and that limits hold with all open orders."""
        orders = infos["open_orders"][env].reshape(self.symbols, 8, 4)
        for symbol in range(self.symbols):
            open_here = [row for row in orders[symbol].tolist() if row[0] >= 0]
            assert [row[0] for row in open_here] == sorted(row[0] for row in open_here)
            buys = sum(shares for _, shares, *_ in open_here if shares > 0)
            sells = -sum(shares for _, shares, *_ in open_here if shares < 0)
            assert account.shares[symbol] + buys <= 1_000
            assert account.shares[symbol] - sells >= -1_000
            self.seen["open orders"] += len(open_here)
        commands, ids, refused = (
            rows.reshape(self.symbols, 4, -1).tolist()
            for rows in (self.sent[env], infos["order_ids"][env], infos["refused_ids"][env])
        )
        log = self.logs[env]
        at_one_price = Counter((symbol, price) for symbol, _, price in log.orders.values())
        rows = [(symbol, row) for symbol in range(self.symbols) for row in range(4)]
        for symbol, row in rows:
            log.send(symbol, commands[symbol][row], *ids[symbol][row])
        for symbol, row in rows:
            log.refuse(commands[symbol][row], *ids[symbol][row], *refused[symbol][row])
        for fill in infos["fill_records"][env]:
            symbol, _, price = log.orders[fill.order]
            self.seen["fills beside an order at the same price"] += at_one_price[symbol, price] > 1
            log.fill(fill)
        log.compare([(at, row) for at, rows in enumerate(orders.tolist()) for row in rows])
        named = infos["refused_ids"][env] >= 0
        assert named.sum() == infos["refused"][env]
        self.seen["refused cancels"] += int((named & (infos["order_ids"][env] < 0)).sum())
        flat = [row for row in orders.reshape(-1, 4).tolist() if row[0] >= 0]
        reserved = account.reserved([(shares, price) for _, shares, price, _ in flat])
        # Only the cost of borrowing takes cash that open buys have reserved.
        assert account.cash + account.borrowing >= reserved or reserved == 0
        self.seen["reserved cash"] += reserved > 0
        self.seen["refused orders"] += int(infos["refused"][env])

    def prices(self, env: int, before: list[Prices] | None) -> list[Prices]:
        """Read the books of all symbols."""
        last = [price.twice_mid for price in before] if before else [0] * self.symbols
        books = [self.envs.book(env, symbol, 4_096) for symbol in range(self.symbols)]
        return [Prices.of(book, mid) for book, mid in zip(books, last, strict=True)]

    def begun(self, env: int, infos: dict[str, Any]) -> Accounting:
        """Begin the accounting of an episode."""
        cash, shares = self.chosen["initial_cash"] * 10_000, self.chosen["initial_shares"]
        prices = self.prices(env, None)
        held = [shares] * self.symbols
        account = Accounting(self.fees, self.chosen["mark"], self.maintenance, cash, held, prices)
        assert abs(infos["equity"][env] - account.start) < CENT
        assert infos["fill_records"][env] == ()
        self.logs[env] = OrderLog()
        return account

    def compare(
        self, env: int, reward: float, flags: tuple[bool, bool], infos: dict[str, Any]
    ) -> None:
        """Account for one step of one environment, and compare."""
        account, before = self.accounts[env], copy.deepcopy(self.accounts[env])
        fills = infos["fill_records"][env]
        account.enter(fills)
        account.close_tick(self.prices(env, account.prices))
        equity, called = account.judge()
        for name, value in {
            "equity": equity,
            "pnl": equity - account.last,
            "fees": (account.paid - before.paid) * 1e-4,
            "borrowing": (account.borrowing - before.borrowing) * 1e-4,
            "mid_price": account.prices[0].twice_mid * 0.005,
        }.items():
            assert abs(infos[name][env] - value) < CENT, (name, infos[name][env], value)
        assert infos["position"][env] == account.shares[0]
        assert infos["fills"][env] == len(fills)
        assert all(fill.tick == infos["tick"][env] for fill in fills)
        wanted = account.reward(self.scale, account.last, equity)
        tolerance = {"currency": CENT, "initial_equity": CENT / abs(account.start)}
        assert abs(reward - wanted) < tolerance.get(self.scale, 1e-6), (reward, wanted)
        assert np.isfinite(reward)
        ruined = equity <= 0
        assert infos["margin_call"][env] == called
        assert flags[0] == (called or ruined)
        account.last = equity
        self.check_margin(before, account)
        if self.chosen["actions"] == "limit_orders":
            self.check_orders(env, account, infos)
        if any(flags):
            metrics = infos["metrics"]
            assert abs(metrics["final_value"][env] - equity) < CENT
            assert abs(metrics["costs"][env] - account.paid * 1e-4) < CENT
            assert metrics["trades"][env] == account.count
        self.seen["episodes"] += any(flags)
        self.seen["margin calls"] += called
        self.seen["ruins"] += ruined
        self.seen["shorts"] += min(account.shares) < 0
        self.seen["steps with several symbols"] += self.symbols > 1 and len(fills) > 0
        self.seen["maker fills"] += sum(fill.maker for fill in fills)
        self.seen["taker fills"] += sum(not fill.maker for fill in fills)
        self.seen["borrowing"] += account.borrowing > before.borrowing

    def check_margin(self, before: Accounting, after: Accounting) -> None:
        """Check that no short position has grown beyond the initial margin."""
        if not self.initial or "latency_ticks" in self.chosen:
            return
        quotes = self.chosen["actions"] in ("quotes", "discrete_limit", "limit_orders")
        pairs = list(zip(before.shares, after.shares, strict=True))
        if quotes or not any(new < min(old, 0) for old, new in pairs):
            return
        # Orders without latency are judged by the prices and the equity before the step. With
        # several symbols, sales of the same step may have closed other positions.
        grown = [max(abs(old) if new * old > 0 else 0, abs(new)) for old, new in pairs]
        if self.symbols == 1:
            value = grown[0] * before.prices[0].twice_mid * 0.005
            assert value * self.initial <= before.equity("mid") + CENT, (before, after)
            self.seen["shorts within the margin"] += 1


def test_random_episodes_equal_a_plain_accounting_to_the_cent() -> None:
    seen: Counter[str] = Counter()
    each = budget(10_000) // len(WORLDS) + 1
    for number in range(len(WORLDS)):
        World(number, seen).run(each)
    assert seen["episodes"] >= budget(10_000)
    for what in (
        "margin calls",
        "ruins",
        "shorts",
        "shorts within the margin",
        "steps with several symbols",
        "maker fills",
        "taker fills",
        "borrowing",
        "open orders",
        "reserved cash",
        "refused orders",
        "refused cancels",
        "fills beside an order at the same price",
    ):
        assert seen[what] > 0, (what, seen)


def test_ruin_costs_the_same_log_return_however_it_comes() -> None:
    env = TradingEnv(
        actions="target",
        initial_cash=100,
        initial_margin=0,
        maintenance_margin=0,
        order_limit=1_000,
        reward_options={"scale": "log_return"},
        warmup_ticks=100,
        warm_snapshots=2,
        max_ticks=500,
    )
    ruins = 0
    for seed in range(10):
        env.reset(seed=seed)
        total, terminated, truncated = 0.0, False, False
        for action in cycle([-1.0, 1.0]):
            _, reward, terminated, truncated, info = env.step(np.array([action]))
            total += reward
            if terminated or truncated:
                break
        if info["equity"] <= 0:
            ruins += 1
            assert total == pytest.approx(np.log(1e-4))
    assert ruins > 5


def test_fills_are_the_same_in_infos_rewards_vectors_and_of_several_agents() -> None:
    shown: list[tuple[Fill, ...]] = []

    class Watching:
        def __call__(self, step: RewardInput) -> float:
            shown.append(step.fills)
            assert len(step.fills) == step.curr.fills - step.prev.fills
            return 0.0

    settings: dict[str, Any] = {"warmup_ticks": 40, "max_ticks": 12, "actions": "discrete_limit"}
    env = TradingEnv(reward=Watching, **settings)
    vector = TradingVectorEnv(1, **settings)
    agents = SharedMarket({"a": {"actions": "discrete_limit"}}, {**settings, "actions": None})
    env.reset(seed=1)
    vector.reset(seed=1)
    agents.reset(seed=1)
    kinds = set()
    for action in (2, 4, 4, 3, 0, 4, 3, 3, 4, 2, 0, 4):
        info = env.step(action)[4]
        fills = info["fill_records"]
        assert shown[-1] == fills
        assert same(vector.step([action])[4]["fill_records"][0], fills)
        assert same(agents.step({"a": action})[4]["a"]["fill_records"], fills)
        assert same(pickle.loads(pickle.dumps(fills)), fills)
        assert all(isinstance(fill, Fill) and fill.tick == info["tick"] for fill in fills)
        kinds |= {fill.maker for fill in fills}
        assert info["fees"] == pytest.approx(sum(fill.fee for fill in fills))
    assert kinds == {True, False}


def test_gymnasiums_own_vectors_gather_fills_of_different_counts() -> None:
    settings: dict[str, Any] = {"warmup_ticks": 40, "max_ticks": 12}
    theirs = gym.vector.SyncVectorEnv([lambda: TradingEnv(**settings) for _ in range(3)])
    theirs.reset(seed=1)
    infos = theirs.step(np.array([0, 1, 2]))[4]
    sums = [sum(fill.shares for fill in fills) for fills in infos["fill_records"]]
    assert sums == [-100, 0, 100] == infos["position"].tolist()


def test_a_copy_keeps_fills_margin_and_borrowing() -> None:
    env = TradingEnv(initial_cash=9_000, order_size=500, warmup_ticks=40, max_ticks=200)
    env.reset(seed=1)
    for _ in range(50):
        info = env.step(0)[4]
    # 9,000 over a margin of one half is the value of fewer than 200 shares.
    assert -200 <= info["position"] <= -150
    twin = copy.deepcopy(env)
    for action in (1, 0, 2, 1) * 20:
        assert same(env.step(action), twin.step(action))
