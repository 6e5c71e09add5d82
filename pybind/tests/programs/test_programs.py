"""Random programs over the whole replay API, compared with a plain model.

A program is data: steps that create, write, draw, gather, save, resize, fork and kill, made from a
seed, for one process or two. One seed in 20 is new in every run, the others are fixed. Model and
library take each step, and every row, batch, count and error class is compared. A program that
fails is shrunk and printed with its seed.

- `model.py`, `model_tables.py`: what rows, windows, limits, priorities and claims mean.
- `columns.py`: the value of a token, which stands for a row, in every column.
- `world.py`: the objects of a program. `expect_*.py`, `batches.py`: expected outcomes of steps.
- `making.py`, `making_options.py`: programs from seeds. `pairs.py` counts pairs of features.
- `calls.py`, `second_process.py`, `run_python.py`: steps as calls of Python, in two processes.
- `run_rust.py`: steps as calls of Rust, which `tests/tests/it/programs` makes.
- `shrink.py`: shrinks a failing program.

`BACKCAST_PROGRAMS=100000 pytest pybind/tests/programs/test_programs.py -n 2` runs that number of
programs, whatever `BACKCAST_BUDGET` is; `make storm` does so.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from budgets import budget
from making import make
from run_python import ProgramError, run
from second_process import Peers
from shrink import explained

# Random rows may look as if another autoreset mode had written them, and leases block writers.
pytestmark = [
    pytest.mark.filterwarnings("ignore::backcast.errors.WriterWarning"),
    pytest.mark.filterwarnings("ignore::backcast.errors.LeaseWarning"),
]

PROGRAMS = int(os.environ.get("BACKCAST_PROGRAMS", budget(2_000)))
PARTS = max(20, PROGRAMS // 5_000)
# One program in 8 has two processes.
TWO_PROCESSES = 8


@pytest.fixture(scope="module")
def peers() -> Iterator[Peers]:
    with Peers() as made:
        yield made


def seeds(part: int) -> list[int]:
    """Return the seeds of a part; all but a few are always the same, unless many are asked for."""
    count = -(-PROGRAMS // PARTS)
    new = count // (2 if "BACKCAST_PROGRAMS" in os.environ else 20)
    fixed = [part * count + at for at in range(count - new)]
    fresh = secrets.randbits(40) * count
    print(f"{new} new seeds from {fresh} on")
    return fixed + [fresh + at for at in range(new)]


@pytest.mark.parametrize("part", range(PARTS))
def test_programs_do_what_the_model_says(part: int, place: Path, peers: Peers) -> None:
    for at, seed in enumerate(seeds(part)):
        program = make(seed, processes=2 if (at + part) % TWO_PROCESSES == 0 else 1)
        try:
            run(program, place, peers)
        except ProgramError as failure:
            pytest.fail(explained(failure, place, peers), pytrace=False)
