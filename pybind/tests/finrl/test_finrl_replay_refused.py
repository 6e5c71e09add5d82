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
        ({"actions": np.zeros((4, 3))}, r"\bactions\b.*\b4\b.*\b3\b.*\b4\b.*\b2\b"),
        ({"actions": np.zeros(8)}, r"\bactions\b.*\(8,\).*\b4\b.*\b2\b"),
        ({"actions": np.zeros((3, 2))}, r"\bactions\b.*\b3\b.*\b2\b"),
        ({"actions": np.full((4, 2), np.nan)}, r"\b0\b.*\bNaN\b"),
        ({"rewards": [1, 2, np.inf, 4]}, r"\b2\b.*\binf\b"),
        ({"rewards": np.zeros(3)}, r"\brewards\b.*\(3,\)"),
        ({"rewards": ["a"] * 4}, r"\brewards\b.*<U1"),
        (
            {"rewards": np.ma.array(np.zeros(4))},
            r"\brewards\b",
        ),
        ({"actions": np.ma.array(np.zeros((4, 2)), mask=True)}, r"\bactions\b"),
        ({"dones": np.ma.array([False] * 4, mask=True)}, r"\bdones\b"),
        ({"dones": np.zeros(5, bool)}, r"\bdones\b.*\(5,\).*\(4,\)"),
        ({"dones": [0.5] * 4}, r"\bdones\b.*\bfloat64\b"),
        ({"states": {}}, r"\bstates\b.*'day'"),
        ({"states": []}, r"\bstates\b"),
        ({"states": 7}, r"\bstates\b"),
        ({"states": [{"day": 1}] * 4}, r"states\[0\]"),
        ({"next_states": {"day": np.zeros(4, int)}}, r"\bnext_states\b.*'cash'"),
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
        ("day", np.array([0, 60, 0, 0]), r"\b1\b.*\b60\b.*\b0\b.*\b59\b"),
        ("day", np.array([0, -1, 0, 0]), r"\b1\b.*-1\b"),
        ("day", np.array([0, 2**40, 0, 0]), r"states.'day'.*\b1099511627776\b"),
        ("day", np.array([0.5, 0, 0, 0]), r"states.'day'.*0.5"),
        ("cash", np.array([0, 0, np.nan, 0]), r"\b2\b.*\bNaN\b"),
        ("shares", np.zeros((4, 3), int), r"states\['shares'\].*\b4\b.*\b3\b.*\b4\b.*\b2\b"),
        ("tickers", [["AAA", "BBB"]] * 3, r"states\['tickers'\].*\b3\b.*\b4\b"),
        ("tickers", [["AAA"]] * 4, r"states\['tickers'\].*\b1\b.*\b2\b"),
        ("tickers", [["AAA", "AAB"]] * 4, r"'AAB'.*'AAA'"),
        ("tickers", [["AAA", "AAA"]] * 4, r'\b0\b.*"AAA"'),
        ("tickers", "AAA", r"states.'tickers'.*'AAA'"),
        ("cash", np.ma.array(np.ones(4), mask=True), "states.'cash'"),
        (
            "tokens",
            np.array([[1, 9]] * 4),
            r"\b0\b.*\b9\b.*\b1\b.*\b5\b",
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
        # `add` requires equal tickers in both states.
        after |= {key: value}
    with pytest.raises(AppendError, match=message):
        buffer.add(state | {key: value}, np.zeros((4, 2)), np.zeros(4), after, np.zeros(4, bool))
    assert buffer.size() == 80


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda b: b.sample(0), SampleError, r"\bbatch_size\b.*\b0\b"),
        (lambda b: b.sample(-3), SampleError, r"\bbatch_size\b.*-3\b"),
        (lambda b: b.sample("4"), ArgumentError, r"\bbatch_size\b.*'4'"),
        (lambda b: b.sample(4, -1), SampleError, r"\bhistory_length\b.*-1\b"),
        (lambda b: b.sample(4, 0, 2.5), ArgumentError, r"\bfuture_length\b.*2.5"),
        (
            lambda b: b.sample(4, 2**31),
            SampleError,
            rf"\b{2**31}\b",
        ),
        (lambda b: b.sample(4, layout="flat"), ArgumentError, r"\blayout\b.*'flat'"),
        (lambda b: b.sample(4, copy=1), ArgumentError, r"\bcopy\b.*\b1\b"),
        (lambda b: b.sample(indices=[80]), SampleError, r"\b80\b.*\b80\b"),
        (lambda b: b.sample(indices=[-1]), SampleError, r"-1\b"),
        (lambda b: b.sample(indices=[0.5]), SampleError, r"\bindices\b.*\bfloat64\b"),
        (lambda b: b.sample(out={}), ArgumentError, r"\bout\b"),
        (lambda b: b.sample_indices(0), SampleError, r"\bbatch_size\b.*\b0\b"),
        (lambda b: b.get(80), SampleError, r"\b80\b.*\b80\b"),
        (lambda b: b.get(10**30), SampleError, rf"\b{10**30}\b.*\b80\b.*\b0\b.*\b79\b"),
        (lambda b: b.get("x"), ArgumentError, r"\bindex\b.*'x'"),
        (lambda b: b.save(""), ArgumentError, r"\bpath\b"),
        (lambda b: b.load(""), ArgumentError, r"\bpath\b"),
        (lambda b: b.get_market_data(0, -1, 0), SampleError, r"\bh\b.*-1\b"),
        (lambda b: b.get_market_data(0, 1, 0, 1), ArgumentError, r"\bnext_state\b.*\b1\b"),
        (lambda b: b.get(indx=1), ArgumentError, r"`index`"),
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
        ({"capacity": 0}, r"\bcapacity\b.*\b0\b"),
        ({"capacity": "many"}, r"\bcapacity\b.*'many'"),
        ({"batch_size": 0}, r"\bbatch_size\b.*\b0\b"),
        ({"seed": -2}, r"\bseed\b.*-2\b"),
        ({"action_shape": (2, 0)}, r"\baction_shape\b.*\b2\b.*\b0\b"),
        ({"action_shape": "x"}, r"\baction_shape\b.*'x'"),
        ({"action_shape": True}, r"\baction_shape\b.*\bTrue\b"),
        ({"action_shape": (2, True)}, r"\baction_shape\b.*\b2\b.*\bTrue\b"),
        ({"action_shape": np.array([True, True])}, r"\baction_shape\b"),
        ({"action_shape": [2, 1.5]}, r"\baction_shape\b.*\[2.*1.5\]"),
        ({"n_objectives": 0}, r"\bn_objectives\b.*\b0\b"),
        ({"threads": 0}, r"\bthreads\b.*\b0\b"),
        ({"n_adders": 3, "capacity": 2}, r"\bcapacity\b.*\b2\b.*\b3\b"),
        ({"capacty": 5}, r"`capacity`"),
    ],
)
def test_buffers_that_cannot_be_are_refused(
    env: ff.VecFastFinRL, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(BackcastError, match=message):
        ff.VecReplayBuffer(env, **settings)
    with pytest.raises(ArgumentError, match=r"\benv\b.*\bFastFinRL\b"):
        ff.VecReplayBuffer({})


def test_a_refused_first_addition_leaves_the_sizes(env: ff.VecFastFinRL) -> None:
    buffer = ff.VecReplayBuffer(env, 20)
    state = env.reset([["AAA", "BBB", "DDD"]] * 4, seed=1)
    after = env.step(np.zeros((4, 3)))
    with pytest.raises(AppendError, match=r"\b0\b.*\bNaN\b"):
        buffer.add(state, np.full((4, 3), np.nan), np.zeros((4, 5)), after, after["done"])
    with pytest.raises(AppendError, match=r"\b3\b.*\b5\b.*\b4\b.*\b5\b"):
        buffer.add(state, np.zeros((4, 3)), np.zeros((3, 5)), after, after["done"])
    flat = state | {"shares": np.zeros(4, int)}
    with pytest.raises(AppendError, match=r"'shares'.*\(4,\).*\b4\b.*\b2\b"):
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
    with pytest.raises(SchemaError, match=r"\b2\b.*\b21\b"):
        buffer.load(tmp_path / "saved")
    assert (buffer.action_shape, buffer.size()) == ((2,), 0)


def test_a_ticker_called_as_a_part_of_the_batch_needs_the_other_layout(tmp_path: Path) -> None:
    env = vec(market(20, ["AAA", "macro"]).write(tmp_path / "odd.csv"), macro_tickers=[])
    buffer = ff.VecReplayBuffer(env, 20)
    collect(env, buffer, 3)
    with pytest.raises(SampleError, match=r"'macro'.*layout='batched'"):
        buffer.sample(2)
    assert buffer.sample(2, 1, layout="batched")[0]["ohlcv"].shape == (2, 2, 1, 5)


def test_an_empty_buffer_has_no_index(env: ff.VecFastFinRL) -> None:
    buffer = ff.VecReplayBuffer(env, 20)
    calls: list[Any] = [lambda: buffer.get(0), lambda: buffer.sample(indices=[0])]
    for call in calls:
        with pytest.raises(SampleError, match=r"\b0\b"):
            call()


def test_a_closed_buffer_says_so_and_shows_what_it_was(buffer: ff.VecReplayBuffer) -> None:
    assert repr(buffer) == (
        "<backcast.finrl.VecReplayBuffer: a private buffer, 80/200 transitions>"
    )
    buffer.close()
    buffer.close()
    calls: list[Any] = [buffer.sample, buffer.size, buffer.clear, lambda: buffer.get(0)]
    for call in calls:
        with pytest.raises(ClosedError, match=r"\bbuffer\b"):
            call()
    assert repr(buffer) == "<backcast.finrl.VecReplayBuffer: a private buffer, closed>"


def test_misspelt_arguments_are_named_as_the_user_wrote_the_call(
    buffer: ff.VecReplayBuffer, tmp_path: Path
) -> None:
    unchecked: Any = buffer
    with pytest.raises(ArgumentTypeError, match=r"`batch`"):
        unchecked.sample(batch=3)
    with pytest.raises(ArgumentTypeError, match=r"`state`"):
        unchecked.add(state={})
    for name in ("size", "capacity", "clear", "close", "unlink"):
        with pytest.raises(ArgumentTypeError, match=rf"{name}\(\)"):
            getattr(unchecked, name)(1)
        with pytest.raises(ArgumentTypeError, match=rf"{name}\(\).*`all`"):
            getattr(unchecked, name)(all=True)
    assert buffer.size() == 80
    with pytest.raises(ArgumentTypeError, match=r"`batchsize`"):
        type(unchecked).attach("x", batchsize=3, dir=tmp_path)
