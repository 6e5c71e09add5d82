"""`import backcast` loads itself and NumPy, nothing else."""

from __future__ import annotations

import subprocess
import sys

OURS = {
    "__future__",
    # A part of the interpreter, without a file.
    "atexit",
    "backcast",
    "backcast._batch",
    "backcast._counts",
    "backcast._hindsight",
    "backcast._native",
    "backcast._calls",
    "backcast._params",
    "backcast._params_view",
    "backcast._trees",
    "backcast.errors",
}
"""Every module that may be imported beyond what `import numpy` brings, and why there are no more:

what else the package needs (argparse, inspect, gymnasium, matplotlib, ...) is imported where it is
used, since a worker process pays for every import once per start.
"""


def imported(code: str) -> set[str]:
    """Run code in a fresh interpreter after `import numpy`; give the modules that it added."""
    script = (
        f"import sys, numpy; before = set(sys.modules); {code}; "
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_importing_adds_these_modules_to_numpys_and_no_others() -> None:
    assert imported("import backcast") == OURS


def test_using_a_ring_imports_nothing_more() -> None:
    code = (
        "import backcast as bc; "
        "buf = bc.ReplayBuffer.create(None, {'obs': 'f4'}, capacity=10); w = buf.writer(); "
        "[w.append(obs=i, terminated=False, truncated=False) for i in range(5)]; buf.sample(4)"
    )
    assert imported(code) == OURS
