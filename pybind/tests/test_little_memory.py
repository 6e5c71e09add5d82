"""Lack of memory raises an error, and existing objects keep working."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import backcast as bc
import backcast.finrl as ff
import numpy as np
import pytest
from backcast.envs import TradingVectorEnv

STATM = Path("/proc/self/statm")

pytestmark = pytest.mark.skipif(not STATM.exists(), reason="Linux says what is mapped")


@contextmanager
def at_most(more: int) -> Iterator[None]:
    """Limit the memory that this process may map to ``more`` bytes above the present."""
    mapped = int(STATM.read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (mapped + more, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.parametrize("generator", ["splitmix64", "mt19937"])
def test_as_many_portfolios_as_have_no_memory_are_refused(panel: bc.Panel, generator: str) -> None:
    with at_most(2**28), pytest.raises(bc.errors.EnvError, match=r"\b400000\b"):
        ff.VecFastFinRL(panel, 400_000, generator=generator, record=generator == "splitmix64")


def test_as_many_markets_as_have_no_memory_are_refused() -> None:
    with at_most(2**28), pytest.raises(bc.errors.EnvError, match=r"\b100000\b.*\bmemory\b"):
        TradingVectorEnv(100_000)


# Runs in a new process, which has room for small allocations: Rust aborts if one of them fails.
RECORD = """
import sys

import backcast as bc
import numpy as np
import pytest
from backcast.envs import PortfolioVectorEnv
from test_little_memory import at_most

n = 20_000
panel = bc.Panel.from_csv(sys.argv[1])
env = PortfolioVectorEnv(panel, n, record=True, failure_threshold=0)
obs, _ = env.reset(seed=1)
actions = np.zeros((n, 2), "f4")
actions[:, 0] = 0.1
days = [obs["day"][0, 0]]
with at_most(2**24), pytest.raises(bc.errors.EnvError, match="20000"):
    for _ in range(60):
        days.append(env.step(actions)[0]["day"][0, 0])
env.step(actions)
kept = env.history(0)["day"].tolist()
assert kept[:-1] == days
assert kept[-1] == days[-1] + 1
"""


def test_a_record_without_memory_ends_no_process_and_loses_no_day(tmp_path: Path) -> None:
    prices = tmp_path / "prices.csv"
    days = [str(np.datetime64("2020-01-01") + day) for day in range(200)]
    rows = [f"{day},{name},10,11,9,10,100" for name in ("AAA", "BBB") for day in days]
    prices.write_text("\n".join(["date,tic,open,high,low,close,volume", *rows]))
    ran = subprocess.run(
        [sys.executable, "-c", RECORD, prices],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr


def test_a_panel_without_memory_for_its_second_copy_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    names = [f"c{at}" for at in range(200)]
    row = ",".join(["1"] * (5 + len(names)))
    days = [str(np.datetime64("2000-01-01") + day) for day in range(2_000)]
    head = ",".join(["date", "tic", "open", "high", "low", "close", "volume", *names])
    path.write_text("\n".join([head, *(f"{day},A,{row}" for day in days)]) + "\n")
    whole = 2_000 * 205 * 12
    refused = 0
    for more in range(whole // 2, 8 * whole, whole // 4):
        try:
            with at_most(more):
                bc.Panel.from_csv(path)
        except (bc.errors.PanelError, bc.errors.SpaceError):
            refused += 1
    assert refused > 0
    assert bc.Panel.from_csv(path).n_days == 2_000
