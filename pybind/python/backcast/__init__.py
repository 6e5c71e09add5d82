"""Backcast: experience replay in shared memory, without a server in between.

>>> import backcast as bc
>>> columns = {"obs": ("u1", (84, 84)), "action": "i4", "reward": "f4"}
>>> buf = bc.ReplayBuffer.create("pong", columns, capacity=10_000)  # doctest: +SKIP
>>> with buf.writer() as w:  # doctest: +SKIP
...     w.append(obs=o, action=a, reward=r, terminated=te, truncated=tr)
>>> batch = buf.sample(256)  # doctest: +SKIP
"""

from backcast._batch import Batch
from backcast._errors import (
    AppendError,
    ArgumentError,
    BackcastError,
    ClosedError,
    CorruptError,
    EnvError,
    ExistsError,
    InUseError,
    LappedError,
    NotFoundError,
    PanelError,
    SampleError,
    SchemaError,
    SpaceError,
    StorageError,
    WaitTimeoutError,
    WriterError,
)
from backcast._native import (
    Panel,
    PortfolioVectorEnv,
    ReplayBuffer,
    Sampler,
    Schema,
    Writer,
    __version__,
    gc,
    list,
    remove,
)

__all__ = [
    "AppendError",
    "ArgumentError",
    "BackcastError",
    "Batch",
    "ClosedError",
    "CorruptError",
    "EnvError",
    "ExistsError",
    "InUseError",
    "LappedError",
    "NotFoundError",
    "Panel",
    "PanelError",
    "PortfolioVectorEnv",
    "ReplayBuffer",
    "SampleError",
    "Sampler",
    "Schema",
    "SchemaError",
    "SpaceError",
    "StorageError",
    "WaitTimeoutError",
    "Writer",
    "WriterError",
    "__version__",
    "gc",
    "list",
    "remove",
]
