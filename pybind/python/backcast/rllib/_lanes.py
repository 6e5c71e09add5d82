"""Writes fragments of episodes, which come in any order, so that each lane has one at a time."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from backcast._calls import levels_up
from backcast._trees import mapped
from backcast.errors import ArgumentError, WriterWarning

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from ray.rllib.env.single_agent_episode import SingleAgentEpisode

    from backcast._native import ReplayBuffer, Writer


class Lanes:
    """Lanes of a ring and the episodes that are written to them.

    An open episode keeps its lane until it ends. Where more are open than there are lanes, that of
    the episode that had no fragment for longest is taken: its environment is most likely gone.

    Parameters
    ----------
    ring : ReplayBuffer
        The ring, whose lanes are all free.
    """

    def __init__(self, ring: ReplayBuffer) -> None:
        self._writers: list[Writer] = [
            ring.writer(1, autoreset_mode="disabled") for _ in range(ring.lanes)
        ]
        self._free = list(range(ring.lanes))
        # Lane and next step of each open episode, in the order of their last fragments.
        self._open: dict[str, tuple[int, int]] = {}
        self._newest: dict[int, dict[str, Any]] = {}
        self._warned = False
        self.cut = 0
        """Open episodes that lost their lane or a fragment, and so were cut."""

    def write(self, episode: SingleAgentEpisode) -> int:
        """Write a fragment, and return its number of transitions."""
        steps = len(episode)
        if not steps:
            return 0
        rows = rows_of(episode)
        terminated, truncated = np.zeros((2, steps, 1), np.bool_)
        terminated[-1], truncated[-1] = episode.is_terminated, episode.is_truncated
        lane, follows = self._open.get(episode.id_) or (self._next_lane(), episode.t_started)
        if follows != episode.t_started:
            self.cut += 1
            self._writers[lane].restart()
        try:
            self._writers[lane].extend(terminated=terminated, truncated=truncated, **rows)
        except BaseException:
            if episode.id_ not in self._open:
                self._free.append(lane)
            raise
        self._open.pop(episode.id_, None)
        self._newest.pop(lane, None)
        if episode.is_done:
            self._free.append(lane)
        else:
            self._open[episode.id_] = lane, episode.t
            self._newest[lane] = rows
        return steps

    def newest(self) -> list[dict[str, Any]]:
        """Return the newest transition of each open episode, which no draw finds yet."""
        return [
            {name: mapped(value, lambda _, array: array[-1, 0]) for name, value in rows.items()}
            for rows in self._newest.values()
        ]

    def _next_lane(self) -> int:
        if self._free:
            return self._free.pop(0)
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"more than {len(self._writers)} episodes are open, one for each lane of the ring: "
                "the one without a fragment for longest is cut; give `lanes=` all environments of "
                "all runners, unless one of them died",
                WriterWarning,
                stacklevel=levels_up(),
            )
        oldest = next(iter(self._open))
        lane, _ = self._open.pop(oldest)
        self.cut += 1
        self._writers[lane].restart()
        return lane

    def close(self) -> None:
        """Close the writers, which ends open episodes where they are."""
        for writer in self._writers:
            writer.close()


def ring_columns(episode: SingleAgentEpisode) -> dict[str, Any]:
    """Return the columns of a ring for episodes like this one, which has a step."""
    rows = rows_of(episode)
    del rows["next_obs"]
    columns = {
        name: mapped(value, lambda _, array: (array.dtype.str, array.shape[2:]))
        for name, value in rows.items()
    }
    # Learners compute in float32.
    columns["reward"] = "f4"
    return columns


def rows_of(episode: SingleAgentEpisode) -> dict[str, Any]:
    """Return the steps of an episode as columns, ``[T, 1, ...]``."""
    obs = _array(_steps(episode.observations), "observations")
    actions = _array(_steps(episode.actions), "actions")
    return {
        "obs": mapped(obs, lambda _, array: array[:-1, None]),
        "next_obs": mapped(obs, lambda _, array: array[1:, None]),
        "action": mapped(actions, lambda _, array: array[:, None]),
        "reward": np.asarray(_steps(episode.rewards), np.float32)[:, None],
    }


def _steps(buffer: Any) -> Any:
    """Return the values of an episode's steps, without those of the fragment before."""
    if not buffer.lookback:
        return buffer.data
    if isinstance(buffer.data, list):
        return buffer.data[buffer.lookback :]
    return mapped(buffer.data, lambda _, array: array[buffer.lookback :])


def _array(values: Any, what: str) -> Any:
    """Return the values of steps as nested arrays with a leading axis."""
    first = values[0] if isinstance(values, list) else values
    if isinstance(first, tuple):
        raise ArgumentError(
            f"{what} are tuples, which a ring has no columns for; use a Dict space, or flatten "
            "them with an env-to-module connector"
        )
    if isinstance(values, list):
        if isinstance(first, Mapping):
            return {key: _array([of[key] for of in values], what) for key in first}
        return _array(np.asarray(values), what)
    if isinstance(values, Mapping):
        return {key: _array(value, what) for key, value in values.items()}
    array: NDArray[Any] = np.asarray(values)
    if array.dtype == object:
        raise ArgumentError(
            f"{what} are no numbers of one shape, as a ring's columns are; pad them with an "
            "env-to-module connector"
        )
    return array
