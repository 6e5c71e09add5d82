"""Keys of TensorDicts as columns of a ring, and back.

A key that is at the root and below ``next`` is one column of observations, which is stored once.
Names alone say which key a column has, so that any process can read the ring:

=================  =====================================================================
column             key
=================  =====================================================================
``reward``         ``("next", "reward")``, one number of shape ``(1,)`` in TensorDicts
``next/x``         ``("next", "x")``, where ``x`` is no key at the root
``root/x``         ``x``, where a ring has another use for the name ``x``
``torchrl/of_N``   position of the element in a storage of ``N`` elements; no key
other              the key of that name, ``a/b`` for ``("a", "b")``
=================  =====================================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from tensordict import TensorDictBase, is_leaf_nontensor

import backcast as bc
from backcast._trees import value_at
from backcast.errors import AppendError, ArgumentError, ArgumentTypeError, SchemaError
from backcast.torch._tensors import tensor_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

Key: TypeAlias = tuple[str, ...]

#: Keys below ``next`` that end an episode.
ENDS = ("done", "terminated", "truncated")
_POSITION = "torchrl/of_"
# First parts of names that say something else than the key.
_TAKEN = frozenset({"next", "obs", "reward", "root", "torchrl"})
# Keys that TorchRL adds to TensorDicts, stored or drawn.
_ADDED = frozenset({("index",)})
_CODES = {
    torch.float16: "f2",
    torch.float32: "f4",
    torch.float64: "f8",
    torch.bfloat16: "bfloat16",
    torch.uint8: "u1",
    torch.uint16: "u2",
    torch.uint32: "u4",
    torch.uint64: "u8",
    torch.int8: "i1",
    torch.int16: "i2",
    torch.int32: "i4",
    torch.int64: "i8",
    torch.bool: "bool",
}


@dataclass(frozen=True)
class Leaf:
    """One column: the key it has at the root, or below ``next``, or both."""

    column: str
    code: str
    shape: tuple[int, ...]
    root: Key | None
    next: Key | None

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """Shape of the column; n-step returns need rewards that are numbers."""
        return () if self.column == "reward" and not self.is_obs else self.shape

    @property
    def is_obs(self) -> bool:
        """Whether the column is an observation, whose next value is that of the next row."""
        return self.root is not None and self.next is not None

    @property
    def next_column(self) -> str:
        """Name of the next observations in batches."""
        return f"next_{self.column}"


class Layout:
    """Columns of the elements of a storage."""

    def __init__(self, leaves: Iterable[Leaf], max_size: int) -> None:
        self.leaves = tuple(leaves)
        self.max_size = max_size
        self.position = f"{_POSITION}{max_size}"
        self._by_key = {
            key: (leaf, is_next)
            for leaf in self.leaves
            for key, is_next in ((leaf.root, False), (leaf.next, True))
            if key is not None
        }
        ends = {key[1]: leaf for key, (leaf, _) in self._by_key.items() if _is_end(key)}
        for name, leaf in ends.items():
            if leaf.code != "bool" or int(np.prod(leaf.shape)) != 1:
                raise ArgumentError(
                    f'("next", "{name}") is {leaf.code} of shape {list(leaf.shape)} in each '
                    "element; an element is one transition with one bool, so give "
                    "extend(data.reshape(-1)), and keep flags of several agents below a key"
                )

    @classmethod
    def of(cls, data: TensorDictBase, batch_dims: int, max_size: int) -> Layout:
        """Return the layout of the elements of `data`."""
        found: dict[Key, tuple[str, tuple[int, ...]]] = {}
        for key, value in _leaves(data):
            code = _CODES.get(value.dtype)
            if code is None:
                raise ArgumentTypeError(
                    f"{_shown(key)} is {value.dtype}, which no column can hold; store its parts, "
                    "or leave it out: data.exclude(...)"
                )
            found[key] = (code, tuple(value.shape[batch_dims:]))
        if not found:
            raise ArgumentError("the TensorDict has no tensor; give one with at least one key")
        leaves = []
        for key, (code, shape) in found.items():
            if key[0] == "next" and len(key) > 1:
                if found.get(key[1:]) == (code, shape) and not _is_end(key):
                    continue
                is_reward = key[1:] == ("reward",) and ("reward",) not in found
                plain = is_reward and shape == (1,) and code in ("f4", "f8")
                name = "reward" if plain else "/".join(key)
                leaves.append(Leaf(_checked(name, key, code, shape), code, shape, None, key))
                continue
            following = ("next", *key)
            paired = found.get(following) == (code, shape) and not _is_end(following)
            name = _name_at_root(key, code, shape)
            leaves.append(Leaf(name, code, shape, key, following if paired else None))
        return cls(leaves, max_size)

    @classmethod
    def in_schema(cls, schema: bc.Schema, max_size: int | None, name: str) -> Layout:
        """Return the layout of a ring that a storage made."""
        columns = schema.columns
        position = next((column for column in columns if column.startswith(_POSITION)), None)
        if position is None:
            raise ArgumentError(
                f"ring `{name}` was not made by a Storage, so its rows have no positions; draw "
                "from it with backcast.torchrl.Sampler(buf), or give the storage another name"
            )
        made_for = int(position.removeprefix(_POSITION))
        if max_size not in (None, made_for):
            raise ArgumentError(
                f"max_size is {max_size}, but the storage in ring `{name}` was made for "
                f"{made_for} elements; give max_size={made_for}, or another name"
            )
        leaves = []
        for column, (code, shape, role) in columns.items():
            if column != position:
                root, following = keys_of(column, role)
                if column == "reward" and role == "step":
                    shape = (1,)
                leaves.append(Leaf(column, code, shape, root, following))
        return cls(leaves, made_for)

    @property
    def schema(self) -> bc.Schema:
        """Schema of the ring, with the position of each element as an observation."""
        columns: dict[str, Any] = {self.position: ("i8", (), "obs")}
        for leaf in self.leaves:
            columns[leaf.column] = (leaf.code, leaf.stored_shape, "obs" if leaf.is_obs else "step")
        return bc.Schema(columns)

    def arrays_of(
        self, data: TensorDictBase, batch_dims: int
    ) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
        """Return the columns and the next observations of elements, with one leading axis."""
        given = dict(_leaves(data))
        unknown = [key for key in given if key not in self._by_key]
        missing = [key for key in self._by_key if key not in given]
        if unknown or missing:
            what = f"has no {_shown(missing[0])}" if missing else f"has {_shown(unknown[0])} too"
            raise AppendError(
                f"the TensorDict {what}; the elements of this storage have the keys "
                f"{', '.join(map(_shown, self._by_key))}: give all of them and no others"
            )
        columns: dict[str, NDArray[Any]] = {}
        following: dict[str, NDArray[Any]] = {}
        for key, value in given.items():
            leaf, is_next = self._by_key[key]
            code, shape = _CODES.get(value.dtype), tuple(value.shape[batch_dims:])
            if code != leaf.code or shape != leaf.shape:
                raise AppendError(
                    f"{_shown(key)} is {value.dtype} of shape {list(shape)}; the elements of this "
                    f"storage have {leaf.code} of shape {list(leaf.shape)}: convert it"
                )
            array = _array_of(value).reshape(-1, *leaf.stored_shape)
            (following if is_next and leaf.is_obs else columns)[leaf.column] = array
        return columns, following

    def ends_of(
        self, columns: dict[str, NDArray[Any]], count: int
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return where episodes terminate and where they are truncated, ``[count]`` each.

        ``done`` alone means terminated; beside ``terminated`` it is truncated where that is False.
        """
        found = {}
        for name in ENDS:
            leaf = self._by_key.get(("next", name))
            if leaf is not None:
                found[name] = columns[leaf[0].column].reshape(count)
        none = np.zeros(count, bool)
        done, truncated = found.get("done", none), found.get("truncated", none)
        terminated = found.get("terminated", done & ~truncated)
        return terminated, truncated | (done & ~terminated)

    @property
    def keys(self) -> Iterable[Key]:
        """Return the keys of an element."""
        return self._by_key.keys()

    def empty(self) -> dict[Key, torch.Tensor]:
        """Return tensors of no elements by key."""
        dtypes = {code: dtype for dtype, code in _CODES.items()}
        return {
            key: torch.empty((0, *leaf.shape), dtype=dtypes[leaf.code])
            for key, (leaf, _) in self._by_key.items()
        }

    def tensors_of(self, batch: bc.Batch) -> dict[Key, torch.Tensor]:
        """Return the tensors of a gathered batch by key."""
        tensors = {}
        for leaf in self.leaves:
            value = _tensor(batch, leaf.column, leaf.code)
            if leaf.stored_shape != leaf.shape:
                value = value.unsqueeze(-1)
            if leaf.root is not None:
                tensors[leaf.root] = value
            if leaf.is_obs:
                value = _tensor(batch, leaf.next_column, leaf.code)
            if leaf.next is not None:
                tensors[leaf.next] = value
        return tensors


