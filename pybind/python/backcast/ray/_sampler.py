"""Draws over all shards as if they were one ring."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self, cast

import numpy as np

from backcast._batch import Batch
from backcast._calls import explained
from backcast._counts import whole_of
from backcast._select import Priority
from backcast._shards import gathered
from backcast.errors import (
    ArgumentError,
    ClosedError,
    LappedError,
    NotFoundError,
    RateLimitTimeoutError,
    SampleError,
    WaitTimeoutError,
)
from backcast.ray._admission import Admission
from backcast.ray._arguments import (
    STATE,
    beta_of,
    check,
    check_priorities,
    checked_state,
    described,
    located,
    numbers_of,
)
from backcast.ray._heads import NothingError, RemoteHeads, assembled
from backcast.ray._link import Link
from backcast.ray._shard import sendable
from backcast.ray._transport import AwayError, GoneError
from backcast.ray._waits import Wait, nothing, silence

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from backcast._shards import Drawn
    from backcast.ray._packing import Packed
    from backcast.ray._spec import Spec
    from backcast.ray._transport import Pending, Transport

_LEAST_ITEMS = 4
"""Items of a block of a shard that is drawn rarely."""
_MOST_ITEMS = 2**24
_LOOK_S = 1.0
"""Seconds between two looks whether shards that are all lost were removed."""
_ABANDON_S = 5.0
"""Seconds for answers that nobody needs any more: Ray prints errors that are not looked at."""


class ShardSampler:
    """Draws transitions of all shards, each with its probability in one ring of all their rows.

    Made by :meth:`Shards.sampler`. A sampler is used by one thread at a time; others wait.
    """

    def __init__(
        self,
        spec: Spec,
        transports: Sequence[Transport],
        options: dict[str, Any],
        *,
        seed: int | None,
        shard_timeout: float,
        prefetch: int,
        state: dict[str, Any] | None = None,
        are_removed: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        check(options, shard_timeout, prefetch)
        words = described(options)
        state = checked_state(state, len(transports), words)
        if seed is not None:
            seed = whole_of(seed, "seed", "a whole number from 0 up")
            if seed < 0:
                raise ArgumentError(f"seed is {seed}; give a whole number from 0 up")
        else:
            seed = state["seed"] if state else int(np.random.SeedSequence().generate_state(1)[0])
        self._spec, self._seed, self._prefetch = spec, seed, prefetch
        self._clock, self._sleep, self._shard_timeout = clock, sleep, shard_timeout
        self._are_removed, self._looked_s = are_removed, float("-inf")
        select = options.get("select", "uniform")
        self._priority = select if isinstance(select, Priority) else None
        self._transform = options.pop("transform", None)
        self._options, self._words = {**options, "select": sendable(select)}, words
        self._key = uuid.uuid4().hex
        self._lock = threading.RLock()
        self._closed, self._closing = False, threading.Lock()
        counted = (state["samples"], state["admitted"]) if state else (0, 0)
        self._limits = limits = Admission(spec, *counted)
        self._links = limits.links = [
            Link(k, spec.label(k), len(transports), of, limits.ceilings, shard_timeout, clock)
            for k, of in enumerate(transports)
        ]
        for link in self._links:
            link.has_end, link.before_wait = limits.has_end, self._ask_all
        self._heads = RemoteHeads(self._links, seed=seed, prefetch=prefetch, clock=clock)
        self._opens = state["opens"] if state else 0
        self._batches = state["batches"] if state else 0
        self._last_batch = 64
        self._error: Exception | None = None
        """Error after a draw, which the next call that draws, gathers or updates raises."""
        if state:
            self._heads._rng.bit_generator.state = state["rng"]
            for link, known in zip(self._links, state["rings"], strict=True):
                link.restore(known)

    def open(self, timeout: float) -> None:
        """Open the sampler at all shards, and wait until one of them has it and no other refuses.

        Raises
        ------
        BackcastError
            As a shard refused the options.
        WaitTimeoutError
            If no shard answers.
        """
        try:
            self._open(timeout)
        except BaseException:
            # Shards that took the options hold a sampler that nobody will use.
            self.close()
            for link in self._links:
                link.abandon(_ABANDON_S)
            raise

    def _open(self, timeout: float) -> None:
        for link in self._links:
            link.open(self._opening(link.number))
        wait = Wait(timeout, self._clock, self._sleep)
        while True:
            for link in self._links:
                link.poll()
            self._raise()
            if all(link.has_answered or link.status != "active" for link in self._links):
                break
            if wait.is_over():
                break
            wait.pause(partial(silence, self._links))
        if not any(link.has_answered for link in self._links):
            self._check_removed()
            raise WaitTimeoutError(silence(self._links, timeout))
        self._limits.follow(self._key)

    def _opening(self, number: int) -> Callable[[], tuple[Any, ...]]:
        def arguments() -> tuple[Any, ...]:
            self._opens += 1
            words = np.random.SeedSequence([self._seed, number, self._opens]).generate_state(2)
            return self._key, self._options, int(words[0]) << 32 | int(words[1])

        return arguments

    @explained
    def sample(self, batch_size: int, *, timeout: float | None = None) -> Batch:
        """Draw a batch over all shards that answer.

        Items that the limiter admitted for a draw that ended with an error count for the next one.

        Parameters
        ----------
        batch_size : int
            Items to draw, ``B``; 1 to ``2**24``.
        timeout : float, optional
            Seconds to wait, for the limiter or for a shard while none answers; for ever by default.

        Returns
        -------
        Batch
            Arrays of the caller, as a sampler with ``copy=True`` returns them. Also
            ``shard``, int64 ``[B]``: the number of each item's shard, plus the number of shards
            for each time that it lost its rows; ``cut_age``, float32 ``[B]``: seconds since the
            shard was asked for the item.

        Raises
        ------
        SampleError
            If no shard that answers has a transition that may be drawn.
        RateLimitTimeoutError
            If the limiter held the draw back for ``timeout`` seconds.
        WaitTimeoutError
            If no shard answered for ``timeout`` seconds.
        NotFoundError
            If the shards were removed.
        ClosedError
            If the sampler was closed, also by another thread while this one waits.
        BackcastError
            As a shard raised since the last draw, such as NotFoundError for a table that was
            removed.
        """
        if isinstance(batch_size, bool) or not isinstance(batch_size, (int, np.integer)):
            raise ArgumentError(f"batch_size is {batch_size!r}; give a whole number of items")
        if not 1 <= batch_size <= _MOST_ITEMS:
            raise SampleError(f"batch_size is {batch_size}; give 1 to {_MOST_ITEMS} items")
        wait = Wait(timeout, self._clock, self._sleep)
        with self._lock:
            self._usable()
            self._last_batch = int(batch_size)
            self._fill()
            self._admit(int(batch_size), wait)
            try:
                batch = self._batch(self._drawn(int(batch_size), wait))
            except BaseException:
                # Nothing was drawn: what was admitted counts for the next draw.
                self._limits.give_back(int(batch_size))
                raise
            self._batches += 1
            try:
                self._fill(is_next=False)
            except Exception as error:
                # The batch is the caller's whatever becomes of the next one.
                self._error = error
        return batch if self._transform is None else cast("Batch", self._transform(batch))

    @explained
    def batches(
        self, batch_size: int, *, limit: int | None = None, timeout: float | None = None
    ) -> Iterator[Batch]:
        """Draw batches one after the other. Blocks are asked for ahead in any case.

        Parameters
        ----------
        batch_size : int
            Items of each batch.
        limit : int, optional
            Number of batches; without end by default.
        timeout : float, optional
            Seconds to wait for each.

        Yields
        ------
        Batch
            As from :meth:`sample`.
        """
        number = 0
        while limit is None or number < limit:
            yield self.sample(batch_size, timeout=timeout)
            number += 1

    @explained
    def update_priorities(
        self,
        index: ArrayLike,
        shard: ArrayLike,
        priority: ArrayLike,
        *,
        mask: ArrayLike | None = None,
        eta: float | None = None,
    ) -> None:
        """Set priorities of drawn items, without waiting for the shards.

        Rows that were overwritten or lost meanwhile, and those of shards that do not answer, are
        left out and counted: ``stats()["shards"][k]["stale_priorities"]``. What a shard refuses,
        such as a priority above the limit of its table, is raised by a later call that draws,
        gathers or updates, and says that it is of this one. An update that raises sets none.

        Parameters
        ----------
        index, shard : array_like of int64, [B]
            Index and shard of each item, as the batch has them.
        priority : array_like of float, [B] or [B, L]
            Priorities, finite and from 0 up; of each step for sequences. Also a tensor.
        mask : array_like of bool, [B, L], optional
            Steps that count, as in :meth:`backcast.Sampler.update_priorities`.
        eta : float, optional
            Share of the largest priority of a sequence, as there.

        Raises
        ------
        SampleError
            If the sampler draws without priorities, or they are not finite and from 0 up, or the
            lengths differ, or a shard is none of those that were drawn from.
        ClosedError
            If the sampler was closed.
        BackcastError
            As a shard raised since the last call, before anything is sent.
        """
        with self._lock:
            self._usable()
            self._raise()
            if self._priority is None:
                raise SampleError(
                    "the sampler draws without priorities; give select=bc.Priority(...)"
                )
            rows, places = located(index, shard)
            values = numbers_of(priority)
            kept = None if mask is None else np.asarray(mask, np.bool_)
            check_priorities(values, kept, eta, len(rows))
            for link, at in [*self._by_shard(places)]:
                if places[at[0]] != link.shard:
                    link.counts["stale_priorities"] += len(at)
                    continue
                options: dict[str, Any] = {} if eta is None else {"eta": eta}
                if kept is not None:
                    options["mask"] = kept[at]
                link.send_update(self._key, link.generation, rows[at], values[at], options)

    @explained
    def gather(
        self,
        index: ArrayLike,
        shard: ArrayLike,
        *,
        missing: Literal["error", "mask"] = "error",
        timeout: float | None = None,
    ) -> Batch:
        """Return rows by shard and index, with the windows and columns of the sampler.

        Parameters
        ----------
        index, shard : array_like of int64, [B]
            Index and shard of each row.
        missing : {"error", "mask"}, default "error"
            Treatment of rows that were overwritten or lost: an error, or zeros and False in
            ``found``.
        timeout : float, optional
            Seconds to wait for the shards; ``shard_timeout`` by default.

        Returns
        -------
        Batch
            The rows in the order of ``index``, with ``shard``, and without ``weight``: that of a
            row depends on the shards as they are at a draw.

        Raises
        ------
        LappedError
            If a row was overwritten, or its shard lost it.
        WaitTimeoutError
            If a shard does not answer: its rows are neither overwritten nor lost.
        ClosedError
            If the sampler was closed.
        BackcastError
            As a shard raised since the last call, before anything is asked.
        """
        if missing not in ("error", "mask"):
            raise ArgumentError(f"missing is {missing!r}; give 'error' or 'mask'")
        with self._lock:
            self._usable()
            self._raise()
            rows, places = located(index, shard)
            if not len(rows):
                raise SampleError("index has no rows; give at least one")
            asked: list[tuple[Link, NDArray[np.int64], Pending]] = []
            for link, at in [*self._by_shard(places)]:
                wanted = rows[at]
                if places[at[0]] != link.shard:
                    if missing == "error":
                        raise LappedError(
                            f"{link.label} lost its rows since these were drawn; gather with "
                            'missing="mask", or draw again'
                        )
                    wanted = np.full(len(at), -1)
                call = link.call("gather", self._key, link.generation, wanted, missing)
                asked.append((link, at, call))
            deadline = self._clock() + (self._shard_timeout if timeout is None else timeout)
            parts = [
                (self._gathered(link, call, deadline).batch(), np.arange(len(at)), at)
                for link, at, call in asked
            ]
            made = Batch(gathered(parts, len(rows)))
            # A shard knows the rows of its own ring alone.
            made.pop("weight", None)
            made["shard"] = places
            return made

    def _gathered(self, link: Link, pending: Pending, deadline: float) -> Packed:
        try:
            if pending.wait(deadline - self._clock()):
                found = pending.result()[0]
                if found is not None:
                    return cast("Packed", found)
                link.open(self._opening(link.number))
                reason = "it was started again; gather once more"
            else:
                reason = "no answer in time"
        except (AwayError, GoneError) as error:
            reason = "its actor died" if isinstance(error, AwayError) else "its node is gone"
        raise WaitTimeoutError(f"{link.label} has the rows, but {reason}")

    def state(self) -> dict[str, Any]:
        """Return the state of the sampler, to be saved and continued.

        ``shards.sampler(state=...)`` goes on with the counts of the limiter and of batches, and
        draws with other random numbers: blocks that were asked for ahead are not part of it.
        ``shard`` goes on too: a ring that is another one than that of the state counts as one more
        loss of rows, also one that a snapshot was loaded into.

        Returns
        -------
        dict
            Numbers, as JSON has them.
        """
        with self._lock:
            self._usable()
            return {
                "version": STATE,
                "shards": len(self._links),
                "options": self._words,
                "seed": self._seed,
                "opens": self._opens,
                "batches": self._batches,
                "samples": self._limits.samples,
                "admitted": self._limits.admitted,
                "rings": [link.state() for link in self._links],
                "rng": self._heads._rng.bit_generator.state,
            }

    def stats(self) -> dict[str, Any]:
        """Return counts of the sampler and of each shard. Does not wait for a draw.

        Returns
        -------
        dict
            ``batches``; ``shards``, for each its ``number``, ``place``, ``status`` ("active",
            "suspended" or "lost"), ``reason``, ``blocks``, ``items``, ``bytes``, ``dropped``, items
            that came and were too old or lost before they were drawn, ``suspensions``,
            ``losses``, ``snapshot`` and ``snapshot_problem`` as of :meth:`Shards.stats`,
            ``opens`` and ``stale_priorities``; ``limiter``, None or ``inserts``,
            ``samples``, ``limit``, ``ceilings`` and ``excess``, the inserts beyond the limit.
        """
        self._usable()
        # While another thread draws, that thread takes the answers.
        if self._lock.acquire(blocking=False):
            try:
                for link in self._links:
                    link.poll()
            finally:
                self._lock.release()
        shards = [
            {
                "number": link.number,
                "place": str(self._spec.places[link.number]),
                "status": link.status,
                "reason": link.reason if link.status != "active" else "",
                "losses": link.losses,
                "snapshot": link.origin.snapshot,
                "snapshot_problem": link.origin.problem,
                **link.counts,
            }
            for link in self._links
        ]
        limiter = self._limits.counts()
        return {"batches": self._batches, "shards": shards, "limiter": limiter}

    @property
    def seed(self) -> int:
        """Seed of the draws."""
        return self._seed

    @property
    def closed(self) -> bool:
        """Whether the sampler was closed."""
        return self._closed

    def close(self) -> None:
        """Close the sampler, here and at the shards that answer. A draw that waits ends."""
        with self._closing:
            was_closed, self._closed = self._closed, True
        # Calls of a draw that has not ended come before those that close.
        with self._lock:
            if not was_closed:
                for link in self._links:
                    link.call("close_sampler", self._key)

    def __enter__(self) -> Self:
        """Return the sampler."""
        return self

    def __exit__(
        self, *_exception: type[BaseException] | BaseException | TracebackType | None
    ) -> None:
        """Close the sampler."""
        self.close()

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled."""
        raise TypeError(
            f"a sampler of shards '{self._spec.name}' cannot be pickled: it has draws of its own; "
            "pickle the shards, and make a sampler where it is used"
        )

    def __repr__(self) -> str:
        """Show the shards and the seed."""
        closed = ", closed" if self._closed else ""
        return f"<backcast.ray sampler of shards '{self._spec.name}', seed {self._seed}{closed}>"

    def _usable(self) -> None:
        if self._closed:
            raise ClosedError(
                f"the sampler of shards '{self._spec.name}' was closed; call `sampler` again for "
                "another"
            )

    def _raise(self) -> None:
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        for link in self._links:
            if link.error is not None:
                error, link.error = link.error, None
                raise error

    def _by_shard(self, places: NDArray[np.int64]) -> Iterator[tuple[Link, NDArray[np.int64]]]:
        for shard in np.unique(places):
            if not shard >= 0:
                raise SampleError(f"shard is {shard}; give the shards of a batch, from 0 up")
            link = self._links[int(shard) % len(self._links)]
            if shard > link.shard:
                raise SampleError(
                    f"shard is {shard}, and {link.label} has shown none above {link.shard}; give "
                    "index and shard of one batch, in this order"
                )
            yield link, np.flatnonzero(places == shard)

    def _fill(self, is_next: bool = True) -> None:
        """Ask for the blocks of the next draws.

        ``is_next``: a draw follows, which needs one of each shard. Else shards are told their
        ceilings too.
        """
        shares = self._heads.shares()
        for link, share in zip(self._links, shares, strict=True):
            link.poll()
            items = max(_LEAST_ITEMS, int(np.ceil(self._last_batch * share)))
            if link.status != "active":
                link.probe(self._key, items, self._heads.number)
                continue
            # A call costs as much as a hundred kilobytes: blocks ahead are for two draws each.
            draws = 2 if self._prefetch > 1 and link.fits_in_parts(2 * items) else 1
            link.want = (self._key, draws * items, self._heads.number)
            # The head that is in use comes on top; a shard without rows is asked once.
            ahead = 1 if link.is_empty else -(-self._prefetch // draws)
            if is_next and self._heads.needs_block(link.number):
                ahead = max(1, ahead)
            while link.blocks_ahead < ahead:
                link.ask_block(*link.want)
        self._raise()
        if not is_next:
            self._limits.follow(self._key)

    def _check_removed(self) -> None:
        """Refuse to wait for shards that were removed; look now and then while all are lost."""
        if any(link.status != "lost" for link in self._links):
            return
        now_s = self._clock()
        if now_s - self._looked_s >= _LOOK_S:
            self._looked_s = now_s
            if self._are_removed():
                raise NotFoundError(
                    f"the shards '{self._spec.name}' were removed with unlink(); close this "
                    "sampler, and make them again with Shards.create"
                )

    def _ask_all(self) -> None:
        for link in self._links:
            link.ask_if_none()

    def _admit(self, items: int, wait: Wait) -> None:
        """Wait until the limiter allows the items."""
        while not self._limits.admit(items, self._key):
            self._usable()
            self._check_removed()
            words = self._limits.words(items)
            if wait.is_over():
                raise RateLimitTimeoutError(words(wait.seconds))
            wait.pause(words)
            self._fill()

    def _drawn(self, items: int, wait: Wait) -> Drawn:
        """Draw, or wait for a shard while none answers."""
        begin = None
        while True:
            try:
                return self._heads.draw(items)
            except NothingError:
                self._raise()
            active = [link for link in self._links if link.status == "active"]
            if active and begin is not None:
                self._limits.let_in(self._key)
                raise SampleError(nothing(self._spec.name, active))
            if active:
                # They were empty when they were asked: ask once more.
                begin = begin or self._clock()
                for link in active:
                    link.forget_blocks(begin)
                    link.refresh(self._key, items, self._heads.number, begin)
                continue
            self._usable()
            self._check_removed()
            if wait.is_over():
                raise WaitTimeoutError(silence(self._links, wait.seconds))
            wait.pause(partial(silence, self._links))
            self._fill()

    def _batch(self, drawn: Drawn) -> Batch:
        made = assembled(drawn, self._clock())
        if self._priority is not None:
            beta = beta_of(self._priority, self._batches)
            made["weight"] = drawn.weights(beta, self._priority.normalize)
            largest = max(block.q_new for block in self._heads.present())
            for link in self._links:
                link.largest = max(link.largest, largest)
        return made
