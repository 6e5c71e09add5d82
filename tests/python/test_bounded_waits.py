"""Every wait of a test has a limit: a test that hangs fails, and says where."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Threads of one test wait for one another at barriers, which have these names.
RUST_WAITS = re.compile(
    r"(?<!barrier)(?<!begin)(?<!start)\.wait\(\)|\.wait_with_output\(\)|\.output\(\)"
    r"|(?:Command::new|\.args?)\(.*\)\.status\(\)|\.recv\(\)"
)
# Calls that wait for a process or a thread: the number of the argument that is the limit.
# A barrier is made with its limit, and the context of an actor ends with its fleet.
LIMITED = {"barrier", "start", "context"}
LIMITS = {"communicate": 1, "wait": 0, "join": 0}
RUNS = {"run", "call", "check_call", "check_output"}
EXCEPT = {
    "tests/budget/src/waits.rs": "has the bounded waits",
    "pybind/tests/waits.py": "has the bounded waits",
    "pybind/tests/programs/calls.py": "has read the pipe of the child to its end, or killed it",
    "pybind/tests/test_ui.py": "bounds its waits by `asyncio.wait_for`",
    "pybind/tests/fleet/fleet_actors.py": "has actors that hang until their fleet ends them",
    "pybind/tests/fleet/hanging_import.py": "hangs, and is killed by its test",
    "pybind/tests/fleet/interrupting_import.py": "hangs, and is killed by its test",
}


def rust_waits(source: str) -> Iterator[int]:
    """Yield the lines on which Rust code waits without a limit."""
    for number, line in enumerate(source.splitlines(), 1):
        if RUST_WAITS.search(line.partition("//")[0]):
            yield number


def python_waits(source: str) -> Iterator[int]:
    """Yield the lines on which Python code waits without a limit."""
    for node in ast.walk(ast.parse(source)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        name, of = node.func.attr, ast.unparse(node.func.value)
        named = {keyword.arg for keyword in node.keywords}
        limited = bool(named & {"timeout", None})
        if name in LIMITS:
            limited |= len(node.args) > LIMITS[name] or of in LIMITED
        elif name in RUNS and of == "subprocess":
            pass
        elif name in {"waitpid", "waitid", "wait3", "wait4"} and of == "os":
            limited = "WNOHANG" in ast.unparse(node)
        else:
            continue
        if not limited:
            yield node.lineno


RUST = sorted(
    {
        *ROOT.glob("*/tests/**/*.rs"),
        *ROOT.glob("tests/src/**/*.rs"),
        *ROOT.glob("*/src/**/tests.rs"),
        *ROOT.glob("*/src/**/*_tests.rs"),
        *ROOT.glob("*/src/**/tests/**/*.rs"),
    }
)
PYTHON = sorted(
    path
    for folder in ("pybind/tests", "tests/adapters", "tests/python")
    for path in (ROOT / folder).rglob("*.py")
)


def test_no_wait_of_a_test_is_without_a_limit() -> None:
    assert len(RUST) > 150
    assert len(PYTHON) > 200
    found = []
    for path in [*RUST, *PYTHON]:
        name = path.relative_to(ROOT).as_posix()
        waits = rust_waits if path.suffix == ".rs" else python_waits
        if name not in EXCEPT:
            found += [f"{name}:{line}" for line in waits(path.read_text())]
    remedy = "use backcast_budget's `wait_bounded` and `output_bounded`, or those of waits.py"
    assert found == [], remedy
    assert all((ROOT / name).is_file() for name in EXCEPT)


@pytest.mark.parametrize(
    "line",
    [
        "let status = child.wait().unwrap();",
        "let output = child.wait_with_output().unwrap();",
        'Command::new("cp").arg(&copy).output().unwrap();',
        'let made = Command::new("mkfifo").arg(&fifo).status();',
        "told.recv().unwrap();",
    ],
)
def test_a_wait_without_a_limit_is_found_in_rust(line: str) -> None:
    assert list(rust_waits(f"fn test() {{\n    {line}\n}}")) == [2]


@pytest.mark.parametrize(
    "line",
    ["barrier.wait();", "child.wait_bounded();", "signals.status().is_some();", "// child.wait()"],
)
def test_other_calls_are_not_found_in_rust(line: str) -> None:
    assert list(rust_waits(line)) == []


@pytest.mark.parametrize(
    ("unbounded", "bounded"),
    [
        ("child.wait()", "child.wait(60)"),
        ("child.communicate('go')", "child.communicate('go', timeout=60)"),
        ("thread.join()", "thread.join(WATCHDOG_S)"),
        ("subprocess.run(['ls'])", "subprocess.run(['ls'], timeout=60)"),
        ("os.waitpid(pid, 0)", "os.waitpid(pid, os.WNOHANG)"),
        ("os.waitid(os.P_PID, pid, os.WEXITED)", "','.join(names)"),
    ],
)
def test_a_wait_without_a_limit_is_found_in_python(unbounded: str, bounded: str) -> None:
    assert list(python_waits(f"\n{unbounded}")) == [2]
    assert list(python_waits(bounded)) == []
