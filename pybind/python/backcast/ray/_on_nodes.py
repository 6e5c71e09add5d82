"""Methods of shards for all of their nodes: parameters, fleets, snapshots and statistics."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakSet

import ray

from backcast._calls import explained
from backcast.errors import ExistsError, WaitTimeoutError
from backcast.fleet._arguments import seconds_of
from backcast.ray import _manifest, _params, _returning, _snapshots, _stats
from backcast.ray._calls import RayCalls

if TYPE_CHECKING:
    from typing import Self

    from backcast.fleet import Fleet
    from backcast.ray._params import ShardParams
    from backcast.ray._sampler import ShardSampler
    from backcast.ray._spec import Spec


class OnNodes:
    """Methods of :class:`Shards` that concern every node."""

    _spec: Spec
    _actors: list[Any]
    _params: ShardParams | None = None
    _saved: Any = None
    _last: _stats.Last | None = None
    _samplers: WeakSet[ShardSampler]
    """Samplers of this handle, for statistics."""

    @abstractmethod
    def _opened(self) -> None:
        """Refuse a handle that was closed."""

    def _given(self) -> tuple[str, RayCalls, list[str], Callable[[Any], Any]]:
        """Return the name, calls to the actors, their words in errors, and how values are sent."""
        spec = self._spec
        words = [spec.label(number) for number in range(len(spec.places))]
        return spec.name, RayCalls(self._actors), words, ray.put

    def _close_params(self) -> None:
        if self._params is not None:
            self._params.close()

    @property
    def params(self) -> ShardParams:
        """Parameters of a policy on all nodes: ``shards.params.publish(weights)``.

        Those that ``create`` was given have their structure. A handle that attached returns nested
        dicts of NumPy arrays.

        Raises
        ------
        NotFoundError
            If the shards were made without ``params=``.
        WaitTimeoutError
            If the node of the newest version does not send it within ten seconds, or some do not
            answer and no other has any.
        ClosedError
            If the handle was closed.
        """
        self._opened()
        if self._params is None:
            self._params = _params.found(*self._given())
        return self._params

    @explained
    def fleet(
        self,
        actor: Callable[..., object] | str | Sequence[Any],
        n: int = 1,
        *,
        args: tuple[Any, ...] = (),
        seed: int = 0,
        restart: Literal["signal", "always", "never"] = "signal",
        max_deaths: int = 5,
        name: str | None = None,
        env: Mapping[str, str] | None = None,
        start_timeout: float = 120.0,
        report_timeout: float | None = None,
        stop_timeout: float = 5.0,
        progress: bool | None = None,
    ) -> Fleet:
        """Make a fleet of ``n`` actors on each node, for as long as a ``with`` block lasts.

        Each node supervises its own actors, beside its shard: an actor that dies is restarted there
        without the learner. Ranks and seeds go on from node to node. The fleet ends with this
        process. A node that returns gets its actors again, and :attr:`params` before them if there
        are any. A handle that has not used them looks for them here, for at most 20 seconds if a
        node does not answer.

        Parameters
        ----------
        actor : callable, str or list of str
            As for :class:`backcast.Fleet`. Functions of the main module are sent by value, with
            what they use; others are imported on the node.
        n : int, default 1
            Actors on each node.
        args : tuple, default ()
            Arguments of the function after the context. Shards among them, and among the words of a
            command, arrive as the name of the node's ring, which is that of its parameters too.
        seed, restart, max_deaths, name, env, start_timeout, report_timeout, stop_timeout, progress
            As for :class:`backcast.Fleet`.

        Returns
        -------
        Fleet
            With ``n`` actors times the number of shards. Its statistics are those of all nodes, and
            the ``state`` of actors on a node that does not answer is ``"lost"``.

        Raises
        ------
        ArgumentError
            If an argument is invalid, or the actor cannot be sent.
        ClosedError
            If the handle was closed.

        Warns
        -----
        ShardWarning
            If the parameters were not found because a node does not answer. The fleet goes on, and
            nodes that return get none until :attr:`params` has published or waited.
        """
        from backcast.ray._fleet import ShardFleet

        self._opened()
        # Actors rely on parameters that are there.
        _params.sought(lambda: self.params)
        return ShardFleet(
            self,  # type: ignore[arg-type]
            actor,
            n,
            args=args,
            seed=seed,
            restart=restart,
            max_deaths=max_deaths,
            name=name,
            env=env,
            start_timeout=start_timeout,
            report_timeout=report_timeout,
            stop_timeout=stop_timeout,
            progress=progress,
        )

    def stats(self, *, timeout: float = 5.0) -> dict[str, Any]:
        """Return counts of all shards, and their sums over those that answer.

        Parameters
        ----------
        timeout : float, default 5.0
            Seconds to wait for the shards.

        Returns
        -------
        dict
            ``transitions`` that can be drawn, ``rows_published``, ``bytes_allocated``, ``writers``
            that hold a lane and ``writers_waiting``: sums. ``rows_per_s``: since the last call of
            this handle, None at the first. ``active``: number of shards that answer.
            ``suspended``, ``lost``: numbers of those that do not, as the samplers of this handle
            know them. ``limiter``: None without a limiter or a sampler, else ``inserts``,
            ``samples``, ``limit``, ``ceilings`` and ``excess`` over all shards.

            ``shards``: a dict for each with its own counts, ``number``, ``place``, ``ring``,
            ``answers``, ``status``, ``node``, ``generation``, ``inserts`` and ``ceiling``. Of a
            shard that lost its ring and returned, ``snapshot`` is the one that it loaded its part
            of, and ``snapshot_problem`` why it loaded none of the newest; else they are None.
            ``samplers``: statistics of each open sampler of this handle.

        Raises
        ------
        ArgumentError
            If ``timeout`` is not above 0 and below 1e9.
        ClosedError
            If the handle was closed.
        BackcastError
            As a shard raised. Those that have no ring do not answer.
        """
        self._opened()
        seconds = seconds_of(timeout, "timeout")
        open_ones = [sampler.stats() for sampler in self._samplers if not sampler.closed]
        calls = RayCalls(self._actors)
        shown, self._last = _stats.merged(self._spec, calls, open_ones, self._last, seconds)
        return shown

    @explained
    def snapshot(
        self,
        label: str,
        *,
        store: str | os.PathLike[str] | None = None,
        state: Any = None,
        replace: bool = False,
        timeout: float = 60.0,
    ) -> dict[str, Any]:
        """Save the rings, limiter counts and parameters of all shards, and a manifest.

        Each node saves its own ring to its own store, beside its writers, so the parts are not of
        one instant. The manifest is written by this process when all parts are there; a snapshot
        exists whole or not at all. A node that is lost and returns loads its part of the newest
        one.

        Parameters
        ----------
        label : str
            Name of the snapshot after ``name@``.
        store : path, optional
            Directory of snapshots on every node and of the manifest here. By default
            ``BACKCAST_STORE`` of each, else ``~/.local/share/backcast``.
        state : optional
            Any JSON value, such as ``{"sampler": sampler.state()}``.
        replace : bool, default False
            Replace a snapshot of that label.
        timeout : float, default 60.0
            Seconds that the nodes have.

        Returns
        -------
        dict
            ``snapshot``, its name; ``rows`` and ``rows_lapped`` of all parts; ``params_version``;
            ``shards``, what each node saved.

        Raises
        ------
        WaitTimeoutError
            If a shard does not answer; nothing was saved.
        ExistsError
            If there is a snapshot of the label.
        StorageError, SpaceError
            If a node or this process cannot write its part.
        ArgumentError
            If the label is no name, ``state`` no JSON value, or ``timeout`` not above 0 and below
            1e9.
        ClosedError
            If the handle was closed.
        """
        self._opened()
        _, calls, words, _ = self._given()
        manifest = _snapshots.save(
            *(self._spec, calls, words, label),
            store=store,
            state=state,
            replace=replace,
            timeout_s=seconds_of(timeout, "timeout"),
            params_version=None if self._params is None else self._params.version,
            note=lambda manifest: _note(self._spec, manifest, store),
        )
        return {
            "snapshot": manifest.snapshot,
            "rows": sum(one["rows"] for one in manifest.shards),
            "rows_lapped": sum(one["rows_lapped"] for one in manifest.shards),
            "params_version": manifest.params_version,
            "shards": manifest.shards,
        }

    @classmethod
    @explained
    def load(
        cls,
        snapshot: str,
        name: str | None = None,
        *,
        store: str | os.PathLike[str] | None = None,
        nodes: Sequence[str] | None = None,
        label: str | None = None,
        params: Any = None,
        exist: Literal["error", "replace"] = "error",
        timeout: float = 60.0,
    ) -> Self:
        """Make shards from a snapshot, with their rows, limiter counts and parameters.

        Each node loads a part that its store has: its own, or with a shared store any. A sampler
        goes on with ``shards.sampler(state=shards.saved_state["sampler"])``.

        Parameters
        ----------
        snapshot : str
            ``"run@epoch-1"``, or ``"run"`` for the newest one of that name.
        name : str, optional
            Name of the shards, instead of the saved one.
        store : path, optional
            Directory of snapshots, as :meth:`snapshot` was given.
        nodes, label
            Nodes as of :meth:`create`, as many as were saved.
        params : nested arrays, optional
            Structure and array library of :attr:`params`.
        exist : {"error", "replace"}, default "error"
            Treatment of shards or rings that are there.
        timeout : float, default 60.0
            Seconds that the nodes have to load.

        Returns
        -------
        Shards

        Raises
        ------
        NotFoundError
            If there is no such snapshot, or a part that no node can read.
        ArgumentError
            If another number of nodes is given than were saved, or ``timeout`` is not above 0 and
            below 1e9.
        CorruptError
            If the manifest or a part is damaged.
        ExistsError
            If there are shards of the name.
        WaitTimeoutError
            If a node does not answer in time.
        """
        from backcast.ray import _shards
        from backcast.ray._actor import started

        seconds = seconds_of(timeout, "timeout")
        manifest = _manifest.read(snapshot, _manifest.store_of(store))
        _shards.connect()
        places = _shards._places(nodes, label)
        _snapshots.places_for(manifest, len(places))
        spec = manifest.spec(name or manifest.snapshot.partition("@")[0], places)
        found = _shards._found(spec.name)
        if found and exist == "error":
            raise ExistsError(
                f"there are shards '{spec.name}'; give another name=, or exist=\"replace\""
            )
        if found:
            # Reads the parts first: shards to replace stay if the snapshot cannot be loaded.
            with suppress(WaitTimeoutError):
                there = _shards.Shards.attach(spec.name)
                if there._spec.places == places:
                    _, calls, words, _ = there._given()
                    _snapshots.verify(calls, words, manifest, store, seconds)
            _shards.removed(found)
        actors = [started(spec, number) for number in range(len(places))]
        shards = _shards.Shards._of(spec, actors)
        try:
            _, calls, words, _ = shards._given()
            parts, has_params = _snapshots.load(calls, words, manifest, store, exist, seconds)
            _note(spec, manifest, store, parts)
            if has_params:
                shards._params = _params.found(*shards._given(), like=params)
        except BaseException:
            _shards.removed(actors, "discard")
            raise
        shards._saved = manifest.state
        return shards  # type: ignore[return-value]

    @property
    def saved_state(self) -> Any:
        """State that :meth:`snapshot` was given, of shards that :meth:`load` made; else None."""
        return self._saved


def _note(
    spec: Spec,
    manifest: _manifest.Manifest,
    store: str | os.PathLike[str] | None,
    parts: list[str] | None = None,
) -> None:
    """Have nodes that return without their ring load their part of this snapshot.

    ``parts`` are those of the nodes, if they are not the manifest's own.
    """
    given = None if store is None else os.path.abspath(store)
    sources = {one["part"]: one["generation"] for one in manifest.shards}
    parts = list(sources) if parts is None else parts
    generations = [sources[part] for part in parts]
    _returning.write(spec.name, _returning.Note(manifest.snapshot, generations, parts, given))
