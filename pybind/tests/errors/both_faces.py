"""Table of the crates' errors and their classes in Python, read from the conversions."""

from __future__ import annotations

import re
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[2] / "src"
#: Matches a whole `impl From<SampleError> for Failure` or `fn class_of_limit(error: &LimitError)`.
BLOCK = re.compile(
    r"^(?:impl From<(\w+)> for Failure|fn class_of_\w+\(error: &(\w+)\))[^\n]*\{\n(.*?)^\}",
    re.MULTILINE | re.DOTALL,
)
USED = re.compile(r"^use (backcast_\w+)::([^;]+);", re.MULTILINE)

HEADING = """
## In Rust

A kind of call has an enum of its own. The right column has the classes that its variants become
in Python. An error inside of another, such as a `SegmentError` in a `RingError`, becomes the class
that it has alone.

| in Rust | in Python |
| --- | --- |
"""


def in_python(variant: str) -> str:
    """Return the Python class of a variant of `ErrorClass`."""
    return "`BackcastError`" if variant == "Base" else f"`{variant}Error`"


def faces() -> str:
    """Return the section of the page that lists every error of a crate and its Python classes."""
    classes: dict[tuple[str, str], set[str]] = {}
    for path in SOURCES.rglob("*.rs"):
        text = path.read_text(encoding="utf-8")
        crate = {
            name: module for module, tree in USED.findall(text) for name in re.findall(r"\w+", tree)
        }
        for of, helped, body in BLOCK.findall(text):
            if module := crate.get(of or helped):
                found = re.findall(r"\bErrorClass::(\w+)", body)
                classes.setdefault((module, of or helped), set()).update(found)
    lines = [
        f"| `{module}::{name}` | {' '.join(sorted(map(in_python, found)))} |\n"
        for (module, name), found in sorted(classes.items())
        if found
    ]
    return HEADING + "".join(lines)
