"""Saves the ring of a buffer as files of a snapshot, which a pickle holds, and loads it."""

from __future__ import annotations

import secrets
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from backcast import ReplayBuffer
from backcast.errors import BackcastError, ExistsError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SNAPSHOT, _LABEL = "buffer", "saved"
# Prefix of names of private rings, which need one because a snapshot is loaded under a name.
_PRIVATE = "backcast-sb3-"


def saved(ring: ReplayBuffer) -> dict[str, NDArray[np.uint8]]:
    """Save a ring and return the files by path, as mapped arrays.

    The files are removed at once; their contents live as long as the arrays.
    """
    with tempfile.TemporaryDirectory(prefix="backcast-") as folder:
        store = Path(folder)
        ring.snapshot(_LABEL, name=_SNAPSHOT, store=store)
        files = [path for path in store.rglob("*") if path.is_file() and path.stat().st_size]
        return {
            str(path.relative_to(store)): np.memmap(path, np.uint8, "r").view(np.ndarray)
            for path in files
        }


def is_private(name: str | None) -> bool:
    """Return whether a ring of this name is private to this process."""
    return name is None or name.startswith(_PRIVATE)


def loaded(
    files: dict[str, NDArray[np.uint8]], name: str | None, persistent: bool, folder: str | None
) -> ReplayBuffer:
    """Load a ring from saved files; refuse if a ring of the same name holds rows."""
    if name is None or is_private(name):
        name = f"{_PRIVATE}{secrets.token_hex(8)}"
    with tempfile.TemporaryDirectory(prefix="backcast-") as store:
        for place, content in files.items():
            path = Path(store, place)
            path.parent.mkdir(parents=True, exist_ok=True)
            content.tofile(path)
        snapshot = f"{_SNAPSHOT}@{_LABEL}"
        try:
            return ReplayBuffer.load(snapshot, name, store=store, persistent=persistent, dir=folder)
        except ExistsError as error:
            if _holds_rows(name, folder):
                place = "" if folder is None else f", dir={folder!r}"
                raise ExistsError(
                    f"the saved buffer's ring is called {name!r}, and a ring of that name holds "
                    f"rows; free the name with backcast.remove_object({name!r}, force=True{place}) "
                    "(the buffers that use it, here or in other processes, keep their rows), or go "
                    f"on with that ring: a new buffer of name={name!r} attaches to it"
                ) from error
            return ReplayBuffer.load(
                snapshot, name, store=store, exist="replace", persistent=persistent, dir=folder
            )


def _holds_rows(name: str, folder: str | None) -> bool:
    """Return whether rows were published in the ring of this name."""
    with ReplayBuffer.attach(name, dir=folder) as ring:
        return bool(ring.stats()["rows_published"])


def forget(ring: ReplayBuffer) -> None:
    """Remove a ring; ignore errors, such as that it was removed already."""
    with suppress(BackcastError):
        ring.unlink()
