"""Transitions of a buffer in its ring: adds, finds and reads them."""

from __future__ import annotations

import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from backcast.errors import ArgumentError, WriterError
from backcast.sb3._saving import forget, is_private, loaded, saved

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from backcast import Batch, Priority, ReplayBuffer, Sampler, Writer
    from backcast.sb3._columns import Frames

# Index of a place to which no transition was added yet.
_NONE = -1
#: Spare rows of a lane for loads: the first step after one appends the newest transition again.
ROWS_FOR_LOADS = 16


def rows_of(steps: int, frames: Frames | None) -> int:
    """Return how many rows of a lane hold its last `steps` transitions, for episodes of any length.

    The shortest episodes have one transition and take two rows. A stack of frames also needs the
    rows before its own.
    """
    return 2 * steps + (0 if frames is None else frames.count - 1)


class Rows(NamedTuple):
    """Transitions, one along the first axis; observations are arrays, or dicts of arrays."""

    obs: Any
    next_obs: Any
    action: NDArray[Any]
    reward: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]


class Returns(NamedTuple):
    """Transitions for n-step returns, with rewards ``[B, n]`` of which ``length`` are summed.

    Next observation and end flags are those of the last transition summed.
    """

    rows: Rows
    rewards: NDArray[np.float32]
    length: NDArray[np.int64]


