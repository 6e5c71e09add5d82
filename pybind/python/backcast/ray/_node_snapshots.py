"""One node's part of a snapshot: its ring and parameters, in the store of the node."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

import backcast as bc
from backcast._params import Params
from backcast.errors import BackcastError, CorruptError, NotFoundError, StorageError
from backcast.ray import _node_params

if TYPE_CHECKING:
    from backcast.ray._shard import Shard


def save(shard: Shard, label: str, store: str | None) -> dict[str, Any]:
    """Save the ring and the parameters that are there; return what the manifest says of them."""
    with shard.lock:
        held = _node_params._held(shard)
        params = [] if held is None or held[0].version == 0 else [Params._of(held[0])]
        # Counts that the ring has at least; those of the snapshot come with it.
        counts = shard.counts()
        saved = shard.ring.snapshot(label, store=store, params=params or None)
    return {
        "part": saved["snapshot"],
        "rows": saved["rows"],
        "rows_lapped": saved["rows_lapped"],
        "node": shard.node,
        "generation": shard.generation,
        "inserts": counts.inserts,
        "params_version": params[0].version if params else None,
    }


def parts(shard: Shard, names: list[str], store: str | None) -> list[str]:
    """Return those of the parts that this node can read."""
    with suppress(NotFoundError, StorageError):
        there = {one["snapshot"] for one in bc.list_snapshots(store=store)}
        return [name for name in names if name in there]
    return []


def verify(_shard: Shard, part: str, store: str | None) -> None:
    """Read a part whole, and raise CorruptError if it is damaged."""
    told = bc.verify_snapshot(part, store=store)
    if not told["whole"]:
        raise CorruptError(
            f"snapshot `{part}` is damaged ({told['damages'][0]}); load another one, or restore "
            "its files from a backup"
        )


def load(
    shard: Shard, part: str, store: str | None, exist: Literal["error", "replace"]
) -> int | None:
    """Make the ring and the parameters of a part; return the version of the parameters."""
    with shard.lock:
        _load_ring(shard, part, store, exist)
        return _load_params(shard, part, store, exist)


def restore(shard: Shard, part: str, store: str | None) -> None:
    """Make the ring of a part, on a node that returns; and parameters if it has none."""
    with shard.lock:
        _load_ring(shard, part, store, "error")
        if _node_params._held(shard) is None:
            # The learner publishes the newest version in any case.
            with suppress(BackcastError):
                _load_params(shard, part, store, "error")


def _options(shard: Shard, store: str | None, exist: str) -> dict[str, Any]:
    ring = shard.spec.ring
    persistent = bool(ring.get("persistent", True))
    return {"store": store, "exist": exist, "persistent": persistent, "dir": ring.get("dir")}


def _load_ring(shard: Shard, part: str, store: str | None, exist: str) -> None:
    options = _options(shard, store, exist)
    with bc.ReplayBuffer.load(part, shard.spec.ring_name(shard.number), **options) as loaded:
        # Writers wait for a learner, which counts anew what the ring has.
        limiter = loaded.limiter
        shard.is_made = True
        shard.start("attach", 0 if limiter is None else limiter.inserts)


def _load_params(shard: Shard, part: str, store: str | None, exist: str) -> int | None:
    saved = part.partition("@")[0]
    [told] = [one for one in bc.list_snapshots(store=store) if one["snapshot"] == part]
    if saved not in told["params"]:
        return None
    options = _options(shard, store, exist)
    made = Params.load(part, saved, shard.spec.ring_name(shard.number), **options)
    shard.state["params"] = made._native, _node_params._NO_CLAIM
    return made.version


def drop(_shard: Shard, part: str, store: str | None) -> None:
    """Remove a part that no manifest names."""
    with suppress(NotFoundError):
        bc.remove_snapshot(part, store=store)
