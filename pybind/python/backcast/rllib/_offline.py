"""Transitions of a ring as Parquet files that RLlib's offline algorithms read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from ray.data.extensions import ArrowTensorArray
from ray.rllib.core.columns import Columns

from backcast._calls import explained
from backcast.errors import ArgumentError, ExistsError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from backcast._native import ReplayBuffer

_PART = 4_096
"""Transitions that are read at a time."""
_NAMES = {
    "obs": Columns.OBS,
    "next_obs": Columns.NEXT_OBS,
    "action": Columns.ACTIONS,
    "reward": Columns.REWARDS,
    "terminated": Columns.TERMINATEDS,
    "truncated": Columns.TRUNCATEDS,
}


@explained
def export_offline(
    ring: ReplayBuffer, path: str | os.PathLike[str], *, overwrite: bool = False
) -> int:
    """Write the transitions of a ring, one a row, for ``config.offline_data(input_=[path])``.

    Columns are named as RLlib names them: ``eps_id``, ``obs``, ``new_obs``, ``actions``,
    ``rewards``, ``terminateds``, ``truncateds``.

    Parameters
    ----------
    ring : ReplayBuffer
        A ring with the columns ``obs``, ``action`` and ``reward``, such as that of an
        `EpisodeReplayBuffer`.
    path : path
        The Parquet file.
    overwrite : bool, default False
        Replace a file that exists.

    Returns
    -------
    int
        Transitions that were written. Those that are overwritten meanwhile are left out.

    Raises
    ------
    ArgumentError
        If a column is missing, or one of them is a dict of columns, or there is no transition.
    ExistsError
        If the file exists.
    """
    place = os.fspath(path)
    for name in ("obs", "action", "reward"):
        if name not in ring.schema.columns:
            below = [key for key in ring.schema.columns if key.startswith(f"{name}/")]
            reason = f"only {', '.join(below)}" if below else "no such column"
            raise ArgumentError(
                f"`{name}`: {reason}; RLlib reads one array each of obs, action and reward"
            )
    if not overwrite and os.path.exists(place):
        raise ExistsError(f"{place} exists; give another path, or overwrite=True")
    with ring.transitions() as order:
        index = order.index_at(np.arange(len(order)))
    if not len(index):
        raise ArgumentError("the ring has no transition; there is nothing to write")
    # A row that is no transition lies between two episodes of a lane.
    episode = np.concatenate([[0], np.cumsum(np.diff(index) != 1)])
    written, partial = 0, f"{place}.part"
    writer = None
    try:
        for start in range(0, len(index), _PART):
            batch = ring.gather(index[start : start + _PART], missing="mask")
            table = _table(batch, episode[start : start + _PART])
            if writer is None:
                writer = pq.ParquetWriter(partial, table.schema)
            writer.write_table(table)
            written += len(table)
        assert writer is not None
        writer.close()
        os.replace(partial, place)
    finally:
        if os.path.exists(partial):
            os.remove(partial)
    return written


def _table(batch: Mapping[str, Any], episode: NDArray[np.int64]) -> pa.Table:
    found = batch["found"]
    arrays = {Columns.EPS_ID: pa.array([str(number) for number in episode[found]])}
    for name, column in _NAMES.items():
        values = np.ascontiguousarray(batch[name][found])
        is_scalar = values.ndim == 1
        arrays[column] = pa.array(values) if is_scalar else ArrowTensorArray.from_numpy(values)
    return pa.table(arrays)
