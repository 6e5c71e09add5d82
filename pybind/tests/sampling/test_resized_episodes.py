"""Whole episodes of a ring that grows under its writers and samplers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import backcast as bc
import pytest

LANES = 2


class Episodes:
    """Appends episodes of 1 to 7 transitions to a ring, and knows which of them it holds whole."""

    def __init__(self, buf: bc.ReplayBuffer) -> None:
        self.buf = buf
        self.writers = [buf.writer() for _ in range(LANES)]
        # By the index of the first row: the values of `obs`, without the final observation.
        self.complete: dict[int, list[int]] = {}
        self.open: list[list[int]] = [[] for _ in range(LANES)]
        # Observation of the next step of each lane.
        self.value = [lane << 32 for lane in range(LANES)]

    def append(self, lane: int, *, end: bool) -> None:
        """Append a step; `end` ends the episode of the lane."""
        obs, open_ = self.value[lane], self.open[lane]
        [at] = self.writers[lane].append(obs=obs, next_obs=obs + 1, terminated=end, truncated=False)
        open_ += [obs] if open_ else [int(at), obs]
        # The final observation is of no step.
        self.value[lane] += 1 + end
        if end:
            self.complete[open_[0]], self.open[lane] = open_[1:], []

    def append_many(self, episodes: int) -> None:
        """Append whole episodes to every lane, after the rest of those that are open."""
        for number in range(episodes):
            for lane in range(LANES):
                for step in range(1 + number % 7):
                    self.append(lane, end=step == number % 7)

    def held(self) -> dict[int, list[int]]:
        """Return the complete episodes whose rows are all in the ring."""
        oldest = [self.buf.lane_span(lane)[0] for lane in range(LANES)]
        mask = (1 << 48) - 1
        return {at: values for at, values in self.complete.items() if at & mask >= oldest[at >> 48]}

    def check(self, sampler: bc.Sampler) -> None:
        """Draw every complete episode once, and compare it with what was appended."""
        held = self.held()
        with pytest.raises(bc.errors.SampleError):
            sampler.sample(len(held) + 1)
        batch = sampler.sample(len(held))
        assert sorted(batch.index.tolist()) == sorted(held)
        for item, at in enumerate(batch.index.tolist()):
            shown = batch["mask"][item]
            assert batch["obs"][item][shown].tolist() == held[at]
            after = [*held[at][1:], held[at][-1] + 1]
            assert batch["next_obs"][item][shown].tolist() == after
            assert batch["terminated"][item][shown].tolist() == [False] * (len(after) - 1) + [True]


def ring(place: Path, capacity: int) -> bc.ReplayBuffer:
    return bc.ReplayBuffer.create("grows", {"obs": "i8"}, capacity=capacity, lanes=LANES, dir=place)


def grown(buf: bc.ReplayBuffer, made: Episodes, capacity: int) -> None:
    """Resize a ring, and let its writers go over in the middle of their episodes."""
    buf.resize(capacity, timeout=0)
    for lane in range(LANES):
        made.append(lane, end=False)
    assert buf.capacity == capacity


@pytest.mark.parametrize("select", ["fifo", "lifo"])
def test_episodes_of_a_ring_that_grew_are_those_that_it_holds(place: Path, select: Any) -> None:  # noqa: ANN401
    form = bc.WholeEpisodes("padded", max_length=12)
    with ring(place, 120) as buf:
        made = Episodes(buf)
        made.append_many(60)
        old = buf.sampler(seed=1, select=select, form=form)
        made.check(old)
        before = len(made.held())
        for lane in range(LANES):
            made.append(lane, end=False)
        grown(buf, made, 2_000)
        # The resize brings rows back that were too old, and with them whole episodes.
        assert len(made.held()) > before
        made.check(old)
        made.append_many(200)
        for sampler in (old, buf.sampler(seed=1, select=select, form=form)):
            made.check(sampler)
        # The grown lanes lap too.
        made.append_many(500)
        made.check(old)
        for writer in made.writers:
            writer.close()


def test_an_episode_that_goes_on_over_a_resize_is_dropped_whole(place: Path) -> None:
    with ring(place, 400) as buf:
        made = Episodes(buf)
        made.append_many(3)
        for lane in range(LANES):
            made.append(lane, end=False)
        grown(buf, made, 900)
        for lane in range(LANES):
            made.append(lane, end=True)
        # Episodes of 1, 2, 3 transitions, and one of 3 that began before the resize.
        dropped = [[buf.drop_episode(lane) for _ in range(4)] for lane in range(LANES)]
        assert dropped == [[1, 2, 3, 3]] * LANES
        assert len(buf) == 0
        for writer in made.writers:
            writer.close()
