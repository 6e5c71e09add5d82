"""One node's copy of the parameters: an ordinary `Params`, which the shard publishes into."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import backcast as bc
from backcast._native import FlatParams
from backcast.errors import CorruptError, InUseError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from backcast.ray._shard import Shard

Described: TypeAlias = "list[tuple[str, str, tuple[int, ...]]]"
"""Name, dtype and shape of each array."""
Claim: TypeAlias = "tuple[int, str]"
"""Number and name of a learner that publishes: of two, the later one has the larger number."""
_Held: TypeAlias = "tuple[FlatParams, Claim]"

_KEY = "params"
_NO_CLAIM: Claim = (0, "")


def create(shard: Shard, arrays: Described) -> None:
    """Make the node's parameters, without a version. Replaces those of an earlier run."""
    with shard.lock:
        _make(shard, arrays, _NO_CLAIM)


def ensure(shard: Shard, arrays: Described) -> int:
    """Make the node's parameters if it has none; return the newest version."""
    with shard.lock:
        held = _held(shard)
        return (_make(shard, arrays, _NO_CLAIM) if held is None else held[0]).version


def look(shard: Shard) -> tuple[Described, int, Claim] | None:
    """Return arrays, newest version and claim; None if the node has no parameters."""
    with shard.lock:
        held = _held(shard)
        return None if held is None else (held[0].arrays, held[0].version, held[1])


def publish(
    shard: Shard, claim: Claim, version: int, arrays: Described, values: Sequence[NDArray[Any]]
) -> int:
    """Publish a version, unless the node has it or a later one; return the newest.

    A node that has lost its parameters makes them, and so does one that has other arrays.

    Raises
    ------
    InUseError
        If another learner has published since this one.
    """
    with shard.lock:
        held = _held(shard)
        native, known = (None, _NO_CLAIM) if held is None else held
        if claim < known:
            raise InUseError(
                f"the parameters of shards '{shard.spec.name}' are published by another learner "
                f"({known[1]}) since this one ({claim[1]}); stop one of them"
            )
        if native is None or native.arrays != arrays:
            native = _make(shard, arrays, claim)
        shard.state[_KEY] = native, claim
        if version > native.version:
            native.publish(list(values), version)
        return native.version


def latest(shard: Shard) -> tuple[int, list[NDArray[Any]]]:
    """Return the newest version and copies of its arrays."""
    with shard.lock:
        held = _held(shard)
        if held is None:
            raise NotFoundError(f"{shard.spec.label(shard.number)} has no parameters; publish some")
        return held[0].read()


def remove(shard: Shard) -> None:
    """Remove the node's parameters. Processes that have them open keep them."""
    with shard.lock:
        held = _held(shard)
        if held is not None:
            held[0].unlink()
            held[0].close()
            del shard.state[_KEY]
    # Rings of reports of fleets whose learner was killed, with their guardians.
    bc.collect_garbage(dir=shard.spec.ring.get("dir"))


def _make(shard: Shard, arrays: Described, claim: Claim) -> FlatParams:
    held = shard.state.pop(_KEY, None)
    if held is not None:
        held[0].close()
    native = FlatParams.create(
        shard.spec.ring_name(shard.number),
        arrays,
        exist="replace",
        persistent=shard.spec.ring.get("persistent", True),
        dir=shard.spec.ring.get("dir"),
    )
    shard.state[_KEY] = native, claim
    return native


def _held(shard: Shard) -> _Held | None:
    """Return what the shard has; attach again if its process is a new one."""
    held: _Held | None = shard.state.get(_KEY)
    if held is None:
        try:
            native = FlatParams.attach(
                shard.spec.ring_name(shard.number), dir=shard.spec.ring.get("dir")
            )
        except (NotFoundError, CorruptError):
            return None
        held = shard.state[_KEY] = native, _NO_CLAIM
    return held
