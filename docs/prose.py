"""Check how doc comments begin, and how long the lines of Rust, Python and Markdown files are.

    python prose.py [ROOT]

A doc comment or docstring must not begin with a phrase of `BANNED`: it opens with a verb or with a
noun that names the thing. No line may be longer than `COLUMNS`, except rows of tables, code blocks
and generated results of Markdown, and lines that only a link or a pragma makes too long.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

BANNED = ("Of", "As", "Whose", "What", "The same", "So many", "For whom", "Alone")
COLUMNS = 100

OPENING = re.compile(rf"(?:{'|'.join(BANNED)})\b")
DOC_COMMENT = re.compile(r"\s*//([/!])(?!/)\s?(.*)")
LINK = re.compile(r"\]\([^)]*\)|^\[[^]]+\]:\s*\S+|https?://\S+")
PRAGMA = re.compile(r"\s*# (?:noqa|type: ignore)\b.*$")
TABLE_ROW = re.compile(r"\s*(?://[/!]?\s*|#\s*)?\|")
FENCE = re.compile(r"\s*(?:```|~~~)")
GENERATED = re.compile(r"<!-- (?P<end>end of )?(?:results|summary|faster)\b")

Complaint = tuple[int, str]


def openings_of_rust(text: str) -> Iterator[Complaint]:
    """Yield the number and text of the first line of every doc comment."""
    before = None
    for number, line in enumerate(text.splitlines(), 1):
        found = DOC_COMMENT.match(line)
        kind = found[1] if found else None
        if found and kind != before:
            yield number, found[2]
        before = kind


def openings_of_python(text: str) -> Iterator[Complaint]:
    """Yield the number and text of the first line of every docstring."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(docstring))):
                yield node.lineno, docstring.lstrip()


def long_lines(text: str, *, markdown: bool) -> Iterator[Complaint]:
    """Yield the number of every line that is too long, and how long it is."""
    fenced = generated = False
    for number, line in enumerate(text.splitlines(), 1):
        if markdown and FENCE.match(line):
            fenced = not fenced
        if markdown and (mark := GENERATED.match(line)):
            generated = not mark["end"]
        checked = not (fenced or generated or TABLE_ROW.match(line))
        if not checked or len(PRAGMA.sub("", LINK.sub("", line))) <= COLUMNS:
            continue
        yield number, f"{len(line)} columns, at most {COLUMNS}"


def complaints(path: Path) -> Iterator[Complaint]:
    """Yield what is wrong with a file, with line numbers."""
    text = path.read_text(encoding="utf-8")
    yield from long_lines(text, markdown=path.suffix == ".md")
    openings: Iterator[Complaint] = iter(())
    if path.suffix == ".rs":
        openings = openings_of_rust(text)
    elif path.suffix in {".py", ".pyi"}:
        openings = openings_of_python(text)
    for number, opening in openings:
        if found := OPENING.match(opening):
            yield number, f'begins with "{found[0]}"; begin with a verb, or a noun that names it'


def checked_files(root: Path) -> list[Path]:
    """List the files of the repository that are checked."""
    listed = subprocess.run(
        ["git", "ls-files", "*.rs", "*.py", "*.pyi", "*.md"],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    )
    return [root / name for name in listed.stdout.splitlines() if (root / name).is_file()]


def main(root: Path) -> int:
    """Print every complaint and return how many there are."""
    count = 0
    for path in checked_files(root):
        for number, why in sorted(complaints(path)):
            print(f"{path.relative_to(root)}:{number}: {why}", file=sys.stderr)
            count += 1
    return count


if __name__ == "__main__":
    found = main(Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve())
    sys.exit(f"{found} lines of prose to rewrite" if found else 0)
