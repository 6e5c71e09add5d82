"""Crates and modules use each other as the tables of docs/architecture.md allow."""

from __future__ import annotations

import ast
import io
import re
import shutil
import tokenize
from fnmatch import fnmatchcase

import pytest
from module_graph import ROOT, circles, code, files_with_unsafe, leaves, modules, workspace

PAGE = ROOT / "docs" / "architecture.md"
# Crates that belong to neither half, replay or markets.
APART = {"benches", "fuzz", "tests"}
# Lines of code that the page of `backcast ui` may have: the framework draws it.
MOST_PAGE_LINES = 800
CRATES = sorted(path.parents[1].relative_to(ROOT).as_posix() for path in ROOT.glob("*/src/lib.rs"))


def table(heading: str) -> list[list[str]]:
    """Return the cells of the first table below a heading of the page, without its head."""
    _, _, below = PAGE.read_text().partition(f"\n{heading}\n")
    assert below, f"docs/architecture.md has no heading {heading!r}"
    rows: list[str] = []
    for line in below.splitlines():
        if line.startswith("|"):
            rows.append(line)
        elif rows:
            break
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[2:]]


def names(cell: str) -> list[str]:
    return [name.rstrip("/") for name in re.findall(r"`([^`]+)`", cell)]


@pytest.mark.skipif(shutil.which("cargo") is None, reason="cargo is not on the path")
def test_crates_depend_on_those_that_the_table_names() -> None:
    graph = workspace()
    rows = {
        folder: cell
        for folders, _, _, cell in table("## Crates and modules")
        for folder in names(folders)
    }
    short = {"layout": "shm-layout"}
    for folder, cell in rows.items():
        if cell == "all":
            continue
        allowed = {short.get(name, name) for name in cell.split(", ")} - {"-"}
        assert graph[folder] == allowed, f"{folder}/Cargo.toml and docs/architecture.md differ"
    assert set(graph) - set(rows) <= {"tests/budget"}, "a crate is missing in the table"
    assert circles(graph) == []


def ladders() -> dict[str, list[list[str]]]:
    """Return the rungs of each crate, lowest first; a module uses modules of lower rungs only."""
    rows = table("### Inside the crates")
    return {names(crate)[0]: [names(rung) for rung in rungs.split("→")] for crate, rungs in rows}


def test_every_crate_has_a_ladder_but_those_of_tests() -> None:
    assert set(CRATES) - set(ladders()) == APART


@pytest.mark.parametrize("crate", sorted({*CRATES, *ladders()}))
def test_modules_are_a_ladder(crate: str) -> None:
    name, *below = crate.split("/")
    graph = modules(ROOT / name, *below)
    assert circles(graph) == []
    if not (rungs := ladders().get(crate)):
        return
    height = {name: rung for rung, names in enumerate(rungs) for name in names}
    assert set(graph) == set(height), f"the modules of {crate} are not those of its ladder"
    for user, used in graph.items():
        for name in used:
            arrow = f"{crate}: `{user}` uses `{name}`, which does not stand below it"
            assert height[name] < height[user], arrow


def halves() -> dict[str, tuple[set[str], list[str]]]:
    """Return the crates and folders of each half."""
    return {
        half: (set(names(crates)), names(folders))
        for half, crates, folders in table("### Two halves")
    }


@pytest.mark.skipif(shutil.which("cargo") is None, reason="cargo is not on the path")
def test_crates_of_the_replay_half_need_none_of_the_markets() -> None:
    graph = workspace(optional=False)
    (replay, _), (markets, _) = halves()["replay"], halves()["markets"]
    assert {*replay, *markets, "pybind"} >= {crate for crate in CRATES if crate not in APART}
    for crate in {*replay, "pybind"}:
        assert graph[crate] & markets == set(), f"{crate} needs crates of markets"


def test_no_module_outside_of_markets_names_them() -> None:
    for crate, *below in (("pybind",), ("daemon", "cli")):
        graph = modules(ROOT / crate, *below)
        assert {"markets", "replay"} <= set(graph)
        assert {user for user, used in graph.items() if "markets" in used} == set()


