"""Crates that `make demo` and `make test` both need are compiled once."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def features(*selection: str) -> dict[tuple[str, str], str]:
    """Return the features of each crate that this selection of packages is built with."""
    command = ["cargo", "tree", "--locked", "--prefix", "none", "--format", "{p}|{f}", *selection]
    tree = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=60)
    found: dict[tuple[str, str], str] = {}
    for line in tree.stdout.splitlines():
        package, _, enabled = line.removesuffix(" (*)").partition("|")
        if package:
            name, version, *_ = package.split()
            found[name, version] = enabled
    return found


@pytest.mark.skipif(shutil.which("cargo") is None, reason="cargo is not on the path")
def test_the_extension_and_the_tests_build_shared_crates_with_equal_features() -> None:
    extension = features("--package", "backcast-pybind", "--edges", "normal,build")
    others = ["backcast-layout", "backcast-benches"]
    rest = features("--workspace", *(f"--exclude={name}" for name in others))
    assert len(extension) > 100
    twice = {
        name: (extension[name], rest[name]) for name in extension if extension[name] != rest[name]
    }
    assert not twice, "name these features in pybind/Cargo.toml, so that nothing is compiled twice"
