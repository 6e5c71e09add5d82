"""Batches, compared element by element with a model that keeps every episode."""

from __future__ import annotations

from typing import Any

import backcast as bc
import numpy as np
import pytest
from budgets import budget
from counted_ring import assert_equal, flat
from episodes import COLUMNS, Item, Lane, Step, Windows, expected, is_drawn, items
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

# Random rows may look as if another autoreset mode had written them.
pytestmark = pytest.mark.filterwarnings("ignore::backcast.errors.WriterWarning")

# How a step of one lane ends its episode.
GOES, TERMINATES, TRUNCATES, BOTH = range(4)
ENDS = st.sampled_from([GOES] * 6 + [TERMINATES, TERMINATES, TRUNCATES, BOTH])
REWARDS = st.floats(-8, 8, width=32)
MODES = ("next_step", "same_step", "disabled")


@st.composite
def windows(draw: st.DrawFn) -> Windows:
    """Choose the options of a sampler."""
    n_step = draw(st.none() | st.integers(1, 6))
    return Windows(
        history=draw(st.none() | st.integers(1, 6)),
        future=draw(st.integers(0, 4)),
        n_step=n_step,
        gamma=None if n_step is None else draw(st.sampled_from([0.0, 0.5, 0.99, 1.0])),
        boundary=draw(st.sampled_from(["mask", "reject", "clamp"])),
        copy=draw(st.booleans()),
    )


class Play:
    """A ring and its model, written side by side."""

    def __init__(self, lanes: int, capacity: int, mode: str) -> None:
        self.buf = bc.ReplayBuffer.create(None, COLUMNS, capacity=lanes * capacity, lanes=lanes)
        self.lanes = [Lane(capacity) for _ in range(lanes)]
        self.mode, self.count = mode, 0
        self.writer = self.buf.writer(lanes=lanes, autoreset_mode=mode)  # type: ignore[arg-type]

    def obs(self) -> tuple[float, float]:
        """Return an observation that no other row has."""
        self.count += 1
        return float(self.count), -float(self.count)

    def append(self, ends: list[int], reward: float) -> None:
        """Write one step of all lanes."""
        steps, finals = [], []
        for lane, end in zip(self.lanes, ends, strict=False):
            final = self.mode == "next_step" and lane.awaits_last()
            end = GOES if final else end
            step = Step(
                self.obs(),
                self.count,
                reward,
                end in (TERMINATES, BOTH),
                end in (TRUNCATES, BOTH),
            )
            steps.append(step)
            finals.append(self.obs())
            if final:
                lane.finish(step.obs)
                continue
            lane.step(step)
            if step.over and self.mode != "next_step":
                lane.finish(finals[-1])
        over = self.mode != "next_step" and any(step.over for step in steps)
        at = self.writer.append(
            obs=[step.obs for step in steps],
            action=[step.action for step in steps],
            reward=np.array([step.reward for step in steps], "f4"),
            terminated=[step.terminated for step in steps],
            truncated=[step.truncated for step in steps],
            final_obs=np.array(finals, "f4") if over else None,
        )
        assert len(at) == len(self.lanes)

    def die(self) -> None:
        """Close the writer, and open another one for the same lanes."""
        self.writer.close()
        for lane in self.lanes:
            lane.break_off()
        self.writer = self.buf.writer(lanes=len(self.lanes), autoreset_mode=self.mode)  # type: ignore[arg-type]


def compare(batch: dict[str, Any], drawn: list[Item], asked: Windows) -> None:
    """Compare every array of a batch, element by element."""
    wanted = [expected(item, asked) for item in drawn]
    arrays = dict(flat(batch))
    assert set(arrays) == set(wanted[0])
    for key, array in arrays.items():
        column = np.stack([item[key] for item in wanted])
        assert array.dtype == column.dtype, key
        np.testing.assert_array_equal(array, column, err_msg=key)


def check(play: Play, asked: Windows) -> None:
    """Compare gathered, drawn and prefetched batches with the model."""
    every = items(play.lanes, asked)
    assert len(play.buf) == len(every)
    arguments: dict[str, Any] = dict(vars(asked), seed=3)
    if asked.rows > play.lanes[0].capacity:
        with pytest.raises(bc.errors.SampleError, match=r"n_step=\d+"):
            play.buf.sampler(**arguments)
        return
    sampler = play.buf.sampler(**arguments)
    whole = [item for item in every if is_drawn(item, asked)]
    why = r"index\[0\]" if asked.boundary == "clamp" else r'index\[0\].*boundary="reject"'
    for item in every:
        if item not in whole:
            with pytest.raises(bc.errors.SampleError, match=why):
                sampler.gather([item.index])
    if not whole:
        with pytest.raises(bc.errors.SampleError):
            sampler.sample(8)
        return
    compare(sampler.gather([item.index for item in whole]), whole, asked)
    by_index = {item.index: item for item in whole}
    batch = sampler.sample(16)
    compare(batch, [by_index[index] for index in batch.index.tolist()], asked)
    ahead = play.buf.sampler(**arguments)
    for other in ahead.batches(16, prefetch=1, limit=1):
        assert_equal(other, batch)


@settings(
    max_examples=budget(300),
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(
    lanes=st.integers(1, 3),
    capacity=st.integers(2, 24),
    mode=st.sampled_from(MODES),
    # None stands for a writer that dies.
    steps=st.lists(
        st.none() | st.tuples(st.lists(ENDS, min_size=3, max_size=3), REWARDS), max_size=60
    ),
    asked=st.lists(windows(), min_size=1, max_size=3),
)
def test_a_batch_holds_exactly_what_the_episodes_say(
    lanes: int,
    capacity: int,
    mode: str,
    steps: list[tuple[list[int], float] | None],
    asked: list[Windows],
) -> None:
    play = Play(lanes, capacity, mode)
    for number, step in enumerate(steps):
        if step is None:
            play.die()
        else:
            play.append(*step)
        if number == len(steps) // 2:
            check(play, asked[0])
    for one in asked:
        check(play, one)


def test_the_model_knows_cuts_wraps_and_ends() -> None:
    # Episodes of rows 0 to 4 with FINAL row 5, 6 to 10 with 11, and 12 to 16 with 17; the cut
    # episode of rows 18 and 19; rows 20 to 22 with FINAL row 23.
    play = Play(1, 6, "same_step")
    for number in range(20):
        if number == 17:
            play.die()
        play.append([TRUNCATES if number % 5 == 4 else GOES], float(number))
    asked = Windows(3, 2, 3, 0.5, "clamp", copy=False)
    found = items(play.lanes, asked)
    assert [item.seq for item in found] == [18, 20, 21, 22]
    cut, first, *_, last = (expected(item, asked) for item in found)
    assert (cut["n_reward"], cut["n_discount"]) == (15, 0.5)
    assert (first["n_reward"], first["n_discount"]) == (17 + 18 / 2 + 19 / 4, 0.125)
    assert first["mask"].tolist() == [False, False, True]
    assert first["future_mask"].tolist() == [True, True]
    assert len({obs.tobytes() for obs in first["obs"]}) == 1, "the first frame is repeated"
    assert last["truncated"].tolist() == [False, False, True]
    assert len({obs.tobytes() for obs in last["future/obs"]}) == 1, "and the final one"
    check(play, asked)
