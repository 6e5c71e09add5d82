"""Elements of a storage on disk and in state dicts, oldest first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tensordict import TensorDict, TensorDictBase
from torchrl.data.replay_buffers.checkpointers import StorageCheckpointerBase

from backcast.errors import ArgumentError, ArgumentTypeError

if TYPE_CHECKING:
    import os

    from numpy.typing import NDArray

    from backcast.torchrl._storage import Storage

# Bytes that are copied at a time.
_CHUNK = 1 << 26


class RingCheckpointer(StorageCheckpointerBase):
    """Saves the elements as a memory-mapped TensorDict in ``elements``, oldest first."""

    def dumps(self, storage: Storage, path: str | os.PathLike[str]) -> None:
        """Save the elements.

        Raises
        ------
        ArgumentError
            If the checkpointer has hooks, which would change the layout.
        LappedError
            If another process overwrites elements meanwhile.
        """
        self._refuse_hooks()
        folder = Path(path)
        folder.mkdir(exist_ok=True)
        order = order_of(storage)
        description = {"elements": len(order), "max_size": storage.max_size}
        description["first"] = int(order[0]) if len(order) else 0
        if len(order):
            first = storage.get(order[:1])
            saved = first.expand(len(order)).memmap_like(folder / "elements")
            rows = max(1, _CHUNK // max(1, first.bytes()))
            for start in range(0, len(order), rows):
                part = order[start : start + rows]
                saved[start : start + len(part)] = storage.get(part)
        (folder / "storage.json").write_text(json.dumps(description))

    def loads(self, storage: Storage, path: str | os.PathLike[str]) -> None:
        """Replace the elements of a storage by saved ones.

        Raises
        ------
        ArgumentError
            If the folder was saved by another storage, or has more elements than fit.
        """
        self._refuse_hooks()
        folder = Path(path)
        try:
            description = json.loads((folder / "storage.json").read_text())
        except FileNotFoundError as error:
            raise ArgumentError(
                f"{folder} has no storage.json, so another kind of storage saved it; load it there "
                "and extend a buffer over this one with its elements"
            ) from error
        if not description["elements"]:
            storage._empty()
            return
        saved = TensorDict.load_memmap(folder / "elements")
        rows = max(1, _CHUNK // max(1, saved[:1].bytes()))
        refill(storage, saved, description, rows)

    def _refuse_hooks(self) -> None:
        if self._save_hooks or self._load_hooks:
            raise ArgumentError(
                "the checkpointer of a ring takes no hooks; export the ring "
                "(storage.ring.export) for other layouts"
            )


def checkpointer_of(value: Any) -> Any:
    """Return the checkpointer that was assigned to a storage; its own for None."""
    if value is None:
        return RingCheckpointer()
    if not all(callable(getattr(value, call, None)) for call in ("dumps", "loads")):
        raise ArgumentTypeError(
            f"checkpointer is {value!r}; give one of TorchRL's, or None for that of the storage"
        )
    return value


def state_of(storage: Storage) -> dict[str, Any]:
    """Return the elements for ``state_dict``."""
    order = order_of(storage)
    state: dict[str, Any] = {
        "elements": len(order),
        "max_size": storage.max_size,
        "first": int(order[0]) if len(order) else 0,
    }
    if len(order):
        state["_storage"] = storage.get(order).state_dict()
    return state


def load_state(storage: Storage, state: dict[str, Any]) -> None:
    """Replace the elements of a storage by those of a state."""
    if "elements" not in state:
        raise ArgumentError(
            "the state is that of another kind of storage, which does not say the order of its "
            "elements; load it there and extend a buffer over this one with its elements"
        )
    if not state["elements"]:
        storage._empty()
        return
    saved = TensorDict().load_state_dict(state["_storage"], strict=False)
    refill(storage, saved, state, max(1, _CHUNK // max(1, saved[:1].bytes())))


def order_of(storage: Storage) -> NDArray[np.int64]:
    """Return the positions, oldest element first."""
    size = len(storage)
    last = storage._last_cursor_index
    first = 0 if last is None or size < storage.max_size else last + 1
    return np.asarray((np.arange(size, dtype=np.int64) + first) % storage.max_size)


def refill(storage: Storage, saved: TensorDictBase, description: dict[str, Any], rows: int) -> None:
    """Replace all elements by `saved`, of which the first one has a given position."""
    count, first, size = description["elements"], description["first"], storage.max_size
    if count > size or (first and description["max_size"] != size):
        raise ArgumentError(
            f"there are {count} elements of a storage of {description['max_size']}, and this one "
            f"has {size} positions; give max_size={description['max_size']}"
        )
    storage._begin_at(first, saved)
    for start in range(0, count, rows):
        part = saved[start : start + rows]
        positions = np.arange(part.batch_size[0], dtype=np.int64) + start + first
        storage._store(positions % size, part)
    storage._align_writers()
