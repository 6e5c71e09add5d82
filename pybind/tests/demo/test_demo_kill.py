"""The check of a killed actor's rows in the demo, on a ring that the test writes itself."""

import os
import signal
from types import SimpleNamespace
from typing import Any

import backcast as bc
import numpy as np
import pytest
from backcast.demo.actor import checksums
from backcast.demo.kill import Death, kill
from backcast.demo.options import Options
from backcast.demo.report import problems

COLUMNS = {"obs": ("f4", (3,)), "reward": "f4", "checksum": "u8"}
STEPS = 10
ELSEWHERE = -1
"""Id of no process that wrote to the ring."""


def append(ring: bc.ReplayBuffer, steps: int, torn: int | None = None) -> None:
    """Append an episode; the checksum of row `torn` is wrong."""
    with ring.writer() as writer:
        for step in range(steps):
            obs, end = np.full(3, step, "f4"), step == steps - 1
            row: dict[str, Any] = {"obs": obs, "reward": step}
            row |= {"checksum": checksums(obs) + np.uint64(step == torn)}
            row |= {"next_obs": obs + 1} if end else {}
            writer.append(**row, terminated=end, truncated=False)


def death_in(ring: bc.ReplayBuffer) -> Death:
    """Return the death of an actor that has written all rows so far."""
    _, head = ring.lane_span(0)
    return Death(ELSEWHERE, 1.0, {0: (0, ring.rows(0, 0, head))})


@pytest.fixture
def ring() -> bc.ReplayBuffer:
    return bc.ReplayBuffer.create(None, COLUMNS, capacity=100)


def test_rows_that_a_successor_continues_are_compared(ring: bc.ReplayBuffer) -> None:
    append(ring, STEPS)
    death = death_in(ring)
    death.watch(ring)
    assert not death.adopted
    append(ring, 2)
    death.watch(ring)
    # The last observation of an episode is a row too, without a checksum of its own.
    assert (death.adopted, death.compared) == (True, STEPS + 1)
    assert (death.lost, death.torn) == (0, 0)


def test_a_lane_that_the_dead_actor_wrote_to_last_is_not_adopted(ring: bc.ReplayBuffer) -> None:
    append(ring, STEPS)
    death = death_in(ring)
    append(ring, 2)
    death.pid = ring.stats()["lane_stats"][0]["pid"]
    death.watch(ring)
    assert not death.adopted


@pytest.mark.parametrize("column", ["obs", "reward", "seq"])
def test_a_row_that_has_changed_is_lost(ring: bc.ReplayBuffer, column: str) -> None:
    append(ring, STEPS)
    death = death_in(ring)
    _, kept = death.rows[0]
    kept[column] = kept[column].copy()
    kept[column][4] += 1
    append(ring, 2)
    death.watch(ring)
    assert (death.lost, death.torn) == (1, 0)


def test_a_row_that_does_not_match_its_checksum_is_torn(ring: bc.ReplayBuffer) -> None:
    append(ring, STEPS, torn=3)
    death = death_in(ring)
    append(ring, 2)
    death.watch(ring)
    assert (death.lost, death.torn) == (0, 1)


def test_an_actor_is_killed_once_it_has_written(
    ring: bc.ReplayBuffer, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed: list[tuple[int, int]] = []
    monkeypatch.setattr("os.kill", lambda pid, number: killed.append((pid, number)))
    actors = [{"pid": None}, {"pid": os.getpid()}]
    fleet: Any = SimpleNamespace(stats=lambda: {"actors": actors})
    assert kill(fleet, ring, 0, 1.0) is None
    with ring.writer() as writer:
        assert kill(fleet, ring, 1, 1.0) is None
        assert killed == []
        obs = np.ones(3, "f4")
        writer.append(obs=obs, reward=1, checksum=checksums(obs), terminated=False, truncated=False)
        death = kill(fleet, ring, 1, 1.0)
    assert killed == [(os.getpid(), signal.SIGKILL)]
    assert death is not None
    start, kept = death.rows[0]
    assert (start, kept["seq"].tolist(), kept["reward"].tolist()) == (0, [0], [1])


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({}, []),
        ({"torn_rows": 2}, ["2 torn rows: columns that do not match their checksum"]),
        ({"lost_rows": 3}, ["3 rows of the killed actor are lost or changed"]),
        ({"adopted_lanes": 0}, ["no successor has continued the lanes of the killed actor"]),
    ],
)
def test_what_went_wrong_is_a_problem(wrong: dict[str, Any], words: list[str]) -> None:
    fine = {"torn_rows": 0, "lost_rows": 0, "adopted_lanes": 8}
    assert problems(Options(kill=True), fine | wrong) == words
