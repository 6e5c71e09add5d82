"""Calls to actors of Ray, one on each node, without a wait for any of them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import ray
from ray import exceptions

from backcast.errors import BackcastError
from backcast.ray._actor import _placed
from backcast.ray._node_calls import NodeDownError
from backcast.ray._node_fleet import NodeFleet
from backcast.ray._remote import result_of
from backcast.ray._spec import Spec
from backcast.ray._transport import AwayError, GoneError

_THREADS = 4
"""Calls of one node's part of a fleet at a time: a request to hurry beside the stop, and a view."""


class RayCalls:
    """Calls to actors, by the numbers of their shards.

    Parameters
    ----------
    actors : sequence of ActorHandle
        The actors.
    """

    def __init__(self, actors: Sequence[Any]) -> None:
        self._actors = list(actors)

    def send(self, number: int, method: str, *given: Any) -> Any:
        """Call a method of one of them; return the reference of its answer."""
        return getattr(self._actors[number], method).remote(*given)

    def ready(self, calls: Sequence[Any], timeout_s: float) -> list[Any]:
        """Wait until one of the calls is answered or the time is over; return those that are."""
        if not ray.is_initialized():
            # A wait would start Ray again.
            raise BackcastError("Ray was shut down; call ray.init() and attach to the shards again")
        waited = list(calls)
        ready, _ = ray.wait(waited, num_returns=1, timeout=timeout_s, fetch_local=True)
        if ready and len(waited) > 1:
            ready, _ = ray.wait(waited, num_returns=len(waited), timeout=0, fetch_local=True)
        # The caller knows its references by identity.
        done = set(ready)
        return [call for call in waited if call in done]

    def answer(self, call: Any) -> Any:
        """Return the answer of a call that is ready.

        Raises
        ------
        NodeDownError
            If the actor or its node ended before.
        """
        try:
            return result_of(call)
        except (AwayError, GoneError) as error:
            raise NodeDownError(str(error)) from None

    def end(self, number: int) -> None:
        """End one of the actors; Ray does not start it again."""
        with suppress(exceptions.RayError, ValueError):
            ray.kill(self._actors[number], no_restart=True)


def fleet_processes(spec: Spec) -> RayCalls:
    """Start a process beside each shard, which supervises a part of a fleet.

    Ray ends them with this process.
    """
    made = ray.remote(NodeFleet)
    actors = []
    for place in spec.places:
        options = {"num_cpus": 0, "max_restarts": -1, "max_concurrency": _THREADS}
        actors.append(made.options(**options, **_placed(place)).remote())
    return RayCalls(actors)
