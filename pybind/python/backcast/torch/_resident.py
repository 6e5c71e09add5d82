"""Transitions of a ring that are copied to a device once, and windows gathered there."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from backcast import Batch, ReplayBuffer
from backcast._calls import explained
from backcast._counts import count_of
from backcast._trees import flat, nested
from backcast.errors import ArgumentError, ArgumentTypeError, LappedError, SampleError
from backcast.torch._conversion import Conversion, check_float_obs
from backcast.torch._resident_tables import RowMap, Table, WindowRows, room_for
from backcast.torch._tensors import device_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

# Bytes that the host gathers at once while rows are copied to the device.
_CHUNK_BYTES = 32 << 20


class Resident:
    """Transitions of a ring on a device, whose windows are gathered there.

    The rows that the ring has are copied once. Later rows, :meth:`ReplayBuffer.clear` and the end
    of the ring change nothing here; make another for later rows. Batches have the numbers, bit for
    bit, that ``Sampler(buf, contiguous=True, ...)`` of the same options has for the same index,
    with ``age`` as it was when the rows were copied. Windows of the rows are not stored: memory is
    that of the rows, once.

    Parameters
    ----------
    buf : ReplayBuffer
        Ring to copy. No process may write to it meanwhile.
    device : torch.device, str or int, optional
        Device of the rows and batches; the CPU by default.
    history : int, optional
        Transitions up to the drawn one, ``H``; see :meth:`backcast.ReplayBuffer.sampler`.
    columns : list of str, optional
        Columns to copy; all by default.
    future : int
        Transitions after the drawn one, ``F``.
    n_step : int, optional
        Transitions of an n-step return. The host sums them, once for every transition.
    gamma : float or "discount", optional
        Discount of n-step returns.
    boundary : {"mask", "reject", "clamp"}
        Rule for windows that reach beyond an episode.
    float_obs : bool
        Turn uint8 observations into float32 from 0 to 1, in each batch.

    Raises
    ------
    ArgumentError
        If PyTorch has no such device here.
    SampleError
        If the ring has no transition to draw, or was written while it was copied.
    SpaceError
        If the rows do not fit the memory of the device.

    Examples
    --------
    >>> import backcast.torch
    >>> buf = bc.ReplayBuffer.create(None, {"obs": ("f4", (3,)), "reward": "f4"}, capacity=100)
    >>> with buf.writer() as writer:
    ...     for t in range(10):
    ...         at = writer.append(obs=[t] * 3, reward=1, terminated=False, truncated=False)
    >>> resident = backcast.torch.Resident(buf, history=4)
    >>> len(resident), resident.sample(32)["obs"].shape
    (9, torch.Size([32, 4, 3]))
    """

    @explained
    def __init__(
        self,
        buf: ReplayBuffer,
        *,
        device: torch.device | str | int | None = None,
        history: int | None = None,
        columns: list[str] | None = None,
        future: int = 0,
        n_step: int | None = None,
        gamma: float | Literal["discount"] | None = None,
        boundary: Literal["mask", "reject", "clamp"] = "mask",
        float_obs: bool = False,
    ) -> None:
        if not isinstance(buf, ReplayBuffer):
            raise ArgumentTypeError(f"buf is {buf!r}; give a backcast.ReplayBuffer")
        if isinstance(history, dict):
            raise ArgumentTypeError(
                f"history is {history!r}; give one number here, and columns= for some columns"
            )
        check_float_obs(buf, float_obs)
        self._device = device_of(device)
        self._convert = Conversion(buf, self._device, True, float_obs)
        windows: dict[str, Any] = {"history": history, "future": future, "boundary": boundary}
        shown: dict[str, Any] = {"columns": columns, "copy": True}
        returns: dict[str, Any] = {"n_step": n_step, "gamma": gamma}
        with buf.sampler(**windows, **returns, **shown) as like, buf.transitions() as order:
            spans = _spans(buf)
            index = order.index_at(np.arange(len(order)))
            narrow = {"columns": [_narrowest(buf)], "copy": True}
            before, after, drawable = _extents(buf, index, windows, narrow)
            if not drawable.any():
                raise SampleError(
                    f"the ring has {len(index)} transitions, and none with whole windows to draw; "
                    "append more, or ask for shorter windows"
                )
            template = dict(flat(like.gather(index[drawable][:1])))
        self._rows = RowMap(index, self._device)
        self._windows = WindowRows(
            self._rows,
            index,
            before,
            after,
            _steps(buf, index, n_step, narrow),
            history=history or 0,
            future=future,
            clamp=boundary == "clamp",
            device=self._device,
        )
        self._fields = {path: _kind(path, buf, bool(history)) for path in template}
        self._tables: dict[str, Table] = {}
        try:
            with buf.sampler(**returns, **shown) as rows:
                self._copy(rows, index)
        except LappedError as error:
            raise _written(spans, _spans(buf)) from error
        if _spans(buf) != spans:
            raise _written(spans, _spans(buf))
        self._index = torch.from_numpy(index[drawable]).to(self._device)
        self._drawable = self._rows.flags(index[drawable])

    @property
    def index(self) -> torch.Tensor:
        """Index of each transition that can be drawn, oldest first, int64 ``[len(self)]``."""
        return self._index

    @property
    def device(self) -> torch.device:
        """Device of the rows."""
        return self._device

    @property
    def nbytes(self) -> int:
        """Bytes of the columns on the device."""
        return sum(table.nbytes for table in self._tables.values())

    def __len__(self) -> int:
        """Return the number of transitions that can be drawn."""
        return len(self._index)

    @explained
    def gather(self, index: torch.Tensor | ArrayLike) -> Batch:
        """Return transitions by index, as :meth:`backcast.torch.Sampler.gather`.

        Waits for the device once, to check the index.

        Parameters
        ----------
        index : tensor or array_like of int64
            Indices, on any device.

        Returns
        -------
        Batch
            A batch of tensors on the device.

        Raises
        ------
        SampleError
            If an index is not one of :attr:`index`, has fewer than 64 bits, or if there is none.
        """
        given = _indices(index).to(self._device)
        rows = self._rows.of(given)
        missing = ~self._drawable[rows]
        if bool(missing.any()):
            at = int(missing.nonzero()[0])
            bad = int(given[at])
            raise SampleError(
                f"index[{at}] = {bad} (lane {bad >> 48}, row {bad & ((1 << 48) - 1)}) is none of "
                f"the {len(self)} transitions that were copied and can be drawn; gather it from "
                "the ring, or copy the ring again"
            )
        return self._batch(given, rows)

    @explained
    def sample(self, batch_size: int, *, generator: torch.Generator | None = None) -> Batch:
        """Draw transitions uniformly, with replacement, without a wait for the device.

        Parameters
        ----------
        batch_size : int
            Transitions to draw, ``B``.
        generator : torch.Generator, optional
            Random numbers, on :attr:`device` or on the CPU; PyTorch's own by default. The draws are
            not those of a sampler of the ring with the same seed.

        Returns
        -------
        Batch
            A batch of tensors on the device.
        """
        size = count_of(batch_size, "batch_size", 1, ArgumentError)
        where = self._device if generator is None else generator.device
        drawn = torch.randint(len(self), (size,), generator=generator, device=where)
        index = self._index[drawn.to(self._device)]
        return self._batch(index, self._rows.of(index))

    def _batch(self, index: torch.Tensor, rows: torch.Tensor) -> Batch:
        windows = self._windows.around(rows)
        found: dict[str, Any] = {}
        for path, (kind, source) in self._fields.items():
            if kind == "index":
                found[path] = index
            elif kind in {"mask", "future_mask"}:
                found[path] = getattr(windows, kind)
            else:
                found[path] = self._tables[source].at(windows.rows[kind])
        return self._convert.of_tensors(nested(found.items()))

    def _copy(self, sampler: Any, index: NDArray[np.int64]) -> None:
        """Copy the rows of all columns to the device, from a sampler without windows."""
        one = dict(flat(sampler.gather(index[:1])))
        sources = {source for _, source in self._fields.values() if source}
        shapes = {source: (one[source].shape[1:], one[source].dtype) for source in sources}
        rows = self._rows.count
        need = sum(
            rows * int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
            for shape, dtype in shapes.values()
        )
        # The reach of the windows, and which rows can be drawn.
        need += rows * (3 * 8 + 1) + 8 * len(index)
        with room_for(need, self._device, f"the {len(index)} transitions of the ring"):
            for source, (shape, dtype) in shapes.items():
                self._tables[source] = Table(rows, shape, dtype, self._device)
        width = max(1, sum(array.nbytes for array in one.values()))
        many = max(1, _CHUNK_BYTES // width)
        for start in range(0, len(index), many):
            part = index[start : start + many]
            batch = dict(flat(sampler.gather(part)))
            at = self._rows.numbers(part)
            for source, table in self._tables.items():
                if f"next_{source}" in batch:
                    # The successor is a transition of its own, or a FINAL row, which is none.
                    table.store(at + 1, batch[f"next_{source}"])
            for source, table in self._tables.items():
                table.store(at, batch[source])


def _kind(path: str, buf: ReplayBuffer, has_history: bool) -> tuple[str, str]:
    """Return which rows an entry of a batch has, and the table that it is gathered from."""
    if path in {"index", "mask", "future_mask"}:
        return path, ""
    if path in {"age", "n_reward", "n_discount"}:
        return "drawn", path
    obs = {name for name, (_, _, role) in buf.schema.columns.items() if role == "obs"}
    is_future = path.startswith("future/")
    name = path.removeprefix("future/")
    rows = "future" if is_future else "history" if has_history else "drawn"
    if name.removeprefix("n_next_") in obs and name.startswith("n_next_"):
        return "after_steps", name.removeprefix("n_next_")
    if name.removeprefix("next_") in obs and name.startswith("next_"):
        return f"next_{rows}", name.removeprefix("next_")
    return (f"obs_{rows}" if name in obs else rows), name


def _spans(buf: ReplayBuffer) -> list[tuple[int, int]]:
    return [buf.lane_span(lane) for lane in range(buf.lanes)]


def _written(before: list[tuple[int, int]], after: list[tuple[int, int]]) -> SampleError:
    lane = next((lane for lane, span in enumerate(before) if span != after[lane]), 0)
    return SampleError(
        f"the ring was written while it was copied: lane {lane} had the rows {before[lane]}, and "
        f"has {after[lane]}; stop its writers, or load a snapshot and copy that"
    )


def _narrowest(buf: ReplayBuffer) -> str:
    """Return the column of the fewest bytes, which stands for all where only masks are needed."""
    sizes = {
        # Without `ml_dtypes` NumPy has no bfloat16.
        name: (2 if code == "bfloat16" else np.dtype(code).itemsize) * math.prod(shape)
        for name, (code, shape, _) in buf.schema.columns.items()
    }
    return min(sizes, key=sizes.__getitem__)


def _extents(
    buf: ReplayBuffer,
    index: NDArray[np.int64],
    windows: dict[str, Any],
    narrow: dict[str, Any],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Return how many transitions each window has before and after its own, and which are whole.

    The host's sampler decides it, so that episodes, gaps and dropped rows are its own.
    """
    before, after, found = [], [], []
    with buf.sampler(**windows, **narrow) as sampler:
        many = max(1, _CHUNK_BYTES // (64 * ((windows["history"] or 0) + windows["future"] + 1)))
        for start in range(0, len(index), many):
            batch = sampler.gather(index[start : start + many], missing="mask")
            none = np.zeros((len(batch.index), 1), bool)
            mask, ahead = batch.mask, batch.future_mask
            before.append((none if mask is None else mask).sum(axis=1) - 1)
            after.append((none if ahead is None else ahead).sum(axis=1))
            assert batch.found is not None, "gathered with a mask"
            found.append(batch.found)
    if not found:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.bool_)
    return np.concatenate(before), np.concatenate(after), np.concatenate(found)


