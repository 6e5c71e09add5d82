"""One shard: the ring of a node, and what samplers elsewhere ask of it.

A plain class, without Ray: `backcast.ray._actor` makes an actor of it, and tests call it.
"""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from backcast._native import RateLimiter, ReplayBuffer
from backcast._select import Priority
from backcast.errors import (
    ArgumentError,
    BackcastError,
    ExistsError,
    InUseError,
    LappedError,
    NotFoundError,
    RateLimitTimeoutError,
    SampleError,
)
from backcast.ray._limiter import band_of
from backcast.ray._packing import Packed, pack

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from backcast._native import Sampler
    from backcast.ray._returning import Note
    from backcast.ray._spec import Spec

Exist = Literal["error", "attach", "replace"]
_MOST_OPEN = 64
"""Samplers of a shard: learners that were killed close none. One that is closed opens again."""
_UUID = slice(0x90, 0xA0)
"""Identity of a ring in `ring.ctl`: docs/layout.md."""


class Origin(NamedTuple):
    """Where the rows came from with which a shard began that was started again without its ring."""

    snapshot: str | None = None
    """Snapshot that it loaded its part of; None for one that was found, or is new and empty."""
    problem: str | None = None
    """Reason why a snapshot that there is was not loaded."""
    source: str | None = None
    """Identity of the ring that the part was saved from."""


_NOWHERE = Origin()
_ORIGIN_FILE = "origin.json"
"""In the directory of a ring that was loaded, for the next process of the shard."""


@dataclass(frozen=True)
class Counts:
    """Counts of a shard's rate limiter.

    Parameters
    ----------
    generation : str
        Identity of the ring. A ring that lost its rows is another one.
    inserts, samples : int or None
        Transitions inserted and items drawn, or None without a limiter.
    waiting : bool
        Whether a writer waits.
    ceiling : int or None
        Inserts at which writers stop.
    origin : Origin
        Where the rows came from with which a restarted shard began.
    """

    generation: str
    inserts: int | None = None
    samples: int | None = None
    waiting: bool = False
    ceiling: int | None = None
    origin: Origin = _NOWHERE


@dataclass(frozen=True)
class BlockRequest:
    """Request for a block.

    Parameters
    ----------
    key : str
        Sampler, as `Shard.open` was told.
    items : int
        Items to draw.
    parts : int
        Parts of the answer.
    largest : float
        Mass with which new rows are to enter at least; 0 for draws without priorities.
    ceiling : int or None
        Inserts at which the writers of the shard stop; None leaves it as it is.
    generation : str
        Ring that the ceiling is meant for.
    """

    key: str
    items: int
    parts: int
    largest: float
    ceiling: int | None
    generation: str


@dataclass(frozen=True)
class BlockHead:
    """First part of an answer: all that `Block` has but its rows, and the first of their bytes.

    Parameters
    ----------
    counts : Counts
        Counts, read before the draws.
    is_open : bool
        Whether the shard knows the sampler. If not, the rest is empty.
    count, mass, q, q_min, q_new
        As in `Block`.
    problem : str
        Reason why there is nothing to draw, if the ring gave one.
    packed : Packed or None
        Layout of the rows, and the first part of their bytes.
    """

    counts: Counts
    is_open: bool
    count: int = 0
    mass: float = 0.0
    q: NDArray[np.float64] | None = None
    q_min: float = 0.0
    q_new: float = 0.0
    problem: str = ""
    packed: Packed | None = None


@dataclass
class _Open:
    """A sampler of the ring, and the mass that its new rows were raised to."""

    sampler: Sampler
    largest: float = 0.0


