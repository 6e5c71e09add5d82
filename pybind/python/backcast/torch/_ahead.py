"""Batches that are drawn and copied to a device before the learner needs them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from backcast.errors import SampleError
from backcast.torch._pool import Pool

if TYPE_CHECKING:
    import backcast as bc
    from backcast.torch._transfer import Copy, Transfer


def copied_ahead(
    sampler: bc.Sampler,
    transfer: Transfer,
    convert: Callable[[dict[str, Any]], Any],
    batch_size: int,
    prefetch: int,
    limits: dict[str, Any],
) -> Generator[Any, None, None]:
    """Yield batches of a sampler on a device, of which `prefetch` are drawn ahead and copied.

    `convert` gets the tensors of a batch when the learner does, in its stream. The sampler counts
    a batch as drawn when it is yielded: after a loop that is left it draws those ahead again.
    `limits` are the other arguments of :meth:`backcast.Sampler.batches`.
    """
    if prefetch > _MAX_PREFETCH:
        raise SampleError(
            f"prefetch is {prefetch}, the limit is {_MAX_PREFETCH} batches ahead; ask for fewer"
        )
    pool = Pool(sampler._blank(batch_size), prefetch + 1, transfer)
    try:
        memory: list[dict[str, Any]] = [*pool.batches]
        with sampler._batches_into(batch_size, memory, **limits) as batches:
            ahead = _Ahead(pool, batches)
            while ahead.fetch():
                tensors, copy = ahead.oldest
                copy.hand_over(tensors)
                converted = convert(tensors)
                # Lets go of the tensors while the learner has them.
                del tensors, copy
                ahead.use_oldest()
                yield converted
                del converted
    finally:
        # The thread was stopped above, so nothing is written to the memory any more.
        pool.close()


# Largest number of batches ahead that a sampler accepts.
_MAX_PREFETCH = 1024


class _Ahead:
    """Batches whose copies were begun, and that the learner does not have yet."""

    def __init__(self, pool: Pool, batches: Any) -> None:
        self._pool = pool
        self._batches = batches
        self._ahead: deque[tuple[int, dict[str, Any], Copy]] = deque()
        # Batches that the learner has, and whose memory is not filled again yet.
        self._used: list[int] = []
        self._error: Exception | None = None

    @property
    def oldest(self) -> tuple[dict[str, Any], Copy]:
        _, tensors, copy = self._ahead[0]
        return tensors, copy

    def use_oldest(self) -> None:
        """Count the oldest batch as drawn."""
        self._batches._use_oldest()
        place, _, _ = self._ahead.popleft()
        self._used.append(place)

    def fetch(self) -> bool:
        """Begin the copies of all batches that are drawn; wait for one if none is ahead.

        Returns whether there is a batch. What fails ahead of time is raised after the batches that
        were drawn before it.
        """
        self._refill()
        if not self._ahead:
            if self._error is not None:
                raise self._error
            if not self._has_memory():
                self._pool.wait(self._used[0])
                self._refill()
            drawn = next(self._batches, None)
            if drawn is None:
                return False
            self._begin(drawn)
        while self._error is None and self._has_memory():
            try:
                drawn = self._batches._next_ready()
            except Exception as error:
                self._error = error
                break
            if drawn is None:
                break
            self._begin(drawn)
        return True

    def _has_memory(self) -> bool:
        return len(self._ahead) + len(self._used) < len(self._pool.batches)

    def _begin(self, batch: Any) -> None:
        tensors, copy = self._pool.begin(batch)
        self._ahead.append((batch.place, tensors, copy))

    def _refill(self) -> None:
        """Give back the memory that was copied, of batches that the learner has."""
        for place in self._pool.take_done(iter(self._used)):
            self._used.remove(place)
            self._batches._refill(place)
