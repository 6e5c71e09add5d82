"""``Stored`` keeps each transition at its place, as a model of SB3's arrays does."""

from __future__ import annotations

import importlib
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import backcast as bc
import numpy as np
import pytest
from gymnasium import spaces

FRAME = (2, 3)


@pytest.fixture
def parts() -> Iterator[tuple[Any, Any]]:
    """Import the parts of the adapter that need neither PyTorch nor Stable-Baselines3."""
    before = {name: module for name, module in sys.modules.items() if "backcast.sb3" in name}
    for name in before:
        del sys.modules[name]
    package = ModuleType("backcast.sb3")
    assert bc.__file__ is not None
    package.__path__ = [str(Path(bc.__file__).parent / "sb3")]
    sys.modules["backcast.sb3"] = package
    try:
        yield (
            importlib.import_module("backcast.sb3._stored"),
            importlib.import_module("backcast.sb3._columns"),
        )
    finally:
        for name in [name for name in sys.modules if "backcast.sb3" in name]:
            del sys.modules[name]
        sys.modules.update(before)


class Model:
    """Arrays ``[steps, lanes]`` in which step k has place ``k % steps``, as in SB3."""

    def __init__(self, steps: int, lanes: int) -> None:
        self.steps, self.lanes, self.added = steps, lanes, 0
        self.places: dict[tuple[int, int], tuple[Any, ...]] = {}
        #: Places of newest transitions that were cut off.
        self.cuts: set[tuple[int, int]] = set()

    def add(self, *step: Any) -> None:  # noqa: ANN401
        for lane in range(self.lanes):
            place = self.added % self.steps, lane
            self.places[place] = tuple(part[lane] for part in step)
            self.cuts.discard(place)
        self.added += 1

    def cut(self, lanes: list[int]) -> None:
        self.cuts |= {((self.added - 1) % self.steps, lane) for lane in lanes}

    def returns(self, place: tuple[int, int], n: int) -> tuple[int, Any, list[Any]]:
        """Return how many transitions are summed, the observation after them, and rewards."""
        rewards, (at, lane) = [], place
        for _ in range(n):
            _, following, _, reward, terminated, truncated = self.places[at, lane]
            rewards.append(reward)
            newest = at == (self.added - 1) % self.steps
            if terminated or truncated or newest or (at, lane) in self.cuts:
                break
            at = (at + 1) % self.steps
        return len(rewards), following, rewards


def compare(stored: Any, model: Model) -> None:  # noqa: ANN401
    """Compare every place with the model; every filled place must be found."""
    filled = sorted(model.places)
    at, lanes = (np.array(part) for part in zip(*filled, strict=True))
    rows, found = stored.take(at, lanes)
    assert found.all(), f"{np.count_nonzero(~found)} of {len(found)} places are lost"
    shown = (rows.obs, rows.next_obs, rows.action, rows.reward, rows.terminated, rows.truncated)
    for number, place in enumerate(filled):
        for ours, theirs in zip(shown, model.places[place], strict=True):
            np.testing.assert_array_equal(ours[number].reshape(np.shape(theirs)), theirs)


@pytest.mark.filterwarnings("ignore::backcast.errors.WriterWarning")
def test_returns_of_stacks_end_where_a_reset_or_a_load_begins_others(
    parts: tuple[Any, Any],
) -> None:
    stored, model = make(parts, 12, 2, 3), Model(12, 2)
    # No flag ends an episode. A load leaves out the newest stacks, here those of step 4.
    for steps in (3, 2, 4):
        walk = Walk(2, 0.0, 3)
        for _ in range(steps):
            add(stored, model, walk)
        if stored.added == 5:
            stored = pickle.loads(pickle.dumps(stored))
    at, lanes = np.arange(9).repeat(2), np.tile([0, 1], 9)
    rows, found = stored.take(at, lanes)
    np.testing.assert_array_equal(found, at != 4)
    returns = stored.take_returns(at, lanes, rows, 3)
    lengths = [3, 2, 1, 1, 0, 3, 3, 2, 1]
    for place, lane, length, following in zip(
        at, lanes, returns.length, returns.rows.next_obs, strict=True
    ):
        if place != 4:
            assert length == lengths[place], place
            expected = model.places[int(place) + length - 1, int(lane)][1]
            np.testing.assert_array_equal(following.reshape(expected.shape), expected)


def compare_returns(stored: Any, model: Model, n: int) -> None:  # noqa: ANN401
    """Compare the n-step windows of every place with the model."""
    filled = sorted(model.places)
    at, lanes = (np.array(part) for part in zip(*filled, strict=True))
    found = stored.take_returns(at, lanes, stored.take(at, lanes)[0], n)
    for number, place in enumerate(filled):
        length, following, rewards = model.returns(place, n)
        assert found.length[number] == length, place
        np.testing.assert_array_equal(found.rewards[number, :length], rewards)
        np.testing.assert_array_equal(found.rows.next_obs[number], following)


