"""The fenced blocks of a Markdown page: their kind, their place and their expected output."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

#: Pages about other libraries. `make test-adapters` installs the libraries and runs the pages.
ADAPTERS = [
    ROOT / "docs" / f"{name}.md"
    for name in (
        *("howto/cleanrl", "howto/jax", "howto/pettingzoo", "howto/sb3", "howto/torch"),
        *("howto/torchrl", "migrate/torchrl", "tutorials/sb3"),
    )
]

#: Pages about Ray, which `make test-ray` runs.
ON_RAY = [ROOT / "docs" / "howto" / "ray.md"]

#: The page about RLlib, which `make test-rllib` runs.
ON_RLLIB = [ROOT / "docs" / "howto" / "rllib.md"]

#: Languages of blocks, and what runs them. Blocks without a language are text.
LANGUAGES = {
    "python": "the page's interpreter, or other blocks where the first line names a file",
    "console": "bash, in the page's directory",
    "rust": "rustdoc, see tests/src/pages.rs",
    "text": "nobody: output of the block before it, or a drawing",
    "sh": "nobody: must say why",
    "toml": "nobody: must say why",
}

FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)(?P<more>[^\n`]*)\n(?P<body>.*?)^(?P=indent)```$",
    re.M | re.S,
)
#: The line above a block that must not run.
NOT_RUN = re.compile(r"<!-- not run: (?P<reason>[^>]+) -->\s*\Z")
#: The first line of a Python block that other blocks run as a program.
PROGRAM = re.compile(r"\A# (?P<name>\w+\.py)\n")


@dataclass(frozen=True)
class Block:
    """One block of a page."""

    page: Path
    line: int
    language: str
    body: str
    #: Output that the page shows for a Python block: the `text` block right after it.
    output: str | None
    #: Reason that the page gives for not running the block.
    not_run: str | None

    @property
    def place(self) -> str:
        """Return page and line, as editors understand them."""
        page = self.page.relative_to(ROOT) if self.page.is_relative_to(ROOT) else self.page
        return f"{page}:{self.line}"

    @property
    def program(self) -> str | None:
        """Return the name of the file whose content the block is, if it is one."""
        named = PROGRAM.match(self.body)
        return named["name"] if named and self.language == "python" else None


def blocks_of(page: Path) -> list[Block]:
    """Return all blocks of a page, top to bottom; an output belongs to the block it follows."""
    text = page.read_text(encoding="utf-8")
    fences = list(FENCE.finditer(text))
    blocks = []
    for at, fence in enumerate(fences):
        after = fences[at + 1] if at + 1 < len(fences) else None
        shows = after is not None and not text[fence.end() : after.start()].strip()
        output = (
            after["body"] if after is not None and shows and after["language"] == "text" else None
        )
        reason = NOT_RUN.search(text, 0, fence.start())
        blocks.append(
            Block(
                page=page,
                line=text.count("\n", 0, fence.start()) + 1,
                language=fence["language"] or "text",
                body=fence["body"],
                output=output if fence["language"] == "python" else None,
                not_run=reason["reason"].strip() if reason else None,
            )
        )
    return blocks
