"""Observations that the trading environment writes into a ring's memory, and windows over them."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import backcast as bc
import numpy as np
import pytest
from backcast.envs import TradingVectorEnv

N, STEPS = 3, 40
SHORT: dict[str, Any] = {"warmup_ticks": 30, "max_ticks": 9}


def test_rows_are_written_in_place_and_windows_work_over_them(place: Path) -> None:
    envs, twin = TradingVectorEnv(N, **SHORT), TradingVectorEnv(N, **SHORT)
    columns = bc.Schema.from_spaces(envs.single_observation_space, envs.single_action_space)
    draw = np.random.default_rng(1)
    with ExitStack() as held:
        hold = held.enter_context
        ring = hold(bc.ReplayBuffer.create("trades", columns, capacity=900, lanes=N, dir=place))
        writers = [hold(ring.writer(1, "next_step")) for _ in range(N)]
        envs.reset(seed=5)
        expected = [twin.reset(seed=5)[0]]
        rewards = []
        for _ in range(STEPS):
            actions = draw.integers(0, 3, N)
            rows = [hold_row.__enter__() for hold_row in (w.reserve() for w in writers)]
            # `row["obs"]` is the memory of the ring: nothing is copied.
            envs.observe_into([row["obs"] for row in rows])
            reward, terminated, truncated, _ = envs.advance(actions)
            for at, row in enumerate(rows):
                row["action"], row["reward"] = actions[at], reward[at]
                row.terminated, row.truncated = bool(terminated[at]), bool(truncated[at])
                row.__exit__(None, None, None)
            obs, theirs, *_ = twin.step(actions)
            expected.append(obs)
            rewards.append(theirs)
        lanes = [int(writer.lanes[0]) for writer in writers]
        for at, lane in enumerate(lanes):
            rows_of = ring.rows(lane, 0, STEPS)
            assert np.array_equal(rows_of["obs"], np.stack(expected)[:STEPS, at])
            stored = np.where(rows_of["flags"] & 4, 0.0, np.stack(rewards)[:, at])
            assert np.array_equal(rows_of["reward"], stored.astype("f4"))
        # Episodes have nine steps, so that every tenth row is FINAL.
        assert len(ring) == N * 36
        batch = ring.sampler(seed=1, history=4, future=3).sample(64)
        mask, future_mask = batch.mask, batch.future_mask
        assert mask is not None
        assert future_mask is not None
        for one in range(64):
            lane, seq = int(batch.index[one]) >> 48, int(batch.index[one]) & (2**48 - 1)
            mine = np.stack(expected)[:, lanes.index(lane)]
            for back in range(4):
                inside = seq % 10 >= back
                assert mask[one, 3 - back] == inside
                if inside:
                    assert np.array_equal(batch["obs"][one, 3 - back], mine[seq - back])
            for ahead in range(3):
                if future_mask[one, ahead]:
                    assert np.array_equal(batch["future"]["obs"][one, ahead], mine[seq + 1 + ahead])
            assert future_mask[one].tolist() == [seq % 10 + ahead < 9 for ahead in (1, 2, 3)]


def test_arrays_that_cannot_be_filled_are_refused() -> None:
    envs = TradingVectorEnv(2, **SHORT)
    rows = [np.zeros(51, "f4"), np.zeros(51, "f4")]
    with pytest.raises(bc.errors.EnvError, match=r"\breset\b"):
        envs.observe_into(rows)
    envs.reset(seed=1)
    envs.observe_into(rows)
    frozen = rows[1].copy()
    frozen.flags.writeable = False
    for bad, words in [
        (rows[:1], r"\b1\b.*\b2\b"),
        ([rows[0], frozen], r"out\[1\]"),
        ([rows[0], rows[0]], r"out\[1\]"),
        ([rows[0], np.zeros(102, "f4")[::2]], r"out\[1\]"),
    ]:
        with pytest.raises(bc.errors.EnvError, match=words):
            envs.observe_into(bad)
    with pytest.raises(bc.errors.ArgumentTypeError, match=r"out\[0\].*\bfloat32\b.*\(51,\)"):
        envs.observe_into([np.zeros(51), rows[1]])  # type: ignore[list-item]
