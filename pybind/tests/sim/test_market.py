"""Markets from Python: equal seeds, orders, records, agents written in Python."""

from __future__ import annotations

import copy
import os
from typing import Any

import backcast as bc
import numpy as np
import pytest
from backcast import sim
from facts import missing
from waits import exit_code_of


def test_equal_seeds_give_equal_markets_and_a_reset_is_a_fresh_one() -> None:
    one, two = sim.Market("normal", seed=7), sim.Market("normal", seed=7)
    one.step(200)
    for _ in range(200):
        two.step()
    assert one.state_hash() == two.state_hash()
    assert sim.Market(seed=8).state_hash() != sim.Market(seed=7).state_hash()
    one.reset(9)
    assert (one.now, one.seed) == (0, 9)
    assert one.state_hash() == sim.Market(seed=9).state_hash()
    one.check()


def test_orders_of_a_slot_trade_rest_and_are_cancelled() -> None:
    market = sim.Market(seed=1)
    market.step(300)
    assert market.send("buy", 10) == 0
    market.step()
    account = market.account()
    assert account["positions"].tolist() == [10]
    assert account["bought"] == 10
    assert account["fees"] > 0
    bid = market.quotes()["bid"][0]
    assert market.send("buy", 5, int(bid) - 30, kind="post_only") == 1
    market.step()
    prices = market.book(levels=200)["bids"]
    assert prices.dtype == np.int32
    assert bid - 30 in prices[:, 0]
    before = prices[prices[:, 0] == bid - 30, 1][0]
    market.cancel_all()
    market.step()
    left = market.book(levels=200)["bids"]
    assert left[left[:, 0] == bid - 30, 1].sum() <= before - 5
    market.send("buy", 1_000)
    market.step()
    assert market.account()["refused"] == 1
    market.check()


def test_a_record_has_ticks_trades_and_candles_that_agree() -> None:
    config = sim.MarketConfig(symbols=2)
    market = sim.Market(config, seed=3)
    market.step(100)
    record = market.record(400)
    ticks, trades, candles = record["ticks"], record["trades"], record["candles"]
    assert ticks["tick"].tolist() == list(range(101, 501))
    assert all(ticks[name].shape == (2, 400) for name in ticks if name != "tick")
    for symbol in range(2):
        mine = trades["symbol"] == symbol
        traded = np.bincount(
            trades["tick"][mine] - 101, weights=trades["quantity"][mine], minlength=400
        )
        assert traded.tolist() == ticks["volume"][symbol].tolist()
        assert np.array_equal(candles["volume"][symbol], traded.reshape(-1, 4).sum(axis=1))
    assert set(trades["side"]) == {-1, 1}
    assert candles["tick"].tolist() == list(range(104, 501, 4))
    assert np.array_equal(candles["close"], ticks["last"][:, 3::4])
    assert (candles["high"] >= candles["close"]).all()
    assert (candles["low"] <= candles["open"]).all()
    both = (ticks["bid"] > 0) & (ticks["ask"] > 0)
    assert np.array_equal(ticks["mid"][both], (ticks["bid"] + ticks["ask"])[both] / 2)
    quotes = market.quotes()
    for name in quotes:
        assert np.array_equal(quotes[name], ticks[name][:, -1]), name


def test_features_have_names() -> None:
    market = sim.Market(seed=1)
    market.step(400)
    sets: list[tuple[Any, int]] = [("normalised", 40), ("full", 55)]
    for name, count in sets:
        features = market.observe(name)
        assert features.shape == (count,)
        assert features.dtype == np.float32
        assert len(sim.Market.feature_names(name)) == count
    full = dict(zip(market.feature_names("full"), market.observe("full"), strict=True))
    assert full["f_mid_price"] == pytest.approx(market.quotes()["mid"][0] * 0.01)


