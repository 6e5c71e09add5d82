"""Run a page's Python and console blocks top to bottom in one process, as a reader would.

    python run_page.py PAGE

Python blocks share a namespace; one whose first line is `# name.py` is written to that file, for
other blocks to run. Console blocks run in bash, all in the current directory. What a block prints
is compared with what the page shows: `...` stands for anything, white space may differ.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

from blocks import Block, blocks_of

MARK = "\x01"
LOOSELY = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def run(page: Path) -> None:
    """Run every block of a page; raise at the first that differs from what the page shows."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks_of(page):
        if block.not_run:
            continue
        if block.program:
            Path(block.program).write_text(block.body, encoding="utf-8")
        elif block.language == "python":
            run_python(block, namespace)
        elif block.language == "console":
            run_console(block)


def run_python(block: Block, namespace: dict[str, Any]) -> None:
    """Execute a block; an exception is an output like any other if the page shows an output."""
    # Empty lines give tracebacks and SyntaxErrors the line numbers of the page.
    code = compile("\n" * block.line + block.body, block.place.rpartition(":")[0], "exec")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            exec(code, namespace)
        except Exception as error:
            if block.output is None:
                raise
            printed.write("".join(traceback.format_exception_only(error)))
    if block.output is not None:
        compare(block.place, block.output, printed.getvalue())


def run_console(block: Block) -> None:
    """Run the commands in one shell; a failing one must be followed by `echo $?`."""
    commands, expected = sessions(block)
    script = "".join(
        f"(exit ${{status:-0}})\n{command}\nstatus=$?\nprintf '\\001%s\\001' $status\n"
        for command in commands
    )
    ran = subprocess.run(
        ["bash", "-c", script],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
    parts = ran.stdout.split(MARK)
    printed, statuses = parts[0:-1:2], parts[1::2]
    if len(statuses) != len(commands):
        raise AssertionError(f"{block.place}: the shell ended early\n{ran.stdout}")
    for at, command in enumerate(commands):
        place = f"{block.place}: $ {command}"
        asked = commands[at + 1 : at + 2] == ["echo $?"]
        if statuses[at] != "0" and not asked:
            raise AssertionError(f"{place}\nended with status {statuses[at]}\n{printed[at]}")
        compare(place, expected[at], printed[at])


def sessions(block: Block) -> tuple[list[str], list[str]]:
    """Split `$ command` lines, with their continuations, from the output below them."""
    commands: list[str] = []
    expected: list[str] = []
    for line in block.body.splitlines():
        if line.startswith("$ "):
            commands.append(line[2:])
            expected.append("")
        elif commands and commands[-1].endswith("\\") and not expected[-1]:
            commands[-1] += "\n" + line.removeprefix("> ")
        elif commands:
            expected[-1] += line + "\n"
        else:
            raise AssertionError(f"{block.place}: a console block begins with `$ `")
    return commands, expected


def compare(place: str, expected: str, printed: str) -> None:
    """Compare as doctest does, without white space at both ends."""
    want, got = expected.strip() + "\n", printed.strip() + "\n"
    if not doctest.OutputChecker().check_output(want, got, LOOSELY):
        raise AssertionError(f"{place}\n--- the page shows\n{want}--- it printed\n{got}")


if __name__ == "__main__":
    run(Path(sys.argv[1]))
