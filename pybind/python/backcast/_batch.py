"""Batches of samplers: dicts of arrays, with built-in arrays as attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from backcast.errors import ColumnError, SampleError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Batch(dict[str, Any]):
    """Sampled transitions: a plain ``dict`` of arrays, nested where column names hold a ``/``.

    The leading axis of every array is ``B``, one per drawn transition. Without a history window
    arrays are ``[B, ...]``; with ``history=H`` they are ``[B, H, ...]``, oldest first, ending with
    and including the drawn transition. :class:`Sequence` and :class:`WholeEpisodes` describe the
    shapes of their batches. The memory belongs to the caller.

    Windows of ``obs`` and ``next_obs`` overlap in memory and are therefore read-only; with
    ``copy=True`` they can be written to. Without ``copy=True`` two masked places are not zero:
    ``next_obs`` right before the first unmasked place, and ``obs`` right after the last one.
    ``batch["future"]`` is a dict of the same columns, ``[B, F, ...]``, with their ``next_*``,
    ``terminated`` and ``truncated``; its mask is ``batch["future_mask"]``. A later draw fills the
    arrays of a batch again if the batch is passed as ``out``.
    """

    # Memory that a sampler can fill again; copied and unpickled batches have none.
    __slots__ = ("_memory",)

    def __reduce__(self) -> tuple[type[Batch], tuple[dict[str, Any]]]:
        """Pickle and copy the arrays without ``_memory``."""
        return type(self), (dict(self),)

    def __missing__(self, key: object) -> NoReturn:
        """Raise an error that lists the columns."""
        raise ColumnError(f"the batch has no column `{key}`; it has {', '.join(self)}")

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            """Raise an error that says how to read a column."""
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
        """True where a place holds a transition; None if the batch has no mask.

        The shape is ``[B, H]`` of history windows, ``[B, L]`` of sequences and padded episodes.
        """
        return self.get("mask")

    @property
    def future_mask(self) -> NDArray[np.bool_] | None:
        """True where a future window holds a transition, ``[B, F]``; None without a window."""
        return self.get("future_mask")

    @property
    def found(self) -> NDArray[np.bool_] | None:
        """True where ``gather(..., missing="mask")`` found the transition; None for draws.

        The shape is ``[B]``.
        """
        return self.get("found")

    def to_torch(self, device: Any = None) -> Batch:  # noqa: ANN401
        """Return a batch of PyTorch tensors with the same nesting.

        Tensors on the CPU share memory with the arrays of this batch. Windows of ``obs`` and
        ``next_obs`` overlap in that memory: do not write to their tensors.

        Parameters
        ----------
        device : torch.device or str, optional
            Device of the tensors; the CPU by default.

        Returns
        -------
        Batch
            A batch of tensors.

        Raises
        ------
        MissingExtraError
            If PyTorch is not installed.
        ArgumentError
            If PyTorch has no such device here.
        """
        # The package says what to install where PyTorch is missing.
        import backcast.torch  # noqa: F401
        from backcast.torch._tensors import device_of, tensors_of

        where = device_of(device)
        return type(self)(tensors_of(self, None if where.type == "cpu" else where))

    def to_numpy(self) -> Batch:
        """Return a batch of NumPy arrays in place of the tensors or JAX arrays of this one.

        Tensors on the CPU share their memory with the arrays; others are copied.

        Returns
        -------
        Batch
            A batch of arrays.

        Raises
        ------
        TypeError
            If NumPy has no dtype for a tensor.
        """
        return type(self)(_arrays(self))

    def to_dlpack(self) -> dict[str, Any]:
        """Return the arrays for ``from_dlpack`` of another library, nested as they are.

        Returns
        -------
        dict
            The arrays themselves.

        Raises
        ------
        SampleError
            If windows overlap in memory, which DLPack cannot express, or a column is bfloat16 of
            ``ml_dtypes``, for which NumPy has no DLPack type.
        """
        return _exportable(self, "")

    def __repr__(self) -> str:
        """Show shapes and dtypes, since the numbers themselves would fill screens."""
        return f"Batch({_outline(self)})"


def _arrays(values: dict[str, Any]) -> dict[str, Any]:
    import numpy as np

    found: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            found[key] = _arrays(value)
        elif hasattr(value, "detach"):
            # A tensor, on whatever device.
            found[key] = _array_of(value.detach().cpu())
        else:
            found[key] = np.asarray(value)
    return found


def _array_of(tensor: Any) -> Any:  # noqa: ANN401
    """Return an array over a tensor's memory.

    A bfloat16 tensor becomes an array of ``ml_dtypes.bfloat16``, or of uint16 without that package.
    """
    if str(tensor.dtype) != "torch.bfloat16":
        return tensor.numpy()
    import torch

    bits = tensor.view(torch.uint16).numpy()
    try:
        import ml_dtypes
    except ImportError:
        return bits
    return bits.view(ml_dtypes.bfloat16)


def _exportable(values: dict[str, Any], path: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            found[key] = _exportable(value, f"{path}{key}/")
            continue
        flags = getattr(value, "flags", None)
        if flags is not None and not (flags.writeable and flags.c_contiguous):
            raise SampleError(
                f"`{path}{key}` is a window that overlaps with others in memory, which DLPack "
                "cannot say; make the sampler with copy=True, or take to_torch(), whose tensors "
                "may overlap"
            )
        if str(getattr(value, "dtype", "")) == "bfloat16" and flags is not None:
            raise SampleError(
                f"`{path}{key}` is bfloat16, which NumPy has no DLPack type for; take to_torch(), "
                'or give its bits, batch[...].view("u2")'
            )
        found[key] = value
    return found


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
