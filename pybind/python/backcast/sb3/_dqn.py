"""SB3's DQN with prioritised replay."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from stable_baselines3 import DQN
from torch.nn import functional

from backcast.errors import ArgumentError
from backcast.sb3._prioritized import PrioritizedReplayBuffer


class PrioritizedDQN(DQN):
    """SB3's ``DQN`` with prioritised replay (Schaul et al., ICLR 2016).

    ``train`` is SB3's but for two lines: the loss of each transition is multiplied by its
    importance weight, and the priorities of the batch become the absolute TD errors. All arguments
    are those of ``DQN``. `replay_buffer_class` is :class:`PrioritizedReplayBuffer`, whose `select`
    goes in `replay_buffer_kwargs`; `n_steps` and `gamma` are passed on to it.

    Examples
    --------
    >>> model = PrioritizedDQN(  # doctest: +SKIP
    ...     "MlpPolicy",
    ...     "CartPole-v1",
    ...     replay_buffer_kwargs={"select": bc.Priority(alpha=0.6, beta=(0.4, 50_000))},
    ... )
    """

    replay_buffer: PrioritizedReplayBuffer
    replay_buffer_class: type[Any] | None
    replay_buffer_kwargs: dict[str, Any]
    n_steps: int

    def _setup_model(self) -> None:
        kind = self.replay_buffer_class or PrioritizedReplayBuffer
        if not issubclass(kind, PrioritizedReplayBuffer):
            raise ArgumentError(
                f"replay_buffer_class is {kind.__name__}; leave it out, or give "
                "backcast.sb3.PrioritizedReplayBuffer"
            )
        self.replay_buffer_class = kind
        if self.n_steps > 1:
            own = {"n_steps": self.n_steps, "gamma": self.gamma}
            self.replay_buffer_kwargs = own | self.replay_buffer_kwargs
            # SB3 warns that it does not pass it on itself.
            self.n_steps = 1
        super()._setup_model()

    def train(self, gradient_steps: int, batch_size: int = 100) -> None:
        """Update the network from weighted batches, and set the priorities of each batch."""
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        losses = []
        for _ in range(gradient_steps):
            data = self.replay_buffer.sample(batch_size, env=self._vec_normalize_env)
            discounts = self.gamma if data.discounts is None else data.discounts
            with torch.no_grad():
                best = self.q_net_target(data.next_observations).max(dim=1).values.reshape(-1, 1)
                targets = data.rewards + (1 - data.dones) * discounts * best
            values = self.q_net(data.observations)
            values = torch.gather(values, dim=1, index=data.actions.long())
            errors = functional.smooth_l1_loss(values, targets, reduction="none")
            loss = (data.weights * errors).mean()
            losses.append(loss.item())
            self.policy.optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.policy.parameters(), self.max_grad_norm)
            self.policy.optimizer.step()
            self.replay_buffer.update_priorities(data.indices, (targets - values.detach()).abs())
        self._n_updates += gradient_steps
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        self.logger.record("train/loss", np.mean(losses))