def _steps(
    buf: ReplayBuffer, index: NDArray[np.int64], n_step: int | None, narrow: dict[str, Any]
) -> NDArray[np.int64] | None:
    """Return the number of transitions in the return of each transition."""
    if n_step is None:
        return None
    windows = {"history": None, "future": n_step - 1, "boundary": "mask"}
    return _extents(buf, index, windows, narrow)[1] + 1


def _indices(index: torch.Tensor | ArrayLike) -> torch.Tensor:
    """Read indices of any shape. Refuse types that may have cut them."""
    values = index if isinstance(index, torch.Tensor) else torch.from_numpy(_array(index))
    if values.numel() == 0:
        raise SampleError("index is empty; give one index at least")
    if values.dtype != torch.int64:
        raise SampleError(
            f"index: got {str(values.dtype).removeprefix('torch.')} values, and an index needs 64 "
            "bits, lane << 48 | seq; give the index that a batch, a sampler or append returned"
        )
    return values.reshape(-1)


def _array(index: ArrayLike) -> NDArray[Any]:
    array = np.asarray(index)
    if array.size and array.dtype.kind not in "iu":
        raise SampleError(
            f"index: got {array.dtype} values, and an index needs 64 bits, lane << 48 | seq; give "
            "the index that a batch, a sampler or append returned"
        )
    return np.ascontiguousarray(array)
