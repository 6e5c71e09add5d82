"""Snapshots of several processes: saved beside a writer, opened together, killed during a save."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import backcast as bc
import numpy as np
from saved_ring import content, ring
from waits import read_line

COLUMNS: dict[str, Any] = {"obs": ("f8", (16,)), "step": "i8"}

WRITER = """
import sys, numpy as np, backcast as bc
with bc.ReplayBuffer.attach("busy") as buf, buf.writer() as w:
    step = 0
    while True:
        # A FINAL row takes a number too, so `obs` and `step` equal the sequence number.
        end = step % 100 == 98
        obs, last = np.full(16, step), {"final_obs": np.full(16, step + 1)} if end else {}
        w.append(obs=obs, step=step, terminated=end, truncated=False, **last)
        step += 2 if end else 1
        if step == 5_000:
            print("writing", flush=True)
"""

READER = """
import sys, numpy as np, backcast as bc
with bc.ReplayBuffer.open_snapshot("walk@a", store=sys.argv[1]) as snapshot:
    print(snapshot.path, *snapshot.sampler(seed=4).sample(50).index, flush=True)
    sys.stdin.read()
"""


def test_a_ring_is_saved_beside_its_running_writer(
    place: Path, tmp_path: Path, start: Callable[..., Any]
) -> None:
    with bc.ReplayBuffer.create("busy", COLUMNS, capacity=20_000, dir=place) as buf:
        child = start(WRITER)
        assert read_line(child) == "writing\n"
        for label in ["a", "b", "c"]:
            published = buf.stats()["rows_published"]
            report = buf.snapshot(label, store=tmp_path)
            with bc.ReplayBuffer.open_snapshot(f"busy@{label}", store=tmp_path, dir=place) as then:
                first, head = then.lane_span(0)
                assert head >= published
                assert head - first == report["rows"]
                rows = then.rows(0, first, head - first)
                # A FINAL row has its observation alone: `step` is zero there.
                plain = rows["flags"] & 4 == 0
                np.testing.assert_array_equal(rows["seq"], np.arange(first, head))
                np.testing.assert_array_equal(rows["step"][plain], rows["seq"][plain])
                np.testing.assert_array_equal(rows["obs"], rows["seq"][:, None] + np.zeros(16))
        # The writer goes on as soon as it gets processor time.
        buf.wait(rows_published=head + 1, timeout=60)
        assert child.poll() is None
        child.kill()
        child.wait(60)


def test_processes_that_open_a_snapshot_share_one_copy(
    place: Path, tmp_path: Path, start: Callable[..., Any]
) -> None:
    with ring(place) as buf:
        buf.snapshot("a", store=tmp_path)
        expected = " ".join(map(str, buf.sampler(seed=4).sample(50).index))
        # All open it at the same time: the first one to finish gives the copy its name.
        children = [start(READER, str(tmp_path)) for _ in range(4)]
        lines = [read_line(child).split(" ", 1) for child in children]
        assert {index.strip() for _, index in lines} == {expected}
        assert len({path for path, _ in lines}) == 1
        held = [one for one in bc.list_objects(dir=place) if one["name"] == "walk@a"]
        assert len(held) == 1
        # A killed process does not remove the copy; the end of its last holder does.
        children[0].kill()
        children[0].wait(60)
        with bc.ReplayBuffer.attach("walk@a", store=tmp_path, dir=place) as opened:
            assert content(opened) == content(buf)
        for child in children[1:]:
            child.communicate(timeout=60)
            assert child.returncode == 0
        assert [one["name"] for one in bc.list_objects(dir=place) if one["held"]] == ["walk"]
        bc.collect_garbage(dir=place)
        assert [one["name"] for one in bc.list_objects(dir=place)] == ["walk"]


KILLED = """
import os, signal, sys, backcast as bc
def progress(done, total):
    os.kill(os.getpid(), signal.SIGKILL)
with bc.ReplayBuffer.attach("wide") as buf:
    buf.snapshot("b", store=sys.argv[1], progress=progress)
"""


def test_a_process_killed_while_it_saves_leaves_what_was_saved_before(
    place: Path, tmp_path: Path, start: Callable[..., Any]
) -> None:
    columns = {"obs": ("u1", (100_000,))}
    with bc.ReplayBuffer.create("wide", columns, capacity=300, dir=place) as buf:
        with buf.writer() as writer:
            step: dict[str, Any] = {
                "obs": np.zeros(100_000, "u1"),
                "terminated": False,
                "truncated": False,
            }
            for _ in range(5):
                writer.append(**step)
            buf.snapshot("a", store=tmp_path)
            for _ in range(150):
                writer.append(**step)
        child = start(KILLED, str(tmp_path))
        child.communicate(timeout=60)
        assert child.returncode == -signal.SIGKILL
        assert [one["snapshot"] for one in bc.list_snapshots(store=tmp_path)] == ["wide@a"]
        assert bc.verify_snapshot("wide", store=tmp_path)["whole"]
        assert buf.snapshot("b", store=tmp_path)["rows"] == 155
        assert not [*tmp_path.rglob("*.tmp")]
