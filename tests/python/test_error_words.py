"""Errors of the crates below `pybind` use words that Rust, the shell and Python share.

`pybind/src/error/words.rs` rewrites them for Python.
"""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CRATES = ("shm-layout", "core", "persist", "market", "exchange", "files", "gym", "sim", "daemon")
WORDS = ROOT / "pybind" / "src" / "error" / "words.rs"
STUB = ROOT / "pybind" / "python" / "backcast" / "_native.pyi"

LITERAL = re.compile(r'"((?:[^"\\]|\\.|\\\n)*)"', re.S)
COMMENT = re.compile(r"^\s*//.*$", re.M)
CONTINUED = re.compile(r"\\\s*\n\s*")

#: Expression that finds Python's keywords with a value, its literals and its calls.
PYTHON = re.compile(
    r"""(?<![A-Za-z0-9_-])[a-z_]+=(?:\\"|\{|\[|[0-9]|[A-Z]\w*\(|True|False|None|[,)])  # name="x"
    | \b(?:True|False|None)\b
    | \b(?:buf|bc|writer|sampler|params|limiter)\.[a-z_]+\(                        # buf.sampler(
    | (?<![`.\w])
      (?:append|extend|sample|gather|clear|restart|close|reset|wait|stats|abs)\([a-z0-9]*\)
    | \bdicts?\b""",
    re.X,
)

#: Texts that are not errors, or that name Python on purpose.
ALLOWED = (
    "in Python",  # beside the same remedy for the shell
    "in pandas",
    "PYTHON",
    "find_spec",  # a program of Python
    "vm.max_map_count",
    "openmetrics-text",
    "pandas.",  # what to do in that library
    "rw,relatime",  # a table of mounts
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
        ["git", "ls-files", *folders],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
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
        r"make it with buf.sampler(select=bc.Priority())",
        r"give next_obs=, what the environment returned",
        r"use exist=\"replace\" to start over",
        r"drop them too with older=True",
        r"such as learned={{\"value\": \"f4\"}}",
        r"leave it out with columns=[...]",
        r"create it with limiter=RateLimiter(...)",
        r"n_step={n_step} sums the rewards",
        r"wait for it with wait(1)",
        r"an array or a dict of arrays",
        r"the episode has ended; call reset()",
    ],
)
def test_pythons_forms_are_found(text: str) -> None:
    assert PYTHON.search(text)


@pytest.mark.parametrize(
    "text", ["`a` = {value} is too large", 'exist \\"replace\\"', "give one per lane(s)"]
)
def test_other_words_pass(text: str) -> None:
    assert not PYTHON.search(text)


def words_of(name: str) -> list[str]:
    """Return the strings of a table of `words.rs`; of a table of pairs the first ones."""
    source = WORDS.read_text(encoding="utf-8").split(f"const {name}", 1)[1].split("= [", 1)[1]
    table = source.split("];", 1)[0]
    pairs = re.findall(r'\(\s*"((?:[^"\\]|\\.|\\\n)*)",\s*"', table)
    return [CONTINUED.sub("", text) for text in pairs or LITERAL.findall(table)]


def numbered(text: str) -> str:
    """Put `#` in place of the values of a text."""
    return re.sub(r"(?<!\{)\{[^{}]*\}", "#", text)


TEXTS = [(path, text) for path in sources() for text in rust_texts(path)]


def test_every_remedy_that_python_rewords_is_one_of_the_core() -> None:
    remedies = words_of("REMEDIES")
    assert len(remedies) > 20
    texts = "\n".join(text for _, text in TEXTS)
    texts += "\n" + numbered(texts)
    assert [remedy for remedy in remedies if remedy not in texts] == []


def test_every_beginning_without_words_of_the_caller_is_one_of_the_core() -> None:
    beginnings = words_of("WITHOUT_CALLERS_WORDS")
    assert len(beginnings) > 10
    texts = [numbered(text) for _, text in TEXTS]
    # A value fills the end of this text: the problem of the state.
    texts.append("the state is not a sampler's: it is no JSON object")
    for beginning in beginnings:
        assert any(text.startswith(beginning) for text in texts), beginning


def keywords() -> dict[str, str]:
    """Return the keywords of Python's functions, and their types."""
    return {
        argument.arg: ast.unparse(argument.annotation or ast.Constant(None))
        for node in ast.walk(ast.parse(STUB.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
        for argument in [*node.args.args, *node.args.kwonlyargs]
    }


def test_every_option_before_a_value_is_reworded() -> None:
    found = {
        name
        for _, text in TEXTS
        for name in re.findall(r'(?<![\w`"-])([a-z_]+) (?:\\"|\{\{)', text)
        if name in keywords()
    }
    assert len(found) > 5
    assert found - set(words_of("KEYWORDS")) == set()


def test_every_option_of_a_sampler_before_a_number_is_reworded() -> None:
    stub = ast.parse(STUB.read_text(encoding="utf-8"))
    options = {
        argument.arg
        for node in ast.walk(stub)
        if isinstance(node, ast.FunctionDef) and node.name == "sampler"
        for argument in node.args.kwonlyargs
    }
    found = {
        name
        for path, text in TEXTS
        if path.is_relative_to(ROOT / "core")
        for name in re.findall(r"(?<![\w`\"-])([a-z_]+) \{[a-z_]*\}", text)
        if name in options
    }
    assert {"history", "future"} <= found
    assert found - set(words_of("NUMBERS")) == set()


def test_options_before_the_remedy_are_in_messages_without_words_of_the_caller() -> None:
    values = "|".join(words_of("KEYWORDS"))
    numbers = "|".join(words_of("NUMBERS"))
    option = re.compile(rf'(?<![\w`])(?:(?:{values}) (?:\\"|\{{\{{)|(?:{numbers}) (?:\{{|[0-9]))')
    beginnings = words_of("WITHOUT_CALLERS_WORDS")
    missed = [
        text
        for _, text in TEXTS
        if "; " in text and option.search(text.split("; ")[0])
        if not any(numbered(text).startswith(beginning) for beginning in beginnings)
    ]
    assert missed == []
