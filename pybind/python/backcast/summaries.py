"""Means, deviations and extremes of a ring's columns, and returns of its episodes.

Parts are merged by the formulas of Chan, Golub and LeVeque (1979), in float64: those of chunks of
rows, of lanes, of processes and of rings.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from backcast._calls import explained
from backcast._counts import whole_of
from backcast._native import ReplayBuffer
from backcast._trees import value_at
from backcast.errors import ArgumentError, ArgumentTypeError, ColumnError, LappedError, SampleError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["Moments", "Summary", "summarize"]

_TERMINATED, _TRUNCATED, _FINAL, _GAP = 1, 2, 4, 8
# Bytes of rows that are read at a time.
_CHUNK = 1 << 22


@dataclass(frozen=True, eq=False)
class Moments:
    """Count, mean, deviation and extremes of values, for each place of their shape.

    Parameters
    ----------
    count : int
        Number of values.
    mean, min, max : ndarray of float64
        Mean and extremes, of the shape of one value. NaN if there are no values or one is NaN.
    deviations : ndarray of float64
        Sum of the squared deviations from the mean.

    Examples
    --------
    >>> one, two = Moments.of([1.0, 2.0]), Moments.of([6.0])
    >>> float((one + two).mean), float((one + two).max)
    (3.0, 6.0)
    """

    count: int
    mean: NDArray[np.float64]
    deviations: NDArray[np.float64]
    min: NDArray[np.float64]
    max: NDArray[np.float64]
    # Rounding error of the mean in float64. Without it, many merges would round deviations that
    # are small beside the mean.
    _rest: NDArray[np.float64] = field(repr=False)

    @classmethod
    def of(cls, values: ArrayLike) -> Moments:
        """Return the moments of values along their first axis."""
        array = np.asarray(values, np.float64)
        if array.ndim == 0:
            raise ArgumentTypeError(f"values is {values!r}; give an array, one value for each row")
        if not len(array):
            nothing = np.full(array.shape[1:], np.nan)
            zeros = np.zeros(array.shape[1:])
            return cls(0, nothing, zeros, nothing, nothing, zeros)
        mean = np.asarray(array.mean(axis=0))
        off = array - mean
        rest = np.asarray(off.sum(axis=0) / len(array))
        squares = np.square(off).sum(axis=0) - np.square(rest) * len(array)
        return cls(
            len(array),
            mean,
            np.asarray(np.maximum(squares, 0.0)),
            np.asarray(array.min(axis=0)),
            np.asarray(array.max(axis=0)),
            rest,
        )

    @property
    def variance(self) -> NDArray[np.float64]:
        """Mean squared deviation, as ``numpy.var``; NaN without values."""
        return self.deviations / self.count if self.count else self.mean

    @property
    def std(self) -> NDArray[np.float64]:
        """Square root of :attr:`variance`, as ``numpy.std``."""
        return np.sqrt(self.variance)

    def __add__(self, other: Moments) -> Moments:
        """Return the moments of the values of both."""
        if not isinstance(other, Moments):
            return NotImplemented
        if self.mean.shape != other.mean.shape:
            raise ArgumentError(
                f"moments of shape {list(self.mean.shape)} and {list(other.mean.shape)} cannot be "
                "merged; give those of one column"
            )
        if not (self.count and other.count):
            return self if self.count else other
        count = self.count + other.count
        step = (other.mean - self.mean) + (other._rest - self._rest)
        shift = self._rest + step * (other.count / count)
        mean = self.mean + shift
        return Moments(
            count,
            mean,
            self.deviations
            + other.deviations
            + np.square(step) * (self.count * (other.count / count)),
            np.minimum(self.min, other.min),
            np.maximum(self.max, other.max),
            shift - (mean - self.mean),
        )


@dataclass(frozen=True, eq=False)
class Summary:
    """Moments of the columns of a ring, and of its whole episodes; those of two can be added.

    Parameters
    ----------
    columns : dict of str to Moments
        Moments of each column, ``a/b`` for nested ones.
    returns : Moments
        Undiscounted sums of rewards of whole episodes; none without a column ``reward``.
    lengths : Moments
        Transitions of whole episodes.
    rows : int
        Rows that were counted.
    rows_lapped : int
        Rows that writers overwrote, or that were dropped, before they were read.
    episodes_left_out : int
        Episodes of which rows were counted, and which are not whole: their beginning was
        overwritten or dropped, they were cut, or they go on.
    """

    columns: dict[str, Moments]
    returns: Moments
    lengths: Moments
    rows: int = 0
    rows_lapped: int = 0
    episodes_left_out: int = 0

    def __add__(self, other: Summary) -> Summary:
        """Return the summary of the rows of both."""
        if not isinstance(other, Summary):
            return NotImplemented
        odd = sorted(self.columns.keys() ^ other.columns.keys())
        if odd:
            raise ArgumentError(
                f"one summary has the column `{odd[0]}` and the other does not; summarize the same "
                "columns (columns=[...])"
            )
        return Summary(
            {name: part + other.columns[name] for name, part in self.columns.items()},
            self.returns + other.returns,
            self.lengths + other.lengths,
            self.rows + other.rows,
            self.rows_lapped + other.rows_lapped,
            self.episodes_left_out + other.episodes_left_out,
        )


@explained
def summarize(
    buf: ReplayBuffer,
    columns: Sequence[str] | None = None,
    *,
    lanes: Sequence[int] | None = None,
) -> Summary:
    """Compute the moments of a ring's columns and of the returns of its episodes.

    Reads validated copies of at most 4 MiB of rows at a time, so writers are never held up and no
    torn row is counted. The rows are those that are readable when the call begins, without FINAL
    rows: observations on which there was an action, and what it led to. A row that a writer
    overwrites meanwhile is not counted, nor is its episode.

    An episode is whole, as for :class:`Episode`, if it begins at step 0 and ends with a FINAL row
    after a transition that is terminated or truncated. If it begins with a GAP, the episode before
    it must have ended so too: it may be the rest of one that was cut.

    Parameters
    ----------
    buf : ReplayBuffer
        The ring.
    columns : sequence of str, optional
        Columns; all of them if left out.
    lanes : sequence of int, optional
        Lanes; all of them if left out. Processes that take different lanes add their summaries.

    Returns
    -------
    Summary
        Can be pickled and added to others.

    Raises
    ------
    ArgumentError
        If a lane does not exist, or is given twice.
    ColumnError
        If a column does not exist.
    ArgumentTypeError
        If `columns` is a text, or `lanes` no sequence.
    ClosedError
        If the buffer was closed.

    Examples
    --------
    >>> import backcast as bc
    >>> buf = bc.ReplayBuffer.create(None, {"obs": "f4", "reward": "f4"}, capacity=100)
    >>> with buf.writer() as writer:
    ...     for t in range(4):
    ...         end = t == 3
    ...         at = writer.append(obs=t, reward=1, next_obs=t + 1, terminated=end, truncated=False)
    >>> found = summarize(buf)
    >>> float(found.columns["obs"].mean), float(found.returns.mean)
    (1.5, 4.0)
    """
    if not isinstance(buf, ReplayBuffer):
        raise ArgumentTypeError(f"buf is {buf!r}; give a backcast.ReplayBuffer")
    schema = buf.schema
    if isinstance(columns, str):
        raise ArgumentTypeError(f"columns is {columns!r}; give a list, [{columns!r}]")
    names = [*schema.columns] if columns is None else [*dict.fromkeys(columns)]
    for name in names:
        if name not in schema.columns:
            raise ColumnError(
                f"the ring has no column `{name}`; it has {', '.join(schema.columns)}"
            )
    if not (lanes is None or isinstance(lanes, Iterable)):
        raise ArgumentTypeError(f"lanes is {lanes!r}; give a list of lanes, such as [0]")
    chosen = range(buf.lanes) if lanes is None else [_lane_of(lane, buf) for lane in lanes]
    if len({*chosen}) < len(chosen):
        raise ArgumentError(f"lanes is {lanes!r}, with one of them twice; give each once")
    spans = {lane: buf.lane_span(lane) for lane in chosen}
    codes = {name: schema.columns[name][0] for name in names}
    found = [_of_lane(buf, lane, spans[lane], codes) for lane in chosen]
    empty = {name: Moments.of(np.zeros((0, *schema.columns[name][1]))) for name in names}
    nothing = Moments.of([])
    return reduce(lambda a, b: a + b, found, Summary(empty, nothing, nothing))


def _of_lane(buf: ReplayBuffer, lane: int, span: tuple[int, int], codes: dict[str, str]) -> Summary:
    parts: dict[str, list[Moments]] = {name: [] for name in codes}
    reward_code, reward_shape, _ = buf.schema.columns.get("reward", ("", (1,), ""))
    has_rewards = reward_shape == ()
    episodes = _Episodes()
    counted = lapped = 0
    for rows, lost in _chunks(buf, lane, *span):
        lapped += lost
        if lost:
            episodes.forget()
        if rows is None:
            continue
        steps = (rows["flags"] & _FINAL) == 0
        counted += int(steps.sum())
        for name, code in codes.items():
            parts[name].append(Moments.of(_floats(value_at(rows, name), code)[steps]))
        episodes.add(rows, _floats(rows["reward"], reward_code) if has_rewards else None)
    merged = {name: reduce(lambda a, b: a + b, of) for name, of in parts.items() if of}
    for name in codes:
        shape = buf.schema.columns[name][1]
        merged.setdefault(name, Moments.of(np.zeros((0, *shape))))
    returns = Moments.of(episodes.returns if has_rewards else [])
    lengths = Moments.of(episodes.lengths)
    return Summary(merged, returns, lengths, counted, lapped, episodes.left_out)


def _chunks(
    buf: ReplayBuffer, lane: int, low: int, head: int
) -> Iterator[tuple[dict[str, Any] | None, int]]:
    """Yield rows of a lane in order, and how many before them were lost."""
    length = max(1, min(_CHUNK // buf.schema.row_bytes, buf.lane_capacity))
    start = low
    while start < head:
        count = min(length, head - start)
        try:
            rows = buf.rows(lane, start, count)
        except SampleError as error:
            # The writer is at work in these rows, or overwrote them: go on behind it.
            low = buf.lane_span(lane)[0]
            if low <= start and not isinstance(error, LappedError):
                raise
            kept = min(max(low, start + 1), head)
            yield None, kept - start
            start = kept
            continue
        yield rows, 0
        start += count


@dataclass
class _Episodes:
    """Returns and lengths of the whole episodes of a lane, of chunks of rows in order."""

    returns: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    # Episodes with a transition of which rows are missing. That of the newest row may go on.
    left_out: int = 0
    # The episode of the row before, and whether all its rows up to there were read.
    _number: int | None = None
    _is_whole: bool = False
    _has_ended: bool = False
    _sum: float = 0.0
    _steps: int = 0
    # Whether the episode before ended with a FINAL row after its last transition.
    _follows_end: bool = False

    def forget(self) -> None:
        """Forget that the rows after lost ones continue any."""
        self._is_whole = self._follows_end = False

    def add(self, rows: dict[str, Any], rewards: NDArray[np.float64] | None) -> None:
        """Count the episodes that end in a chunk."""
        episode, flags = rows["episode"], rows["flags"]
        steps = (flags & _FINAL) == 0
        ends = (flags & (_TERMINATED | _TRUNCATED)) != 0
        first = np.flatnonzero(np.r_[True, episode[1:] != episode[:-1]])
        bounds = [*first.tolist(), len(episode)]
        values = np.zeros(len(episode)) if rewards is None else np.where(steps, rewards, 0.0)
        for begin, end in itertools.pairwise(bounds):
            number = int(episode[begin])
            inner = begin
            if number != self._number:
                is_cut = bool(flags[begin] & _GAP) and not self._follows_end
                self._is_whole = bool(rows["t"][begin] == 0) and not is_cut
                self._begin(number)
                inner += 1
            self._is_whole &= not (flags[inner:end] & _GAP).any()
            if not self._steps and steps[begin:end].any():
                # Counted as left out until it has ended.
                self.left_out += 1
            self._sum += float(values[begin:end].sum())
            self._steps += int(steps[begin:end].sum())
            self._has_ended |= bool(ends[begin:end].any())
            self._follows_end = self._has_ended and not steps[end - 1]
            if self._follows_end and self._is_whole:
                self.returns.append(self._sum)
                self.lengths.append(self._steps)
                self.left_out -= 1
                self._is_whole = False

    def _begin(self, number: int) -> None:
        self._number, self._has_ended = number, False
        self._sum, self._steps = 0.0, 0


def _lane_of(value: object, buf: ReplayBuffer) -> int:
    wanted = f"lanes from 0 to {buf.lanes - 1}"
    lane = whole_of(value, "a lane", wanted)
    if not 0 <= lane < buf.lanes:
        raise ArgumentError(f"a lane is {lane}; give {wanted}")
    return lane


def _floats(values: Any, code: str) -> NDArray[np.float64]:  # noqa: ANN401
    if code == "bfloat16" and values.dtype == np.uint16:
        # The bits, where `ml_dtypes` is not installed: the upper half of a float32.
        values = (values.astype(np.uint32) << 16).view(np.float32)
    return np.asarray(values, np.float64)
