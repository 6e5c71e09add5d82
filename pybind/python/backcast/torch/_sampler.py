"""A sampler whose batches are tensors, and an iterable that draws them ahead."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch.utils.data import IterableDataset

from backcast import Batch, ReplayBuffer
from backcast._calls import explained, refuse_unknown
from backcast._counts import count_of
from backcast._native import _closest_name
from backcast.errors import ArgumentError, ArgumentTypeError, SampleError
from backcast.torch._ahead import copied_ahead
from backcast.torch._conversion import Conversion, check_float_obs
from backcast.torch._pool import Pool
from backcast.torch._tensors import array_of, device_of
from backcast.torch._transfer import transfer_to

if TYPE_CHECKING:
    from types import TracebackType

    from numpy.typing import ArrayLike

# Batch sizes whose memory a sampler keeps, such as those of training and of evaluation.
_MAX_POOLS = 4


class Sampler:
    """Draws transitions as tensors, which share the memory of the batch on the CPU.

    Parameters
    ----------
    buf : ReplayBuffer
        Buffer to draw from.
    device : torch.device, str or int, optional
        Device of the tensors; the CPU by default. Batches for a GPU are drawn into page-locked
        memory, which is kept for the last four batch sizes, and copied on a stream of their own.
        The memory is filled again after the copy from it has ended. Tensors belong to the stream
        that is current when they are returned; for other streams call ``tensor.record_stream``.
    contiguous : bool, optional
        Whether windows are contiguous tensors of their own. If False, on the CPU ``obs``,
        ``next_obs`` and ``future`` are strided views that overlap in memory: do not write to them.
        If left out, windows of up to 1 MiB of floats are copied, because a network reads the
        copies faster.
    float_obs : bool
        Turn uint8 observations into float32 from 0 to 1, on the device.
    transform : callable, optional
        Function that takes the batch of tensors, on the device, and returns what the caller gets:
        the batch, changed, or any other object except None, such as a tuple or a ``TensorDict``.
        If it raises, the next call draws the same batch again.
    **options
        Other options of :meth:`backcast.ReplayBuffer.sampler`: ``seed``, ``history``, ``future``,
        ``n_step``, ``gamma``, ``boundary``, ``select``, ``state`` and so on. The functions of
        ``hindsight`` get arrays, not tensors.

    Raises
    ------
    ArgumentError
        If PyTorch has no such device here.
    ArgumentTypeError
        If an argument is of another type.

    Examples
    --------
    >>> import backcast.torch
    >>> buf = bc.ReplayBuffer.create(None, {"obs": ("f4", (3,)), "reward": "f4"}, capacity=100)
    >>> with buf.writer() as writer:
    ...     for t in range(10):
    ...         at = writer.append(obs=[t] * 3, reward=1, terminated=False, truncated=False)
    >>> sampler = backcast.torch.Sampler(buf, seed=7, history=4)
    >>> sampler.sample(32)["obs"].shape
    torch.Size([32, 4, 3])
    """

    @explained
    def __init__(
        self,
        buf: ReplayBuffer,
        *,
        device: torch.device | str | int | None = None,
        contiguous: bool | None = None,
        float_obs: bool = False,
        transform: Callable[[Batch], Any] | None = None,
        **options: Any,
    ) -> None:
        if not isinstance(buf, ReplayBuffer):
            raise ArgumentTypeError(f"buf is {buf!r}; give a backcast.ReplayBuffer")
        _refuse_misspelt(options)
        if "copy" in options:
            raise ArgumentTypeError("copy= is said by contiguous= here; True copies windows")
        if not (contiguous is None or isinstance(contiguous, bool)):
            raise ArgumentTypeError(f"contiguous is {contiguous!r}; give True, False or None")
        check_float_obs(buf, float_obs)
        if not (transform is None or callable(transform)):
            raise ArgumentTypeError(
                f"transform is {transform!r}; give a function that takes a batch of tensors"
            )
        self._device = device_of(device)
        self._transfer = transfer_to(self._device)
        # Copies to a device and contiguous tensors both need windows that do not overlap.
        is_copied = self._device.type != "cpu" or self._transfer is not None
        copy = True if is_copied else contiguous
        state = options.get("state")
        if state is not None and copy is not None:
            # A state records whether windows are copied.
            options["state"] = {**state, "copy": copy}
        elif state is None:
            options["copy"] = bool(copy)
        self._convert = Conversion(buf, self._device, contiguous, float_obs)
        # By batch size, the one used last at the end.
        self._pools: dict[int, Pool] = {}
        self._transform = transform
        if transform is not None:
            # The sampler of arrays calls `transform`, and draws its batch again if it raises.
            options["transform"] = _after(self._convert, transform)
        self._sampler = buf.sampler(**options)

    @property
    def sampler(self) -> Any:
        """The sampler of arrays, with its counters. Its ``sample`` applies ``transform``, if given.

        Returns
        -------
        backcast.Sampler
        """
        return self._sampler

    @property
    def device(self) -> torch.device:
        """Device of the tensors."""
        return self._device

    @explained
    def sample(self, batch_size: int, *, timeout: float | None = None) -> Any:
        """Draw transitions; see :meth:`backcast.Sampler.sample`.

        Returns
        -------
        Batch
            A batch of tensors, nested if column names have a ``/``; or what ``transform`` returned.
        """
        pool = self._pool_of(batch_size)
        if pool is None:
            return self._converted(self._sampler.sample(batch_size, timeout=timeout))
        place = next((at for at in range(2) if at not in pool.busy), None)
        if place is None:
            place = pool.busy[0]
            pool.wait(place)
        out = pool.batches[place]
        return self._converted(self._sampler.sample(batch_size, out=out, timeout=timeout))

    @explained
    def gather(
        self, index: torch.Tensor | ArrayLike, *, missing: Literal["error", "mask"] = "error"
    ) -> Any:
        """Fetch transitions again; see :meth:`backcast.Sampler.gather`.

        Parameters
        ----------
        index : tensor or array_like of int64
            Indices, on any device.
        missing : {"error", "mask"}
            Policy for missing transitions.

        Returns
        -------
        Batch
            As :meth:`sample`.
        """
        return self._converted(self._sampler.gather(array_of(index), missing=missing))

    @explained
    def update_priorities(
        self,
        index: torch.Tensor | ArrayLike,
        priority: torch.Tensor | ArrayLike,
        *,
        mask: torch.Tensor | ArrayLike | None = None,
        eta: float | None = None,
        timeout: float = 60.0,
    ) -> int:
        """Set priorities; see :meth:`backcast.Sampler.update_priorities`.

        Parameters
        ----------
        index : tensor or array_like of int64, [B]
            Indices, on any device.
        priority : tensor or array_like, [B] or [B, H]
            Priorities, or TD errors of windows. Gradients of a tensor are ignored.
        mask : tensor or array_like of bool, [B, H], optional
            Places of the windows that count.
        eta : float, optional
            Share of the maximum in the priority of a window; 0.9 if left out.
        timeout : float
            Seconds to wait for the table.

        Returns
        -------
        int
            Number of priorities that were dropped, because their row is overwritten or is no
            transition.
        """
        windows: dict[str, Any] = {}
        if mask is not None:
            windows["mask"] = array_of(mask)
        if eta is not None:
            windows["eta"] = eta
        return self._sampler.update_priorities(
            array_of(index), array_of(priority), timeout=timeout, **windows
        )

    @explained
    def batches(
        self,
        batch_size: int,
        prefetch: int = 2,
        *,
        limit: int | None = None,
        timeout: float | None = None,
    ) -> Loader:
        """Return an iterable over batches that a thread draws ahead.

        For a GPU, the copies of batches begin as soon as these are drawn, on a stream of their own,
        up to ``prefetch`` batches ahead. Until a batch is returned, it counts as not drawn: after
        the loop the sampler draws those ahead again, and :meth:`state` is the one before them.
        """
        return Loader(self, batch_size, prefetch=prefetch, limit=limit, timeout=timeout)

    def stats(self) -> dict[str, Any]:
        """Return what the sampler drew; see :meth:`backcast.Sampler.stats`."""
        return self._sampler.stats()

    def state(self) -> dict[str, Any]:
        """Return the position in the stream of draws; see :meth:`backcast.Sampler.state`."""
        return self._sampler.state()

    def close(self) -> None:
        """Close the sampler, which releases the ring and the memory of batches."""
        self._sampler.close()
        self._drop_pools()

    def __enter__(self) -> Sampler:
        """Return the sampler, which the end of the block closes."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the sampler."""
        self.close()

    def _converted(self, drawn: Any) -> Any:
        return drawn if self._transform is not None else self._convert(drawn)

    def _handed_out(self, tensors: dict[str, Any]) -> Any:
        """Return what the caller gets for tensors that are on the device."""
        batch = self._convert.of_tensors(tensors)
        if self._transform is None:
            return batch
        changed = self._transform(batch)
        if changed is None:
            raise SampleError("transform returned None; return the batch, changed in place or new")
        return changed

    def _pool_of(self, batch_size: Any) -> Pool | None:
        """Return memory for batches of this size, or None if their tensors need no copy.

        Batches of no fixed size have none either: each is copied before the call returns.
        """
        if self._transfer is None or not isinstance(batch_size, int | np.integer):
            return None
        size = int(batch_size)
        pool = self._pools.pop(size, None)
        if pool is None:
            try:
                blank = self._sampler._blank(size)
            except SampleError:
                # The draw raises the same, unless the batches have no fixed size.
                return None
            while len(self._pools) >= _MAX_POOLS:
                self._pools.pop(next(iter(self._pools))).close()
            # Two batches in turn: one is drawn while the other is copied.
            pool = Pool(blank, 2, self._transfer)
        self._pools[size] = pool
        return pool

    def _drop_pools(self) -> None:
        while self._pools:
            self._pools.popitem()[1].close()


