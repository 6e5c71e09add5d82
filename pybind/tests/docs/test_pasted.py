"""The quickstart works when it is pasted into an interactive Python, block by block."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from blocks import ROOT, blocks_of

QUICKSTART = ROOT / "docs" / "quickstart.md"


def test_the_quickstart_runs_in_an_interactive_python(place: Path, tmp_path: Path) -> None:
    pasted = []
    shown = 0
    for block in blocks_of(QUICKSTART):
        if block.program:
            (tmp_path / block.program).write_text(block.body, encoding="utf-8")
        elif block.language == "python":
            pasted.append(block.body)
            shown += len((block.output or "").splitlines())
    ran = subprocess.run(
        [sys.executable, "-q", "-i"],
        # An empty line ends a block, as at a prompt.
        input="\n".join(pasted) + "\n",
        cwd=tmp_path,
        env={**os.environ, "BACKCAST_DIR": str(place)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Error" not in ran.stderr, ran.stderr
    printed = ran.stdout.splitlines()
    # Python may echo the results of a few calls, but not one array for each step of a loop.
    assert shown <= len(printed) <= shown + 5, ran.stdout
