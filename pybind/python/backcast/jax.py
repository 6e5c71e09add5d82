"""Registers batches as JAX pytrees when it is imported.

This module needs JAX; ``import backcast`` alone does not. With ``reuse=True`` or ``out=``, a
sampler fills the arrays of a batch again. JAX assumes that arrays of NumPy never change: on the
CPU ``jax.device_put`` makes no copy of them. So where JAX takes a batch apart, in
``jax.device_put(batch)``, ``jax.jit(f)(batch)`` or ``jax.tree.map(f, batch)``, it gets copies of
the batch's NumPy arrays. Arrays outside of a batch, such as ``batch["obs"]`` or those of a plain
dict given as ``out=``, are not copied.

>>> import backcast.jax  # doctest: +SKIP
>>> on_device = jax.device_put(buf.sample(256))  # doctest: +SKIP
"""

from __future__ import annotations

from typing import Any

import numpy as np

from backcast._batch import Batch
from backcast.errors import MissingExtraError

try:
    from jax import tree_util
except ImportError as _error:
    if _error.name is None or _error.name.partition(".")[0] not in {"jax", "jaxlib"}:
        raise
    raise MissingExtraError(
        "backcast.jax registers batches with JAX, which is not installed; run `pip install jax`"
    ) from _error

__all__: list[str] = []


def _leaves(batch: Batch) -> list[Any]:
    """Return the values of a batch, with copies of NumPy's arrays.

    Copies and unpacked forms of a batch share its arrays. So a batch cannot tell whether a sampler
    will fill its arrays again, and all of them are copied.
    """
    return [_copied(value) for value in batch.values()]


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(part) for key, part in value.items()}
    return value.copy() if isinstance(value, np.ndarray) else value


def _parts(batch: Batch) -> tuple[list[Any], tuple[str, ...]]:
    return _leaves(batch), tuple(batch)


def _named_parts(batch: Batch) -> tuple[list[tuple[Any, Any]], tuple[str, ...]]:
    keys = tuple(batch)
    named = zip(map(tree_util.DictKey, keys), _leaves(batch), strict=True)
    return list(named), keys


def _batch(keys: tuple[str, ...], values: Any) -> Batch:
    return Batch(zip(keys, values, strict=True))


tree_util.register_pytree_with_keys(Batch, _named_parts, _batch, _parts)