class Loader(IterableDataset):
    """Iterates over batches of tensors that a thread draws ahead; made by :meth:`Sampler.batches`.

    Works like a ``DataLoader`` over the ring: ``for batch in loader``, and ``len(loader)`` where
    a limit was given. Each ``iter`` continues the sampler's stream of draws.
    """

    @explained
    def __init__(
        self,
        sampler: Sampler,
        batch_size: int,
        *,
        prefetch: int,
        limit: int | None,
        timeout: float | None = None,
    ) -> None:
        super().__init__()
        self._sampler = sampler
        self.batch_size = count_of(batch_size, "batch_size", 1, ArgumentError)
        self.prefetch = count_of(prefetch, "prefetch", 0, ArgumentError)
        self.limit = None if limit is None else count_of(limit, "limit", 0, ArgumentError)
        self.timeout = timeout

    def __iter__(self) -> Iterator[Any]:
        """Draw batches up to the limit; leaving the loop stops the thread."""
        transfer = self._sampler._transfer
        if transfer is not None:
            yield from copied_ahead(
                self._sampler.sampler,
                transfer,
                self._sampler._handed_out,
                self.batch_size,
                self.prefetch,
                {"limit": self.limit, "timeout": self.timeout},
            )
            return
        batches = self._sampler.sampler.batches(
            self.batch_size, self.prefetch, limit=self.limit, timeout=self.timeout
        )
        with batches:
            for batch in batches:
                yield self._sampler._converted(batch)

    def __len__(self) -> int:
        """Return the limit."""
        if self.limit is None:
            raise TypeError("the loader has no end; give limit= to sampler.batches for one")
        return self.limit


def _refuse_misspelt(options: dict[str, Any]) -> None:
    """Refuse misspelt arguments of `Sampler`; ``buf.sampler`` refuses other unknown ones."""
    here = ["device", "contiguous", "float_obs", "transform"]
    there = inspect.signature(ReplayBuffer.sampler).parameters
    known = [*here, *(name for name in there if name not in {*here, "self", "copy"})]
    misspelt = [name for name in options if name not in there]
    refuse_unknown(
        "Sampler", (name for name in misspelt if _closest_name(name, known) in here), known
    )


def _after(convert: Conversion, transform: Callable[[Batch], Any]) -> Callable[[Batch], Any]:
    """Return a function that converts a batch of arrays and passes its tensors to `transform`."""
    return lambda arrays: transform(convert(arrays))
