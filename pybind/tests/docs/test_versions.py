"""Published versions of the site: a folder each, a list, and a page that leads to the newest."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import backcast as bc
import pytest
from blocks import ROOT

sys.path.append(str(ROOT / "docs"))
import versions


def built(folder: Path, text: str) -> Path:
    """Make a built site of one page."""
    folder.mkdir(exist_ok=True)
    (folder / "index.html").write_text(text)
    return folder


def test_versions_are_listed_by_number_and_the_newest_is_first(tmp_path: Path) -> None:
    site = tmp_path / "site"
    for version in ("0.2.0", "0.10.0", "0.9.1"):
        found = versions.publish(built(tmp_path / "docs", version), site, version)
    assert found == ["0.10.0", "0.9.1", "0.2.0"]
    assert json.loads((site / "versions.json").read_text()) == found
    assert 'url=0.10.0/"' in (site / "index.html").read_text()
    assert [(site / name / "index.html").read_text() for name in found] == found


def test_a_version_is_replaced_and_others_stay(tmp_path: Path) -> None:
    site = tmp_path / "site"
    versions.publish(built(tmp_path / "docs", "old"), site, "0.1.0")
    (site / "0.1.0" / "gone.html").touch()
    versions.publish(built(tmp_path / "docs", "other"), site, "0.2.0")
    assert versions.publish(built(tmp_path / "docs", "new"), site, "0.1.0") == ["0.2.0", "0.1.0"]
    assert [path.name for path in (site / "0.1.0").iterdir()] == ["index.html"]
    assert (site / "0.2.0" / "index.html").read_text() == "other"


def test_what_is_no_built_site_changes_nothing(tmp_path: Path) -> None:
    site = tmp_path / "site"
    with pytest.raises(FileNotFoundError):
        versions.publish(tmp_path, site, "0.1.0")
    with pytest.raises(ValueError, match=r"\.\./0"):
        versions.publish(built(tmp_path / "docs", ""), site, "../0")
    assert not site.exists()


def test_the_program_publishes_the_version_of_the_package(tmp_path: Path) -> None:
    program, docs = ROOT / "docs" / "versions.py", built(tmp_path / "docs", "")
    subprocess.run([sys.executable, str(program), docs, tmp_path], check=True, timeout=60)
    assert (tmp_path / bc.__version__ / "index.html").is_file()


def test_the_sidebar_reads_the_list_that_is_written() -> None:
    template = ROOT / "docs" / "_templates" / "sidebar" / "versions.html"
    assert '"../versions.json"' in template.read_text()
    assert "sidebar/versions.html" in (ROOT / "docs" / "conf.py").read_text()
