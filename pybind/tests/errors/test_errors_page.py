"""`golden_messages.txt` and `docs/errors.md` agree with the printed errors.

`make errors-page` writes both again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from golden import messages
from typos import page

PAGE = Path(__file__).resolve().parents[3] / "docs" / "errors.md"
GOLDEN = Path(__file__).with_name("golden_messages.txt")


@pytest.mark.parametrize(("file", "prints"), [(PAGE, page), (GOLDEN, messages)])
def test_the_file_of_errors_is_what_is_printed(
    place: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    file: Path,
    prints: Callable[[Path, Path], str],
) -> None:
    monkeypatch.setenv("BACKCAST_DIR", str(place))
    monkeypatch.setenv("BACKCAST_STORE", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)
    printed = prints(place, tmp_path)
    if os.environ.get("BACKCAST_WRITE_ERRORS_PAGE"):
        file.write_text(printed, encoding="utf-8")
    assert file.read_text(encoding="utf-8") == printed, "look at the change, then make errors-page"
