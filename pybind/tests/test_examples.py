"""The programs in examples/ run as they stand and leave nothing behind."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PROGRAMS = sorted(EXAMPLES.glob("*.py"))


@pytest.mark.parametrize("program", PROGRAMS, ids=[program.stem for program in PROGRAMS])
def test_an_example_ends_well_and_leaves_no_shared_memory(program: Path, tmp_path: Path) -> None:
    # The watchdog ends a hang; how long the example takes is not judged.
    ran = subprocess.run(
        [sys.executable, "-W", "error", program],
        env={**os.environ, "BACKCAST_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout, "an example shows something"
    assert not [path for path in tmp_path.rglob("*") if path.is_file()], "files are left"
