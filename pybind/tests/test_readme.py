"""The README's Python blocks run as they stand, and print what they are said to print."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[2] / "README.md"
FENCE = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<output>.*?)^```\n)?", re.M | re.S
)
BLOCKS = list(FENCE.finditer(README.read_text(encoding="utf-8")))


def test_the_first_screen_has_a_python_block_of_at_most_20_lines() -> None:
    assert BLOCKS, f"{README} has no Python block"
    code = BLOCKS[0]["code"]
    assert len(code.splitlines()) <= 20
    assert README.read_text(encoding="utf-8").index(code) < 600, "it is not on the first screen"


@pytest.mark.parametrize("block", BLOCKS, ids=[f"block{i}" for i in range(len(BLOCKS))])
def test_a_block_runs_in_a_process_of_its_own_and_leaves_nothing_behind(
    block: re.Match[str], tmp_path: Path
) -> None:
    # The watchdog ends a hang; how long the block takes is not judged.
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", block["code"]],
        env={**os.environ, "BACKCAST_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    if block["output"] is not None:
        assert ran.stdout == block["output"]
    assert not [path for path in tmp_path.rglob("*") if path.is_file()], "files are left"
