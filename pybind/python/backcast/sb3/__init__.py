"""Replay buffers of Stable-Baselines3 (SB3) over rings, which other processes can fill and read.

>>> import backcast.sb3
>>> from stable_baselines3 import SAC  # doctest: +SKIP
>>> SAC(
...     "MlpPolicy", "Pendulum-v1", replay_buffer_class=backcast.sb3.ReplayBuffer
... )  # doctest: +SKIP

This module needs Stable-Baselines3 2.7 or later (``pip install 'backcast[sb3]'``);
``import backcast`` alone does not.
"""

from backcast.errors import MissingExtraError

try:
    from backcast.sb3._buffers import (
        DictReplayBuffer,
        HerReplayBuffer,
        NStepReplayBuffer,
        ReplayBuffer,
    )
    from backcast.sb3._dqn import PrioritizedDQN
    from backcast.sb3._prioritized import PrioritizedReplayBuffer, PrioritizedSamples
    from backcast.sb3._vec_env import VecEnv
except ImportError as _error:
    _missing = (_error.name or "").partition(".")[0]
    if _missing not in {"gymnasium", "stable_baselines3", "torch"}:
        raise
    raise MissingExtraError(
        f"backcast.sb3 builds on Stable-Baselines3, and {_missing} is not installed; "
        "run `pip install 'backcast[sb3]'`"
    ) from _error

__all__ = [
    "DictReplayBuffer",
    "HerReplayBuffer",
    "NStepReplayBuffer",
    "PrioritizedDQN",
    "PrioritizedReplayBuffer",
    "PrioritizedSamples",
    "ReplayBuffer",
    "VecEnv",
]
