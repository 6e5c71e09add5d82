"""Progress lines of a running fleet, on a terminal and in a file."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any

import pytest
from backcast.fleet._progress import text_of
from backcast.fleet._stats import Tally
from waits import WATCHDOG_S, killing

CODE = """
import sys
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
        sys.stdin.readline()
    print("rows", seen)
"""
# Episodes have returns from 0 to 49, and 400 items are drawn for 101 rows.
FACTS = (
    r"0/2 actors \| [\d.]+ rows/s \| [\d.]+ updates/s \| 3\.96 samples/insert \| "
    r"(policy age \d+\.\d versions, \d+\.\d\d s \| )?100 episodes, return 24\.5"
)
PLAIN_EVERY_S = 10


def started(place: Path, shown: str, stderr: int) -> subprocess.Popen[str]:
    """Start the program, which ends after it reads a line."""
    folder = str(Path(__file__).parent)
    path = place / "progress_program.py"
    path.write_text(CODE)
    # The package of the tests, which under `make mutants` is a changed copy.
    sources = os.pathsep.join([folder, *filter(None, sys.path)])
    env = os.environ | {"BACKCAST_DIR": str(place), "PYTHONPATH": sources, "COLUMNS": "200"}
    return subprocess.Popen(
        [sys.executable, str(path), shown],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        env=env | {"TERM": "xterm"},
        text=True,
    )


def told_to_end(run: subprocess.Popen[str], place: Path) -> tuple[str, str]:
    """Tell the program to end; return the rest of its output."""
    out, err = run.communicate("\n", timeout=WATCHDOG_S)
    (place / "progress_program.py").unlink()
    assert run.returncode == 0, err
    return out, err


def drawn_lines(seen: bytes) -> list[str]:
    """Return the progress lines that a terminal has received, one for each redraw."""
    shown = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", part) for part in seen.decode().split("\x1b[2K")]
    return [line.strip() for line in shown if "actors" in line]


def on_a_terminal(place: Path, shown: str, lines: int) -> tuple[str, bytes]:
    """Run the program with a terminal as stderr, until the terminal has received `lines` lines."""
    parent, child = pty.openpty()
    termios.tcsetwinsize(child, (24, 200))
    run = started(place, shown, child)
    os.close(child)
    seen = b""
    with killing(run.kill):
        while len(drawn_lines(seen)) < lines:
            seen += os.read(parent, 65_536)
    out, _ = told_to_end(run, place)
    try:
        while part := os.read(parent, 65_536):
            seen += part
    except OSError:  # The other end is closed.
        pass
    os.close(parent)
    return out, seen


def test_a_terminal_gets_one_line_that_is_kept_up_to_date(place: Path) -> None:
    out, seen = on_a_terminal(place, "None", 3)
    assert out == "rows 101\n"
    lines = drawn_lines(seen)
    assert re.fullmatch(FACTS, lines[-1]), lines[-1]
    assert b"\x1b[?25l" in seen, "hides the cursor"
    assert b"\x1b[?25h" in seen, "shows the cursor again"


def test_a_terminal_that_closes_does_not_end_the_fleet(place: Path) -> None:
    parent, child = pty.openpty()
    run = started(place, "None", child)
    os.close(child)
    seen = b""
    with killing(run.kill):
        while not drawn_lines(seen):
            seen += os.read(parent, 65_536)
    os.close(parent)
    out, _ = told_to_end(run, place)
    assert out == "rows 101\n"


def test_a_terminal_gets_nothing_that_is_not_wanted(place: Path) -> None:
    assert on_a_terminal(place, "False", 0) == ("rows 101\n", b"")


def test_a_file_gets_a_plain_line_now_and_then_and_one_at_the_end(place: Path) -> None:
    begin = time.monotonic()
    run = started(place, "True", subprocess.PIPE)
    assert run.stderr is not None
    with killing(run.kill):
        lines = [run.stderr.readline()]
        # On a slow machine the first lines show a part of the counts.
        while not re.fullmatch(FACTS, lines[-1].strip()):
            assert lines[-1], lines
            lines.append(run.stderr.readline())
    out, err = told_to_end(run, place)
    assert out == "rows 101\n"
    rest = err.splitlines()
    assert rest, "none at the end"
    assert len([*lines, *rest]) <= (time.monotonic() - begin) / PLAIN_EVERY_S + 1, "too often"
    for line in rest:
        assert re.fullmatch(FACTS, line.strip()), line


def test_a_file_gets_no_lines_that_are_not_asked_for(place: Path) -> None:
    assert told_to_end(started(place, "None", subprocess.PIPE), place) == ("rows 101\n", "")


RATES = {
    0.0: "0",
    0.256: "0.256",
    12.34: "12.3",
    999.0: "999",
    1_000.0: "1 k",
    12_345.0: "12.3 k",
    999_000.0: "999 k",
    1_000_000.0: "1 M",
    999.6: "1 k",
    999_600.0: "1 M",
    25_000_000.0: "25 M",
    2e9: "2,000 M",
}


@pytest.mark.parametrize(("rate", "shown"), RATES.items())
def test_rates_are_shown_in_thousands_or_millions(rate: float, shown: str) -> None:
    stats = Tally(0, None).stats([], 0)
    stats["updates"], stats["rows_per_s"], stats["updates_per_s"] = 1, rate, rate
    assert text_of(stats) == f"0/0 actors | {shown} rows/s | {shown} updates/s"


PARTS: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, "0/0 actors"),
    "no update": ({"updates_per_s": 3.0}, "0/0 actors"),
    "ratio": ({"samples_per_insert": 0.0}, "0/0 actors | 0.00 samples/insert"),
    "age": (
        {"policy_age_versions": 0.0, "policy_age_s": 1.0},
        "0/0 actors | policy age 0.0 versions, 1.00 s",
    ),
    "episodes": (
        {"episodes": 3, "return_mean": 0.0},
        "0/0 actors | 3 episodes, return 0.0",
    ),
    "restarts": ({"restarts": 2}, "0/0 actors | 2 restarts"),
}


@pytest.mark.parametrize(("known", "shown"), PARTS.values(), ids=PARTS)
def test_a_line_shows_what_is_known(known: dict[str, Any], shown: str) -> None:
    stats: Any = {**Tally(0, None).stats([], 0), **known}
    assert text_of(stats) == shown