class Buyer:
    """Agent that buys ten shares every five ticks from tick 101 on, and records what it sees."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, int, float]] = []

    def reset(self) -> None:
        self.seen.clear()

    def act(self, floor: sim.Floor) -> int:
        if floor.now == 1:
            return 100
        self.seen.append((floor.now, floor.position(), floor.uniform()))
        floor.buy(10)
        return 5


def test_an_agent_of_python_trades_and_draws_by_the_seed() -> None:
    buyer = Buyer()
    market = sim.Market(seed=2, agents=[(buyer, {"cash": 10**9})])
    market.step(111)
    assert [now for now, _, _ in buyer.seen] == [101, 106, 111]
    assert [position for _, position, _ in buyer.seen] == [0, 10, 20]
    market.check()
    again = Buyer()
    other = sim.Market(seed=2, agents=[again])
    other.step(111)
    assert again.seen == buyer.seen
    market.reset(2)
    market.step(111)
    assert buyer.seen == again.seen
    twin = copy.deepcopy(market)
    twin.step(5)
    assert len(buyer.seen) == 3


def test_a_silent_agent_changes_nothing_for_the_others() -> None:
    class Silent:
        def act(self, floor: sim.Floor) -> None:
            assert floor.best_bid() is not None or floor.now < 10

    with_agent, without = sim.Market(seed=4, agents=[Silent()]), sim.Market(seed=4)
    assert np.array_equal(
        with_agent.record(300)["ticks"]["mid"], without.record(300)["ticks"]["mid"]
    )


def test_limit_orders_of_an_agent_rest_until_it_cancels_them() -> None:
    class Quoting:
        def act(self, floor: sim.Floor) -> int:
            floor.cancel_all()
            if floor.now < 50:
                # Farther from the price than any order of the background agents.
                self.mid = int(floor.mid())
                floor.buy(7, self.mid - 1_000)
                floor.sell(7, self.mid + 1_000)
            return 10

    agent = Quoting()
    market = sim.Market(seed=5, agents=[agent])

    def far_orders() -> list[list[int]]:
        levels = np.concatenate(list(market.book(levels=1_000).values()))
        far: list[list[int]] = levels[np.abs(levels[:, 0] - agent.mid) > 500].tolist()
        return far

    # The agent replaces its quotes in ticks 11, 21, 31 and 41, and cancels them in tick 51.
    for ticks in (41, 9):
        market.step(ticks)
        assert far_orders() == [[agent.mid - 1_000, 7], [agent.mid + 1_000, 7]]
    market.step()
    assert far_orders() == []
    market.check()


def test_what_an_agent_raises_is_raised_after_its_tick() -> None:
    class Failing:
        def act(self, floor: sim.Floor) -> None:
            if floor.now == 3:
                raise RuntimeError("three")

    market = sim.Market(seed=1, agents=[Failing()])
    with pytest.raises(RuntimeError, match="three"):
        market.step(10)
    assert market.now == 3
    market.check()


def test_an_agent_is_told_to_use_its_floor() -> None:
    holder: dict[str, Any] = {}

    class Reaching:
        def act(self, floor: sim.Floor) -> None:
            holder["floor"] = floor
            holder["market"].quotes()

    holder["market"] = sim.Market(seed=1, agents=[Reaching()])
    with pytest.raises(bc.errors.SimError, match=r"\bact\b"):
        holder["market"].step()
    with pytest.raises(bc.ClosedError):
        holder["floor"].mid()


def test_a_forked_child_goes_on_with_its_copy() -> None:
    market = sim.Market(seed=6)
    market.step(50)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        done = 1
        try:
            market.step(50)
            os.write(writer, market.state_hash().to_bytes(8, "little"))
            done = 0
        finally:
            os._exit(done)
    os.close(writer)
    assert exit_code_of(child) == 0
    received = os.read(reader, 8)
    os.close(reader)
    market.step(50)
    assert received == market.state_hash().to_bytes(8, "little")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda m: m.send("buy", 0), ["quantity", "0", "1"]),
        (lambda m: m.send("both", 1), ["side", '"both"', '"buy"', '"sell"']),
        (lambda m: m.send("buy", 1, kind="limit"), ["price", "None"]),
        (lambda m: m.send("buy", 1, symbol=1), ["symbol", "1", "0"]),
        (lambda m: m.send("buy", 1, slot=4), ["4"]),
        (lambda m: m.send("buy", 5_000), ["5000", "1000"]),
        (lambda m: m.step(-1), ["ticks", "-1"]),
        (lambda m: m.reset(-1), ["seed", "-1"]),
        (lambda m: m.observe("minimal"), ["features", '"minimal"', '"full"']),
        (lambda m: m.account(1), ["1"]),
        (lambda m: m.book(levels=0), ["levels", "0"]),
    ],
)
def test_calls_that_cannot_be_change_nothing(call: Any, words: list[str]) -> None:  # noqa: ANN401
    market = sim.Market(seed=1)
    before = market.state_hash()
    with pytest.raises(bc.errors.SimError) as error:
        call(market)
    assert missing(error.value, words) == []
    assert market.state_hash() == before
