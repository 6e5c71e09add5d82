"""Copies a random window of a ring without a sampler, so that no count of the ring changes."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from backcast import ReplayBuffer
from backcast._trees import flat
from backcast.errors import BackcastError, LappedError, SampleError
from backcast.plot._read import MAX_LINES, PRICES, Window, replay_window

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LENGTH, _FRAMES, _TRIES = 64, 8, 4
_BUILT_IN = {"seq", "episode", "t", "flags"}


@dataclass(frozen=True)
class Drawn:
    """A window of one lane: numbers, and images if a column has them."""

    window: Window | None
    frames: dict[str, list[NDArray[np.uint8]]] = field(default_factory=dict)
    title: str = ""


def draw(name: str, directory: str | None) -> Drawn | str:
    """Return a random window, or why there is none."""
    try:
        with ReplayBuffer.attach(name, dir=directory) as buf:
            for _ in range(_TRIES):
                spans = {lane: buf.lane_span(lane) for lane in range(buf.lanes)}
                lanes = [lane for lane, (first, end) in spans.items() if end > first]
                if not lanes:
                    return "no rows to show yet"
                lane = random.choices(lanes, [spans[k][1] - spans[k][0] for k in lanes])[0]
                first, end = spans[lane]
                length = min(_LENGTH, end - first)
                start = random.randint(first, end - length)
                try:
                    # Images are large: rows that have them are few, with one more for a final one.
                    few = min(length, _FRAMES + 1)
                    rows = buf.rows(lane, start + length - few, few)
                    if not any(_are_images(one) for _, one in flat(rows)):
                        rows = buf.rows(lane, start, length)
                    return of_rows(rows, lane)
                except (LappedError, SampleError):
                    continue
            return "the rows were overwritten while they were read; draw another window"
    except BackcastError as error:
        return str(error)


def of_rows(rows: dict[str, Any], lane: int) -> Drawn:
    """Return what to draw of consecutive rows of a lane, without those of final observations."""
    there = rows["flags"] & 4 == 0
    if not there.any():
        return Drawn(None, title="final observations only; draw another window")
    flags, seq = rows["flags"][there], rows["seq"][there]
    columns = {name: one[there] for name, one in flat(rows) if name not in _BUILT_IN}
    images = {name: one for name, one in columns.items() if _are_images(one)}
    numbers = {name: one[np.newaxis] for name, one in columns.items() if name not in images}
    batch = numbers | {
        "index": np.array([lane << 48 | int(seq[-1])]),
        "mask": np.ones((1, len(seq)), bool),
        "terminated": (flags & 1 != 0)[np.newaxis],
        "truncated": (flags & 2 != 0)[np.newaxis],
    }
    title = f"lane {lane}, rows {seq[0]:,} to {seq[-1]:,}"
    frames = {name: [_image(one) for one in found[-_FRAMES:]] for name, found in images.items()}
    lines = None if _has_prices(numbers) else _lines(numbers)
    if lines is not None and (count := _values(numbers)) > len(lines):
        title += f", the first {len(lines)} of {count:,} values a row"
    window = replay_window(batch, 0, 0, lines, "action") if lines != [] else None
    return Drawn(window, frames, title)


def _has_prices(numbers: dict[str, NDArray[Any]]) -> bool:
    """Return whether there are four prices under one parent, one a row or one a ticker."""
    parents = [name.removesuffix("open") for name in numbers if f"/{name}".endswith("/open")]
    with_prices = (p for p in parents if all(f"{p}{price}" in numbers for price in PRICES))
    found = next(with_prices, None)
    return found is not None and all(numbers[f"{found}{price}"].ndim <= 3 for price in PRICES)


def _lines(numbers: dict[str, NDArray[Any]]) -> list[str]:
    """Name the scalar columns, then elements of the others, at most as many as are drawn."""
    names = [name for name, one in numbers.items() if one.ndim == 2]
    for name, one in numbers.items():
        if one.ndim > 2:
            places = islice(np.ndindex(one.shape[2:]), MAX_LINES)
            names += [f"{name}[{','.join(map(str, place))}]" for place in places]
    return names[:MAX_LINES]


def _values(numbers: dict[str, NDArray[Any]]) -> int:
    return sum(int(np.prod(one.shape[2:])) for one in numbers.values())


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
