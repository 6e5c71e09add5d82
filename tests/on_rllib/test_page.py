"""The page about RLlib runs, top to bottom, and prints the output that it shows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / "pybind" / "tests" / "docs"


def test_the_blocks_of_the_page_run_and_print_what_it_shows(place: Path, tmp_path: Path) -> None:
    sources = [str(Path(entry).resolve()) for entry in sys.path if entry]
    ran = subprocess.run(
        [sys.executable, TOOLS / "run_page.py", ROOT / "docs" / "howto" / "rllib.md"],
        cwd=tmp_path,
        env={
            **os.environ,
            "BACKCAST_DIR": str(place),
            "BACKCAST_STORE": str(tmp_path / "store"),
            "PYTHONPATH": os.pathsep.join(sources),
        },
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
