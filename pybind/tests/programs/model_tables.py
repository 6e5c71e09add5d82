"""Plain models of a ring's rate limiter and of its tables: priorities, claims, learned columns."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from model import Index, Lane

# Powers of priorities are multiples of this step.
POWER = 2.0**-24
# More rows than a ring has.
MANY = 1 << 62


def drawable(lanes: list[Lane]) -> list[Index]:
    """List the transitions of a ring, lane by lane, oldest first."""
    return [(n, seq) for n, lane in enumerate(lanes) for seq in lane.transitions()]


@dataclass
class Limits:
    """Rate limiter, which allows inserts and samples by their counts."""

    ratio: float
    min_size: int
    low: float
    high: float
    no_learner: str = "wait"
    enabled: bool = True
    inserts: int = 0
    samples: int = 0
    deletes: int = 0
    # Inserts at the last `clear` or `drop_episode`.
    dropped_at: int = 0
    # Inserts at which writers stop, whatever the limits are.
    ceiling: float = math.inf

    def change(self, given: dict[str, Any]) -> None:
        """Set other limits, and keep the counts."""
        ratio = given.get("samples_per_insert")
        self.ratio, self.min_size = ratio or 1.0, given["min_size"]
        self.no_learner = given.get("no_learner", "wait")
        self.enabled = given.get("enabled", True)
        self.low, self.high = -math.inf, math.inf
        if ratio:
            self.low, self.high = given["error_buffer"]

    def fits(self, most: int) -> bool:
        """Whether a ring that holds at most `most` transitions takes these limits."""
        is_queue = self.ratio == self.min_size == 1 and self.low == 0 and self.high < math.inf
        return self.min_size <= most and not (is_queue and self.high > most)

    def may_sample(self, count: int, lanes: list[Lane]) -> bool:
        """Whether items may be drawn now."""
        if not self.enabled or count == 0:
            return True
        lead = self.inserts * self.ratio - (self.samples + count)
        return self.is_large(lanes) and lead >= self.low

    def may_insert(self, lanes: list[Lane]) -> bool:
        """Whether one more transition may be inserted now."""
        lead = (self.inserts + 1) * self.ratio - self.samples
        fits = not self.is_large(lanes) or lead <= self.high
        return not self.enabled or (fits and self.inserts < self.ceiling)

    def is_large(self, lanes: list[Lane]) -> bool:
        """Whether the ring has enough transitions for a draw."""
        there = len(drawable(lanes))
        most = sum(lane.capacity - 1 for lane in lanes)
        if self.inserts >= self.dropped_at + most:
            # The ring was filled since rows were last dropped. It may hold fewer than `min_size`,
            # since FINAL rows take room.
            return there > 0
        return there >= self.min_size and self.inserts >= self.min_size

    def drop(self, lanes: list[Lane]) -> None:
        """Count the draws that dropped transitions stood for as made."""
        gone = max(self.inserts - len(drawable(lanes)), 0)
        self.deletes = max(self.deletes, gone)
        self.dropped_at = self.inserts
        if math.isfinite(self.high):
            self.samples = max(self.samples, int(gone * self.ratio))

    def reset(self, lanes: list[Lane]) -> None:
        """Count as if the rows of the ring, at most `min_size`, had just been inserted."""
        self.inserts = min(len(drawable(lanes)), self.min_size)
        self.samples = self.deletes = self.dropped_at = 0


@dataclass
class Priorities:
    """Table of priorities: the power `(priority + eps) ** alpha` of each transition."""

    alpha: float
    eps: float
    # Number of newest rows of a lane that the table covers.
    lane_rows: int
    # Steps of an episode from one transition that has a priority to the next.
    stride: int = 1
    # Draws are by the rank of the powers, which then have the exponent 1.
    by_rank: bool = False
    # New transitions get the largest power of the ring, not the largest that was ever set.
    held: bool = False
    powers: dict[Index, float] = field(default_factory=dict)
    largest: float = 1.0
    # First row, by lane, that has not left the table.
    left: dict[int, int] = field(default_factory=dict)

    def agrees(self, other: object) -> bool:
        """Whether a sampler with these settings may share another table."""
        if not isinstance(other, Priorities):
            return False
        mine = (self.alpha, self.eps, self.stride, self.by_rank, self.held)
        return mine == (other.alpha, other.eps, other.stride, other.by_rank, other.held)

    def enter(self, lanes: list[Lane]) -> None:
        """Give new transitions the largest power; forget rows that left."""
        for number, lane in enumerate(lanes):
            oldest = max(lane.first, lane.head - 1 - self.lane_rows)
            self.left[number] = max(self.left.get(number, 0), oldest)
        largest = self.largest_of_new(lanes)
        for index in self.rows(lanes):
            self.powers.setdefault(index, largest)

    def largest_of_new(self, lanes: list[Lane]) -> float:
        """Return the power that a new transition gets."""
        held = (self.powers[at] for at in self.rows(lanes) if at in self.powers)
        return max(held, default=1.0) if self.held else self.largest

    def rows(self, lanes: list[Lane]) -> list[Index]:
        """List the transitions that have a priority."""
        return [
            (lane, seq)
            for lane, seq in drawable(lanes)
            if seq >= self.left.get(lane, 0) and lanes[lane].rows[seq].t % self.stride == 0
        ]

    def masses(self, lanes: list[Lane], alpha: float) -> dict[Index, float]:
        """Return by transition what draws are in proportion to: powers, or powers of their ranks.

        Powers that agree in their highest five bits share the mean of their ranks' powers.
        """
        rows = sorted(self.rows(lanes), key=lambda at: -self.powers[at])
        found = {at: self.powers[at] for at in rows}
        if self.by_rank:
            for _, equal in groupby(enumerate(rows, 1), lambda of: five_bits(self.powers[of[1]])):
                ranks, of_rank = zip(*equal, strict=True)
                mean = sum(rank**-alpha for rank in ranks) / len(ranks)
                found |= dict.fromkeys(of_rank, mean)
        return found

    def update(self, given: list[tuple[Index, float]], lanes: list[Lane]) -> int:
        """Set priorities; return the number of indices without a priority."""
        self.enter(lanes)
        known = set(self.rows(lanes))
        for index, priority in given:
            if index in known:
                power = (priority + self.eps) ** self.alpha
                self.powers[index] = max(1, round(power / POWER)) * POWER
                self.largest = max(self.largest, self.powers[index])
        return sum(index not in known for index, _ in given)


def five_bits(power: float) -> tuple[int, int]:
    """Return the exponent and the five highest bits of a power."""
    fraction, exponent = math.frexp(power)
    return exponent, int(fraction * 32)


@dataclass
class Claims:
    """Table of claims: the transitions that a pass still gives out."""

    renewed: bool
    times: int
    shuffle: bool
    seed: int
    # Rows before these belong to passes that have begun, by lane.
    ends: dict[int, int] = field(default_factory=dict)
    # Transitions that this round of the pass still has, and all that the pass began with.
    left: list[Index] = field(default_factory=list)
    all: list[Index] = field(default_factory=list)
    round: int = 0
    given: dict[Index, int] = field(default_factory=dict)
    # Draws whose claims this model does not follow: each row is given at most `times` times.
    loose: bool = False

    def agrees(self, other: object) -> bool:
        """Whether a sampler with these settings may share another table."""
        if not isinstance(other, Claims):
            return False
        mine = (self.renewed, self.times, self.shuffle, self.seed)
        return mine == (other.renewed, other.times, other.shuffle, other.seed)

    def begin(self, lanes: list[Lane], need: int) -> bool | None:
        """Begin the next round or pass. None: unknown, as rows that start no transition matter."""
        if not self.renewed and self.round + 1 < self.times and self.all:
            self.round, self.left = self.round + 1, list(self.all)
            return True
        fresh = [(n, s) for n, s in drawable(lanes) if self.renewed or s >= self.ends.get(n, 0)]
        counted = sum(
            max(0, lane.head - 1 - max(lane.first, 0 if self.renewed else self.ends.get(n, 0)))
            for n, lane in enumerate(lanes)
        )
        need = 1 if self.renewed else need
        if len(fresh) < need:
            return False if counted < need else None
        self.ends = {n: max(lane.head - 1, lane.first) for n, lane in enumerate(lanes)}
        self.all, self.left, self.round = fresh, list(fresh), 0
        return True

    def next_rows(self, count: int, lanes: list[Lane], need: int = MANY) -> list[Index] | None:
        """Return a batch that could be drawn now, or fewer rows. None: unknown.

        A pass begins with `need` new rows, or as many as are missing.
        """
        trial = copy.deepcopy(self)
        here = set(drawable(lanes))
        found: list[Index] = []
        while len(found) < count:
            trial.left = [index for index in trial.left if index in here]
            if not trial.left:
                begun = trial.begin(lanes, min(need, count - len(found)))
                if begun is None:
                    return None
                if not begun:
                    break
                continue
            taken = trial.left[: count - len(found)]
            found, trial.left = found + taken, trial.left[len(taken) :]
        return found

    def hand_out(self, drawn: list[Index], lanes: list[Lane], need: int = MANY) -> str | None:
        """Take a batch as given out. Returns what is wrong with it, or None."""
        here = set(drawable(lanes))
        for at, index in enumerate(drawn):
            self.given[index] = self.given.get(index, 0) + 1
            if self.loose:
                if not self.renewed and self.given[index] > self.times:
                    return f"{index} was given out {self.given[index]} times"
                continue
            self.left = [left for left in self.left if left in here]
            for _ in range(self.times + 1):
                if not self.left and self.begin(lanes, min(need, len(drawn) - at)):
                    self.left = [left for left in self.left if left in here]
            if index not in self.left:
                return f"{index} was given out, and the pass has {self.left}"
            if not self.shuffle and index != min(left for left in self.left if left[0] == index[0]):
                return f"{index} was given out before older rows of its lane"
            self.left.remove(index)
        return None


@dataclass
class Learned:
    """Table of learned columns: the values that were set, by row."""

    columns: list[str]
    values: dict[Index, dict[str, int]] = field(default_factory=dict)
