"""A full disk raises the same error for every kind of file.

The small disk is mounted in a private namespace, which ends with the process in it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

INSIDE = """
import sys
from pathlib import Path

import backcast as bc
import numpy as np

disk, rings = Path(sys.argv[1]), sys.argv[2]
draw = np.random.default_rng(0)
columns = {"obs": ("f4", (256,)), "action": "i4", "reward": "f4"}
with bc.ReplayBuffer.create("walk", columns, capacity=4_000, dir=rings) as buf:
    with buf.writer() as writer:
        ends = np.zeros(4_000, bool)
        writer.extend(
            obs=draw.normal(size=(4_000, 256)),
            action=ends.astype("i4"),
            reward=ends,
            terminated=ends,
            truncated=ends,
        )
    for name, write in {
        "parquet": lambda: buf.export(disk / "walk.parquet"),
        "csv": lambda: buf.export(disk / "walk.csv"),
        "minari": lambda: buf.export(disk / "walk-v0"),
        "snapshot": lambda: buf.snapshot("full", store=disk / "store"),
    }.items():
        try:
            write()
        except bc.errors.SpaceError as error:
            print(name, "No space left" in str(error) or "no space left" in str(error))
        left = [path for path in disk.rglob("*") if path.is_file() and path.stat().st_size > 4096]
        assert not left, left
"""


def test_a_full_disk_is_the_same_error_for_every_format_and_for_snapshots(tmp_path: Path) -> None:
    if not (unshare := shutil.which("unshare")):
        pytest.skip("there is no `unshare`")
    disk = tmp_path / "disk"
    disk.mkdir()
    private = ["--mount"] if os.geteuid() == 0 else ["--user", "--map-root-user", "--mount"]
    mount = 'mount -t tmpfs -o size=1m tmpfs "$0" || exit 77; exec "$@"'
    inside = [sys.executable, "-c", INSIDE, str(disk), str(tmp_path)]
    ran = subprocess.run(
        [unshare, *private, "sh", "-c", mount, str(disk), *inside],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    if ran.returncode == 77 or (ran.returncode and "unshare" in ran.stderr):
        pytest.skip(f"no private disk can be mounted: {ran.stderr.strip()}")
    assert ran.returncode == 0, ran.stderr
    written = ["parquet", "csv", "minari", "snapshot"]
    assert ran.stdout.splitlines() == [f"{name} True" for name in written]
