"""Rows come out as they went in: random steps in all autoreset modes, compared with a model."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

import backcast as bc
import numpy as np
import pytest
from numpy.typing import NDArray

# The writer warns because random rows contradict the autoreset mode.
pytestmark = pytest.mark.filterwarnings("ignore::backcast.errors.WriterWarning")

TERMINATED, TRUNCATED, FINAL, GAP = 1, 2, 4, 8
Mode = Literal["next_step", "same_step", "disabled"]
MODES = ["next_step", "same_step", "disabled"]
COLUMNS = {"obs": ("f4", (3,)), "action": "i4", "reward": "f8"}


@dataclass
class Row:
    """One row of the model."""

    obs: NDArray[np.float32]
    action: int
    reward: float
    flags: int
    episode: int
    t: int


@dataclass
class Lane:
    """All rows of one lane: slow, and obviously right."""

    mode: str
    rows: list[Row] = field(default_factory=list)
    episode: int = 0
    t: int = 0
    ended: bool = False
    gap: bool = False

    def append(self, step: dict[str, Any]) -> int:
        """Write a step and return the sequence number of its row."""
        seq = len(self.rows)
        if self.ended:
            self._final(step["obs"])
            return seq
        flags = TERMINATED * step["terminated"] | TRUNCATED * step["truncated"] | GAP * self.gap
        self.gap = False
        self._row(step["obs"], step["action"], step["reward"], flags)
        if step["terminated"] or step["truncated"]:
            if self.mode == "next_step":
                self.ended = True
            else:
                self._final(step["final_obs"])
        return seq

    def restart(self) -> None:
        """Begin a new episode with a gap, unless one is about to begin anyway."""
        if self.t > 0 or self.ended:
            self.episode, self.t, self.ended, self.gap = self.episode + 1, 0, False, True

    def transitions(self, capacity: int) -> list[int]:
        """List the rows within capacity at which a transition starts."""
        first = max(0, len(self.rows) - capacity)
        return [
            seq
            for seq in range(first, len(self.rows) - 1)
            if not self.rows[seq].flags & FINAL and not self.rows[seq + 1].flags & GAP
        ]

    def _final(self, obs: NDArray[np.float32]) -> None:
        self._row(obs, 0, 0.0, FINAL)
        self.episode, self.t, self.ended = self.episode + 1, 0, False

    def _row(self, obs: NDArray[np.float32], action: int, reward: float, flags: int) -> None:
        self.rows.append(Row(obs, action, reward, flags, self.episode, self.t))
        self.t += 1


def random_steps(seed: int, lanes: int, count: int) -> list[dict[str, Any]]:
    """Make steps of all lanes whose episodes are one to a few dozen transitions long."""
    draw = np.random.default_rng(seed)
    return [
        {
            "obs": draw.standard_normal((lanes, 3)).astype(np.float32),
            "action": draw.integers(-100, 100, lanes),
            "reward": draw.standard_normal(lanes),
            "terminated": draw.random(lanes) < 0.1,
            "truncated": draw.random(lanes) < 0.1,
            "final_obs": draw.standard_normal((lanes, 3)).astype(np.float32),
            "restart": draw.random(lanes) < 0.02,
        }
        for _ in range(count)
    ]


def play(
    buf: bc.ReplayBuffer, mode: str, seed: int, count: int
) -> tuple[dict[int, Lane], dict[int, tuple[int, int]]]:
    """Append random steps to the buffer and to the model; the indices must agree."""
    lanes = buf.lanes
    places: dict[int, tuple[int, int]] = {}
    with buf.writer(lanes=lanes, autoreset_mode=cast(Mode, mode)) as writer:
        model = {int(lane): Lane(mode) for lane in writer.lanes}
        for step in random_steps(seed, lanes, count):
            if step["restart"].any():
                writer.restart(step["restart"])
            ends = (step["terminated"] | step["truncated"]).any()
            index = writer.append(
                obs=step["obs"],
                action=step["action"],
                reward=step["reward"],
                terminated=step["terminated"],
                truncated=step["truncated"],
                final_obs=step["final_obs"] if ends and mode != "next_step" else None,
            )
            for at, (number, lane) in enumerate(model.items()):
                if step["restart"][at]:
                    lane.restart()
                seq = lane.append({key: value[at] for key, value in step.items()})
                assert index[at] == number << 48 | seq
                places[int(index[at])] = (number, seq)
    return model, places


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("lanes", "capacity", "count"), [(1, 40, 30), (1, 40, 300), (5, 250, 400)])
def test_rows_come_back_as_they_were_written(
    place: Path, mode: str, lanes: int, capacity: int, count: int
) -> None:
    with bc.ReplayBuffer.create("r", COLUMNS, capacity=capacity, lanes=lanes, dir=place) as buf:
        model, _ = play(buf, mode, 1, count)
        for number, lane in model.items():
            low, head = buf.lane_span(number)
            assert head == len(lane.rows)
            assert low == max(0, head - buf.lane_capacity)
            rows = buf.rows(number, low, head - low)
            expected = lane.rows[low:]
            assert rows["seq"].tolist() == list(range(low, head))
            assert rows["episode"].tolist() == [row.episode for row in expected]
            assert rows["t"].tolist() == [row.t for row in expected]
            assert rows["flags"].tolist() == [row.flags for row in expected]
            assert rows["action"].tolist() == [row.action for row in expected]
            np.testing.assert_array_equal(rows["obs"], [row.obs for row in expected])
            np.testing.assert_array_equal(rows["reward"], [row.reward for row in expected])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("lanes", "capacity", "count"), [(1, 40, 30), (1, 40, 300), (5, 250, 400)])
def test_samples_are_transitions_of_the_model_and_reach_all_of_them(
    place: Path, mode: str, lanes: int, capacity: int, count: int
) -> None:
    with bc.ReplayBuffer.create("r", COLUMNS, capacity=capacity, lanes=lanes, dir=place) as buf:
        model, _ = play(buf, mode, 2, count)
        expected = {
            number << 48 | seq
            for number, lane in model.items()
            for seq in lane.transitions(buf.lane_capacity)
        }
        assert len(buf) == len(expected)
        batch = buf.sampler(seed=3).sample(20 * len(expected))
        assert set(batch.index.tolist()) == expected
        assert_transitions(model, batch)
        np.testing.assert_array_equal(buf.gather(batch.index)["obs"], batch["obs"])


def assert_transitions(model: dict[int, Lane], batch: bc.Batch) -> None:
    """Compare every transition of a batch without windows with the model."""
    for at, index in enumerate(batch.index.tolist()):
        lane, seq = model[index >> 48], index & (1 << 48) - 1
        row, after = lane.rows[seq], lane.rows[seq + 1]
        np.testing.assert_array_equal(batch["obs"][at], row.obs)
        np.testing.assert_array_equal(batch["next_obs"][at], after.obs)
        assert batch["action"][at] == row.action
        assert batch["reward"][at] == row.reward
        assert batch["terminated"][at] == bool(row.flags & TERMINATED)
        assert batch["truncated"][at] == bool(row.flags & TRUNCATED)
        assert batch.age[at] == len(lane.rows) - 1 - seq


@pytest.mark.parametrize("copy", [False, True], ids=["views", "copies"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("history", "future"), [(1, 0), (4, 0), (None, 3), (5, 7), (30, 1), (90, 9)]
)
def test_windows_stay_in_their_episode_and_are_masked_beyond_it(
    place: Path, mode: str, history: int | None, future: int, copy: bool
) -> None:
    with bc.ReplayBuffer.create("r", COLUMNS, capacity=300, lanes=3, dir=place) as buf:
        model, _ = play(buf, mode, 4, 150)
        sampler = buf.sampler(seed=5, history=history, future=future, copy=copy)
        batch = sampler.sample(120)
        for at, index in enumerate(batch.index.tolist()):
            lane, seq = model[index >> 48], index & (1 << 48) - 1
            window = Window(lane, seq, set(lane.transitions(buf.lane_capacity)), not copy)
            if history is not None:
                assert batch.mask is not None
                rows = range(seq - history + 1, seq + 1)
                window.check({**batch, "mask": batch.mask}, at, rows)
            if future:
                rows = range(seq + 1, seq + 1 + future)
                window.check({**batch["future"], "mask": batch.future_mask}, at, rows)
        sampler.close()


@dataclass
class Window:
    """Rows of the model around a drawn one."""

    lane: Lane
    seq: int
    inside: set[int]
    overlapping: bool

    def holds(self, row: int) -> bool:
        """Return whether all rows from this one to the drawn one are transitions of its episode."""
        between = range(min(self.seq, row), max(self.seq, row) + 1)
        episode = self.lane.rows[self.seq].episode
        return all(r in self.inside and self.lane.rows[r].episode == episode for r in between)

    def shows(self, row: int) -> bool:
        """Return whether the batch shows the observation of this row.

        Overlapping views also show it at a masked place if the row before is in the window:
        `next_obs` of that row is the same memory.
        """
        return self.holds(row) or (self.overlapping and self.holds(row - 1))

    def check(self, columns: dict[str, Any], at: int, rows: range) -> None:
        """Compare one window of a batch with the model, masked places included."""
        zeros = np.zeros(3)
        for place, row in enumerate(rows):
            there = self.holds(row)
            assert columns["mask"][at, place] == there
            assert columns["action"][at, place] == (self.lane.rows[row].action if there else 0)
            obs = self.lane.rows[row].obs if self.shows(row) else zeros
            assert (columns["obs"][at, place] == obs).all()
            shown = self.shows(row + 1) if self.overlapping else there
            after = self.lane.rows[row + 1].obs if shown else zeros
            assert (columns["next_obs"][at, place] == after).all()
