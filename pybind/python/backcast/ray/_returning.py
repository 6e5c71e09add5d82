"""Note of the newest snapshot, which the cluster keeps for nodes that return without their ring."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from backcast.errors import BackcastError

if TYPE_CHECKING:
    from collections.abc import Sequence

_PREFIX = "backcast/snapshot/"


@dataclass(frozen=True)
class Note:
    """Newest snapshot of shards.

    Parameters
    ----------
    snapshot : str
        Its name, for words: ``"run@epoch-1"``.
    generations : sequence of str
        Identity of the ring that each part was saved from.
    parts : sequence of str
        Part of each shard, by number.
    store : str or None
        Directory of snapshots on each node; the default of the node when None.
    """

    snapshot: str
    generations: Sequence[str]
    parts: Sequence[str]
    store: str | None


def write(name: str, note: Note) -> None:
    """Keep a note for as long as the cluster lives. It replaces an earlier one.

    Raises
    ------
    BackcastError
        If the cluster does not take it.
    """
    from ray.experimental import internal_kv

    try:
        internal_kv._internal_kv_put(_PREFIX + name, json.dumps(asdict(note)), overwrite=True)
    except Exception as error:
        raise BackcastError(
            f"`{note.snapshot}` is whole, and nodes that return will not find it: the head node "
            f"does not take its name ({error}); look at its log, and save again"
        ) from error


def read(name: str) -> Note | None:
    """Return the note of shards of that name, if there is one.

    Raises
    ------
    BackcastError
        If the cluster does not say.
    """
    from ray.experimental import internal_kv

    try:
        found = internal_kv._internal_kv_get(_PREFIX + name)
    except Exception as error:
        raise BackcastError(
            f"the head node does not say whether shards '{name}' have a snapshot ({error}); look "
            "at its log"
        ) from error
    return None if found is None else Note(**json.loads(found))


def remove(name: str) -> None:
    """Remove the note: shards of that name are new ones, or gone."""
    from ray.experimental import internal_kv

    internal_kv._internal_kv_del(_PREFIX + name)
