"""`run_page.py` passes right pages, and fails at the first block that is wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PYTHON, TEXT, CONSOLE, END = "```python\n", "```text\n", "```console\n", "```\n"
AHEAD = PYTHON + "x = 2\n" + END


def run(page: str, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "page.md").write_text(page)
    return subprocess.run(
        [sys.executable, Path(__file__).with_name("run_page.py"), "page.md"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


RIGHT = {
    "output": AHEAD + PYTHON + "print(x + 1)\n" + END + TEXT + "3\n" + END,
    "dots stand for anything": PYTHON
    + "print(list(range(9)))\n"
    + END
    + TEXT
    + "[0, ... 8]\n"
    + END,
    "output nobody shows": PYTHON + "print(1)\n" + END,
    "a text further down is no output": PYTHON
    + "print(1)\n"
    + END
    + "words\n"
    + TEXT
    + "2\n"
    + END,
    "a shown error": PYTHON + "1 / 0\n" + END + TEXT + "ZeroDivisionError: ...\n" + END,
    "console": CONSOLE + "$ echo a\na\n$ echo b \\\n    c\nb c\n" + END,
    "a failure with its status": CONSOLE + "$ (exit 3)\n$ echo $?\n3\n" + END,
    "variables last for a block": CONSOLE + "$ a=1\n$ echo $a\n1\n" + END,
    "a program": PYTHON
    + "# p.py\nprint(7)\n"
    + END
    + CONSOLE
    + "$ cat p.py | tail -1\nprint(7)\n"
    + END,
    "not run": "<!-- not run: it would fail -->\n" + PYTHON + "1 / 0\n" + END,
}
WRONG = {
    "output": (AHEAD + PYTHON + "print(x)\n" + END + TEXT + "3\n" + END, "page.md:4"),
    "output that is not there": (PYTHON + "x = 1\n" + END + TEXT + "1\n" + END, "page.md:1"),
    "an error": ("\n\n" + PYTHON + "x = 1\n1 / 0\n" + END, 'page.md", line 5'),
    "another error": (PYTHON + "1 / 0\n" + END + TEXT + "KeyError: 1\n" + END, "ZeroDivision"),
    "console": (CONSOLE + "$ echo a\nb\n" + END, "$ echo a"),
    "stderr": (CONSOLE + "$ echo a >&2\n" + END, "--- it printed\na"),
    "a failure without its status": (CONSOLE + "$ (exit 3)\n" + END, "status 3"),
    "a command that is unknown": (CONSOLE + "$ no-such-command\n" + END, "status 127"),
    "a shell that leaves": (CONSOLE + "$ exit 0\n$ echo b\nb\n" + END, "ended early"),
    "no prompt": (CONSOLE + "echo a\n" + END, "begins with"),
}


@pytest.mark.parametrize("page", RIGHT.values(), ids=RIGHT)
def test_a_page_that_tells_the_truth_passes(page: str, tmp_path: Path) -> None:
    ran = run(page, tmp_path)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize(("page", "complaint"), WRONG.values(), ids=WRONG)
def test_a_page_that_does_not_is_refused_with_its_place(
    page: str, complaint: str, tmp_path: Path
) -> None:
    ran = run(page, tmp_path)
    assert ran.returncode == 1
    assert complaint in ran.stderr
