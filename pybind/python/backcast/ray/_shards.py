"""Shards: a ring on every node of a cluster, made and found by name."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Self
from weakref import WeakSet

import ray

from backcast._calls import explained
from backcast._native import RateLimiter, ReplayBuffer, Schema
from backcast._params import Params
from backcast.errors import (
    ArgumentError,
    ArgumentTypeError,
    ClosedError,
    ExistsError,
    NotFoundError,
    SchemaError,
    StorageError,
    WaitTimeoutError,
)
from backcast.fleet._arguments import seconds_of
from backcast.ray import _params, _returning
from backcast.ray._actor import started
from backcast.ray._limiter import band_of
from backcast.ray._on_nodes import OnNodes
from backcast.ray._remote import RayTransport
from backcast.ray._sampler import ShardSampler
from backcast.ray._spec import NAMESPACE, Place, Spec
from backcast.ray._transport import AwayError, GoneError

_START_S = 600.0
"""Seconds that the actors have to start."""
_REMOVE_S = 5.0
"""Seconds that all shards have to remove their rings."""
_OPEN_S = 10.0
"""Seconds that any shard has to answer a new sampler."""
_TRIED_ROWS = 64
"""Rows of a lane of a ring that is made to check the arguments."""
_BYTES = re.compile(r"\s*[\d_]+(\.\d+)?\s*[KMGT]i?B\s*")
_OWN_KEYS = ("shard", "cut_age")
"""Keys of batches that are no columns, besides those of every batch."""


class Shards(OnNodes):
    """Rings of one schema on several nodes of a Ray cluster, drawn from as one.

    Make them with :meth:`create`, or find them from any process of the cluster with
    :meth:`attach`. Writers take the ring of their node, :meth:`local`, and never touch Ray. A
    learner anywhere draws with :meth:`sampler`. Shards outlive the job that made them, until
    :meth:`unlink`. A handle is a context manager, and can be an argument of tasks and actors.
    """

    def __init__(self) -> None:
        raise ArgumentError(
            "Shards() is made by Shards.create(name, columns, capacity=...) or, for shards that "
            "exist, by Shards.attach(name)"
        )

    _closed: bool
    _removed = False

    @classmethod
    def _of(cls, spec: Spec, actors: list[Any]) -> Shards:
        self = object.__new__(cls)
        self._spec, self._actors, self._closed = spec, actors, False
        self._samplers = WeakSet()
        return self

    @classmethod
    @explained
    def create(
        cls,
        name: str,
        columns: Schema | Mapping[str, Any],
        *,
        capacity: int | str,
        nodes: Sequence[str] | None = None,
        label: str | None = None,
        limiter: RateLimiter | None = None,
        params: Any = None,
        exist: Literal["error", "attach", "replace"] = "error",
        **ring: Any,
    ) -> Shards:
        """Make a ring on each of several nodes.

        Parameters
        ----------
        name : str
            Name of the shards. The ring of a node is ``name-`` and 12 digits of the node's id, or
            the value of its label.
        columns : Schema or mapping
            Columns of every ring, as of :meth:`backcast.ReplayBuffer.create`.
        capacity : int or str
            Capacity of each ring.
        nodes : sequence of str, optional
            Ids of the nodes; all nodes that are alive when neither ``nodes`` nor ``label`` is
            given.
        label : str, optional
            Key of a label. Each of its values makes one shard. A node that joins with the label of
            one that was lost takes its shard over.
        limiter : RateLimiter, optional
            Limits over all shards together.
        params : nested arrays, optional
            Arrays like those of a policy, such as ``net.state_dict()``. Each node gets parameters
            for them, which :attr:`params` publishes.
        exist : {"error", "attach", "replace"}, default "error"
            Treatment of shards or rings that are there.
        **ring
            Further options of :meth:`backcast.ReplayBuffer.create`. Rings are persistent unless
            ``persistent=False`` is given.

        Returns
        -------
        Shards

        Raises
        ------
        ExistsError
            If there are shards of the name, or a node has a ring of the name.
        ArgumentError
            If a node is not alive, a label has no node, or two with one value; or a limiter has
            ``no_writer`` or ``enabled=False``.
        WaitTimeoutError
            If a node did not start its shard within ten minutes.
        BackcastError
            As from :meth:`backcast.ReplayBuffer.create`, of the first node that refused.
        """
        schema = columns if isinstance(columns, Schema) else Schema(columns)
        connect()
        spec = Spec(
            name, _places(nodes, label), schema, capacity, limiter, {"persistent": True, **ring}
        )
        _check(spec)
        if exist not in ("error", "attach", "replace"):
            raise ArgumentError(f"exist is {exist!r}; give 'error', 'attach' or 'replace'")
        # Before anything is made or replaced.
        _try(spec)
        own = None if params is None else Params.create(None, params)
        if found := _found(name):
            if exist == "error":
                raise ExistsError(
                    f"there are shards '{name}'; take Shards.attach('{name}'), or give "
                    'exist="replace"'
                )
            if exist == "attach":
                shards = cls.attach(name)
                _compare(shards._spec, spec)
                if params is not None:
                    shards._params = _params.found(*shards._given(), like=params)
                return shards
            removed(found)
        _returning.remove(name)
        actors = [started(spec, number) for number in range(len(spec.places))]
        most = _first_ceilings(spec)
        waits = [
            RayTransport(actor).ask("start", exist, ceiling)
            for actor, ceiling in zip(actors, most, strict=True)
        ]
        try:
            _all_started(spec, waits)
            shards = cls._of(spec, actors)
            if own is not None:
                shards._params = shards._params_of(own, params, exist)
        except BaseException:
            removed(actors, "discard")
            raise
        return shards

    def _params_of(self, own: Params, like: Any, exist: str) -> _params.ShardParams:
        """Find the parameters that an earlier cluster left, if they may stay; else make them."""
        if exist == "attach":
            with contextlib.suppress(NotFoundError):
                return _params.found(*self._given(), like=like)
        return _params.created(*self._given(), own, _START_S)

    @classmethod
    @explained
    def attach(cls, name: str, *, timeout: float = 10.0) -> Shards:
        """Find the shards of that name.

        Parameters
        ----------
        name : str
            Name of the shards.
        timeout : float, default 10.0
            Seconds to wait for any of them to answer.

        Returns
        -------
        Shards

        Raises
        ------
        NotFoundError
            If the cluster has no shards of the name.
        WaitTimeoutError
            If none answers.
        """
        seconds = seconds_of(timeout, "timeout")
        connect()
        found = _found(name)
        if not found:
            raise NotFoundError(
                f"the cluster has no shards '{name}'; make them with Shards.create('{name}', ...)"
            )
        asked = [actor.describe.remote() for actor in found]
        while asked:
            ready, asked = ray.wait(asked, timeout=seconds)
            for ref in ready:
                try:
                    spec = ray.get(ref)
                except ray.exceptions.RayActorError:
                    continue
                return cls._restored(spec)
            if not ready:
                break
        raise WaitTimeoutError(
            f"none of the {len(found)} shards '{name}' answered in {seconds:g} s; look at their "
            "nodes"
        )

    @classmethod
    def _restored(cls, spec: Spec) -> Shards:
        actors = [
            ray.get_actor(spec.actor_name(number), NAMESPACE) for number in range(len(spec.places))
        ]
        return cls._of(spec, actors)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by name, for tasks and actors."""
        return Shards._restored, (self._spec,)

    @property
    def name(self) -> str:
        """Name of the shards."""
        return self._spec.name

    @property
    def rings(self) -> tuple[str, ...]:
        """Name of each shard's ring, which processes of its node attach to without Ray."""
        return tuple(self._spec.ring_name(number) for number in range(len(self)))

    def __len__(self) -> int:
        """Return the number of shards."""
        return len(self._spec.places)

    def local(self) -> ReplayBuffer:
        """Return the ring of the caller's node.

        Returns
        -------
        ReplayBuffer
            The ring itself, for writers and for everything else. Close it like any other.

        Raises
        ------
        NotFoundError
            If the node has no shard, or this process does not see the node's shared memory.
        ClosedError
            If the handle was closed.
        """
        self._opened()
        node = ray.get_runtime_context().get_node_id()
        number = self._number(node)
        try:
            return ReplayBuffer.attach(self.rings[number], dir=self._spec.ring.get("dir"))
        except NotFoundError as error:
            raise NotFoundError(
                f"{self._spec.label(number)} has no ring here: {error}. A process in a container "
                "must share /dev/shm with the shard; after a restart of the node, wait for a batch"
            ) from None

    @explained
    def sampler(
        self,
        *,
        seed: int | None = None,
        shard_timeout: float = 1.0,
        prefetch: int = 2,
        state: dict[str, Any] | None = None,
        **options: Any,
    ) -> ShardSampler:
        """Make a sampler that draws from all shards as if they were one ring.

        Parameters
        ----------
        seed : int, optional
            Seed of the draws; random by default.
        shard_timeout : float, default 1.0
            Seconds without an answer after which draws go on without a shard, until it answers.
        prefetch : int, default 2
            Draws whose items are asked of each shard ahead, in blocks for two draws each.
        state : dict, optional
            State of an earlier sampler, from :meth:`ShardSampler.state`, to go on from. Give the
            options of that sampler too.
        **options
            Options of :meth:`backcast.ReplayBuffer.sampler`: ``history``, ``future``, ``columns``,
            ``n_step``, ``gamma``, ``boundary``, ``form``, ``select`` and ``transform``.

        Returns
        -------
        ShardSampler

        Raises
        ------
        SampleError
            For options that exclude blocks, as :meth:`backcast.Sampler.block` lists them, for
            ``share`` and ``learned``, and for ``bc.Priority(initial="held")``.
            Also for a state of a sampler with other options: a state has none itself.
        WaitTimeoutError
            If no shard answers within 10 s.
        NotFoundError
            If the shards were removed.
        ClosedError
            If the handle was closed.
        BackcastError
            As from :meth:`backcast.ReplayBuffer.sampler`.
        """
        self._opened()
        sampler = ShardSampler(
            self._spec,
            [RayTransport(actor) for actor in self._actors],
            options,
            seed=seed,
            shard_timeout=shard_timeout,
            prefetch=prefetch,
            state=state,
            are_removed=lambda: not _found(self.name),
        )
        sampler.open(_OPEN_S)
        self._samplers.add(sampler)
        return sampler

    def _number(self, node: str) -> int:
        """Return the number of a node's shard."""
        for number, place in enumerate(self._spec.places):
            if (place.value == node) if not place.key else _has_label(node, place):
                return number
        places = ", ".join(map(str, self._spec.places))
        raise NotFoundError(
            f"node {node} has no shard of '{self.name}': they are on {places}; run writers there, "
            "or make the shards with this node too"
        )

    def unlink(self) -> None:
        """Remove the shards: their actors, and the rings of all nodes that answer.

        Processes that hold a ring keep it, and writers that wait at a ceiling go on. The ring of a
        node that does not answer stays; remove it there with ``backcast rm``.
        """
        self._opened()
        self.close()
        self._removed = True
        removed(self._actors)
        _returning.remove(self.name)

    def close(self) -> None:
        """Close this handle. The shards go on."""
        self._closed = True
        self._close_params()

    @property
    def closed(self) -> bool:
        """Whether the handle was closed."""
        return self._closed

    def _opened(self) -> None:
        if self._removed:
            raise ClosedError(
                f"the shards '{self.name}' were removed by this handle; make them again with "
                "Shards.create"
            )
        if self._closed:
            raise ClosedError(
                f"the handle of shards '{self.name}' was closed; attach again with "
                f"Shards.attach('{self.name}')"
            )

    def __enter__(self) -> Self:
        """Return the handle."""
        self._opened()
        return self

    def __exit__(
        self, *_exception: type[BaseException] | BaseException | TracebackType | None
    ) -> None:
        """Close the handle."""
        self.close()

    def __repr__(self) -> str:
        """Show the name and the number of shards."""
        return f"<backcast.ray.Shards '{self.name}': {len(self)} shards>"


