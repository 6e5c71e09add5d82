"""Hindsight relabelling: how goals are drawn, and the functions of their rewards and ends."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from backcast._calls import explained
from backcast._counts import number_of
from backcast._trees import flat, value_at
from backcast.errors import ArgumentError, ArgumentTypeError, SampleError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import ArrayLike, NDArray

_Strategy = Literal["future", "final", "episode"]


@dataclass(frozen=True, init=False, repr=False, slots=True)
class Hindsight:
    """Goals in hindsight: some drawn transitions get a goal that their episode achieved (HER).

    Each transition is relabelled with probability ``k / (k + 1)``, independently (Andrychowicz et
    al., "Hindsight experience replay", NeurIPS 2017). Its desired goal, in all its windows, becomes
    the achieved goal of a row of its episode, drawn uniformly by the sampler's seed. Its reward
    becomes that of ``reward``. The flags of its end stay, unless ``terminated`` is given.

    Parameters
    ----------
    reward : callable
        ``reward(achieved, desired, info)``: rewards of all transitions of a batch in one call.
        ``achieved`` are the goals after each transition, ``desired`` those that it was to achieve,
        ``[B, ...]``, or ``[B, H, ...]`` of windows; ``info`` is the batch. Returns ``[B]``, or
        ``[B, H]``. ``compute_reward`` of a vectorised goal environment fits. It is called again for
        the future window. Only rewards of relabelled transitions are stored. A draw raises
        ``SampleError`` for rewards that have another shape, are no numbers, or are too large for
        the column.
    strategy : {"future", "final", "episode"}
        ``"future"``: what this transition or a later one of its episode achieved; ``"final"``: what
        the last one achieved; ``"episode"``: what any of them achieved whose row is in the ring.
        The newest row of an episode that still runs counts as its end.
    k : float, default 4
        Relabelled transitions for each one that keeps its goal.
    ratio : float, optional
        Share of relabelled transitions, 0 to 1, in place of ``k``.
    achieved, desired : str
        Observation columns of the goals, of one dtype and shape.
    terminated : callable, optional
        ``terminated(achieved, desired, info)``: whether each transition ends its episode, of the
        shape of the rewards. It is called after ``reward``, with the same arguments, and decides
        ``terminated`` of relabelled transitions: where the new goal is reached, the task is over.
        A plain ``False`` says that nothing ends. ``info["terminated"]`` is what was stored, for
        ends that no goal has caused. A transition that was terminated and is not any more becomes
        truncated. Masks stay: places after the new end are still shown.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If a number is out of range, ``k`` and ``ratio`` are both given, the strategy is unknown,
        ``reward`` or ``terminated`` is not callable, or a column name is no str.
    """

    reward: Callable[[NDArray[Any], NDArray[Any], Mapping[str, Any]], ArrayLike]
    strategy: _Strategy
    ratio: float
    achieved: str
    desired: str
    terminated: Callable[[NDArray[Any], NDArray[Any], Mapping[str, Any]], ArrayLike] | None

    @explained
    def __init__(
        self,
        reward: Callable[[NDArray[Any], NDArray[Any], Mapping[str, Any]], ArrayLike],
        strategy: _Strategy = "future",
        *,
        k: float | None = None,
        ratio: float | None = None,
        achieved: str = "obs/achieved_goal",
        desired: str = "obs/desired_goal",
        terminated: Callable[[NDArray[Any], NDArray[Any], Mapping[str, Any]], ArrayLike]
        | None = None,
    ) -> None:
        if not callable(reward):
            raise ArgumentTypeError(
                f"reward is {reward!r}; give a function reward(achieved, desired, info)"
            )
        if terminated is not None and not callable(terminated):
            raise ArgumentTypeError(
                f"terminated is {terminated!r}; give a function terminated(achieved, desired, "
                "info), or None to keep what is stored"
            )
        if strategy not in get_args(_Strategy):
            raise ArgumentError(f'strategy is {strategy!r}; give "future", "final" or "episode"')
        for what, name in (("achieved", achieved), ("desired", desired)):
            if not isinstance(name, str):
                raise ArgumentTypeError(f"{what} is {name!r}; give the name of a column")
        if k is not None and ratio is not None:
            raise ArgumentError(f"k={k} and ratio={ratio} say the same; give one of them")
        if ratio is None:
            times = 4.0 if k is None else number_of(k, "k", "a number from 0 up")
            if not 0 <= times < float("inf"):
                raise ArgumentError(f"k is {k}; give a number from 0 up")
            ratio = times / (times + 1)
        ratio = number_of(ratio, "ratio", "a number from 0 to 1")
        if not 0 <= ratio <= 1:
            raise ArgumentError(f"ratio is {ratio}; give a number from 0 to 1")
        given = (reward, strategy, ratio, achieved, desired, terminated)
        for field, value in zip(fields(self), given, strict=True):
            object.__setattr__(self, field.name, value)

    def __repr__(self) -> str:
        """Show the settings."""
        ends = "" if self.terminated is None else ", terminated=..."
        return (
            f"Hindsight({self.strategy!r}, ratio={self.ratio:.6g}, achieved={self.achieved!r}, "
            f"desired={self.desired!r}{ends})"
        )

    def _store_rewards(self, batch: Mapping[str, Any], discounts: bool) -> None:
        """Store rewards and terminations of relabelled transitions in a gathered batch.

        ``discounts`` says that n-step returns have the discounts of the column ``discount``.
        """
        relabelled = batch["relabelled"]
        parts: list[tuple[Any, Any]] = [(batch, batch.get("mask"))]
        if "future" in batch:
            parts.append((batch["future"], batch["future_mask"]))
        for part, mask in parts:
            stored = part["reward"]
            achieved = value_at(part, f"next_{self.achieved}")
            desired = value_at(part, self.desired)
            rewards = _numbers(self.reward(achieved, desired, part), stored.shape)
            places = relabelled
            if stored.ndim == 2:
                # The mask has the longest window of the batch, and all windows end together.
                places = relabelled[:, None] & mask[:, mask.shape[1] - stored.shape[1] :]
            np.copyto(stored, _fitting(rewards, stored.dtype, places), where=places)
            if self.terminated is None:
                continue
            was = part["terminated"]
            now = _flags(self.terminated(achieved, desired, part), was.shape)
            lost = places & was & ~now
            if discounts:
                _check_discounts(batch["index"], part["discount"], lost, part is batch)
            if "truncated" in part:
                part["truncated"][lost] = True
            np.copyto(was, now, where=places)

    @np.errstate(over="ignore", invalid="ignore")
    def _store_returns(self, batch: Mapping[str, Any], n_step: int, gamma: float | None) -> None:
        """Store n-step returns of relabelled transitions, whose rewards are stored already.

        ``gamma`` is None where the column ``discount`` has the discounts.
        """
        relabelled = batch["relabelled"]
        used = relabelled[:, None]
        if n_step > 1:
            used = np.concatenate([used, used & batch["future_mask"][:, : n_step - 1]], axis=1)
        sums, left = np.zeros(len(used)), np.ones(len(used))
        over = np.zeros(len(used), bool)
        for step in range(used.shape[1]):
            on = used[:, step] & ~over
            factor = gamma if gamma is not None else _at(batch, "discount", 1, step)[on]
            sums[on] += left[on] * _at(batch, "reward", 1, step)[on]
            left[on] *= factor
            if self.terminated is not None:
                ends = on & _at(batch, "terminated", 1, step)
                if not ends.any():
                    continue
                over |= ends
                for name, last in flat(batch):
                    if name.startswith("n_next_"):
                        last[ends] = _at(batch, name[2:], last.ndim, step)[ends]
        # A sum that is too large for the column is infinite, as that of stored rewards is.
        np.copyto(batch["n_reward"], sums, where=relabelled, casting="same_kind")
        if self.terminated is not None:
            left[over] = 0
            np.copyto(batch["n_discount"], left, where=relabelled, casting="same_kind")


Hindsight.__module__ = "backcast"


def _at(batch: Mapping[str, Any], name: str, ndim: int, step: int) -> NDArray[Any]:
    """Return a column at the transition that lies ``step`` after the drawn one.

    ``ndim`` counts the axes of the column without a window.
    """
    if step > 0:
        return np.asarray(value_at(batch["future"], name)[:, step - 1])
    drawn = value_at(batch, name)
    return np.asarray(drawn[:, -1] if drawn.ndim > ndim else drawn)


def _check_discounts(
    index: NDArray[np.int64], discount: NDArray[Any], lost: NDArray[np.bool_], drawn: bool
) -> None:
    """Refuse a discount of 0 where a transition is not terminated any more.

    ``drawn`` says that the last place of a window is the drawn transition, else the one before the
    first place.
    """
    wrong = lost & (discount == 0)
    if wrong.any():
        item, *place = np.argwhere(wrong)[0].tolist()
        ahead = place[0] + 1 - (lost.shape[1] if drawn else 0) if place else 0
        row = int(index[item]) + ahead
        raise SampleError(
            f"the new goal does not terminate row {row % (1 << 48)} of lane {row >> 48}, whose "
            "stored discount is 0, so that nothing can be bootstrapped there; store the discount "
            "as it would be without the end: `terminated` says that the episode ends"
        )


def _returned(what: str, unit: str, returned: object) -> NDArray[Any]:
    """Convert the return value of a function of the user to an array of `unit`."""
    try:
        return np.asarray(returned)
    except (TypeError, ValueError, RuntimeError) as error:
        raise SampleError(
            f"{what} returned {type(returned).__name__}, which NumPy cannot read ({error}); return "
            f"an array of one {unit} for each transition"
        ) from error


def _check_shape(what: str, unit: str, found: NDArray[Any], shape: tuple[int, ...]) -> None:
    if found.shape != shape:
        raise SampleError(
            f"{what} returned {found.shape}, and the batch has rewards of {shape}; return one "
            f"{unit} for each transition"
        )


def _numbers(returned: object, shape: tuple[int, ...]) -> NDArray[Any]:
    """Convert the return value of the reward function to an array of numbers."""
    rewards = _returned("reward", "number", returned)
    if rewards.dtype.kind not in "biuf":
        raise SampleError(
            f"reward returned an array of {rewards.dtype}; return one number for each transition, "
            "such as float32"
        )
    _check_shape("reward", "number", rewards, shape)
    return rewards


def _flags(returned: object, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Convert the return value of the function of the terminations to an array of bool."""
    flags = _returned("terminated", "bool", returned)
    if flags.dtype != np.bool_:
        raise SampleError(
            f"terminated returned an array of {flags.dtype}; return one bool for each transition, "
            "such as achieved == desired"
        )
    if flags.ndim == 0 and not flags:
        return np.zeros(shape, np.bool_)
    _check_shape("terminated", "bool", flags, shape)
    return flags


def _fitting(
    rewards: NDArray[Any], dtype: np.dtype[Any], places: NDArray[np.bool_]
) -> NDArray[Any]:
    """Cast rewards to the column's dtype. Refuse finite ones that would become infinite."""
    with np.errstate(over="ignore"):
        cast = rewards.astype(dtype)
    lost = np.isinf(cast) & np.isfinite(rewards) & places
    if lost.any():
        at = np.argwhere(lost)[0].tolist()
        code = f"{dtype.kind}{dtype.itemsize}"
        raise SampleError(
            f"reward returned {rewards[tuple(at)]} at {at}, which does not fit the column `reward` "
            f"of {code}; return numbers of at most {np.finfo(dtype).max}, or give the column f8"
        )
    return cast
