"""Programs detect a model that is wrong in one rule, and a library that returns a wrong value."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import expect_blocks
import expect_writers
import model_tables
import pytest
from calls import Actor
from columns import Tokens
from making import make
from model import FINAL, Index, Lane, Plan, Windows, plan
from model_tables import Claims, Limits, Priorities
from run_python import ProgramError, run
from second_process import Peers
from world import Outcome, Ring, Step

pytestmark = [
    pytest.mark.filterwarnings("ignore::backcast.errors.WriterWarning"),
    pytest.mark.filterwarnings("ignore::backcast.errors.LeaseWarning"),
]

# Number of programs, of which at least one must fail.
MOST = 600


def off_by_one(method: Callable[..., int]) -> Callable[..., int]:
    return lambda *given: method(*given) + 1


def crosses_gaps(lane: Lane, seq: int) -> bool:
    return lane.first <= seq < lane.head - 1 and not lane.rows[seq].flags & FINAL


def continues(lane: Lane) -> None:
    """Let a writer continue the episode of a dead one."""
    lane.held = True
    lane.relocate()


def ends_without_cuts(lane: Lane, seq: int) -> bool:
    return bool(lane.rows[seq + 1].flags & FINAL)


def shows_all(_asked: Windows, _lane: Lane, _seq: int) -> bool:
    """Allow every window, whatever the boundary rule."""
    return True


def compares_nothing(*given: Any) -> Plan:
    """Keep no observation to compare the next one with."""
    made = plan(given[0], None, *given[2:])
    made.kept = None
    return made


def enters_at_one(table: Priorities, lanes: list[Lane]) -> None:
    """Give new transitions the power 1, whatever was given before."""
    for index in table.rows(lanes):
        table.powers.setdefault(index, 1.0)


def always(_limits: Limits, _lanes: list[Lane]) -> bool:
    return True


def by_priority(table: Priorities, lanes: list[Lane], _alpha: float) -> dict[Index, float]:
    return {at: table.powers[at] for at in table.rows(lanes)}


def without_ceiling(method: Callable[[Limits, list[Lane]], bool]) -> Callable[..., bool]:
    return lambda limits, lanes: method(replace(limits, ceiling=math.inf), lanes)


def gives_again(claims: Claims, lanes: list[Lane], _need: int) -> bool:
    """Begin a pass over everything, whatever was given out before."""
    claims.left = [(n, seq) for n, lane in enumerate(lanes) for seq in lane.transitions()]
    return bool(claims.left)


def waits_for_none(_ring: Ring, _form: object, columns: list[Any]) -> bool:
    """Make a block as soon as one lane is ready."""
    return any(columns)


MUTANTS: dict[str, tuple[Any, str, Any]] = {
    "a lane keeps a row less": (
        Lane,
        "first",
        property(lambda lane: min(max(lane.mark, lane.head - lane.capacity + 1), lane.head)),
    ),
    "transitions lead across gaps": (Lane, "starts", crosses_gaps),
    "a successor continues the episode": (Lane, "claim", continues),
    "histories reach one further": (Lane, "before", off_by_one(Lane.before)),
    "cuts are no ends": (Lane, "is_last", ends_without_cuts),
    "windows are never refused": (Windows, "fits", shows_all),
    "next observations are not compared": (expect_writers, "plan", compares_nothing),
    "priorities enter at one": (Priorities, "enter", enters_at_one),
    "inserts are never held back": (Limits, "may_insert", always),
    "ranks draw as priorities do": (Priorities, "masses", by_priority),
    "all ranks are equal": (model_tables, "five_bits", lambda _: 0),
    "new rows never get less": (Priorities, "largest_of_new", lambda table, _: table.largest),
    "ceilings hold no writer": (Limits, "may_insert", without_ceiling(Limits.may_insert)),
    "old rows are drawn": (Ring, "without_old", lambda ring, _: ring),
    "blocks wait for no lane with a writer": (expect_blocks, "is_ready", waits_for_none),
    "claims are given out again": (Claims, "begin", gives_again),
}


@pytest.fixture(scope="module")
def peers() -> Iterator[Peers]:
    with Peers() as made:
        yield made


def found(place: Path, peers: Peers) -> str | None:
    """Return the failure of the first program that fails, or None if all pass."""
    for seed in range(MOST):
        try:
            run(make(seed, processes=2 if seed % 4 == 0 else 1), place, peers)
        except ProgramError as failure:
            return str(failure)
    return None


@pytest.mark.parametrize("name", MUTANTS)
def test_every_wrong_model_is_found(
    name: str, place: Path, peers: Peers, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, attribute, wrong = MUTANTS[name]
    monkeypatch.setattr(owner, attribute, wrong)
    assert found(place, peers) is not None


def changed(values: Tokens) -> Tokens:
    """Return a copy of values whose last one is changed."""
    wrong = values.copy()
    if wrong.size:
        wrong.reshape(-1)[-1] = wrong.dtype.type(1) if not wrong.reshape(-1)[-1] else 0
    return wrong


@pytest.mark.parametrize("key", ["obs", "reward", "mask", "n_discount", "weight", "age", "value"])
def test_a_wrong_value_of_a_batch_is_found(
    key: str, place: Path, peers: Peers, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = Actor.do_sample

    def wrong(self: Actor, step: Step, ring: None) -> Outcome:
        outcome = right(self, step, ring)
        for batch in outcome["batches"]:
            if key in batch:
                batch[key] = changed(batch[key])
        return outcome

    monkeypatch.setattr(Actor, "do_sample", wrong)
    failure = found(place, peers)
    assert failure is not None
    assert key in failure
