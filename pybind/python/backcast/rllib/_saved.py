"""Snapshots that hold the state of RLlib's buffer, and the folders that they are in."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from backcast._native import list_snapshots
from backcast.errors import ArgumentError, NotFoundError

NAME, LABEL = "buffer", "saved"
SNAPSHOT = f"{NAME}@{LABEL}"


def saved_in(
    folder: str | Path, *, alpha: float | None, capacity: int, lanes: int | None
) -> dict[str, Any]:
    """Return what is known of the snapshot in a folder, if a buffer of these options can load it.

    Raises
    ------
    NotFoundError
        If there is none.
    ArgumentError
        If it was saved with another ``alpha``, fewer lanes or a larger capacity.
    """
    saved = next((of for of in list_snapshots(store=folder) if of["snapshot"] == SNAPSHOT), None)
    if saved is None:
        raise NotFoundError(f"no buffer was saved in {folder}; give a folder of `save`")
    was, has, rows = saved["state"]["alpha"], len(saved["lanes"]), saved["lane_capacity"]
    if was != alpha:
        raise ArgumentError(
            f"the buffer was saved with alpha={was!r}, and this one has {alpha!r}; make it with "
            "the same"
        )
    if lanes is not None and has < lanes:
        raise ArgumentError(
            f"the buffer was saved with {has} lanes, and now {lanes} episodes may be open at once; "
            "run as many environments as before, or fewer"
        )
    if -(-capacity // has) < rows:
        raise ArgumentError(
            f"the buffer was saved with a capacity of {has * rows}, and this one has {capacity}, "
            f"but a ring can only grow; make it with {has * rows} or more"
        )
    return saved


def new_folder() -> str:
    """Return a new folder, which the end of this process removes."""
    folder = tempfile.mkdtemp(prefix="backcast-rllib-")
    atexit.register(_remove, folder, os.getpid())
    return folder


def folder_of(state: object) -> str | None:
    """Return the folder of a state; None of that of an empty buffer.

    Raises
    ------
    ArgumentError
        If it is no state.
    NotFoundError
        If the folder is not here.
    """
    if not isinstance(state, Mapping) or "snapshot" not in state:
        raise ArgumentError(f"state is {state!r}; give what get_state() returned")
    folder: str | None = state["snapshot"]
    if folder is not None and not os.path.isdir(folder):
        raise NotFoundError(
            f"the state's folder {folder} is not here: a state is for the machine that made it, "
            "and lasts as long as that process; use save(folder) and load(folder)"
        )
    return folder


def _remove(folder: str, process: int) -> None:
    # A forked process ends before the one that uses the folder.
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)
