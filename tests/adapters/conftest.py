"""Fixtures of the adapters' tests: generated prices, and a directory for rings."""

from __future__ import annotations

import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

# Stable-Baselines3 tries to import OpenAI's gym when it saves, and would find the folder `gym`.
sys.path[:] = [entry for entry in sys.path if entry and Path(entry) != Path.cwd()]

# One thread, set before PyTorch is imported: several threads would spin while other programs run.
os.environ["OMP_NUM_THREADS"] = "1"

import backcast as bc  # noqa: E402
import numpy as np  # noqa: E402
import pytest  # noqa: E402

DAYS = 80


@pytest.fixture(scope="session")
def prices(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a market of two tickers and an index, with two indicators."""
    draw = np.random.default_rng(7)
    path = tmp_path_factory.mktemp("market") / "prices.csv"
    days = np.arange("2024-01-01", DAYS, dtype="datetime64[D]")
    lines = ["date,tic,open,high,low,close,volume,rsi,ema"]
    for ticker in ("AAA", "BBB", "IDX"):
        close = 100 * np.exp(np.cumsum(draw.normal(0, 0.02, DAYS)))
        lines += [
            f"{day},{ticker},{price},{price + 1},{price - 1},{price},1000,{draw.random()},{price}"
            for day, price in zip(days, close, strict=True)
        ]
    path.write_text("\n".join(lines))
    return path


@pytest.fixture
def place() -> Iterator[Path]:
    """Give a directory for rings of this test's own, and assert that nothing is left in it."""
    shared = Path("/dev/shm")
    path = Path(tempfile.mkdtemp(prefix="backcast-test-", dir=shared if shared.is_dir() else None))
    yield path
    gc.collect()
    left = [entry["name"] for entry in bc.list_objects(dir=path)]
    shutil.rmtree(path)
    assert not left, f"left in shared memory: {left}"
