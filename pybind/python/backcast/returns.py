"""Returns over the windows of a batch, such as GAE, and V-trace and Retrace for steps of others.

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
values and results are ``[N]`` then, and each episode has returns of its own. A block of
``form=bc.Rollout(T)`` is time-major: values and results are ``[T, N]`` then.
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

__all__ = ["Advantages", "VTrace", "discounted", "gae", "lambda_returns", "retrace", "vtrace"]


class Advantages(NamedTuple):
    """Result of :func:`gae`: both of the shape and the dtype of the values."""

    advantages: NDArray[Any]
    #: ``advantages + values``: targets of the value function.
    returns: NDArray[Any]


class VTrace(NamedTuple):
    """Result of :func:`vtrace`: both of the shape and the dtype of the values."""

    #: Targets of the value function.
    targets: NDArray[Any]
    #: What the gradient of the policy is weighed by.
    advantages: NDArray[Any]


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
        of whole episodes has ``offsets``, and all arrays are ``[N]`` in place of ``[B, T]``. Those
        of a block of rollouts are ``[T, N]``.
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
        If the batch lacks a column, a shape differs from that of the rewards, or a number is out of
        range.
    ArgumentTypeError
        If the batch is no mapping, or an array is None.
    """
    steps = _Steps(batch, gamma)
    given = {"next_values": next_values, "values": values}
    advantages, returns = steps.compute(lam, given)
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
        If the batch lacks a column, a shape differs from that of the rewards, or a number is out of
        range.
    ArgumentTypeError
        If the batch is no mapping, or an array is None.
    """
    return _Steps(batch, gamma).compute(lam, {"next_values": next_values})[1]


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
        If the batch lacks a column, a shape differs from that of the rewards, or a number is out of
        range.
    ArgumentTypeError
        If the batch is no mapping.
    """
    given = {} if next_values is None else {"next_values": next_values}
    return _Steps(batch, gamma).compute(1.0, given)[1]


@explained
def vtrace(
    batch: Mapping[str, Any],
    values: ArrayLike,
    next_values: ArrayLike,
    ratios: ArrayLike,
    *,
    gamma: _Gamma,
    lam: float = 1.0,
    rho_clip: float = 1.0,
    c_clip: float = 1.0,
) -> VTrace:
    """Compute targets and advantages of V-trace, for steps that another policy chose.

    ``X[t] = min(rho_clip, w) (r[t] + gamma c V' - V) + gamma lam min(c_clip, w) X[t+1]``, without
    the last term where the window or its episode ends. The target is ``V + X[t]``. The advantage is
    ``min(rho_clip, w) (r[t] + gamma c U - V)``, where ``U`` is the target of the next transition,
    or ``V'`` where the window or its episode ends (Espeholt et al., "IMPALA", ICML 2018, section
    4.1, equations 1 and 4). Terms are those of :func:`gae`. Unlike in the paper, truncated
    transitions bootstrap from the value of their final observation.

    Parameters
    ----------
    batch : Batch
        As for :func:`gae`.
    values : array_like of float, [B, T]
        Values of ``obs``, history first, then ``future``.
    next_values : array_like of float, [B, T]
        Values of ``next_obs``, as for :func:`gae`.
    ratios : array_like of float, [B, T]
        ``w``, from 0 up: the probability of each action under the policy that learns, divided by
        its probability under the one that acted, often ``np.exp(logp - logp_then)``. Not read in
        places without a transition.
    gamma : float or "discount"
        Discount per transition, 0 to 1, or ``"discount"`` for the column of that name.
    lam : float, default 1.0
        Lambda, 0 to 1: the share of later corrections.
    rho_clip : float, default 1.0
        Largest ratio that weighs a correction, above 0. Decides which policy is evaluated.
    c_clip : float, default 1.0
        Largest ratio that weighs later corrections, above 0. Decides how fast values converge. The
        paper takes at most ``rho_clip``.

    Returns
    -------
    VTrace
        Targets and advantages, 0 in places that hold no transition. Sums are made in float64.

    Raises
    ------
    SampleError
        If the batch lacks a column, a shape differs from that of the rewards, or a number is out of
        range.
    ArgumentTypeError
        If the batch is no mapping, or an array is None.

    Examples
    --------
    >>> no = np.zeros((1, 2), bool)
    >>> batch = {"reward": np.ones((1, 2)), "terminated": no, "truncated": no}
    >>> bc.returns.vtrace(batch, [[1.0, 2.0]], [[2.0, 4.0]], [[0.5, 3.0]], gamma=0.5).targets
    array([[1.75, 3.  ]])
    """
    steps = _Steps(batch, gamma)
    limits = [number_of(rho_clip, "rho_clip", _LIMIT), number_of(c_clip, "c_clip", _LIMIT)]
    given = {"next_values": next_values, "values": values, "ratios": ratios}
    advantages, targets = steps.compute(lam, given, (limits[0], limits[1]))
    assert advantages is not None
    return VTrace(targets, advantages)


