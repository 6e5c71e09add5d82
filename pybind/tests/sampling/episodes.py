"""Reference model of a ring: lists of episodes, and the arrays that a batch should hold of them.

Slow and simple on purpose: it has no slots and no row flags, and only counts rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

COLUMNS = {"obs": ("f4", (2,)), "action": "i4", "reward": "f4"}
WIDTHS: dict[str, tuple[int, ...]] = {"obs": (2,), "action": (), "reward": ()}
DTYPES = {"obs": "f4", "action": "i4", "reward": "f4", "terminated": "?", "truncated": "?"}


class Step(NamedTuple):
    """Values of one step, as its row holds them."""

    obs: tuple[float, float]
    action: int
    reward: float
    terminated: bool
    truncated: bool

    @property
    def over(self) -> bool:
        """Whether the step ends its episode."""
        return self.terminated or self.truncated


@dataclass
class Episode:
    """Steps of an episode and, once it has ended, the final observation, which has its own row."""

    first: int
    steps: list[Step] = field(default_factory=list)
    last: tuple[float, float] | None = None
    broken: bool = False

    def awaits_last(self) -> bool:
        """Whether the episode ended and its final observation is not written yet."""
        over = bool(self.steps) and self.steps[-1].over
        return over and self.last is None and not self.broken

    def observations(self) -> list[tuple[float, float]]:
        """All observations, the final one included: a transition leads from each to the next."""
        return [step.obs for step in self.steps] + ([self.last] if self.last else [])


@dataclass
class Lane:
    """Everything that was ever written to a lane."""

    capacity: int
    episodes: list[Episode] = field(default_factory=list)
    head: int = 0

    def step(self, step: Step) -> None:
        """Write a step that continues the running episode, or begins the next one."""
        if not self.episodes or self.episodes[-1].last or self.episodes[-1].broken:
            self.episodes.append(Episode(self.head))
        self.episodes[-1].steps.append(step)
        self.head += 1

    def finish(self, obs: tuple[float, float]) -> None:
        """Write the final observation."""
        self.episodes[-1].last = obs
        self.head += 1

    def break_off(self) -> None:
        """Cut the running episode, as the death of its writer or a manual reset does."""
        if self.episodes and not self.episodes[-1].last:
            self.episodes[-1].broken = True

    def awaits_last(self) -> bool:
        """Whether the next row is a final observation."""
        return bool(self.episodes) and self.episodes[-1].awaits_last()


@dataclass(frozen=True)
class Windows:
    """Options of a sampler."""

    history: int | None
    future: int
    n_step: int | None
    gamma: float | None
    boundary: str
    copy: bool

    @property
    def past(self) -> int:
        """Transitions up to and including the drawn one."""
        return self.history or 1

    @property
    def rows(self) -> int:
        """Rows that a window and its n-step return span, the last next observation included."""
        return self.past + max(self.future, (self.n_step or 1) - 1) + 1


@dataclass(frozen=True)
class Item:
    """A transition, and how many transitions of its window exist before and after it."""

    lane: int
    seq: int
    age: int
    episode: Episode
    at: int
    back: int
    ahead: int
    left: int

    @property
    def index(self) -> int:
        """Lane and sequence number in one integer."""
        return self.lane << 48 | self.seq


def items(lanes: list[Lane], windows: Windows) -> list[Item]:
    """List every transition that the ring should hold, with the extent of its window."""
    found = []
    for number, lane in enumerate(lanes):
        oldest = max(0, lane.head - lane.capacity)
        for episode in lane.episodes:
            count = len(episode.observations()) - 1
            for at in range(count):
                seq = episode.first + at
                if seq < oldest:
                    continue
                back = min(at, seq - oldest, windows.past - 1)
                left = count - 1 - at
                age = lane.head - seq - 1
                ahead = min(left, windows.future)
                found.append(Item(number, seq, age, episode, at, back, ahead, left))
    return found


def is_drawn(item: Item, windows: Windows) -> bool:
    """Whether the boundary rule lets samplers draw an item."""
    if windows.boundary == "reject":
        return (item.back, item.ahead) == (windows.past - 1, windows.future)
    # `clamp` repeats the first observation of an episode, but none in place of an overwritten one.
    return windows.boundary == "mask" or item.back == min(item.at, windows.past - 1)


def expected(item: Item, windows: Windows) -> dict[str, Any]:
    """Return the arrays that a batch should hold of one item, by name."""
    past, future = windows.past, windows.future
    arrays: dict[str, Any] = {}

    def put(key: str, before: Any, after: Any) -> None:  # noqa: ANN401 - arrays of any shape
        arrays[key] = before.copy() if windows.history else before[0].copy()
        if future:
            arrays[f"future/{key}"] = after.copy()

    offsets = range(1 - past, future + 1)
    steps = {k: item.episode.steps[item.at + k] for k in range(-item.back, item.ahead + 1)}
    for key, dtype in DTYPES.items():
        if key == "obs":
            continue
        column = np.zeros((len(offsets), *WIDTHS.get(key, ())), dtype)
        for place, k in enumerate(offsets):
            if k in steps:
                column[place] = getattr(steps[k], key)
        put(key, column[:past], column[past:])
    now = frames(item, range(1 - past, future + 2), windows)
    put("obs", now[:past], now[past : past + future])
    put("next_obs", now[1 : past + 1], now[past + 1 :])
    mask = np.array([k in steps for k in offsets])
    if windows.copy and windows.boundary != "clamp":
        # `obs` and `next_obs` are separate copies, each zero where its own place is masked.
        for key in ("obs", "next_obs"):
            if windows.history:
                arrays[key][~mask[:past]] = 0
            if future:
                arrays[f"future/{key}"][~mask[past:]] = 0
    if windows.history:
        arrays["mask"] = mask[:past]
    if future:
        arrays["future_mask"] = mask[past:]
    arrays["index"], arrays["age"] = np.int64(item.index), np.int64(item.age)
    if windows.n_step and windows.gamma is not None:
        used = min(windows.n_step, item.left + 1)
        total, discount = 0.0, 1.0
        for k in range(used):
            total += discount * item.episode.steps[item.at + k].reward
            discount *= windows.gamma
        ended = item.episode.steps[item.at + used - 1].terminated
        arrays["n_reward"], arrays["n_discount"] = np.float32(total), np.float32(discount)
        if ended:
            arrays["n_discount"] = np.float32(0)
        after = item.episode.observations()[item.at + used]
        arrays["n_next_obs"] = np.array(after, "f4")
    return arrays


def frames(item: Item, offsets: range, windows: Windows) -> NDArray[np.float32]:
    """Return the observations at offsets from a transition; outside its window zero or clamped."""
    out = np.zeros((len(offsets), 2), "f4")
    observations = item.episode.observations()
    first, last = -item.back, item.ahead + 1
    for place, k in enumerate(offsets):
        nearest = min(max(k, first), last)
        if windows.boundary == "clamp" or nearest == k:
            out[place] = observations[item.at + nearest]
    return out
