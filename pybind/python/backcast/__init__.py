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
from backcast._errors import (
    ActorError,
    ActorTimeoutError,
    AppendError,
    ArgumentError,
    ArgumentTypeError,
    BackcastError,
    ClosedError,
    ColumnError,
    CorruptError,
    DaemonError,
    DaemonNotRunningError,
    DaemonTimeoutError,
    EnvError,
    ExistsError,
    FleetError,
    InUseError,
    LappedError,
    LappedWarning,
    LeaseError,
    LeaseWarning,
    MissingExtraError,
    NotFoundError,
    OverBudgetError,
    PanelError,
    RateLimitError,
    RateLimitTimeoutError,
    RestartLimitError,
    SampleError,
    SchemaError,
    SimError,
    SpaceError,
    StorageError,
    UnlinkedWarning,
    WaitTimeoutError,
    WaitWarning,
    WriterError,
    WriterWarning,
)
from backcast._hindsight import Hindsight
from backcast._native import (
    Batches,
    Client,
    LearnedTable,
    Lease,
    Limiter,
    Panel,
    RateLimiter,
    ReplayBuffer,
    ReservedRow,
    Sampler,
    Schema,
    TransitionOrder,
    Writer,
    __version__,
    connect,
    gc,
    list,
    remove,
    remove_snapshot,
    snapshots,
    verify_snapshot,
)
from backcast._params import Params, ParamsView

__all__ = [
    "ActorError",
    "ActorTimeoutError",
    "AppendError",
    "ArgumentError",
    "ArgumentTypeError",
    "BackcastError",
    "Batch",
    "Batches",
    "Client",
    "ClosedError",
    "ColumnError",
    "CorruptError",
    "DaemonError",
    "DaemonNotRunningError",
    "DaemonTimeoutError",
    "EnvError",
    "ExistsError",
    "Fleet",
    "FleetError",
    "Hindsight",
    "InUseError",
    "LappedError",
    "LappedWarning",
    "LearnedTable",
    "Lease",
    "LeaseError",
    "LeaseWarning",
    "Limiter",
    "MissingExtraError",
    "NotFoundError",
    "OverBudgetError",
    "Panel",
    "PanelError",
    "Params",
    "ParamsView",
    "RateLimitError",
    "RateLimitTimeoutError",
    "RateLimiter",
    "ReplayBuffer",
    "ReservedRow",
    "RestartLimitError",
    "SampleError",
    "Sampler",
    "Schema",
    "SchemaError",
    "SimError",
    "SpaceError",
    "StorageError",
    "TransitionOrder",
    "UnlinkedWarning",
    "WaitTimeoutError",
    "WaitWarning",
    "Writer",
    "WriterError",
    "WriterWarning",
    "__version__",
    "connect",
    "gc",
    "list",
    "remove",
    "remove_snapshot",
    "snapshots",
    "verify_snapshot",
]

if TYPE_CHECKING:
    from backcast.fleet import Fleet
else:

    def __getattr__(name: str) -> object:
        """Import a subpackage at its first use."""
        if name == "Fleet":
            from backcast.fleet import Fleet

            return Fleet
        if name not in {
            "cleanrl",
            "envs",
            "finrl",
            "fleet",
            "jax",
            "plot",
            "returns",
            "sb3",
            "sim",
            "torch",
        }:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return import_module(f"{__name__}.{name}")


del TYPE_CHECKING