def connect() -> None:
    """Connect to Ray as its calls do: to ``RAY_ADDRESS``, a running cluster, or a new one."""
    if not ray.is_initialized():
        ray.init()


def _places(nodes: Sequence[str] | None, label: str | None) -> tuple[Place, ...]:
    if nodes is not None and label is not None:
        raise ArgumentError("nodes and label both say where shards are; give one of them")
    alive = [node for node in ray.nodes() if node["Alive"]]
    if label is None:
        ids = [node["NodeID"] for node in alive]
        if isinstance(nodes, str):
            raise ArgumentTypeError(f"nodes is {nodes!r}; give a list of ids, [{nodes!r}]")
        for node in nodes or ():
            if node not in ids:
                raise ArgumentError(
                    f"node {node} is not alive; the cluster has {', '.join(ids)}: see ray.nodes()"
                )
        chosen = ids if nodes is None else list(nodes)
        if not chosen or len(set(chosen)) < len(chosen):
            raise ArgumentError(
                f"nodes has {len(chosen)} ids, {len(set(chosen))} of them different; give each "
                "node once, and at least one"
            )
        return tuple(Place("", node) for node in sorted(chosen))
    values = [node["Labels"][label] for node in alive if label in node["Labels"]]
    twice = sorted({value for value in values if values.count(value) > 1})
    if not values or twice:
        found = f"several have the value {twice[0]!r}" if twice else "none has it"
        raise ArgumentError(
            f"each value of label {label!r} is one shard, but of {len(alive)} nodes {found}; "
            f"start each node of a shard with a value of its own: ray start --labels {label}=0"
        )
    return tuple(Place(label, value) for value in sorted(values))


