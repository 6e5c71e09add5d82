"""A copy of the repository, into which mutants are written, and tests that run in it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from .outcome import Verdict

# Seconds that tests have to end after a signal.
GRACE = 30


def copied(root: Path, tree: Path, ignored: Iterable[Path] = ()) -> Path:
    """Copy the files of the working tree, and some that Git ignores. Return the copy."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
    names = [*listed.stdout.splitlines(), *(str(file.relative_to(root)) for file in ignored)]
    for gone in set(files_of(tree)) - set(names):
        (tree / gone).unlink()
    for name in names:
        source, copy = root / name, tree / name
        # Leaves equal files alone: with their old times, little is built again.
        if source.is_file() and not (copy.is_file() and same(source, copy)):
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, copy)
            shutil.copymode(source, copy)
    return tree


def files_of(tree: Path) -> list[str]:
    """Return the names of all files of a copy."""
    return [str(file.relative_to(tree)) for file in tree.rglob("*") if file.is_file()]


def same(one: Path, other: Path) -> bool:
    """Return whether two files are equal."""
    return one.stat().st_size == other.stat().st_size and one.read_bytes() == other.read_bytes()


def tested(command: list[str], tree: Path, seconds: float, **variables: str) -> tuple[Verdict, str]:
    """Run tests; return what they say of a mutant, and what they print. No process is left."""
    tests = subprocess.Popen(
        command,
        cwd=tree,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
        # Modules change within a second, which compiled files do not notice.
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **variables},
    )
    try:
        output, _ = tests.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        # nextest runs each test in a process group of its own, which it ends itself.
        tests.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            tests.communicate(timeout=GRACE)
        return "hung", ""
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(tests.pid, signal.SIGKILL)
        tests.wait()
    return ("noticed" if tests.returncode else "missed"), output