def replay_sources() -> dict[str, str]:
    """Return the Python sources outside the market folders, without the demo of both halves."""
    package = ROOT / "pybind/python/backcast"
    apart = {*market_folders(), "demo"}
    paths = (path.relative_to(package) for path in package.rglob("*.py"))
    return {
        path.as_posix(): (package / path).read_text()
        for path in paths
        if path.parts[0] not in apart
    }


def market_folders() -> list[str]:
    package = ROOT / "pybind/python/backcast"
    folders = halves()["markets"][1]
    found = [name.removeprefix("backcast/") for name in folders if "src" not in name]
    assert all((package / name).exists() for name in found)
    return found


def test_python_modules_of_the_replay_half_import_no_markets() -> None:
    markets = "|".join(name.removesuffix(".py") for name in market_folders())
    named = re.compile(
        rf"^ *(?:from backcast\.(?:{markets})\b|from backcast import .*\b(?:{markets})\b"
        rf"|import backcast\.(?:{markets})\b)",
        re.MULTILINE,
    )
    assert {path for path, text in replay_sources().items() if named.search(text)} == set()


def test_importing_replay_needs_no_class_of_markets() -> None:
    text = code((ROOT / "pybind/src/lib.rs").read_text())
    exported = re.findall(r"use (super::markets::[^;]+);", text)
    classes = {path[-1] for tree in exported for path in leaves(tree)}
    assert {"Panel", "TradingBatch", "TransitionRing"} <= classes
    needed = {
        (path, alias.name)
        for path, source in replay_sources().items()
        for node in ast.parse(source).body
        if isinstance(node, ast.ImportFrom) and node.module == "backcast._native"
        for alias in node.names
    }
    assert ("__init__.py", "Sampler") in needed
    assert {(path, name) for path, name in needed if name in classes} == set()


def test_core_hands_on_what_the_page_lists() -> None:
    for module, heading in (("lib", "### What core hands on"), ("plumbing", "### Plumbing")):
        text = code((ROOT / f"core/src/{module}.rs").read_text())
        trees = re.findall(r"\bpub use (backcast_layout::[^;]+);", text)
        exported = [path[-1] for tree in trees for path in leaves(tree)]
        listed = [name for _, cell in table(heading) for name in names(cell)]
        assert sorted(listed) == sorted(exported)


def test_unsafe_code_is_where_the_page_says() -> None:
    found = {
        f"{crate}/src/{file}"
        for crate in CRATES
        if crate not in ("tests", "benches")
        for file in files_with_unsafe(ROOT / crate)
    }
    places = [names(cell)[0] for cell, _ in table("### Unsafe code")]
    assert {file for file in found if not any(fnmatchcase(file, one) for one in places)} == set()
    assert {one for one in places if not any(fnmatchcase(file, one) for file in found)} == set()


def code_lines(text: str) -> int:
    """Count the lines of Python source that have code: no blanks, comments and docstrings."""
    blank = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in blank | {tokenize.ENDMARKER}:
            lines |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            lines -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def test_code_lines_are_those_with_code() -> None:
    text = '"""A module.\n\nOf one function.\n"""\n\n# Why.\nX = """\n\n"""\n"""Its text."""\n\n'
    assert (
        code_lines(text + "def f():\n    'Returns.'\n    return (  # here\n        1\n    )\n") == 7
    )


def test_the_page_leaves_drawing_to_its_framework() -> None:
    page = ROOT / "pybind/python/backcast/ui"
    sizes = {path.name: code_lines(path.read_text()) for path in page.glob("*.py")}
    for path in page.glob("*.js"):
        lines = (line.strip() for line in path.read_text().splitlines())
        sizes[path.name] = sum(bool(line) and not line.startswith("//") for line in lines)
    assert sizes.keys() >= {"__init__.py", "_pages.py", "_table.js"}
    assert {path.suffix for path in page.iterdir() if path.is_file()} == {".py", ".js"}
    assert sum(sizes.values()) <= MOST_PAGE_LINES, sizes
