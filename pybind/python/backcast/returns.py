"""Returns over the windows of a batch: discounted, lambda-returns, and generalised advantages.

>>> import backcast as bc, numpy as np
>>> buf = bc.ReplayBuffer.create(None, {"obs": "f4", "reward": "f4"}, capacity=100)
>>> with buf.writer() as writer:
...     for t in range(20):
...         at = writer.append(obs=t, reward=1, terminated=False, truncated=False)
>>> batch = buf.sampler(seed=7, history=8, boundary="reject").sample(32)
>>> values, next_values = np.zeros((32, 8)), np.zeros((32, 8))  # of your network
>>> advantages, returns = bc.returns.gae(batch, values, next_values, gamma=0.99, lam=0.95)
>>> returns.shape
(32, 8)

A batch of ``form=bc.WholeEpisodes("ragged")`` holds ``N`` transitions, one episode after the other:
values and results are ``[N]`` then, and each episode has returns of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from backcast._calls import explained
from backcast._counts import number_of
from backcast._native import _window_returns
from backcast.errors import ArgumentTypeError, SampleError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    _Gamma = float | Literal["discount"]

__all__ = ["Advantages", "discounted", "gae", "lambda_returns"]


class Advantages(NamedTuple):
    """Result of :func:`gae`: both ``[B, T]``, or ``[N]``, of the dtype of the values."""

    advantages: NDArray[Any]
    #: ``advantages + values``: targets of the value function.
    returns: NDArray[Any]


@explained
def gae(
    batch: Mapping[str, Any],
    values: ArrayLike,
    next_values: ArrayLike,
    *,
    gamma: _Gamma,
    lam: float,
) -> Advantages:
    """Estimate advantages over the windows of a batch (GAE).

    ``A[t] = r[t] + gamma c V' - V + gamma lam A[t+1]``, where ``c`` is 0 if transition ``t``
    terminated, ``V`` and ``V'`` are the values before and after it, and the last term is left out
    where the window or its episode ends (Schulman et al., "High-dimensional continuous control
    using generalized advantage estimation", ICLR 2016, equation 16). Truncated transitions
    bootstrap from the value of their final observation.

    Parameters
    ----------
    batch : Batch
        Has ``reward``, ``terminated`` and ``truncated`` over the same window. ``T`` is ``H + F``:
        the transitions of the history, or 1 without one, and those of the future. A ragged batch
        of whole episodes has ``offsets``, and all arrays are ``[N]`` in place of ``[B, T]``.
    values : array_like of float, [B, T]
        Values of ``obs``, history first, then ``future``.
    next_values : array_like of float, [B, T]
        Values of ``next_obs``, the observations after each transition. Not read where a transition
        terminated, nor in places without a transition.
    gamma : float or "discount"
        Discount per transition, 0 to 1, or ``"discount"`` for the column of that name.
    lam : float
        Lambda, 0 to 1.

    Returns
    -------
    Advantages
        Advantages and returns, 0 in places that hold no transition. Sums are made in float64.

    Raises
    ------
    SampleError
        If a shape differs from that of the rewards, or a number is out of range.
    """
    steps = _Steps(batch, gamma)
    advantages, returns = steps.compute(lam, next_values, values)
    assert advantages is not None
    return Advantages(advantages, returns)


@explained
def lambda_returns(
    batch: Mapping[str, Any],
    next_values: ArrayLike,
    *,
    gamma: _Gamma,
    lam: float,
) -> NDArray[Any]:
    """Compute lambda-returns over the windows of a batch.

    ``G[t] = r[t] + gamma c ((1 - lam) V' + lam G[t+1])``, and ``r[t] + gamma c V'`` where the
    window or its episode ends (Sutton & Barto, "Reinforcement Learning", 2nd edition, 2018,
    section 12.1 and equation 12.18). Terms, parameters and errors are those of :func:`gae`.

    Parameters
    ----------
    batch : Batch
        Has ``reward``, ``terminated`` and ``truncated`` over the same window.
    next_values : array_like of float, [B, T]
        Values of the observations after each transition.
    gamma : float or "discount"
        Discount per transition, 0 to 1, or ``"discount"`` for the column of that name.
    lam : float
        Lambda, 0 to 1: 0 gives one-step targets.

    Returns
    -------
    ndarray, [B, T] or [N]
        Returns of the dtype of the values; 0 in places that hold no transition.

    Raises
    ------
    SampleError
        If a shape differs from that of the rewards, or a number is out of range.
    """
    return _Steps(batch, gamma).compute(lam, next_values, None)[1]


@explained
def discounted(
    batch: Mapping[str, Any],
    next_values: ArrayLike | None = None,
    *,
    gamma: _Gamma,
) -> NDArray[Any]:
    """Compute discounted returns up to the end of each window or episode.

    Parameters
    ----------
    batch : Batch
        Has ``reward``, ``terminated`` and ``truncated`` over the same window.
    next_values : array_like of float, [B, T], optional
        Values of the observations after each transition; 0 when left out. The discounted value
        after the last transition of a window or episode is added, unless that one terminated.
    gamma : float or "discount"
        Discount per transition, 0 to 1, or ``"discount"`` for the column of that name.

    Returns
    -------
    ndarray, [B, T] or [N]
        Returns of the dtype of the values, or of the rewards where there are none. Where that is
        no float, they are floats. 0 in places that hold no transition.

    Raises
    ------
    SampleError
        If a shape differs from that of the rewards, or a number is out of range.
    """
    return _Steps(batch, gamma).compute(1.0, next_values, None)[1]


class _Steps:
    """Transitions of the windows of a batch, ``[B, T]``; of a ragged one, ``[N]``."""

    def __init__(self, batch: Mapping[str, Any], gamma: _Gamma) -> None:
        if not isinstance(batch, Mapping):
            raise ArgumentTypeError(f"batch is {batch!r}; give what a sampler drew")
        self.ends = _episode_ends(batch)
        self.rewards = self._joined(batch, "reward", np.dtype(np.float64))
        rewards = np.asarray(batch["reward"]).dtype
        # Whole numbers hold no discounted sum.
        whole = rewards.kind in "iub"
        self.dtype = np.result_type(rewards, np.float32) if whole else rewards
        self.terminated = self._like(batch, "terminated", np.dtype(np.bool_))
        self.truncated = self._like(batch, "truncated", np.dtype(np.bool_))
        if self.ends is not None:
            # No sum passes from one episode to another.
            self.truncated[self.ends] = True
        mask = batch.get("mask")
        if mask is None:
            now = np.asarray(batch["reward"])
            single = now.ndim == 1 and self.ends is None
            mask = np.ones((len(now), 1) if single else now.shape, np.bool_)
        mask = np.asarray(mask)
        if batch.get("future_mask") is not None:
            mask = np.concatenate([mask, batch["future_mask"]], axis=1)
        if mask.shape != self.rewards.shape:
            raise SampleError(
                f"the masks of the batch are {mask.shape}, and its rewards {self.rewards.shape}; "
                "give `reward` the longest window"
            )
        self.mask = mask
        self.discounts: NDArray[np.float64] | None = None
        if isinstance(gamma, str):
            if gamma != "discount":
                raise SampleError(f'gamma is {gamma!r}; give a number, 0 to 1, or "discount"')
            self.discounts = self._like(batch, "discount", np.dtype(np.float64))
            self.gamma = 1.0
        else:
            self.gamma = number_of(gamma, "gamma", 'a number, 0 to 1, or "discount"')

    def _like(self, batch: Mapping[str, Any], key: str, dtype: np.dtype[Any]) -> NDArray[Any]:
        return self._checked(key, self._joined(batch, key, dtype))

    def _joined(self, batch: Mapping[str, Any], key: str, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return history and future of a column of single numbers, ``[B, T]`` or ``[N]``."""
        now = np.asarray(batch[key])
        if now.ndim not in (1, 2):
            raise SampleError(f"`{key}` is {now.shape}; give one number for each transition")
        if self.ends is not None:
            return now.astype(dtype)
        now = now.reshape(len(now), -1).astype(dtype)
        future = batch.get("future")
        if future is not None:
            now = np.concatenate([now, np.asarray(future[key]).astype(dtype)], axis=1)
        return now

    def _checked(self, what: str, array: NDArray[Any]) -> NDArray[Any]:
        if array.shape != self.rewards.shape:
            raise SampleError(
                f"{what} is {array.shape}, and the rewards of the windows are "
                f"{self.rewards.shape}; give one number for each transition, history first"
            )
        return array

    def compute(
        self, lam: float, next_values: ArrayLike | None, values: ArrayLike | None
    ) -> tuple[NDArray[Any] | None, NDArray[Any]]:
        given = {"next_values": next_values, "values": values}
        arrays: dict[str, NDArray[np.float64] | None] = {}
        dtype = self.dtype
        for what, numbers in given.items():
            if numbers is None:
                arrays[what] = None
                continue
            array = np.asarray(numbers)
            if array.dtype in (np.dtype(np.float32), np.dtype(np.float64)):
                dtype = array.dtype
            elif array.dtype.kind not in "iuf":
                raise SampleError(f"{what} is of dtype {array.dtype}; give floats")
            arrays[what] = self._checked(what, array.astype(np.float64))
        flat = np.ravel
        found = _window_returns(
            self.rewards.shape[-1],
            flat(self.rewards),
            None if arrays["next_values"] is None else flat(arrays["next_values"]),
            None if arrays["values"] is None else flat(arrays["values"]),
            flat(self.terminated),
            flat(self.truncated),
            flat(self.mask),
            None if self.discounts is None else flat(self.discounts),
            self.gamma,
            number_of(lam, "lam", "a number from 0 to 1"),
        )
        advantages, returns = found
        shape = self.rewards.shape
        if advantages is not None:
            advantages = advantages.reshape(shape).astype(dtype, copy=False)
        return advantages, returns.reshape(shape).astype(dtype, copy=False)


def _episode_ends(batch: Mapping[str, Any]) -> NDArray[np.int64] | None:
    """Return the places of the last transitions of ragged episodes; None for other batches."""
    if "mask" in batch or "future" in batch or "offsets" not in batch:
        return None
    offsets, rewards = np.asarray(batch["offsets"]), np.asarray(batch["reward"])
    # A ring may have a column `offsets` of its own, which does not make its batches ragged.
    ragged = (
        offsets.dtype == np.int64
        and offsets.ndim == rewards.ndim == 1
        and len(offsets) > 1
        and offsets[0] == 0
        and offsets[-1] == len(rewards)
        and bool((np.diff(offsets) > 0).all())
    )
    return offsets[1:] - 1 if ragged else None
