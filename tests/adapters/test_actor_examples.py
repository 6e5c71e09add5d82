"""Examples with actors in other processes: they reach their scores, and leave nothing behind."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip(
    "torch", reason="PyTorch is not installed: pip install -r requirements/adapters.txt"
)

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
sys.path.append(str(EXAMPLES.parent / "docs" / "gallery"))
import gallery  # noqa: E402

# `tests/on_ray` runs the program of a cluster.
PROGRAMS = sorted(
    path.stem
    for path in EXAMPLES.glob("*.py")
    if "import torch" in path.read_text() and path.stem != "ray_dqn"
)
# One more than 40: the program of a cluster differs in four whole lines.
PLUMBING = 41
MOST_LINES = 120
# Training to a score is minutes of work on two cores.
TRAINING_S = 900


def run(name: str, place: Path, *args: str) -> subprocess.Popen[str]:
    sources = os.pathsep.join(str(Path(entry).resolve()) for entry in sys.path if entry)
    return subprocess.Popen(
        [sys.executable, (EXAMPLES / name).with_suffix(".py"), *args],
        env={**os.environ, "PYTHONPATH": sources, "BACKCAST_DIR": str(place)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def code_lines(node: ast.AST, source: list[str]) -> set[int]:
    """Return the numbers of the lines of code, without docstrings, comments and blank lines."""
    lines = {
        line
        for part in ast.walk(node)
        if isinstance(part, ast.stmt | ast.expr | ast.arg | ast.alias)
        for line in range(part.lineno, part.lineno + 1)
    }
    texts = {
        line
        for part in ast.walk(node)
        if isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant)
        for line in range(part.lineno, (part.end_lineno or part.lineno) + 1)
    }
    return {line for line in lines - texts if source[line - 1].strip()}


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_example_is_short(name: str) -> None:
    assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) <= MOST_LINES


def test_dqn_has_few_lines_beside_network_loss_and_environment() -> None:
    text = (EXAMPLES / "dqn_actors.py").read_text()
    tree = ast.parse(text)
    every = code_lines(tree, text.splitlines())
    known = {"make_env", "network", "Learner", "greedy", "test"}
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    learning = [node for node in functions if node.name in known]
    assert {node.name for node in learning} == known
    own = [code_lines(node, text.splitlines()) for node in learning]
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    own += [code_lines(node, text.splitlines()) for node in imports]
    beside = every.difference(*own)
    assert len(beside) <= PLUMBING, [text.splitlines()[line - 1] for line in sorted(beside)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_example_reaches_its_score_and_leaves_nothing(
    name: str, place: Path, tmp_path: Path
) -> None:
    program = run(name, place)
    try:
        out, error = program.communicate(timeout=TRAINING_S)
    finally:
        program.kill()
    assert program.returncode == 0, out + error
    assert "versions old" in out, "staleness is reported"
    gallery.drawn_if_possible(name, out, tmp_path)
    assert not list(place.iterdir())


def test_dqn_is_solved_while_actors_are_killed(place: Path) -> None:
    program = run(str(Path(__file__).with_name("killed_actors")), place)
    try:
        out, error = program.communicate(timeout=TRAINING_S)
    finally:
        program.kill()
    assert program.returncode == 0, out + error
    kills, restarts = re.search(r"(\d+) kills", out), re.search(r"(\d+) restarts", out)
    assert kills, out
    assert restarts, out
    # The last kill may have come after the end of the example, which then restarts no actor.
    assert int(kills[1]) - 1 <= int(restarts[1]) <= int(kills[1])
    assert int(kills[1]) > 0
    assert not list(place.iterdir())
