"""The page on CleanRL shows the lines in which the two example scripts differ."""

from __future__ import annotations

import difflib

from blocks import ROOT


def test_the_page_shows_how_the_scripts_differ() -> None:
    names = ("dqn_arrays.py", "dqn_ring.py")
    texts = [(ROOT / "examples" / "cleanrl" / name).read_text("utf-8") for name in names]
    # Both begin with a docstring that names the script.
    before, after = (text.partition('"""\n\n')[2].splitlines() for text in texts)
    lines = difflib.unified_diff(before, after, *names, n=0, lineterm="")
    shown = "\n".join(line for line in lines if not line.startswith("@@"))
    page = (ROOT / "docs" / "howto" / "cleanrl.md").read_text("utf-8")
    assert f"```text\n{shown}\n```\n" in page, shown
