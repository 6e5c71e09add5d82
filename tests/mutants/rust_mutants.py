"""Mutants of the crates, made by cargo-mutants.

A mutant is one change of one place. Cargo-mutants writes it into a copy of the repository, builds
the crate and runs its tests until one fails. A mutant that they miss runs against the tests of all
crates that depend on it.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
from typing import TYPE_CHECKING, Any

from .outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .outcome import Verdict

VERDICTS: dict[str, Verdict] = {
    "CaughtMutant": "noticed",
    "MissedMutant": "missed",
    "Timeout": "hung",
    "Unviable": "invalid",
}
# Seconds of the tests of a crate. A mutant that takes longer hangs.
TIMEOUT = 300
# Lines that nextest, and the tests of Rust, print of a test that fails.
FAILED = re.compile(r"^\s*(?:FAIL|TIMEOUT|SIG\w+|ABORT) \[[^]]*\][^a-z]*(.+)$", re.MULTILINE)
PANICKED = re.compile(r"^test (\S+) \.\.\. FAILED", re.MULTILINE)


def check() -> None:
    """End the program if cargo-mutants is not installed."""
    if not shutil.which("cargo-mutants"):
        raise SystemExit("cargo-mutants not found: cargo install --locked cargo-mutants")


def mutants(root: Path, crate: str) -> list[dict[str, Any]]:
    """Return the mutants of a crate, in the order of its text."""
    command = ["cargo", "mutants", "--list", "--json", "--package", package(root, crate)]
    listed = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
    found: list[dict[str, Any]] = json.loads(listed.stdout)
    # Modules of tests that stand in files of their own.
    tests = re.compile(r"(^|[/_])tests(/|\.rs$)")
    return [one for one in found if not tests.search(one["file"])]


def package(root: Path, crate: str) -> str:
    """Return the name of the package in a folder."""
    manifest = root / crate / "Cargo.toml"
    if not manifest.is_file():
        raise SystemExit(f"{crate} is no crate")
    name = re.search(r'^name = "(.+)"', manifest.read_text(), re.MULTILINE)
    assert name is not None
    return name.group(1)


def run(root: Path, chosen: list[tuple[str, dict[str, Any]]], out: Path) -> Iterator[Outcome]:
    """Yield what becomes of each mutant: first with the tests of its crate, then with all."""
    missed = []
    for outcome, mutant in judged(root, chosen, out / "crate", ["--test-workspace=false"]):
        if outcome.verdict == "missed":
            missed.append((outcome.part, mutant))
        else:
            yield outcome
    if missed:
        wider = ["--test-workspace=true"]
        yield from (outcome for outcome, _ in judged(root, missed, out / "workspace", wider))


def judged(
    root: Path, chosen: list[tuple[str, dict[str, Any]]], out: Path, options: list[str]
) -> Iterator[tuple[Outcome, dict[str, Any]]]:
    """Yield each mutant with its outcome, in one run of cargo-mutants."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    named = {mutant["name"]: (crate, mutant) for crate, mutant in chosen}
    tool = "nextest" if shutil.which("cargo-nextest") else "cargo"
    command = ["cargo", "mutants", "--no-shuffle", "--baseline=skip", f"--timeout={TIMEOUT}"]
    command += [f"--test-tool={tool}", f"--output={out}", "--profile=mutants", *options]
    # Expressions choose no mutant that deletes a field: all of those in a chosen file run.
    command += [f"--file={file}" for file in sorted({one["file"] for _, one in chosen})]
    command += [f"--re=^{re.escape(name)}$" for name in named]
    # The exit status says whether mutants were missed: the outcomes say which.
    with subprocess.Popen(command, cwd=root, stdout=subprocess.DEVNULL) as running:
        try:
            running.wait()
        except BaseException:
            # It ends the tests that run, which have a process group of their own.
            running.send_signal(signal.SIGINT)
            raise
    written = json.loads((out / "mutants.out" / "outcomes.json").read_text())
    for one in written["outcomes"]:
        if one["scenario"] == "Baseline":
            continue
        name = one["scenario"]["Mutant"]["name"]
        if name not in named:
            continue
        crate, mutant = named[name]
        log = (out / "mutants.out" / one["log_path"]).read_text(errors="replace")
        failed = FAILED.search(log) or PANICKED.search(log)
        verdict = VERDICTS[one["summary"]]
        noticed_by = failed.group(1).strip() if failed and verdict == "noticed" else None
        words = name.split(": ", 1)[1]
        line = mutant["span"]["start"]["line"]
        yield Outcome(crate, mutant["file"], line, words, verdict, noticed_by), mutant
