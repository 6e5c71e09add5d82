"""Refusals of a buffer: rows, states, requests, settings, names, and all calls once closed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import backcast.finrl as ff
import numpy as np
import pytest
from backcast.errors import (
    AppendError,
    ArgumentError,
    ArgumentTypeError,
    BackcastError,
    ClosedError,
    SampleError,
    SchemaError,
)
from finrl_buffers import collect, filled, vec, with_gaps
from finrl_market import market


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return with_gaps(tmp_path)


@pytest.fixture
def env(path: Path) -> ff.VecFastFinRL:
    return vec(path)


@pytest.fixture
def buffer(env: ff.VecFastFinRL) -> Iterator[ff.VecReplayBuffer]:
    with filled(env) as made:
        yield made


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"actions": np.zeros((4, 3))}, r"actions: got shape \(4, 3\); give \(4, 2\)"),
        ({"actions": np.zeros(8)}, r"actions: got shape \(8,\); give \(4, 2\)"),
        ({"actions": np.zeros((3, 2))}, r"actions: got shape \(3, 2\)"),
        ({"actions": np.full((4, 2), np.nan)}, r"action of environment 0 is NaN; give finite"),
        ({"rewards": [1, 2, np.inf, 4]}, "reward of environment 2 is inf"),
        ({"rewards": np.zeros(3)}, r"rewards: got shape \(3,\)"),
        ({"rewards": ["a"] * 4}, "rewards: got <U1 values"),
        (
            {"rewards": np.ma.array(np.zeros(4))},
            "rewards: got a masked array, .*; give the array that filled",
        ),
        ({"actions": np.ma.array(np.zeros((4, 2)), mask=True)}, "actions: got a masked array"),
        ({"dones": np.ma.array([False] * 4, mask=True)}, "dones: got a masked array"),
        ({"dones": np.zeros(5, bool)}, r"dones: got shape \(5,\); give \(4,\)"),
        ({"dones": [0.5] * 4}, "dones: got float64 values"),
        ({"states": {}}, r"states has no 'day'"),
        ({"states": []}, "states is empty; give one state"),
        ({"states": 7}, "states is a int; give the dict"),
        ({"states": [{"day": 1}] * 4}, r"states\[0\] has no cash; give"),
        ({"next_states": {"day": np.zeros(4, int)}}, "next_states has no 'cash'"),
    ],
)
def test_invalid_transitions_are_refused_and_not_added(
    env: ff.VecFastFinRL,
    buffer: ff.VecReplayBuffer,
    change: dict[str, Any],
    message: str,
) -> None:
    state = env.reset(seed=1)
    after = env.step(np.zeros((4, 2)))
    given = {
        "states": state,
        "actions": np.zeros((4, 2)),
        "rewards": np.zeros(4),
        "next_states": after,
        "dones": np.zeros(4, bool),
    }
    with pytest.raises(AppendError, match=message):
        buffer.add(**(given | change))
    assert buffer.size() == 80


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("day", np.array([0, 60, 0, 0]), "state 1 is on day 60, but the panel has days 0 to 59"),
        ("day", np.array([0, -1, 0, 0]), "state 1 is on day -1"),
        ("day", np.array([0, 2**40, 0, 0]), "states.'day'.: got 1099511627776; give whole"),
        ("day", np.array([0.5, 0, 0, 0]), "states.'day'.: got 0.5; give whole"),
        ("cash", np.array([0, 0, np.nan, 0]), "cash of environment 2 is NaN"),
        ("shares", np.zeros((4, 3), int), r"states\['shares'\]: got shape \(4, 3\); give \(4, 2\)"),
        ("tickers", [["AAA", "BBB"]] * 3, r"states\['tickers'\] has 3 lists; give 4"),
        ("tickers", [["AAA"]] * 4, r"states\['tickers'\] has a list of 1 names; give 2"),
        ("tickers", [["AAA", "AAB"]] * 4, r"names 'AAB', which the panel lacks \(it has 'AAA'\)"),
        ("tickers", [["AAA", "AAA"]] * 4, 'state 0 holds "AAA" twice'),
        ("tickers", "AAA", "states.'tickers'. is 'AAA'"),
        ("cash", np.ma.array(np.ones(4), mask=True), "states.'cash'.: got a masked array"),
        (
            "tokens",
            np.array([[1, 9]] * 4),
            "state 0 holds token 9, but the panel has tickers 1 to 5",
        ),
    ],
)
def test_states_that_are_not_the_markets_are_refused(
    env: ff.VecFastFinRL,
    buffer: ff.VecReplayBuffer,
    key: str,
    value: Any,  # noqa: ANN401
    message: str,
) -> None:
    state = env.reset(seed=1)
    after = env.step(np.zeros((4, 2)))
    if key == "tickers":
        # Both states are of the same ones.
        after |= {key: value}
    with pytest.raises(AppendError, match=message):
        buffer.add(state | {key: value}, np.zeros((4, 2)), np.zeros(4), after, np.zeros(4, bool))
    assert buffer.size() == 80


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda b: b.sample(0), SampleError, "batch_size is 0; give"),
        (lambda b: b.sample(-3), SampleError, "batch_size is -3; give"),
        (lambda b: b.sample("4"), ArgumentError, "batch_size is '4'"),
        (lambda b: b.sample(4, -1), SampleError, "history_length is -1; give"),
        (lambda b: b.sample(4, 0, 2.5), ArgumentError, "future_length is 2.5"),
        (
            lambda b: b.sample(4, 2**31),
            SampleError,
            f"the window is {2**31 + 1} days, of a panel",
        ),
        (lambda b: b.sample(4, layout="flat"), ArgumentError, "layout is 'flat'; give"),
        (lambda b: b.sample(4, copy=1), ArgumentError, "copy is 1; give"),
        (lambda b: b.sample(indices=[80]), SampleError, "index 80 is outside the 80"),
        (lambda b: b.sample(indices=[-1]), SampleError, "index -1 is outside"),
        (lambda b: b.sample(indices=[0.5]), SampleError, "indices: got float64"),
        (lambda b: b.sample(out={}), ArgumentError, "out is {}, a dict; give what sample"),
        (lambda b: b.sample_indices(0), SampleError, "batch_size is 0"),
        (lambda b: b.get(80), SampleError, "index 80 is outside the 80 transitions stored"),
        (lambda b: b.get(10**30), SampleError, f"index {10**30} is outside the 80 .* 0 to 79"),
        (lambda b: b.get("x"), ArgumentError, "index is 'x'"),
        (lambda b: b.save(""), ArgumentError, "path is ''; give the path of a file"),
        (lambda b: b.load(""), ArgumentError, "path is ''; give the path of a file"),
        (lambda b: b.get_market_data(0, -1, 0), SampleError, "h is -1; give"),
        (lambda b: b.get_market_data(0, 1, 0, 1), ArgumentError, "next_state is 1; give"),
        (lambda b: b.get(indx=1), ArgumentError, r"did you mean `index`\?"),
    ],
)
def test_bad_requests_name_value_and_remedy(
    buffer: ff.VecReplayBuffer,
    call: Any,  # noqa: ANN401
    error: Any,  # noqa: ANN401
    message: str,
) -> None:
    with pytest.raises(error, match=message):
        call(buffer)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"capacity": 0}, "capacity is 0; give"),
        ({"capacity": "many"}, "capacity is 'many'"),
        ({"batch_size": 0}, "batch_size is 0; give"),
        ({"seed": -2}, "seed is -2; give"),
        ({"action_shape": (2, 0)}, r"action_shape is \(2, 0\), a tuple; give"),
        ({"action_shape": "x"}, "action_shape is 'x'"),
        ({"action_shape": True}, "action_shape is True, a bool; give a tuple of whole numbers"),
        ({"action_shape": (2, True)}, r"action_shape is \(2, True\), a tuple; give"),
        ({"action_shape": np.array([True, True])}, "action_shape is array.*; give a tuple"),
        ({"action_shape": [2, 1.5]}, r"action_shape is \[2, 1.5\], a list; give"),
        ({"n_objectives": 0}, "n_objectives is 0; give"),
        ({"threads": 0}, "threads is 0; give"),
        ({"n_adders": 3, "capacity": 2}, "capacity is 2 for 3 adding processes"),
        ({"capacty": 5}, r"did you mean `capacity`\?"),
    ],
)
def test_buffers_that_cannot_be_are_refused(
    env: ff.VecFastFinRL, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(BackcastError, match=message):
        ff.VecReplayBuffer(env, **settings)
    with pytest.raises(ArgumentError, match="env is a dict and has no panel; give a FastFinRL"):
        ff.VecReplayBuffer({})


def test_a_refused_first_addition_leaves_the_sizes(env: ff.VecFastFinRL) -> None:
    buffer = ff.VecReplayBuffer(env, 20)
    state = env.reset([["AAA", "BBB", "DDD"]] * 4, seed=1)
    after = env.step(np.zeros((4, 3)))
    with pytest.raises(AppendError, match="action of environment 0 is NaN"):
        buffer.add(state, np.full((4, 3), np.nan), np.zeros((4, 5)), after, after["done"])
    with pytest.raises(AppendError, match=r"rewards: got shape \(3, 5\); give \(4, 5\)"):
        buffer.add(state, np.zeros((4, 3)), np.zeros((3, 5)), after, after["done"])
    flat = state | {"shares": np.zeros(4, int)}
    with pytest.raises(AppendError, match=r"'shares'\]: got shape \(4,\); give \(4, 2\)"):
        buffer.add(flat, np.zeros((4, 3)), np.zeros(4), after, after["done"])
    assert (buffer.action_shape, buffer.n_objectives, buffer.size()) == ((2,), 1, 0)
    buffer.add(state, np.zeros((4, 3)), np.zeros((4, 5)), after, after["done"])
    assert (buffer.action_shape, buffer.n_objectives, buffer.size()) == ((3,), 5, 4)


def test_a_refused_file_leaves_the_sizes(env: ff.VecFastFinRL, tmp_path: Path) -> None:
    saved, buffer = ff.VecReplayBuffer(env, 21, n_adders=2), ff.VecReplayBuffer(env, 20)
    state = env.reset([["AAA", "BBB", "DDD"]] * 4, seed=1)
    after = env.step(np.zeros((4, 3)))
    saved.add(state, np.zeros((4, 3)), np.zeros(4), after, after["done"])
    saved.save(tmp_path / "saved")
    with pytest.raises(SchemaError, match="2 adding processes and capacity 21"):
        buffer.load(tmp_path / "saved")
    assert (buffer.action_shape, buffer.size()) == ((2,), 0)


def test_a_ticker_called_as_a_part_of_the_batch_needs_the_other_layout(tmp_path: Path) -> None:
    env = vec(market(20, ["AAA", "macro"]).write(tmp_path / "odd.csv"), macro_tickers=[])
    buffer = ff.VecReplayBuffer(env, 20)
    collect(env, buffer, 3)
    with pytest.raises(SampleError, match=r"called 'macro'.*; give layout='batched'"):
        buffer.sample(2)
    assert buffer.sample(2, 1, layout="batched")[0]["ohlcv"].shape == (2, 2, 1, 5)


def test_an_empty_buffer_has_no_index(env: ff.VecFastFinRL) -> None:
    buffer = ff.VecReplayBuffer(env, 20)
    calls: list[Any] = [lambda: buffer.get(0), lambda: buffer.sample(indices=[0])]
    for call in calls:
        with pytest.raises(SampleError) as raised:
            call()
        says = "index 0 names no transition: the buffer is empty; add transitions first"
        assert str(raised.value) == says


def test_a_closed_buffer_says_so_and_shows_what_it_was(buffer: ff.VecReplayBuffer) -> None:
    assert repr(buffer) == (
        "<backcast.finrl.VecReplayBuffer: a private buffer, 80/200 transitions>"
    )
    buffer.close()
    buffer.close()
    calls: list[Any] = [buffer.sample, buffer.size, buffer.clear, lambda: buffer.get(0)]
    for call in calls:
        with pytest.raises(ClosedError, match="a private buffer is closed; attach or make it"):
            call()
    assert repr(buffer) == "<backcast.finrl.VecReplayBuffer: a private buffer, closed>"


def test_misspelt_arguments_are_named_as_the_user_wrote_the_call(
    buffer: ff.VecReplayBuffer, tmp_path: Path
) -> None:
    unchecked: Any = buffer
    with pytest.raises(ArgumentTypeError, match=r"sample\(\) has no argument `batch`; did you"):
        unchecked.sample(batch=3)
    with pytest.raises(ArgumentTypeError, match=r"add\(\) has no argument `state`; did you mean"):
        unchecked.add(state={})
    for name in ("size", "capacity", "clear", "close", "unlink"):
        with pytest.raises(ArgumentTypeError, match=rf"{name}\(\) takes no arguments by position"):
            getattr(unchecked, name)(1)
        with pytest.raises(ArgumentTypeError, match=rf"{name}\(\) has no argument `all`"):
            getattr(unchecked, name)(all=True)
    assert buffer.size() == 80
    with pytest.raises(ArgumentTypeError, match=r"`batchsize`; did you .* It takes \(name, env"):
        type(unchecked).attach("x", batchsize=3, dir=tmp_path)