def _try(spec: Spec) -> None:
    """Refuse what the nodes would refuse, by a small ring of this process."""
    ring = {key: given for key, given in spec.ring.items() if key not in ("dir", "persistent")}
    capacity, lanes = spec.capacity, ring.get("lanes", 1)
    are_rows = isinstance(capacity, int) and not isinstance(capacity, bool)
    if isinstance(lanes, int):
        most = _TRIED_ROWS * max(1, lanes)
        if are_rows:
            capacity = min(capacity, most)
        elif isinstance(capacity, str) and _BYTES.fullmatch(capacity):
            # Does not take these bytes here.
            capacity = most
    ReplayBuffer.create(None, spec.columns, capacity=capacity, **ring).close()
    with contextlib.suppress(StorageError):
        # Refuses a bad name before it looks at the directory, which is none.
        ReplayBuffer.attach(spec.ring_name(0), dir=os.devnull)
    if spec.limiter is not None and are_rows:
        most = int(spec.capacity) * len(spec.places)
        if spec.limiter.min_size > most:
            raise ArgumentError(
                f"min_size of the limiter is {spec.limiter.min_size}, and {len(spec.places)} "
                f"shards of {spec.capacity} rows hold less, so that no draw would ever be allowed; "
                "give a smaller one, or a larger capacity"
            )


