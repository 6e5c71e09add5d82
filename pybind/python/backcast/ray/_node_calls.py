"""Calls of one process for each node, without a wait for any of them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

_WAIT_S = 0.05


class NodeDownError(Exception):
    """The process that was called is not there now: it ended, or its node did."""


class NodeCalls(Protocol):
    """Processes on several nodes, by the numbers of their shards."""

    def send(self, number: int, method: str, *given: Any) -> Any:
        """Call a method of one of them; return what stands for its answer. Never fails."""

    def ready(self, calls: Sequence[Any], timeout_s: float) -> list[Any]:
        """Wait until one of the calls is answered or the time is over; return those that are."""

    def answer(self, call: Any) -> Any:
        """Return the answer of a call that is ready.

        Raises
        ------
        NodeDownError
            If there is none, and will be none.
        """

    def end(self, number: int) -> None:
        """End one of the processes, if it is ours to end."""


def arriving(
    calls: NodeCalls, asked: Mapping[int, Any], timeout_s: float
) -> Iterator[tuple[int, Any]]:
    """Yield each call that is answered in time, with its number, as the answers come."""
    waiting, ends_s = dict(asked), time.monotonic() + timeout_s
    while waiting and time.monotonic() < ends_s:
        ready = {id(call) for call in calls.ready(list(waiting.values()), _WAIT_S)}
        for number in [k for k, call in waiting.items() if id(call) in ready]:
            yield number, waiting.pop(number)
