"""`ShardParams`: the newest version of named arrays on every node, for actors everywhere."""

from __future__ import annotations

import os
import platform
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from backcast import _trees
from backcast._calls import explained, levels_up
from backcast._native import FlatParams
from backcast._params import Params, _ordered
from backcast.errors import (
    ArgumentError,
    BackcastError,
    ClosedError,
    InUseError,
    NotFoundError,
    ShardWarning,
    SpaceError,
    WaitTimeoutError,
    WaitWarning,
)
from backcast.ray._node_calls import NodeDownError, arriving

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from backcast.ray._node_calls import NodeCalls
    from backcast.ray._node_params import Claim

_LOOK_S = 1.0
"""Seconds between two questions to a node that has the newest version, as far as it is known."""
_RETRY_S = 0.5
_WAIT_S = 0.05
_BEHIND_S = 10.0
"""Seconds that a node may be behind until a publish warns of it."""
_CLOSE_S = 5.0

Put = Callable[[Any], Any]
"""Puts a value where every node finds it, and returns what stands for it in calls."""


@dataclass
class _Version:
    """A version, as nodes get it."""

    number: int
    claim: Claim
    """Learner that published it: another one that sends it again takes nothing over."""
    reference: Any = None
    """Stand-in for its arrays in calls; None until a node needs them."""


@dataclass
class _Node:
    """One node: what it is known to have, and the call that is under way."""

    number: int
    version: int | None = None
    """The newest version that it told of; None while it does not answer."""
    lacks: bool = False
    """Whether it told that it has no parameters."""
    call: Any = None
    claim: Claim | None = None
    """Claim of the version that is under way."""
    due_s: float = 0.0
    behind_s: float | None = None
    """Time since which it lacks the newest version."""
    error: str | None = None
    warned: bool = False


