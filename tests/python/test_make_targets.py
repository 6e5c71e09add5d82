"""Every target in `make help` is part of `make release-check`, or `ALONE` says why it is not."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RULE = re.compile(r"^(?P<target>[a-z-]+):(?!=)(?P<needs>[^#=\n]*)(?P<listed>## .*)?$", re.M)

#: Listed targets that `make release-check` does not need, and why.
ALONE = {
    "help": "prints the list",
    "clean": "removes the results of all others",
    "demo": "`release-check` runs it for a few seconds",
    "check": "a part of `test`, for one crate",
    "quick": "`test` with smaller budgets",
    "storm": "takes hours",
    "mutants": "takes hours, and names what no test notices",
    "bench": "takes half an hour of an idle machine",
    "bench-peers": "needs interpreters with the peers, and an idle machine",
    "bench-rust": "needs an idle machine",
    "facts": "writes a page, which a test compares with its figures",
    "errors-page": "writes a page, which a test compares with the errors",
    "test-adapters": "installs six gigabytes from the network",
    "test-ray": "installs half a gigabyte from the network, and starts many processes",
    "test-rllib": "installs six gigabytes from the network",
    "test-page": "installs packages from the network, and needs a browser",
    "docs-links": "needs the network",
    "wheels": "needs targets that rustup downloads",
    "release": "copies what others make, and needs cargo-cyclonedx",
}


def rules() -> tuple[dict[str, set[str]], set[str]]:
    """Return what each target needs, and the targets that `make help` lists."""
    text = (ROOT / "Makefile").read_text()
    needs: dict[str, set[str]] = {}
    listed = set()
    for rule in RULE.finditer(text):
        target = rule["target"]
        needs.setdefault(target, set()).update(re.findall(r"(?<![/a-z])[a-z-]+", rule["needs"]))
        if rule["listed"]:
            listed.add(target)
    return needs, listed


def closure(target: str, needs: dict[str, set[str]]) -> set[str]:
    found, open_ = set(), [target]
    while open_:
        one = open_.pop()
        if one not in found:
            found.add(one)
            open_.extend(needs.get(one, ()))
    return found


def test_a_listed_target_is_run_by_a_check_or_has_a_reason_not_to() -> None:
    needs, listed = rules()
    run = closure("release-check", needs) & listed
    assert {"test", "docs", "lint"} <= run
    assert "docs" in closure("test", needs)
    assert run | set(ALONE) == listed
    assert not run & set(ALONE)


def test_contributors_are_told_of_both() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text()
    assert all(f"make {target} " in page for target in ("test", "release-check"))


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not on the path")
@pytest.mark.parametrize("target", ["test", "release-check"])
def test_make_finds_a_recipe_for_every_step(target: str) -> None:
    ran = subprocess.run(
        ["make", "--dry-run", "MAKE=true", target],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("cargo doc") <= 2
    flags = set(re.findall(r"(\S*) ?cargo doc", ran.stdout))
    assert len(flags) == 1, f"equal flags, so that nothing is documented twice: {flags}"


# Answers no question for a version, and fails at everything else.
NO_TOOLS = """#!/bin/sh
echo "$0 $*" >> "$BACKCAST_CALLS"
exit 1
"""


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not on the path")
@pytest.mark.parametrize(
    ("arguments", "missing"),
    [
        (["release"], "cargo-cyclonedx"),
        (["release-check"], "nightly"),
        (["miri"], "Miri"),
        (["audit"], "cargo-deny"),
        (["wheel", "TARGET=no-such-target"], "rustup target add no-such-target"),
    ],
)
def test_a_target_looks_for_its_tools_before_it_builds(
    arguments: list[str], missing: str, tmp_path: Path
) -> None:
    for name in ("cargo", "rustc"):
        (tmp_path / name).write_text(NO_TOOLS)
        (tmp_path / name).chmod(0o755)
    calls = tmp_path / "calls"
    path = f"{tmp_path}:{os.environ['PATH']}"
    ran = subprocess.run(
        ["make", *arguments],
        cwd=ROOT,
        env={**os.environ, "PATH": path, "BACKCAST_CALLS": str(calls)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ran.returncode != 0
    assert missing in ran.stderr
    made = [line.split(" ", 1)[1] for line in calls.read_text().splitlines()]
    questions = ("--version", "-vV", "--print sysroot")
    assert [call for call in made if not call.endswith(questions)] == []
