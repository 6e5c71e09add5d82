"""Batches among JAX's pytrees: importing this module registers them.

It needs JAX; ``import backcast`` alone does not.

>>> import backcast.jax  # doctest: +SKIP
>>> jax.tree.map(jax.numpy.asarray, buf.sample(256))  # doctest: +SKIP
"""

from __future__ import annotations

from typing import Any

from backcast._batch import Batch
from backcast._errors import MissingExtraError

try:
    from jax import tree_util
except ImportError as _error:
    if _error.name is None or _error.name.partition(".")[0] not in {"jax", "jaxlib"}:
        raise
    raise MissingExtraError(
        "backcast.jax registers batches with JAX, which is not installed; run `pip install jax`"
    ) from _error

__all__: list[str] = []


def _parts(batch: Batch) -> tuple[list[Any], tuple[str, ...]]:
    return list(batch.values()), tuple(batch)


def _named_parts(batch: Batch) -> tuple[list[tuple[Any, Any]], tuple[str, ...]]:
    return [(tree_util.DictKey(key), value) for key, value in batch.items()], tuple(batch)


def _batch(keys: tuple[str, ...], values: Any) -> Batch:
    return Batch(zip(keys, values, strict=True))


tree_util.register_pytree_with_keys(Batch, _named_parts, _batch, _parts)
