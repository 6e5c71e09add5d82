"""Code in README and docs runs, top to bottom, and prints the output that the pages show."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from urllib.parse import unquote

import pytest
from blocks import ADAPTERS, LANGUAGES, ON_RAY, ON_RLLIB, PAGES, ROOT, Block, blocks_of

README = ROOT / "README.md"
RUNS = {"python", "console"}
BLOCKS = [block for page in PAGES for block in blocks_of(page)]
LIVE = [
    page
    for page in PAGES
    if page not in [*ADAPTERS, *ON_RAY, *ON_RLLIB]
    and any(block.language in RUNS for block in blocks_of(page))
]

#: Number of blocks per page that are shown and not run. A new one has to be counted here.
SHOWN_ONLY = {
    "README.md": 1,
    "docs/gallery.md": 1,
    "docs/howto/daemon.md": 1,
    "docs/howto/files.md": 2,
    "docs/howto/on-policy.md": 1,
    "docs/howto/persistence.md": 1,
    "docs/howto/ui.md": 1,
    "docs/howto/upgrading.md": 1,
    "docs/howto/windows.md": 1,
    "docs/install.md": 3,
    "docs/measurements/peers.md": 1,
    "docs/measurements/sb3.md": 1,
    "docs/migrate/cpprb.md": 1,
    "docs/migrate/reverb.md": 1,
    "docs/migrate/tianshou.md": 1,
    "docs/scaling.md": 1,
    "docs/when-it-helps.md": 1,
}


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", LIVE, ids=map(name, LIVE))
def test_the_blocks_of_a_page_run_and_print_what_it_shows(
    page: Path, place: Path, tmp_path: Path
) -> None:
    # The timeout only ends a hang; the test does not judge the duration.
    ran = subprocess.run(
        [sys.executable, "-W", "error", Path(__file__).with_name("run_page.py"), page],
        cwd=tmp_path,
        env={
            **os.environ,
            "BACKCAST_DIR": str(place),
            "BACKCAST_STORE": str(tmp_path / "store"),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "COLUMNS": "100",
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr


def test_every_block_is_run_or_has_a_reason_not_to() -> None:
    unknown = [block.place for block in BLOCKS if block.language not in LANGUAGES]
    assert not unknown, f"use one of {', '.join(LANGUAGES)}"
    silent = [
        block.place for block in BLOCKS if block.language in {"sh", "toml"} and not block.not_run
    ]
    assert not silent, "write `<!-- not run: REASON -->` above a block that is only shown"


def test_blocks_that_are_not_run_are_counted() -> None:
    shown_only = Counter(name(block.page) for block in BLOCKS if block.not_run)
    assert shown_only == SHOWN_ONLY


def test_a_program_of_a_page_is_run_by_another_block_of_it() -> None:
    def is_run(program: Block) -> bool:
        others = (block for block in blocks_of(program.page) if block.line != program.line)
        live = (block.body for block in others if block.language in RUNS and not block.not_run)
        return any(str(program.program) in body for body in live)

    idle = [block.place for block in BLOCKS if block.program and not is_run(block)]
    assert not idle, "show how it is run"


def test_pages_with_rust_blocks_are_among_the_doctests() -> None:
    source = (ROOT / "tests/src/pages.rs").read_text(encoding="utf-8")
    doctests = set(re.findall(r'include_str!\("\.\./\.\./([^"]+)"\)', source))
    # The crates sim and gym have these pages among their doctests.
    elsewhere = {
        "docs/concepts/market-simulation.md",
        "docs/concepts/trading-environment.md",
    }
    pages = {name(block.page) for block in BLOCKS if block.language == "rust"}
    assert doctests == pages - elsewhere


@pytest.mark.parametrize("page", PAGES, ids=map(name, PAGES))
def test_links_to_files_of_the_repository_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    links = [link.split("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text)]
    local = [unquote(link) for link in links if link and "://" not in link]
    dead = [link for link in local if not (page.parent / link).exists()]
    assert not dead


def test_the_readme_begins_with_a_python_block_of_at_most_20_lines() -> None:
    first = next(block for block in BLOCKS if block.page == README)
    assert first.language == "python"
    assert len(first.body.splitlines()) <= 20
    assert README.read_text(encoding="utf-8").index(first.body) < 600, "not on the first screen"


def test_the_pictures_are_what_the_library_draws_today(tmp_path: Path) -> None:
    pictures = ROOT / "docs" / "diagrams"
    subprocess.run(
        [sys.executable, "-W", "error", pictures / "draw.py", tmp_path], timeout=60, check=True
    )
    drawn = {path.name: path.read_text() for path in tmp_path.iterdir()}
    kept = {path.name: path.read_text() for path in pictures.glob("*.svg")}
    assert drawn == kept, "run `make docs` and look at what changed"
