"""Simulated markets against a plain model of docs/concepts/market-rules.md, tick by tick."""

from __future__ import annotations

from math import isclose
from typing import Any

import numpy as np
import pytest
from backcast import sim
from backcast.envs import TradingEnv
from budgets import budget
from market_model import features
from market_model.market import Market
from market_model.pair import Pair

PRESETS = ["calm", "normal", "stressed", "flash", "teaching"]
KINDS = ["maker", "noise", "value", "signal", "executor"]

# Random orders reach the position limits of all accounts. The last one can pay about 40 shares.
ACCOUNTS: list[dict[str, Any]] = [
    {"cash": 10**9, "shares": 0, "limits": {"long": 200, "short": 150, "order": 50}},
    {"cash": 10**9, "shares": 100, "limits": {"long": 300, "short": 150, "order": 50}},
    {"cash": 40_000_000, "shares": 0, "limits": {"long": 250, "short": 10, "order": 60}},
]


@pytest.mark.parametrize("preset", PRESETS)
def test_a_market_of_a_preset_equals_its_model_every_tick(preset: str) -> None:
    Pair(sim.MarketConfig.preset(preset), 3, ACCOUNTS, 40).run(budget(2_000))


@pytest.mark.parametrize("preset", ["normal", "teaching"])
@pytest.mark.parametrize("auction_ticks", [0, 13])
def test_days_with_auctions_and_nights_equal_their_model_every_tick(
    preset: str, auction_ticks: int
) -> None:
    config = sim.MarketConfig.preset(preset)
    config.session = sim.Session(
        ticks=90, u_shape=0.6, auction_ticks=auction_ticks, overnight_sd=0.004
    )
    config.fundamental.common = 0.3
    config.slots[0].account.limits = sim.Limits(long=400, short=400, order=100)
    Pair(config, 11, ACCOUNTS, 40).run(budget(600))


def test_auctions_in_a_narrow_window_of_prices_equal_their_model_every_tick() -> None:
    config = sim.MarketConfig.preset("normal")
    config.book_levels = 64
    config.session = sim.Session(ticks=60, auction_ticks=20)
    config.slots[0].account.limits = sim.Limits(long=400, short=400, order=100)
    # A price outside is drawn within the first 100 ticks.
    Pair(config, 12, ACCOUNTS, 40).run(max(budget(400), 100))


def without(*kinds: str) -> sim.MarketConfig:
    """Return the preset normal without some archetypes."""
    config = sim.MarketConfig.preset("normal")
    for kind in kinds:
        getattr(config.population, kind).count = 0
    return config


@pytest.mark.parametrize(
    ("maker", "taker"), [(0, 50), (-30, 170), (300, 20), (-15_000, 20_000), (20_000, 500)]
)
def test_accounts_at_their_limits_equal_their_model_every_tick(maker: int, taker: int) -> None:
    config = without(*KINDS)
    config.fees = sim.Fees(maker_ppm=maker, taker_ppm=taker, borrow_ppm_per_day=3_001)
    config.slots[0].account.cash = 30_000_000
    config.slots[0].account.limits.order = 100
    # Few shares to borrow, a narrow window of prices, and frequent news.
    config.lendable_shares = 200
    config.book_levels, config.book_orders = 64, 32
    config.news.symbol_per_day, config.news.market_per_day = 300, 100
    # Large fees use up the cash, so that several short runs reach the limits more often than one.
    for seed in range(4):
        Pair(config, seed, ACCOUNTS, 60).run(budget(200))


@pytest.mark.parametrize("kind", KINDS)
def test_a_single_agent_of_each_archetype_equals_its_model_every_tick(kind: str) -> None:
    config = without(*(other for other in KINDS if other != kind))
    agents = getattr(config.population, kind)
    agents.count, agents.wait = 1, 2.0
    Pair(config, 5, ACCOUNTS, 40).run(budget(300))


def test_a_maker_quotes_the_prices_worked_out_by_hand() -> None:
    config = without(*KINDS)
    config.population.maker.count = 1
    config.fundamental = sim.Fundamental(
        volatility=0, fast_sd=0, slow_sd=0, jumps_per_day=0, drift_per_day=0
    )
    config.news.symbol_per_day = config.news.market_per_day = 0
    config.latent.error_sd = 0
    market = sim.Market(config, seed=1)
    market.step()
    # v = 2.9, half-spread = 0.55 + 0.15 * 2.9 = 0.985, so 9999.015 and 10000.985 are rounded
    # outwards; the next levels are 1.1 ticks behind, and also rounded outwards.
    book = {side: quotes.tolist() for side, quotes in market.book().items()}
    assert book["bids"] == [[9_999, 80], [9_997, 120], [9_996, 160]]
    assert book["asks"] == [[10_001, 80], [10_003, 120], [10_004, 160]]
    market.send("buy", 200)
    market.step()
    # 80 shares at 10001 and 120 at 10003. 200 = 40 y + 80 y^2 / 2, so y = 1.791. The position of
    # -200 lifts the centre by 0.0015 * 200 = 0.3, to 10002.091. The mean squared change fell by a
    # sixtieth, so that the half-spread is 0.981.
    book = {side: quotes.tolist() for side, quotes in market.book().items()}
    assert book["bids"] == [[10_001, 80], [9_999, 120], [9_998, 160]]
    assert book["asks"] == [[10_004, 80], [10_006, 120], [10_007, 160]]
    assert market.account()["cash"] == 10**9 - 100 * (80 * 10_001 + 120 * 10_003) - 4_000 - 6_001


