"""Backcast: experience replay in shared memory, without a server in between.

>>> import backcast as bc, numpy as np
>>> columns = {"obs": ("u1", (84, 84)), "action": "i4", "reward": "f4"}
>>> buf = bc.ReplayBuffer.create(None, columns, capacity=1_000)  # a name shares it
>>> with buf.writer() as w:
...     for step in range(10):
...         frame = np.full((84, 84), step, np.uint8)
...         at = w.append(obs=frame, action=1, reward=0.5, terminated=False, truncated=False)
>>> batch = buf.sample(256)
>>> batch["next_obs"].shape
(256, 84, 84)
"""

from typing import TYPE_CHECKING

from backcast._batch import Batch
from backcast._native import (
    Client,
    RateLimiter,
    ReplayBuffer,
    Sampler,
    Schema,
    Writer,
    __version__,
    collect_garbage,
    list_objects,
    list_snapshots,
    remove_object,
    remove_snapshot,
    verify_snapshot,
)
from backcast._params import Params
from backcast.errors import (
    BackcastError,
    ClosedError,
    ExistsError,
    LappedError,
    NotFoundError,
    RateLimitTimeoutError,
    WaitTimeoutError,
)

__all__ = [
    "BackcastError",
    "Batch",
    "Client",
    "ClosedError",
    "Consume",
    "Epoch",
    "ExistsError",
    "Fleet",
    "Hindsight",
    "LaneWeights",
    "LappedError",
    "Largest",
    "NotFoundError",
    "Panel",
    "Params",
    "Priority",
    "RateLimitTimeoutError",
    "RateLimiter",
    "Recency",
    "ReplayBuffer",
    "Rollout",
    "Sampler",
    "Schema",
    "Sequence",
    "Smallest",
    "WaitTimeoutError",
    "WholeEpisodes",
    "Writer",
    "__version__",
    "collect_garbage",
    "list_objects",
    "list_snapshots",
    "remove_object",
    "remove_snapshot",
    "verify_snapshot",
]

if TYPE_CHECKING:
    from backcast import types as types
    from backcast._form import Rollout, Sequence, WholeEpisodes
    from backcast._hindsight import Hindsight
    from backcast._native import Panel
    from backcast._select import (
        Consume,
        Epoch,
        LaneWeights,
        Largest,
        Priority,
        Recency,
        Smallest,
    )
    from backcast.fleet import Fleet
else:

    def __getattr__(name: str) -> object:
        """Import a subpackage, or the module of a class, at its first use."""
        from importlib import import_module

        module = {
            "Consume": "_select",
            "Epoch": "_select",
            "Fleet": "fleet",
            "Hindsight": "_hindsight",
            "LaneWeights": "_select",
            "Largest": "_select",
            "Panel": "_native",
            "Priority": "_select",
            "Recency": "_select",
            "Rollout": "_form",
            "Sequence": "_form",
            "Smallest": "_select",
            "WholeEpisodes": "_form",
        }.get(name)
        if module is not None:
            return getattr(import_module(f"{__name__}.{module}"), name)
        if name not in {
            "cleanrl",
            "datasets",
            "envs",
            "evaluate",
            "finrl",
            "fleet",
            "indicators",
            "jax",
            "plot",
            "ray",
            "rllib",
            "returns",
            "sb3",
            "sim",
            "summaries",
            "torch",
            "torchrl",
            "types",
        }:
            instead = import_module(f"{__name__}._elsewhere").ELSEWHERE.get(name)
            hint = f"; write {instead}" if instead else ""
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
        return import_module(f"{__name__}.{name}")

    def __dir__() -> list[str]:
        """List the names that are imported at their first use as well."""
        return sorted({*globals(), *__all__})


del TYPE_CHECKING
