"""One shard as a sampler knows it: blocks that were asked for, and whether the shard answers."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from backcast._batch import Batch
from backcast._calls import levels_up
from backcast._shards import Block
from backcast.errors import ClosedError, ShardWarning
from backcast.ray._shard import BlockHead, BlockRequest, Counts, Origin
from backcast.ray._transport import AwayError, GoneError

if TYPE_CHECKING:
    from backcast.ray._limiter import Ceilings
    from backcast.ray._transport import Pending, Transport

PART_BYTES = 90_000
"""Bytes of a part of an answer: Ray sends up to 100 KiB with the answer itself."""
MOST_IN_PARTS = 2_000_000
"""Bytes of an answer in parts; a larger one is faster as one object."""
_MOST_UPDATES = 64
"""Updates of priorities whose outcome is awaited."""

Status = Literal["active", "suspended", "lost"]


@dataclass(frozen=True, eq=False)
class ShardBlock(Block):
    """A block that came over the network.

    Parameters
    ----------
    shard : int
        Number of the shard, plus the number of shards for each time that it lost its rows.
    asked : float
        Time of the request.
    draw : int
        Number of the draw that was the next one then.
    """

    shard: int
    asked: float
    draw: int


@dataclass
class _Sent:
    """A call whose answer has not come."""

    kind: Literal["open", "block", "counts"]
    pending: Pending
    asked: float
    draw: int
    has_ceiling: bool


class Link:
    """Calls to one shard, in their order, and what came of them.

    Parameters
    ----------
    number : int
        Number of the shard.
    label : str
        Words for it in warnings.
    shards : int
        Number of all shards.
    transport : Transport
        Calls to it.
    ceilings : Ceilings or None
        Ceilings of all shards; None without a limiter.
    timeout : float
        Seconds without an answer after which it is left out.
    clock : callable
        Time in seconds.
    """

    def __init__(
        self,
        number: int,
        label: str,
        shards: int,
        transport: Transport,
        ceilings: Ceilings | None,
        timeout: float,
        clock: Callable[[], float],
    ) -> None:
        self.number, self.label, self._shards = number, label, shards
        self._transport, self._ceilings = transport, ceilings
        self._timeout, self._clock = timeout, clock
        self.has_end = ceilings is not None
        """Whether inserts have an end, so that requests carry ceilings."""
        self.status: Status = "active"
        self.reason = "it has not answered yet"
        self.since = clock()
        self.generation = ""
        """Identity of the newest ring that is known, also from a saved state."""
        self.has_answered = False
        """Whether the shard has answered this sampler."""
        self.origin = Origin()
        """Where the rows of a ring that came back are from."""
        self.losses = 0
        """Times that the shard lost its rows."""
        self.largest = 0.0
        self.samples = 0
        """Items that the shard's limiter had counted at its first answer.

        0 until then, and if a saved state counts them.
        """
        self.problem = ""
        """Why the last block is empty, if the shard gave a reason."""
        self.is_empty = False
        """Whether the last block had no mass."""
        self.error: Exception | None = None
        """Error that the shard raised, until the sampler raises it."""
        self.want: tuple[str, int, int] | None = None
        """Arguments of the next `ask_block`."""
        self.before_wait: Callable[[], None] = lambda: None
        """Called before a wait for a block."""
        self.ready: deque[ShardBlock] = deque()
        self.counts: dict[str, int] = dict.fromkeys(
            ("blocks", "items", "bytes", "dropped", "suspensions", "opens", "stale_priorities"), 0
        )
        self._open: Callable[[], tuple[Any, ...]] = tuple
        self._sent: deque[_Sent] = deque()
        self._offset = 0
        self._offsets: dict[str, int] = {}
        """For each ring that the shard had, inserts counted before those that it counts itself."""
        self._row_bytes = 0.0
        self._is_open = False
        self._next_probe = 0.0
        self._looked = float("-inf")
        """Time at which the ceiling was compared last.

        A block may have been asked for with an older one since, before its draw raised the limit.
        """
        self._updates: deque[tuple[Pending, int]] = deque()

    @property
    def shard(self) -> int:
        """Number that batches show, which names the rows of one generation."""
        return self.number + self.losses * self._shards

    @property
    def blocks_ahead(self) -> int:
        """Number of blocks that came or were asked for."""
        return len(self.ready) + sum(sent.kind == "block" for sent in self._sent)

    @property
    def is_asking_counts(self) -> bool:
        """Whether an answer with counts alone is awaited."""
        return any(sent.kind == "counts" for sent in self._sent)

    def wants_counts(self, after: float) -> bool:
        """Return whether a shard is to be told a ceiling that no block request tells it soon.

        Looks once in ``after`` seconds: a look needs the shares of all shards.
        """
        now = self._clock()
        if self._ceilings is None or not self.has_end or now - self._looked < after:
            return False
        if self.status != "active" or not self.has_answered or self.is_asking_counts:
            return False
        self._looked = now
        share = self._ceilings.shares[self.number]
        target = self._ceilings.target(self.number)
        known = share.sent[-1] if share.sent else share.acknowledged
        return target != known

    def state(self) -> dict[str, Any]:
        """Return what a later sampler has to know of the rings that the shard had."""
        inserts = 0 if self._ceilings is None else self._ceilings.shares[self.number].inserts
        return {
            "generation": self.generation,
            "losses": self.losses,
            "inserts": inserts,
            "offset": self._offset,
            "offsets": dict(self._offsets),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned.

        Another ring than that one has lost its rows, and a loaded one may get others instead.
        """
        self.generation, self.losses = state["generation"], state["losses"]
        self._offset, self._offsets = state["offset"], dict(state["offsets"])
        if self._ceilings is not None:
            self._ceilings.shares[self.number].inserts = state["inserts"]

    def open(self, arguments: Callable[[], tuple[Any, ...]]) -> None:
        """Open the sampler at the shard, now and whenever the shard does not know it.

        Parameters
        ----------
        arguments : callable
            Returns the arguments of `Shard.open`, each time for another stream of draws.
        """
        self._open = arguments
        self._send_open()

    def _send_open(self) -> None:
        self._is_open = True
        self.counts["opens"] += 1
        self._send("open", "open", *self._open(), draw=0)

    def fits_in_parts(self, items: int) -> bool:
        """Return whether a block of so many items is known to be sent in parts."""
        return 0 < items * self._row_bytes <= MOST_IN_PARTS

    def ask_block(self, key: str, items: int, draw: int) -> None:
        """Ask for a block."""
        size = items * self._row_bytes
        parts = 1
        if PART_BYTES < size <= MOST_IN_PARTS and self._row_bytes < PART_BYTES:
            parts = min(items, int(-(-size // PART_BYTES)))
        request = BlockRequest(key, items, parts, self.largest, self._ceiling(), self.generation)
        self._send("block", "block", request, draw=draw, parts=parts, ceiling=request.ceiling)

    def ask_counts(self, key: str) -> None:
        """Ask for the counts, and tell the shard its ceiling."""
        ceiling = self._ceiling()
        self._send("counts", "counts", key, ceiling, self.generation, draw=0, ceiling=ceiling)

    def _ceiling(self) -> int | None:
        """Return the shard's ceiling in its own count. Counts it as sent."""
        if self._ceilings is None or not self.has_end or not self.has_answered:
            return None
        return max(0, self._ceilings.request(self.number) - self._offset)

    def _send(
        self,
        kind: Literal["open", "block", "counts"],
        method: str,
        *given: Any,
        draw: int,
        parts: int = 1,
        ceiling: int | None = None,
    ) -> None:
        pending = self._transport.ask(method, *given, parts=parts)
        self._sent.append(_Sent(kind, pending, self._clock(), draw, ceiling is not None))

    def send_update(self, *given: Any) -> None:
        """Send priorities, and look at what became of earlier ones."""
        if self.status != "active":
            self.counts["stale_priorities"] += len(given[2])
            return
        self._end_updates(_MOST_UPDATES - 1)
        self._updates.append((self._transport.ask("update", *given), len(given[2])))

    def _end_updates(self, most: int) -> None:
        """Look at what became of updates: of those that are done, and of all but the last ones."""
        while self._updates:
            pending, items = self._updates[0]
            is_done = pending.wait(0)
            if not is_done and len(self._updates) <= most:
                return
            self._updates.popleft()
            if is_done:
                self._end_update(pending, items)

    def _end_update(self, pending: Pending, items: int) -> None:
        try:
            self.counts["stale_priorities"] += pending.result()[0]
        except (AwayError, GoneError, ClosedError):
            self.counts["stale_priorities"] += items
        except Exception as error:
            error.args = (f"an earlier update_priorities, of {self.label}: {error}",)
            self.error = error

    def call(self, method: str, *given: Any) -> Pending:
        """Call any other method of the shard."""
        return self._transport.ask(method, *given)

    def poll(self) -> None:
        """Take the answers that came."""
        self._end_updates(_MOST_UPDATES)
        while self._sent and self._sent[0].pending.wait(0):
            self._take(self._sent.popleft())

    def probe(self, key: str, items: int, draw: int) -> None:
        """Ask a shard that does not answer once more, now and then."""
        if self.status == "active" or self._sent or self._clock() < self._next_probe:
            return
        self._next_probe = self._clock() + self._timeout
        if not self._is_open:
            self._send_open()
        self.ask_block(key, items, draw)

    def next(self) -> ShardBlock | None:
        """Return the next block, or None from a shard that is left out or was empty.

        Waits for an answer until ``timeout`` seconds after its request; then the shard is left out.
        """
        self.poll()
        self.ask_if_none()
        while not self.ready and self.status == "active" and self._sent and not self.is_empty:
            # The others work meanwhile, so that several silent shards cost one wait.
            self.before_wait()
            self.await_answer()
        return self.ready.popleft() if self.ready else None

    def ask_if_none(self) -> None:
        """Ask for a block if none came or is on its way."""
        if not self.blocks_ahead and self.status == "active" and not self.is_empty and self.want:
            self.ask_block(*self.want)

    def await_answer(self) -> None:
        """Wait for the oldest answer; leave the shard out if it does not come in time."""
        first = self._sent[0]
        if first.pending.wait(first.asked + self._timeout - self._clock()):
            self.poll()
        elif self.status == "active":
            self._leave_out("suspended", f"no answer for {self._timeout:g} s")

    def refresh(self, key: str, items: int, draw: int, since: float) -> None:
        """Get a block that was asked for since a time, unless the shard is left out."""
        self.ask_block(key, items, draw)
        while self.status == "active" and self._sent:
            self.await_answer()
        self.forget_blocks(since)

    def forget_blocks(self, before: float) -> None:
        """Drop blocks that were asked for before a time."""
        self.drop_blocks(lambda block: block.asked < before)

    def abandon(self, seconds: float) -> None:
        """Look at all answers that come within so many seconds, and forget what they are."""
        end = self._clock() + seconds
        while self._sent:
            sent = self._sent.popleft()
            if sent.pending.wait(end - self._clock()):
                with suppress(Exception):
                    sent.pending.result()

    def drop_blocks(self, is_over: Callable[[ShardBlock], bool]) -> None:
        """Drop the oldest blocks that came, as long as they are over, and count their items."""
        while self.ready and is_over(self.ready[0]):
            self.counts["dropped"] += len(self.ready.popleft().q)

    def _take(self, sent: _Sent) -> None:
        try:
            head, *others = sent.pending.result()
        except (AwayError, GoneError) as error:
            self._fail(sent)
            if isinstance(error, GoneError):
                self._leave_out("lost", "its node is gone")
            else:
                self._leave_out("suspended", "its actor died, and is started again")
            # An actor that is started again knows no sampler.
            self._is_open = False
            return
        except ClosedError:
            # A shard closes its ring when it is removed.
            self._fail(sent)
            self._leave_out("lost", "it was removed")
            return
        except Exception as error:
            self._fail(sent)
            self.error = error
            return
        counts: Counts = head.counts if isinstance(head, BlockHead) else head
        is_back = self.has_answered and counts.generation != self.generation
        self._count(sent, counts)
        if isinstance(head, BlockHead):
            self._receive(sent, head, others)
        if self.status != "active":
            self.status = "active"
            self.reason, self.since = "", self._clock()
        if is_back:
            # Last: a filter may make an error of it.
            self._warn(f"{self.label} lost its rows, and is back {self._rows_of_return()}")

    def _rows_of_return(self) -> str:
        if self.origin.snapshot is not None:
            return f"with those of snapshot `{self.origin.snapshot}`"
        if self.origin.problem is not None:
            return f"with an empty ring: it could not load {self.origin.problem}"
        return "with a new ring"

    def _fail(self, sent: _Sent) -> None:
        if sent.has_ceiling and self._ceilings is not None:
            self._ceilings.fail(self.number)

    def _count(self, sent: _Sent, counts: Counts) -> None:
        ceilings, inserts = self._ceilings, counts.inserts or 0
        is_other = counts.generation != self.generation
        is_lost, is_new = is_other and self.generation != "", is_other or not self.has_answered
        if is_lost:
            self.losses += 1
            self.drop_blocks(lambda _: True)
        elif is_other:
            self.samples = counts.samples or 0
        self.generation, self.has_answered, self.origin = counts.generation, True, counts.origin
        if ceilings is None:
            return
        if sent.has_ceiling:
            ceilings.answer(self.number, inserts + self._offset, counts.waiting, is_old=is_new)
        if is_lost:
            # Inserts of the lost ring stay counted. A snapshot in its place counts from the ring
            # that it was saved from, and may have counted more of them.
            known_before = ceilings.shares[self.number].inserts
            source = counts.origin.source
            least = self._offset if source is None else self._offsets.get(source, 0)
            self._offset = max(least, known_before - inserts)
        self._offsets[counts.generation] = self._offset
        if is_new:
            known = counts.ceiling if counts.ceiling is not None else inserts
            ceilings.join(self.number, inserts + self._offset, known + self._offset)
        elif not sent.has_ceiling:
            ceilings.report(self.number, inserts + self._offset, counts.waiting)

    def _receive(self, sent: _Sent, head: BlockHead, others: list[Any]) -> None:
        if not head.is_open:
            if not any(of.kind == "open" for of in self._sent):
                self._send_open()
            return
        self.problem, self.is_empty = head.problem, head.mass <= 0
        packed = None if head.packed is None else head.packed.with_parts(others)
        items, nbytes = (0, 0) if packed is None else (packed.items, packed.nbytes)
        if items:
            self._row_bytes = nbytes / items
        self.counts["blocks"] += 1
        self.counts["items"] += items
        self.counts["bytes"] += nbytes
        q = head.q if head.q is not None else np.empty(0)
        self.ready.append(
            ShardBlock(
                Batch() if packed is None else Batch(packed.batch()),
                head.count,
                head.mass,
                q,
                head.q_min,
                head.q_new,
                head.counts.inserts,
                self.shard,
                sent.asked,
                sent.draw,
            )
        )

    def _leave_out(self, status: Status, reason: str) -> None:
        if status == "lost":
            self.drop_blocks(lambda _: True)
        if self._ceilings is not None:
            self._ceilings.leave_out(self.number)
        if self.status == status or (self.status == "lost" and status == "suspended"):
            return
        self.status, self.reason, self.since = status, reason, self._clock()
        self._next_probe = self.since
        self.counts["suspensions"] += 1
        self._warn(f"{self.label} is {status}: {reason}; draws go on without it")

    def _warn(self, message: str) -> None:
        warnings.warn(message, ShardWarning, stacklevel=levels_up())
