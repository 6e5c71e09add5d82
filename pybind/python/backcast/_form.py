"""Forms: what a sampler draws, if not single transitions with the windows around them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from backcast._calls import explained_as

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True)
class Sequence:
    """Draw sequences: transition ``t`` of an episode and the ``length - 1`` after it, ``L`` in all.

    Every column is ``[B, L, ...]``, with ``next_*`` of the observations and ``mask`` bool
    ``[B, L]``; ``index`` and ``age`` are those of the starts. A start is every transition whose
    step in its episode is a multiple of ``stride``. Places after the end of an episode are zero,
    and their mask is false; only ``obs`` right after the last transition shows its ``next_obs``,
    unless ``copy=True``. A running episode is drawn only in full-length sequences, so that no step
    that is still to come is masked. An episode that ended or was cut is drawn in all its sequences,
    so that each of its steps is in at least one (Kapturowski et al., "Recurrent experience replay
    in distributed reinforcement learning", ICLR 2019, section 2.3).

    ``boundary="reject"`` leaves out sequences shorter than ``length``, and with them the last steps
    of most episodes. ``boundary="clamp"`` moves the last start of an episode back, so that its
    sequence ends with the episode; only episodes shorter than ``length`` are masked. Sequences go
    with every selector and with ``columns``, ``learned``, ``copy``, ``share``, ``max_age`` and
    ``transform``. A selector with priorities has one for each start, and does not go with
    ``"clamp"``; name a table for each stride: ``bc.Priority(table="by-40")``. A rate limiter counts
    each sequence as one item.

    Parameters
    ----------
    length : int
        Transitions of a sequence, ``L``.
    stride : int, optional
        Transitions from one start to the next, at most ``length``, which is the default.
    first : list of str, optional
        Columns of which only the value at the start is given, ``[B, ...]``, such as the recurrent
        state with which a sequence begins. They have no ``next_*``.

    Examples
    --------
    >>> columns = {"obs": "f4", "lstm": ("f4", (8,))}
    >>> buf = bc.ReplayBuffer.create(None, columns, capacity=100)
    >>> with buf.writer() as writer:
    ...     for t in range(50):
    ...         at = writer.append(obs=t, lstm=[0] * 8, terminated=False, truncated=False)
    >>> sampler = buf.sampler(seed=7, form=bc.Sequence(20, stride=10, first=["lstm"]))
    >>> batch = sampler.sample(32)
    >>> batch["obs"].shape, batch["lstm"].shape, batch.mask.shape
    ((32, 20), (32, 8), (32, 20))
    """

    length: int
    stride: int | None = None
    first: Iterable[str] = ()


@dataclass(frozen=True)
class WholeEpisodes:
    """Draw whole episodes, ``B`` of the complete ones within capacity.

    An episode is complete if it terminated or was truncated and its first row is within capacity.
    One exception: the first episode after a restart or a change of writers follows a GAP in its
    lane. It counts only if the episode before it ended, and while the ring holds that end. After an
    unfinished episode it never counts, since its rows may belong to that episode. The first episode
    of a new ring has no GAP before it, and counts.

    Episodes are drawn uniformly, or by ``select="fifo"``, ``"lifo"``, :class:`Priority`,
    :class:`Epoch` or :class:`Consume`, and go with ``columns``, ``copy``, ``share``, ``max_age``
    and ``transform``. A rate limiter counts each as one item, and inserts in transitions: give it
    ``samples_per_insert`` of 1 / length, and no :meth:`RateLimiter.queue`. The priority of an
    episode is that of its first transition: ``batch.index`` of padded ones,
    ``batch.index[batch["offsets"][:-1]]`` of ragged ones. A table, of priorities or of claims,
    serves one form; give another form another ``table``. ``out`` and :meth:`Sampler.batches` need
    ``"padded"`` with ``max_length``, since other batches vary in size.

    Parameters
    ----------
    layout : {"padded", "ragged"}, default "padded"
        ``"padded"``: every column is ``[B, L, ...]``, with ``mask`` ``[B, L]``, ``length`` int64
        ``[B]``, and ``index`` and ``age`` ``[B]`` of each first transition. Places beyond the end
        of an episode are zero; only ``obs[b, length[b]]`` is the final observation there, unless
        ``copy=True``. ``"ragged"``: every column is ``[N, ...]``, one episode after the other, with
        ``offsets`` int64 ``[B + 1]``.
    max_length : int, optional
        Transitions of the longest episode that is drawn, and ``L`` of padded arrays. When left out,
        ``L`` is that of the longest episode of the batch.
    by_length : bool, default False
        Choose an episode in proportion to its transitions, so that each transition of a complete
        episode is drawn alike. Only for uniform draws, that is without ``select``.
    """

    layout: Literal["padded", "ragged"] = "padded"
    max_length: int | None = None
    by_length: bool = False


@dataclass(frozen=True)
class Rollout:
    """Draw rollouts: blocks ``[T, N]`` of the new transitions of all lanes, for on-policy learners.

    Needs ``select=bc.Consume()``: each transition is in one block of all samplers that share the
    table, in any process. ``sample(None)`` returns one column for each ``length`` new transitions
    of a lane, oldest first, so a backlog is one block; ``sample(None, at_most=n)`` returns ``n``
    columns at most, and lanes with the largest backlog come first. ``sample(n)`` waits for exactly
    ``n`` columns. A draw never waits for a lane that lost its writer.

    Every column of the ring is ``[T, N, ...]``, with ``next_*`` of the observations. ``mask``,
    ``terminated``, ``truncated``, ``index`` and ``age`` are ``[T, N]``. Transitions go on across
    the ends of episodes: there ``next_*`` is the final observation. The last transition before a
    cut, as a restart or a killed writer leaves it, counts as truncated, so that no return passes
    over it. Places with a false mask are zero, with ``index`` -1. Only short columns have some, at
    their end: the rest of a lane without a writer, or of one whose oldest rows were overwritten or
    grew older than ``max_age`` after they were claimed. All arrays are writable.
    :mod:`backcast.returns` takes blocks as they are.

    Rollouts go with ``columns``, ``learned``, ``share``, ``max_age`` and ``transform``. A rate
    limiter counts transitions: ``limiter=bc.RateLimiter.queue(n)`` holds actors back that are
    ahead. ``out`` and :meth:`Sampler.batches` are refused.

    Parameters
    ----------
    length : int
        Transitions of a column, ``T``; at most half of what a lane keeps, since a transition that
        ends its episode takes two rows.
    lanes : int, optional
        Lanes that ``sample(None)`` waits for. When left out, it waits for all lanes that have a
        writer: actors that start later join later blocks. A number also waits for lanes that no
        writer has used yet, and for no lane that cannot get ready any more.

    Examples
    --------
    >>> buf = bc.ReplayBuffer.create(None, {"obs": "f4", "reward": "f4"}, capacity=100, lanes=2)
    >>> with buf.writer(lanes=2, autoreset_mode="next_step") as writer:
    ...     for t in range(21):
    ...         no = [False, False]
    ...         at = writer.append(obs=[t, t], reward=[1, 1], terminated=no, truncated=no)
    ...     sampler = buf.sampler(form=bc.Rollout(10), select=bc.Consume())
    ...     block = sampler.sample(None, at_most=2)
    >>> block["obs"].shape, block.mask.shape
    ((10, 2), (10, 2))
    """

    length: int
    lanes: int | None = None


Sequence.__module__ = WholeEpisodes.__module__ = Rollout.__module__ = "backcast"
Sequence.__init__ = explained_as(  # type: ignore[method-assign]
    seq_len="length", sequence_length="length", period="stride"
)(Sequence.__init__)
WholeEpisodes.__init__ = explained_as(length="max_length")(  # type: ignore[method-assign]
    WholeEpisodes.__init__
)
Rollout.__init__ = explained_as(  # type: ignore[method-assign]
    num_steps="length", n_steps="length", unroll_length="length", rollout_length="length"
)(Rollout.__init__)
