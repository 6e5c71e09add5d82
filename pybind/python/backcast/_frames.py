"""Tables in memory as ``Panel.from_frame`` reads them: an Arrow stream, or named columns."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from backcast.errors import ArgumentTypeError, PanelError

# Name, kind of the cells, and the cells: an array, or texts of which some may be missing.
Column: TypeAlias = tuple[str, str, NDArray[Any] | list[str | None]]

# The fields of a wide table that name its level of fields.
_FIELD = "close"
_WANTED = (
    "a data frame (pandas, polars), an Arrow table, reader or dataset, or a dict of columns, "
    '{"date": [...], "tic": [...], "close": [...]}'
)


def table_of(frame: Any) -> Any:  # noqa: ANN401
    """Return the rows of a frame: a capsule with an Arrow stream, or a list of columns.

    Frames of pandas have their rows read through Arrow where PyArrow is installed.
    """
    if isinstance(frame, Mapping):
        return _columns(frame.items())
    names = getattr(getattr(frame, "dtype", None), "names", None)
    if isinstance(frame, np.ndarray) and names is not None:
        return _columns((name, frame[name]) for name in names)
    is_pandas = hasattr(frame, "iloc") and hasattr(frame, "columns")
    if is_pandas and getattr(frame.columns, "nlevels", 1) > 1:
        return _columns(_long(frame))
    if hasattr(frame, "__arrow_c_stream__"):
        try:
            return _capsule(frame.__arrow_c_stream__())
        except ImportError:
            # pandas needs PyArrow for it.
            if not is_pandas:
                raise
    if is_pandas:
        cells = (frame.iloc[:, at].to_numpy() for at in range(len(frame.columns)))
        return _columns([*_index(frame), *zip(map(str, frame.columns), cells, strict=True)])
    if hasattr(frame, "scanner"):
        frame = _parts(frame)
    if hasattr(frame, "to_reader"):
        return _capsule(frame.to_reader().__arrow_c_stream__())
    if hasattr(frame, "collect"):
        raise ArgumentTypeError("frame has its rows not computed yet; give frame.collect()")
    raise ArgumentTypeError(f"frame is a {type(frame).__name__}; give {_WANTED}")


def _capsule(stream: Any) -> Any:  # noqa: ANN401
    if type(stream).__name__ != "PyCapsule":
        raise PanelError(
            f"frame.__arrow_c_stream__() returned a {type(stream).__name__}, no PyCapsule with an "
            f"Arrow stream; give {_WANTED}"
        )
    return stream


def _parts(dataset: Any) -> Any:  # noqa: ANN401
    """Return a scanner of a dataset of PyArrow. Refuses one that lacks the columns of folders."""
    folders = [os.path.dirname(path) for path in getattr(dataset, "files", [])]
    # Folders around all of the files are not parts of the dataset.
    around = len(os.path.commonpath(folders)) if folders else 0
    for part in (part for folder in folders for part in folder[around:].split("/")):
        column = part.split("=")[0]
        if "=" in part and column not in dataset.schema.names:
            raise PanelError(
                f"frame is a dataset with a folder {part}, but has no column {column!r}; make it "
                'with pyarrow.dataset.dataset(folder, partitioning="hive"); what is no part of '
                f"the panel is left out with columns={{{column!r}: None}}"
            )
    return dataset.scanner()


def _index(frame: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401
    """Return the levels of an index as columns. One that only counts rows is none."""
    index = frame.index
    if type(index).__name__ == "RangeIndex":
        return
    for level, name in enumerate(index.names):
        yield (
            f"__index_level_{level}__" if name is None else str(name),
            index.get_level_values(level).to_numpy(),
        )


def _long(frame: Any) -> list[tuple[str, Any]]:  # noqa: ANN401
    """Return a wide table, whose columns are pairs of field and ticker, as one row per pair.

    A ticker has no row where all its cells are missing.
    """
    labels = [tuple(map(str, label)) for label in frame.columns]
    fields = [
        level
        for level in range(frame.columns.nlevels)
        if any(label[level].lower() == _FIELD for label in labels)
    ]
    if frame.columns.nlevels != 2 or len(fields) != 1:
        raise PanelError(
            f"the columns of frame have {frame.columns.nlevels} levels, of which {len(fields)} "
            f'have a "Close"; give two levels, one of fields and one of tickers, such as '
            "df[['Open', 'High', 'Low', 'Close', 'Volume']]"
        )
    level = fields[0]
    cells: dict[str, dict[str, Any]] = {}
    for at, label in enumerate(labels):
        of_ticker = cells.setdefault(label[1 - level], {})
        if of_ticker.setdefault(label[level], at) != at:
            raise PanelError(f"frame has two columns {label}; leave one out")
    names = list(dict.fromkeys(label[level] for label in labels))
    index = [*_index(frame)]
    long: dict[str, list[Any]] = {name: [] for name in [*(name for name, _ in index), "tic"]}
    long |= {name: [] for name in names}
    if len(long) != len(index) + 1 + len(names):
        raise PanelError(f"frame has fields {names} and an index of the same name; rename one")
    for ticker, of_ticker in cells.items():
        numbers = [
            np.asarray(frame.iloc[:, of_ticker[name]].to_numpy(dtype=float, na_value=np.nan))
            if name in of_ticker
            else np.full(len(frame), np.nan)
            for name in names
        ]
        kept = ~np.isnan(numbers).all(axis=0)
        for name, column in [*index, *zip(names, numbers, strict=True)]:
            long[name].append(column[kept])
        long["tic"].append(np.full(int(kept.sum()), ticker, dtype=object))
    return [(name, np.concatenate(parts)) for name, parts in long.items()]


def _columns(named: Iterable[tuple[Any, Any]]) -> list[Column]:
    """Return columns of equal lengths in the kinds that the native code knows."""
    columns = [(str(name), *_cells(str(name), given)) for name, given in named]
    for name, _, cells in columns[1:]:
        if len(cells) != len(columns[0][2]):
            raise PanelError(
                f"column {name!r} has {len(cells)} rows, but column {columns[0][0]!r} has "
                f"{len(columns[0][2])}; give one value for each row"
            )
    return columns


def _cells(name: str, given: Any) -> tuple[str, NDArray[Any] | list[str | None]]:  # noqa: ANN401
    if isinstance(given, np.ma.MaskedArray):
        given = _unmasked(name, given)
    array = np.asarray(given)
    if array.ndim != 1:
        raise PanelError(
            f"column {name!r} has shape {array.shape}; give one value for each row, shape (rows,)"
        )
    match array.dtype.kind:
        case "f":
            return "float", np.ascontiguousarray(array, dtype=np.float64)
        case "i":
            return "int", np.ascontiguousarray(array, dtype=np.int64)
        case "u":
            return "uint", np.ascontiguousarray(array, dtype=np.uint64)
        case "b":
            return "bool", array.tolist()
        case "M":
            return _instants(name, array)
        case "U" | "S":
            return "text", _texts(name, array).tolist()
        case "O":
            return _objects(name, array.tolist())
    raise PanelError(
        f"column {name!r} is an array of {array.dtype}; give numbers, dates, timestamps or text"
    )


def _unmasked(name: str, given: np.ma.MaskedArray[Any, Any]) -> NDArray[Any]:
    """Return the cells of a masked array, with a missing value in place of each masked one."""
    cells, mask = np.ma.getdata(given), np.ma.getmaskarray(given)
    kind = cells.dtype.kind
    # An array of records is refused for its kind later, and has a mask for each field.
    if kind == "V" or not mask.any():
        return cells
    if kind in "MO":
        return np.where(mask, np.array("NaT" if kind == "M" else None, cells.dtype), cells)
    if kind in "bUS":
        cells = cells if kind == "b" else _texts(name, cells)
        return np.where(mask, np.array(None, object), cells.astype(object))
    return np.ma.filled(given.astype(float), np.nan) if kind in "iuf" else cells


def _texts(name: str, array: NDArray[Any]) -> NDArray[Any]:
    try:
        return array.astype(str)
    except UnicodeDecodeError as error:
        raise PanelError(
            f"column {name!r} has {error.object!r}, bytes beyond ASCII; give text, such as "
            'np.char.decode(array, "utf-8")'
        ) from error


def _instants(name: str, array: NDArray[Any]) -> tuple[str, NDArray[Any]]:
    unit, step = np.datetime_data(array.dtype)
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    if unit in ("Y", "M", "W", "D"):
        return "day", _cast(name, array, "datetime64[D]")
    if unit in ("h", "m"):
        return "s", _cast(name, array, "datetime64[s]")
    if unit not in ("s", "ms", "us", "ns") or step != 1:
        raise PanelError(
            f'column {name!r} is an array of {array.dtype}; give array.astype("datetime64[us]")'
        )
    return unit, np.ascontiguousarray(array).view(np.int64)


def _cast(name: str, array: NDArray[Any], dtype: str) -> NDArray[Any]:
    """Return instants in a finer unit. NumPy wraps those beyond its range, which are refused."""
    array = np.ascontiguousarray(array)
    finer = array.astype(dtype)
    wrapped = finer.astype(array.dtype).view(np.int64) != array.view(np.int64)
    if wrapped.any():
        row = int(wrapped.argmax())
        raise PanelError(
            f"row {row} (from 0), column {name!r}: {array.view(np.int64)[row]} in "
            f"{array.dtype} is beyond the range of {dtype}; correct or drop the row"
        )
    return finer.view(np.int64)


def _objects(name: str, cells: list[Any]) -> tuple[str, NDArray[Any] | list[str | None]]:
    """Return objects as text, or as numbers if they are. Dates keep their zone in the text."""
    missing = [_is_missing(cell) for cell in cells]
    there = [cell for cell, absent in zip(cells, missing, strict=True) if not absent]
    if all(isinstance(cell, str) or hasattr(cell, "isoformat") for cell in there):
        return "text", [
            None if absent else cell if isinstance(cell, str) else cell.isoformat()
            for cell, absent in zip(cells, missing, strict=True)
        ]
    try:
        if not all(map(_is_number, there)):
            raise TypeError("objects that are no numbers")
        if any(missing):
            numbers = [np.nan if no else float(c) for c, no in zip(cells, missing, strict=True)]
        elif all(isinstance(cell, int | np.integer) for cell in cells):
            return _cells(name, np.array(cells, dtype=np.int64))
        else:
            numbers = [float(cell) for cell in cells]
    except (TypeError, ValueError, OverflowError) as error:
        strange = [cell for cell in there if not _is_number(cell)] or there
        kinds = sorted({type(cell).__name__ for cell in strange})
        raise PanelError(
            f"column {name!r} holds objects of {', '.join(kinds)}; give numbers, dates, "
            "timestamps or text"
        ) from error
    return "float", np.array(numbers)


def _is_missing(cell: Any) -> bool:  # noqa: ANN401
    """Return whether a cell is None, a NaN, or the missing value of pandas."""
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(cell, float) and cell != cell


def _is_number(cell: Any) -> bool:  # noqa: ANN401
    """Return whether a cell is a number. Text and booleans, which `float` takes too, are none."""
    if isinstance(cell, np.generic | np.ndarray):
        return cell.dtype.kind in "iuf"
    is_real = hasattr(cell, "__float__") or hasattr(cell, "__index__")
    return is_real and not isinstance(cell, bool)
