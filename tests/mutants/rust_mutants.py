"""Mutants of the crates, listed by cargo-mutants.

A mutant is one change of one place. All chosen ones are written into a copy of the repository
behind a switch, and built once. Then the tests of its crate run with each, until one fails. A
mutant that they miss runs against the tests of all other crates.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from . import switch, tree
from .outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Seconds of the tests of a crate, and of all others. A mutant that takes longer hangs.
TIMEOUT, WIDER_TIMEOUT = 300, 900
PROFILE = "--cargo-profile=mutants"
# Lines that nextest prints of a test that fails.
FAILED = re.compile(r"^\s*(?:FAIL|TIMEOUT|SIG\w+|ABORT) \[[^]]*\][^a-z]*(.+)$", re.MULTILINE)


def check() -> None:
    """End the program if a tool is not installed."""
    for tool in ("cargo-mutants", "cargo-nextest"):
        if not shutil.which(tool):
            raise SystemExit(f"{tool} not found: cargo install --locked {tool}")


def mutants(root: Path, crate: str) -> list[dict[str, Any]]:
    """Return the mutants of a crate that a switch can choose, in the order of its text."""
    command = ["cargo", "mutants", "--list", "--json", "--package", package(root, crate)]
    listed = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
    found: list[dict[str, Any]] = json.loads(listed.stdout)
    # Modules of tests that stand in files of their own.
    tests = re.compile(r"(^|[/_])tests(/|\.rs$)")
    sources = {one["file"]: (root / one["file"]).read_text() for one in found}
    return [
        one
        for one in found
        if not tests.search(one["file"]) and switch.body_of(sources[one["file"]], one)
    ]


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
    numbered = dict(enumerate(chosen, 1))
    built, refused = build(root, numbered, out)
    target = str(out / "target")
    for number, (crate, mutant) in numbered.items():
        words = mutant["name"].split(": ", 1)[1]
        place = (crate, mutant["file"], mutant["span"]["start"]["line"], words)
        if number in refused:
            yield Outcome(*place, "invalid")
            continue
        own = package(root, crate)
        for packages, seconds in (
            ([f"--package={own}"], TIMEOUT),
            (["--workspace", f"--exclude={own}", "--exclude=backcast-benches"], WIDER_TIMEOUT),
        ):
            command = ["cargo", "nextest", "run", "--locked", "--offline", PROFILE, *packages]
            variables = {"CARGO_TARGET_DIR": target, switch.VARIABLE: str(number)}
            verdict, output = tree.tested(command, built, seconds, **variables)
            if verdict != "missed":
                break
        failed = FAILED.search(output)
        if verdict == "noticed" and failed is None:
            raise SystemExit(f"no test failed, and the tests did: {output[-2000:]}")
        yield Outcome(*place, verdict, failed.group(1).strip() if failed else None)


def build(
    root: Path, numbered: dict[int, tuple[str, dict[str, Any]]], out: Path
) -> tuple[Path, set[int]]:
    """Build all tests with all mutants that the compiler takes. Return the copy, and the rest."""
    refused: set[int] = set()
    command = ["cargo", "build", "--lib", "--bins", "--tests", "--keep-going", "--locked"]
    command += ["--offline", "--profile=mutants", "--workspace", "--exclude=backcast-benches"]
    command += ["--message-format=json"]
    environment = {**os.environ, "CARGO_TARGET_DIR": str(out / "target")}
    while True:
        built = tree.copied(root, out / "crates")
        places = write(built, {n: one for n, one in numbered.items() if n not in refused})
        print(f"building {len(numbered) - len(refused)} mutants", flush=True)
        made = subprocess.run(
            command,
            cwd=built,
            check=False,
            capture_output=True,
            text=True,
            env=environment,
        )
        if made.returncode == 0:
            return built, refused
        found = {
            region.number
            for file, line in errors(made.stdout)
            for region in places.get(file, [])
            if region.first <= line <= region.last
        }
        if not found:
            raise SystemExit(f"no mutant is the cause: {made.stderr[-3000:]}")
        refused |= found


def write(
    built: Path, numbered: dict[int, tuple[str, dict[str, Any]]]
) -> dict[str, list[switch.Region]]:
    """Write mutants into a copy of the repository. Return where they are, by file."""
    by_file: defaultdict[str, list[tuple[int, dict[str, Any]]]] = defaultdict(list)
    for number, (_, mutant) in numbered.items():
        by_file[mutant["file"]].append((number, mutant))
    places = {}
    for name, of in by_file.items():
        source = switch.with_switch((built / name).read_text(), of)
        (built / name).write_text(source)
        places[name] = switch.regions(source)
    for crate in {crate for crate, _ in numbered.values()}:
        with (built / crate / "src" / "lib.rs").open("a") as file:
            file.write(switch.SWITCH)
    return places


def errors(messages: str) -> Iterator[tuple[str, int]]:
    """Yield the places, as (file, line), of errors of the compiler."""
    for line in messages.splitlines():
        if not line.startswith("{"):
            continue
        message = json.loads(line).get("message") or {}
        if isinstance(message, dict) and message.get("level") == "error":
            for span in message["spans"]:
                yield span["file_name"], span["line_start"]
