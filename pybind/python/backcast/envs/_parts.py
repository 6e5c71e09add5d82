"""Parts of observations: their arrays, and those of one environment out of many."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


def named(obs: Any) -> Any:  # noqa: ANN401
    """Turn tuples into dicts, since a tuple may also be one observation per lane."""
    if isinstance(obs, tuple):
        return {str(at): named(part) for at, part in enumerate(obs)}
    if isinstance(obs, dict):
        return {key: named(part) for key, part in obs.items()}
    return obs


def row_of(obs: Any, at: int) -> Any:  # noqa: ANN401
    """Copy one observation out of those of all sub-environments."""
    if isinstance(obs, tuple):
        return tuple(row_of(part, at) for part in obs)
    if isinstance(obs, dict):
        return {key: row_of(part, at) for key, part in obs.items()}
    return np.array(obs[at])


def arrays(obs: Any) -> Iterator[NDArray[Any]]:  # noqa: ANN401
    """Yield the arrays of an observation."""
    if isinstance(obs, dict):
        obs = tuple(obs.values())
    if isinstance(obs, tuple):
        for part in obs:
            yield from arrays(part)
    elif isinstance(obs, np.ndarray):
        yield obs


def share(one: Any, other: Any) -> bool:  # noqa: ANN401
    """Return whether writing to one of two observations may change the other."""
    if isinstance(one, dict | list) and one is other:
        return True
    pairs = zip(arrays(one), arrays(other), strict=False)
    return any(np.may_share_memory(before, now) for before, now in pairs)


def objects(rows: list[Any]) -> NDArray[np.object_]:
    """Make an object array, the form of Gymnasium's final observations."""
    array = np.empty(len(rows), object)
    for at, row in enumerate(rows):
        array[at] = row
    return array
