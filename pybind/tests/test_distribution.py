"""The installed distribution: its metadata, its files, and one version everywhere."""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
import sysconfig
import tomllib
from email.message import Message
from importlib import metadata, resources
from pathlib import Path

import backcast as bc
import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
DISTRIBUTION = metadata.distribution("backcast")


def declared() -> Message:
    """Read the metadata as installers do."""
    message = DISTRIBUTION.metadata
    assert isinstance(message, Message)
    return message


def test_one_version_is_said_everywhere() -> None:
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]
    console = Path(sysconfig.get_path("scripts")) / "backcast"
    said = subprocess.run(
        [console, "--version"], capture_output=True, text=True, check=True, timeout=60
    )
    assert said.stdout == f"backcast {bc.__version__}\n"
    assert DISTRIBUTION.version == bc.__version__ == workspace["package"]["version"]


def test_the_metadata_is_complete() -> None:
    meta = declared()
    assert meta["Name"] == "backcast"
    assert meta["Requires-Python"] == ">=3.11"
    assert meta["License-Expression"] == "MIT OR Apache-2.0"
    assert meta["Description-Content-Type"].startswith("text/markdown")
    assert str(meta.get_payload()).startswith("# Backcast\n")
    for field in ("Summary", "Keywords", "Classifier"):
        assert meta[field], field


def test_only_numpy_is_needed_and_the_rest_are_extras() -> None:
    required = [Requirement(line) for line in DISTRIBUTION.requires or []]
    assert [str(r) for r in required if r.marker is None] == ["numpy>=2"]
    extras = set(declared().get_all("Provides-Extra") or [])
    assert extras >= {"all", "demo", "dev", "gymnasium", "plot"}
    everything = next(r for r in required if r.name == "backcast" and "all" in str(r.marker))
    # RLlib pins Gymnasium to one version.
    assert everything.extras == extras - {"all", "dev", "rllib"}, "`all` is every extra for users"


@pytest.mark.parametrize("name", ["LICENSE-MIT", "LICENSE-APACHE", "LICENSE-THIRD-PARTY"])
def test_licences_are_inside(name: str) -> None:
    assert name in (declared().get_all("License-File") or [])
    assert DISTRIBUTION.read_text(f"licenses/{name}") == (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "name", ["py.typed", "_native.pyi", "cli.py", "demo/__main__.py", "ui/_table.js"]
)
def test_type_checkers_and_tools_find_their_files(name: str) -> None:
    assert resources.files("backcast").joinpath(name).is_file()


def test_every_recorded_file_is_what_the_record_says() -> None:
    checked = 0
    for file in DISTRIBUTION.files or []:
        # An editable installation rewrites `direct_url.json` after its hash was recorded.
        if file.hash is None or file.name == "direct_url.json":
            continue
        digest = hashlib.new(file.hash.mode, Path(file.locate()).read_bytes()).digest()
        assert base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == file.hash.value, file
        checked += 1
    assert checked > 5


def test_the_native_module_names_no_folder_of_the_machine_that_built_it() -> None:
    """Panics name source files; those of a released module must not name the builder's home."""
    record = {str(file): file for file in DISTRIBUTION.files or []}
    native = record.get("backcast/_native.abi3.so")
    if native is None:
        pytest.skip("an editable installation, built for this machine alone")
    code = Path(native.locate()).read_bytes()
    assert b"/cargo/index." in code, "crates' files are named elsewhere now: look there"
    assert b"/registry/src/" not in code
    assert bytes(Path.home()) + b"/" not in code


def test_the_tool_runs_without_its_script() -> None:
    said = subprocess.run(
        [sys.executable, "-m", "backcast", "--version"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert said.stdout == f"backcast {bc.__version__}\n"
