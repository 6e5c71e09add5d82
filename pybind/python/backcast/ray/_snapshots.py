"""Snapshots of shards: each node saves its own part, and a manifest names them all."""

from __future__ import annotations

import os
import secrets
import time
from typing import TYPE_CHECKING, Any, Literal

from backcast.errors import ArgumentError, ExistsError, NotFoundError, WaitTimeoutError
from backcast.ray import _manifest
from backcast.ray._manifest import Manifest
from backcast.ray._node_calls import NodeDownError, arriving

if TYPE_CHECKING:
    from collections.abc import Callable

    from backcast.ray._node_calls import NodeCalls
    from backcast.ray._spec import Spec

_DROP_S = 5.0


def save(
    spec: Spec,
    calls: NodeCalls,
    nodes: list[str],
    label: str,
    *,
    store: str | os.PathLike[str] | None,
    state: Any,
    replace: bool,
    timeout_s: float,
    params_version: int | None,
    note: Callable[[Manifest], None],
) -> Manifest:
    """Have every node save its part, then write the manifest.

    The parts have labels of their own, so those of an earlier snapshot stay until its manifest is
    replaced, and `note` has told the cluster of the new one.
    """
    snapshot, folder = _manifest.snapshot_name(spec.name, label), _manifest.store_of(store)
    _manifest.check_state(state)
    before = _manifest.earlier(snapshot, folder)
    if _manifest.path_of(snapshot, folder).exists() and not replace:
        raise ExistsError(
            f"there is a snapshot `{snapshot}` in {folder}; give another label, or replace=True"
        )
    given = None if store is None else os.path.abspath(store)
    part = f"{label}-{secrets.token_hex(3)}"
    asked = {k: calls.send(k, "call", "snapshots.save", part, given) for k in range(len(nodes))}
    saved: dict[int, dict[str, Any]] = {}
    try:
        saved.update(answers(calls, asked, nodes, timeout_s))
        versions = [one["params_version"] for one in saved.values()]
        known = [version for version in [*versions, params_version] if version]
        manifest = Manifest(
            snapshot=snapshot,
            shards=[saved[k] for k in range(len(nodes))],
            columns=_manifest.column_words(spec.columns),
            capacity=spec.capacity,
            limiter=_manifest.limiter_words(spec.limiter),
            ring={key: _plain(value) for key, value in spec.ring.items()},
            params_version=max(known, default=None),
            saved_unix_ns=time.time_ns(),
            state=state,
        )
        manifest = _manifest.write(manifest, folder)
    except BaseException:
        # A node that saves it later leaves a part that no manifest names.
        names = {k: f"{spec.ring_name(k)}@{part}" for k in range(len(nodes))}
        _drop(calls, names, given)
        raise
    note(manifest)
    if before is not None:
        _drop(calls, dict(enumerate(one["part"] for one in before.shards)), given)
    return manifest


def _plain(value: Any) -> Any:
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _drop(calls: NodeCalls, parts: dict[int, str], store: str | None) -> None:
    """Have nodes remove parts, for a few seconds. A part that stays is in no manifest."""
    asked = {k: calls.send(k, "call", "snapshots.drop", part, store) for k, part in parts.items()}
    for _ in arriving(calls, asked, _DROP_S):
        # Answers change nothing: the part of a node is gone, or stays.
        pass


def load(
    calls: NodeCalls,
    nodes: list[str],
    manifest: Manifest,
    store: str | os.PathLike[str] | None,
    exist: Literal["error", "replace"],
    timeout_s: float,
) -> tuple[list[str], bool]:
    """Have every node load a part that it can read.

    Returns
    -------
    tuple of list of str and bool
        Part of each node, and whether there are parameters.

    Raises
    ------
    NotFoundError
        If a part cannot be read on any node that is left for it.
    """
    given = None if store is None else os.path.abspath(store)
    parts = chosen_parts(calls, nodes, manifest, store, timeout_s)
    asked = {
        k: calls.send(k, "call", "snapshots.load", part, given, exist)
        for k, part in enumerate(parts)
    }
    versions = answers(calls, asked, nodes, timeout_s)
    return parts, any(version is not None for version in versions.values())


