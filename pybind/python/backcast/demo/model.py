"""A small neural network in NumPy: one hidden layer, tanh, trained by Adam with weight decay.

Adam is Kingma and Ba (2015), algorithm 1. The decay is decoupled from the gradient as in AdamW
(Loshchilov and Hutter, 2019), algorithm 2, without their schedule multiplier. Biases decay too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]


@dataclass
class Network:
    """Maps feature rows ``[B, inputs]`` to ``[B, outputs]``; create it with :meth:`fresh`."""

    parameters: list[Array]
    learning_rate: float = 1e-3
    weight_decay: float = 1e-2
    steps: int = 0
    _mean: list[Array] = field(default_factory=list, repr=False)
    _square: list[Array] = field(default_factory=list, repr=False)

    @classmethod
    def fresh(
        cls,
        inputs: int,
        hidden: int,
        outputs: int,
        seed: int,
        *,
        learning_rate: float,
        weight_decay: float,
    ) -> Network:
        """Draw initial weights; the output layer starts at zero, so the first prediction is 0."""
        first = np.random.default_rng(seed).normal(0.0, inputs**-0.5, (inputs, hidden))
        rest = [np.zeros(hidden), np.zeros((hidden, outputs)), np.zeros(outputs)]
        return cls([first, *rest], learning_rate, weight_decay)

    def predict(self, features: Array) -> Array:
        """Return ``[B, outputs]``."""
        inner, shift, outer, bias = self.parameters
        return np.asarray(np.tanh(features @ inner + shift) @ outer + bias)

    def gradients(self, features: Array, targets: Array) -> tuple[Array, list[Array]]:
        """Return the mean squared error of each output, and the gradient of their sum."""
        inner, shift, outer, bias = self.parameters
        active = np.tanh(features @ inner + shift)
        error = active @ outer + bias - targets
        slope = 2.0 / len(targets) * error
        inward = slope @ outer.T * (1.0 - active**2)
        gradients = [features.T @ inward, inward.sum(axis=0), active.T @ slope, slope.sum(axis=0)]
        return np.mean(error**2, axis=0), gradients

    def learn(self, features: Array, targets: Array) -> Array:
        """Take one step of Adam; return each output's loss before it."""
        loss, gradients = self.gradients(features, targets)
        if not self._mean:
            self._mean = [np.zeros_like(p) for p in self.parameters]
            self._square = [np.zeros_like(p) for p in self.parameters]
        self.steps += 1
        first, second = 1.0 - 0.9**self.steps, 1.0 - 0.999**self.steps
        moments = zip(self.parameters, gradients, self._mean, self._square, strict=True)
        for parameter, gradient, mean, square in moments:
            mean += 0.1 * (gradient - mean)
            square += 0.001 * (gradient**2 - square)
            parameter *= 1.0 - self.learning_rate * self.weight_decay
            parameter -= self.learning_rate * (mean / first) / (np.sqrt(square / second) + 1e-8)
        return loss