class Shard:
    """The ring of one node, which it holds as long as it lives.

    Parameters
    ----------
    spec : Spec
        Name, places, columns and limits of all shards.
    number : int
        Number of this one.
    node : str
        Id of the node that it runs on.
    """

    def __init__(self, spec: Spec, number: int, node: str) -> None:
        self.spec, self.number, self.node = spec, number, node
        self.generation = ""
        self.state: dict[str, Any] = {}
        """Objects that functions of `_node_*` modules keep, by the name of their module."""
        self.lock = threading.RLock()
        """Held while `state` changes: such functions run beside each other."""
        self.is_restarted = False
        """Whether another process of the shard had a ring before, which this one looks for."""
        self.is_made = False
        """Whether this process made the ring, and did not find it."""
        self.origin = _NOWHERE
        self._ring: ReplayBuffer | None = None
        self._open: dict[str, _Open] = {}
        self._replaced: set[str] = set()

    def start(self, exist: Exist, ceiling: int = 0) -> str:
        """Make the ring, or attach to it, and return its identity.

        Parameters
        ----------
        exist : {"error", "attach", "replace"}
            Treatment of a ring that is there. A shard that is started again attaches.
        ceiling : int, default 0
            Inserts at which writers stop if the ring has a limiter and no ceiling yet. A new ring
            in the place of a lost one waits for a learner.
        """
        spec, limiter = self.spec, None
        if spec.limiter is not None:
            # Ceilings hold the writers back, and draws are admitted by the learner.
            limiter = RateLimiter(min_size=1, no_learner=spec.limiter.no_learner)

        def create(exist: Exist) -> ReplayBuffer:
            return ReplayBuffer.create(
                spec.ring_name(self.number),
                spec.columns,
                capacity=spec.capacity,
                limiter=limiter,
                exist=exist,
                **spec.ring,
            )

        try:
            self._ring, is_made = create("error" if exist == "attach" else exist), True
        except ExistsError:
            if exist != "attach":
                raise
            self._ring, is_made = create("attach"), False
        self.is_made = self.is_made or is_made
        self.generation = generation_of(self._ring)
        own = self._ring.limiter
        if own is not None and own.ceiling is None and band_of(spec.limiter) is not None:
            own.set_ceiling(ceiling)
        return self.generation

    def newest_snapshot(self) -> Note | None:
        """Return the newest snapshot of the shards; None without one."""
        return None

    def start_again(self) -> None:
        """Attach to the ring of an earlier process of the shard.

        Without that ring, loads the shard's part of the newest snapshot; without a part that can be
        read here, makes an empty ring.
        """
        with self.lock:
            if self._ring is not None:
                return
            note = None if self._is_there() else self.newest_snapshot()
            if note is not None:
                try:
                    self.call("snapshots.restore", note.parts[self.number], note.store)
                except BackcastError as error:
                    self.origin = Origin(problem=f"snapshot `{note.snapshot}`: {error}")
                else:
                    self.origin = Origin(note.snapshot, source=note.generations[self.number])
                    self._keep_origin()
                    return
            self.start("attach")
            if note is None:
                self.origin = self._kept_origin()

    def _keep_origin(self) -> None:
        with suppress(OSError):
            self._origin_file().write_text(json.dumps(self.origin._asdict()), encoding="utf-8")

    def _kept_origin(self) -> Origin:
        """Return what an earlier process of the shard loaded into this ring."""
        with suppress(OSError, ValueError, TypeError):
            kept = Origin(**json.loads(self._origin_file().read_text(encoding="utf-8")))
            if all(word is None or isinstance(word, str) for word in kept):
                return kept
        return _NOWHERE

    def _origin_file(self) -> Path:
        return Path(str(self.ring.path)) / _ORIGIN_FILE

    def _is_there(self) -> bool:
        try:
            name, place = self.spec.ring_name(self.number), self.spec.ring.get("dir")
            with ReplayBuffer.attach(name, dir=place):
                return True
        except NotFoundError:
            return False

    @property
    def ring(self) -> ReplayBuffer:
        """Return the ring. A process that was started again attaches to it, or tries once more.

        Raises
        ------
        NotFoundError
            If the shard is being made or loaded: it has no ring yet.
        """
        if self._ring is None and self.is_restarted:
            self.start_again()
        if self._ring is None:
            raise NotFoundError(
                f"{self.spec.label(self.number)} has no ring yet; wait until Shards.create or "
                "Shards.load has returned"
            )
        return self._ring

    def describe(self) -> Spec:
        """Return name, places, columns and limits of all shards. Needs no ring."""
        return self.spec

    def call(self, path: str, *given: Any, **named: Any) -> Any:
        """Call a function of a `_node_*` module with this shard: ``"fleet.start"``.

        Parameters
        ----------
        path : str
            Module, without ``_node_``, and function.
        *given, **named
            Arguments after the shard.

        Returns
        -------
        object
            Result of the function.
        """
        module, _, function = path.partition(".")
        return getattr(import_module(f"backcast.ray._node_{module}"), function)(
            self, *given, **named
        )

    def counts(self, key: str = "", ceiling: int | None = None, generation: str = "") -> Counts:
        """Return the counts, after the ceiling of a sampler was set if it gives one.

        Raises
        ------
        InUseError
            If another sampler gives ceilings since.
        """
        limiter = self.ring.limiter
        if limiter is None:
            return Counts(self.generation, origin=self.origin)
        if ceiling is not None:
            self._check_key(key)
            # A ring that lost its rows counts anew: the ceiling of the old one is not for it.
            if generation == self.generation:
                limiter.set_ceiling(ceiling)
        inserts, ceiling = limiter.inserts, limiter.ceiling
        # Writers wait nowhere else.
        waiting = ceiling is not None and inserts >= ceiling and self._waits()
        return Counts(self.generation, inserts, limiter.samples, waiting, ceiling, self.origin)

    def _check_key(self, key: str) -> None:
        if key in self._replaced:
            raise InUseError(
                f"another sampler draws from the shards '{self.spec.name}', whose limiter counts "
                "for one at a time; close this one, or make the shards without a limiter"
            )

    def _waits(self) -> bool:
        waiting: int = self.ring.stats()["limiter"]["writers"]["waiting"]
        return waiting > 0

    def open(self, key: str, options: dict[str, Any], seed: int) -> Counts:
        """Make a sampler that answers requests with ``key``, and check that it draws blocks.

        Parameters
        ----------
        key : str
            Name of the sampler.
        options : dict
            Options of `ReplayBuffer.sampler`.
        seed : int
            Seed of its draws.

        Returns
        -------
        Counts

        Raises
        ------
        InUseError
            If another sampler counts for the limiter since.
        BackcastError
            As `ReplayBuffer.sampler` and `Sampler.block` do.
        """
        self._check_key(key)
        counts = self.counts()
        sampler = self._checked_sampler(options, seed)
        if band_of(self.spec.limiter) is None:
            self.close_sampler(key)
            for other in list(self._open)[: max(0, len(self._open) - _MOST_OPEN + 1)]:
                self.close_sampler(other)
        else:
            # The counts of a limiter are those of one learner: the last that came.
            self._replaced.update(other for other in self._open if other != key)
            for other in list(self._open):
                self.close_sampler(other)
        self._open[key] = _Open(sampler)
        return counts

    def _checked_sampler(self, options: dict[str, Any], seed: int) -> Sampler:
        """Make a sampler that draws blocks. Options that are refused leave no table behind."""
        before = self._tables()
        sampler = self.ring.sampler(seed=seed, **options)
        try:
            # Refuses the same options as any block; a ring without rows answers otherwise.
            sampler.block(1, timeout=0)
        except RateLimitTimeoutError:
            pass
        except BaseException:
            sampler.close()
            # Another process of the node may have made a table of its own meanwhile.
            table = getattr(options.get("select"), "table", None)
            if table in self._tables() - before:
                self.ring.remove_table(table)
            raise
        return sampler

    def _tables(self) -> set[str]:
        return {table["name"] for table in self.ring.stats()["tables"]}

    def block(self, request: BlockRequest) -> list[Any]:
        """Draw a block.

        Returns
        -------
        list
            A `BlockHead`, and the further parts of the bytes of its rows.
        """
        counts = self.counts(request.key, request.ceiling, request.generation)
        opened = self._open.get(request.key)
        nothing: list[Any] = [None] * (request.parts - 1)
        if opened is None:
            return [BlockHead(counts, is_open=False), *nothing]
        # The one that was asked last is closed last.
        self._open[request.key] = self._open.pop(request.key)
        if request.largest > opened.largest:
            opened.sampler.raise_largest(request.largest)
            opened.largest = request.largest
        try:
            block = opened.sampler.block(request.items, timeout=0)
        except RateLimitTimeoutError:
            return [BlockHead(counts, is_open=True), *nothing]
        except SampleError as error:
            return [BlockHead(counts, is_open=True, problem=str(error)), *nothing]
        # The learner computes weights over all shards.
        block.batch.pop("weight", None)
        first, others = pack(block.batch).split(request.parts)
        if block.inserts is not None:
            counts = replace(counts, inserts=block.inserts)
        head = BlockHead(
            counts, True, block.count, block.mass, block.q, block.q_min, block.q_new, "", first
        )
        return [head, *others]

    def update(
        self,
        key: str,
        generation: str,
        index: NDArray[np.int64],
        priority: NDArray[np.float64],
        options: dict[str, Any],
    ) -> int:
        """Set priorities, and return the number of rows that were not there any more."""
        opened = self._open.get(key)
        if opened is None or generation != self.generation:
            return len(index)
        return opened.sampler.update_priorities(index, priority, **options)

    def gather(
        self,
        key: str,
        generation: str,
        index: NDArray[np.int64],
        missing: Literal["error", "mask"],
    ) -> Packed | None:
        """Return rows as `Sampler.gather` does; None if the shard does not know the sampler."""
        opened = self._open.get(key)
        if opened is None:
            return None
        if generation != self.generation:
            if missing == "error":
                raise LappedError(
                    f"{self.spec.label(self.number)} lost its rows since these were drawn; "
                    'gather with missing="mask", or draw again'
                )
            index = index * 0 - 1
        return pack(opened.sampler.gather(index, missing=missing)).split(1)[0]

    def close_sampler(self, key: str) -> None:
        """Close a sampler. Does nothing if the shard does not know it."""
        opened = self._open.pop(key, None)
        if opened is not None:
            opened.sampler.close()

    def remove(self) -> None:
        """Close the samplers, and remove the ring. Processes that hold it keep it.

        Before that, calls ``remove`` of each `_node_*` module that keeps something here. Writers
        that wait at their ceiling go on: no learner will raise it.
        """
        # Parameters may be there though this process has not looked at them yet.
        for module in {"params", *self.state}:
            self.call(f"{module}.remove")
        for key in list(self._open):
            self.close_sampler(key)
        # A process that was started again loads no snapshot in order to remove it.
        if self._ring is None and not (self.is_restarted and self._is_there()):
            return
        if self.ring.limiter is not None:
            self.ring.limiter.set_ceiling(None)
        self.ring.unlink()
        self.ring.close()

    def discard(self) -> None:
        """Remove the ring if this process made it. One that it found stays, with its rows."""
        if self._ring is not None and self.is_made:
            self.remove()


def generation_of(ring: ReplayBuffer) -> str:
    """Return the identity of a ring."""
    if ring.path is None:
        raise ArgumentError("a shard has a named ring; give a name")
    with (Path(ring.path) / "ring.ctl").open("rb") as file:
        return file.read(_UUID.stop)[_UUID].hex()


def sendable(select: Any) -> Any:
    """Return a selector as shards draw by it: weights are the learner's."""
    if isinstance(select, Priority):
        return replace(select, beta=0.0, normalize="batch")
    return select
