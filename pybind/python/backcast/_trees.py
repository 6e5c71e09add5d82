"""Nested arrays: dicts, lists and tuples, ``state_dict`` of PyTorch, pytrees of JAX."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from backcast.errors import SchemaError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    _Array: TypeAlias = NDArray[Any]


def mapped(
    tree: Any, convert: Callable[[str, Any], Any], path: str = "", what: str = "like"
) -> Any:
    """Rebuild a tree with ``convert(name, leaf)`` for each leaf. Errors call the tree ``what``."""
    below = f"{path}/" if path else ""
    if isinstance(tree, Mapping):
        items = {key: mapped(value, convert, f"{below}{key}", what) for key, value in tree.items()}
        return items if type(tree) is dict else _like_mapping(tree, items)
    if isinstance(tree, list | tuple):
        values = [mapped(value, convert, f"{below}{at}", what) for at, value in enumerate(tree)]
        if isinstance(tree, tuple) and hasattr(tree, "_fields"):
            return type(tree)(*values)
        return tuple(values) if isinstance(tree, tuple) else values
    if tree is None:
        return None
    if _is_leaf(tree):
        return convert(path, tree)
    jax = sys.modules.get("jax")
    if jax is not None:
        leaves, structure = jax.tree_util.tree_flatten_with_path(tree)
        if not (len(leaves) == 1 and leaves[0][1] is tree):
            values = [convert(below + _jax_name(keys), leaf) for keys, leaf in leaves]
            return jax.tree_util.tree_unflatten(structure, values)
    place = f"`{path}` of {what}" if path else what
    raise SchemaError(
        f"{place} is of type {type(tree).__name__}, which is no array; give arrays and tensors in "
        "dicts, lists and tuples, such as module.state_dict()"
    )


def leaves(tree: Any, what: str) -> list[tuple[str, Any]]:
    """Return every leaf of a tree with its name, in order. Errors call the tree ``what``."""
    found: list[tuple[str, Any]] = []

    def note(name: str, leaf: Any) -> Any:
        found.append((name, leaf))
        return leaf

    mapped(tree, note, what=what)
    return found


def flat(values: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield what nested mappings hold by its name, such as ``future/obs``: see `nested`."""
    for key, value in values.items():
        # A batch is a dict, a group of an HDF5 file another mapping.
        if isinstance(value, Mapping):
            yield from flat(value, f"{path}{key}/")
        else:
            yield f"{path}{key}", value


def value_at(values: Any, name: str) -> Any:
    """Return what nested mappings hold at a name with slashes."""
    for part in name.split("/"):
        values = values[part]
    return values


def nested(arrays: Iterable[tuple[str, Any]]) -> Any:
    """Nest named arrays in dicts, split at the slashes of their names."""
    tree: dict[str, Any] = {}
    for name, array in arrays:
        *outer, last = name.split("/")
        inner = tree
        for part in outer:
            inner = inner.setdefault(part, {})
        inner[last] = array
    return tree


def kind_of(leaf: Any) -> str:
    """Return the library that an array belongs to."""
    torch, jax = sys.modules.get("torch"), sys.modules.get("jax")
    if torch is not None and isinstance(leaf, torch.Tensor):
        return "torch"
    if jax is not None and isinstance(leaf, jax.Array):
        return "jax"
    return "numpy"


def as_array(leaf: Any) -> tuple[_Array, str]:
    """Return a leaf as a C-contiguous NumPy array, without a copy if possible, and its dtype."""
    if kind_of(leaf) != "torch":
        array = np.asarray(leaf, order="C")
        return array, array.dtype.name if array.dtype.isnative else str(array.dtype)
    torch = sys.modules["torch"]
    tensor = leaf.detach().cpu().contiguous()
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(np.uint16), "bfloat16"
    array = tensor.numpy()
    return array, array.dtype.name


def writable(leaf: Any) -> _Array | None:
    """Return a leaf as an array that shares its memory, or None if a copy is needed."""
    kind = kind_of(leaf)
    if kind == "jax":
        raise SchemaError(
            "out has an array of JAX, which cannot be written to; call latest(), which returns new "
            "arrays"
        )
    if kind == "torch":
        if leaf.device.type != "cpu" or not leaf.is_contiguous():
            return None
        return as_array(leaf)[0]
    if isinstance(leaf, np.ndarray):
        return leaf if leaf.flags.c_contiguous else None
    raise SchemaError(
        f"out has a {type(leaf).__name__}, which cannot be written to; give arrays or tensors"
    )


def write(leaf: Any, array: _Array) -> None:
    """Copy an array into a leaf of any device and layout."""
    if kind_of(leaf) == "torch":
        torch = sys.modules["torch"]
        with torch.no_grad():
            leaf.copy_(from_array(array, "torch", leaf.dtype == torch.bfloat16))
    else:
        leaf[...] = array


def from_array(array: _Array, kind: str, bfloat16: bool = False) -> Any:
    """Return an array as one of the library: a tensor shares its memory, an array of JAX copies."""
    if kind == "torch":
        torch = sys.modules["torch"]
        if bfloat16:
            return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(array)
    if kind == "jax":
        # Copies: asarray may share aligned memory, which the next pull would change.
        return sys.modules["jax"].numpy.array(array)
    return array


def _is_leaf(value: Any) -> bool:
    return hasattr(value, "__array__") or isinstance(value, bool | int | float | str)


def _like_mapping(tree: Mapping[Any, Any], items: dict[Any, Any]) -> Any:
    try:
        return type(tree)(items)  # type: ignore[call-arg]
    except TypeError:
        return items


def _jax_name(keys: Iterable[Any]) -> str:
    def parts() -> Iterator[str]:
        for key in keys:
            for name in ("key", "name", "idx"):
                if hasattr(key, name):
                    yield str(getattr(key, name))
                    break
            else:
                yield str(key)

    return "/".join(parts())
