"""The table of waiting calls lists every public call that takes a timeout, and no other."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "pybind" / "python" / "backcast"
#: Arguments with a timeout in their name that do not limit a wait of their call.
NO_WAITS = {"lease_timeout", "handle_timeout_termination"}
#: Calls of classes and functions that users do not make themselves.
INTERNAL = {
    "Link.__init__", "ShardFleet.__init__", "ShardSampler.__init__", "ShardSampler.open", "check",
}  # fmt: skip
#: Functions of Rust that build or check a wait, and do not wait themselves.
BUILDERS = {"new", "ended_by", "report_after", "check", "maintains"}


def of_table() -> set[str]:
    """Return the calls in the first column of the table."""
    page = (ROOT / "docs" / "failure-modes.md").read_text(encoding="utf-8")
    _, section = page.split("## What waits, and for how long\n")
    rows = [line for line in section.split("\n## ")[0].splitlines() if line.startswith("| `")]
    return {call for row in rows for call in re.findall(r"`([^`]+)`", row.split("|")[1])}


def of_python() -> set[str]:
    """Return the public functions of the package that take a timeout, by their class."""
    found = set()

    def visit(node: ast.AST, path: list[str]) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                visit(child, [*path, child.name])
            elif isinstance(child, ast.FunctionDef):
                of = child.args
                names = {one.arg for one in [*of.posonlyargs, *of.args, *of.kwonlyargs]}
                limits = {one for one in names - NO_WAITS if re.search(r"timeout$", one)}
                is_public = child.name == "__init__" or not child.name.startswith("_")
                if limits and is_public:
                    found.add(".".join([*path, child.name]))

    for file in [*PACKAGE.rglob("*.py"), PACKAGE / "_native.pyi"]:
        visit(ast.parse(file.read_text(encoding="utf-8")), [])
    return {call.replace("OnNodes.", "Shards.") for call in found - INTERNAL}


def of_rust() -> set[str]:
    """Return the public functions of Rust that take a duration."""
    found = set()
    signature = re.compile(r"^\s*pub fn (\w+)\s*(?:<[^{;]*?>)?\(([^{;]*?)\)", re.MULTILINE)
    for crate in ["core", "persist", "daemon"]:
        for file in (ROOT / crate / "src").rglob("*.rs"):
            for name, arguments in signature.findall(file.read_text(encoding="utf-8")):
                if re.search(r": (Option<)?Duration", arguments) and name not in BUILDERS:
                    found.add(name)
    return found


def of_commands() -> set[str]:
    """Return the commands with an option for a timeout, and `rm`, whose timeout is fixed."""
    files = (ROOT / "daemon" / "src" / "cli").rglob("*.rs")
    option = re.compile(r"^    (wait|timeout): u32,", re.MULTILINE)
    return {file.stem for file in files if option.search(file.read_text())} | {"rm"}


def test_the_table_names_every_call_that_takes_a_limit() -> None:
    table = of_table()
    rust = {call.split("::")[1] for call in table if "::" in call}
    commands = {call.removeprefix("backcast ") for call in table if " " in call}
    python = {call for call in table if "::" not in call and " " not in call}
    assert python == of_python()
    assert rust == of_rust()
    assert commands == of_commands()
