"""Limit orders at any price and cancels by id: single, vector and several agents."""

from __future__ import annotations

from typing import Any

import backcast as bc
import gymnasium as gym
import numpy as np
import pytest
from backcast import sim
from backcast._native import SharedMarket
from backcast.envs import TradingEnv, TradingVectorEnv
from envs_worlds import same
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

N = 3
SHORT: dict[str, Any] = {"actions": "limit_orders", "warmup_ticks": 40, "max_ticks": 12}
BUY, SELL, CANCEL, CANCEL_ALL = 1, 2, 3, 4


def rows(*commands: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Return an action of up to four commands."""
    action = np.zeros((4, 4), np.int64)
    for at, command in enumerate(commands):
        action[at, : len(command)] = command
    return action


def scripted(step: int, lane: int = 0) -> np.ndarray[Any, Any]:
    """Return commands that place two orders a step and cancel the order of an earlier one."""
    return rows(
        (BUY, 9_930 + step + lane, 1 + lane), (SELL, 10_080 - lane, 2), (CANCEL, 0, 0, step)
    )


def test_an_order_has_an_id_rests_and_is_cancelled_by_it() -> None:
    env = TradingEnv(**SHORT)
    assert env.action_space.shape == (4, 4)
    assert env.action_space.dtype == np.int64
    assert isinstance(env.action_space, gym.spaces.Box)
    assert env.action_space.high[0].tolist() == [4, 2**31 - 1, 1_000, 2**53 - 1]
    _, info = env.reset(seed=1)
    assert (info["order_ids"] == -1).all()
    assert (info["open_orders"][:, 0] == -1).all()
    info = env.step(rows((BUY, 9_930, 5), (0,), (SELL, 10_080, 7)))[4]
    first, _, second, _ = info["order_ids"].tolist()
    assert info["order_ids"].dtype == info["open_orders"].dtype == np.int64
    assert info["open_orders"][:2].tolist() == [
        [first, 5, 9_930, info["tick"]],
        [second, -7, 10_080, info["tick"]],
    ]
    assert (info["open_orders"][2:, 0] == -1).all()
    bids, asks = env.book(levels=1_000)
    assert [99.3, 5] in bids.tolist()
    assert [100.8, 7] in asks.tolist()
    info = env.step(rows((CANCEL, 0, 0, first)))[4]
    assert info["open_orders"][:2, 0].tolist() == [second, -1]
    info = env.step(rows((CANCEL_ALL,)))[4]
    assert (info["open_orders"][:, 0] == -1).all()
    # Beyond the touch it trades on arrival, each share at the price of a resting order.
    info = env.step(rows((BUY, 10_090, 20)))[4]
    assert info["position"] == 20
    assert all(fill.price == round(fill.price, 2) for fill in info["fill_records"])


def test_fills_say_which_of_two_orders_at_one_price_traded() -> None:
    seller = {"initial_cash": 10.0**7, "short_limit": 20_000, "order_limit": 20_000}
    agents = {"a": {}, "b": seller}
    market = SharedMarket(
        {name: {"actions": "limit_orders", **own} for name, own in agents.items()},
        {"warmup_ticks": 40, "max_ticks": 12},
    )
    market.reset(seed=1)
    bids = rows((BUY, 9_930, 5), (BUY, 9_930, 6))
    infos = market.step({"a": bids, "b": rows()})[4]
    first, second, *_ = infos["a"]["order_ids"].tolist()
    market.step({"a": rows((CANCEL, 0, 0, first)), "b": rows()})
    infos = market.step({"a": rows(), "b": rows((SELL, 9_930, 20_000))})[4]
    fills = infos["a"]["fill_records"]
    assert {fill.order for fill in fills} == {second}
    assert sum(fill.shares for fill in fills) == 6
    assert all(fill.maker and fill.price == 99.3 for fill in fills)
    sold = {fill.order for fill in infos["b"]["fill_records"]}
    assert sold == {infos["b"]["order_ids"][0]}


@pytest.mark.parametrize("latency", [0, 2, 5])
def test_a_refused_command_is_named_in_its_row_on_its_arrival(latency: int) -> None:
    env = TradingEnv(initial_cash=1_050, frame_skip=2, latency_ticks=latency, **SHORT)
    env.reset(seed=1)
    far = 2**40
    first = env.step(rows((CANCEL, 0, 0, far), (BUY, 9_930, 6), (0,), (BUY, 9_930, 6)))[4]
    _, bid, _, refused = first["order_ids"].tolist()
    infos = [first]
    infos.extend(env.step(rows((CANCEL, 0, 0, bid), (CANCEL_ALL,)))[4] for _ in range(1))
    infos.extend(env.step(rows())[4] for _ in range(4))
    named = [info["refused_ids"].tolist() for info in infos]
    nothing = [-1] * 4
    arrival = latency // 2
    assert named == [
        *[nothing] * arrival,
        [far, -1, -1, refused],
        *[nothing] * (5 - arrival),
    ]
    assert [info["refused"] for info in infos] == [2 * (at == arrival) for at in range(6)]
    assert infos[-1]["order_ids"].tolist() == nothing


def test_action_masks_are_refused_in_the_words_of_limit_orders() -> None:
    env = TradingEnv(**SHORT)
    env.reset(seed=1)
    with pytest.raises(bc.errors.EnvError, match=r"\blimit orders\b.*\bactions\b"):
        env.action_masks()


def test_open_orders_carry_over_cash_and_equity() -> None:
    env = TradingEnv(initial_cash=1_050, **SHORT)
    env.reset(seed=1)
    info = env.step(rows((BUY, 9_930, 6), (BUY, 9_930, 6)))[4]
    assert (info["refused"], (info["open_orders"][:, 0] >= 0).sum()) == (1, 1)
    assert info["equity"] == 1_050
    info = env.step(rows((BUY, 0, 5), (SELL, 9_000, 0)))[4]
    assert (info["masked"], info["order_ids"].tolist()) == (2, [-1] * 4)


@pytest.mark.parametrize("symbols", [1, 2])
def test_each_lane_is_a_single_environment_bit_for_bit(symbols: int) -> None:
    config = sim.MarketConfig.preset("normal")
    config.symbols = symbols
    settings: dict[str, Any] = {**SHORT, "market": config, "latency_ticks": 2}
    envs = TradingVectorEnv(N, autoreset_mode="same_step", **settings)
    singles = [TradingEnv(**settings) for _ in range(N)]
    axis = (symbols,) if symbols > 1 else ()
    assert envs.single_action_space.shape == (*axis, 4, 4)
    envs.reset(seed=40)
    for at, env in enumerate(singles):
        env.reset(seed=40 + at)
    seen = 0
    for step in range(30):
        actions = np.array(
            [np.broadcast_to(scripted(step, lane), (*axis, 4, 4)) for lane in range(N)]
        )
        assert actions in envs.action_space
        infos = envs.step(actions if step % 2 else actions.reshape(N, -1))[4]
        for at, env in enumerate(singles):
            *_, truncated, info = env.step(actions[at])
            shown = infos["final_info"] if truncated else infos
            for name in ("order_ids", "refused_ids", "open_orders", "masked", "refused", "equity"):
                assert np.array_equal(shown[name][at], info[name]), name
                assert shown[f"_{name}"][at]
            assert info["open_orders"].shape == (*axis, 8, 4)
            seen += int((info["open_orders"][..., 0] >= 0).sum())
            if truncated:
                env.reset()
                assert (infos["open_orders"][at, ..., 0] == -1).all()
    assert seen > 50


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_it_is_what_gymnasium_makes_of_single_ones(mode: AutoresetMode) -> None:
    native = TradingVectorEnv(N, autoreset_mode=mode, **SHORT)
    theirs = gym.vector.SyncVectorEnv(
        [lambda: TradingEnv(**SHORT) for _ in range(N)], autoreset_mode=mode
    )
    assert native.action_space == theirs.action_space
    assert same(native.reset(seed=3)[0], theirs.reset(seed=3)[0])
    for step in range(30):
        actions = np.array([scripted(step, lane) for lane in range(N)])
        *here, infos = native.step(actions)
        *there, gathered = theirs.step(actions)
        assert same(here, there)
        for name in ("order_ids", "_order_ids", "refused_ids", "_refused_ids", "open_orders"):
            assert same(infos[name], gathered[name]), name
            if "final_info" in gathered:
                assert same(infos["final_info"][name], gathered["final_info"][name]), name


def test_an_agent_that_is_terminated_leaves_no_open_orders_to_the_others() -> None:
    settings: dict[str, Any] = {"warmup_ticks": 40, "max_ticks": 200, "maintenance_margin": 0}
    poor = {"actions": "limit_orders", "initial_cash": 40.0, "long_limit": 0}
    market = SharedMarket(
        {"poor": poor, "other": {"actions": "limit_orders"}}, {**settings, "initial_margin": 0}
    )
    market.reset(seed=1)
    quiet = rows()
    for step in range(50):
        # Each round trip costs the spread, its own impact and fees.
        churn = (BUY, 10_300, 800) if step % 2 else (SELL, 9_600, 800)
        begin = rows((SELL, 10_400, 3), (SELL, 10_410, 5), (SELL, 9_600, 900))
        action = rows(churn) if step else begin
        *_, terminations, _, infos = market.step({"poor": action, "other": quiet})
        if terminations["poor"]:
            break
    assert terminations["poor"]
    resting = infos["poor"]["open_orders"]
    prices = {price / 100 for order, _, price, _ in resting.tolist() if order >= 0}
    assert prices
    assert prices <= set(market.book(0, 1_000)[1][:, 0].tolist())
    market.step({"other": rows((BUY, 9_900, 3))})
    assert not prices & set(market.book(0, 1_000)[1][:, 0].tolist())


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (rows((5,)), r"\bcommand\b.*\b5\b.*\b4\b"),
        (rows((1, -1, 1)), r"\bprice\b.*-1\b"),
        (rows((1, 10_000, 1_001)), r"\bshares\b.*\b1001\b.*\b1000\b"),
        (rows((3, 0, 0, -1)), r"\bid\b.*-1\b"),
        (np.full((4, 4), 0.5), r"0\.5"),
        (np.zeros((3, 4)), r"\(4, 4\)"),
    ],
    ids=["command", "price", "shares", "id", "fraction", "shape"],
)
def test_bad_commands_change_nothing(action: Any, words: str) -> None:  # noqa: ANN401
    env, twin = TradingEnv(**SHORT), TradingEnv(**SHORT)
    env.reset(seed=1)
    twin.reset(seed=1)
    with pytest.raises(bc.errors.EnvError, match=words):
        env.step(action)
    assert same(env.step(scripted(1)), twin.step(scripted(1)))


def test_settings_of_commands_are_checked_and_shape_the_action() -> None:
    env = TradingEnv(commands=2, **SHORT)
    assert env.action_space.shape == (2, 4)
    env.reset(seed=1)
    assert env.step(np.zeros((2, 4)))[4]["order_ids"].tolist() == [-1, -1]
    for bad in (0, 17):
        with pytest.raises(bc.errors.EnvError, match=rf"\bcommands\b.*\b{bad}\b"):
            TradingEnv(commands=bad, **SHORT)
    with pytest.raises(bc.errors.EnvError, match=r"\b80\b.*\b64\b"):
        TradingEnv(commands=16, latency_ticks=4, **SHORT)


def test_gymnasium_accepts_it_and_a_ring_stores_its_actions() -> None:
    check_env(TradingEnv(**SHORT), skip_render_check=True)
    envs = TradingVectorEnv(2, **SHORT)
    spaces = envs.single_observation_space, envs.single_action_space
    ring = bc.ReplayBuffer.create(None, bc.Schema.from_spaces(*spaces), capacity=100, lanes=2)
    with ring.writer(env=envs) as writer:
        collector = bc.envs.Collector(envs, writer)
        collector.reset(seed=1)
        for step in range(5):
            collector.step(np.array([scripted(step), scripted(step, 1)]))
    assert ring.sample(4)["action"].shape == (4, 4, 4)
