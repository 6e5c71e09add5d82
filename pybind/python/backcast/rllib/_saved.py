"""What is saved of a buffer, and whether another one can go on with it."""

from __future__ import annotations

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
