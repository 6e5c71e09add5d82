"""Rows that ``clear`` and ``drop_episode`` drop, seen from this and from another process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import backcast as bc
import numpy as np
import pytest
from facts import missing

COLUMNS: dict[str, Any] = {"obs": "i8", "reward": "f4"}


def play(writer: bc.Writer, episodes: int, length: int = 5) -> None:
    for _ in range(episodes):
        for t in range(length):
            end = t + 1 == length
            writer.append(obs=t, reward=1, next_obs=t + 1, terminated=end, truncated=False)


def in_another_process(code: str, *args: str, run_by: Sequence[str] = ()) -> list[int]:
    """Run ``code``, which attaches the ring ``args[0]``, and return the JSON that it prints."""
    program = f"import json, sys\nimport backcast as bc\n{code}"
    done = subprocess.run(
        [*run_by, sys.executable, "-c", program, *args],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    printed: list[int] = json.loads(done.stdout)
    return printed


def test_another_process_clears_a_ring_that_is_written_and_drawn() -> None:
    with bc.ReplayBuffer.create("cleared", COLUMNS, capacity=1_000) as buf, buf.writer() as writer:
        play(writer, 20)
        sampler = buf.sampler(seed=1, history=3)
        sampler.sample(8)
        lease = buf.lease(0, 10, 5)
        seen = lease["obs"].copy()
        code = "b = bc.ReplayBuffer.attach(sys.argv[1]); print(json.dumps([b.clear(), len(b)]))"
        assert in_another_process(code, "cleared") == [100, 0]
        assert len(buf) == 0
        assert buf.lane_span(0) == (120, 120)
        np.testing.assert_array_equal(lease["obs"], seen)
        lease.close()
        with pytest.raises(bc.errors.SampleError):
            sampler.sample(8)
        with pytest.raises(bc.BackcastError, match=r"\b120\b"):
            buf.rows(0, 10, 5)
        play(writer, 2)
        assert (len(buf), buf.stats()["transitions"]) == (10, 10)
        assert (sampler.sample(200).index >= 120).all()


def test_only_whole_episodes_are_dropped_from_the_oldest_on() -> None:
    with bc.ReplayBuffer.create(None, COLUMNS, capacity=1_000) as buf, buf.writer() as writer:
        play(writer, 4)
        writer.append(obs=0, reward=0, next_obs=1, terminated=False, truncated=False)
        assert buf.drop_episode(0) == 5
        assert set(buf.rows(0, *span(buf))["episode"]) == {1, 2, 3, 4}
        for episode, words in [(3, "older=True"), (0, r"\b1\b.*\b4\b"), (9, r"\b1\b.*\b4\b")]:
            with pytest.raises(bc.errors.ArgumentError, match=words):
                buf.drop_episode(0, episode)
        with pytest.raises(bc.errors.ArgumentError, match=r"\b4\b"):
            buf.drop_episode(0, 4, older=True)
        with pytest.raises(bc.errors.ArgumentError, match=r"\b0\b.*\b0\b"):
            buf.drop_episode(1)
        assert buf.drop_episode(0, 2, older=True) == 10
        assert (len(buf), set(buf.rows(0, *span(buf))["episode"])) == (5, {3, 4})


def span(buf: bc.ReplayBuffer) -> tuple[int, int]:
    start, end = buf.lane_span(0)
    return start, end - start


def test_a_snapshot_begins_at_the_mark_and_cannot_be_cleared(tmp_path: Path) -> None:
    with bc.ReplayBuffer.create("kept", COLUMNS, capacity=1_000) as buf, buf.writer() as writer:
        play(writer, 3)
        buf.snapshot("all", store=tmp_path)
        buf.drop_episode(0, 1, older=True)
        buf.snapshot("after", store=tmp_path)
        spans = {}
        for label in ("all", "after"):
            with bc.ReplayBuffer.open_snapshot(f"kept@{label}", store=tmp_path) as saved:
                spans[label] = saved.lane_span(0)
                with pytest.raises(bc.errors.ArgumentError, match="snapshot"):
                    saved.clear()
        assert spans == {"all": (0, 18), "after": (12, 18)}


def test_priorities_of_dropped_rows_are_never_drawn_again() -> None:
    with bc.ReplayBuffer.create(None, COLUMNS, capacity=1_000) as buf, buf.writer() as writer:
        play(writer, 10)
        sampler = buf.sampler(seed=2, select=bc.Priority(alpha=0.6, beta=0.4))
        batch = sampler.sample(32)
        sampler.update_priorities(batch.index, np.full(32, 1e6))
        buf.clear()
        play(writer, 4)
        for _ in range(20):
            assert (sampler.sample(32).index >= 60).all()


def test_no_copy_of_a_cleared_ring_holds_a_dropped_row(tmp_path: Path) -> None:
    with bc.ReplayBuffer.create("source", COLUMNS, capacity=1_000) as buf, buf.writer() as writer:
        play(writer, 3)
        buf.clear()
        play(writer, 2)
        buf.snapshot("after", store=tmp_path)
        buf.export(tmp_path / "after.parquet")
        buf.export(tmp_path / "after.csv")
        buf.resize(20_000)
        assert (buf.lane_span(0), len(buf)) == ((18, 30), 10)
        kept = buf.rows(0, 18, 12)["obs"]
    with bc.ReplayBuffer.load("source@after", name="loaded", store=tmp_path) as loaded:
        assert (loaded.lane_span(0), len(loaded)) == ((18, 30), 10)
        np.testing.assert_array_equal(loaded.rows(0, 18, 12)["obs"], kept)
    with bc.ReplayBuffer.from_file(tmp_path / "after.parquet", name="imported") as imported:
        assert len(imported) == 10
        np.testing.assert_array_equal(imported.rows(0, *span(imported))["obs"], kept)
    lines = (tmp_path / "after.csv").read_text().splitlines()
    assert len(lines) == 1 + 12


def test_stats_show_the_first_row_that_was_not_dropped() -> None:
    with bc.ReplayBuffer.create(None, COLUMNS, capacity=1_000, lanes=2) as buf:
        with buf.writer() as writer:
            play(writer, 2)
        buf.drop_episode(0)
        assert [lane["first_kept"] for lane in buf.stats()["lane_stats"]] == [6, 0]
        buf.clear()
        assert [lane["first_kept"] for lane in buf.stats()["lane_stats"]] == [12, 0]


def test_a_process_that_may_not_write_the_marks_is_refused() -> None:
    """Root may write every file, so as root the process runs without that capability."""
    as_others = ["setpriv", "--bounding-set=-dac_override"] if os.geteuid() == 0 else []
    if as_others and shutil.which("setpriv") is None:
        pytest.skip("needs setpriv to drop a capability of root")
    code = """
