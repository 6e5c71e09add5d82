"""Counts of transitions, as RLlib asks for them."""

from __future__ import annotations

from typing import Any, NoReturn

from ray.rllib.utils.metrics import (
    NUM_ENV_STEPS_ADDED,
    NUM_ENV_STEPS_ADDED_LIFETIME,
    NUM_ENV_STEPS_SAMPLED,
    NUM_ENV_STEPS_SAMPLED_LIFETIME,
    NUM_ENV_STEPS_STORED,
)
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger
from ray.rllib.utils.replay_buffers import PrioritizedEpisodeReplayBuffer

from backcast.errors import ArgumentError


class Counted(PrioritizedEpisodeReplayBuffer):
    """Base of a buffer that counts transitions and no episodes."""

    metrics: MetricsLogger
    sampled_timesteps: int
    _metrics_num_episodes_for_smoothing: int
    _added: int
    # Transitions added and drawn that were reported.
    _logged: list[int]

    def get_metrics(self) -> Any:
        """Return how many transitions were added and drawn, and are there, as RLlib reports it."""
        log = self.metrics.log_value
        for now, lifetime, steps, at in (
            (NUM_ENV_STEPS_ADDED, NUM_ENV_STEPS_ADDED_LIFETIME, self._added, 0),
            (NUM_ENV_STEPS_SAMPLED, NUM_ENV_STEPS_SAMPLED_LIFETIME, self.sampled_timesteps, 1),
        ):
            log(now, steps - self._logged[at], reduce="sum")
            log(lifetime, steps - self._logged[at], reduce="lifetime_sum")
            self._logged[at] = steps
        window = self._metrics_num_episodes_for_smoothing
        log(NUM_ENV_STEPS_STORED, len(self), reduce="mean", window=window)
        return self.metrics.reduce()

    def get_num_timesteps(self, module_id: str | None = None) -> int:
        """Return the number of transitions that can be drawn."""
        return len(self)

    def get_num_episodes(self, module_id: str | None = None) -> NoReturn:
        """Refuse: a ring forgets single transitions, and counts no episodes."""
        raise ArgumentError(
            "a ring counts no episodes; call get_num_timesteps(), or see "
            "backcast.summaries.summarize(buffer.ring)"
        )

    get_num_episodes_evicted = get_num_episodes

    def get_sampled_timesteps(self, module_id: str | None = None) -> int:
        """Return the number of transitions that were drawn."""
        return self.sampled_timesteps

    def get_added_timesteps(self, module_id: str | None = None) -> int:
        """Return the number of transitions that were added."""
        return self._added
