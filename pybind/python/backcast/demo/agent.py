"""Agent of the demo: a small value network in NumPy, and the double Q-learning that trains it.

Double deep Q-networks: van Hasselt and others (2016), https://arxiv.org/abs/1509.06461. Here the
returns are those of three steps, and the slow network follows a little at every update.
Adam is Kingma and Ba (2015), https://arxiv.org/abs/1412.6980, algorithm 1.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import numpy as np

from backcast.demo.market import ACTIONS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    import backcast as bc

    Array = NDArray[np.float32]

N_STEP, GAMMA = 3, 0.97
_HIDDEN = 32
_RATE = 1e-3
_FOLLOW = 0.01
# Rewards are log returns of ten seconds; in thousandths they are near one.
_REWARD = 1e3
# Most features lie within one. Larger errors than this one count as this.
_MOST_SEEN, _MOST_WRONG = 4.0, 5.0


class Network:
    """Maps observations ``[B, F]`` to the values of the actions ``[B, 3]``: one layer of tanh."""

    def __init__(self, features: int, seed: int = 0) -> None:
        draw = np.random.default_rng(seed)
        first = draw.normal(0, features**-0.5, (features, _HIDDEN))
        last = draw.normal(0, 0.1 * _HIDDEN**-0.5, (_HIDDEN, ACTIONS))
        self.weights: dict[str, Array] = {
            "first": first.astype("f4"),
            "shift": np.zeros(_HIDDEN, "f4"),
            "last": last.astype("f4"),
            "bias": np.zeros(ACTIONS, "f4"),
        }

    def hidden(self, obs: Array) -> tuple[Array, Array]:
        """Return the clipped observations, and the activations of the hidden layer."""
        seen = np.clip(obs, -_MOST_SEEN, _MOST_SEEN)
        return seen, np.tanh(seen @ self.weights["first"] + self.weights["shift"])

    def __call__(self, obs: Array) -> Array:
        """Return the values of the actions."""
        return self.hidden(obs)[1] @ self.weights["last"] + self.weights["bias"]

    def best(self, obs: Array) -> NDArray[np.int64]:
        """Return the actions of the highest values."""
        return np.asarray(self(obs).argmax(axis=1))


class Learner:
    """A network, its slow copy, and the state of Adam."""

    def __init__(self, features: int, seed: int) -> None:
        self.network = Network(features, seed)
        self.updates = 0
        self._slow = copy.deepcopy(self.network)
        zeros = {name: np.zeros_like(array) for name, array in self.network.weights.items()}
        self._mean, self._square = zeros, copy.deepcopy(zeros)

    def learn(self, batch: bc.Batch) -> None:
        """Take a step towards the rewards of the next steps and the value after them."""
        network, action, rows = self.network, batch["action"], np.arange(len(batch["action"]))
        after = batch["n_next_obs"]
        ahead = self._slow(after)[rows, network.best(after)]
        goal = _REWARD * batch["n_reward"] + batch["n_discount"] * ahead

        seen, active = network.hidden(batch["obs"])
        values = active @ network.weights["last"] + network.weights["bias"]
        slope = np.zeros_like(values)
        wrong = values[rows, action] - goal
        slope[rows, action] = np.clip(wrong, -_MOST_WRONG, _MOST_WRONG) / len(rows)
        inward = slope @ network.weights["last"].T * (1 - active**2)
        gradients = {"first": seen.T @ inward, "shift": inward.sum(axis=0)}
        gradients |= {"last": active.T @ slope, "bias": slope.sum(axis=0)}
        self._descend(gradients)

    def _descend(self, gradients: dict[str, Array]) -> None:
        """Take a step of Adam, and let the slow network follow."""
        self.updates += 1
        first, second = 1 - 0.9**self.updates, 1 - 0.999**self.updates
        for name, gradient in gradients.items():
            mean, square, array = self._mean[name], self._square[name], self.network.weights[name]
            mean += 0.1 * (gradient - mean)
            square += 0.001 * (gradient**2 - square)
            array -= _RATE * (mean / first) / (np.sqrt(square / second) + 1e-8)
            self._slow.weights[name] += _FOLLOW * (array - self._slow.weights[name])
