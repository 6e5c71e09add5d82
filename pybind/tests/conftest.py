"""Fixtures: a private directory for shared objects, and children that never outlive their test."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import backcast as bc
import pytest

Child = subprocess.Popen[str]


@pytest.fixture
def place() -> Iterator[Path]:
    """Give a directory of this test's own, and assert that the test leaves nothing in it."""
    shared = Path("/dev/shm")
    parent = shared if shared.is_dir() else None
    path = Path(tempfile.mkdtemp(prefix="backcast-test-", dir=parent))
    yield path
    gc.collect()
    left = [entry["name"] for entry in bc.list(dir=path)]
    left += [str(file) for file in path.rglob("*") if file.is_file() and file.stat().st_size]
    shutil.rmtree(path)
    assert not left, f"left in shared memory: {left}"


@pytest.fixture
def start(place: Path) -> Iterator[Callable[..., Child]]:
    """Give a function that runs Python code in a child which sees the private directory."""
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
        child.communicate()
