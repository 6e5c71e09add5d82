"""Adds and draws of RLlib's prioritized buffer, and of Backcast's in a ring.

Needs RLlib: ``PYTHONPATH=pybind/python .venv-rllib/bin/python benches/python/rllib_draws.py``. Each
round calls all of them in turns; the figures are medians of CPU microseconds of the process.
"""

from __future__ import annotations

import os

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import itertools
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from backcast.rllib import EpisodeReplayBuffer
from in_turns import measure
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.replay_buffers import PrioritizedEpisodeReplayBuffer

COUNT, LENGTH = 100_000, 1_000
OBS = np.random.default_rng(1).normal(size=(LENGTH + 1, 17)).astype(np.float32)
ACTIONS = np.random.default_rng(2).normal(size=(LENGTH, 6)).astype(np.float32)


NUMBERS = itertools.count()


def fragments(steps: int) -> Iterator[SingleAgentEpisode]:
    """Return new episodes in fragments of so many steps, without end."""
    for number in NUMBERS:
        for start in range(0, LENGTH, steps):
            yield SingleAgentEpisode(
                str(number),
                observations=list(OBS[start : start + steps + 1]),
                actions=list(ACTIONS[start : start + steps]),
                rewards=[1.0] * steps,
                terminated=start + steps == LENGTH,
                t_started=start,
                len_lookback_buffer=0,
            ).to_numpy()


def adds(
    buffer: PrioritizedEpisodeReplayBuffer, steps: int, times: int, rounds: int
) -> Callable[[], object]:
    """Return a call that adds the next fragment, which is made before."""
    made = itertools.islice(fragments(steps), times * (rounds + 1))
    ready = iter(list(made))
    return lambda: buffer.add([next(ready)])


def main() -> None:
    """Print the figures."""
    buffers = {
        "RLlib": PrioritizedEpisodeReplayBuffer(COUNT, alpha=0.6),
        "Backcast, episodes": EpisodeReplayBuffer(COUNT, alpha=0.6, lanes=1, seed=1),
        "Backcast, arrays": EpisodeReplayBuffer(COUNT, alpha=0.6, lanes=1, seed=1, arrays=True),
    }
    whole = fragments(LENGTH)
    for episode in itertools.islice(whole, COUNT // LENGTH):
        for buffer in buffers.values():
            buffer.add([episode])
    for n_step in (1, 3):
        measure(
            f"draw 256, n_step {n_step}",
            {
                name: partial(buffer.sample, 256, n_step=n_step, beta=0.4)
                for name, buffer in buffers.items()
            },
            times=10,
            rounds=9,
        )
    errors = np.random.default_rng(3).random(256)

    def updates(buffer: PrioritizedEpisodeReplayBuffer) -> Callable[[], object]:
        def call() -> None:
            buffer.sample(256, beta=0.4)
            buffer.update_priorities(errors)

        return call

    measure(
        "draw 256 and set priorities",
        {name: updates(buffer) for name, buffer in buffers.items()},
        times=10,
        rounds=9,
    )
    for steps, times in ((1_000, 2), (50, 20), (1, 100)):
        measure(
            f"add {steps}",
            {name: adds(buffer, steps, times, 9) for name, buffer in buffers.items()},
            times=times,
            rounds=9,
        )


if __name__ == "__main__":
    main()
