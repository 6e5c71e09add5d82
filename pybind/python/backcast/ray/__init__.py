"""Replay over several machines with Ray: a ring on each node, drawn from as one.

:class:`Shards` needs Ray (``pip install 'backcast[ray]'``); importing this module does not.
"""

from typing import TYPE_CHECKING

__all__ = ["ShardSampler", "Shards"]

if TYPE_CHECKING:
    from backcast.ray._sampler import ShardSampler
    from backcast.ray._shards import Shards
else:

    def __getattr__(name: str) -> object:
        """Import Ray at the first use of a class that needs it."""
        from importlib import import_module

        from backcast.errors import MissingExtraError

        module = {"ShardSampler": "_sampler", "Shards": "_shards"}.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            return getattr(import_module(f"{__name__}.{module}"), name)
        except ImportError as error:
            if error.name is None or error.name.partition(".")[0] != "ray":
                raise
            raise MissingExtraError(
                f"backcast.ray.{name} builds on Ray, which is not installed; "
                "run `pip install 'backcast[ray]'`"
            ) from error


del TYPE_CHECKING
