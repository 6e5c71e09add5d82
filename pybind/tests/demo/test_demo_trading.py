"""The trading world of the demo: its lesson, its checks, and a run in processes of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from backcast import ReplayBuffer
from backcast.demo.trading import lesson
from backcast.demo.trading.evaluate import EPISODES, examine
from backcast.demo.trading.learner import fresh_network, torn
from backcast.demo.trading.world import summary_lines

WATCHDOG_SECONDS = 180


def small_ring() -> tuple[ReplayBuffer, Any]:
    """Make a ring of two episodes of 30 steps whose price rises by a known amount a step."""
    columns = {"obs": ("f4", (45,)), "mid": "f8", "checksum": "u8"}
    ring = ReplayBuffer.create(None, columns, capacity=200)
    draw = np.random.default_rng(1)
    with ring.writer() as writer:
        for episode in range(2):
            for step in range(30):
                obs = draw.normal(size=45).astype("f4")
                mid = np.array(100 * np.exp(0.001 * (1 + episode) * step))
                row = {"obs": obs, "mid": mid, "checksum": lesson.checksums(obs, mid)}
                end = step == 29
                writer.append(**row, terminated=False, truncated=end, next_obs=obs if end else None)
    return ring, ring.sampler(seed=1, future=lesson.FUTURE)


def test_a_target_is_the_move_over_a_whole_future_window() -> None:
    ring, sampler = small_ring()
    batch = sampler.sample(256)
    seen, targets = lesson.examples(batch)
    assert seen.shape == (int(batch.future_mask[:, -1].sum()), lesson.FEATURES)
    moves = 0.001 * lesson.FUTURE / 0.003
    assert {round(float(target), 6) for target in targets[:, 0]} == {
        round(moves, 6),
        round(2 * moves, 6),
    }
    assert torn(batch) == 0
    batch["obs"][7, 3] += 1
    assert torn(batch) == 1
    ring.close()


def test_an_exam_compares_policies_on_the_same_unseen_episodes() -> None:
    looks = []
    exam = examine(fresh_network(0), 3, lambda: looks.append(1))
    assert len(looks) == 3
    assert {name: len(all_) for name, all_ in exam.returns.items()} == {
        "learned": EPISODES,
        "buy and hold": EPISODES,
        "random": EPISODES,
    }
    # A network that has learned nothing holds nothing.
    assert np.array_equal(exam.returns["learned"], np.zeros(EPISODES))
    assert exam.margin == -exam.returns["buy and hold"].mean()
    assert exam.margin_error > 0
    assert len(exam.equity["random"]) == lesson.EPISODE_STEPS + 1
    again = examine(fresh_network(0), 3, lambda: None)
    assert np.array_equal(again.returns["random"], exam.returns["random"])


def test_the_summary_says_whether_holding_is_beaten() -> None:
    result: dict[str, Any] = {
        "actors": 2, "envs_per_actor": 4, "rows_written": 100, "rows_written_per_s": 10.0,
        "learner_batches": 3, "batch_rows": 256, "rows_checked": 768, "torn_rows": 0,
        "test_episodes": 64, "test_return": {"learned": 0.05, "buy and hold": 0.01},
        "prediction_follows": {"value_gap": -0.9},
        "margin_over_holding": 0.04, "margin_standard_error": 0.01,
    }  # fmt: skip
    lines = dict(summary_lines(result))
    assert lines["learned"].endswith("correlation with value_gap -0.90")
    assert lines["margin"] == "+4.00% +- 1.00% over holding: the learner beats holding"
    weak = dict(summary_lines(result | {"margin_standard_error": 0.03}))
    assert weak["margin"].endswith("does not clearly beat holding")


def test_a_run_learns_to_beat_holding_and_leaves_nothing_behind(
    place: Path, tmp_path: Path
) -> None:
    arguments = ["--world", "trading", "--seconds", "6", "--actors", "2", "--envs", "8"]
    run = subprocess.run(
        [sys.executable, "-m", "backcast.demo", *arguments, "--out", str(tmp_path)],
        env={**os.environ, "BACKCAST_DIR": str(place)},
        capture_output=True,
        text=True,
        timeout=WATCHDOG_SECONDS,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "Traceback" not in run.stderr
    result = json.loads((tmp_path / "demo.json").read_text())
    assert result["torn_rows"] == 0
    assert result["rows_checked"] > 0
    # The margin says how much is learned; that it is there at all needs no more than seconds.
    assert all(abs(by) <= 1 for by in result["prediction_follows"].values())
    assert result["margin_over_holding"] > 2 * result["margin_standard_error"], run.stdout
    assert "the learner beats holding" in run.stdout
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
