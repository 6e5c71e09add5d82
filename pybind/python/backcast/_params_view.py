"""Views of parameters, and what they share with the handles that make them."""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn, Self

from backcast import _trees
from backcast._calls import explained
from backcast._native import FlatParamsView
from backcast.errors import ArgumentTypeError

__all__ = ["ParamsHandle", "ParamsView"]


class ParamsHandle:
    """A handle of the native module with names for its arrays; a context manager."""

    _native: Any
    _names: list[str]
    _made_by: ClassVar[str]

    def __init__(self, *_given: Any, **_named: Any) -> None:
        name = type(self).__name__
        raise ArgumentTypeError(
            f"{name} objects are not made by calling the class; call {self._made_by}"
        )

    @property
    def closed(self) -> bool:
        """Whether the handle is closed."""
        closed: bool = self._native.closed
        return closed

    @explained
    def close(self) -> None:
        """Close the handle. Memory that other handles use is freed with the last of them."""
        self._native.close()

    def __enter__(self) -> Self:
        """Return the handle, which is closed at the end of the ``with`` block."""
        return self

    def __exit__(self, *_exception: object) -> None:
        """Close the handle."""
        self.close()

    def __repr__(self) -> str:
        name = type(self).__name__
        return repr(self._native).replace(f"Flat{name}", name, 1)


class ParamsView(ParamsHandle):
    """A version of parameters in place: read-only arrays that no publisher overwrites.

    :meth:`backcast.Params.view` returns one. A view is a context manager. Keys are the names at the
    top; values are arrays or dicts of such. The arrays stay valid after :meth:`close`, and the
    version stays pinned until the last of them is gone.
    """

    _native: FlatParamsView
    _made_by = "params.view()"

    @classmethod
    def _of(cls, native: FlatParamsView, names: list[str]) -> ParamsView:
        self = object.__new__(cls)
        self._native, self._names = native, names
        return self

    @property
    def arrays(self) -> dict[str, Any]:
        """Every array, nested by the slashes of the names."""
        named = zip(self._names, self._native.arrays(), strict=True)
        tree: dict[str, Any] = _trees.nested(named)
        return tree

    @property
    def version(self) -> int:
        """The version that the view shows."""
        return self._native.version

    def __getitem__(self, name: str) -> Any:
        """Return what is under a name at the top: an array, or a dict of arrays."""
        return self.arrays[name]

    def __reduce__(self) -> NoReturn:
        self._native.__reduce__()


ParamsView.__module__ = "backcast.types"
