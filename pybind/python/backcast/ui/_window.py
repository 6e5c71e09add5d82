"""Copies a random window of a ring without a sampler, so that no count of the ring changes."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backcast import ReplayBuffer
from backcast._trees import flat
from backcast.errors import BackcastError, LappedError, SampleError

Columns = dict[str, NDArray[Any]]
_LENGTH, _FRAMES, _LINES = 64, 8, 6
_BUILT_IN = {"seq", "episode", "t", "flags"}
_CANDLE = ("open", "close", "low", "high")
"""Prices in the order of ECharts."""


@dataclass(frozen=True)
class Drawn:
    """A window of one lane: candles or lines by name, and images if a column has them."""

    title: str
    places: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    """Places of the last transition of an episode, counted from 0."""
    named: dict[str, list[Any]] = field(default_factory=dict)
    has_prices: bool = False
    frames: dict[str, list[NDArray[np.uint8]]] = field(default_factory=dict)


def draw(name: str, directory: str | None) -> Drawn:
    """Return a random window, or one without data whose title says why."""
    try:
        with ReplayBuffer.attach(name, dir=directory) as buf:
            spans = {lane: buf.lane_span(lane) for lane in range(buf.lanes)}
            sizes = {lane: end - first for lane, (first, end) in spans.items() if end > first}
            if not sizes:
                return Drawn("no rows to show yet")
            lane = random.choices([*sizes], [*sizes.values()])[0]
            length = min(_LENGTH, sizes[lane])
            start = random.randint(spans[lane][0], spans[lane][1] - length)
            # Images are large: rows that have them are few, with one more for a final one.
            few = min(length, _FRAMES + 1)
            rows = buf.rows(lane, start + length - few, few)
            if not any(_are_images(one) for _, one in flat(rows)):
                rows = buf.rows(lane, start, length)
            return of_rows(rows, lane)
    except (LappedError, SampleError):
        return Drawn("the rows were overwritten while they were read; draw another window")
    except BackcastError as error:
        return Drawn(str(error))


def of_rows(rows: dict[str, Any], lane: int) -> Drawn:
    """Return what to draw of consecutive rows of a lane, without those of final observations."""
    there = rows["flags"] & 4 == 0
    if not there.any():
        return Drawn("final observations only; draw another window")
    seq, ends = rows["seq"][there], np.flatnonzero(rows["flags"][there] & 3)
    columns = {name: one[there] for name, one in flat(rows) if name not in _BUILT_IN}
    images = {name: one for name, one in columns.items() if _are_images(one)}
    numbers = {name: one for name, one in columns.items() if name not in images}
    title = f"lane {lane}, rows {seq[0]:,} to {seq[-1]:,}"
    candles = _candles(numbers)
    named = {"price": candles} if candles else dict(islice(_lines(numbers), _LINES))
    count = sum(int(np.prod(one.shape[1:])) for one in numbers.values())
    if not candles and count > _LINES:
        title += f", the first {_LINES} of {count:,} values a row"
    frames = {name: [_image(one) for one in found[-_FRAMES:]] for name, found in images.items()}
    return Drawn(title, seq.tolist(), ends.tolist(), named, bool(candles), frames)


def _candles(numbers: Columns) -> list[Any]:
    """Return four prices a row, of one parent and its first ticker; nothing if there are none."""
    parents = [name.removesuffix("open") for name in numbers if f"/{name}".endswith("/open")]
    for parent in parents:
        prices = [numbers.get(parent + price) for price in _CANDLE]
        if all(one is not None and one.ndim <= 2 for one in prices):
            first = [one if one.ndim == 1 else one[:, 0] for one in prices if one is not None]
            return _finite(np.stack(first, 1))
    return []


def _lines(numbers: Columns) -> Iterable[tuple[str, list[Any]]]:
    """Yield the scalar columns, then elements of the others."""
    for name, one in sorted(numbers.items(), key=lambda named: named[1].ndim > 1):
        for place in np.ndindex(one.shape[1:]):
            element = f"[{','.join(map(str, place))}]" if place else ""
            yield name + element, _finite(one[:, *place])


def _finite(values: NDArray[Any]) -> list[Any]:
    """Return numbers for JSON, with None for those that are not finite."""
    numbers: list[Any] = np.ma.masked_invalid(values.astype(np.float64)).tolist()
    return numbers


def _are_images(rows: NDArray[Any]) -> bool:
    shape = [side for side in rows.shape[1:] if side > 4]
    return rows.dtype == np.uint8 and len(shape) == 2 and rows.ndim in (3, 4)


def _image(row: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return a frame as [H, W] or [H, W, 3]; of stacked frames the last."""
    if row.ndim == 3 and row.shape[0] <= 4:
        row = np.moveaxis(row, 0, 2)
    if row.ndim == 3 and row.shape[2] != 3:
        row = row[..., -1]
    return np.ascontiguousarray(row)
