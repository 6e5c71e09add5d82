"""Fixtures: a private directory for shared objects, children that end with their test, prices."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from pathlib import Path
from types import FrameType

import backcast as bc
import numpy as np
import pytest

Child = subprocess.Popen[str]


def pytest_configure() -> None:
    """Give children the default action of signals that the test process was started to ignore.

    ``nohup``, the ``&`` of a script and some job runners start programs with signals ignored, and
    children inherit that. A handled signal has its default action in a child. The handlers of
    SIGHUP, SIGQUIT and SIGTERM do nothing, so closing the terminal still does not end the tests.
    """
    handlers: dict[signal.Signals, Callable[[int, FrameType | None], None] | signal.Handlers] = {
        signal.SIGCHLD: signal.SIG_DFL,
        signal.SIGINT: signal.default_int_handler,
        signal.SIGHUP: _go_on,
        signal.SIGQUIT: _go_on,
        signal.SIGTERM: _go_on,
    }
    for number, handler in handlers.items():
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


def _go_on(_number: int, _frame: FrameType | None) -> None:
    """Handle a signal by doing nothing."""


@pytest.fixture(scope="session", autouse=True)
def _store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the snapshots of the user's own store out of the tests, and theirs out of it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BACKCAST_STORE", str(tmp_path_factory.mktemp("store")))
        yield


@pytest.fixture
def place() -> Iterator[Path]:
    """Yield a private directory; assert that the test leaves no object or non-empty file in it."""
    shared = Path("/dev/shm")
    parent = shared if shared.is_dir() else None
    path = Path(tempfile.mkdtemp(prefix="backcast-test-", dir=parent))
    yield path
    gc.collect()
    left = [entry["name"] for entry in bc.list_objects(dir=path)]
    left += [str(file) for file in path.rglob("*") if file.is_file() and file.stat().st_size]
    shutil.rmtree(path)
    assert not left, f"left in shared memory: {left}"


@pytest.fixture
def start(place: Path) -> Iterator[Callable[..., Child]]:
    """Yield a function that runs Python code in a child with `BACKCAST_DIR` set to `place`."""
    children: list[Child] = []

    def run(code: str, *arguments: str) -> Child:
        child = subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"BACKCAST_DIR": str(place)},
        )
        children.append(child)
        return child

    yield run
    for child in children:
        child.kill()
        child.communicate(timeout=60)


@pytest.fixture
def panel_file(tmp_path: Path) -> Path:
    """Write prices of three tickers, one of them an index, over 60 days."""
    draw = np.random.default_rng(1)
    lines = ["date,tic,open,high,low,close,volume,rsi,ema"]
    for ticker in ["AAA", "BBB", "IDX"]:
        close = 50 * np.exp(np.cumsum(draw.normal(0, 0.03, 60)))
        for day in range(60):
            opening = close[day] * 1.01
            prices = f"{opening},{close[day] * 1.1},{close[day] * 0.9},{close[day]}"
            today = date(2024, 1, 1) + timedelta(days=day)
            lines.append(f"{today},{ticker},{prices},1000,{draw.random()},{draw.random()}")
    path = tmp_path / "panel.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def panel(panel_file: Path) -> bc.Panel:
    """Load the prices of `panel_file`, with the index as a macro ticker."""
    return bc.Panel.from_csv(panel_file, macro=["IDX"])
