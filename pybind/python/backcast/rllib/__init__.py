"""RLlib's episode replay buffer in a ring, for DQN and SAC of its new API stack.

This module needs RLlib (``pip install 'backcast[rllib]'``); ``import backcast`` alone does not.
"""

from backcast.errors import MissingExtraError

try:
    from backcast.rllib._arrays import AddArrays
    from backcast.rllib._buffer import EpisodeReplayBuffer
    from backcast.rllib._offline import export_offline
    from backcast.rllib._use import use_ring
except ImportError as _error:
    if (_error.name or "backcast").partition(".")[0] == "backcast":
        raise
    raise MissingExtraError(
        f"backcast.rllib builds on RLlib and PyTorch, and {_error.name} is not installed; "
        "run `pip install 'backcast[rllib]'`"
    ) from _error

__all__ = ["AddArrays", "EpisodeReplayBuffer", "export_offline", "use_ring"]
