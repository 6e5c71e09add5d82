"""Hindsight relabelling: how goals are drawn, and the function of their rewards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from backcast._calls import explained
from backcast._counts import number_of
from backcast._trees import value_at
from backcast.errors import ArgumentError, ArgumentTypeError, SampleError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import ArrayLike, NDArray

_Strategy = Literal["future", "final", "episode"]


class Hindsight:
    """Goals in hindsight: some drawn transitions get a goal that their episode achieved (HER).

    Each transition is relabelled with probability ``k / (k + 1)``, independently (Andrychowicz et
    al., "Hindsight experience replay", NeurIPS 2017). Its desired goal, in all its windows, becomes
    the achieved goal of a row of its episode, drawn uniformly by the sampler's seed. Its reward
    becomes that of ``reward``. The flags of its end stay.

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

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If a number is out of range, ``k`` and ``ratio`` are both given, the strategy is unknown,
        ``reward`` is not callable, or a column name is no str.
    """

    # The values are the docstrings of the attributes.
    __slots__ = {
        "achieved": "Column of the achieved goals.",
        "desired": "Column of the desired goals.",
        "ratio": "Share of the transitions that are relabelled; ``k / (k + 1)`` of a given ``k``.",
        "reward": "Function of the rewards.",
        "strategy": "Rows that new goals are drawn from.",
    }

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
    ) -> None:
        if not callable(reward):
            raise ArgumentTypeError(
                f"reward is {reward!r}; give a function reward(achieved, desired, info)"
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
        self.reward = reward
        self.strategy = strategy
        self.ratio = ratio
        self.achieved = achieved
        self.desired = desired

    def __repr__(self) -> str:
        """Show the settings."""
        return (
            f"Hindsight({self.strategy!r}, ratio={self.ratio:.6g}, achieved={self.achieved!r}, "
            f"desired={self.desired!r})"
        )

    def _store_rewards(self, batch: Mapping[str, Any]) -> None:
        """Store the rewards of relabelled transitions in a batch that a sampler gathered."""
        relabelled = batch["relabelled"]
        parts = [(batch, batch.get("mask"))]
        if "future" in batch:
            parts.append((batch["future"], batch["future_mask"]))
        for part, mask in parts:
            stored = part["reward"]
            achieved = value_at(part, f"next_{self.achieved}")
            desired = value_at(part, self.desired)
            rewards = _rewards(self.reward(achieved, desired, part))
            if rewards.shape != stored.shape:
                raise SampleError(
                    f"reward returned {rewards.shape}, and the batch has rewards of "
                    f"{stored.shape}; return one number for each transition"
                )
            places = relabelled
            if stored.ndim == 2:
                places = relabelled[:, None] & mask
            np.copyto(stored, _fitting(rewards, stored.dtype, places), where=places)


Hindsight.__module__ = "backcast"


def _rewards(returned: object) -> NDArray[Any]:
    """Convert the return value of the reward function to an array of numbers."""
    try:
        rewards = np.asarray(returned)
    except (TypeError, ValueError, RuntimeError) as error:
        raise SampleError(
            f"reward returned {type(returned).__name__}, which NumPy cannot read ({error}); return "
            "an array of one number for each transition"
        ) from error
    if rewards.dtype.kind not in "biuf":
        raise SampleError(
            f"reward returned an array of {rewards.dtype}; return one number for each transition, "
            "such as float32"
        )
    return rewards


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
