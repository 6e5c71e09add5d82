"""Saves and loads report progress, stop at Ctrl-C and let other threads run."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import backcast as bc
import numpy as np
import pytest
from other_threads import others_run


@pytest.fixture
def wide(place: Path) -> Iterator[bc.ReplayBuffer]:
    """Make a ring with 15 MB of rows, which a snapshot writes in several batches."""
    columns = {"obs": ("u1", (100_000,))}
    with bc.ReplayBuffer.create("wide", columns, capacity=200, dir=place) as buf:
        with buf.writer() as writer:
            for _ in range(150):
                writer.append(obs=np.zeros(100_000, "u1"), terminated=False, truncated=False)
        yield buf


def test_progress_is_reported_and_its_exceptions_leave_no_files(
    wide: bc.ReplayBuffer, place: Path, tmp_path: Path
) -> None:
    told: list[tuple[int, int]] = []

    def tell(done: int, total: int) -> None:
        told.append((done, total))

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        wide.snapshot("a", store=tmp_path, progress=stop)
    assert bc.list_snapshots(store=tmp_path) == []
    assert not [*tmp_path.rglob("*.arrow*")]
    wide.snapshot("a", store=tmp_path, progress=tell)
    assert len(told) > 2
    assert told == sorted(told)
    assert told[-1][0] >= 150 * 100_000
    told.clear()
    calls: list[Callable[[Any], object]] = [
        lambda progress: bc.ReplayBuffer.load(
            "wide", "again", store=tmp_path, dir=place, progress=progress
        ).close(),
        lambda progress: bc.ReplayBuffer.open_snapshot(
            "wide", store=tmp_path, dir=place, progress=progress
        ).close(),
        lambda progress: bc.verify_snapshot("wide", store=tmp_path, progress=progress),
        lambda progress: wide.export(tmp_path / "wide.parquet", overwrite=True, progress=progress),
        lambda progress: bc.ReplayBuffer.from_file(
            tmp_path / "wide.parquet", "read", dir=place, progress=progress
        ).close(),
    ]
    for call in calls:
        call(tell)
        assert len(told) > 2
        assert told[-1][0] > 0
        told.clear()
        with pytest.raises(KeyboardInterrupt):
            call(stop)
    assert [one["name"] for one in bc.list_objects(dir=place)] == ["wide"]


def test_progress_ends_at_the_total(place: Path, tmp_path: Path) -> None:
    """The rows of the ring are few and narrow, so its files are much larger than its rows."""
    told: list[tuple[int, int]] = []

    def tell(done: int, total: int) -> None:
        told.append((done, total))

    columns = {"obs": "u1", "flag": "bool"}
    calls: dict[str, Callable[[], object]] = {
        "save": lambda: buf.snapshot("a", store=tmp_path, progress=tell),
        "load": lambda: bc.ReplayBuffer.load(
            "narrow", "again", store=tmp_path, dir=place, progress=tell
        ).close(),
        "open": lambda: bc.ReplayBuffer.open_snapshot(
            "narrow", store=tmp_path, dir=place, progress=tell
        ).close(),
        "verify": lambda: bc.verify_snapshot("narrow", store=tmp_path, progress=tell),
    }
    with bc.ReplayBuffer.create("narrow", columns, capacity=99, lanes=3, dir=place) as buf:
        with buf.writer(3, "next_step") as writer:
            for _ in range(7):
                ends = [False] * 3
                writer.append(obs=[1] * 3, flag=ends, terminated=ends, truncated=ends)
        for name, call in calls.items():
            call()
            assert told == sorted(told), name
            assert told[-1][0] == told[-1][1] > 0, name
            told.clear()


INTERRUPTED = """
import os, signal, sys, backcast as bc
name, store, call = sys.argv[1:]
def progress(done, total):
    if done == 0 or signal.getsignal(signal.SIGINT) is None: return
    os.kill(os.getpid(), signal.SIGINT)
buf = bc.ReplayBuffer.attach(name)
try:
    if call == "save": buf.snapshot("b", store=store, progress=progress)
    else: bc.ReplayBuffer.load("wide@a", "copy", store=store, progress=progress)
except KeyboardInterrupt:
    print("interrupted", [one["name"] for one in bc.list_objects()])
"""


@pytest.mark.parametrize("call", ["save", "load"])
def test_ctrl_c_ends_it_and_leaves_nothing(
    wide: bc.ReplayBuffer, tmp_path: Path, start: Callable[..., Any], call: str
) -> None:
    if call == "load":
        wide.snapshot("a", store=tmp_path)
    child = start(INTERRUPTED, "wide", str(tmp_path), call)
    out, error = child.communicate(timeout=60)
    assert out.strip() == "interrupted ['wide']", error
    assert len(bc.list_snapshots(store=tmp_path)) == (call == "load")


@pytest.mark.parametrize("call", ["save", "load", "open", "verify"])
def test_others_run_meanwhile(
    wide: bc.ReplayBuffer, place: Path, tmp_path: Path, call: str
) -> None:
    wide.snapshot("a", store=tmp_path)
    calls: dict[str, Callable[[], object]] = {
        "save": lambda: wide.snapshot("a", store=tmp_path / "new", replace=True),
        "load": lambda: bc.ReplayBuffer.load("wide", "new", store=tmp_path, dir=place),
        "open": lambda: bc.ReplayBuffer.open_snapshot("wide@a", store=tmp_path, dir=place),
        "verify": lambda: bc.verify_snapshot("wide@a", store=tmp_path),
    }

    def run() -> None:
        got = calls[call]()
        if isinstance(got, bc.ReplayBuffer):
            got.close()

    assert others_run(run, 50)


def test_signals_are_looked_at_by_the_main_thread_alone(
    wide: bc.ReplayBuffer, tmp_path: Path
) -> None:
    """Ctrl-C does not stop a save in another thread, and reaches the main thread."""
    sent: list[int] = []

    def interrupt(done: int, total: int) -> None:
        if not sent:
            sent.append(done)
            signal.raise_signal(signal.SIGINT)

    thread = threading.Thread(
        target=wide.snapshot, args=("a",), kwargs={"store": tmp_path, "progress": interrupt}
    )
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        thread.join(60)
    thread.join(60)
    assert bc.list_snapshots(store=tmp_path)[0]["rows"] == 150
