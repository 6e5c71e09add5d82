"""Mutants behind a switch: the body of a function is found, and every mutant has its own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))

from mutants.switch import body_of, regions, with_switch  # noqa: E402 - needs the path

SOURCE = """\
/// Doubles {.
pub fn twice<'a, const N: usize>(of: [u8; N], text: &'a str) -> usize {
    // Not a brace: }
    let brace = ['{', '}', '\\'']; // "
    let more = r#"{"{"#;
    if text == "}\\"" { N + brace.len() } else { more.len() * 2 }
}

const fn fixed() -> u8 {
    7
}
"""


def place(text: str, offset: int = 0) -> dict[str, int]:
    """Return the line and the column of a text."""
    before = SOURCE[: SOURCE.index(text) + offset]
    return {"line": before.count("\n") + 1, "column": len(before) - before.rfind("\n")}


def mutant(of: str, last: str, text: str, replacement: str) -> dict[str, Any]:
    """Make a mutant as cargo-mutants lists it, of a function that ends with a line."""
    return {
        "function": {"span": {"start": place(of), "end": place(last, len(last))}},
        "span": {"start": place(text), "end": place(text, len(text))},
        "replacement": replacement,
    }


TIMES = mutant("/// Doubles", "* 2 }\n}", " * 2", " + 2")
PLUS = mutant("/// Doubles", "* 2 }\n}", " + brace", " - brace")


def test_the_body_of_a_function_is_found_among_braces_in_text() -> None:
    body = body_of(SOURCE, TIMES)
    assert body is not None
    start, end = body
    assert SOURCE[start:].startswith("\n    // Not a brace")
    assert SOURCE[end:].startswith("}\n\nconst fn")


@pytest.mark.parametrize("outside", [True, False])
def test_what_is_computed_at_compile_time_has_no_switch(outside: bool) -> None:
    of = mutant("const fn", "7\n}", "7", "8")
    assert body_of(SOURCE, of | ({"function": None} if outside else {})) is None


def test_each_mutant_has_a_body_of_its_own() -> None:
    written = with_switch(SOURCE, [(1, TIMES), (2, PLUS)])
    found = {region.number: region for region in regions(written)}
    assert sorted(found) == [1, 2]
    lines = written.splitlines()
    texts = {
        number: "\n".join(lines[region.first - 1 : region.last]) for number, region in found.items()
    }
    assert "more.len() + 2" in texts[1]
    assert "N + brace" in texts[1]
    assert "N - brace" in texts[2]
    assert "more.len() * 2" in texts[2]
    # The last body is the function's own.
    own = written[written.index("else { // mutant 0") :]
    assert "N + brace.len()" in own
    assert "more.len() * 2" in own
    assert written.count("crate::mutant_is(") == 2
