"""A collector notices when other code resets its environment."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import backcast as bc
import gymnasium as gym
import numpy as np
import pytest
from backcast.envs import Collector
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from test_writer_modes import LENGTH, Counted, act, ring, vector, wrong_rows

MODES = list(AutoresetMode)


def collected(env: Any, lanes: int) -> tuple[bc.ReplayBuffer, Collector]:  # noqa: ANN401
    buf = ring(lanes)
    return buf, Collector(env, buf.writer(env=env))


@pytest.mark.parametrize("mode", MODES)
def test_a_reset_behind_it_begins_new_episodes(mode: AutoresetMode) -> None:
    envs = vector(mode)
    buf, collector = collected(envs, 2)
    collector.reset(seed=0)
    for at in range(60):
        if at % 7 == 3:
            obs, _ = envs.reset(seed=1)
            # The caller acts on the observation that its own reset returned.
            collector.step(act(obs))
            assert collector.transitions > 0
        collector.step(act(collector.obs))
    collector.finish()
    assert wrong_rows_but_missing(buf) == []
    assert len(buf) == collector.transitions, "the last ones before each reset are kept"
    assert buf.stats()["cuts"] == 0
    collector.writer.close()


def wrong_rows_but_missing(buf: bc.ReplayBuffer) -> list[str]:
    return [wrong for wrong in wrong_rows(buf) if "missing" not in wrong]


def test_of_a_single_environment_too_and_run_acts_on_what_it_shows() -> None:
    env = gym.wrappers.TimeLimit(Counted(), LENGTH + 5)
    buf, collector = collected(env, 1)
    env.reset()
    collector.run(act, 3)
    env.reset(seed=3)
    collector.run(act, 3)
    env.reset()
    collector.finish()
    assert wrong_rows_but_missing(buf) == []
    assert len(buf) == collector.transitions == 6
    collector.writer.close()


def test_a_masked_reset_behind_it_begins_episodes_where_it_reset() -> None:
    envs = vector(AutoresetMode.DISABLED)
    buf, collector = collected(envs, 2)
    collector.reset()
    collector.run(act, 2)
    envs.reset(options={"reset_mask": np.array([True, False])})
    collector.run(act, 2)
    collector.finish()
    assert wrong_rows_but_missing(buf) == []
    spans = [buf.lane_span(lane)[1] for lane in range(2)]
    assert spans == [6, 5], "two episodes of two transitions, and one of four"
    collector.writer.close()


@pytest.mark.parametrize("kind", ["wrapped", "vector"])
def test_an_inner_reset_is_reported_by_the_next_step(kind: str) -> None:
    env: Any = gym.wrappers.TimeLimit(Counted(), 9)
    if kind == "vector":
        env = SyncVectorEnv([Counted] * 2, autoreset_mode=AutoresetMode.DISABLED)
    lanes = 2 if kind == "vector" else 1
    buf, collector = collected(env, lanes)
    collector.reset()
    collector.run(act, 2)
    (env.envs[1] if kind == "vector" else env.unwrapped).reset()
    with pytest.raises(bc.errors.EnvError, match="reset"):
        collector.step(act(collector.obs))
    collector.reset()
    collector.run(act, 2)
    collector.finish()
    assert wrong_rows_but_missing(buf) == []
    assert len(buf) == collector.transitions == 4 * lanes
    collector.writer.close()


def test_copies_and_pickles_of_a_watched_environment_are_not_watched() -> None:
    env = gym.wrappers.TimeLimit(Counted(), 9)
    _buf, collector = collected(env, 1)
    collector.reset()
    for other in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        other.reset()
        assert type(vars(other)["reset"]).__name__ == "method"
        collector.step(act(collector.obs))
    assert collector.transitions == 2
    collector.writer.close()


def test_a_collector_that_is_gone_leaves_an_environment_that_works() -> None:
    env = Counted()
    for _ in range(3):
        _buf, collector = collected(env, 1)
        collector.run(act, 2)
        collector.writer.close()
        del collector
    obs, _ = env.reset()
    assert obs[1] == 0
