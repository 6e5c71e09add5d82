"""Ends of transitions: samples have `terminated` and `truncated` beside FastFinRL's `done`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import backcast.finrl as ff
import numpy as np
import pytest
from finrl_golden import near

KINDS = ["goes on", "terminated", "truncated", "both"]
DAYS = 30


@pytest.fixture
def crash(tmp_path: Path) -> Path:
    """Write one ticker whose price falls from 100 to 50 on day 10, and to 10 on the last day."""
    lines = ["date,tic,open,high,low,close,volume"]
    for day, date in enumerate(np.arange("2024-01-01", DAYS, dtype="datetime64[D]")):
        price = 100.0 if day < 10 else 50.0 if day < DAYS - 1 else 10.0
        lines.append(f"{date},AAA,{price},{price},{price},{price},100")
    path = tmp_path / "crash.csv"
    path.write_text("\n".join(lines))
    return path


SETTINGS: dict[str, Any] = {
    "hmax": 300,
    "failure_threshold": 20_000.0,
    "stop_loss_tolerance": 0.0,
    "buy_cost_pct": 0.0,
}
# Start day and action of each kind of transition. The action 1 buys up to 300 shares, which lose
# half of their value or more.
STARTS = {"goes on": (5, 0.0), "terminated": (9, 1.0), "truncated": (28, 0.0), "both": (28, 1.0)}
FLAGS = {"terminated": [False, True, False, True], "truncated": [False, False, True, True]}


@pytest.mark.parametrize("mode", ["same_step", "next_step", "disabled"])
def test_the_wrappers_samples_say_what_its_steps_said(crash: Path, mode: Any) -> None:  # noqa: ANN401
    envs = ff.VecFinRLWrapper(
        crash, 100, history_length=2, n_envs=4, autoreset_mode=mode, bidding="default", **SETTINGS
    )
    envs.reset(seed=1, options={"start_day": [STARTS[kind][0] for kind in KINDS]})
    actions = np.array([[[STARTS[kind][1]] * 2] for kind in KINDS])
    _, _, terminated, truncated, _ = envs.step(actions)
    assert terminated.tolist() == FLAGS["terminated"]
    assert truncated.tolist() == FLAGS["truncated"]
    _, _, _, next_obs, done, _, _ = envs.sample_buffer(64)
    s, _, _, s_next, done_again, *_ = envs.buffer.sample(indices=range(4), layout="batched")
    assert done_again.tolist() == (terminated | truncated).tolist()
    for key, expected in FLAGS.items():
        assert s_next[key].tolist() == expected
        assert s_next[key].dtype == next_obs[key].dtype == bool
        assert key not in s
    assert ((next_obs["terminated"] | next_obs["truncated"]) == done).all()
    by_ticker = envs.buffer.sample(indices=range(4))[3]
    assert by_ticker["truncated"].tolist() == FLAGS["truncated"]
    stored = [envs.buffer.get(index) for index in range(4)]
    assert [one.terminated for one in stored] == FLAGS["terminated"]
    assert [one.truncated for one in stored] == [one.terminal for one in stored]


def test_a_limit_of_steps_truncates(crash: Path) -> None:
    envs = ff.VecFinRLWrapper(crash, 100, history_length=0, n_envs=2, max_episode_steps=5)
    envs.reset(seed=1)
    for _ in range(5):
        _, _, terminated, truncated, _ = envs.step(np.zeros((2, 1, 2)))
    assert truncated.all()
    assert not terminated.any()
    _, _, _, s_next, done, *_ = envs.buffer.sample(indices=range(10))
    assert done.sum() == 2
    assert (s_next["truncated"] == done).all()
    assert not s_next["terminated"].any()


@pytest.mark.parametrize("form", ["vec", "json"])
def test_states_of_the_plain_classes_bring_both(crash: Path, form: Any, tmp_path: Path) -> None:  # noqa: ANN401
    env = ff.VecFastFinRL(crash, 4, return_format=form, **SETTINGS)
    buffer = ff.VecReplayBuffer(env, 100)
    state = env.reset(seed=1, options={"start_day": [STARTS[kind][0] for kind in KINDS]})
    actions = np.array([[STARTS[kind][1]] for kind in KINDS])
    after = env.step(actions)
    vec = form == "vec"
    done = after["done"] if vec else [row["done"] for row in after]
    buffer.add(state, actions, np.zeros(4), after, done)
    buffer.save(tmp_path / "saved")
    other = ff.VecReplayBuffer(env, 100)
    other.load(tmp_path / "saved")
    for of in (buffer, other):
        s_next = of.sample(indices=range(4))[3]
        for key, expected in FLAGS.items():
            assert s_next[key].tolist() == expected
    # `out` refills the end flags too.
    out = buffer.sample(indices=[0, 1])
    assert buffer.sample(indices=[2, 3], out=out) is out
    assert out[3]["truncated"].tolist() == [True, True]
    assert out[4].tolist() == [True, True]


def test_the_single_buffer_says_both(crash: Path) -> None:
    env = ff.FastFinRL(crash, **SETTINGS)
    buffer = ff.ReplayBuffer(env, 10)
    for kind in KINDS:
        day, action = STARTS[kind]
        state = env.reset(options={"start_day": day})
        after = env.step([action])
        buffer.add(state, [action], 0.0, after, after["done"])
    s_next = buffer.sample(indices=range(4))[3]
    for key, expected in FLAGS.items():
        assert s_next[key].tolist() == expected


def test_states_with_done_and_terminal_alone_are_read_as_before(crash: Path) -> None:
    env = ff.VecFastFinRL(crash, 3, return_format="vec", **SETTINGS)
    buffer = ff.VecReplayBuffer(env, 100)
    state = env.reset(seed=1)
    after = env.step(np.zeros((3, 1)))
    plain = {key: after[key] for key in ("day", "cash", "shares", "avg_buy_price", "tickers")}
    plain["terminal"] = [False, False, True]
    buffer.add(state, np.zeros((3, 1)), np.zeros(3), plain, [False, True, True])
    s_next = buffer.sample(indices=range(3))[3]
    assert s_next["terminated"].tolist() == [False, True, False]
    assert s_next["truncated"].tolist() == [False, False, True]


def test_an_order_and_a_stop_loss_of_one_ticker_add_up(crash: Path) -> None:
    env = ff.FastFinRL(crash, hmax=100, stop_loss_tolerance=0.8, failure_threshold=0.0)
    env.reset(options={"start_day": 8})
    env.step([0.67])
    env.step([0.0])
    # On day 10 the price has halved: one more share is bought, and a stop loss sells all.
    state = env.step([0.01])
    debug = state["debug"]["AAA"]
    assert (debug["quantity"], debug["fill_price"]) == (-67, 50.0)
    near(debug["cost"], 0.01 * 50 * (1 + 68))
    assert state["info"]["n_trades"] == 69


def test_deterministic_is_another_name_of_the_default_bidding(crash: Path) -> None:
    one, other = (ff.FastFinRL(crash, bidding=word) for word in ("default", "deterministic"))
    for env in (one, other):
        env.reset(seed=1, options={"start_day": 3})
    assert one.step([0.5])["portfolio"] == other.step([0.5])["portfolio"]
    assert other.bidding == "deterministic"


def test_a_seed_of_the_wrapper_is_gymnasiums(crash: Path) -> None:
    def days(**arguments: Any) -> list[int]:  # noqa: ANN401
        envs = ff.VecFinRLWrapper(crash, 10, history_length=0, n_envs=3)
        obs, _ = envs.reset(**arguments)
        assert set(obs) >= {"portfolio"}
        return [int(day) for day in envs.env.get_state()["day"]]

    several = [days(seed=seed) for seed in range(20)]
    assert several == [days(seed=[seed, seed + 1, seed + 2]) for seed in range(20)]
    assert len({tuple(each) for each in several}) > 10
