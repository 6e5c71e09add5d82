"""TorchRL's replay buffers over rings, and batches in TorchRL's layout.

This module needs TorchRL (``pip install 'backcast[torchrl]'``); ``import backcast`` alone does not.
"""

from backcast.errors import MissingExtraError

try:
    from backcast.torchrl._sampler import Sampler
    from backcast.torchrl._storage import Storage
except ImportError as _error:
    if _error.name is None or _error.name.partition(".")[0] not in {
        "tensordict",
        "torch",
        "torchrl",
    }:
        raise
    raise MissingExtraError(
        f"backcast.torchrl builds on TorchRL, and {_error.name} is not installed; "
        "run `pip install 'backcast[torchrl]'`"
    ) from _error

__all__ = ["Sampler", "Storage"]
