"""A plain model of a ring: lanes are lists of rows, and samplers read these lists.

It shares no code with the library. Observations and step columns are tokens (``columns.py``); 0 is
all zeros.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

TERMINATED, TRUNCATED, FINAL, GAP = 1, 2, 4, 8
NEXT_STEP = "next_step"
# An index is the lane and the number of a row.
Index = tuple[int, int]


class Row(NamedTuple):
    """A published row; its token names the observation, and the step columns unless it is FINAL."""

    episode: int
    t: int
    flags: int
    token: int

    @property
    def step(self) -> int:
        """Token of the step columns: 0, for zeros, in a FINAL row."""
        return 0 if self.flags & FINAL else self.token


@dataclass
class Lane:
    """Every row that was published on a lane, and which of them can be read."""

    capacity: int
    slots: int
    rows: list[Row] = field(default_factory=list)
    # First row that was not dropped by `clear` or `drop_episode`.
    mark: int = 0
    # The next row does not continue the newest one.
    gap: bool = False
    held: bool = False
    # Capacity after a resize that the writer has not followed yet.
    grown: int | None = None
    # A refused call of the writer may have followed the resize.
    may_follow: bool = False
    dropped: int = 0
    cuts: int = 0
    suspects: int = 0

    @property
    def head(self) -> int:
        """One past the newest row."""
        return len(self.rows)

    @property
    def first(self) -> int:
        """Oldest row that can be read."""
        return min(max(self.mark, self.head - self.capacity), self.head)

    def has_begun(self) -> bool:
        """Whether the next row continues an episode."""
        return bool(self.rows) and not self.gap and not self.rows[-1].flags & FINAL

    def has_ended(self) -> bool:
        """Whether only the FINAL row of an episode is missing."""
        return self.has_begun() and bool(self.rows[-1].flags & (TERMINATED | TRUNCATED))

    def publish(self, token: int, flags: int) -> None:
        """Add a row."""
        episode, t = 0, 0
        if self.rows:
            newest = self.rows[-1]
            goes_on = self.has_begun()
            episode, t = newest.episode + (not goes_on), (newest.t + 1 if goes_on else 0)
        self.rows.append(Row(episode, t, flags | GAP * self.gap, token))
        self.gap = False

    def claim(self) -> None:
        """Give the lane to another writer."""
        self.held, self.gap = True, bool(self.rows) or self.gap
        self.relocate()

    def relocate(self) -> None:
        """Take on the capacity of a resize."""
        self.capacity, self.grown, self.may_follow = self.grown or self.capacity, None, False

    def starts(self, seq: int) -> bool:
        """Whether a transition that can be drawn starts at a row."""
        if not self.first <= seq < self.head - 1:
            return False
        return not self.rows[seq].flags & FINAL and not self.rows[seq + 1].flags & GAP

    def transitions(self) -> list[int]:
        """Rows at which a transition starts, oldest first."""
        first, rows = self.first, self.rows
        pairs = zip(rows[first:], rows[first + 1 :], strict=False)
        return [
            seq
            for seq, (row, after) in enumerate(pairs, first)
            if not row.flags & FINAL and not after.flags & GAP
        ]

    def before(self, seq: int, most: int) -> int:
        """Count readable transitions of the episode before one, up to `most`."""
        return min(self.rows[seq].t, seq - self.first, most)

    def after(self, seq: int, most: int) -> int:
        """Count readable transitions of the episode after one, up to `most`."""
        count = 0
        while count < most and self.starts(seq + count + 1):
            if self.rows[seq + count + 1].episode != self.rows[seq].episode:
                break
            count += 1
        return count

    def is_last(self, seq: int) -> bool:
        """Whether a transition is the last one of an episode that ended or was cut."""
        if self.rows[seq + 1].flags & FINAL:
            return True
        return seq + 2 < self.head and bool(self.rows[seq + 2].flags & GAP)

    def end_of(self, episode: int) -> int:
        """One past the last row of an episode."""
        return next(
            (seq for seq in range(self.first, self.head) if self.rows[seq].episode > episode),
            self.head,
        )

    def whole_episodes(self) -> list[tuple[int, int]]:
        """First rows and lengths of the complete episodes."""
        found = []
        for seq in range(self.first, self.head):
            row = self.rows[seq]
            if row.t > 0:
                continue
            # A row after a GAP may continue a cut episode, unless the episode before it ended.
            if row.flags & GAP and not (
                seq - 2 >= self.first
                and self.rows[seq - 1].flags & FINAL
                and self.rows[seq - 2].flags & (TERMINATED | TRUNCATED)
            ):
                continue
            end = seq
            while end + 1 < self.head and self.rows[end + 1].t > 0:
                end += 1
            last = self.rows[end]
            if last.flags & FINAL and self.rows[end - 1].flags & (TERMINATED | TRUNCATED):
                found.append((seq, end - seq))
        return found


@dataclass
class Kept:
    """Last observation of a lane that its writer knows of: a `next_obs`, or a FINAL row's."""

    final: bool
    obs: int


@dataclass
class Plan:
    """Plan of an append for a lane: tokens and flags of its rows."""

    rows: list[tuple[int, int]]
    kept: Kept | None = None
    # The first row ends the episode before, and the second one does not continue it.
    cut: bool = False
    suspect: bool = False


