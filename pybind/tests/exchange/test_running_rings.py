"""Exports of rings that are written during the export."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import backcast as bc
import numpy as np
import pytest
from waits import read_line

COLUMNS = {"obs": ("f8", (2_048,)), "action": "i4", "reward": "f4"}
ROWS = 6_000
"""Rows of some 94 MiB, more than an export reads ahead."""
KINDS = ["running.parquet", "running.csv", "running-v0"]


def publish(writer: bc.Writer, rows: int) -> None:
    """Append rows of a running episode."""
    ends = np.zeros(rows, bool)
    obs = np.zeros((rows, 2_048))
    writer.extend(obs=obs, action=ends.astype("i4"), reward=ends, terminated=ends, truncated=ends)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[tuple[bc.ReplayBuffer, bc.Writer]]:
    """Yield a full ring and its writer."""
    made = bc.ReplayBuffer.create("running", COLUMNS, capacity=ROWS, dir=tmp_path)
    with made as buf, buf.writer() as writer:
        for _ in range(7):
            publish(writer, 1_000)
        yield buf, writer


@pytest.mark.parametrize("name", KINDS)
def test_rows_of_a_slow_writer_are_all_there(
    running: tuple[bc.ReplayBuffer, bc.Writer], tmp_path: Path, name: str
) -> None:
    buf, writer = running
    published = 0

    def step(done: int, total: int) -> None:
        nonlocal published
        publish(writer, 20)
        published += 20

    # A warning would be an error here.
    report = buf.export(tmp_path / name, progress=step)
    assert published > 1_000
    assert (report["rows"], report["rows_lapped"]) == (ROWS, 0)


@pytest.mark.parametrize("name", KINDS)
def test_rows_that_are_missing_are_counted_and_warned_of(
    running: tuple[bc.ReplayBuffer, bc.Writer], tmp_path: Path, name: str
) -> None:
    buf, writer = running
    published = 0

    def step(done: int, total: int) -> None:
        nonlocal published
        if published < ROWS:
            publish(writer, 1_000)
            published += 1_000

    with pytest.warns(bc.errors.LappedWarning, match=name):
        report = buf.export(tmp_path / name, progress=step)
    rows, missing = report["rows"], report["rows_lapped"]
    assert rows is not None
    assert missing is not None
    assert 0 < missing <= published
    assert rows + missing == ROWS
    if name.endswith("parquet"):
        with bc.ReplayBuffer.from_file(tmp_path / name, "again", dir=tmp_path) as again:
            first, head = again.lane_span(0)
            assert again.imported is not None
            assert again.imported["rows"] == head - first
            assert again.imported["rows"] + again.imported["rows_before_gap"] == rows


WRITES = """
import sys
import backcast as bc
import numpy as np

buf = bc.ReplayBuffer.attach("running", dir=sys.argv[1])
with buf.writer(lanes=4, autoreset_mode="disabled") as writer:
    ends = np.zeros(4, bool)
    step = {"obs": np.zeros((4, 512), "f4"), "action": ends, "reward": ends}
    step |= {"terminated": ends, "truncated": ends}
    full = 4 * buf.lane_capacity
    for t in range(1 << 40):
        writer.append(**step)
        if t == full:
            print("full", flush=True)
"""


def test_the_command_line_says_what_is_missing_beside_a_process_that_writes(tmp_path: Path) -> None:
    columns = {"obs": ("f4", (512,)), "action": "i4", "reward": "f4"}
    made = bc.ReplayBuffer.create("running", columns, capacity=20_000, lanes=4, dir=tmp_path)
    with made as buf:
        writes = subprocess.Popen(
            [sys.executable, "-c", WRITES, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        try:
            assert read_line(writes) == "full\n"
            for name in KINDS:
                command = [sys.executable, "-m", "backcast", "--dir", str(tmp_path), "--json"]
                before = buf.stats()["rows_published"]
                done = subprocess.run(
                    [*command, "export", "running", str(tmp_path / name)],
                    capture_output=True,
                    text=True,
                    check=False,
                    timeout=60,
                )
                published = buf.stats()["rows_published"] - before
                report = json.loads(done.stdout)
                missing = report["lapped_rows"]
                assert missing <= published
                assert done.returncode == (3 if missing else 0), done.stderr
                assert bool(done.stderr) == bool(missing)
                if name != "running-v0":
                    # The export begins at the first row that it could read of each lane.
                    assert 20_000 - published <= report["rows"] + missing <= 20_000
        finally:
            writes.kill()
            writes.wait(60)
            if writes.stdout is not None:
                writes.stdout.close()
