"""Every crate of the workspace can be packaged, with its metadata and README."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXTS = ("description", "license", "readme", "keywords", "categories")


@pytest.mark.skipif(shutil.which("cargo") is None, reason="cargo is not on the path")
def test_every_crate_packages_with_its_metadata(tmp_path: Path) -> None:
    options = ["--no-verify", "--allow-dirty", "--locked", "--offline"]
    environment = {**os.environ, "CARGO_TARGET_DIR": str(tmp_path)}
    command = ["cargo", "package", "--workspace", *options]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, timeout=60)
    crates = sorted((tmp_path / "package").glob("*.crate"))
    assert {crate.name.rsplit("-", 1)[0] for crate in crates} >= {"backcast-core", "backcast-gym"}
    for crate in crates:
        with tarfile.open(crate) as files:
            manifest = files.extractfile(f"{crate.stem}/Cargo.toml")
            assert manifest is not None
            lines = manifest.read().decode().splitlines()
            assert f"{crate.stem}/README.md" in files.getnames()
        given = {line.split(" = ")[0] for line in lines if " = " in line}
        assert set(TEXTS) <= given, crate.name
