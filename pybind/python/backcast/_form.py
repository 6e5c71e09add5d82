"""Forms: what a sampler draws, if not single transitions with the windows around them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from backcast._calls import explained_as


@dataclass(frozen=True)
class WholeEpisodes:
    """Draw whole episodes, ``B`` of them, uniformly over the complete ones within capacity.

    An episode is complete if it terminated or was truncated and its first row is within capacity.
    One that begins after a GAP, as the first one of every writer does, counts only while the ring
    holds the end of the episode before it. Whole episodes go with ``columns``, ``copy`` and
    ``transform``; a rate limiter counts each as one item. ``out`` and :meth:`Sampler.batches` need
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
    """

    layout: Literal["padded", "ragged"] = "padded"
    max_length: int | None = None


WholeEpisodes.__module__ = "backcast"
WholeEpisodes.__init__ = explained_as(length="max_length")(  # type: ignore[method-assign]
    WholeEpisodes.__init__
)
