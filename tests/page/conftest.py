"""A browser, directories of rings, and the page as a child process."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

WAIT_MS = 60_000
"""Milliseconds of a wait: a loaded machine starts a browser in several seconds."""
ROOT = Path(__file__).resolve().parents[2]
SHOTS = ROOT / "out" / "page"
WORLD = Path(__file__).with_name("world.py")


@dataclass
class Served:
    """The page of a directory."""

    url: str
    process: subprocess.Popen[str]

    def children(self) -> set[int]:
        """Return the processes that the page has started and that still run."""
        tasks = Path(f"/proc/{self.process.pid}/task").iterdir()
        return {int(pid) for task in tasks for pid in (task / "children").read_text().split()}


@contextmanager
def program(*command: str, until: str = "") -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a program; yield it and its first line, and end it in any case."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert until in line, (line, process.stderr and process.stderr.read())
        yield process, line
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=60)
        finally:
            process.kill()
            process.wait()


def backcast(place: Path, *arguments: str) -> list[str]:
    """Return the command line of a program of Backcast."""
    return [sys.executable, "-m", "backcast", "--dir", str(place), *arguments]


@contextmanager
def page(place: Path, *arguments: str) -> Iterator[Served]:
    """Serve the page of a directory on a free port, without a token unless one is given."""
    listen = "--listen", "127.0.0.1:0", "--interval", "0.5", *(arguments or ("--no-token",))
    with program(*backcast(place, "ui", *listen), until="open http") as (process, line):
        yield Served(line.split()[1], process)


@contextmanager
def directory() -> Iterator[Path]:
    """Make a directory of rings, and remove it."""
    path = Path(tempfile.mkdtemp(prefix="backcast-page-", dir="/dev/shm"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def place() -> Iterator[Path]:
    with directory() as path:
        yield path


@pytest.fixture(scope="module")
def world() -> Iterator[Path]:
    """Run a fleet with a learner, and other rings: `world.py`."""
    with directory() as path:
        os.environ["BACKCAST_DIR"] = str(path)
        with program(sys.executable, str(WORLD), until="ready"):
            yield path
        os.environ.pop("BACKCAST_DIR")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
    assert found, "no chromium on the path; install it (Debian: apt-get install chromium)"
    SHOTS.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as driver:
        made = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield made
        made.close()