class Walk:
    """Random steps of some lanes; episodes end at random, terminated or truncated."""

    def __init__(self, lanes: int, ends: float, frames: int | None) -> None:
        self.draw = np.random.default_rng(7)
        self.lanes, self.ends, self.frames = lanes, ends, frames
        self.obs = np.stack([self.begin() for _ in range(lanes)])

    def frame(self) -> Any:  # noqa: ANN401
        return self.draw.integers(1, 255, FRAME).astype(np.uint8)

    def begin(self) -> Any:  # noqa: ANN401
        """Return the first observation of an episode; a stack is padded with zeros."""
        if self.frames is None:
            return self.frame()
        stack = np.zeros((self.frames, *FRAME), np.uint8)
        stack[-1] = self.frame()
        return stack

    def step(self) -> tuple[Any, ...]:
        obs, following = self.obs, np.stack([self.frame() for _ in range(self.lanes)])
        if self.frames is not None:
            following = np.concatenate([obs[:, 1:], following[:, None]], axis=1)
        over = self.draw.random(self.lanes) < self.ends
        limited = over & (self.draw.random(self.lanes) < 0.5)
        self.obs = np.stack(
            [self.begin() if over[lane] else following[lane] for lane in range(self.lanes)]
        )
        action = self.draw.integers(0, 4, self.lanes)
        reward = self.draw.normal(size=self.lanes).astype(np.float32)
        return obs, following, action, reward, over & ~limited, limited


def make(parts: tuple[Any, Any], steps: int, lanes: int, frames: int | None) -> Any:  # noqa: ANN401
    """Make a `Stored` of `steps` steps, with as many rows as the module asks for."""
    module, columns = parts
    space = spaces.Box(0, 255, FRAME if frames is None else (frames, *FRAME), np.uint8)
    stacked = None if frames is None else columns.Frames.of(space, frames, "zero")
    schema = columns.schema_of(space, spaces.Discrete(4), stacked)
    rows = module.rows_of(steps, stacked) + module.ROWS_FOR_LOADS
    ring = bc.ReplayBuffer.create(None, schema, capacity=rows * lanes, lanes=lanes)
    return module.Stored(
        ring, steps, lanes, stacked, n_step=None, seed=1, persistent=False, dir=None
    )


def add(stored: Any, model: Model, walk: Walk) -> None:  # noqa: ANN401
    obs, following, action, reward, terminated, truncated = walk.step()
    stored.add(obs, following, action, reward, terminated | truncated, truncated)
    model.add(obs, following, action, reward, terminated, truncated)


@pytest.mark.filterwarnings("ignore::backcast.errors.WriterWarning")
@pytest.mark.parametrize("frames", [None, 3], ids=["", "frames"])
@pytest.mark.parametrize("lanes", [1, 3])
@pytest.mark.parametrize("ends", [0.0, 0.2, 0.6, 1.0])
@pytest.mark.parametrize("steps", [1, 2, 17])
def test_every_place_of_many_laps_is_kept_whatever_the_episodes(
    parts: tuple[Any, Any], steps: int, ends: float, lanes: int, frames: int | None
) -> None:
    stored, model = make(parts, steps, lanes, frames), Model(steps, lanes)
    walk = Walk(lanes, ends, frames)
    for _ in range(5 * steps + 3):
        add(stored, model, walk)
        compare(stored, model)
    assert not stored.lost().any()
    if ends == 1.0:
        assert stored.ring.stats()["rows_published"] == 2 * model.added * lanes


@pytest.mark.filterwarnings("ignore::backcast.errors.WriterWarning")
@pytest.mark.parametrize("ends", [0.0, 0.3, 1.0])
def test_places_outlast_saves_loads_and_cuts_beyond_the_first_lap(
    parts: tuple[Any, Any], ends: float
) -> None:
    steps, lanes = 9, 2
    stored, model = make(parts, steps, lanes, None), Model(steps, lanes)
    walk = Walk(lanes, ends, None)
    for number in range(6 * steps):
        add(stored, model, walk)
        if number % 5 == 2:
            stored = pickle.loads(pickle.dumps(stored))
            # The newest transitions end their episodes: a loaded environment begins new ones.
            model.cut([0, 1])
        if number % 7 == 3:
            stored.cut(np.array([True, False]))
            model.cut([0])
        compare(stored, model)
        compare_returns(stored, model, 3)
    assert stored.added == model.added
