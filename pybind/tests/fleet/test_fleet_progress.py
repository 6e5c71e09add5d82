"""Progress lines: what a terminal and a file get to read while a fleet runs."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import termios
from pathlib import Path

import pytest

CODE = """
import sys
import time
import backcast as bc

import fleet_actors

if __name__ == "__main__":
    ring = bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=1_000)
    shown = {"True": True, "False": False, "None": None}[sys.argv[1]]
    with ring, bc.Fleet(fleet_actors.report_all, 2, args=(50,), buffer=ring, progress=shown) as f:
        f.wait(120)
        f.update(100, samples=400, version=49)
        with ring.writer() as writer:
            for _ in range(101):
                writer.append(obs=1, terminated=False, truncated=False)
        seen = f.stats()["rows"]
        time.sleep(float(sys.argv[2]))
    print("rows", seen)
"""
# Episodes return 0 to 49, and 400 items are drawn for 101 rows.
FACTS = (
    r"0/2 actors \| [\d.]+ rows/s \| [\d.]+ updates/s \| 3\.96 samples/insert \| "
    r"(policy age \d+\.\d versions, \d+\.\d\d s \| )?100 episodes, return 24\.5"
)
WATCHDOG_S = 120


def program(place: Path, *arguments: str) -> tuple[list[str], dict[str, str]]:
    folder = str(Path(__file__).parent)
    path = place / "progress_program.py"
    path.write_text(CODE)
    env = os.environ | {"BACKCAST_DIR": str(place), "PYTHONPATH": folder, "COLUMNS": "200"}
    return [sys.executable, str(path), *arguments], env | {"TERM": "xterm"}


def on_a_terminal(place: Path, *arguments: str) -> tuple[str, str]:
    """Run the program with a terminal as stderr; return its output and what the terminal got."""
    command, env = program(place, *arguments)
    parent, child = pty.openpty()
    termios.tcsetwinsize(child, (24, 200))
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=child, env=env, text=True)
    os.close(child)
    seen = b""
    try:
        while part := os.read(parent, 65_536):
            seen += part
    except OSError:  # The other end is closed.
        pass
    os.close(parent)
    out, _ = run.communicate(timeout=WATCHDOG_S)
    assert run.returncode == 0, seen.decode()
    return out, seen.decode()


def test_a_terminal_gets_one_line_that_is_kept_up_to_date(place: Path) -> None:
    out, seen = on_a_terminal(place, "None", "1.5")
    (place / "progress_program.py").unlink()
    assert out == "rows 101\n"
    shown = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", part) for part in seen.split("\x1b[2K")]
    lines = [line.strip() for line in shown if "actors" in line]
    assert len(lines) > 2, "it is replaced again and again"
    assert re.fullmatch(FACTS, lines[-1]), lines[-1]
    assert "\x1b[?25l" in seen, "hides the cursor"
    assert "\x1b[?25h" in seen, "shows the cursor again"


def test_a_terminal_gets_nothing_that_is_not_wanted(place: Path) -> None:
    out, seen = on_a_terminal(place, "False", "0.5")
    (place / "progress_program.py").unlink()
    assert (out, seen) == ("rows 101\n", "")


@pytest.mark.parametrize("wanted", ["True", "None"])
def test_a_file_gets_plain_lines_if_they_are_wanted(place: Path, wanted: str) -> None:
    command, env = program(place, wanted, "11" if wanted == "True" else "0.5")
    ran = subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=WATCHDOG_S, check=False
    )
    (place / "progress_program.py").unlink()
    assert (ran.returncode, ran.stdout) == (0, "rows 101\n"), ran.stderr
    if wanted == "None":
        assert ran.stderr == ""
        return
    lines = ran.stderr.splitlines()
    assert len(lines) == 2, "one each ten seconds, and one at the end"
    assert "\x1b" not in ran.stderr
    for line in lines:
        assert re.fullmatch(FACTS, line), line
