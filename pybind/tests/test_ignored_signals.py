"""Tests pass also if they are started with signals ignored, as by `nohup`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from waits import WATCHDOG_S

TESTS = Path(__file__).parent
IGNORED = 'trap \'\' HUP INT QUIT TERM; exec "$0" "$@"'


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_children_of_tests_ignore_no_signal(tmp_path: Path) -> None:
    """Run a test with the same `conftest.py`, which checks the signals that its child ignores."""
    test = tmp_path / "test_child.py"
    test.write_text(
        "import subprocess\n"
        "def test_child():\n"
        "    said = subprocess.run(['cat', '/proc/self/status'], capture_output=True, text=True)\n"
        "    [mask] = [line for line in said.stdout.splitlines() if line.startswith('SigIgn')]\n"
        # Signals from 32 on are not checked: the C library ignores some of them in children.
        "    assert int(mask.split()[1], 16) & 0x7FFFFFFF == 0, mask\n"
    )
    (tmp_path / "conftest.py").write_text((TESTS / "conftest.py").read_text())
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(test)]
    ran = subprocess.run(
        ["sh", "-c", IGNORED, *command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=WATCHDOG_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
    assert "1 passed" in ran.stdout


def test_signals_end_a_fleet_of_a_program_that_tests_start_under_nohup() -> None:
    """Run the tests of signals that end a fleet, whose program must not ignore them."""
    test = TESTS / "fleet" / "test_fleet_ends.py"
    wanted = "test_a_signal_leaves_the_block_and_stops_all_actors"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(test)]
    ran = subprocess.run(
        ["sh", "-c", IGNORED, *command, "-k", wanted],
        cwd=TESTS.parents[1],
        capture_output=True,
        text=True,
        timeout=WATCHDOG_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
    assert "3 passed" in ran.stdout
