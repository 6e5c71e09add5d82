"""Manifest of a snapshot of shards: a file of JSON, written whole or not at all."""

from __future__ import annotations

import json
import os
import secrets
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from backcast._native import RateLimiter, Schema, _restore_limiter
from backcast.errors import ArgumentError, CorruptError, NotFoundError, StorageError
from backcast.ray._spec import Place, Spec

_VERSION = 1
_ENDING = ".shards.json"


@dataclass(frozen=True)
class Manifest:
    """Parts of a snapshot of shards, and what they belong to."""

    snapshot: str
    """``"run@epoch-1"``."""
    shards: list[dict[str, Any]]
    """For each shard its ``part``, ``rows``, ``node``, ``generation``, ``inserts`` and so on."""
    columns: dict[str, Any]
    capacity: int | str
    limiter: list[Any] | None
    """Arguments of the limiter over all shards."""
    ring: dict[str, Any]
    """Further options of the rings."""
    params_version: int | None
    """Version of the parameters that the learner had published, or found on a node."""
    saved_unix_ns: int
    state: Any = None
    version: int = field(default=_VERSION)

    def spec(self, name: str, places: tuple[Place, ...]) -> Spec:
        """Return what the shards are that are made of it.

        Raises
        ------
        CorruptError
            If it describes no shards.
        """
        try:
            limiter = None
            if self.limiter is not None:
                *numbers, given = self.limiter
                restored: Any = _restore_limiter
                limiter = restored(*_tuples(numbers), tuple(given))
            columns = {name: _column(one) for name, one in self.columns.items()}
            ring = {str(key): value for key, value in self.ring.items()}
            return Spec(name, places, Schema(columns), self.capacity, limiter, ring)
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise CorruptError(
                f"the manifest of `{self.snapshot}` describes no shards ({error}); load another "
                "snapshot, or restore the file from a backup"
            ) from error


def _column(one: list[Any]) -> Any:
    dtype, shape, role = one
    return dtype, tuple(shape), role


def _tuples(values: list[Any]) -> list[Any]:
    return [tuple(value) if isinstance(value, list) else value for value in values]


def limiter_words(limiter: RateLimiter | None) -> list[Any] | None:
    """Return a limiter as the manifest has it."""
    return None if limiter is None else list(limiter.__reduce__()[1])


def column_words(columns: Schema) -> dict[str, Any]:
    """Return columns as the manifest has them."""
    return {
        name: [dtype, list(shape), role] for name, (dtype, shape, role) in columns.columns.items()
    }


def store_of(store: str | os.PathLike[str] | None) -> Path:
    """Return the directory of snapshots of this process."""
    if store is not None:
        return Path(store)
    given = os.environ.get("BACKCAST_STORE")
    if given:
        return Path(given)
    home = os.environ.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local/share")
    return Path(home, "backcast")


def path_of(snapshot: str, store: Path) -> Path:
    """Return the file of a manifest."""
    return store / f"{snapshot}{_ENDING}"


def snapshot_name(name: str, label: str) -> str:
    """Check a label, and return the name of its snapshot.

    Raises
    ------
    ArgumentError
        If the label is no name.
    """
    good = isinstance(label, str) and label and all(c.isalnum() or c in "-_." for c in label)
    if not good or label.startswith("."):
        raise ArgumentError(
            f"label is {label!r}; give letters, digits, '-', '_' and '.', such as 'epoch-1'"
        )
    return f"{name}@{label}"


def check_state(state: object) -> None:
    """Refuse a state that no manifest can have.

    Raises
    ------
    ArgumentError
        If it is no JSON value.
    """
    try:
        json.dumps(state)
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            f"state is no JSON value ({error}); give dicts, lists and numbers"
        ) from None


def write(manifest: Manifest, store: Path) -> Manifest:
    """Write a manifest, which replaces one of its name in one step; return it as it is read.

    Raises
    ------
    StorageError
        If the file system refuses it. The one before is still there.
    """
    path = path_of(manifest.snapshot, store)
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    text = json.dumps(asdict(manifest), indent=1)
    try:
        store.mkdir(parents=True, exist_ok=True)
        try:
            with part.open("x") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
            folder = os.open(store, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(
            f"the manifest {path} cannot be written ({error}); give a store= that can be written to"
        ) from error
    return Manifest(**json.loads(text))


def read(snapshot: str, store: Path) -> Manifest:
    """Read the manifest of a snapshot; without a label, the newest one of that name.

    Raises
    ------
    NotFoundError
        If there is none.
    CorruptError
        If it is no manifest of this version.
    """
    path = path_of(snapshot, store)
    if "@" not in snapshot:
        found = [_parsed(one) for one in sorted(store.glob(f"{snapshot}@*{_ENDING}"))]
        if found:
            return max(found, key=lambda manifest: manifest.saved_unix_ns)
    if not path.is_file():
        raise NotFoundError(
            f"there is no snapshot `{snapshot}` of shards in {store}; give the store of the "
            "process that saved it"
        )
    return _parsed(path)


def _parsed(path: Path) -> Manifest:
    try:
        manifest = Manifest(**json.loads(path.read_bytes()))
        parts = [one["part"] for one in manifest.shards]
        good = manifest.version == _VERSION and bool(parts) and all("@" in one for one in parts)
        good &= path.name == f"{manifest.snapshot}{_ENDING}" and len(set(parts)) == len(parts)
    except (TypeError, ValueError, KeyError):
        good = False
    if not good:
        raise CorruptError(
            f"{path} is no manifest of shards of version {_VERSION}; load another snapshot, or "
            "restore the file from a backup"
        )
    return manifest


def earlier(snapshot: str, store: Path) -> Manifest | None:
    """Return the manifest that another one would replace, if it can be read."""
    with suppress(NotFoundError, CorruptError):
        return read(snapshot, store)
    return None
