"""The example over several nodes is the one of one machine, but for four lines; it learns."""

from __future__ import annotations

import ast
import difflib
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MOST_CHANGED = 4
MOST_LINES = 120
RUN_S = 900
"""Seconds of three interpreters with PyTorch that start on a busy machine, and of the training."""


def code_of(name: str) -> list[str]:
    """Return the lines of an example below its docstring."""
    text = (EXAMPLES / f"{name}.py").read_text()
    first = ast.parse(text).body[0]
    assert isinstance(first, ast.Expr)
    return text.splitlines()[first.end_lineno :]


def test_the_programs_differ_in_four_lines() -> None:
    one, many = code_of("dqn_actors"), code_of("ray_dqn")
    changes = [
        (new, old)
        for kind, low, high, first, last in difflib.SequenceMatcher(
            None, one, many, autojunk=False
        ).get_opcodes()
        if kind != "equal"
        for old, new in [(one[low:high], many[first:last])]
    ]
    changed = sum(max(len(new), len(old)) for new, old in changes)
    assert 0 < changed <= MOST_CHANGED, changes
    text = (EXAMPLES / "ray_dqn.py").read_text()
    assert len(text.splitlines()) <= MOST_LINES


def test_the_program_runs_on_three_nodes(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("gymnasium")
    from nodes import nodes_of

    text = (EXAMPLES / "ray_dqn.py").read_text()
    settings = "= 4, 128, 0.99, 475, 40_000"
    assert settings in text
    program = tmp_path / "program.py"
    program.write_text(text.replace(settings, "= 1, 128, 0.99, 475, 1_000"))
    with nodes_of(3) as nodes:
        env = {
            **os.environ,
            "RAY_ADDRESS": nodes.cluster.address,
            "PYTHONPATH": os.pathsep.join(str(Path(p).resolve()) for p in sys.path if p),
        }
        made = subprocess.run(
            [sys.executable, str(program), "1"],
            env=env,
            capture_output=True,
            text=True,
            timeout=RUN_S,
        )
        out = made.stdout
        # Solved it is not, after so few updates.
        assert made.returncode == 1, out + made.stderr
        assert "1000: return" in out, out + made.stderr
        assert "samples an insert, 0 restarts" in out
        assert 16 < float(out.splitlines()[-1].split()[0]) < 40, "the limiter held over all nodes"
