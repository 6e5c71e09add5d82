"""Errors of the crates below `pybind` are in words that Rust, the shell and Python share.

`pybind/src/error/words.rs` puts them into Python's words.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CRATES = ("shm-layout", "core", "persist", "market")
WORDS = ROOT / "pybind" / "src" / "error" / "words.rs"

LITERAL = re.compile(r'"((?:[^"\\]|\\.|\\\n)*)"', re.S)
COMMENT = re.compile(r"^\s*//.*$", re.M)
CONTINUED = re.compile(r"\\\s*\n\s*")

#: Keywords with a value, literals and calls of Python.
PYTHON = re.compile(
    r"""(?<![A-Za-z0-9_-])[a-z_]+=(?:\\"|\{|\[|[0-9]|[A-Z]\w*\(|True|False|None|[,)])  # name="x"
    | \b(?:True|False|None)\b
    | \b(?:buf|bc|writer|sampler|params|limiter)\.[a-z_]+\(                        # buf.sampler(
    | (?<![`.\w])(?:append|extend|sample|gather|clear|restart|close|wait|stats|abs)\([a-z0-9]*\)
    | \bdicts?\b""",
    re.X,
)

#: Texts that are not errors, or that name Python on purpose.
ALLOWED = (
    "in Python",  # beside the same remedy for the shell
    "in pandas",
    "PYTHON",
)


def rust_texts(path: Path) -> list[str]:
    """Return the string literals of a file, without those of its tests."""
    source = path.read_text(encoding="utf-8").split("#[cfg(test)]\nmod ")[0]
    found = LITERAL.findall(COMMENT.sub("", source))
    return [CONTINUED.sub("", text) for text in found if " " in text]


def sources() -> list[Path]:
    """Return the sources of the crates, without files of tests."""
    folders = [f"{crate}/src" for crate in CRATES]
    listed = subprocess.run(
        ["git", "ls-files", *folders], cwd=ROOT, check=True, capture_output=True, text=True
    )
    paths = [ROOT / name for name in listed.stdout.splitlines() if name.endswith(".rs")]
    return [path for path in paths if path.is_file() and not is_test(path)]


def is_test(path: Path) -> bool:
    """Tell whether a file is compiled for tests alone."""
    return path.stem.endswith("tests") or "model" in path.parts or path.stem == "killed"


def test_the_texts_of_rust_crates_have_no_python_in_them() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {text}"
        for path in sources()
        for text in rust_texts(path)
        if PYTHON.search(text) and not any(word in text for word in ALLOWED)
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "text",
    [
        r"make it with buf.sampler(priority=0.6)",
        r"give next_obs=, what the environment returned",
        r"use exist=\"replace\" to start over",
        r"drop them too with older=True",
        r"such as learned={{\"value\": \"f4\"}}",
        r"leave it out with columns=[...]",
        r"create it with limiter=RateLimiter(...)",
        r"n_step={n_step} sums the rewards",
        r"wait for it with wait(1)",
        r"an array or a dict of arrays",
    ],
)
def test_pythons_forms_are_found(text: str) -> None:
    assert PYTHON.search(text)


@pytest.mark.parametrize(
    "text", ["`a` = {value} is too large", 'exist \\"replace\\"', "give one per lane(s)"]
)
def test_other_words_pass(text: str) -> None:
    assert not PYTHON.search(text)


def test_every_remedy_that_python_rewords_is_one_of_the_core() -> None:
    source = WORDS.read_text(encoding="utf-8").split("const REMEDIES", 1)[1].split("];", 1)[0]
    pairs = re.findall(r'\(\s*"((?:[^"\\]|\\.|\\\n)*)",\s*"', source)
    assert len(pairs) > 20
    texts = "\n".join(text for path in sources() for text in rust_texts(path))
    assert [pair for pair in pairs if CONTINUED.sub("", pair) not in texts] == []
