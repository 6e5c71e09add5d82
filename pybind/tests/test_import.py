"""`import backcast` loads NumPy, its own modules, `__future__` and `atexit`, nothing else."""

from __future__ import annotations

import subprocess
import sys

OURS = {
    "__future__",
    # Built into the interpreter.
    "atexit",
    "backcast",
    "backcast._batch",
    "backcast._native",
    "backcast._calls",
    "backcast._params",
    "backcast._params_view",
    "backcast._trees",
    "backcast.errors",
}
"""Modules that `import backcast` adds to those of `import numpy`.

The package imports all others (argparse, inspect, gymnasium, matplotlib, ...) where it uses them,
because every worker process pays for imports at its start.
"""


def imported(code: str) -> set[str]:
    """Run code in a fresh interpreter after `import numpy`; return the modules that it adds."""
    script = (
        f"import sys, numpy; before = set(sys.modules); {code}; "
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
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
