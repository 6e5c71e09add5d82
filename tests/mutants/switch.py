"""Source files with all chosen mutants at once, behind one switch.

A function with mutants gets their bodies beside its own. ``crate::mutant_is(n)``, which reads the
environment variable ``BACKCAST_MUTANT``, chooses one when the tests run: so many mutants need one
build.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

VARIABLE = "BACKCAST_MUTANT"
SWITCH = f"""
/// Whether the tests run with this mutant.
pub(crate) fn mutant_is(number: u32) -> bool {{
    static CHOSEN: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    let chosen = || std::env::var("{VARIABLE}").ok().and_then(|number| number.parse().ok());
    *CHOSEN.get_or_init(|| chosen().unwrap_or(0)) == number
}}
"""
# Comments, literals and lifetimes, in which a brace is none.
PLAIN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|r(\#*)".*?"\1|"(?:\\.|[^"\\])*"|'(?:\\[^']+|[^'\\])'|'\w+""", re.DOTALL
)


class Region(NamedTuple):
    """Lines of a written file that hold one mutant."""

    number: int
    first: int
    last: int


def with_switch(source: str, mutants: Iterable[tuple[int, dict[str, Any]]]) -> str:
    """Return a source file with mutants, each behind its number. Numbers begin with 1."""
    functions: defaultdict[tuple[int, int], list[tuple[int, str]]] = defaultdict(list)
    for number, mutant in mutants:
        body = body_of(source, mutant)
        assert body is not None
        first, last = (offset_of(source, mutant["span"][end]) for end in ("start", "end"))
        start, end = body
        changed = source[start:first] + mutant["replacement"] + source[last:end]
        functions[body].append((number, changed))
    # The last function first, so that the places of the others stay.
    for (start, end), bodies in sorted(functions.items(), reverse=True):
        branches = "".join(
            f"if crate::mutant_is({number}) {{ // mutant {number}\n{body}\n}} else "
            for number, body in bodies
        )
        source = f"{source[:start]}{branches}{{ // mutant 0\n{source[start:end]}\n}}{source[end:]}"
    return source


def regions(source: str) -> list[Region]:
    """Return where the mutants of a written file stand."""
    marks = [
        (int(found[1]), at)
        for at, line in enumerate(source.splitlines(), 1)
        if (found := re.search(r"\{ // mutant (\d+)$", line))
    ]
    ends = [at for _, at in marks[1:]]
    return [
        Region(number, first, last)
        for (number, first), last in zip(marks, ends, strict=False)
        if number
    ]


def body_of(source: str, mutant: dict[str, Any]) -> tuple[int, int] | None:
    """Return the body, without its braces, of the function that a mutant changes.

    Returns None outside functions and in those that are computed at compile time.
    """
    if mutant["function"] is None:
        return None
    span = mutant["function"]["span"]
    start, end = (offset_of(source, span[at]) for at in ("start", "end"))
    text = PLAIN.sub(lambda found: " " * len(found[0]), source[start:end])
    head = re.search(r"\bfn\b", text)
    if head is None or re.search(r"\bconst\b", text[: head.start()]):
        return None
    depth = 0
    for at in range(head.end(), len(text)):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(text[at], 0)
        if text[at] == "{" and depth == 0:
            return start + at + 1, start + text.rindex("}")
    return None


def offset_of(source: str, place: dict[str, int]) -> int:
    """Return the offset of a line and a column, which both begin with 1."""
    lines = source.splitlines(keepends=True)
    return sum(len(line) for line in lines[: place["line"] - 1]) + place["column"] - 1
