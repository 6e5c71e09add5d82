"""The buffer of a single environment: its constructor, and errors with its own argument names."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any, Literal

import backcast as bc
import backcast.finrl as ff
import numpy as np
import pytest
from finrl_defects import ordinary


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return ordinary(tmp_path)


def test_a_single_environment_has_a_buffer_of_its_own(path: Path) -> None:
    for form in ("json", "vec"):
        env = ff.FastFinRL(path, macro_tickers=["VIX"], return_format=form)
        buffer = ff.ReplayBuffer(env, capacity=50, batch_size=7)
        state = env.reset(["BBB", "AAA"], seed=3)
        for _ in range(6):
            after = env.step([0.5, -0.5])
            buffer.add(state, [0.5, -0.5], after["reward"], after, after["done"])
            state = after
        assert buffer.size() == 6
        assert buffer.get(5).tickers == ["BBB", "AAA"]
        assert buffer.get(5).action == [0.5, -0.5]
        s, action, *_ = buffer.sample(history_length=3)
        assert action.shape == (6, 2)
        assert s["BBB"]["ohlcv"].shape == (6, 3, 5)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"action": [0.5]}, r"\(1,\).*\(2,\).*\baction_shape\b"),
        ({"action": 0.5}, r"\baction\b.*\(2,\)"),
        ({"action": [[0.5], [0.5, 0.1]]}, "^action: "),
        ({"action": ["a", "b"]}, "^action: "),
        ({"reward": [1.0, 2.0]}, r"\breward\b.*\(2,\).*\(1,\)"),
        ({"reward": "much"}, "^reward: "),
        ({"reward": np.nan}, r"\b0\b.*\bNaN\b"),
        ({"done": [True, False]}, r"\bdone\b.*\(2,\)"),
        ({"done": 0.5}, r"\bdone\b.*\bfloat64\b"),
        ({"state": {}}, r"\bday\b"),
        (
            {"state": {"day": [3, 4]}},
            r"state\['day'\].*\(2,\)",
        ),
        ({"state": {"cash": "much"}}, r"^state\['cash'\]: "),
        (
            {"state": {"shares": [1]}},
            r"state\['shares'\].*\(1,\).*\(2,\)",
        ),
        ({"state": {"shares": [1, [2]]}}, r"state\['shares'\].*\bNone\b.*\(2,\)"),
        ({"state": {"shares": np.ma.array([1, 2])}}, r"state\['shares'\]"),
        ({"action": np.ma.array([0.5, 1], mask=True)}, "^action: "),
        ({"reward": np.ma.masked}, "^reward: "),
        ({"state": {"shares": [1, 2.5]}}, r"state\['shares'\].*2.5"),
        ({"state": {"tickers": "AB"}}, r"state\['tickers'\].*'AB'"),
        ({"state": {"tickers": ["AAA", "ZZZ"]}}, r"state\['tickers'\].*'ZZZ'"),
        ({"next_state": {"avg_buy_price": [1]}}, r"next_state\['avg_buy_price'\]"),
        ({"next_state": {"final_obs": {}}}, r"\bfinal_obs\b.*\bnext_state\b"),
    ],
    ids=lambda value: None if isinstance(value, str) else "-".join(value),
)
@pytest.mark.parametrize("form", ["json", "vec"])
def test_errors_use_the_names_of_the_single_environment(
    path: Path, form: Literal["json", "vec"], changed: dict[str, Any], says: str
) -> None:
    env = ff.FastFinRL(path, return_format=form)
    buffer = ff.ReplayBuffer(env, capacity=50)
    state = env.reset(["BBB", "AAA"], seed=3)
    after = env.step([0.5, -0.5])
    given: dict[str, Any] = {
        "state": state,
        "action": [0.5, -0.5],
        "reward": 0.1,
        "next_state": after,
    }
    given["done"] = False
    buffer.add(**given)
    flat = {"day": 3, "cash": 1.0, "shares": [1, 2], "avg_buy_price": [1.0, 2.0]}
    for name, value in changed.items():
        state_like = isinstance(value, dict) and value
        given[name] = flat | {"tickers": ["BBB", "AAA"]} | value if state_like else value
    with pytest.raises(bc.errors.AppendError, match=says):
        buffer.add(**given)
    assert buffer.size() == 1


def test_a_single_environments_buffer_is_made_as_that_of_many(path: Path) -> None:
    one, many = (inspect.signature(made) for made in (ff.ReplayBuffer, ff.VecReplayBuffer))
    assert one == many
    loose: Any = ff.ReplayBuffer
    with pytest.raises(bc.errors.ArgumentTypeError, match=r"ReplayBuffer\(\).*`capacty`"):
        loose(ff.FastFinRL(path), capacty=50)
