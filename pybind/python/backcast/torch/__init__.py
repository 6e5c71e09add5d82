"""Batches as PyTorch tensors, which share the memory of the arrays on the CPU.

This module needs PyTorch (``pip install 'backcast[torch]'``); ``import backcast`` alone does not.
"""

from backcast.errors import MissingExtraError

try:
    from backcast.torch._pytree import register
    from backcast.torch._resident import Resident
    from backcast.torch._resident_panel import ResidentPanel
    from backcast.torch._sampler import Loader, Sampler
except ImportError as _error:
    if _error.name is None or _error.name.partition(".")[0] != "torch":
        raise
    raise MissingExtraError(
        "backcast.torch builds on PyTorch, which is not installed; "
        "run `pip install 'backcast[torch]'`"
    ) from _error

__all__ = ["Loader", "Resident", "ResidentPanel", "Sampler"]

register()
del register
