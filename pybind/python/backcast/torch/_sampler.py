"""A sampler whose batches are tensors, and an iterable that draws them ahead."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch.utils.data import IterableDataset

from backcast import ArgumentError, ArgumentTypeError, Batch, ReplayBuffer
from backcast._calls import explained
from backcast._counts import count_of
from backcast.torch._tensors import Pinned, tensors_of

if TYPE_CHECKING:
    from types import TracebackType

    from numpy.typing import ArrayLike

# Bytes of floats up to which a linear layer takes a copy faster than a strided view. Integers are
# converted first, and a conversion reads a view as fast as a copy.
_SMALL = 1 << 20


class Sampler:
    """Draws transitions as tensors, which share the memory of the batch on the CPU.

    Parameters
    ----------
    buf : ReplayBuffer
        Buffer to draw from.
    device : torch.device or str, optional
        Device of the tensors; the CPU by default. On a GPU they are copied from pinned memory,
        which is allocated once and reused.
    contiguous : bool, optional
        Whether windows are contiguous tensors of their own. If not, ``obs``, ``next_obs`` and
        ``future`` are strided views that overlap in memory: do not write to them. If left out,
        windows of up to 1 MiB of floats are copied, as a network takes those faster.
    float_obs : bool
        Turn uint8 observations into float32 from 0 to 1, on the device.
    **options
        Options of :meth:`backcast.ReplayBuffer.sampler`: ``seed``, ``history``, ``future``,
        ``n_step``, ``gamma``, ``boundary``, ``state``.

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

    def __init__(
        self,
        buf: ReplayBuffer,
        *,
        device: torch.device | str | None = None,
        contiguous: bool | None = None,
        float_obs: bool = False,
        **options: Any,
    ) -> None:
        if not isinstance(buf, ReplayBuffer):
            raise ArgumentTypeError(f"buf is {buf!r}; give a backcast.ReplayBuffer")
        if "copy" in options:
            raise ArgumentTypeError("copy= is said by contiguous= here; True copies windows")
        where = torch.device("cpu" if device is None else device)
        self._device = None if where.type == "cpu" else where
        self._float_obs = bool(float_obs)
        self._contiguous = contiguous
        roles = buf.schema.columns.items()
        self._obs = frozenset(name for name, (_, _, role) in roles if role == "obs")
        self._bfloat16 = frozenset(name for name, (code, _, _) in roles if code == "bfloat16")
        state = options.get("state")
        if state is not None and contiguous is not None:
            # A state records whether windows are copied.
            options["state"] = {**state, "copy": contiguous}
        elif state is None:
            # Pinned memory is filled array by array, and so are contiguous arrays.
            options["copy"] = bool(contiguous) or self._device is not None
        self._sampler = buf.sampler(**options)
        self._pinned = Pinned(where) if where.type == "cuda" else None

    @property
    def sampler(self) -> Any:
        """The sampler of arrays, with its counters."""
        return self._sampler

    @property
    def device(self) -> torch.device:
        """Device of the tensors."""
        return torch.device("cpu") if self._device is None else self._device

    @explained
    def sample(self, batch_size: int) -> Batch:
        """Draw transitions; see :meth:`backcast.Sampler.sample`.

        Returns
        -------
        Batch
            A batch of tensors, nested if column names have a ``/``.
        """
        return self._converted(self._sampler.sample(batch_size))

    @explained
    def gather(
        self, index: torch.Tensor | ArrayLike, *, missing: Literal["error", "mask"] = "error"
    ) -> Batch:
        """Fetch transitions again; `index` may be a tensor."""
        if isinstance(index, torch.Tensor):
            index = index.cpu().numpy()
        return self._converted(self._sampler.gather(index, missing=missing))

    @explained
    def batches(self, batch_size: int, prefetch: int = 2, *, limit: int | None = None) -> Loader:
        """Return an iterable over batches that a thread draws ahead."""
        return Loader(self, batch_size, prefetch=prefetch, limit=limit)

    def state(self) -> dict[str, Any]:
        """Return the position in the stream of draws; see :meth:`backcast.Sampler.state`."""
        return self._sampler.state()

    def close(self) -> None:
        """Release the ring."""
        self._sampler.close()

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

    def _converted(self, batch: Batch) -> Batch:
        found = (
            tensors_of(batch, self._device) if self._pinned is None else self._pinned.moved(batch)
        )
        if self._bfloat16:
            found = _mapped(found, self._bfloat16, _as_bfloat16)
        if self._contiguous is None:
            found = _small_contiguous(found)
        if self._float_obs:
            found = _mapped(found, self._obs, _as_float)
        return Batch(found)


class Loader(IterableDataset):
    """Iterates over batches of tensors that a thread draws ahead; made by :meth:`Sampler.batches`.

    Works like a ``DataLoader`` over the ring: ``for batch in loader``, and ``len(loader)`` where
    a limit was given. Each ``iter`` goes on in the sampler's stream of draws.
    """

    def __init__(
        self, sampler: Sampler, batch_size: int, *, prefetch: int, limit: int | None
    ) -> None:
        super().__init__()
        self._sampler = sampler
        self.batch_size = count_of(batch_size, "batch_size", 1, ArgumentError)
        self.prefetch = count_of(prefetch, "prefetch", 0, ArgumentError)
        self.limit = None if limit is None else count_of(limit, "limit", 0, ArgumentError)

    def __iter__(self) -> Iterator[Batch]:
        """Draw batches up to the limit; leaving the loop stops the thread."""
        batches = self._sampler.sampler.batches(self.batch_size, self.prefetch, limit=self.limit)
        with batches:
            for batch in batches:
                yield self._sampler._converted(batch)

    def __len__(self) -> int:
        """Return the limit."""
        if self.limit is None:
            raise TypeError("the loader has no end; give limit= to sampler.batches for one")
        return self.limit


def _small_contiguous(values: dict[str, Any]) -> dict[str, Any]:
    found = {}
    for key, value in values.items():
        if isinstance(value, dict):
            found[key] = _small_contiguous(value)
        elif (
            isinstance(value, torch.Tensor) and value.is_floating_point() and value.nbytes <= _SMALL
        ):
            found[key] = value.contiguous()
        else:
            found[key] = value
    return found


def _as_bfloat16(value: torch.Tensor) -> torch.Tensor:
    """Read the bits of a column, which are uint16 where ``ml_dtypes`` is not installed."""
    return value.view(torch.bfloat16) if value.dtype == torch.uint16 else value


def _as_float(value: torch.Tensor) -> torch.Tensor:
    """Scale uint8 to float32 from 0 to 1."""
    return value.to(torch.float32).div_(255) if value.dtype == torch.uint8 else value


def _mapped(
    values: dict[str, Any],
    names: frozenset[str],
    change: Callable[[torch.Tensor], torch.Tensor],
    path: str = "",
) -> dict[str, Any]:
    """Change the tensors of some columns, and of columns derived from them."""
    found = {}
    for key, value in values.items():
        here = f"{path}{key}"
        if isinstance(value, dict):
            found[key] = _mapped(value, names, change, "" if here == "future" else f"{here}/")
        elif isinstance(value, torch.Tensor) and not names.isdisjoint(
            {here, here.removeprefix("n_").removeprefix("next_")}
        ):
            found[key] = change(value)
        else:
            found[key] = value
    return found
