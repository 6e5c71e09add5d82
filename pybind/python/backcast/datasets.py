"""Rings of data sets: arrays in memory, and HDF5 files of D4RL and Minari.

The files need h5py (``pip install 'backcast[hdf5]'``); ``import backcast`` alone does not.
"""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from backcast._calls import explained
from backcast._native import ReplayBuffer
from backcast._trees import flat
from backcast.errors import ArgumentError, ArgumentTypeError, BackcastError, MissingExtraError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["from_arrays", "from_hdf5"]

_OBS = ("obs", "observations", "observation", "states")
_TERMINATED = ("terminated", "terminations", "terminals", "dones", "done")
_TRUNCATED = ("truncated", "truncations", "timeouts")
# Elements that are read of a file at a time.
_CHUNK = 1 << 20
_Read = Callable[[int, int], Any]


class _Piece(NamedTuple):
    """Rows of one array, in memory or in a file."""

    rows: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    read: _Read

    @classmethod
    def of(cls, array: Any) -> _Piece:
        """Return all rows of an array."""
        return cls(len(array), array.shape[1:], array.dtype, lambda start, stop: array[start:stop])


class _Parts:
    """One array of pieces one after the other, to be read in parts along its first axis."""

    def __init__(self, pieces: Sequence[_Piece]) -> None:
        self.rows = sum(piece.rows for piece in pieces)
        self.shape, self.dtype = pieces[0].shape, pieces[0].dtype
        self._pieces = pieces

    def __iter__(self) -> Iterator[NDArray[Any]]:
        step = max(1, _CHUNK // max(1, math.prod(self.shape)))
        for piece in self._pieces:
            for start in range(0, piece.rows, step):
                yield np.ascontiguousarray(piece.read(start, min(start + step, piece.rows)))


@explained
def from_arrays(
    arrays: Mapping[str, ArrayLike | Mapping[str, Any]],
    name: str | None = None,
    *,
    capacity: int | None = None,
    exist: Literal["error", "replace"] = "error",
    persistent: bool = False,
    dir: str | os.PathLike[str] | None = None,
    leave_out: Sequence[str] | None = None,
) -> ReplayBuffer:
    """Make a ring of arrays that have one row for each step, as of D4RL's data sets.

    Takes the names and has the rules of :meth:`backcast.ReplayBuffer.from_file` for ``.npz``
    files: where ``next_obs`` is given, every transition is one of the arrays; where it is not, the
    last step of a truncated episode is stored and starts no transition.

    Parameters
    ----------
    arrays : mapping of str to array_like
        ``obs`` and ``terminated``, or one of their other names such as ``observations`` and
        ``terminals``; and any others. Nested dicts have names with ``/``.
    name : str, optional
        Name that other processes attach to; None for memory private to this process.
    capacity : int, optional
        Rows of the ring; by default as many as the data has.
    exist : {"error", "replace"}
        Policy when the name is taken.
    persistent : bool
        Keep the ring when no process holds it.
    dir : path, optional
        Base directory; by default ``BACKCAST_DIR``, else ``/dev/shm``.
    leave_out : sequence of str, optional
        Arrays that are not stored, each with what lies below it.

    Returns
    -------
    ReplayBuffer
        The ring; ``imported`` says what was stored.

    Raises
    ------
    ArgumentError
        If an array is missing, has another length or holds what no column can hold, or if a flag
        is neither 0 nor 1. No ring is left.

    Examples
    --------
    >>> import numpy as np
    >>> data = {"observations": np.zeros((4, 3), "f4"), "terminals": np.array([0, 0, 0, 1])}
    >>> len(from_arrays(data))
    4
    """
    if not isinstance(arrays, Mapping):
        raise ArgumentTypeError(
            f"arrays is a {type(arrays).__name__}; give a dict of arrays, one row for each step"
        )
    left_out = _names(leave_out)
    _check_left_out(left_out, [path for path, _ in flat(arrays)], "arrays")
    parts: dict[str, _Parts] = {}
    for path, value in flat(arrays):
        if _is_left_out(path, left_out):
            continue
        if path in parts:
            raise ArgumentError(
                f"arrays: `{path}` is there twice, as a name and in a nested dict; give one of them"
            )
        parts[path] = _Parts([_Piece.of(_array_of(value, path))])
    options = {"capacity": capacity, "exist": exist, "persistent": persistent, "dir": dir}
    return _imported(parts, "arrays", name, options)


@explained
def from_hdf5(
    path: str | os.PathLike[str],
    name: str | None = None,
    *,
    capacity: int | None = None,
    exist: Literal["error", "replace"] = "error",
    persistent: bool = False,
    dir: str | os.PathLike[str] | None = None,
    leave_out: Sequence[str] | None = None,
) -> ReplayBuffer:
    """Make a ring of an HDF5 file of D4RL or Minari.

    D4RL's files have one row for each step, and are stored as :func:`from_arrays` says; what lies
    below ``metadata`` is left out. Minari's have a group ``episode_N`` for each episode, with an
    observation more than steps. An episode whose last step has neither flag is truncated.

    Parameters
    ----------
    path : path
        The file; of Minari ``main_data.hdf5``, or the folder of the data set.
    name, capacity, exist, persistent, dir, leave_out
        As for :func:`from_arrays`.

    Returns
    -------
    ReplayBuffer
        The ring; ``imported`` says what was stored.

    Raises
    ------
    MissingExtraError
        If h5py is not installed.
    ArgumentError
        If the file is no HDF5 file of either kind, or as for :func:`from_arrays`.

    Notes
    -----
    The file is read in parts. Beside the ring its arrays stand in memory twice until the import
    ends: the call takes three times the data's size, and up to five times that of a Minari file,
    whose observations are also those that follow.
    Values below ``infos`` become columns of a step; Minari's last one of each episode is left out.
    """
    try:
        import h5py
    except ImportError as error:
        raise MissingExtraError(
            "h5py reads HDF5 files, and is not installed; run `pip install 'backcast[hdf5]'`"
        ) from error
    left_out = _names(leave_out)
    place = os.fspath(path)
    for inner in ("main_data.hdf5", os.path.join("data", "main_data.hdf5")):
        if os.path.isfile(os.path.join(place, inner)):
            place = os.path.join(place, inner)
            break
    if not os.path.exists(place):
        raise ArgumentError(f"{place} does not exist; give the path of an HDF5 file")
    try:
        file = h5py.File(place, "r")
    except OSError as error:
        raise ArgumentError(f"{place} is no HDF5 file that can be read: {error}") from error
    with file:
        episodes = [key for key in file if key.startswith("episode_")]
        if left_out:
            groups = [file[name] for name in episodes] or [file]
            paths = dict.fromkeys(path for group in groups for path, _ in flat(group))
            _check_left_out(left_out, [*paths], place)
        if episodes:
            parts = _of_episodes(file, episodes, place, left_out)
        else:
            parts = _of_steps(file, place, [*left_out, "metadata"])
        options = {"capacity": capacity, "exist": exist, "persistent": persistent, "dir": dir}
        return _imported(parts, place, name, options)


def _of_steps(file: Any, place: str, leave_out: Sequence[str]) -> dict[str, _Parts]:
    parts = {}
    for path, data in flat(file):
        if _is_left_out(path, leave_out):
            continue
        if not data.shape:
            raise ArgumentError(
                f'{place}: `{path}` is a single value; give leave_out=["{path}"] if it is no data'
            )
        parts[path] = _Parts([_Piece.of(data)])
    return parts


def _of_episodes(
    file: Any, names: list[str], place: str, leave_out: Sequence[str]
) -> dict[str, _Parts]:
    """Return the steps of Minari's episodes, one after the other."""
    names = sorted(names, key=lambda name: int(name.removeprefix("episode_")))
    lists: dict[str, list[_Piece]] = {}
    for name in names:
        arrays = {
            path: data for path, data in flat(file[name]) if not _is_left_out(path, leave_out)
        }
        for wanted in ("observations", "actions", "rewards", "terminations", "truncations"):
            if not any(path.split("/")[0] == wanted for path in arrays):
                raise ArgumentError(
                    f"{place}: {name} has no `{wanted}`, which Minari's data sets have; it has "
                    f"{', '.join(arrays) or 'nothing'}"
                )
        for path, data in arrays.items():
            if not data.shape:
                raise ArgumentError(
                    f"{place}: `{path}` of {name} is a single value; give "
                    f'leave_out=["{path}"] if it is no data of steps'
                )
        steps = len(arrays["rewards"])
        if not steps:
            continue
        found = {}
        for path, data in arrays.items():
            top, _, below = path.partition("/")
            is_seen = top in ("observations", "infos")
            if len(data) != steps + is_seen:
                raise ArgumentError(
                    f"{place}: `{path}` of {name} has {len(data)} rows, and there are {steps} "
                    f'rewards: {steps + is_seen} are needed; give leave_out=["{path}"] if it is '
                    "no data of steps"
                )
            found[path] = _rows_in(file, f"{name}/{path}", 0, steps)
            if top == "observations":
                after = f"next_observations/{below}" if below else "next_observations"
                found[after] = _rows_in(file, f"{name}/{path}", 1, steps)
        terminated, truncated = (arrays[flags][:] for flags in ("terminations", "truncations"))
        _check_flags(terminated, "terminations", f"{place}: {name}")
        _check_flags(truncated, "truncations", f"{place}: {name}")
        truncated = np.array(truncated, bool)
        truncated[-1] |= not terminated[-1]
        found["truncations"] = _Piece.of(truncated)
        if lists and found.keys() != lists.keys():
            odd = sorted(found.keys() ^ lists.keys())[0]
            raise ArgumentError(
                f"{place}: `{odd}` is in some episodes and not in {name}, or the other way; give "
                f'leave_out=["{odd}"]'
            )
        for path, piece in found.items():
            lists.setdefault(path, []).append(piece)
    if not lists:
        raise ArgumentError(f"{place} has no episode with a step; there is nothing to store")
    for path, pieces in lists.items():
        kinds = {(piece.shape, piece.dtype.str) for piece in pieces}
        if len(kinds) > 1:
            (shape, dtype), (other, kind) = sorted(kinds)[:2]
            raise ArgumentError(
                f"{place}: `{path}` is {dtype} of shape {list(shape)} in some episodes, and {kind} "
                f'of {list(other)} in others; give leave_out=["{path}"], or write it as one kind'
            )
    return {path: _Parts(pieces) for path, pieces in lists.items()}


def _rows_in(file: Any, path: str, first: int, rows: int) -> _Piece:
    """Return rows of an array in a file, which is opened when they are read.

    An open one takes memory, and there are some for each episode.
    """
    data = file[path]

    def read(start: int, stop: int) -> Any:
        return file[path][first + start : first + stop]

    return _Piece(rows, data.shape[1:], data.dtype, read)


def _names(leave_out: Sequence[str] | None) -> list[str]:
    # The letters of a text would be names that leave out nothing.
    if isinstance(leave_out, str):
        raise ArgumentTypeError(f"leave_out is {leave_out!r}; give a list, [{leave_out!r}]")
    names = [*(leave_out or ())]
    for name in names:
        if not isinstance(name, str):
            raise ArgumentTypeError(f"leave_out has {name!r}; give names of arrays")
    return names


def _check_left_out(leave_out: Sequence[str], paths: Sequence[str], source: str) -> None:
    for name in leave_out:
        if not any(_is_left_out(path, [name]) for path in paths):
            raise ArgumentError(
                f"cannot leave out `{name}`, which {source} does not have: it has "
                f"{', '.join(paths) or 'nothing'}"
            )


def _is_left_out(path: str, leave_out: Sequence[str]) -> bool:
    return any(path == name or path.startswith(f"{name}/") for name in leave_out)


def _array_of(value: Any, path: str) -> NDArray[Any]:
    if np.ma.is_masked(value):
        raise ArgumentError(
            f"arrays: `{path}` has masked values, which no column can hold; fill them "
            "(`array.filled(value)`), and give the mask as a column of its own"
        )
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ArgumentError(
            f"arrays: `{path}` is no array of one row for each step: {error}; give numbers or "
            "flags of one shape"
        ) from error
    if array.ndim == 0:
        raise ArgumentError(f"`{path}` is a single value; give one row for each step")
    return array


def _imported(
    parts: dict[str, _Parts], source: str, name: str | None, options: dict[str, Any]
) -> ReplayBuffer:
    """Make a ring of arrays, by the import of NumPy's files, from a file in memory."""
    _check(parts, source)
    memory = os.memfd_create("backcast-arrays", os.MFD_CLOEXEC)
    try:
        with os.fdopen(memory, "wb", closefd=False) as file, zipfile.ZipFile(file, "w") as zipped:
            for path, part in parts.items():
                with zipped.open(f"{path}.npy", "w", force_zip64=True) as member:
                    _write(member, part, path, source)
        place = f"/proc/self/fd/{memory}"
        try:
            return ReplayBuffer.from_file(place, name, "npz", **options)
        except BackcastError as error:
            # The file in memory has no name that would mean anything to the caller.
            error.args = (str(error).replace(place, source), *error.args[1:])
            raise
    finally:
        os.close(memory)


def _check(parts: dict[str, _Parts], source: str) -> None:
    for what, names in (("obs", _OBS), ("terminated", _TERMINATED)):
        if not any(path.split("/")[0] in names for path in parts):
            raise ArgumentError(
                f"{source}: there is no `{what}`, and no {', '.join(f'`{n}`' for n in names[1:])}; "
                f"there is {', '.join(parts) or 'nothing'}"
            )
    rows = {path: part.rows for path, part in parts.items()}
    (first, length), *others = rows.items()
    for path, count in others:
        if count != length:
            raise ArgumentError(
                f"{source}: `{path}` has {count} rows, and `{first}` has {length}; give as many, "
                f'or leave_out=["{path}"]'
            )


def _check_flags(values: NDArray[Any], path: str, source: str, first: int = 0) -> None:
    if values.dtype == np.bool_:
        return
    wrong = ~((values == 0) | (values == 1))
    if wrong.any():
        row = int(np.flatnonzero(wrong.reshape(len(values), -1).any(axis=1))[0])
        raise ArgumentError(
            f"{source}: `{path}` of step {first + row} is {values[row]}; a flag is 0 or 1"
        )


def _write(member: Any, part: _Parts, path: str, source: str) -> None:
    header = {
        "descr": np.lib.format.dtype_to_descr(part.dtype),
        "fortran_order": False,
        "shape": (part.rows, *part.shape),
    }
    np.lib.format.write_array_header_1_0(member, header)
    is_flag = path in (*_TERMINATED, *_TRUNCATED)
    at = 0
    for values in part:
        if is_flag:
            _check_flags(values, path, source, at)
        member.write(values.tobytes())
        at += len(values)
