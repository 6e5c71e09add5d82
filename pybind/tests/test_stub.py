"""The stub says what the native module is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGES = Path(__file__).resolve().parents[1] / "python"


def test_the_stub_agrees_with_the_module(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    done = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "backcast._native"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"MYPYPATH": str(PACKAGES)},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
