"""The demo's report about a killed actor's lanes, on lanes made by hand."""

from typing import Any

import backcast as bc
import numpy as np
import pytest
from backcast.demo.aftermath import FINAL, GAP, Aftermath
from backcast.demo.rows import checksums, schema

TICKERS = 2
Rows = dict[str, Any]


class LaneByHand:
    """One lane as the ring would show it, with the death at row `head`."""

    def __init__(self, flags: list[int], head: int) -> None:
        self.flags = np.array(flags, np.uint32)
        self.head = head
        self.oldest = 0
        draw = np.random.default_rng(5)
        self.columns: Rows = {"portfolio": {}}
        for path, (dtype, shape, _) in schema(TICKERS).items():
            values = draw.integers(1, 99, (len(flags), *shape)).astype(dtype)
            *groups, name = path.split("/")
            (self.columns[groups[0]] if groups else self.columns)[name] = values
        self.columns["checksum"] = checksums(self.columns)
        final = (self.flags & FINAL) != 0
        self.columns["action"][final] = 0
        self.columns["reward"][final] = 0
        begins = np.concatenate([[True], final[:-1]]) | ((self.flags & GAP) != 0)
        self.columns["seq"] = np.arange(len(flags), dtype=np.uint64)
        self.columns["episode"] = (np.cumsum(begins) - 1).astype(np.uint64)
        starts = np.maximum.accumulate(np.where(begins, np.arange(len(flags)), 0))
        self.columns["t"] = (np.arange(len(flags)) - starts).astype(np.uint32)
        self.columns["flags"] = self.flags

    def stats(self) -> Rows:
        return {"lane_stats": [{"lane": 0, "head": self.head}]}

    def lane_span(self, lane: int) -> tuple[int, int]:
        assert lane == 0
        return 0, self.head

    def rows(self, lane: int, start: int, length: int) -> Rows:
        assert lane == 0
        if start < self.oldest:
            raise bc.errors.SampleError("overwritten")
        chosen = slice(start, start + length)
        flat = {k: v[chosen] for k, v in self.columns.items() if isinstance(v, np.ndarray)}
        return flat | {"portfolio": {k: v[chosen] for k, v in self.columns["portfolio"].items()}}


def judged(lane: LaneByHand, successor_rows: int = 1, oldest: int = 0) -> Aftermath:
    death = Aftermath((0,), "next_step")
    death.examine(lane)  # type: ignore[arg-type]
    lane.head += successor_rows
    lane.oldest = oldest
    death.watch(lane)  # type: ignore[arg-type]
    return death


def test_a_death_in_mid_episode_loses_the_last_transition_alone() -> None:
    death = judged(LaneByHand([0, FINAL, 0, 0, 0, GAP], head=5))
    assert death.problems == []
    assert (death.lost_transitions, death.unfinished_rows, death.torn_rows) == (1, 0, 0)
    assert not death.waiting


def test_a_death_after_a_final_row_loses_nothing() -> None:
    death = judged(LaneByHand([0, 0, FINAL, GAP], head=3))
    assert death.problems == []
    assert death.lost_transitions == 0


def test_a_hole_among_the_rows_is_a_problem() -> None:
    lane = LaneByHand([0, 0, 0, 0, GAP], head=4)
    lane.columns["seq"][2:] += np.uint64(1)
    assert "lane 0: row 1 lost its successor" in judged(lane).problems


def test_a_successor_that_does_not_begin_with_a_gap_is_a_problem() -> None:
    death = judged(LaneByHand([0, 0, 0, 0], head=3))
    assert death.problems == ["lane 0: row 3 does not begin a new episode"]


def test_a_lane_that_its_successor_has_gone_round_is_judged_by_its_episode() -> None:
    death = judged(LaneByHand([0, 0, GAP, 0, 0], head=2), successor_rows=3, oldest=4)
    assert death.problems == []
    death = judged(LaneByHand([0, 0, 0, 0, 0], head=2), successor_rows=3, oldest=4)
    assert death.problems == ["lane 0: row 2 does not begin a new episode"]


def test_a_successor_that_has_not_written_is_waited_for() -> None:
    death = judged(LaneByHand([0, 0, 0, GAP], head=3), successor_rows=0)
    assert death.waiting
    assert death.adopted == set()


class LanesByHand:
    """Several lanes by hand, as one ring."""

    def __init__(self, *lanes: LaneByHand) -> None:
        self.lanes = lanes

    def lane_span(self, lane: int) -> tuple[int, int]:
        return self.lanes[lane].lane_span(0)

    def rows(self, lane: int, start: int, length: int) -> Rows:
        return self.lanes[lane].rows(0, start, length)


@pytest.mark.parametrize(
    ("mode", "flags", "heads", "unfinished", "problems"),
    [
        ("next_step", [0, 0, 0, 0], (3, 3), 0, []),
        ("next_step", [0, 0, 0, 0], (3, 2), 1, []),
        ("next_step", [0, 0, 0, 0], (3, 1), 2, ["lane 1: 2 appends behind its neighbours"]),
        ("same_step", [0, 0, FINAL, 0], (3, 2), 0, []),
        ("same_step", [0, FINAL, 0, 0], (4, 2), 2, ["lane 1: 2 appends behind its neighbours"]),
    ],
)
def test_lanes_lag_by_the_unfinished_append_at_most(
    mode: str, flags: list[int], heads: tuple[int, int], unfinished: int, problems: list[str]
) -> None:
    death = Aftermath((0, 1), mode)
    death.examine(LanesByHand(*(LaneByHand(flags, head) for head in heads)))  # type: ignore[arg-type]
    assert death.unfinished_rows == unfinished
    assert death.problems == problems


@pytest.mark.parametrize(
    ("name", "row", "torn"), [("day", 1, 1), ("reward", 2, 1), ("reward", 3, 0)]
)
def test_a_changed_column_is_torn_unless_a_final_row_does_not_have_it(
    name: str, row: int, torn: int
) -> None:
    lane = LaneByHand([0, 0, 0, FINAL, 0, GAP], head=5)
    lane.columns[name][row] += 1
    assert judged(lane).torn_rows == torn
