"""Classes of objects that other calls make. Programs name them in annotations.

>>> import backcast as bc
>>> def fill(row: bc.types.ReservedRow) -> None:
...     row["obs"] = 1.0
>>> buf = bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=100)
>>> with buf.writer() as writer, writer.reserve() as row:
...     fill(row)
"""

from backcast._native import (
    Batches,
    DaemonOptions,
    LearnedTable,
    Lease,
    Limiter,
    ReservedRow,
    TransitionOrder,
)
from backcast._params_view import ParamsView

__all__ = [
    "Batches",
    "DaemonOptions",
    "LearnedTable",
    "Lease",
    "Limiter",
    "ParamsView",
    "ReservedRow",
    "TransitionOrder",
]
