"""Batches of samplers: dicts of arrays, with built-in arrays as attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from backcast._errors import ColumnError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Batch(dict[str, Any]):
    """Sampled transitions: a plain ``dict`` of arrays, nested where column names hold a ``/``.

    The leading axis of every array is ``B``, one per drawn transition. Without a history window
    arrays are ``[B, ...]``; with ``history=H`` they are ``[B, H, ...]``, oldest first, ending with
    and including the drawn transition. The memory belongs to the caller. ``obs`` and ``next_obs``
    windows overlap in it and are read-only for that reason; ask for ``copy=True`` to write to them.
    Passed as ``out`` to a later draw, its arrays are filled again.
    """

    # Memory that a sampler can fill again; copied and unpickled batches have none.
    __slots__ = ("_memory",)

    def __reduce__(self) -> tuple[type[Batch], tuple[dict[str, Any]]]:
        """Pickle and copy the arrays alone."""
        return type(self), (dict(self),)

    def __missing__(self, key: object) -> NoReturn:
        """Raise an error that lists the columns."""
        raise ColumnError(f"the batch has no column `{key}`; it has {', '.join(self)}")

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            """Say how columns are read."""
            hint = f'; write batch["{name}"]' if name in self else ""
            message = f"{type(self).__name__!r} object has no attribute {name!r}{hint}"
            raise AttributeError(message, name=name, obj=self)

    @property
    def index(self) -> NDArray[np.int64]:
        """Index of each transition, ``lane << 48 | seq``, shape ``[B]``; never reused."""
        array: NDArray[np.int64] = self["index"]
        return array

    @property
    def age(self) -> NDArray[np.int64]:
        """Rows published on the lane after the transition's own, shape ``[B]``."""
        array: NDArray[np.int64] = self["age"]
        return array

    @property
    def mask(self) -> NDArray[np.bool_] | None:
        """True where a history window holds a transition, ``[B, H]``; None without a window."""
        return self.get("mask")

    @property
    def future_mask(self) -> NDArray[np.bool_] | None:
        """True where a future window holds a transition, ``[B, F]``; None without a window."""
        return self.get("future_mask")

    @property
    def found(self) -> NDArray[np.bool_] | None:
        """True where ``gather(index, missing="mask")`` found the transition, ``[B]``; else None."""
        return self.get("found")

    def __repr__(self) -> str:
        """Show shapes and dtypes, since the numbers themselves would fill screens."""
        return f"Batch({_outline(self)})"


def _outline(values: dict[str, Any]) -> str:
    parts = []
    for key, value in values.items():
        if isinstance(value, dict):
            parts.append(f"{key}={{{_outline(value)}}}")
        else:
            shape = "x".join(map(str, getattr(value, "shape", ())))
            parts.append(f"{key}={getattr(value, 'dtype', type(value).__name__)}[{shape}]")
    return ", ".join(parts)


Batch.__module__ = "backcast"
