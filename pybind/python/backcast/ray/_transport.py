"""Calls to shards, whose answers come later, and shards in this process."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, Protocol


class AwayError(Exception):
    """The shard did not get the call, or died with it; it is started again."""


class GoneError(Exception):
    """The node of the shard is gone, with its ring."""


class Pending(Protocol):
    """Answer that may not be there yet."""

    def wait(self, seconds: float) -> bool:
        """Wait for the answer, at most for so long; return whether it is there."""

    def result(self) -> list[Any]:
        """Return the parts of the answer, which is there.

        Raises
        ------
        AwayError, GoneError
            If there is none.
        Exception
            As the shard raised.
        """


class Transport(Protocol):
    """Calls to one shard, which does them in order."""

    def ask(self, method: str, *given: Any, parts: int = 1) -> Pending:
        """Call a method of the shard, whose answer has so many parts."""


class _Answered:
    def __init__(self, call: Callable[[], list[Any]]) -> None:
        self._error: Exception | None = None
        try:
            # Copies the answer as the network would: it shares no memory with the shard.
            self._bytes = pickle.dumps(call())
        except Exception as error:
            self._error = error

    def wait(self, seconds: float) -> bool:
        return True

    def result(self) -> list[Any]:
        if self._error is not None:
            raise self._error
        found: list[Any] = pickle.loads(self._bytes)
        return found


class LocalTransport:
    """Calls to a shard in this process, done at once.

    Parameters
    ----------
    shard : Shard
        The shard.
    """

    def __init__(self, shard: Any) -> None:
        self._shard = shard

    def ask(self, method: str, *given: Any, parts: int = 1) -> _Answered:
        """Call a method of the shard."""

        def call() -> list[Any]:
            made = getattr(self._shard, method)(*pickle.loads(pickle.dumps(given)))
            return made if method == "block" else [made]

        assert parts >= 1
        return _Answered(call)
