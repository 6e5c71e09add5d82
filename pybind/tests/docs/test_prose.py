"""The prose lint refuses banned openings and long lines, and nothing else."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]


def load() -> Any:  # noqa: ANN401 - a module that mypy does not check
    spec = importlib.util.spec_from_file_location("prose", ROOT / "docs" / "prose.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


prose = load()
LONG = "word " * 21

REFUSED = {
    "an item": ("a.rs", "/// Whose rows nobody overwrote.\nfn f() {}\n", [1]),
    "a module": ("a.rs", "//! The same for columns.\n", [1]),
    "an item behind a module": ("a.rs", "//! Rows.\n\n/// As it is.\nfn f() {}\n", [3]),
    "a function": ("a.py", 'def f() -> None:\n    """What it returns."""\n', [2]),
    "a docstring on its own line": ("a.py", '"""\nSo many rows.\n"""\n', [1]),
    "an attribute": ("a.pyi", 'x: int\n"""Of a row."""\n', [2]),
    "a long comment": ("a.rs", f"// {LONG}\n", [1]),
    "a long paragraph": ("a.md", f"Short.\n\n{LONG}\n", [3]),
    "what follows results": (
        "a.md",
        f"<!-- results: a -->\n<!-- end of results -->\n{LONG}\n",
        [3],
    ),
    "a long line with a link": ("a.md", f"{LONG}[x](y)\n", [1]),
}
TAKEN = {
    "a second paragraph": ("a.rs", "/// Copies rows.\n///\n/// Of one lane.\nfn f() {}\n"),
    "a word that begins alike": ("a.rs", "/// Assigns rows. Offsets follow.\nfn f() {}\n"),
    "a plain comment": ("a.rs", "// Of one lane.\nfn f() {}\n"),
    "a string": ("a.py", 'x = "What it is"\n'),
    "a table": ("a.md", f"| {LONG} |\n"),
    "a table in a comment": ("a.rs", f"//! | {LONG} |\n"),
    "code in a page": ("a.md", f"```text\n{LONG}\n```\n"),
    "results": ("a.md", f"<!-- results: latest -->\n{LONG}\n<!-- end of results -->\n"),
    "a summary": ("a.md", f"<!-- summary: latest -->\n{LONG}\n<!-- end of results -->\n"),
    "a long link": ("a.md", f"See [the page]({'x' * 100}).\n"),
    "a pragma": ("a.py", f"x = 1{' ' * 80}  # noqa: ANN401 - a reason that is long\n"),
}


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], Path]:
    def file(name: str, text: str) -> Path:
        (tmp_path / name).write_text(text, encoding="utf-8")
        return tmp_path / name

    return file


@pytest.mark.parametrize(("name", "text", "lines"), REFUSED.values(), ids=REFUSED)
def test_it_refuses(
    name: str, text: str, lines: list[int], write: Callable[[str, str], Path]
) -> None:
    assert [number for number, _ in prose.complaints(write(name, text))] == lines


@pytest.mark.parametrize(("name", "text"), TAKEN.values(), ids=TAKEN)
def test_it_takes(name: str, text: str, write: Callable[[str, str], Path]) -> None:
    assert list(prose.complaints(write(name, text))) == []