@explained
def retrace(
    batch: Mapping[str, Any],
    action_values: ArrayLike,
    next_values: ArrayLike,
    ratios: ArrayLike,
    *,
    gamma: _Gamma,
    lam: float = 1.0,
) -> NDArray[Any]:
    """Compute targets of action values by Retrace, for steps that another policy chose.

    ``G[t] = r[t] + gamma c (V' + lam min(1, w[t+1]) (G[t+1] - Q[t+1]))``, and
    ``r[t] + gamma c V'`` where the window or its episode ends (Munos et al., "Safe and efficient
    off-policy reinforcement learning", NeurIPS 2016, equations 3 and 4). Other terms are those of
    :func:`vtrace`.

    Parameters
    ----------
    batch : Batch
        As for :func:`gae`.
    action_values : array_like of float, [B, T]
        ``Q``: values of the actions that were taken, history first, then ``future``.
    next_values : array_like of float, [B, T]
        ``V'``: mean values of ``next_obs`` over the actions of the policy that learns.
    ratios : array_like of float, [B, T]
        ``w``, as for :func:`vtrace`.
    gamma : float or "discount"
        Discount per transition, 0 to 1, or ``"discount"`` for the column of that name.
    lam : float, default 1.0
        Lambda, 0 to 1.

    Returns
    -------
    ndarray, [B, T] or [N]
        Targets of the dtype of the values; 0 in places that hold no transition.

    Raises
    ------
    SampleError
        If the batch lacks a column, a shape differs from that of the rewards, or a number is out of
        range.
    ArgumentTypeError
        If the batch is no mapping, or an array is None.

    Examples
    --------
    >>> no = np.zeros((1, 2), bool)
    >>> batch = {"reward": np.ones((1, 2)), "terminated": no, "truncated": no}
    >>> bc.returns.retrace(batch, [[1.0, 2.0]], [[2.0, 4.0]], [[0.5, 3.0]], gamma=0.5)
    array([[2.5, 3. ]])
    """
    given = {"next_values": next_values, "action_values": action_values, "ratios": ratios}
    return _Steps(batch, gamma).compute(lam, given)[1]


_LIMIT = "a number above 0, infinity for no limit"

#: What an error asks for in place of None.
_WANTED = {
    "values": "the values of `obs`, one number for each transition",
    "next_values": "the values of `next_obs`, one number for each transition",
    "action_values": "the values of the actions that were taken, one number for each transition",
    "ratios": "the probability ratios of the actions, one number for each transition; all 1 for "
    "steps of the policy that learns",
}