def chosen_parts(
    calls: NodeCalls,
    nodes: list[str],
    manifest: Manifest,
    store: str | os.PathLike[str] | None,
    timeout_s: float,
) -> list[str]:
    """Choose the part of each node. Changes nothing there.

    Raises
    ------
    NotFoundError
        If a part cannot be read on any node that is left for it.
    """
    given = None if store is None else os.path.abspath(store)
    parts = [one["part"] for one in manifest.shards]
    asked = {k: calls.send(k, "call", "snapshots.parts", parts, given) for k in range(len(nodes))}
    there = answers(calls, asked, nodes, timeout_s)
    chosen = matched([set(there[k]) for k in range(len(nodes))], parts)
    found = [part for part in chosen if part is not None]
    if len(found) < len(chosen):
        missing = sorted(set(parts) - set(found))
        raise NotFoundError(
            f"no node is left that can read {', '.join(map(str, missing))} of "
            f"`{manifest.snapshot}`; load it on the nodes that saved it, or share the store"
        )
    return found


def verify(
    calls: NodeCalls,
    nodes: list[str],
    manifest: Manifest,
    store: str | os.PathLike[str] | None,
    timeout_s: float,
) -> None:
    """Have every node read the part that it would load. Changes nothing there.

    Raises
    ------
    NotFoundError
        If a part cannot be read on any node that is left for it.
    CorruptError
        If a part is damaged.
    """
    given = None if store is None else os.path.abspath(store)
    parts = chosen_parts(calls, nodes, manifest, store, timeout_s)
    asked = {
        k: calls.send(k, "call", "snapshots.verify", part, given) for k, part in enumerate(parts)
    }
    answers(calls, asked, nodes, timeout_s)


def matched(readable: list[set[str]], parts: list[str]) -> list[str | None]:
    """Give each node one of the parts that it can read, and each part to one node.

    Node k gets part k if it can. Augmenting paths find an assignment if there is one.

    >>> matched([{"a", "b"}, {"a"}], ["a", "b"])
    ['b', 'a']
    """
    owner: dict[str, int] = {}

    def place(node: int, seen: set[str]) -> bool:
        wanted = sorted(readable[node], key=lambda part: (part != parts[node], parts.index(part)))
        for part in wanted:
            if part not in seen:
                seen.add(part)
                if part not in owner or place(owner[part], seen):
                    owner[part] = node
                    return True
        return False

    for node in range(len(readable)):
        place(node, set())
    node_parts: list[str | None] = [None] * len(readable)
    for part, node in owner.items():
        node_parts[node] = part
    return node_parts


def places_for(manifest: Manifest, places: int) -> None:
    """Refuse another number of nodes than that of the parts.

    Raises
    ------
    ArgumentError
        If they differ.
    """
    if places != len(manifest.shards):
        raise ArgumentError(
            f"`{manifest.snapshot}` has {len(manifest.shards)} shards, and {places} nodes are "
            "given; name as many with nodes= or label="
        )


def answers(
    calls: NodeCalls, asked: dict[int, Any], nodes: list[str], timeout_s: float
) -> dict[int, Any]:
    """Wait for the answers of all nodes.

    Raises
    ------
    WaitTimeoutError
        If a node does not answer in time, or ends before.
    """
    found: dict[int, Any] = {}
    for number, call in arriving(calls, asked, timeout_s):
        try:
            found[number] = calls.answer(call)
        except NodeDownError as error:
            first = next(iter(str(error).splitlines()), "")
            raise WaitTimeoutError(
                f"{nodes[number]} does not answer ({first}); wait until it does, and try again"
            ) from None
    if late := [nodes[k] for k in asked if k not in found]:
        raise WaitTimeoutError(
            f"{', '.join(late)} did not answer within {timeout_s:g} s; give a larger timeout="
        )
    return found