class ShardParams:
    """Newest version of a named set of arrays, on the nodes of all shards.

    :meth:`publish` sends a version to every node once. There it is an ordinary
    :class:`backcast.Params` under the name of the node's ring, from which any number of processes
    pull. Versions have the same numbers on all nodes. A node that missed some gets the newest when
    it answers again, from a handle that has published or waited, or whose shards have run a fleet.

    Made by ``Shards.create(..., params=weights)``, and found at ``shards.params``.
    """

    def __init__(
        self,
        name: str,
        own: Params,
        calls: NodeCalls,
        nodes: list[str],
        put: Put,
        claim: Claim,
    ) -> None:
        self._name, self._own = name, own
        """Parameters in private memory, which check and keep what is published."""
        self._arrays = own._native.arrays
        self._calls, self._put, self._labels = calls, put, nodes
        self._claim: Claim = (claim[0] + 1, f"process {os.getpid()} on {platform.node()}")
        self._nodes = [_Node(k) for k in range(len(nodes))]
        self._changed = threading.Condition()
        self._newest: _Version | None = None
        self._told = 0
        """The newest version that any node has."""
        self._failure: BackcastError | None = None
        self._closed = self._stopping = False
        self._thread: threading.Thread | None = None

    @property
    def name(self) -> str:
        """Name of the shards."""
        return self._name

    @property
    def version(self) -> int:
        """The newest version that this handle published or found; 0 before the first one."""
        return self._own.version

    @property
    def closed(self) -> bool:
        """Whether the handle was closed."""
        return self._closed

    @explained
    def publish(self, arrays: Any, version: int | None = None) -> int:
        """Publish arrays to all nodes, without a wait for any of them.

        Copies them once into this process's memory and once into Ray's object store, from which
        each node takes them once. A node that is slow gets the newest version next, and not each.
        Of two learners that publish, the one that began first is refused.

        Parameters
        ----------
        arrays : nested arrays
            One array of equal dtype and shape for each name.
        version : int, optional
            A version above the newest one; by default the next.

        Returns
        -------
        int
            The version.

        Raises
        ------
        ArgumentError
            If the version is not above the newest one.
        SchemaError
            If a name, dtype or shape differs.
        SpaceError
            If the object store is full.
        InUseError
            If another learner has begun to publish.
        ClosedError
            If the handle was closed.

        Warns
        -----
        WaitWarning
            If a node that answers is behind for ten seconds, with its reason.
        """
        self._check()
        if version is None:
            # Above those of all nodes: one may have been left behind by another learner.
            version = max(self.version, self._told) + 1
        elif isinstance(version, int) and version <= self._told:
            raise ArgumentError(
                f"version is {version}, and a node has {self._told}; give a larger one, or leave "
                "it out"
            )
        self._own.publish(arrays, version)
        newest = _Version(version, self._claim, self._reference(version))
        with self._changed:
            self._newest = newest
            now_s = time.monotonic()
            for node in self._nodes:
                node.due_s = 0.0
                node.behind_s = node.behind_s or now_s
            self._changed.notify_all()
        self.follow()
        self._warn()
        return version

    def _reference(self, version: int) -> Any:
        """Put the arrays of a version where nodes find them, without a copy in between."""
        view = self._own._native.view(version)
        try:
            return self._put(view.arrays())
        except Exception as error:
            if type(error).__name__ != "ObjectStoreFullError":
                raise
            size = sum(array.nbytes for array in view.arrays())
            raise SpaceError(
                f"Ray's object store has no room for {size} bytes of parameters ({error}); start "
                "the node with a larger --object-store-memory"
            ) from error
        finally:
            view.close()

    def follow(self) -> None:
        """Send the newest version to nodes that lack it, from now until the handle is closed."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="backcast-params", daemon=True)
            self._thread.start()

    def _check(self) -> None:
        if self._closed:
            raise ClosedError(
                f"the parameters of shards '{self._name}' were closed; attach to the shards again"
            )
        if self._failure is not None:
            raise self._failure

    def _warn(self) -> None:
        now_s = time.monotonic()
        for node in self._nodes:
            since_s = node.behind_s
            if node.error and since_s and now_s - since_s > _BEHIND_S and not node.warned:
                node.warned = True
                message = (
                    f"{self._labels[node.number]} lacks the newest parameters for "
                    f"{now_s - since_s:.0f} s: {node.error}"
                )
                warnings.warn(WaitWarning(message), stacklevel=4)

    @explained
    def wait(self, version: int | None = None, timeout: float | None = None) -> int:
        """Wait until every node that answers has a version.

        Parameters
        ----------
        version : int, optional
            Version to wait for; a later one does too. By default the newest one.
        timeout : float, optional
            Seconds to wait at most; without end when left out.

        Returns
        -------
        int
            The version that was waited for.

        Raises
        ------
        WaitTimeoutError
            If the time ran out; the message names the shards that lack it.
        ClosedError
            If the handle was closed.
        """
        wanted = self.version if version is None else version
        deadline_s = None if timeout is None else time.monotonic() + timeout
        self._check()
        self.follow()
        with self._changed:
            while True:
                self._check()
                told = [node for node in self._nodes if node.version is not None]
                late = [node.number for node in told if (node.version or 0) < wanted]
                if (told and not late) or wanted == 0:
                    return wanted
                rest_s = None if deadline_s is None else deadline_s - time.monotonic()
                if rest_s is not None and rest_s <= 0:
                    who = [self._labels[number] for number in late] or ["every shard"]
                    raise WaitTimeoutError(
                        f"version {wanted} has not come to {', '.join(who)} within {timeout:g} s; "
                        "wait longer, or look at stats()"
                    )
                # Short waits notice a Ctrl-C.
                self._changed.wait(_RETRY_S if rest_s is None else min(rest_s, _RETRY_S))

    def latest(self) -> Any:
        """Return the newest version in new arrays, of the structure and library of ``params=``.

        Raises
        ------
        NotFoundError
            If none is published yet.
        """
        return self._own.latest()

    def stats(self) -> dict[str, Any]:
        """Return the newest version, and what each node has.

        Returns
        -------
        dict
            ``version``: the newest one. ``nodes``: a dict for each shard, in order. ``shard``: its
            number. ``version``: the newest one that it told of, None while it does not answer.
            ``behind_s``: seconds since which it lacks the newest one, None if it has it.
            ``error``: the reason of the last failed call, or None.
        """
        now_s = time.monotonic()
        with self._changed:
            nodes = [
                {
                    "shard": node.number,
                    "version": node.version,
                    "behind_s": None if node.behind_s is None else now_s - node.behind_s,
                    "error": node.error,
                }
                for node in self._nodes
            ]
        return {"version": self.version, "nodes": nodes}

    def close(self) -> None:
        """Close the handle. The nodes keep what they have; the newest is sent before."""
        if self._closed:
            return
        with self._changed:
            self._closed = self._stopping = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(_CLOSE_S)
        self._own.close()

    def __enter__(self) -> Self:
        """Return the handle."""
        self._check()
        return self

    def __exit__(
        self, *_exception: type[BaseException] | BaseException | TracebackType | None
    ) -> None:
        """Close the handle."""
        self.close()

    def __repr__(self) -> str:
        """Return the name, the version and the number of nodes."""
        nodes = len(self._nodes)
        return f"<backcast.ray.ShardParams '{self._name}': version {self.version}, {nodes} nodes>"

    # The rest runs in the thread.

    def _run(self) -> None:
        try:
            self._follow()
        except Exception as error:
            failure = BackcastError(
                f"the thread that sends parameters failed ({error!r}); attach to the shards again, "
                "and report this bug if Ray runs"
            )
            failure.__cause__ = error
            self._fail(failure)

    def _fail(self, failure: BackcastError) -> None:
        """Raise a failure from the next call."""
        with self._changed:
            self._failure, self._stopping = failure, True
            self._changed.notify_all()

    def _follow(self) -> None:
        ends_s: float | None = None
        while self._failure is None:
            now_s = time.monotonic()
            if self._stopping:
                ends_s = now_s + _CLOSE_S / 2 if ends_s is None else ends_s
                busy = any(n.call is not None or (n.behind_s and not n.error) for n in self._nodes)
                if not busy or now_s >= ends_s:
                    return
            for node in self._nodes:
                if node.call is None and now_s >= node.due_s:
                    self._ask(node)
            calls = [node.call for node in self._nodes if node.call is not None]
            if not calls:
                dues_s = [node.due_s for node in self._nodes]
                with self._changed:
                    if not self._stopping and all(node.due_s > 0 for node in self._nodes):
                        self._changed.wait(max(0.001, min([*dues_s, now_s + _LOOK_S]) - now_s))
                continue
            ready = {id(call) for call in self._calls.ready(calls, _WAIT_S)}
            for node in self._nodes:
                if id(node.call) in ready:
                    self._take(node)

    def _ask(self, node: _Node) -> None:
        """Send the newest version to a node, or ask which one it has."""
        newest, given = self._newest, tuple[Any, ...]()
        node.due_s, node.claim, method = time.monotonic() + _LOOK_S, None, "params.look"
        if newest is None and node.lacks:
            # Actors of the node wait for parameters, and for their first version then.
            method, given = "params.ensure", (self._arrays,)
        elif newest is not None and node.version is not None and node.version < newest.number:
            try:
                if newest.reference is None:
                    newest.reference = self._reference(newest.number)
            except BackcastError as error:
                with self._changed:
                    node.error, node.due_s = str(error), time.monotonic() + _RETRY_S
                return
            method, node.claim = "params.publish", newest.claim
            given = newest.claim, newest.number, self._arrays, newest.reference
        node.call = self._calls.send(node.number, "call", method, *given)

    def _take(self, node: _Node) -> None:
        call, node.call = node.call, None
        try:
            answer = self._calls.answer(call)
        except NodeDownError as error:
            self._missed(node, str(error).splitlines()[0] if str(error) else "it does not answer")
        except InUseError as error:
            if node.claim == self._claim:
                self._fail(error)
                return
            # Another learner has published since this handle found its version. No node needs the
            # older one: one that refused it refuses it again.
            with self._changed:
                if self._newest is not None and self._newest.claim == node.claim:
                    self._newest = None
                    for other in self._nodes:
                        other.behind_s = None
                node.version, node.due_s = None, time.monotonic() + _RETRY_S
        except BackcastError as error:
            with self._changed:
                node.error, node.due_s = str(error), time.monotonic() + _RETRY_S
        else:
            # A node without parameters lacks every version.
            told = answer if isinstance(answer, int) else 0 if answer is None else answer[1]
            with self._changed:
                node.version, node.error, node.lacks = told, None, answer is None
                self._told = max(self._told, told)
                if self._newest is None or told >= self._newest.number:
                    node.behind_s, node.warned = None, False
                    node.due_s = 0.0 if node.lacks else node.due_s
                else:
                    node.behind_s = node.behind_s or time.monotonic()
                    node.due_s = 0.0
                self._changed.notify_all()

    def _missed(self, node: _Node, reason: str) -> None:
        """Note that a node does not answer."""
        with self._changed:
            node.version, node.error = None, reason
            node.behind_s = node.behind_s or time.monotonic()
            node.due_s = time.monotonic() + _RETRY_S
            self._changed.notify_all()


def created(
    name: str, calls: NodeCalls, nodes: list[str], put: Put, own: Params, timeout_s: float
) -> ShardParams:
    """Make parameters on all nodes like some in private memory, without a version.

    Raises
    ------
    WaitTimeoutError
        If a node does not make them in time.
    """
    arrays = own._native.arrays
    asked = {k: calls.send(k, "call", "params.create", arrays) for k in range(len(nodes))}
    made = _answers(calls, asked, timeout_s)
    if late := [label for k, label in enumerate(nodes) if k not in made]:
        raise WaitTimeoutError(
            f"{', '.join(late)} made no parameters within {timeout_s:g} s; look at these nodes"
        )
    params = ShardParams(name, own, calls, nodes, put, (0, ""))
    for node in params._nodes:
        node.version = 0
    return params


def found(
    name: str,
    calls: NodeCalls,
    nodes: list[str],
    put: Put,
    *,
    like: Any = None,
    timeout_s: float = 10.0,
) -> ShardParams:
    """Find the parameters that the nodes have, and copy the newest version of the last learner.

    Raises
    ------
    NotFoundError
        If no node has any.
    SchemaError
        If ``like`` has other names.
    WaitTimeoutError
        If the node of the newest version does not send it in time, or some do not answer and no
        other has any.
    """
    asked = {k: calls.send(k, "call", "params.look") for k in range(len(nodes))}
    answers = _answers(calls, asked, timeout_s)
    told = {k: one for k, one in answers.items() if one is not None}
    if not told and len(answers) < len(nodes):
        silent = ", ".join(label for k, label in enumerate(nodes) if k not in answers)
        raise WaitTimeoutError(
            f"{silent} did not say within {timeout_s:g} s whether there are parameters, and no "
            "other node has any; try again when it answers"
        )
    if not told:
        raise NotFoundError(
            f"no node of shards '{name}' has parameters; make the shards with "
            "Shards.create(..., params=weights)"
        )
    # Versions of two learners do not compare: a node that the later one did not reach may have a
    # larger one.
    newest = max(told, key=lambda k: (told[k][2], told[k][1]))
    arrays, version, claim = told[newest]
    if like is not None:
        names = [array for array, _, _ in arrays]
        _ordered(names, f"parameters of shards '{name}'", _trees.leaves(like, "like"), "like")
    own = Params._of(FlatParams.create(None, arrays), like)
    params = ShardParams(name, own, calls, nodes, put, claim)
    params._told = max(one[1] for one in told.values())
    if version:
        sent = _answers(calls, {newest: calls.send(newest, "call", "params.latest")}, timeout_s)
        if newest not in sent:
            raise WaitTimeoutError(
                f"{nodes[newest]} did not send its parameters within {timeout_s:g} s; try again "
                "when it answers"
            )
        own._native.publish(sent[newest][1], sent[newest][0])
        params._newest = _Version(own.version, claim)
    for k, one in told.items():
        params._nodes[k].version = one[1]
    return params


def sought(find: Callable[[], ShardParams]) -> ShardParams | None:
    """Find parameters for a fleet, which goes on without them.

    Warns
    -----
    ShardWarning
        If a node does not say whether there are any.
    """
    try:
        return find()
    except NotFoundError:
        # The shards were made without.
        return None
    except WaitTimeoutError as error:
        message = (
            f"{error}. Nodes that return get no parameters until `params` of the shards has "
            "published or waited"
        )
        warnings.warn(ShardWarning(message), stacklevel=levels_up())
        return None


def _answers(calls: NodeCalls, asked: dict[int, Any], timeout_s: float) -> dict[int, Any]:
    """Return the answers that come in time; nodes that end meanwhile have none."""
    answers: dict[int, Any] = {}
    for number, call in arriving(calls, asked, timeout_s):
        with suppress(NodeDownError):
            answers[number] = calls.answer(call)
    return answers
