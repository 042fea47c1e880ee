"""Gradient descent: θ ← θ − lr ∇L."""

from __future__ import annotations

from typing import Literal

import numpy as np

from attndyn import registry
from attndyn.backend import Array
from attndyn.optim.optimizer import ReplicaGradient, Stepped
from attndyn.spec.base import SteppedOptions


class GradientDescentOptions(SteppedOptions):
    """Options of `gd`."""

    kind: Literal["gd"] = "gd"


@registry.optimizer("gd")
class GradientDescent(Stepped):
    """Plain gradient descent; its time is the sum of the learning rates."""

    Options = GradientDescentOptions

    def advance(self, parameters: Array, gradients: Array, step: int, gradient: ReplicaGradient) -> None:
        """See `Optimizer.advance`."""
        parameters -= self.rate(step) * gradients

    def time(self, steps: np.ndarray) -> np.ndarray | None:
        """Sum of the learning rates of the updates before a state."""
        return self._sum_of_rates(steps)
