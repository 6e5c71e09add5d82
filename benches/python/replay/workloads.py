"""Workloads, with the same rows for every contender.

w1: a million transitions of a continuous-control task: 84 floats of observation, 6 of action, a
reward. w2: stacks of four frames out of a hundred thousand. w3: windows of 20 + 5 steps out of a
million observations of 32 floats. w4: see `recurrent`. w5: see `two_processes`.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

OBS: Final = 84
ACTION: Final = 6
CAPACITY: Final = 1_000_000
EPISODE: Final = 1_000
"""Steps of every episode."""
BATCH: Final = 256
MANY: Final = 64
"""Rows of a large append."""
SHAPE: Final = (84, 84)
"""Pixels of a frame."""
STACK: Final = 4
FRAMES: Final = 100_000
MOVES: Final = 997
"""Number of different pictures; a prime, so that episodes do not repeat each other."""
STEP_OBS: Final = 32
HISTORY: Final = 20
FUTURE: Final = 5

Frame = npt.NDArray[np.uint8]


class Transition(NamedTuple):
    """A step, or several with a leading axis. Peers store next_obs; Backcast does not need it."""

    obs: npt.NDArray[np.float32]
    action: npt.NDArray[np.float32]
    reward: npt.NDArray[np.float32]
    next_obs: npt.NDArray[np.float32]
    done: npt.NDArray[np.bool_]


def transitions(count: int, shape: tuple[int, ...] = (), seed: int = 0) -> list[Transition]:
    """Make `count` consecutive steps of `shape`; ``obs[..., 0]`` is the number of the step."""
    draws = np.random.default_rng(seed)
    obs = draws.standard_normal((count + 1, *shape, OBS), np.float32)
    obs[..., 0] = np.arange(count + 1).reshape(-1, *([1] * len(shape)))
    action = draws.standard_normal((count, *shape, ACTION), np.float32)
    reward = draws.standard_normal((count, *shape), np.float32)
    done = np.zeros((count, *shape), bool)
    return [Transition(obs[i], action[i], reward[i], obs[i + 1], done[i]) for i in range(count)]


def observations(first: int, count: int) -> npt.NDArray[np.float32]:
    """Make observations of w3; ``obs[:, 0]`` numbers them from `first` on."""
    obs = np.random.default_rng(first).standard_normal((count, STEP_OBS), np.float32)
    obs[:, 0] = np.arange(first, first + count)
    return obs


def frames(count: int, seed: int = 0) -> Iterator[Frame]:
    """Yield frames, each with its number in its first four bytes; a later one reuses its array."""
    moves = np.random.default_rng(seed).integers(0, 256, (MOVES, *SHAPE), np.uint8)
    for number in range(count):
        frame = moves[number % MOVES]
        frame.reshape(-1)[:4] = np.frombuffer(np.uint32(number).tobytes(), np.uint8)
        yield frame


def numbers(stack: Frame) -> npt.NDArray[np.uint32]:
    """Read the numbers of frames ``[..., 84, 84]``."""
    first = np.ascontiguousarray(stack.reshape(*stack.shape[:-2], -1)[..., :4])
    return first.view(np.uint32)[..., 0]
