"""Resets of some portfolios: the others keep their day and the results of their last step."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import backcast as bc
import backcast.finrl as ff
import numpy as np
import pytest
from finrl_buffers import same, vec, with_gaps

SAID = ["reward", "done", "terminal", "terminated", "truncated", "n_trades", "loss_cut_amount"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return with_gaps(tmp_path)


def ended(path: Path, **settings: Any) -> tuple[ff.VecFastFinRL, Any]:  # noqa: ANN401
    """Step four portfolios to the end of their episodes; return them and the last state."""
    env = vec(path, auto_reset=False, max_episode_steps=2, **settings)
    env.reset(seed=1, options={"start_day": [20, 21, 22, 23]})
    env.step(np.ones((4, 2)))
    return env, env.step(np.full((4, 2), -0.5))


def test_a_mask_leaves_what_the_last_step_said(path: Path) -> None:
    env, before = ended(path)
    assert before["done"].all()
    assert before["reward"].all()
    mask = np.array([False, True, False, True])
    after = env.reset(options={"reset_mask": mask, "start_day": 33})
    for key in SAID:
        np.testing.assert_array_equal(after[key][~mask], before[key][~mask])
        assert not after[key][mask].any()
    assert after["day"].tolist() == [22, 33, 24, 33]
    same(env.get_state(), after)
    # `reset_indices` gives the same state. A full reset clears the results of the last step.
    other, _ = ended(path)
    same(other.reset_indices([1, 3], options={"start_day": 33}), after)
    assert not any(env.reset(seed=1)[key].any() for key in SAID)


def test_indices_begin_where_requested(path: Path) -> None:
    env, _ = ended(path, return_format="json")
    rows = env.reset_indices([3, 0], options={"start_day": [7, 9]})
    assert [row["day"] for row in rows] == [9, 23, 24, 7]
    assert [row["done"] for row in rows] == [False, True, True, False]
    refused: list[tuple[dict[str, Any], str]] = [
        ({"start_day": [1, 2, 3]}, r"\bstart_day\b.*\[1, 2, 3\]"),
        ({"start_day": 1.5}, r"\bstart_day\b.*\b1\.5\b"),
        ({"start_day": [[1], [2, 3]]}, r"\bstart_day\b.*\b2\b"),
        ({"start_day": -1}, r"\bstart_day\b.*\b0\b.*-1\b"),
        ({"start_day": 10**4}, "10000"),
        ({"reset_mask": np.ones(4, bool)}, "'reset_mask'"),
    ]
    for options, says in refused:
        with pytest.raises(bc.errors.EnvError, match=says):
            env.reset_indices([3, 0], options=options)
        assert [row["day"] for row in env.get_state()] == [9, 23, 24, 7]
    with pytest.raises(bc.errors.EnvError, match=r"\breset\b"):
        vec(path).reset_indices([0])


def test_tickers_are_those_of_what_began_when_auto_reset_comes_late(path: Path) -> None:
    env = vec(path, auto_reset=False, max_episode_steps=2, shuffle_tickers=True)
    env.reset(seed=2)
    seen = set()
    for _ in range(12):
        env.set_auto_reset(False)
        for _ in range(2):
            env.step(np.zeros((4, 2)))
        env.set_auto_reset(True)
        state = env.step(np.zeros((4, 2)))
        assert state["tickers"] == env.get_tickers()
        shown = [[env.panel.tickers[token - 1] for token in row] for row in env.tokens]
        assert state["tickers"] == shown
        seen |= {tuple(names) for names in shown}
        env.reset()
    assert len(seen) > 4


def spoil(state: Any) -> None:  # noqa: ANN401
    """Overwrite or clear every mutable part of a state."""
    for part in state.values() if isinstance(state, dict) else state:
        if isinstance(part, dict):
            spoil(part)
        elif isinstance(part, np.ndarray):
            part[...] = 7
        elif type(part) is list:
            spoil(part)
            part.clear()
    state.clear()


def nothing_stays(env: Any, twin: Any, calls: list[Callable[[Any], Any]]) -> None:  # noqa: ANN401
    """Spoil the result of every call: the next state still equals that of an untouched twin."""
    for call in calls:
        expected = copy.deepcopy(call(twin))
        state = call(env)
        same(state, expected)
        spoil(state)
        again = env.get_state()
        same(again, expected)
        spoil(again)


@pytest.mark.parametrize("auto_reset", [False, True])
@pytest.mark.parametrize("form", ["vec", "json"])
def test_changes_of_a_state_by_its_caller_reach_no_other_state(
    path: Path, form: str, auto_reset: bool
) -> None:
    settings: dict[str, Any] = {"return_format": form, "max_episode_steps": 5}
    env, twin = (
        vec(path, auto_reset=auto_reset, shuffle_tickers=True, **settings) for _ in range(2)
    )
    mask = np.array([True, False, True, False])
    actions = np.full((4, 2), 0.5)
    calls: list[Callable[[ff.VecFastFinRL], Any]] = [
        lambda env: env.reset(seed=3),
        *[lambda env: env.step(actions)] * 4,
        lambda env: env.reset_indices([1]),
        lambda env: env.step(-actions),
        lambda env: env.reset(options={"reset_mask": mask}),
        lambda env: env.step(-actions),
        lambda env: env.reset_indices([]),
    ]
    if auto_reset:
        # Switching automatic resets off does not change the state of the last step.
        calls.insert(6, lambda env: [env.set_auto_reset(False), env.get_state()][1])
    nothing_stays(env, twin, calls)
    same(copy.deepcopy(env).get_state(), twin.get_state())


@pytest.mark.parametrize("form", ["vec", "json"])
def test_nor_in_those_of_the_single_class(path: Path, form: Any) -> None:  # noqa: ANN401
    env, twin = (
        ff.FastFinRL(path, macro_tickers=["VIX"], num_tickers=2, return_format=form)
        for _ in range(2)
    )
    calls: list[Callable[[ff.FastFinRL], Any]] = [
        lambda env: env.reset(seed=3),
        *[lambda env: env.step([1, -0.2])] * 2,
        lambda env: env.reset(["BBB"]),
        lambda env: env.step([1]),
    ]
    nothing_stays(env, twin, calls)
