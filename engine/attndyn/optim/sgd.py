"""Gradient descent with momentum: v ← μ v + g; θ ← θ − lr v, or θ ← θ − lr (g + μ v) with Nesterov's.

g is the gradient plus `weight_decay` times the parameters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from attndyn import registry
from attndyn.backend import Array, Backend
from attndyn.optim.optimizer import ReplicaGradient, Stepped, column
from attndyn.spec.base import Flaw, SteppedOptions, Varies


class SGDOptions(SteppedOptions):
    """Options of `sgd`."""

    kind: Literal["sgd"] = "sgd"
    momentum: Annotated[float, Varies()] = Field(default=0.0, ge=0, lt=1, description="share of v kept, μ")
    nesterov: bool = Field(default=False, description="look ahead along the momentum")
    weight_decay: Annotated[float, Varies()] = Field(
        default=0.0, ge=0, description="added to the gradient: this times the parameters"
    )

    def flaws(self) -> Iterator[Flaw]:
        """Refuse what would have no effect."""
        if self.nesterov and self.momentum == 0:
            yield Flaw(("nesterov",), "has no effect without momentum")


@registry.optimizer("sgd")
class SGD(Stepped):
    """Momentum; its time is the sum of the learning rates, as for `gd` (it does not count the momentum)."""

    Options = SGDOptions

    def __init__(
        self,
        options: Sequence[SGDOptions],
        shape: tuple[int, int],
        steps: int,
        time: float | None,
        backend: Backend,
    ):
        super().__init__(options, shape, steps, time, backend)
        self._momentum = column(options, "momentum", backend)
        self._decay = column(options, "weight_decay", backend)
        self._nesterov = options[0].nesterov
        self._buffers = {"velocity": backend.zeros(shape)}

    def advance(self, parameters: Array, gradients: Array, step: int, gradient: ReplicaGradient) -> None:
        """See `Optimizer.advance`."""
        gradients = gradients + self._decay * parameters
        velocity = self._buffers["velocity"]
        velocity *= self._momentum
        velocity += gradients
        direction = gradients + self._momentum * velocity if self._nesterov else velocity
        parameters -= self.rate(step) * direction

    def time(self, steps: np.ndarray) -> np.ndarray | None:
        """Sum of the learning rates of the updates before a state."""
        return self._sum_of_rates(steps)
