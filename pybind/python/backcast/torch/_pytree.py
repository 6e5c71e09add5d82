"""Batches as PyTorch pytrees."""

from __future__ import annotations

from typing import Any

from torch.utils import _pytree

from backcast import Batch


def register() -> None:
    """Register batches with ``torch.utils._pytree``, which then takes them apart like dicts."""
    if Batch not in _pytree.SUPPORTED_NODES:
        _pytree.register_pytree_node(
            Batch,
            _parts,
            _batch,
            serialized_type_name="backcast.Batch",
            flatten_with_keys_fn=_named_parts,
        )


def _parts(batch: Batch) -> tuple[list[Any], list[str]]:
    return list(batch.values()), list(batch)


def _named_parts(batch: Batch) -> tuple[list[tuple[Any, Any]], list[str]]:
    named = [(_pytree.MappingKey(key), value) for key, value in batch.items()]
    return named, list(batch)


def _batch(values: Any, keys: list[str]) -> Batch:
    return Batch(zip(keys, values, strict=True))