class _Steps:
    """Transitions of the windows of a batch, ``[B, T]``; of a ragged one, ``[N]``.

    Those of a block of rollouts, ``[T, N]``, are turned to ``[N, T]``.
    """

    def __init__(self, batch: Mapping[str, Any], gamma: _Gamma) -> None:
        if not isinstance(batch, Mapping):
            raise ArgumentTypeError(f"batch is {batch!r}; give what a sampler drew")
        self.ends = _episode_ends(batch)
        self.time_major = _is_time_major(batch)
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
        mask = self._turned(np.asarray(mask))
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

    def _turned(self, array: NDArray[Any]) -> NDArray[Any]:
        return array.T if self.time_major else array

    def _joined(self, batch: Mapping[str, Any], key: str, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return history and future of a column of single numbers, ``[B, T]`` or ``[N]``."""
        now = np.asarray(_column(batch, key))
        if now.ndim not in (1, 2):
            raise SampleError(f"`{key}` is {now.shape}; give one number for each transition")
        if self.ends is not None:
            return now.astype(dtype)
        now = self._turned(now.reshape(len(now), -1)).astype(dtype)
        future = batch.get("future")
        if future is not None:
            now = np.concatenate(
                [now, np.asarray(_column(future, key, "future")).astype(dtype)], axis=1
            )
        return now

    def _checked(self, what: str, array: NDArray[Any]) -> NDArray[Any]:
        if array.shape != self.rewards.shape:
            got, wanted = self._turned(array).shape, self._turned(self.rewards).shape
            order = "[T, N]" if self.time_major else "history first"
            raise SampleError(
                f"{what} is {got}, and the rewards of the windows are {wanted}; give one number "
                f"for each transition, {order}"
            )
        return array

    def compute(
        self,
        lam: float,
        given: Mapping[str, ArrayLike],
        clips: tuple[float, float] | None = None,
    ) -> tuple[NDArray[Any] | None, NDArray[Any]]:
        """Compute advantages, if the kind of return has them, and returns.

        The kind follows from what is given. The dtype is that of the last values given.
        """
        arrays: dict[str, NDArray[np.float64]] = {}
        dtype = self.dtype
        for what, numbers in given.items():
            if numbers is None:  # No type checker saw the call.
                raise ArgumentTypeError(f"{what} is None; give {_WANTED[what]}")
            array = np.asarray(numbers)
            if array.dtype.kind not in "iuf":
                raise SampleError(f"{what} is of dtype {array.dtype}; give floats")
            if what != "ratios" and array.dtype in (np.dtype(np.float32), np.dtype(np.float64)):
                dtype = array.dtype
            arrays[what] = self._checked(what, self._turned(array.astype(np.float64))).ravel()
        flat = np.ravel
        found = _window_returns(
            self.rewards.shape[-1],
            flat(self.rewards),
            arrays.get("next_values"),
            arrays.get("values", arrays.get("action_values")),
            flat(self.terminated),
            flat(self.truncated),
            flat(self.mask),
            None if self.discounts is None else flat(self.discounts),
            self.gamma,
            number_of(lam, "lam", "a number from 0 to 1"),
            arrays.get("ratios"),
            clips,
        )
        advantages, returns = found
        if advantages is not None:
            advantages = self._shaped(advantages, dtype)
        return advantages, self._shaped(returns, dtype)

    def _shaped(self, numbers: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return results as the batch has its transitions."""
        shaped = self._turned(numbers.reshape(self.rewards.shape))
        return np.ascontiguousarray(shaped).astype(dtype, copy=False)


def _column(batch: Mapping[str, Any], key: str, what: str = "batch") -> Any:  # noqa: ANN401
    """Return a column of a batch, or of the future of one."""
    if key not in batch:
        raise SampleError(
            f"the {what} has no `{key}`, it has {', '.join(map(str, batch))}; draw from a ring "
            f"that has the column, and name `{key}` in `columns` if the sampler chooses some"
        )
    return batch[key]


def _is_time_major(batch: Mapping[str, Any]) -> bool:
    """Return whether a batch is a block of rollouts: its index has one number a transition."""
    index = batch.get("index")
    return index is not None and np.ndim(index) == 2


def _episode_ends(batch: Mapping[str, Any]) -> NDArray[np.int64] | None:
    """Return the places of the last transitions of ragged episodes; None for other batches."""
    if "mask" in batch or "future" in batch or "offsets" not in batch:
        return None
    offsets, rewards = np.asarray(batch["offsets"]), np.asarray(_column(batch, "reward"))
    # A ring may have a column `offsets` of its own, which does not make its batches ragged. JAX
    # makes narrower numbers of those of a batch.
    if offsets.dtype.kind not in "iuf" or not offsets.ndim == rewards.ndim == 1:
        return None
    # Differences of unsigned numbers would wrap.
    offsets = offsets.astype(np.float64)
    ragged = (
        len(offsets) > 1
        and offsets[0] == 0
        and offsets[-1] == len(rewards)
        and bool((np.diff(offsets) > 0).all())
        and bool((offsets % 1 == 0).all())
    )
    return offsets[1:].astype(np.int64) - 1 if ragged else None
