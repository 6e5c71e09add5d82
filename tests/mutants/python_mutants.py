"""Mutants of the Python package, made by cosmic-ray.

A mutant is one change of one place. It is written into a copy of the repository, in which the tests
of its part of the package run until one fails.
"""

from __future__ import annotations

import ast
import contextlib
import difflib
import os
import random
import re
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from cosmic_ray.commands import init
from cosmic_ray.mutating import use_mutation
from cosmic_ray.plugins import get_operator
from cosmic_ray.work_db import use_db

from . import tree
from .outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cosmic_ray.work_item import MutationSpec


PACKAGE = Path("pybind/python/backcast")
HERE, ADAPTERS = ".venv", ".venv-adapters"
# Virtual environment and tests of each part of the package.
TESTS = {
    "backcast.fleet": (HERE, ["pybind/tests/fleet"]),
    "backcast.envs": (HERE, ["pybind/tests/envs"]),
    "backcast.evaluate": (HERE, ["pybind/tests/evaluate"]),
    "backcast.indicators": (HERE, ["pybind/tests/indicators"]),
    "backcast.finrl": (HERE, ["pybind/tests/finrl"]),
    "backcast.sim": (HERE, ["pybind/tests/sim"]),
    "backcast.sb3": (ADAPTERS, ["tests/adapters", "-k", "sb3"]),
    "backcast.cleanrl": (ADAPTERS, ["tests/adapters/test_cleanrl.py"]),
    "backcast.torch": (
        ADAPTERS,
        [f"tests/adapters/test_torch{name}.py" for name in ("", "_ahead", "_resident")],
    ),
    "backcast.jax": (ADAPTERS, ["tests/adapters/test_jax.py"]),
}
PYTEST = ["-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider"]
# Runs tests as `make test` and `make test-adapters` do. The adapters have no pytest-xdist.
OPTIONS = {HERE: ["-n", "2"], ADAPTERS: ["-c", "/dev/null"]}
# Seconds of all tests of a part. A mutant that takes longer hangs.
TIMEOUT = 240
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


def modules_of(root: Path, part: str) -> list[Path]:
    """Return the modules of a part of the package, relative to the repository."""
    place = root / PACKAGE / part.removeprefix("backcast.")
    module = place.with_suffix(".py")
    found = [module] if module.is_file() else sorted(place.rglob("*.py"))
    return [file.relative_to(root) for file in found]


def mutants(root: Path, part: str) -> list[MutationSpec]:
    """Return the mutants of a part, in the order of its text, one at random for each place."""
    paths = modules_of(root, part)
    # A database in memory.
    with contextlib.chdir(root), use_db("") as work:
        init(paths, work, {})
        specs = [item.mutations[0] for item in work.work_items]
    ignored = {path: annotated((root / path).read_text()) for path in paths}
    places: defaultdict[tuple[str, tuple[int, int]], list[MutationSpec]] = defaultdict(list)
    for spec in specs:
        if spec.start_pos not in ignored[spec.module_path]:
            places[str(spec.module_path), spec.start_pos].append(spec)
    return [
        random.Random(f"{place}").choice(
            sorted(at, key=lambda spec: (spec.operator_name, spec.occurrence))
        )
        for place, at in sorted(places.items())
    ]


def annotated(source: str) -> set[tuple[int, int]]:
    """Return places, as (line, column), in annotations, which nothing evaluates."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        for annotation in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            for part in ast.walk(annotation) if annotation else ():
                if isinstance(part, ast.expr):
                    lines = range(part.lineno, (part.end_lineno or part.lineno) + 1)
                    found |= {(line, column) for line in lines for column in columns(part, line)}
    return found


def columns(part: ast.expr, line: int) -> range:
    """Return the columns that an expression takes of a line."""
    first = part.col_offset if line == part.lineno else 0
    return range(first, part.end_col_offset or 0) if line == part.end_lineno else range(first, 200)


def run(root: Path, chosen: list[tuple[str, MutationSpec]], out: Path) -> Iterator[Outcome]:
    """Yield what becomes of each mutant. They change files of the repository's copy alone."""
    copy = tree.copied(root, out / "modules", (root / PACKAGE).glob("_native*"))
    # Programs that the tests start import the copy too.
    os.environ["PYTHONPATH"] = str(copy / PACKAGE.parent)
    passed = set[str]()
    with contextlib.chdir(copy):
        for part, spec in chosen:
            environment, tests = TESTS[part]
            python = root / environment / "bin" / "python"
            if not python.exists():
                raise SystemExit(f"{part} needs {environment}: make test-adapters")
            command = [str(python), *PYTEST, *OPTIONS[environment], *tests]
            if part not in passed:
                verdict, output = tree.tested(command, copy, TIMEOUT)
                if verdict != "missed":
                    found = f"run longer than {TIMEOUT} s" if verdict == "hung" else "fail"
                    raise SystemExit(
                        f"{verdict}: the tests of {part} {found} without a mutant: {output[-2000:]}"
                    )
                passed.add(part)
            yield outcome_of(part, spec, command, copy)


def outcome_of(part: str, spec: MutationSpec, command: list[str], copy: Path) -> Outcome:
    """Write a mutant into its module, run the tests, and restore the module."""
    operator = get_operator(spec.operator_name)(**spec.operator_args)
    with use_mutation(spec.module_path, operator, spec.occurrence) as (before, after):
        changed = list(difflib.unified_diff(before.splitlines(), after.splitlines(), n=0))[3:]
        verdict, output = tree.tested(command, copy, TIMEOUT)
    failed = FAILED.search(output)
    return Outcome(
        part,
        str(spec.module_path),
        spec.start_pos[0],
        "  ".join(changed),
        verdict,
        failed.group(1) if failed else None,
    )