def _all_started(spec: Spec, waits: list[Any]) -> None:
    """Wait for all shards; raise what the first one raised that did not start."""
    first: BaseException | None = None
    for number, pending in enumerate(waits):
        try:
            if not pending.wait(_START_S if first is None else _REMOVE_S):
                raise WaitTimeoutError(
                    f"{spec.label(number)} did not start in {_START_S:.0f} s; look at the node"
                )
            # Ray prints errors of calls that nobody looks at.
            pending.result()
        except Exception as error:
            first = first or error
    if first is not None:
        raise first


def _check(spec: Spec) -> None:
    if spec.limiter is not None and not isinstance(spec.limiter, RateLimiter):
        raise ArgumentTypeError(
            f"limiter is {spec.limiter!r}; give a limiter, such as bc.RateLimiter(8), or None"
        )
    if spec.limiter is not None and (spec.limiter.no_writer != "wait" or not spec.limiter.enabled):
        raise ArgumentError(
            f"the limiter of shards has no_writer={spec.limiter.no_writer!r} and "
            f"enabled={spec.limiter.enabled}; shards have a limiter with no_writer='wait' that is "
            "enabled, or none"
        )
    for name in _OWN_KEYS:
        if name in spec.columns.columns:
            raise SchemaError(
                f"column `{name}` is a key of batches drawn from shards; give it another name"
            )
    for refused, why in (
        ("daemon", "shards hold their rings themselves"),
        ("limiter", "it is an argument of its own"),
    ):
        if refused in spec.ring:
            raise ArgumentError(f"{refused}={spec.ring[refused]!r} is no option of shards: {why}")


def _first_ceilings(spec: Spec) -> list[int]:
    """Return the ceiling of each shard before any learner: all of them are the limit."""
    band = band_of(spec.limiter)
    most = 0 if band is None else band.most_inserts(0) or 0
    part, rest = divmod(most, len(spec.places))
    return [part + (number < rest) for number in range(len(spec.places))]


def _compare(found: Spec, asked: Spec) -> None:
    for what in ("columns", "capacity", "limiter", "places"):
        have, want = getattr(found, what), getattr(asked, what)
        if have != want:
            raise ExistsError(
                f"the shards '{found.name}' have {what} {have}, not {want}; give the same, or "
                'exist="replace"'
            )


def _has_label(node: str, place: Place) -> bool:
    return any(
        one["NodeID"] == node and one["Labels"].get(place.key) == place.value for one in ray.nodes()
    )


def _found(name: str) -> list[Any]:
    """Return the actors of the shards of a name."""
    names = [
        one["name"]
        for one in ray.util.list_named_actors(all_namespaces=True)
        if one["namespace"] == NAMESPACE and one["name"].rpartition("/")[0] == name
    ]
    return [ray.get_actor(one, NAMESPACE) for one in sorted(names)]


def removed(actors: Sequence[Any], method: Literal["remove", "discard"] = "remove") -> None:
    """Remove the rings of shards that answer, and all actors; then raise what a shard raised.

    ``discard`` leaves rings that the shards did not make themselves.
    """
    waits = [RayTransport(actor).ask(method) for actor in actors]
    ends, errors = time.monotonic() + _REMOVE_S, []
    for actor, pending in zip(actors, waits, strict=True):
        try:
            if pending.wait(ends - time.monotonic()):
                pending.result()
        except (AwayError, GoneError):
            pass
        except Exception as error:
            errors.append(error)
        finally:
            ray.kill(actor, no_restart=True)
    if errors and method == "remove":
        raise errors[0]
