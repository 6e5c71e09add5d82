"""Exceptions that quote hostile files show no control characters."""

from __future__ import annotations

import unicodedata
import zipfile
from pathlib import Path

import backcast as bc
import pytest

HOSTILE = "\x1b]0;title\x07\x1b[31mred\x9b2J"


def write_npz(path: Path, header: str, name: str = "obs") -> None:
    text = header.encode()
    array = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}.npy", array)


@pytest.mark.parametrize(
    ("header", "name"),
    [
        (HOSTILE, "obs"),
        (f"{{'descr': '{HOSTILE}', 'fortran_order': False, 'shape': (3,), }}", "obs"),
        ("{'descr': 'no', 'fortran_order': False, 'shape': (3,), }", HOSTILE),
    ],
    ids=["a header", "a type", "a name"],
)
def test_an_exception_about_an_array_is_printable(
    place: Path, tmp_path: Path, header: str, name: str
) -> None:
    path = tmp_path / "steps.npz"
    write_npz(path, header, name)
    with pytest.raises(bc.BackcastError) as raised:
        bc.ReplayBuffer.from_file(path, "steps", dir=place)
    message = str(raised.value)
    assert "[31mred" in message
    assert [c for c in message if unicodedata.category(c) == "Cc" and c != "\n"] == []