def plan(
    lane: Lane, kept: Kept | None, mode: str, token: int, end: int, after: int, acted: bool
) -> Plan:
    """Plan an append. ``end`` has the flags, ``after`` the final or the next observation, or 0."""
    if lane.has_ended():
        differs = kept is not None and kept.obs != token
        final = kept.obs if kept else token
        return Plan([(final, FINAL)], suspect=differs or end > 0 or acted)
    made = Plan([(token, end)], Kept(False, after) if after else None)
    if kept and not kept.final and kept.obs != token:
        made.cut = True
        made.rows.insert(0, (kept.obs, FINAL))
    made.suspect = kept is not None and kept.final and kept.obs == token
    if end and mode != NEXT_STEP:
        made.rows.append((after, FINAL))
        made.kept = Kept(True, after) if after else None
    return made


@dataclass
class Windows:
    """Options of a sampler that decide what a batch shows."""

    history: int | None = None
    future: int = 0
    n_step: int | None = None
    gamma: Any = None
    boundary: str = "mask"
    # Steps from one sequence to the next; none for windows around single transitions.
    stride: int | None = None

    @property
    def past(self) -> int:
        """Transitions up to and including the drawn one."""
        return self.history or 1

    @property
    def rows(self) -> int:
        """Rows that a window takes, the last successor included."""
        return self.past + max(self.future, (self.n_step or 1) - 1) + 1

    def fits(self, lane: Lane, seq: int) -> bool:
        """Whether the boundary rule allows the window of a transition."""
        back = lane.before(seq, self.past - 1)
        if self.boundary == "reject":
            return back == self.past - 1 and self.is_whole(lane, seq)
        # `clamp` repeats the first row of an episode, which must be readable.
        return self.boundary == "mask" or back == self.past - 1 or lane.rows[seq - back].t == 0

    def is_whole(self, lane: Lane, seq: int) -> bool:
        """Whether the episode has all transitions of the future window of one."""
        return lane.after(seq, self.future) == self.future

    def is_drawn(self, lane: Lane, seq: int) -> bool:
        """Whether a transition may be drawn."""
        if self.stride is None:
            return self.fits(lane, seq)
        t, is_whole = lane.rows[seq].t, self.is_whole(lane, seq)
        ends = lane.is_last(seq + lane.after(seq, self.future))
        if self.boundary == "clamp":
            # The last start moves back, so that its sequence ends with the episode.
            return t % self.stride == 0 or ends if is_whole else t == 0 and ends
        # An episode that goes on may still fill a sequence.
        return t % self.stride == 0 and (is_whole or (ends and self.boundary == "mask"))


@dataclass
class Item:
    """Tokens of one item of a batch, for the places of its history, itself and its future."""

    obs: list[int]
    # Observations one step later.
    next_obs: list[int]
    steps: list[int]
    ends: list[int]
    mask: list[bool]
    age: int
    rows: list[Index | None]
    n_rows: list[int] = field(default_factory=list)
    n_next: int = 0
    n_ended: bool = False


def item(lane: Lane, number: int, seq: int, asked: Windows, copy: bool) -> Item:
    """Return what a batch shows of a transition."""
    back, ahead = lane.before(seq, asked.past - 1), lane.after(seq, asked.future)
    places = list(range(1 - asked.past, asked.future + 1))
    there = [-back <= place <= ahead for place in places]
    repeats = asked.boundary == "clamp" and asked.stride is None

    def shown(place: int, own: bool) -> int:
        nearest = min(max(place, -back), ahead + 1)
        if nearest == place and (own or not copy or repeats):
            return lane.rows[seq + place].token
        return lane.rows[seq + nearest].token if repeats else 0

    rows = [
        lane.rows[seq + place] if is_there else None
        for place, is_there in zip(places, there, strict=True)
    ]
    found = Item(
        obs=[shown(place, own) for place, own in zip(places, there, strict=True)],
        next_obs=[shown(place + 1, own) for place, own in zip(places, there, strict=True)],
        steps=[row.step if row else 0 for row in rows],
        ends=[row.flags & (TERMINATED | TRUNCATED) if row else 0 for row in rows],
        mask=there,
        age=lane.head - seq - 1,
        rows=[
            (number, seq + place) if is_there else None
            for place, is_there in zip(places, there, strict=True)
        ],
    )
    if asked.n_step:
        used = 1 + lane.after(seq, asked.n_step - 1)
        found.n_rows = [lane.rows[seq + k].step for k in range(used)]
        found.n_next = lane.rows[seq + used].token
        found.n_ended = bool(lane.rows[seq + used - 1].flags & TERMINATED)
    return found


def goal_rows(lane: Lane, seq: int, strategy: str) -> list[int]:
    """Rows whose observations may become the goal of a transition in hindsight."""
    last = seq + 1 + lane.after(seq, lane.head)
    first = max(seq - lane.rows[seq].t, lane.first)
    return {
        "future": list(range(seq + 1, last + 1)),
        "final": [last],
        "episode": list(range(first + 1, last + 1)),
    }[strategy]