b = bc.ReplayBuffer.attach(sys.argv[1])
for drop in (b.clear, lambda: b.drop_episode(0)):
    try:
        drop()
        print(json.dumps([]))
        break
    except bc.errors.StorageError as error:
        assert "ring.low" in str(error), error
else:
    print(json.dumps([len(b)]))
"""
    with bc.ReplayBuffer.create("guarded", COLUMNS, capacity=1_000) as buf, buf.writer() as writer:
        play(writer, 2)
        path = Path(buf.path or "") / "ring.low"
        path.chmod(0o400)
        assert in_another_process(code, "guarded", run_by=as_others) == [10]
        assert len(buf) == 10
        path.chmod(0o600)
        assert buf.clear() == 10


def test_gathered_rows_that_were_dropped_are_not_called_overwritten() -> None:
    with bc.ReplayBuffer.create(None, COLUMNS, capacity=40) as buf, buf.writer() as writer:
        play(writer, 2)
        drawn = buf.sample(8).index
        buf.clear()
        with pytest.raises(bc.LappedError) as raised:
            buf.gather(drawn)
        assert missing(raised.value, [f"index[0] = {drawn[0]}", "12"]) == []
        play(writer, 1)
        with pytest.raises(bc.LappedError, match=r"12\.\.18"):
            buf.gather(drawn)
        found = buf.gather(drawn, missing="mask").found
        assert found is not None
        assert not found.any()
        play(writer, 20)
        with pytest.raises(bc.LappedError, match=r"index\[0\]"):
            buf.gather(drawn)


def test_a_limiter_that_waits_after_a_clear_counts_what_was_deleted() -> None:
    limits = bc.RateLimiter(min_size=50)
    with bc.ReplayBuffer.create(None, COLUMNS, capacity=400, limiter=limits) as buf:
        with buf.writer() as writer:
            for t in range(100):
                writer.append(obs=t, reward=1, terminated=False, truncated=False)
            deleted = buf.clear()
            sampler = buf.sampler(seed=1)
            with pytest.raises(bc.RateLimitTimeoutError) as raised:
                sampler.sample(4, timeout=0)
        said = str(raised.value)
        limiter = buf.stats()["limiter"]
        assert limiter is not None
        count = limiter["deletes"]
        assert count >= deleted > 90
        assert missing(said, [str(count), str(count + 50)]) == []
