"""`Shards.fleet`: a fleet whose actors run on the nodes of all shards."""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from backcast.errors import ArgumentError, WriterWarning
from backcast.fleet import Fleet
from backcast.fleet._actor import ActorSpec
from backcast.fleet._environment import Place
from backcast.fleet._fleet import AnyReports, AnySupervisor
from backcast.fleet._stats import Tally
from backcast.ray._node_actor import SentActor, SentCommand, sent_actor
from backcast.ray._node_fleet import FleetOrder
from backcast.ray._node_supervisor import NodeReports, NodeSupervisor
from backcast.ray._spec import Spec
from backcast.ray._stats import counts_of

if TYPE_CHECKING:
    from backcast.ray._node_calls import NodeCalls
    from backcast.ray._shards import Shards


class ShardFleet(Fleet):
    """Actors on every node of shards, as one fleet.

    Each node's part is an ordinary :class:`backcast.Fleet` in a process of its own, placed where
    the shard is. Ray ends these processes with the learner's, and starts one again with its node.

    Made by :meth:`Shards.fleet`, which describes the arguments.
    """

    def __init__(
        self,
        shards: Shards,
        actor: Callable[..., object] | str | Sequence[str],
        n: int,
        *,
        args: tuple[Any, ...],
        seed: int,
        restart: Literal["signal", "always", "never"],
        max_deaths: int,
        name: str | None,
        env: Mapping[str, str] | None,
        start_timeout: float,
        report_timeout: float | None,
        stop_timeout: float,
        progress: bool | None,
    ) -> None:
        self._shards, self._actor, self._args = shards, actor, args
        super().__init__(
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
        self._each, total = self._settings.n, self._settings.n * len(shards)
        self._settings = dataclasses.replace(self._settings, n=total)
        self._place = Place.whole(total)
        self._options = {
            "seed": self._settings.seed,
            "restart": restart,
            "max_deaths": max_deaths,
            "env": None if env is None else dict(env),
            "start_timeout": start_timeout,
            "report_timeout": report_timeout,
            "stop_timeout": stop_timeout,
        }
        self._of_nodes = NodeReports()
        self._of_nodes.limiter = lambda: counts_of(shards._samplers)

    def _spec_of(self, actor: object, args: object, _path: str | None) -> ActorSpec:
        sent = self._sent(0)
        if isinstance(sent, SentCommand):
            return ActorSpec(os.path.basename(sent.words[0]), sent.words, b"")
        return ActorSpec(sent.label, None, b"")

    def _sent(self, number: int) -> SentActor | SentCommand:
        """Return the actor as a node gets it, with the name of its ring."""
        return sent_actor(self._named(self._actor, number), self._named(self._args, number))

    def _named(self, values: object, number: int) -> object:
        """Replace shards by the name of a node's ring."""
        if not isinstance(values, tuple | list):
            return values
        return tuple(self._name_of(value, number) for value in values)

    def _name_of(self, value: object, number: int) -> object:
        spec = getattr(value, "_spec", None)
        if not isinstance(spec, Spec):
            return value
        if spec.places != self._shards._spec.places:
            raise ArgumentError(
                f"args has {value!r}, whose shards are on other nodes than those of "
                f"{self._shards!r}; give shards of the same nodes, or names"
            )
        return spec.ring_name(number)

    def _compare_lanes(self) -> None:
        lanes = self._shards._spec.ring.get("lanes", 1)
        if isinstance(lanes, int) and lanes < self._each:
            message = (
                f"each ring of shards '{self._shards.name}' has {lanes} lane"
                f"{'s' if lanes > 1 else ''} for {self._each} actors of its node, and each writer "
                f"needs one of its own; create them with lanes={self._each} or more"
            )
            warnings.warn(WriterWarning(message), stacklevel=3)

    def _open_reports(self) -> AnyReports:
        return self._of_nodes

    def _new_tally(self) -> Tally:
        return Tally(self.n, self._of_nodes)  # type: ignore[arg-type]

    def _new_supervisor(self, tally: Tally) -> AnySupervisor:
        shards, settings, signals = self._shards, self._settings, self._signals
        shards._opened()
        if shards._params is not None:
            # A node that returns gets what its actors rely on, also before the next publish.
            shards._params.follow()
        spec = shards._spec
        return NodeSupervisor(
            self._new_processes(),
            [spec.label(number) for number in range(len(shards))],
            self._each,
            self._order,
            self._of_nodes,
            label=settings.spec.label,
            start_timeout_s=settings.start_timeout_s,
            stop_timeout_s=settings.stop_timeout_s,
            on_failure=signals.fail,
            insist=signals.insist,
            on_tick=self._tick,
        )

    def _new_processes(self) -> NodeCalls:
        """Start a process on each node, which supervises its actors."""
        from backcast.ray._calls import fleet_processes

        return fleet_processes(self._shards._spec)

    def _order(self, number: int, lives: tuple[int, ...], generation: int) -> FleetOrder:
        """Make the order of a node."""
        shards, first = self._shards, number * self._each
        params = shards._params
        return FleetOrder(
            actor=self._sent(number),
            n=self._each,
            place=Place(first, self.n, lives, generation),
            # A part that is started again does not meet the ring of the one before.
            options={**self._options, "name": f"{self._name}-{number}-{generation}"},
            ring=shards._spec.ring_name(number),
            dir=shards._spec.ring.get("dir"),
            params_version=None if params is None else params.version,
            start_timeout_s=self._settings.start_timeout_s,
        )
