"""A sampler whose batches are TensorDicts in TorchRL's layout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import torch
from tensordict import TensorDict

import backcast as bc
from backcast._calls import explained
from backcast.errors import ArgumentError, ArgumentTypeError
from backcast.torch._tensors import array_of, device_of, tensor_of
from backcast.torchrl._layout import ENDS, Key, is_position, keys_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from numpy.typing import ArrayLike, NDArray

# Keys of batches that are none of TensorDicts, or have another name there.
_RENAMED = {"weight": ("priority_weight",), "mask": ("collector", "mask")}
_PLACED = frozenset({"age", "future", "future_mask", "index", "n_discount", "n_reward"})

# Makes a TensorDict without comparing each tensor with the batch size, as TorchRL's own code does.
_make = getattr(TensorDict, "_new_unsafe", TensorDict)


class _Step(NamedTuple):
    """One tensor of a TensorDict: where its array is in a batch, and where it goes."""

    top: str
    path: tuple[str, ...]
    folders: tuple[str, ...]
    name: str
    is_bfloat16: bool
    is_first: bool
    is_reward: bool

    @classmethod
    def of(cls, column: str, code: str, key: Key, *, is_first: bool = False) -> _Step:
        top, *path = column.split("/")
        is_reward = key == ("next", "reward")
        is_bfloat16 = code == "bfloat16"
        return cls(top, tuple(path), key[:-1], key[-1], is_bfloat16, is_first, is_reward)


class Sampler:
    """Draws TensorDicts in TorchRL's layout from any ring.

    A column of observations has its key at the root and below ``next``; ``obs`` is called
    ``observation``. ``reward`` and the ends of episodes lie below ``next``: ``reward``, ``done``,
    ``terminated`` and ``truncated``, each ``[B, 1]``. Other columns lie at the root, and ``a/b`` is
    ``("a", "b")``. Each batch has ``index``; ``priority_weight`` with priorities, and
    ``("collector", "mask")`` with windows, whose batch size is ``[B, L]``. Rollouts have
    ``[N, T]``, time last, as the batches of TorchRL's collectors.

    Parameters
    ----------
    buf : ReplayBuffer
        Ring to draw from, such as that of a :class:`Storage`.
    device : torch.device, str or int, optional
        Device of the tensors; the CPU by default, where they share the memory of the batch.
    transform : callable, optional
        Function that takes each TensorDict and returns what the caller gets.
    **options
        Other options of :meth:`backcast.ReplayBuffer.sampler`: ``seed``, ``n_step``, ``gamma``,
        ``form``, ``history``, ``select``, ``max_age``, ``state`` and so on. With ``n_step`` the
        keys below ``next`` are those of the last transition that is summed, the reward is the sum,
        and ``steps_to_next_obs`` says of how many, as TorchRL's losses read it.

    Raises
    ------
    ArgumentError
        If the ring has no observations, two columns would have one key, or the options have no
        form as a TensorDict.
    ArgumentTypeError
        If an argument is of another type.

    Examples
    --------
    >>> buf = bc.ReplayBuffer.create(None, {"obs": ("f4", (3,)), "reward": "f4"}, capacity=100)
    >>> with buf.writer() as writer:
    ...     for t in range(10):
    ...         at = writer.append(obs=[t] * 3, reward=1, terminated=False, truncated=False)
    >>> Sampler(buf, seed=7).sample(32)["next", "reward"].shape
    torch.Size([32, 1])
    """

    @explained
    def __init__(
        self,
        buf: bc.ReplayBuffer,
        *,
        device: torch.device | str | int | None = None,
        transform: Callable[[TensorDict], Any] | None = None,
        **options: Any,
    ) -> None:
        if not isinstance(buf, bc.ReplayBuffer):
            hint = "; give storage.ring" if hasattr(type(buf), "ring") else ""
            raise ArgumentTypeError(f"buf is {buf!r}; give a backcast.ReplayBuffer{hint}")
        if not (transform is None or callable(transform)):
            raise ArgumentTypeError(
                f"transform is {transform!r}; give a function that takes a TensorDict"
            )
        if "copy" in options:
            raise ArgumentTypeError("copy= is always on here: windows of TensorDicts never overlap")
        self._device = device_of(device)
        self._transform = transform
        state = options.get("state")
        settings = options if state is None else state
        self._n_step: int | None = settings.get("n_step")
        history = settings.get("history")
        windows = history if isinstance(history, dict) else {"*": history}
        lengths = {length for length in windows.values() if length != "first"}
        if len(lengths) > 1:
            raise ArgumentError(
                f"history is {history!r}, and a TensorDict has one batch size; give one length"
            )
        self._leading = lengths not in ({None}, set())
        # A state has the columns of `Sequence(first=...)` there.
        self._first = frozenset(getattr(settings.get("form"), "first", None) or ()) | {
            name for name, length in windows.items() if length == "first"
        }
        self._is_rollout = isinstance(settings.get("form"), bc.Rollout)
        self._check(settings)
        chosen = options.get("columns")
        if state is not None:
            chosen = None if "*" in windows else [*windows]
        columns = self._columns(buf, chosen)
        # The last transition that is summed says how the episode went on.
        future = 0 if self._n_step is None else int(self._n_step) - 1
        if state is not None:
            options["state"] = {**state, "copy": True, "future": future}
        else:
            options |= {"copy": True, "future": future}
            if columns is not None:
                options["columns"] = columns
        self._sampler = buf.sampler(**options, transform=self._converted)

    def _check(self, settings: dict[str, Any]) -> None:
        """Refuse settings of a sampler that have no form as a TensorDict."""
        if settings.get("future") and self._n_step is None:
            raise ArgumentError(
                "future= has no form as a TensorDict; give form=bc.Sequence(length) for runs of "
                "transitions, or n_step= for returns"
            )
        if self._n_step is None:
            return
        if self._leading:
            raise ArgumentError(
                "n_step= sums single transitions, and history= asks for windows; leave one out"
            )
        if settings.get("gamma") == "discount":
            raise ArgumentError(
                'gamma="discount" has no single discount, which TorchRL\'s losses raise to '
                "`steps_to_next_obs`; give gamma= of the loss"
            )

    def _columns(self, buf: bc.ReplayBuffer, chosen: list[str] | None) -> list[str] | None:
        """Plan the keys, and return the columns to draw, or None for all."""
        schema = buf.schema.columns
        # Ends are those of the ring, which n-step returns know of too.
        hidden = {name for name in schema if is_position(name)}
        hidden |= {f"next/{end}" for end in ENDS} & schema.keys()
        wanted = [name for name in (schema if chosen is None else chosen) if name not in hidden]
        names = [name for name in wanted if name in schema]
        if not any(schema[name][2] == "obs" for name in names):
            raise ArgumentError(
                "the ring has no column of observations among those drawn, so there is no next "
                "one; give columns the role by name (`obs`) or by a third entry, "
                '("f4", (3,), "obs")'
            )
        next_of = "next_" if self._n_step is None else "n_next_"
        self._plan: list[_Step] = []
        for name in names:
            code, _, role = schema[name]
            root, following = keys_of(name, role)
            if root is not None:
                self._plan.append(_Step.of(name, code, root, is_first=name in self._first))
            if following is not None and role == "obs":
                self._plan.append(_Step.of(f"{next_of}{name}", code, following))
            elif following is not None:
                is_sum = name == "reward" and self._n_step is not None
                column = "n_reward" if is_sum else name
                self._plan.append(_Step.of(column, code, following, is_first=name in self._first))
        self._refuse_equal_keys()
        self._known = frozenset(
            part for name in names for part in self._tops(name, schema[name][2])
        ) | {*ENDS, *_PLACED}
        if not hidden and chosen is None:
            return None
        return [*dict.fromkeys([*wanted, "terminated", "truncated"])]

    def _refuse_equal_keys(self) -> None:
        """Refuse columns of which one would hide another, or what a batch has besides columns."""
        taken: dict[tuple[str, ...], str] = {("index",): "the index of each transition"}
        taken |= {("next", end): "the ends of episodes" for end in ENDS}
        taken |= {key: f"the {name}s of batches" for name, key in _RENAMED.items()}
        if self._n_step is not None:
            taken["steps_to_next_obs",] = "the transitions of a return"
        for step in self._plan:
            key, column = (*step.folders, step.name), "/".join((step.top, *step.path))
            if key in taken:
                raise ArgumentError(
                    f"column `{column}` has the key {key} in a TensorDict, and so has "
                    f"{taken[key]}; give columns= without one of them, or rename the column"
                )
            taken[key] = f"column `{column}`"

    @staticmethod
    def _tops(name: str, role: str) -> list[str]:
        top = name.split("/")[0]
        return [top, f"next_{top}", f"n_next_{top}"] if role == "obs" else [top]

    @property
    def sampler(self) -> Any:
        """The sampler of arrays behind it, with its counters.

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
        """Draw transitions or windows; see :meth:`backcast.Sampler.sample`.

        Returns
        -------
        TensorDict
            Of batch size ``[B]``, ``[B, L]`` for windows, ``[N, T]`` for rollouts, or what
            ``transform`` returned.
        """
        return self._sampler.sample(batch_size, timeout=timeout)

    @explained
    def gather(
        self, index: torch.Tensor | ArrayLike, *, missing: Literal["error", "mask"] = "error"
    ) -> Any:
        """Fetch transitions again; see :meth:`backcast.Sampler.gather`.

        Returns
        -------
        TensorDict
            As :meth:`sample`; with ``missing="mask"`` it has ``found``, ``[B]``.
        """
        return self._sampler.gather(self._drawn(index), missing=missing)

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
        index : tensor or array_like of int64
            ``td["index"]``, also of windows: ``[B]`` or ``[B, L]``.
        priority : tensor or array_like
            Priorities ``[B]`` or ``[B, 1]``, or TD errors of windows, ``[B, L]`` or ``[B, L, 1]``.
        mask : tensor or array_like of bool, [B, L], optional
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
        errors = np.asarray(array_of(priority))
        if errors.ndim > 1 and errors.shape[-1] == 1:
            errors = errors[..., 0]
        return self._sampler.update_priorities(
            self._drawn(index), errors, timeout=timeout, **windows
        )

    @explained
    def batches(
        self,
        batch_size: int,
        prefetch: int = 2,
        *,
        limit: int | None = None,
        timeout: float | None = None,
    ) -> Iterator[Any]:
        """Return an iterator over TensorDicts that a thread draws ahead.

        Its ``with`` block or ``close`` stops the thread; see :meth:`backcast.Sampler.batches`.
        """
        return self._sampler.batches(batch_size, prefetch, limit=limit, timeout=timeout)

    def stats(self) -> dict[str, Any]:
        """Return what the sampler drew; see :meth:`backcast.Sampler.stats`."""
        return self._sampler.stats()

    def state(self) -> dict[str, Any]:
        """Return the position in the stream of draws; see :meth:`backcast.Sampler.state`."""
        return self._sampler.state()

    def close(self) -> None:
        """Close the sampler, which releases the ring."""
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

    def _drawn(self, index: torch.Tensor | ArrayLike) -> Any:
        """Return the indices that were drawn, of those of all places of windows."""
        array = array_of(index)
        if getattr(array, "ndim", 1) == 2:
            array = array[:, -1 if self._leading else 0]
        return array

    def _converted(self, batch: Any) -> Any:
        """Return a batch of arrays as a TensorDict."""
        terminated, truncated = batch["terminated"], batch["truncated"]
        dims = terminated.shape
        values: dict[str, Any] = {"next": {}}
        for top, path, folders, name, is_bfloat16, is_first, is_reward in self._plan:
            array = batch[top]
            for part in path:
                array = array[part]
            if is_bfloat16:
                tensor = tensor_of(array).view(torch.bfloat16)
            else:
                tensor = torch.from_numpy(array)
            if is_first:
                tensor = tensor[:, None].expand(*dims, *tensor.shape[1:]).clone()
            if is_reward and tensor.ndim == len(dims):
                tensor = tensor.unsqueeze(-1)
            folder = values
            for part in folders:
                folder = folder.setdefault(part, {})
            folder[name] = tensor
        if self._n_step is not None:
            terminated, truncated = self._after(batch, values, terminated, truncated)
        following = values["next"]
        following["done"] = torch.from_numpy((terminated | truncated)[..., None])
        following["terminated"] = torch.from_numpy(terminated[..., None])
        following["truncated"] = torch.from_numpy(truncated[..., None])
        self._put_others(values, batch, dims)
        found = _tensordict(values, torch.Size(dims))
        if self._is_rollout:
            # Time is the last axis of TorchRL's batches, along which `GAE` sums.
            found = found.transpose(0, 1).contiguous()
        if self._device.type != "cpu":
            found = found.to(self._device)
        return found if self._transform is None else self._transform(found)

    def _after(
        self,
        batch: Any,
        values: dict[str, Any],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return the ends of the last transitions summed, and put their number into `values`."""
        steps = np.ones(terminated.shape, np.int64)
        if self._n_step != 1:
            future = batch["future"]
            steps += batch["future_mask"].sum(axis=1)
            terminated = terminated | future["terminated"].any(axis=1)
            truncated = truncated | future["truncated"].any(axis=1)
        values["steps_to_next_obs"] = torch.from_numpy(steps[:, None])
        return terminated, truncated

    def _put_others(self, values: dict[str, Any], batch: Any, dims: tuple[int, ...]) -> None:
        """Put what is no column: indices, weights, masks and learned values."""
        values["index"] = torch.from_numpy(self._places(batch, dims))
        for name in batch.keys() - self._known:
            array = batch[name]
            if array.shape[: len(dims)] != dims:
                if array.shape[:1] != dims[:1]:
                    # Offsets of ragged episodes have one entry more than there are episodes.
                    continue
                array = np.broadcast_to(array[:, None], dims).copy()
            values_of = values
            *folders, last = _RENAMED.get(name, (name,))
            for part in folders:
                values_of = values_of.setdefault(part, {})
            values_of[last] = torch.from_numpy(array)

    def _places(self, batch: Any, dims: tuple[int, ...]) -> NDArray[np.int64]:
        """Return the index of each place; -1 where it holds no transition."""
        index: NDArray[np.int64] = batch["index"]
        if index.shape == dims:
            return index
        first = index - (dims[1] - 1 if self._leading else 0)
        places = first[:, None] + np.arange(dims[1])
        mask = batch.get("mask")
        return places if mask is None else np.where(mask, places, -1)


def _tensordict(values: dict[str, Any], size: torch.Size) -> TensorDict:
    parts = {
        name: _tensordict(value, size) if type(value) is dict else value
        for name, value in values.items()
    }
    return _make(parts, batch_size=size)