def test_money_is_what_was_worked_out_by_hand() -> None:
    class Seller:
        def act(self, floor: sim.Floor) -> int:
            floor.sell(10, 10_000)
            return 10**6

    def bought(cash: int, quantity: int) -> dict[str, Any]:
        config = without(*KINDS)
        config.fees = sim.Fees(maker_ppm=-25, taker_ppm=50, borrow_ppm_per_day=20)
        config.slots[0].account.cash = cash
        market = sim.Market(config, seed=1, agents=[Seller()])
        market.step()
        market.send("buy", quantity)
        market.step(59)
        return market.account()

    # 7 shares at 10000 ticks are 7,000,000 units; 50 parts per million of them are 350.
    assert bought(7_000_350, 7)["positions"].item() == 7
    assert bought(7_000_350, 7)["cash"] == 0
    assert bought(7_000_349, 7)["refused"] == 1


def test_borrowed_shares_cost_what_was_worked_out_by_hand() -> None:
    class Buyer:
        def act(self, floor: sim.Floor) -> int:
            floor.buy(10, 10_000)
            floor.sell(1, 10_001)
            return 10**6

    config = without(*KINDS)
    config.fees = sim.Fees(maker_ppm=0, taker_ppm=0, borrow_ppm_per_day=20)
    market = sim.Market(config, seed=1, agents=[Buyer()])
    market.step()
    market.send("sell", 7)
    for ticks, paid in [(1, 1), (166, 1), (1, 2), (166, 2), (1, 3)]:
        market.step(ticks)
        # 7 * 10,000.5 * 100 * 20 / 10^6 / 23,400 = 0.0059832 of a unit a tick: 167 ticks cost
        # 0.9992 and 168 cost 1.0052, rounded up.
        assert market.account()["borrowing"] == paid
        assert market.account()["cash"] == 10**9 + 7_000_000 - paid


@pytest.mark.parametrize("ppm", [500_000, 1_000_000, 300_000])
def test_a_slot_at_its_initial_margin_equals_its_model_every_tick(ppm: int) -> None:
    config = sim.MarketConfig.preset("normal")
    config.slots[0].initial_margin_ppm = ppm
    # The price of about 30 shares.
    config.slots[0].account.cash = 30_000_000
    refused = 0
    for seed in range(6):
        pair = Pair(config, seed, ACCOUNTS, 40)
        pair.run(budget(400))
        refused += pair.model.account()["refused"]
    assert refused > 0


@pytest.mark.parametrize("mark", ["liquidation", "mid"])
def test_a_trading_environment_shows_and_rewards_what_the_model_says(mark: Any) -> None:  # noqa: ANN401
    ticks, warmup = budget(300), 100
    env = TradingEnv(
        warm_snapshots=0,
        warmup_ticks=warmup,
        max_ticks=ticks,
        order_size=9,
        initial_shares=4,
        mark=mark,
    )
    worth = "equity" if mark == "mid" else mark
    names = [feature.name for feature in env.features]
    obs, info = env.reset(seed=5)
    config = sim.MarketConfig.preset("normal")
    config.slots[0].account.shares = 4
    model = Market(config.to_dict(), int(info["episode_seed"]))
    for _ in range(warmup):
        model.tick()
    draw = np.random.default_rng(4)
    start = before = model.account()[worth]
    fills = 0
    for step in range(1, ticks + 1):
        side = int(draw.integers(-1, 2))
        obs, reward, terminated, truncated, info = env.step(side + 1)

        def request(side: int = side) -> None:
            if side:
                across = model.book.best(-side)
                assert across is not None
                model.submit(0, side, 9, across + side * 50, "marketable")

        model.tick(request)
        seen = features.Indicators(model.tape.candles)
        public = features.normalised(model, seen)
        own = features.private(model, 1 - step / ticks)
        wanted = np.concatenate([public, own])
        for name, got, value in zip(names, obs, wanted, strict=True):
            assert isclose(got, value, rel_tol=1e-6, abs_tol=1e-7), (step, name, got, value)
        state = model.account()
        assert isclose(float(reward), (state[worth] - before) / start, abs_tol=1e-15)
        assert (info["position"], info["fills"]) == (state["position"], state["fills"] - fills)
        before, fills = state[worth], state["fills"]
        assert (terminated, truncated) == (False, step == ticks)
