"""Reads one window of a sampled batch, or of market windows, as arrays to draw."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from backcast._native import _closest_name
from backcast._trees import flat
from backcast.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]
    Flags = NDArray[np.bool_]

PRICES = ("open", "high", "low", "close")
MAX_LINES = 6
_BUILT_IN = {"index", "age", "mask", "future", "future_mask", "terminated", "truncated"}
_ELEMENT = re.compile(r"(?P<column>.+)\[(?P<place>\d+(?:\s*,\s*\d+)*)\]")


@dataclass(frozen=True)
class Window:
    """Data to draw: arrays with one entry per place of the window, NaN or False at masked places.

    ``final`` has the final observation of an episode, by column. It is drawn at ``final_place``,
    the place after the episode's last transition.
    """

    title: str
    unit: str
    drawn: str
    places: NDArray[np.int64]
    future: int
    prices: dict[str, Numbers] = field(default_factory=dict)
    lines: dict[str, Numbers] = field(default_factory=dict)
    day_open: float | None = None
    action: Numbers | None = None
    terminated: Flags | None = None
    truncated: Flags | None = None
    final: dict[str, float] = field(default_factory=dict)
    final_place: int = 0


def market_window(
    batch: Mapping[str, Any], i: int, ticker: int, columns: Sequence[str] | None
) -> Window:
    """Read one ticker's window from the result of ``Panel.windows``."""
    if columns is not None:
        raise ArgumentError(
            "market windows are drawn as candles; `columns` chooses lines of a replay batch: "
            "leave it out"
        )
    listed = np.asarray(batch["listed"])
    i = _within("i", i, listed.shape[0], "windows in the batch")
    ticker = _within("ticker", ticker, listed.shape[1], "tickers in the window")
    before, after = (np.asarray(batch[name])[i, ticker] for name in ("history", "future"))
    masks = (np.asarray(batch[f"{name}_mask"])[i, ticker] for name in ("history", "future"))
    history, future = len(before), len(after)
    # The drawn day has a place but no candle.
    day = np.full((1, len(PRICES)), np.nan)
    rows = np.concatenate([before[:, : len(PRICES)], day, after[:, : len(PRICES)]], dtype=float)
    there = np.concatenate([next(masks), [False], next(masks)])
    rows[~there] = np.nan
    return Window(
        title=f"window {i}, ticker {ticker}",
        unit="days",
        drawn="drawn day",
        places=np.arange(-history, future + 1),
        future=future,
        prices={name: rows[:, at] for at, name in enumerate(PRICES)},
        day_open=float(np.asarray(batch["open"])[i, ticker]) if listed[i, ticker] else None,
    )


def replay_window(
    batch: Mapping[str, Any],
    i: int,
    ticker: int,
    columns: Sequence[str] | None,
    action: str | None,
) -> Window:
    """Read one transition's window of a sampled batch."""
    sample = _Sample(batch, i)
    prices: dict[str, Numbers] = {}
    lines: dict[str, Numbers] = {}
    signs = None
    parent = None if columns is not None else sample.parent_of_prices()
    if parent is not None:
        prices = {name: sample.per_ticker(f"{parent}{name}", ticker) for name in PRICES}
        signs = sample.actions(action, ticker)
        final = {"close": sample.after_end(f"{parent}close", ticker)}
    else:
        chosen = sample.scalars() if columns is None else list(columns)
        if not 1 <= len(chosen) <= MAX_LINES:
            raise ArgumentError(
                f"{len(chosen)} columns to draw, of {_names(sample.arrays)}; "
                f"name 1 to {MAX_LINES} with `columns`, such as 'reward' or 'obs[0]'"
            )
        lines = {name: sample.line(name) for name in chosen}
        final = {name: sample.after_end(name) for name in chosen}
    lane, seq = sample.index >> 48, sample.index & ((1 << 48) - 1)
    return Window(
        title=f"lane {lane}, row {seq}",
        unit="steps",
        drawn="drawn transition",
        places=sample.places,
        future=sample.future,
        prices=prices,
        lines=lines,
        action=signs,
        terminated=sample.flags("terminated"),
        truncated=sample.flags("truncated"),
        final={name: value for name, value in final.items() if value is not None},
        final_place=int(sample.places[sample.ended]) + 1 if sample.ended is not None else 0,
    )


def _row_index(index: Any, i: int) -> int:  # noqa: ANN401
    """Return a transition's index. Refuse an index of fewer than 64 bits: it has lost its lane."""
    dtype = np.asarray(index).dtype
    if dtype.kind not in "iu" or dtype.itemsize < 8:
        raise ArgumentError(
            f"the batch's index is {dtype}, and an index needs the 64 bits of int64; give the "
            "batch as it was drawn, or set jax_enable_x64 before JAX converts it"
        )
    return int(index[i])


