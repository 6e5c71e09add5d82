"""Both tables of contents, `README.md` and that of the site, list every page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from blocks import PAGES as MARKDOWN
from blocks import ROOT

DOCS = ROOT / "docs"
CONCEPT = re.compile(r"Concepts?: :doc:`/[^`]+`(, :doc:`/[^`]+`)*\.\Z")
LINK = re.compile(r"\]\((?!https?:)(?P<path>[^)#]+\.(?:md|rst))")
#: The tables of contents themselves. The table of decisions is `decisions/README.md`.
NOT_LISTED = {"README.md", "index.rst"}

PAGES = {
    path.relative_to(DOCS).as_posix()
    for path in [*DOCS.rglob("*.md"), *DOCS.rglob("*.rst")]
    if path.parent.name != "decisions"
} - NOT_LISTED | {"decisions/README.md"}


def linked() -> list[str]:
    return LINK.findall((DOCS / "README.md").read_text())


def in_sidebar() -> list[str]:
    entries = re.findall(r"^   ([a-z][\w/-]*)$", (DOCS / "index.rst").read_text(), re.M)
    found = []
    for entry in entries:
        suffix = "rst" if (DOCS / f"{entry}.rst").exists() else "md"
        found.append(f"{entry}.{suffix}")
    return [entry for entry in found if not entry.startswith("decisions/template")]


@pytest.mark.parametrize("listed", [linked, in_sidebar])
def test_every_page_is_listed_once(listed: object) -> None:
    assert callable(listed)
    found = listed()
    assert sorted(found) == sorted(PAGES)


def test_both_tables_have_one_order() -> None:
    assert in_sidebar() == linked()


@pytest.mark.parametrize("page", MARKDOWN, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_opens_with_a_sentence_on_what_it_is_for(page: Path) -> None:
    text = re.sub(r"<!--.*?-->", "", page.read_text(encoding="utf-8"), flags=re.S)
    _, title, below = text.partition("# ")
    assert title
    opening = below.partition("\n")[2].strip().partition("\n\n")[0]
    assert re.match(r"[A-Z0-9`\[*]", opening), f"it opens with {opening[:60]!r}"
    assert opening.rstrip("*").endswith((".", ":", "?")), opening


def test_every_section_of_the_reference_names_its_concept() -> None:
    parts = re.split(r"^(.+)\n-+\n", (DOCS / "reference" / "python.rst").read_text(), flags=re.M)
    opening = {
        title: text.strip().partition("\n\n")[0]
        for title, text in zip(parts[1::2], parts[2::2], strict=True)
    }
    assert len(opening) > 10
    assert [title for title, line in opening.items() if not CONCEPT.match(line)] == []
    named = {page for line in opening.values() for page in re.findall(r":doc:`/([^`]+)`", line)}
    assert [page for page in named if not (DOCS / f"{page}.md").is_file()] == []
    concepts = {f"concepts/{path.stem}" for path in (DOCS / "concepts").glob("*.md")}
    assert concepts <= named, "a concept that no section of the reference leads to"


def test_every_decision_is_in_the_table_of_decisions() -> None:
    table = (DOCS / "decisions" / "README.md").read_text()
    missing = [
        path.name for path in (DOCS / "decisions").glob("0*.md") if f"]({path.name})" not in table
    ]
    assert not missing
