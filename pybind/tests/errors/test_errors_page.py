"""`docs/errors.md` agrees with the printed errors; `make errors-page` writes it again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from typos import page

PAGE = Path(__file__).resolve().parents[3] / "docs" / "errors.md"


def test_the_page_of_errors_is_what_is_printed(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BACKCAST_DIR", str(place))
    monkeypatch.setenv("BACKCAST_STORE", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)
    printed = page(place, tmp_path)
    if os.environ.get("BACKCAST_WRITE_ERRORS_PAGE"):
        PAGE.write_text(printed, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == printed, "look at the change, then make errors-page"
