"""Pickles of FastFinRL's environments, as spawned workers get them, and deep copies."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import backcast as bc
import backcast.finrl as ff
import numpy as np
import pytest
from finrl_buffers import with_gaps

CHILD = """
import pickle, sys
env = pickle.load(sys.stdin.buffer)
env.reset(seed=5)
sys.stdout.buffer.write(pickle.dumps(env.step([0.5] * 2 if len(sys.argv) > 1 else [[0.5] * 2] * 3)))
"""
MACROS: dict[str, Any] = {"macro_tickers": ["VIX"], "num_tickers": 2}


def made(market: bc.Panel | Path, single: bool) -> ff.FastFinRL | ff.VecFastFinRL:
    """Make an environment of either class, with settings other than the defaults."""
    if single:
        return ff.FastFinRL(market, hmax=7, initial_seed=3, **MACROS)
    return ff.VecFastFinRL(market, 3, hmax=7, shuffle_tickers=True, indicator_lag=2, **MACROS)


def after_a_step(env: Any, single: bool) -> Any:  # noqa: ANN401 - states are what they are
    """Return the state after the reset and the step that the child does."""
    env.reset(seed=5)
    return env.step([0.5] * 2 if single else [[0.5] * 2] * 3)


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize("named", [True, False])
def test_a_child_makes_the_same_environment(tmp_path: Path, single: bool, named: bool) -> None:
    path = with_gaps(tmp_path)
    with bc.Panel.from_csv(path, macro=["VIX"], name="prices", dir=tmp_path) as panel:
        env = made(panel if named else path, single)
        env.reset(seed=1)
        answer = subprocess.run(
            [sys.executable, "-c", CHILD, *["single"] * single],
            input=pickle.dumps(env),
            stdout=subprocess.PIPE,
            check=True,
            timeout=60,
        )
        np.testing.assert_equal(pickle.loads(answer.stdout), after_a_step(env, single))


@pytest.mark.parametrize("single", [True, False])
def test_a_copy_goes_on_and_its_pickle_begins_anew(tmp_path: Path, single: bool) -> None:
    env: Any = made(with_gaps(tmp_path), single)
    after_a_step(env, single)
    twin = copy.deepcopy(env)
    assert type(twin) is type(env)
    act = [-0.5] * 2 if single else [[-0.5] * 2] * 3
    np.testing.assert_equal(twin.step(act), env.step(act))
    np.testing.assert_equal(
        after_a_step(pickle.loads(pickle.dumps(twin)), single), after_a_step(env, single)
    )


def test_private_objects_cannot_be_pickled(tmp_path: Path) -> None:
    path = with_gaps(tmp_path)
    with bc.Panel.from_csv(path, macro=["VIX"]) as panel:
        with pytest.raises(bc.errors.ArgumentTypeError, match=r"\bname\b"):
            pickle.dumps(made(panel, single=False))
        wrapper = ff.VecFinRLWrapper(panel, 100, 2, n_envs=2, num_tickers=2, macro_tickers=["VIX"])
        for attempt in (pickle.dumps, copy.deepcopy):
            with pytest.raises(bc.errors.ArgumentTypeError, match=r"\.env"):
                attempt(wrapper)
        wrapper.close()
