"""Crates and modules use each other as the tables of docs/architecture.md allow."""

from __future__ import annotations

import re
import shutil
from fnmatch import fnmatchcase

import pytest
from module_graph import ROOT, circles, code, files_with_unsafe, leaves, modules, workspace

PAGE = ROOT / "docs" / "architecture.md"
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
    """Return the rungs of each crate, lowest first."""
    rows = table("### Inside the crates")
    return {names(crate)[0]: [names(rung) for rung in rungs.split("→")] for crate, rungs in rows}


def test_every_crate_has_a_ladder_but_those_of_tests() -> None:
    assert set(CRATES) - set(ladders()) == {"benches", "fuzz", "tests"}


@pytest.mark.parametrize("crate", CRATES)
def test_modules_are_a_ladder(crate: str) -> None:
    graph = modules(ROOT / crate)
    assert circles(graph) == []
    if not (rungs := ladders().get(crate)):
        return
    height = {name: rung for rung, names in enumerate(rungs) for name in names}
    assert set(graph) == set(height), f"the modules of {crate} are not those of its ladder"
    for user, used in graph.items():
        for name in used:
            arrow = f"{crate}: `{user}` uses `{name}`, which does not stand below it"
            assert height[name] < height[user], arrow


def test_core_hands_on_what_the_page_lists() -> None:
    text = code((ROOT / "core/src/lib.rs").read_text())
    trees = re.findall(r"\bpub use (backcast_layout::[^;]+);", text)
    exported = [path[-1] for tree in trees for path in leaves(tree)]
    listed = [name for _, cell in table("### What core hands on") for name in names(cell)]
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