class _Sample:
    """One drawn transition of a batch, with its history and future concatenated."""

    def __init__(self, batch: Mapping[str, Any], i: int) -> None:
        if "index" not in batch:
            raise ArgumentError(
                f"neither a sampled batch nor market windows: no 'index' among {_names(batch)}; "
                "give what `sample` or `Panel.windows` returned"
            )
        self._i = _within("i", i, len(batch["index"]), "transitions in the batch")
        self.index = _row_index(batch["index"], self._i)
        self._windowed = "mask" in batch
        mask = batch["mask"][self._i] if self._windowed else [True]
        self.future = len(batch["future_mask"][self._i]) if "future_mask" in batch else 0
        after = batch["future_mask"][self._i] if self.future else []
        self.there = np.concatenate([np.asarray(mask, bool), np.asarray(after, bool)])
        self.places = np.arange(len(self.there)) - (len(mask) - 1)
        self._now = dict(flat({name: batch[name] for name in batch if name != "future"}))
        self._later = dict(flat(batch["future"])) if self.future else {}
        self.arrays = {name: rows for name, rows in self._now.items() if self._is_column(name)}
        ends = self.flags("terminated") | self.flags("truncated")
        self.ended = int(np.flatnonzero(ends)[-1]) if ends.any() else None

    def _is_column(self, name: str) -> bool:
        """Return whether an array is a column of the schema, not one that the sampler computes."""
        if name in _BUILT_IN or name.startswith(("next_", "n_")):
            return False
        history = self._now["mask"].shape if self._windowed else self._now["index"].shape
        return np.shape(self._now[name])[: len(history)] == history and (
            not self.future or name in self._later
        )

    def parent_of_prices(self) -> str | None:
        """Return the first prefix of names, such as "" or "obs/", that has all four prices."""
        parents = [
            name.removesuffix("open") for name in self.arrays if f"/{name}".endswith("/open")
        ]
        complete = (p for p in parents if all(f"{p}{price}" in self.arrays for price in PRICES))
        return next(complete, None)

    def scalars(self) -> list[str]:
        """Name the columns that have one number a row."""
        return [name for name in self.arrays if not self._rows(name).shape[1:]]

    def line(self, name: str) -> Numbers:
        """Read a scalar column, or one element of a larger one."""
        column, place = self._split(name)
        rows = self._rows(column)
        self._check(name, place, rows.shape[1:])
        for at in place:
            rows = rows[:, at]
        return self._blank(rows)

    def per_ticker(self, name: str, ticker: int) -> Numbers:
        """Read a column that has one number a row, or one a ticker."""
        rows = self._rows(name)
        if rows.ndim > 2:
            shape = list(rows.shape[1:])
            raise ArgumentError(
                f"{name!r} has {shape} numbers a row, candles need [] or [T]; name what to draw "
                "as lines with `columns`"
            )
        if rows.ndim == 2:
            ticker = _within("ticker", ticker, rows.shape[1], f"tickers in {name!r}")
            return self._blank(rows[:, ticker])
        _within("ticker", ticker, 1, f"tickers: {name!r} has one number a row")
        return self._blank(rows)

    def actions(self, name: str | None, ticker: int) -> Numbers | None:
        """Read the column whose sign marks purchases and sales; None if it does not fit prices."""
        if name is None or (name == "action" and name not in self.arrays):
            return None
        rows = self._rows(self._known(name))
        fits = rows.ndim == 1 or (rows.ndim == 2 and ticker < rows.shape[1])
        if not fits and name != "action":
            shape = list(rows.shape[1:])
            raise ArgumentError(
                f"{name!r} has {shape} numbers a row, none of them ticker {ticker}; give one "
                "number a row, or one a ticker, or action=None"
            )
        return self.per_ticker(name, ticker) if fits else None

    def flags(self, name: str) -> Flags:
        """Read an end flag; False where the place is masked."""
        flags: Flags = np.asarray(self._rows(name), bool) & self.there
        return flags

    def after_end(self, name: str, ticker: int | None = None) -> float | None:
        """Read a column of the final observation; None if no episode ends in the window."""
        column, place = self._split(name)
        # The value of `obs/x` one row later is in `next_obs/x`.
        following = f"next_{column}"
        if self.ended is None or following not in self._now:
            return None
        row = self._rows(following)[self.ended]
        if ticker is not None and row.ndim:
            place = (ticker,)
        return float(row[place])

    def _rows(self, name: str) -> NDArray[Any]:
        now: NDArray[Any] = np.asarray(self._now[name])[self._i]
        now = now if self._windowed else now[np.newaxis]
        if not self.future:
            return now
        return np.concatenate([now, np.asarray(self._later[name])[self._i]])

    def _blank(self, rows: NDArray[Any]) -> Numbers:
        return np.where(self.there, rows.astype(np.float64), np.nan)

    def _split(self, name: str) -> tuple[str, tuple[int, ...]]:
        found = None if name in self.arrays else _ELEMENT.fullmatch(name)
        if found is None:
            return self._known(name), ()
        return self._known(found["column"]), tuple(map(int, found["place"].split(",")))

    def _known(self, name: str) -> str:
        if name not in self.arrays:
            near = _closest_name(name, list(self.arrays))
            hint = f"did you mean {near!r}?" if near else "name one of those"
            raise ArgumentError(f"no column {name!r} among {_names(self.arrays)}; {hint}")
        return name

    def _check(self, name: str, place: tuple[int, ...], shape: tuple[int, ...]) -> None:
        inside = len(place) == len(shape) and all(p < n for p, n in zip(place, shape, strict=True))
        if not inside:
            axes = ", ".join(str(n) for n in shape)
            raise ArgumentError(
                f"{name!r} is no single number: rows of that column have shape ({axes}); name one "
                "element with one number per axis, such as 'obs[0]'"
            )


def _within(name: str, value: int, size: int, what: str) -> int:
    if not 0 <= value < size:
        raise ArgumentError(f"{name} is {value}, but there are {size} {what}; give 0 to {size - 1}")
    return value


def _names(names: Mapping[str, Any]) -> str:
    return ", ".join(repr(name) for name in names) or "none"