def keys_of(column: str, role: str) -> tuple[Key | None, Key | None]:
    """Return the keys of a column, at the root and below ``next``."""
    key = tuple(column.split("/"))
    if key[0] == "root":
        key = key[1:]
    elif key[0] == "next" and len(key) > 1:
        return None, key
    elif key == ("reward",) and role == "step":
        return None, ("next", "reward")
    elif key[0] == "obs":
        key = ("observation", *key[1:])
    return key, ("next", *key) if role == "obs" else None


def is_position(column: str) -> bool:
    """Return whether a column has the positions of a storage's elements."""
    return column.startswith(_POSITION)


def _tensor(batch: bc.Batch, column: str, code: str) -> torch.Tensor:
    value = tensor_of(value_at(batch, column))
    # Where `ml_dtypes` is not installed, arrays have the bits as uint16.
    return value.view(torch.bfloat16) if code == "bfloat16" else value


def _leaves(data: TensorDictBase) -> Iterable[tuple[Key, torch.Tensor]]:
    for key, value in data.items(True, True, is_leaf=is_leaf_nontensor):
        path = (key,) if isinstance(key, str) else tuple(key)
        if path in _ADDED:
            continue
        if not isinstance(value, torch.Tensor):
            raise ArgumentTypeError(
                f"{_shown(path)} is a {type(value).__name__}; a ring has numbers only: leave it "
                "out (data.exclude(...))"
            )
        yield path, value


def _array_of(value: torch.Tensor) -> NDArray[Any]:
    value = value.detach().cpu()
    if value.dtype == torch.bfloat16:
        value = value.contiguous().view(torch.uint16)
    array: NDArray[Any] = value.numpy()
    return array


def _is_end(key: Key) -> bool:
    return len(key) == 2 and key[0] == "next" and key[1] in ENDS


def _name_at_root(key: Key, code: str, shape: tuple[int, ...]) -> str:
    name = "/".join(key)
    if key[0] not in _TAKEN:
        try:
            return _checked(name, key, code, shape)
        except SchemaError:
            # The name is reserved.
            pass
    return _checked(f"root/{name}", key, code, shape)


def _checked(name: str, key: Key, code: str, shape: tuple[int, ...]) -> str:
    """Return the name if a ring can have the column; raise if not."""
    if any("/" in part for part in key):
        raise ArgumentError(f"{_shown(key)} has a `/`, which nests columns; rename the key")
    bc.Schema({name: (code, shape, "step")})
    return name


def _shown(key: Key) -> str:
    return f'"{key[0]}"' if len(key) == 1 else f"({', '.join(repr(part) for part in key)})"
