"""Nodes in this process, for tests without Ray: calls run in threads, and nodes end and return."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

from backcast.ray._node_calls import NodeDownError


class LocalCalls:
    """Calls to one object for each node, with arguments and answers as a network copies them."""

    def __init__(self, make: Callable[[int], Any], nodes: int) -> None:
        self._make = make
        self.objects = [make(k) for k in range(nodes)]
        self.down: set[int] = set()
        """Nodes that do not answer."""
        self.calls: list[tuple[int, str]] = []
        self._pool = ThreadPoolExecutor(4 * nodes)

    def send(self, number: int, method: str, *given: Any) -> Future[Any]:
        self.calls.append((number, method if method != "call" else given[0]))
        return self._pool.submit(self._run, number, method, pickle.dumps(given))

    def _run(self, number: int, method: str, given: bytes) -> Any:
        target = self.objects[number]
        if number in self.down:
            raise NodeDownError("the node is down")
        made = getattr(target, method)(*pickle.loads(given))
        if number in self.down or target is not self.objects[number]:
            raise NodeDownError("the node went down meanwhile")
        return pickle.loads(pickle.dumps(made))

    def ready(self, calls: Sequence[Future[Any]], timeout_s: float) -> list[Future[Any]]:
        done, _ = wait(calls, timeout_s, FIRST_COMPLETED)
        return [call for call in calls if call in done]

    def answer(self, call: Future[Any]) -> Any:
        return call.result()

    def end(self, number: int) -> None:
        """Leave the object: it ends with its test."""

    def replace(self, number: int) -> Any:
        """Put a new process in the place of one, and return the old one."""
        old, self.objects[number] = self.objects[number], self._make(number)
        return old

    def close(self) -> None:
        self._pool.shutdown()
