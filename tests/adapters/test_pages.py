"""The pages about other libraries run, top to bottom, and print the output that they show."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip(
    "stable_baselines3",
    reason="Stable-Baselines3 is not installed: pip install -r requirements/adapters.txt",
)

TOOLS = Path(__file__).resolve().parents[2] / "pybind" / "tests" / "docs"
sys.path.append(str(TOOLS))
from blocks import ADAPTERS  # noqa: E402


@pytest.mark.parametrize("page", ADAPTERS, ids=[page.stem for page in ADAPTERS])
def test_the_blocks_of_a_page_run_and_print_what_it_shows(
    page: Path, place: Path, tmp_path: Path
) -> None:
    sources = [str(Path(entry).resolve()) for entry in sys.path if entry]
    ran = subprocess.run(
        [sys.executable, TOOLS / "run_page.py", page],
        cwd=tmp_path,
        env={
            **os.environ,
            "BACKCAST_DIR": str(place),
            "BACKCAST_STORE": str(tmp_path / "store"),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(sources),
            "COLUMNS": "100",
        },
        capture_output=True,
        text=True,
        # Only ends a hang: the page with four actors trains for a minute on a busy machine.
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
