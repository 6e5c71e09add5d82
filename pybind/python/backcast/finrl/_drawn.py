"""Reads of a buffer's transitions: batches, and one at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from backcast._calls import explained
from backcast._counts import count_of
from backcast._native import TransitionRing
from backcast.errors import ArgumentTypeError, SampleError
from backcast.finrl._rules import check_window, refuse_parts
from backcast.finrl._stored import StoredTransitions
from backcast.finrl._transition import VecStoredTransition

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from backcast.finrl._sample import Sample

Layout = Literal["ticker", "batched"]

_PARTS = frozenset(
    [
        *("portfolio", "tickers", "unique_tickers", "macro", "macro_tickers"),
        *("indicator_names", "action_shape", "env_ids", "day", "tokens"),
        *("terminated", "truncated"),
    ]
)


class DrawnTransitions(StoredTransitions):
    """The transitions of :class:`VecReplayBuffer`, which adds them."""

    def _around(self, ring: TransitionRing, batch_size: int) -> None:
        self._ring = ring
        self._batch_size = count_of(batch_size, "batch_size", 1, SampleError)
        self._sample = ring.sample
        taken = sorted(_PARTS & {*ring.panel.tickers})
        self._taken = taken[0] if taken else None

    @explained
    def sample(
        self,
        batch_size: int | None = None,
        history_length: int = 0,
        future_length: int = 0,
        *,
        layout: Layout = "ticker",
        copy: bool = False,
        indices: ArrayLike | None = None,
        out: Sample | None = None,
    ) -> Sample:
        """Draw transitions uniformly, with replacement, and look their market up.

        Parameters
        ----------
        batch_size : int, optional
            Transitions to draw, ``B``; at most as many as are stored. By default
            :attr:`batch_size`.
        history_length : int, default 0
            Days before a state's day, ``H``.
        future_length : int, default 0
            Days after it, ``F``.
        layout : {"ticker", "batched"}
            A dict of arrays ``[B, ...]`` for each ticker, or arrays ``[B, T, ...]`` over each
            sample's own tickers.
        copy : bool, default False
            Give state and next state separate memory. Otherwise, if the next day is the day after,
            both are read-only views of one array.
        indices : array_like of int, optional
            Take these transitions instead of drawing.
        out : Sample, optional
            Batch of an earlier call, also of another buffer. If this batch has the same parts,
            names and sizes, it fills that one and returns it. Otherwise a new batch is made.
            Filling changes arrays that the caller kept, too.

        Returns
        -------
        Sample
            A tuple ``(s, action, reward, s_next, done, mask, mask_next)``, see Notes.

        Raises
        ------
        SampleError
            If the buffer is empty, an index is not stored, `out` is in use, a window is longer than
            ``panel.longest_window`` or does not fit in memory, or a ticker has the name of a part
            of the batch in the layout ``"ticker"``. The next draw then repeats the failed one.

        Notes
        -----
        ``s`` and ``s_next`` have, for each ticker that occurs, a dict of ``ohlcv`` float32
        ``[B, H, 5]``, ``indicators`` ``[B, H, K]``, ``open`` ``[B]`` of the day itself,
        ``current_indicators`` ``[B, K]`` as old as those of observations, and with a
        future ``future_ohlcv`` ``[B, F, 5]``, ``future_indicators`` ``[B, F, K]``, ``future_mask``
        int32 ``[B, F]``; ``macro``, the same for each macro ticker; ``portfolio`` with ``cash``
        float32 ``[B]``, ``shares`` int32 ``[B, T]``, ``avg_buy_price`` float32 ``[B, T]``;
        ``tickers`` ``[B][T]``, ``unique_tickers`` (the dicts' keys), ``macro_tickers``,
        ``indicator_names``, ``action_shape``, ``env_ids`` and ``day`` int32 ``[B]``, ``tokens``
        uint16 ``[B, T]``.
        ``action`` is float32 ``[B, *action_shape]``, ``reward`` float32 ``[B, n_objectives]``,
        ``done`` bool ``[B]``, as it was added. ``s_next`` also has ``terminated`` and
        ``truncated`` bool ``[B]``: a transition that was only truncated still has a next value, so
        bootstrap unless ``terminated``.
        ``mask`` has int32 ``[B, H]`` for each ticker, and those of macro tickers in ``macro``.

        History is ``day-H .. day-1``, future ``day+1 .. day+F``, which ends with the environment's
        ``days``, so that test days are not shown in training. Zeros and a mask of 0 where a ticker
        has no row, and where a sample does not trade the ticker. In the batched layout there are no
        dicts of tickers: the arrays of ``s`` are ``[B, T, ...]``, those of ``s["macro"]`` ``[B, M,
        ...]``, with a history also ``mask``, without one neither ``ohlcv`` nor ``indicators``;
        ``mask`` has ``market`` ``[B, T, H]``, ``macro`` ``[B, M, H]`` and with a future ``future``.
        """
        if self._taken is not None and layout == "ticker":
            raise SampleError(
                f"a ticker of the market is called '{self._taken}', as a part of the batch is; "
                "give layout='batched'"
            )
        if batch_size is None:
            batch_size = self._batch_size
        return self._sample(batch_size, history_length, future_length, layout, copy, indices, out)

    @explained
    def sample_indices(self, batch_size: int) -> list[int]:
        """Draw indices uniformly, with replacement.

        Parameters
        ----------
        batch_size : int
            Indices to draw; at most as many as are stored.

        Returns
        -------
        list of int
            From 0 to ``size() - 1``.

        Raises
        ------
        SampleError
            If the buffer is empty.
        """
        return self._ring.sample_indices(batch_size)

    @explained
    def get(self, index: int) -> VecStoredTransition:
        """Copy one transition out.

        Parameters
        ----------
        index : int
            Slot, from 0 to ``size() - 1``. Where several processes add, slots are counted adder
            after adder.

        Returns
        -------
        VecStoredTransition

        Raises
        ------
        SampleError
            If the transition is not stored.
        """
        return VecStoredTransition(**self._ring.get(index))

    @explained
    def get_market_data(
        self, index: int, h: int, future: int, next_state: bool = False
    ) -> dict[str, Any]:
        """Read the market around one transition, in full precision.

        Parameters
        ----------
        index : int
            Slot.
        h : int
            Days before.
        future : int
            Days after.
        next_state : bool, default False
            Read around the next state's day instead of the state's.

        Returns
        -------
        dict
            By ticker: ``past_ohlcv`` float64 ``[h, 5]``, ``past_indicators`` float64 ``[h, K]``,
            ``past_mask`` and ``past_days`` int32 ``[h]``; ``current_open``,
            ``current_indicators`` float64 ``[K]``, as old as those of observations,
            ``current_mask`` and ``current_day``; ``future_*`` as ``past_*``. Then
            ``indicator_names``, ``h`` and ``future``. Without a row: zeros, mask 0, day -1.

        Raises
        ------
        SampleError
            If the transition is not stored, the window is too long, or one of the transition's
            tickers has the name of a part of the result: ``indicator_names``, ``h`` or ``future``.
        """
        if not isinstance(next_state, bool | np.bool_):
            raise ArgumentTypeError(f"next_state is {next_state!r}; give True or False")
        before = count_of(h, "h", 0, SampleError)
        after = count_of(future, "future", 0, SampleError)
        check_window(before, "h", self.panel, SampleError)
        check_window(after, "future", self.panel, SampleError)
        found = self.get(index)
        refuse_parts(found.tickers, SampleError)
        day = found.next_state_day if next_state else found.state_day
        first, lag = day - before, self._ring.indicator_lag
        ohlcv, indicators, mask = self._ring.rows(found.tickers, first, before + 1 + after)
        _, lagged, _ = self._ring.rows(found.tickers, day - lag, 1)
        numbers = np.arange(first, day + after + 1)
        beyond = numbers >= max(self._ring.end, day + 1)
        ohlcv[:, beyond], indicators[:, beyond], mask[:, beyond] = 0, 0, 0
        days = np.where(mask == 1, numbers, -1).astype(np.int32)
        data: dict[str, Any] = {}
        spans = {"past": slice(0, before), "future": slice(before + 1, None)}
        for at, tic in enumerate(found.tickers):
            data[tic] = {
                "current_open": float(ohlcv[at, before, 0]),
                "current_indicators": lagged[at, 0],
                "current_mask": int(mask[at, before]),
                "current_day": int(days[at, before]),
            }
            for name, span in spans.items():
                data[tic] |= {
                    f"{name}_ohlcv": ohlcv[at, span],
                    f"{name}_indicators": indicators[at, span],
                    f"{name}_mask": mask[at, span],
                    f"{name}_days": days[at, span],
                }
        return data | {"indicator_names": self._ring.indicators, "h": before, "future": after}
