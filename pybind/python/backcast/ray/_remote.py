"""Calls to shards through Ray."""

from __future__ import annotations

import pickle
from typing import Any

import ray
from ray import exceptions

from backcast.ray._transport import AwayError, GoneError


def result_of(answer: Any) -> Any:
    """Return an answer, or those of a list, which are there.

    Raises
    ------
    AwayError, GoneError
        If there is none.
    Exception
        As the actor raised.
    """
    try:
        return ray.get(answer)
    except exceptions.RayTaskError as error:
        cause = error.cause
        raise cause if isinstance(cause, Exception) else error from None
    except (exceptions.ActorDiedError, exceptions.ActorUnschedulableError) as error:
        raise GoneError(str(error)) from None
    except exceptions.ObjectLostError as error:
        raise GoneError(str(error)) from None
    except exceptions.RayError as error:
        raise AwayError(str(error)) from None


class _RayPending:
    def __init__(self, refs: list[Any]) -> None:
        self._refs = refs

    def wait(self, seconds: float) -> bool:
        ready, _ = ray.wait(self._refs, num_returns=len(self._refs), timeout=max(0.0, seconds))
        return len(ready) == len(self._refs)

    def result(self) -> list[Any]:
        return list(result_of(self._refs))


class RayTransport:
    """Calls to the actor of a shard.

    Parameters
    ----------
    actor : ActorHandle
        The actor.
    """

    def __init__(self, actor: Any) -> None:
        self._actor = actor
        self._methods: dict[tuple[str, int], Any] = {}

    def ask(self, method: str, *given: Any, parts: int = 1) -> _RayPending:
        """Call a method of the actor."""
        found = self._methods.get((method, parts))
        if found is None:
            # Ray makes a class for each.
            found = getattr(self._actor, method).options(num_returns=parts)
            self._methods[method, parts] = found
        if method == "block":
            # Ray takes twice as long to pickle a request as to send bytes.
            given = (pickle.dumps(given[0], protocol=5),)
        called = found.remote(*given)
        return _RayPending(called if parts > 1 else [called])
