"""Exceptions and warnings that quote hostile files show no control characters."""

from __future__ import annotations

import json
import struct
import unicodedata
import zipfile
from pathlib import Path
from typing import Any

import backcast as bc
import pytest

HOSTILE = "\x1b]0;title\x07\x1b[31mred\x9b2J"


def printable(text: str) -> bool:
    return all(unicodedata.category(c) != "Cc" or c == "\n" for c in text)


def blake3(text: bytes) -> str:
    """Return the BLAKE3 hash of up to 1,024 bytes, as in section 2 of the BLAKE3 paper."""
    first = [0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A]
    first += [0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19]
    moved = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8]
    quarters = [(0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15)]
    quarters += [(0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)]
    assert len(text) <= 1024
    blocks = [text[at : at + 64] for at in range(0, len(text), 64)] or [b""]
    chain = first
    for at, block in enumerate(blocks):
        words = list(struct.unpack("<16I", block.ljust(64, b"\0")))
        # CHUNK_START on the first block; CHUNK_END and ROOT on the last one.
        flags = (at == 0) + (10 if at == len(blocks) - 1 else 0)
        v = [*chain, *first[:4], 0, 0, len(block), flags]
        for _ in range(7):
            for (a, b, c, d), x, y in zip(quarters, words[::2], words[1::2], strict=True):
                for word, right, back in ((x, 16, 12), (y, 8, 7)):
                    v[a] = (v[a] + v[b] + word) % 2**32
                    v[d] = turned(v[d] ^ v[a], right)
                    v[c] = (v[c] + v[d]) % 2**32
                    v[b] = turned(v[b] ^ v[c], back)
            words = [words[place] for place in moved]
        chain = [left ^ right for left, right in zip(v[:8], v[8:], strict=True)]
    return struct.pack("<8I", *chain).hex()


def turned(word: int, right: int) -> int:
    return (word >> right | word << (32 - right)) % 2**32


def write_manifest(path: Path, generation: int, **changed: Any) -> None:  # noqa: ANN401
    """Write a valid manifest, but for the changes of its ring or column."""
    column: dict[str, Any] = {"name": "obs", "dtype": "f4", "shape": [], "role": "obs"}
    for key in column:
        column[key] = changed.pop(key, column[key])
    ring = {
        "uuid": "0" * 32,
        "created_unix_ns": 1,
        "columns": [column],
        "lanes": 1,
        "lane_capacity": 10,
        "lane_policy": "drop_new",
        "lease_timeout_ms": 0,
        "reader_slots": 1,
        "follow": None,
        "chunks": [],
    }
    ring |= changed
    saved = {"generation": generation, "name": "walk", "rings": [ring], "snapshots": []}
    text = json.dumps(saved, ensure_ascii=False).encode()
    line = f"backcast-manifest 1 {len(text)} "
    path.write_bytes(f"{line}{blake3(line.encode() + text)}\n".encode() + text)


HOSTILE_MANIFESTS: dict[str, dict[str, Any]] = {
    "a column": {"name": HOSTILE},
    "a dtype": {"dtype": HOSTILE},
    "a role": {"role": HOSTILE},
    "a policy": {"lane_policy": HOSTILE},
    "a chunk": {
        "chunks": [
            {
                "file": HOSTILE,
                "bytes": 1,
                "unix_ns": 1,
                "head_crc32": 0,
                "tail_crc32": 0,
                "batches": [],
            }
        ]
    },
    "a key": {HOSTILE: 1},
}


@pytest.mark.parametrize("changed", HOSTILE_MANIFESTS.values(), ids=HOSTILE_MANIFESTS)
def test_errors_about_a_hostile_manifest_are_printable(
    place: Path, tmp_path: Path, changed: dict[str, Any]
) -> None:
    folder = tmp_path / "store" / "walk"
    folder.mkdir(parents=True, mode=0o700)
    write_manifest(folder / "manifest-0", 1, **changed)
    store = tmp_path / "store"
    for call in (
        lambda: bc.ReplayBuffer.load("walk@a", "again", store=store, dir=place),
        lambda: bc.list_snapshots(store=store),
        lambda: bc.verify_snapshot("walk@a", store=store),
    ):
        with pytest.raises(bc.errors.CorruptError) as raised:
            call()
        assert "[31mred" in str(raised.value)
        assert printable(str(raised.value))
    # A second, valid manifest is used, and a warning quotes the hostile one.
    write_manifest(folder / "manifest-1", 2)
    with pytest.warns(UserWarning, match=r"\[31mred") as warned:
        bc.list_snapshots(store=store)
    assert all(printable(str(one.message)) for one in warned)


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
    assert printable(message)
