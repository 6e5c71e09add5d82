"""Selectors: rules by which a sampler chooses what it draws, for those rules that have options.

`ReplayBuffer.sampler` reads and checks the fields.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from backcast._calls import explained_as

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike


@dataclass(frozen=True)
class Priority:
    """Draw by priorities or by their ranks, with importance weights (Schaul et al., ICLR 2016).

    Transition ``i`` is drawn with probability proportional to ``(p[i] + eps) ** alpha``, where
    ``p[i]`` was set by :meth:`Sampler.update_priorities`. Transitions that no priority was set for
    have the one of `initial`. By rank, ``p[i] + eps`` is replaced by ``1 / rank[i]``.

    Parameters
    ----------
    alpha : float, triple or "table", default 0.6
        Exponent of the priorities: 0 is uniform, 1 in proportion to them. A number is fixed when
        the table is made. A triple ``(first, last, batches)`` moves from ``first`` to ``last`` over
        ``batches`` batches, in at most 100 steps; where several samplers have one, the one that is
        furthest decides. ``"table"`` is the exponent that the table has, 0.6 at first, which
        :attr:`Sampler.alpha` sets for all its samplers.
    beta : float, pair or function, default 0.4
        Exponent of the importance weights ``batch["weight"]``, 0 to 1. A pair ``(first, batches)``
        grows linearly from ``first`` to 1 over ``batches`` batches; a function is called with the
        number of the batch.
    eps : float, default 1e-6
        Number that is added to every priority.
    stratified : bool, default False
        Draw one transition from each of ``B`` ranges of equal total priority.
    normalize : {"batch", "table"}, default "batch"
        Largest weight that the others are divided by: that of the batch, or of the table. The
        latter may be that of a transition that ``boundary="reject"`` never draws; then all weights
        drawn are below 1.
    table : str, default "priority"
        Name of the table. Samplers of one name share the table, in all processes, with equal
        ``eps`` and ``initial``, and an equal number as ``alpha`` or none.
    initial : {"ever", "held"}, default "ever"
        ``(p + eps) ** alpha`` of new transitions. With ``"ever"``, the largest that was ever set in
        the table, and at least 1. With ``"held"``, the largest that a transition of the ring has
        when they enter, or 1 if none has one. After all ``p`` were set to 0.1, new ones begin at 1,
        or at 0.1.
    by : {"priority", "rank"}, default "priority"
        What the probability depends on. ``"rank"`` counts from 1, the largest priority of all.
        Priorities that agree in their highest five bits, so that they differ by less than one part
        in 16, are equal; transitions of equal priority share the mean of ``rank ** -alpha``. Every
        sampler then has an ``alpha`` of its own, a number or a triple.

    Examples
    --------
    >>> buf = bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=100)
    >>> with buf.writer() as writer:
    ...     for t in range(10):
    ...         at = writer.append(obs=t, terminated=False, truncated=False)
    >>> sampler = buf.sampler(select=bc.Priority(alpha=0.6, beta=(0.4, 10_000)))
    >>> batch = sampler.sample(32)
    >>> sampler.update_priorities(batch.index, [0.5] * 32)
    0
    """

    alpha: float | tuple[float, float, int] | Literal["table"] = 0.6
    beta: float | tuple[float, int] | Callable[[int], float] = 0.4
    eps: float = 1e-6
    stratified: bool = False
    normalize: Literal["batch", "table"] = "batch"
    table: str = "priority"
    initial: Literal["ever", "held"] = "ever"
    by: Literal["priority", "rank"] = "priority"


@dataclass(frozen=True)
class _Ranked:
    """Settings of a table of priorities."""

    alpha: float = 0.6
    eps: float = 1e-6
    table: str = "priority"
    initial: Literal["ever", "held"] = "ever"


class Largest(_Ranked):
    """Draw the ``B`` transitions of largest priority, largest first, without weights.

    Parameters
    ----------
    alpha : float, default 0.6
        Exponent of the priorities, a setting of the table as in :class:`Priority`.
    eps : float, default 1e-6
        Number that is added to every priority, equal in all its samplers.
    table : str, default "priority"
        Name of the table of priorities.
    initial : {"ever", "held"}, default "ever"
        Priority of new transitions, as in :class:`Priority`; equal in all its samplers.
    """


class Smallest(_Ranked):
    """Draw the ``B`` transitions of smallest priority, smallest first, without weights.

    Parameters
    ----------
    alpha : float, default 0.6
        Exponent of the priorities, a setting of the table as in :class:`Priority`.
    eps : float, default 1e-6
        Number that is added to every priority, equal in all its samplers.
    table : str, default "priority"
        Name of the table of priorities.
    initial : {"ever", "held"}, default "ever"
        Priority of new transitions, as in :class:`Priority`; equal in all its samplers.
    """


@dataclass(frozen=True)
class Recency:
    """Draw newer transitions more often.

    Parameters
    ----------
    half_life : float
        Rows of a lane over which the weight of a transition halves, above 0.
    """

    half_life: float


@dataclass(frozen=True, eq=False)
class LaneWeights:
    """Draw a lane in proportion to its weight, then a transition of it uniformly.

    Parameters
    ----------
    weights : array_like of float, [lanes]
        One weight for each lane, from 0 up. Lanes without transitions are left out.
    """

    weights: ArrayLike


@dataclass(frozen=True)
class Epoch:
    """Draw without replacement: pass after pass over all that the ring holds.

    All samplers of a table share its passes, in all processes: each transition of a pass goes to
    one of them, so ``share`` has no effect. A batch may end one pass and begin the next, and then
    have a transition twice.

    Parameters
    ----------
    shuffle : bool, default True
        Shuffle each pass; oldest first if not.
    seed : int, default 0
        Seed of the shuffled order, equal in all samplers of the table.
    table : str, default "epoch"
        Name of the table.
    """

    shuffle: bool = True
    seed: int = 0
    table: str = "epoch"


@dataclass(frozen=True)
class Consume:
    """Draw new transitions only, each at most ``max_times_sampled`` times: a queue.

    All samplers of a table share the queue, in all processes, so ``share`` has no effect. Draws
    wait for new transitions. One that times out keeps what it claimed for the next draw of its
    sampler, which may ask for fewer. ``sample(None)`` draws all that is new, up to ``at_most``, and
    waits for one item; with ``timeout=0`` it drains a rest until :exc:`WaitTimeoutError`. With a
    rate limiter it may end with :exc:`RateLimitTimeoutError` instead. Rows that writers overwrite
    before they are drawn are skipped, as are those that are too old for ``max_age``. A rate limiter
    does not prevent that: while a draw waits for
    rows, it holds no writer back. A sampler that is closed gives back what it claimed and did not
    return, unless another has claimed since; a process that is killed loses it, the batches that
    :meth:`Sampler.batches` drew ahead included.

    Parameters
    ----------
    max_times_sampled : int, default 1
        Passes over the same transitions before later ones are drawn.
    shuffle : bool, default False
        Shuffle each pass; oldest first if not.
    seed : int, default 0
        Seed of the shuffled order, equal in all samplers of the table.
    table : str, default "consume"
        Name of the table.
    """

    max_times_sampled: int = 1
    shuffle: bool = False
    seed: int = 0
    table: str = "consume"


# Names that options have in other libraries and in papers.
_ELSEWHERE = {
    "priority": "alpha",
    "exponent": "alpha",
    "weights": "normalize",
    "epsilon": "eps",
    "name": "table",
    "times": "max_times_sampled",
}

for _class in (Priority, Largest, Smallest, Recency, LaneWeights, Epoch, Consume):
    _class.__module__ = "backcast"
    _class.__init__ = explained_as(**_ELSEWHERE)(_class.__init__)  # type: ignore[method-assign]
