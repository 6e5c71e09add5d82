"""The actor of a shard: placed on its node, detached, and started again when it dies."""

from __future__ import annotations

import contextlib
import pickle
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from backcast.errors import BackcastError
from backcast.ray import _returning
from backcast.ray._returning import Note
from backcast.ray._shard import BlockRequest, Shard
from backcast.ray._spec import NAMESPACE, Place, Spec

_THREADS = 4
"""Functions of `_node_*` modules that run at a time, beside the blocks."""


class ShardActor(Shard):
    """A shard in a process of Ray.

    Parameters
    ----------
    spec : Spec
        Name, places, columns and limits of all shards.
    number : int
        Number of this one.
    """

    def __init__(self, spec: Spec, number: int) -> None:
        context = ray.get_runtime_context()
        super().__init__(spec, number, context.get_node_id())
        self.is_restarted = context.was_current_actor_reconstructed
        if self.is_restarted:
            # An actor whose constructor raises is never started again. Calls try once more.
            with contextlib.suppress(BackcastError):
                self.start_again()

    def newest_snapshot(self) -> Note | None:
        """Return the newest snapshot, which the cluster knows."""
        return _returning.read(self.spec.name)

    def block(self, request: bytes) -> Any:  # type: ignore[override]
        """Draw a block for a pickled request. One part is an answer, and several are a list."""
        asked: BlockRequest = pickle.loads(request)
        made = super().block(asked)
        return made if asked.parts > 1 else made[0]

    @ray.method(concurrency_group="node")  # type: ignore[untyped-decorator]
    def call(self, path: str, *given: Any, **named: Any) -> Any:
        """Call a function of a `_node_*` module, beside the blocks."""
        return super().call(path, *given, **named)


def started(spec: Spec, number: int) -> Any:
    """Start the actor of a shard on its node, and return its handle.

    Parameters
    ----------
    spec : Spec
        Name, places, columns and limits of all shards.
    number : int
        Number of the shard.

    Returns
    -------
    ActorHandle
    """
    actor = ray.remote(concurrency_groups={"node": _THREADS})(ShardActor).options(
        name=spec.actor_name(number),
        namespace=NAMESPACE,
        lifetime="detached",
        num_cpus=0,
        max_restarts=-1,
        # A draw that is repeated would count twice.
        max_task_retries=0,
        **_placed(spec.places[number]),
    )
    return actor.remote(spec, number)


def _placed(place: Place) -> dict[str, Any]:
    if place.key:
        return {"label_selector": {place.key: place.value}}
    return {"scheduling_strategy": NodeAffinitySchedulingStrategy(place.value, soft=False)}
