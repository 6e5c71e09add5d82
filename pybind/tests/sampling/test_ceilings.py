"""Every state of small sets of shards: ceilings keep the limit, and leave nobody behind."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import backcast as bc
import pytest
from backcast.ray._limiter import Band, Ceilings, Share, band_of


@dataclass(frozen=True)
class Size:
    """Bounds of a walk."""

    writers: tuple[bool, bool]
    first_limit: int = 1
    most_samples: int = 1
    most_sent: int = 1
    """Requests of a shard that are on their way at a time."""
    most_suspensions: int = 0


BOTH, FIRST, SECOND = (True, True), (True, False), (False, True)
SIZES = [
    Size(BOTH, most_sent=2),
    Size(BOTH, 2, 0, most_sent=2),
    Size(FIRST, 2, most_sent=2),
    Size(SECOND, 2, most_sent=2),
    Size(BOTH, most_suspensions=1),
    Size(FIRST, 2, most_suspensions=1),
    Size(SECOND, 2, most_suspensions=1),
    Size(FIRST, 1, 0, most_sent=2, most_suspensions=1),
]


@dataclass(frozen=True)
class Place:
    """A shard as it is, and what is on its way to it and back."""

    inserts: int = 0
    ceiling: int = 0
    requests: tuple[int, ...] = ()
    answers: tuple[tuple[int, bool], ...] = ()


@dataclass(frozen=True)
class World:
    """State of the learner, and of the shards."""

    shares: tuple[Any, ...]
    places: tuple[Place, ...]
    limit: int = 0
    suspensions: int = 0
    debt: int = 0
    """Most that suspended shards could still insert, as the learner knew it."""

    def machine(self, kind: type[Ceilings]) -> Ceilings:
        made = kind(len(self.shares), self.limit)
        made.shares = [
            Share(inserts, acknowledged, deque(sent), waiting, recent, is_out)
            for inserts, acknowledged, sent, waiting, recent, is_out in self.shares
        ]
        return made

    def known(self, machine: Ceilings) -> World:
        shares = tuple(
            (of.inserts, of.acknowledged, tuple(of.sent), of.waiting, of.recent, of.is_out)
            for of in machine.shares
        )
        return replace(self, shares=shares)

    def at(self, number: int, place: Place) -> World:
        places = list(self.places)
        places[number] = place
        return replace(self, places=tuple(places))

    @property
    def inserts(self) -> int:
        return sum(place.inserts for place in self.places)


@dataclass
class Walk:
    """All states that shards with these writers can come to."""

    size: Size
    kind: type[Ceilings] = Ceilings
    ends: set[tuple[World, int | None]] = field(default_factory=set)
    """Worlds that were seen to come to the limit, and the shard that is silent."""

    @property
    def writers(self) -> tuple[bool, bool]:
        return self.size.writers

    def first(self) -> World:
        machine = self.kind(len(self.writers), self.size.first_limit)
        for number in range(len(self.writers)):
            machine.join(number, 0, 0)
        places = tuple(Place() for _ in self.writers)
        return World((), places, self.size.first_limit).known(machine)

    def request(self, world: World, number: int) -> World:
        machine = world.machine(self.kind)
        ceiling = machine.request(number)
        place = world.places[number]
        place = replace(place, requests=(*place.requests, ceiling))
        return world.known(machine).at(number, place)

    def execute(self, world: World, number: int) -> World:
        place = world.places[number]
        ceiling, *rest = place.requests
        waits = self.writers[number] and place.inserts >= ceiling
        answers = (*place.answers, (place.inserts, waits))
        return world.at(
            number, replace(place, ceiling=ceiling, requests=tuple(rest), answers=answers)
        )

    def receive(self, world: World, number: int) -> World:
        machine, place = world.machine(self.kind), world.places[number]
        (inserts, waits), *rest = place.answers
        machine.answer(number, inserts, waits)
        return world.known(machine).at(number, replace(place, answers=tuple(rest)))

    def insert(self, world: World, number: int) -> World:
        place = world.places[number]
        return world.at(number, replace(place, inserts=place.inserts + 1))

    def may_insert(self, world: World, number: int) -> bool:
        place = world.places[number]
        return self.writers[number] and place.inserts < place.ceiling

    def suspend(self, world: World, number: int) -> World:
        machine = world.machine(self.kind)
        debt = machine.shares[number].bound - machine.shares[number].inserts
        machine.leave_out(number)
        return replace(
            world.known(machine), suspensions=world.suspensions + 1, debt=world.debt + debt
        )

    def lose_request(self, world: World, number: int) -> World:
        """Let the oldest request fail with its shard, which may have done it or not."""
        world, place = self.suspend(world, number), world.places[number]
        machine = world.machine(self.kind)
        machine.fail(number)
        if place.answers:
            place = replace(place, answers=place.answers[1:])
        else:
            place = replace(place, requests=place.requests[1:])
        return world.known(machine).at(number, place)

    def steps(self, world: World) -> Iterator[World]:
        for number, place in enumerate(world.places):
            on_the_way = len(place.requests) + len(place.answers)
            if on_the_way < self.size.most_sent:
                yield self.request(world, number)
            if place.requests:
                yield self.execute(world, number)
            if place.answers:
                yield self.receive(world, number)
            if self.may_insert(world, number):
                yield self.insert(world, number)
            is_out = world.shares[number][-1]
            if world.suspensions < self.size.most_suspensions and not is_out:
                yield self.suspend(world, number)
                if on_the_way:
                    yield self.lose_request(world, number)
        if world.limit < self.size.first_limit + self.size.most_samples:
            yield replace(world, limit=world.limit + 1)

    def run(self) -> Iterator[World]:
        open_ = [self.first()]
        seen = set(open_)
        while open_:
            world = open_.pop()
            yield world
            for then in self.steps(world):
                if then not in seen:
                    seen.add(then)
                    open_.append(then)

    def comes_to_limit(self, world: World, silent: int | None = None) -> bool:
        """Return whether writers get all that the limit leaves when everything goes on.

        All answers come, but those of a silent shard, which counts with what it reported.
        """
        passed = []
        for _ in range(12):
            if (world, silent) in self.ends:
                break
            passed.append((world, silent))
            inserts = [place.inserts for place in world.places]
            if silent is not None:
                inserts[silent] = world.shares[silent][0]
            if sum(inserts) >= world.limit:
                break
            world = self.round(world, silent)
        else:
            return False
        self.ends.update(passed)
        return True

    def round(self, world: World, silent: int | None) -> World:
        for number in range(len(self.writers)):
            while self.may_insert(world, number) and number != silent:
                world = self.insert(world, number)
            if number == silent:
                continue
            while world.places[number].requests:
                world = self.execute(world, number)
            while world.places[number].answers:
                world = self.receive(world, number)
            world = self.request(world, number)
        return world


def check(walk: Walk) -> int:
    """Walk, and return the number of states."""
    states = 0
    for world in walk.run():
        states += 1
        machine = world.machine(walk.kind)
        if not world.suspensions:
            assert world.inserts <= machine.bound <= world.limit, world
        assert world.inserts <= world.limit + world.debt, world
        for k, place in enumerate(world.places):
            share = machine.shares[k]
            assert share.is_out or place.inserts <= share.bound, world
            if share.is_out and walk.writers[1 - k]:
                assert walk.comes_to_limit(world, silent=k), world
        assert walk.comes_to_limit(world), world
    return states


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_ceilings_keep_the_limit_and_no_writer_waits_in_vain(size: Size) -> None:
    assert check(Walk(size)) > 500


class GivesAtOnce(Ceilings):
    """A control: what was sent to a shard is given to another before it is acknowledged."""

    def request(self, number: int) -> int:
        share = self.shares[number]
        others = sum(of.inserts for of in self.shares) - share.inserts
        ceiling = max(share.inserts, min(self.limit - others, self.limit))
        share.sent.append(ceiling)
        return ceiling


class TrustsTheNewest(Ceilings):
    """A control: a lower ceiling counts when it is sent."""

    @property
    def bound(self) -> int:
        return sum(
            max(of.inserts, of.sent[-1] if of.sent else of.acknowledged) for of in self.shares
        )


class NeverRecalls(Ceilings):
    """A control: idle shards keep what they have."""

    def request(self, number: int) -> int:
        ceiling = super().request(number)
        share = self.shares[number]
        if not share.is_out and share.acknowledged > ceiling:
            share.sent[-1] = share.acknowledged
        return share.sent[-1]


class EqualParts(Ceilings):
    """A control: shards that wait get no more than others."""

    def _headroom(self, number: int) -> int:
        return max(0, self.limit - self.inserts) // len(self.shares)


@pytest.mark.parametrize("control", [GivesAtOnce, TrustsTheNewest, NeverRecalls, EqualParts])
def test_simpler_rules_are_found_out(control: type[Ceilings]) -> None:
    def checks() -> None:
        for size in SIZES:
            check(Walk(size, control))

    with pytest.raises(AssertionError):
        checks()


LIMITS = [
    bc.RateLimiter(2, min_size=100, error_buffer=50),
    bc.RateLimiter(0.5, min_size=3, error_buffer=4),
    bc.RateLimiter.queue(64),
    bc.RateLimiter(8, min_size=1_000),
]


@pytest.mark.parametrize("limits", LIMITS)
def test_limits_are_those_of_the_rate_limiter(limits: bc.RateLimiter) -> None:
    band = Band(limits)
    for samples in range(0, 400, 7):
        most = band.most_inserts(samples)
        assert most is not None
        assert limits.can_insert(1, inserts=most - 1, samples=samples)
        assert not limits.can_insert(1, inserts=most, samples=samples)
        for inserts in range(0, 2_000, 97):
            may = band.may_sample(50, inserts, samples)
            allowed = [
                limits.can_sample(items, inserts=inserts, samples=samples) for items in range(1, 51)
            ]
            assert may == sum(allowed)


def test_a_limiter_of_a_least_size_has_no_ceilings() -> None:
    limits = bc.RateLimiter(min_size=10)
    assert band_of(limits) is None
    assert band_of(None) is None
    assert Band(limits).most_inserts(5) is None
    assert Band(limits).may_sample(5, 9, 0) == 0
    assert Band(limits).may_sample(5, 10, 0) == 5


def test_a_ring_that_lost_its_rows_keeps_the_count_of_the_lost_ones() -> None:
    machine = Ceilings(2, 100)
    machine.join(0, 30, 60)
    machine.join(1, 10, 40)
    machine.request(0)
    machine.leave_out(0)
    assert machine.inserts == 40
    # The answer of the new ring to the request that was meant for the old one.
    machine.answer(0, 30, False, is_old=True)
    machine.join(0, 30, 30)
    assert (machine.inserts, machine.bound) == (40, 70)
    assert machine.request(0) > 30


def test_waiting_shards_share_what_idle_ones_leave() -> None:
    machine = Ceilings(3, 90)
    for number in range(3):
        machine.join(number, 0, 30)
    assert [machine.target(number) for number in range(3)] == [30, 30, 30]
    machine.request(0)
    machine.answer(0, 30, True)
    # Nothing is free yet: first the idle ones give back.
    assert machine.request(0) == 30
    assert machine.request(1) == 0
    assert machine.target(0) == 30
    machine.answer(1, 0, False)
    assert machine.target(0) == 60


def joined(*, limit: int, ceilings: list[int]) -> Ceilings:
    """Return shards without inserts that have answered."""
    machine = Ceilings(len(ceilings), limit)
    for number, ceiling in enumerate(ceilings):
        machine.join(number, 0, ceiling)
    return machine


@pytest.mark.parametrize(("inserts", "kept"), [(5, 10), (12, 24), (20, 26)])
def test_shards_that_insert_without_waiting_keep_twice_that_up_to_an_equal_part(
    inserts: int, kept: int
) -> None:
    machine = joined(limit=100, ceilings=[0, 50, 0])
    machine.report(0, 0, waiting=True)
    machine.report(1, inserts, waiting=False)
    # A third of what the limit leaves, at most.
    assert kept == min(2 * inserts, (100 - inserts) // 3)
    assert machine.target(1) == inserts + kept
    # Without new inserts it keeps nothing.
    machine.report(1, inserts, waiting=False)
    assert machine.target(1) == inserts


def test_the_ceiling_of_a_request_without_an_answer_may_be_in_force() -> None:
    machine = joined(limit=60, ceilings=[10, 10])
    assert machine.request(0) == 30
    machine.fail(0)
    assert machine.shares[0].bound == 30
    machine.report(1, 10, waiting=True)
    assert machine.target(1) == 30


def test_ceilings_that_a_lost_ring_was_sent_are_not_those_of_the_new_one() -> None:
    machine = joined(limit=60, ceilings=[0, 0])
    assert [machine.request(0) for _ in range(3)] == [30, 30, 30]
    machine.answer(0, 0, waiting=False, is_old=True)
    machine.join(0, 0, 0)
    assert machine.shares[0].bound == 0
    # The two that are still to be answered.
    for _ in range(2):
        machine.answer(0, 0, waiting=False)
        assert machine.shares[0].bound == 0