class Stored:
    """The transitions that a learner added to its own lanes of a ring.

    Step ``k`` of environment ``i`` has the place ``[k % steps, i]``, as in SB3's arrays. The newest
    transition of a lane has no successor in the ring, so a copy of it is kept here.
    """

    def __init__(
        self,
        ring: ReplayBuffer,
        steps: int,
        lanes: int,
        frames: Frames | None,
        *,
        n_step: int | None,
        seed: int | None,
        persistent: bool,
        dir: str | None,
        select: Priority | None = None,
    ) -> None:
        self.ring = ring
        self.steps = steps
        self.lanes = lanes
        self.frames = frames
        #: Number of calls of `add`.
        self.added = 0
        self._n_step = n_step
        self._seed = seed
        self._persistent = persistent
        self._dir = dir
        self._select = select
        self._index = np.full((steps, lanes), _NONE, np.int64)
        # Places at which an episode ends although no flag of its transition says so.
        self._cuts = np.zeros((steps, lanes), np.bool_)
        self._has_cuts = False
        # The newest step, and which of its transitions have their successor in the ring.
        self._newest: dict[str, Any] | None = None
        self._complete = np.ones(lanes, bool)
        # After a load the newest transitions must be appended again, because the writer is new.
        self._repeat = False
        # Flags of no lane.
        self._none = np.zeros(lanes, np.bool_)
        self._sampler_state: dict[str, Any] | None = None
        self._writer: Writer | None = None
        self._sampler: Sampler | None = None
        self._reader: Sampler | None = None

    # Writing

    def add(
        self,
        obs: Any,
        next_obs: Any,
        action: NDArray[Any],
        reward: NDArray[np.float32],
        ended: NDArray[np.bool_],
        truncated: NDArray[np.bool_] | None,
    ) -> None:
        """Append a transition for each lane, from arrays that have the dtypes of the ring.

        `ended` tells which episodes ended, and `truncated` which of them by a time limit; None
        stands for none. Nothing is stored if a stack of frames differs from the window that the
        ring would show.
        """
        begun = None
        if self.frames is not None:
            begun = self._begun(obs)
            self._check_stacks(self.frames, obs, next_obs, begun)
        if self._repeat:
            self._append_newest()
        if self._writer is None:
            self._writer = self.ring.writer(self.lanes, "disabled")
        if begun is not None and begun is not self._complete:
            cut = begun & ~self._complete
            if cut.any():
                self._writer.restart(cut)
                self._cut(self.added - 1, cut)
        # Copied, because it is read later, when the caller may have reused the array.
        ended = ended.copy()
        if truncated is None:
            terminated, truncated = ended, self._none
        else:
            terminated = ended & ~truncated
        if self.frames is None:
            stored, following = obs, next_obs
        else:
            stored, following = self.frames.newest(obs), self.frames.newest(next_obs)
        at = self.added % self.steps
        self._index[at] = self._writer.append(
            obs=stored,
            next_obs=following,
            action=action,
            reward=reward,
            terminated=terminated,
            truncated=truncated,
        )
        if self._has_cuts:
            self._cuts[at] = False
        self.added += 1
        self._newest = {
            "obs": _copy(obs),
            "next_obs": _copy(next_obs),
            "action": action.copy(),
            "reward": reward.copy(),
            "terminated": terminated,
            "truncated": truncated,
        }
        self._complete = ended

    def cut(self, lanes: NDArray[np.bool_]) -> None:
        """End the episodes of some lanes after their newest transitions."""
        if self._repeat:
            self._append_newest()
        elif self._writer is not None:
            self._writer.restart(lanes & ~self._complete)
        if self.added:
            self._cut(self.added - 1, lanes)
        self._complete = self._complete | lanes

    def _cut(self, step: int, lanes: Any) -> None:
        """Mark the places of a step as ends of episodes."""
        self._cuts[step % self.steps, lanes] = True
        self._has_cuts = True

    def _begun(self, obs: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which lanes begin an episode here."""
        if self._newest is None:
            return np.ones(self.lanes, bool)
        # Bytes are compared much faster than arrays, and few steps begin an episode elsewhere.
        if obs.tobytes() == self._newest["next_obs"].tobytes():
            return self._complete
        differ: NDArray[np.bool_] = _bytes(obs) != _bytes(self._newest["next_obs"])
        return self._complete | differ.any(axis=1)

    def _check_stacks(
        self, frames: Frames, obs: NDArray[Any], next_obs: NDArray[Any], begun: NDArray[np.bool_]
    ) -> None:
        stacks, following = frames.split(obs), frames.split(next_obs)
        for lane in range(self.lanes):
            if begun[lane] and not frames.is_start(stacks[lane]):
                other = "reset" if frames.padding == "zero" else "zero"
                raise ArgumentError(
                    f"environment {lane} begins an episode with a stack of {frames.count} frames "
                    f'that is not padded as padding="{frames.padding}" says; give '
                    f'padding="{other}" if it is padded so, reset the environment if it is in the '
                    "middle of an episode, or leave frames out to store whole stacks"
                )
            older, newer = following[lane, :-1], stacks[lane, 1:]
            if older.tobytes() != newer.tobytes() and (older != newer).any():
                raise ArgumentError(
                    f"environment {lane} does not shift its stack of {frames.count} frames by one: "
                    "the older frames of the next observation are not the newer ones of this; "
                    "stack along the first axis, the newest last (VecFrameStack), or leave frames "
                    "out to store whole stacks"
                )

    def _append_newest(self) -> None:
        """Append the newest transitions to their lanes again, and end their episodes there.

        Transitions of stacked frames are left out: a single frame shows no stack.
        """
        self._repeat = False
        newest, self._newest = self._newest, None
        waiting: list[int] = np.flatnonzero(~self._complete).tolist()
        self._complete = np.ones(self.lanes, bool)
        if newest is None or not waiting:
            return
        at = (self.added - 1) % self.steps
        if self.frames is not None:
            # The transitions before those that are left out are the last ones.
            self._cut(at - 1, waiting)
            return
        self._cut(at, waiting)
        of_lane = {int(self._index[at, lane]) >> 48: lane for lane in waiting}
        writers: list[Writer] = []
        # A lane that another process has claimed since the load is left as it is.
        with suppress(WriterError):
            writers.extend(self.ring.writer() for _ in range(self.ring.lanes))
        for writer in writers:
            lane = of_lane.get(int(writer.lanes[0]))
            if lane is not None:
                self._index[at, lane] = writer.append(**_row(newest, lane))[0]
            writer.close()

    # Reading

    def __len__(self) -> int:
        """Return how many transitions can be drawn, those of other writers included."""
        return len(self.ring)

    @property
    def waiting(self) -> int:
        """Number of the newest transitions, which cannot be drawn from the ring yet."""
        return 0 if self._newest is None else int(np.count_nonzero(~self._complete))

    def take(
        self, at: NDArray[np.int64], lanes: NDArray[np.int64]
    ) -> tuple[Rows, NDArray[np.bool_]]:
        """Return the transitions at some places, and which of them are still there.

        Missing rows are zero.
        """
        if self._reader is None:
            boundary: Any = "mask" if self.frames is None else "clamp"
            self._reader = self.ring.sampler(
                seed=0, history=self._history(), boundary=boundary, copy=True
            )
        batch = self._reader.gather(self._index[at, lanes], missing="mask")
        found = batch["found"]
        rows = self.rows(batch)
        if self._newest is None or self._complete.all():
            return rows, found
        last = (self.added - 1) % self.steps
        here = np.flatnonzero((at == last) & ~self._complete[lanes])
        if here.size:
            newest = self._newest
            if self.frames is not None:
                newest = newest | {
                    key: self.frames.split(newest[key]) for key in ("obs", "next_obs")
                }
            for name in Rows._fields:
                _put(getattr(rows, name), here, newest[name], lanes[here])
            found[here] = True
        return rows, found

    def index(self, at: NDArray[np.int64], lanes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the indices in the ring of the transitions at some places."""
        return self._index[at, lanes]

    def draw(self, batch_size: int) -> Batch:
        """Draw transitions over all lanes of the ring: uniformly, or by priority."""
        return self._drawing().sample(batch_size)

    def update_priorities(self, index: Any, priorities: Any) -> int:
        """Set priorities of drawn transitions; return how many were dropped."""
        return self._drawing().update_priorities(index, priorities)

    def returns(self, batch: Batch) -> Returns:
        """Return the transitions of a batch with their next rewards, up to their episodes' ends."""
        batch_size = len(batch.index)
        assert self._n_step is not None
        if self._n_step == 1:
            rows = self.rows(batch)
            return Returns(rows, rows.reward[:, None], np.ones(batch_size, np.int64))
        future, there = batch["future"], batch["future_mask"]
        rows = self.rows(batch)
        count = 1 + there.sum(axis=1)
        last = [np.arange(batch_size), np.maximum(count - 2, 0)]
        beyond = count > 1
        next_obs = batch["n_next_obs"]
        if self.frames is not None:
            # Frames in order: those before, the drawn one, the future, and `n_next_obs`. Where
            # fewer than `n_step` rewards are summed, `n_next_obs` follows the last frame summed.
            shown = np.concatenate([rows.obs, future["obs"], next_obs[:, None]], axis=1)
            drawn = np.arange(batch_size)
            shown[drawn, self.frames.count - 1 + count] = next_obs
            window = count[:, None] + np.arange(self.frames.count)
            next_obs = shown[drawn[:, None], window]
        rows = rows._replace(
            next_obs=next_obs,
            terminated=np.where(beyond, future["terminated"][*last], rows.terminated),
            truncated=np.where(beyond, future["truncated"][*last], rows.truncated),
        )
        rewards = np.concatenate([rows.reward[:, None], future["reward"]], axis=1)
        return Returns(rows, rewards, count)

    def take_returns(
        self, at: NDArray[np.int64], lanes: NDArray[np.int64], rows: Rows, n: int
    ) -> Returns:
        """Return the transitions at some places, given as `rows`, with their next rewards."""
        size = len(at)
        places = (at[:, None] + np.arange(n)) % self.steps
        window = self.take(places.ravel(), np.repeat(lanes, n))[0]
        ends = (window.terminated | window.truncated).reshape(size, n)
        ends |= self._cuts[places, lanes[:, None]]
        # The place after the newest step holds the oldest step, or nothing.
        ends |= places == (self.added - 1) % self.steps
        ends[:, -1] = True
        count = ends.argmax(axis=1) + 1
        last = np.arange(size) * n + count - 1
        rows = rows._replace(
            next_obs=window.next_obs[last],
            terminated=window.terminated[last],
            truncated=window.truncated[last],
        )
        return Returns(rows, window.reward.reshape(size, n), count)

    def lost(self) -> NDArray[np.bool_]:
        """Return which places hold transitions that were overwritten, ``[steps, lanes]``."""
        lane, row = self._index >> 48, self._index & (1 << 48) - 1
        oldest = np.array([self.ring.lane_span(at)[0] for at in range(self.ring.lanes)])
        older: NDArray[np.bool_] = row < oldest[lane]
        return older & (self._index >= 0)

    def _drawing(self) -> Sampler:
        if self._sampler is None:
            self._sampler = self._make_sampler()
        return self._sampler

    def _make_sampler(self) -> Sampler:
        options: dict[str, Any]
        if self._sampler_state is not None:
            options = {"state": self._sampler_state}
            # A state does not hold a function.
            if self._select is not None and callable(self._select.beta):
                options["select"] = self._select
            return self.ring.sampler(**options)
        if self._seed is None:
            # SB3 seeds this generator, so equal seeds of SB3 give equal seeds of the buffer.
            self._seed = int(np.random.randint(0, 2**31))
        n_step = self._n_step or 1
        options = {"seed": self._seed, "future": n_step - 1}
        if self._select is not None:
            options["select"] = self._select
        if n_step > 1:
            options |= {"n_step": n_step, "gamma": 1.0}
        if self.frames is not None:
            options |= {"history": self._history(), "boundary": "clamp", "copy": n_step > 1}
        return self.ring.sampler(**options)

    def _history(self) -> dict[str, Any] | None:
        """Return the `history` option of samplers: windows for the frames of ``obs`` alone."""
        return None if self.frames is None else {"obs": self.frames.count, "*": None}

    def rows(self, batch: Batch) -> Rows:
        """Return the columns of a batch, with padded windows of frames."""
        rows = Rows(
            batch["obs"],
            batch["next_obs"],
            batch["action"],
            batch["reward"],
            batch["terminated"],
            batch["truncated"],
        )
        if self.frames is None or self.frames.padding != "zero":
            return rows
        obs, next_obs, mask = rows.obs, rows.next_obs, batch["mask"]
        if not mask.all():
            padded, places = np.nonzero(~mask)
            if obs.flags.writeable:
                obs[padded, places] = 0
                following = places > 0
                next_obs[padded[following], places[following] - 1] = 0
            else:
                # Both are read-only views of one writable arena.
                obs.base[padded, places] = 0
        return rows

    # Saving

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes, with the ring's rows as files of a snapshot."""
        state = {
            name: value
            for name, value in vars(self).items()
            if name not in {"ring", "_writer", "_sampler", "_reader", "_sampler_state"}
        }
        if self._sampler is not None:
            self._sampler_state = self._sampler.state()
        state["_sampler_state"] = self._sampler_state
        state["ring"] = self.ring.name
        state["files"] = saved(self.ring)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Load the saved rows into a ring; refuse if a ring of the same name holds rows."""
        name, files = state.pop("ring"), state.pop("files")
        vars(self).update(state)
        # Pickles of earlier versions have no cuts and no selector.
        self._cuts = state.get("_cuts", np.zeros_like(self._index, np.bool_))
        self._select = state.get("_select")
        self._has_cuts = bool(self._cuts.any())
        self._none = np.zeros(self.lanes, np.bool_)
        self.ring = loaded(files, name, self._persistent, self._dir)
        if is_private(name):
            weakref.finalize(self, forget, self.ring)
        self._writer = self._sampler = self._reader = None
        self._repeat = True


def _bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(array).reshape(len(array), -1).view(np.uint8)


def _copy(value: Any) -> Any:
    if type(value) is np.ndarray:
        return value.copy()
    return {key: _copy(part) for key, part in value.items()}


def _row(value: Any, lane: int) -> Any:
    if isinstance(value, dict):
        return {key: _row(part, lane) for key, part in value.items()}
    return value[lane]


def _put(into: Any, here: NDArray[Any], values: Any, lanes: NDArray[Any]) -> None:
    if isinstance(into, dict):
        for key, part in into.items():
            _put(part, here, values[key], lanes)
    else:
        into[here] = values[lanes]
